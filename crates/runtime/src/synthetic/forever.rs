//! A synthetic runtime in a process of its own, for benchmarks.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::profile::Profile;
use super::server::SyntheticRuntime;
use super::world::{ContainerSpec, PodSpec, Stir, World};

/// The configuration of [`serve_forever`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The socket to listen on.
    pub socket: PathBuf,
    /// The runtime to behave like.
    pub profile: Profile,
    /// The seed of all randomness.
    pub seed: u64,
    /// The pods on the node.
    pub population: Population,
    /// The number of entries per message of the streaming lists; `None` for a runtime without them.
    pub streaming_lists: Option<usize>,
    /// The pause between random steps of the node; `None` for a node on which nothing happens.
    pub churn: Option<Duration>,
}

impl Config {
    /// Creates the configuration of an empty containerd 2.x on this socket.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self {
            socket: socket.into(),
            profile: Profile::default(),
            seed: 0,
            population: Population::default(),
            streaming_lists: None,
            churn: None,
        }
    }
}

/// A number of pods of the same kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Population {
    /// The number of pods, each with one sandbox.
    pub pods: usize,
    /// The number of running containers in each pod.
    pub running: usize,
    /// The number of exited containers in each pod.
    pub exited: usize,
}

impl World {
    /// Adds pods with names of typical length, without events: they were there before anyone looked.
    pub fn populate(&mut self, population: Population) {
        self.quietly(|world| {
            for n in 0..population.pods {
                let deployment = n / 10;
                let name = format!("deployment-{deployment:04}-7db6d8ff4d-{n:05x}");
                let mut pod = PodSpec::new(format!("team-{:03}", n % 100), name)
                    .label("app.kubernetes.io/name", format!("deployment-{deployment:04}"))
                    .label("pod-template-hash", "7db6d8ff4d");
                for k in 0..population.running {
                    pod = pod.container(format!("container-{k}"));
                }
                for k in 0..population.exited {
                    pod = pod.container(ContainerSpec::new(format!("init-{k}")).exited(0));
                }
                world.add_pod(pod);
            }
        });
    }
}

/// Serves until the process ends. Returns only if it cannot start.
///
/// It is ready when the socket accepts connections: by then the node is fully populated.
///
/// # Errors
/// If the socket cannot be created.
pub fn serve_forever(config: Config) -> io::Result<Infallible> {
    let Config { socket, profile, seed, population, streaming_lists, churn } = config;
    let mut runtime = SyntheticRuntime::new(profile).seed(seed).populate(population);
    if let Some(batch) = streaming_lists {
        runtime = runtime.streaming_lists(batch);
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let serving = runtime.serve(socket).await?;
        let Some(period) = churn else { return std::future::pending().await };
        let stir = Stir {
            pods: population.pods.max(1),
            containers: population.running + population.exited + 1,
            ..Stir::default()
        };
        let mut steps = tokio::time::interval(period);
        loop {
            steps.tick().await;
            serving.world(|world| world.stir(1, stir));
        }
    })
}
