//! The worker that is the runtime. Its work is to replace a container by another in some of the pods.

use std::path::Path;

use anyhow::Context;
use rubelet_runtime::synthetic::{self, ContainerSpec, Handle, Profile, SandboxId, SyntheticRuntime};

use super::worker::{Population, Work, serve};

pub(super) async fn work(socket: &Path, population: Population) -> anyhow::Result<()> {
    // Nobody expects events from this runtime, so none wait for a reader.
    let runtime = SyntheticRuntime::new(Profile::Ctd16).populate(synthetic::Population {
        pods: population.pods,
        running: population.containers,
        exited: 0,
    });
    let handle = runtime.serve(socket).await?;
    serve(Node { handle, rounds: 0 }).await
}

struct Node {
    handle: Handle,
    rounds: u32,
}

impl Work for Node {
    /// In `number` pods, makes a container exit, removes it, and runs its successor.
    async fn once(&mut self, number: u64) -> anyhow::Result<()> {
        self.rounds += 1;
        let number = usize::try_from(number)?;
        self.handle.world(|world| {
            let pods: Vec<SandboxId> =
                world.sandboxes().take(number).map(|sandbox| sandbox.id().clone()).collect();
            for pod in pods {
                let old = world.containers_of(&pod).next().context("a pod without containers")?;
                let (id, name) = (old.id().clone(), old.name().to_owned());
                world.exit(&id, 1);
                world.remove(&id);
                world.run(&pod, ContainerSpec::new(name).attempt(self.rounds));
            }
            Ok(())
        })
    }
}
