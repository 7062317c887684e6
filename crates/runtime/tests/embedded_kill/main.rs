//! `kill -9` of the embedded runtime at random moments while pods come and go: nothing lost, doubled or leaked.
//!
//! `RUBELET_KILLS=100` for the long form, `RUBELET_SEED` to repeat a run.

#[path = "../contract/busybox.rs"]
mod busybox;
#[path = "../contract/cri.rs"]
#[expect(dead_code, reason = "shared with the contract, which asks more")]
mod cri;
mod random;
#[path = "../contract/subject.rs"]
mod subject;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cri::Cri;
use random::Random;
use rubelet_cri::v1::{self, ContainerState};
use rubelet_testbed::wait;
use subject::embedded;

/// Pods that come and go at the same time.
const WORKERS: u64 = 4;

#[test]
fn the_runtime_can_be_killed_at_any_moment() {
    let Some(mut runtime) = embedded("kill", None) else { return };
    let kills = number("RUBELET_KILLS").unwrap_or(8);
    let seed = number("RUBELET_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("RUBELET_KILLS={kills} RUBELET_SEED={seed}");
    let image = busybox::import(&runtime.data().join("images"));
    let images: Vec<String> = [Some("host".to_owned()), image].into_iter().flatten().collect();
    let cri = Cri::new(&runtime.socket(), "host", &runtime.cgroup(), runtime.dir());
    let tokio =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio");

    let over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let mut cri = cri.clone();
            cri.image.clone_from(&images[usize::try_from(number).expect("small") % images.len()]);
            tokio.spawn(churn(cri, Random::new(seed ^ (number + 1)), Arc::clone(&over)))
        })
        .collect();
    let mut random = Random::new(seed);
    for _ in 0..kills {
        // When the axe falls is what is random here; nothing waits for this to have been long enough.
        let pause = Duration::from_millis(random.below(250));
        tokio.block_on(async { tokio::time::sleep(pause).await });
        runtime.kill();
        runtime.launch();
    }
    over.store(true, Ordering::Relaxed);
    let mut survivors = Vec::new();
    let mut lives = 0;
    for worker in workers {
        let done = tokio.block_on(worker).expect("a worker");
        survivors.extend(done.survivors);
        lives += done.lives;
    }
    eprintln!("{lives} containers lived and died, {} live on", survivors.len());

    tokio.block_on(async {
        let pods = cri.pods(None).await;
        assert_eq!(pods.len(), survivors.len(), "no pod is lost, none is left over");
        for survivor in &survivors {
            let status = cri.status(&survivor.id).await.expect("is known");
            assert_eq!(status.state(), ContainerState::ContainerRunning);
            assert_eq!(status.started_at, survivor.started_at, "it was not started again");
            assert_eq!(starts(&survivor.marker), 1);
            cri.exec(&survivor.id, "true", 0).await.expect("it is alive");
        }
        cri.clear().await.expect("all can be removed");
    });
    assert_eq!(entries(&runtime.data().join("containers")), Vec::<String>::new());
    assert_eq!(entries(&runtime.data().join("sandboxes")), Vec::<String>::new());
    assert_eq!(runtime.mounts(), Vec::<PathBuf>::new());
    let shims = wait::until(Duration::from_secs(20), || runtime.shims().is_empty().then_some(()));
    assert!(shims.is_some(), "shims are left: {:?}", runtime.shims());
    assert_eq!(runtime.groups(), Vec::<PathBuf>::new());
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn entries(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn starts(marker: &std::path::Path) -> usize {
    std::fs::read_to_string(marker).unwrap_or_default().lines().count()
}

/// A container that is to be found alive in the end.
struct Survivor {
    id: String,
    started_at: i64,
    marker: PathBuf,
}

#[derive(Default)]
struct Done {
    survivors: Vec<Survivor>,
    lives: usize,
}

/// How a container of the churn is to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// By itself, with this code.
    Exit(i32),
    /// By the runtime, with this grace.
    Stop { grace: i64 },
    /// Not at all.
    Survive,
}

impl End {
    fn choose(random: &mut Random, survivors: usize) -> Self {
        match random.below(4) {
            0 if survivors < 2 => Self::Survive,
            0 | 1 => Self::Stop { grace: i64::from(random.below(2) == 0) * 30 },
            _ => Self::Exit(i32::try_from(random.below(200)).expect("small")),
        }
    }

    fn script(self, random: &mut Random) -> String {
        match self {
            Self::Exit(code) => format!("sleep 0.0{}; exit {code}", random.below(9)),
            // A child of its own, so that there is a tree to end.
            Self::Stop { .. } => "trap 'exit 21' TERM; sleep 3600 & while :; do wait; done".to_owned(),
            Self::Survive => "exec sleep 3600".to_owned(),
        }
    }

    fn codes(self) -> &'static [i32] {
        match self {
            Self::Exit(_) | Self::Survive => &[],
            Self::Stop { grace: 0 } => &[137],
            Self::Stop { .. } => &[21, 143],
        }
    }
}

/// Makes pods and removes them until told otherwise, whatever becomes of the runtime meanwhile.
async fn churn(cri: Cri, mut random: Random, over: Arc<AtomicBool>) -> Done {
    let mut done = Done::default();
    while !over.load(Ordering::Relaxed) {
        let end = End::choose(&mut random, done.survivors.len());
        let marker = cri.folder("marker").join("starts");
        let sandbox = vary(cri.pod_config(), &mut random);
        let pod = sure(|| run_pod(&cri, &sandbox)).await;
        let (id, status) = live(&cri, &pod, &sandbox, &marker, &end.script(&mut random)).await;
        done.lives += 1;
        if end == End::Survive {
            done.survivors.push(Survivor { id, started_at: status.started_at, marker });
            continue;
        }
        if let End::Stop { grace } = end {
            // Killed with its runtime or not, a command never does harm.
            let _ = cri.exec(&id, "true", 5).await;
            started(&marker).await;
            sure(|| cri.stop(&id, grace)).await;
        }
        let status = sure(|| ended(&cri, &id)).await;
        assert_eq!(starts(&marker), 1, "it ran once");
        match end {
            End::Exit(code) => assert_eq!(
                (status.exit_code, status.reason.as_str()),
                (code, if code == 0 { "Completed" } else { "Error" })
            ),
            _ => assert!(end.codes().contains(&status.exit_code), "{status:?}"),
        }
        sure(|| cri.stop_pod(&pod)).await;
        sure(|| cri.remove_pod(&pod)).await;
        assert!(sure(|| listed_pod(&cri, &sandbox)).await.is_none(), "what is removed does not come back");
    }
    done
}

/// Waits until the container's own program has spoken.
async fn started(marker: &std::path::Path) {
    while starts(marker) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A container that has begun. A start that the runtime did not live to hand to a shim is repeated with a new attempt.
async fn live(
    cri: &Cri,
    pod: &str,
    sandbox: &v1::PodSandboxConfig,
    marker: &std::path::Path,
    last: &str,
) -> (String, v1::ContainerStatus) {
    // The trap first, if there is one: whoever has read the mark may send the signal.
    let (trap, rest) = last
        .split_once("TERM; ")
        .map_or((String::new(), last), |(trap, rest)| (format!("{trap}TERM; "), rest));
    let mut config = cri.container_config(&format!("{trap}echo x >> /marker/starts; {rest}"));
    let options = sandbox.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    config.linux.get_or_insert_default().security_context.get_or_insert_default().namespace_options =
        options.and_then(|context| context.namespace_options.clone());
    config.mounts.push(v1::Mount {
        host_path: marker.parent().expect("a folder").to_string_lossy().into_owned(),
        container_path: "/marker".to_owned(),
        ..Default::default()
    });
    loop {
        let id = sure(|| create(cri, pod, sandbox, &config)).await;
        let status = sure(|| begin(cri, &id)).await;
        if status.state() == ContainerState::ContainerExited && status.reason == "Unknown" {
            assert_eq!(starts(marker), 0, "a container that ran has an exit code");
            config.metadata.as_mut().expect("metadata").attempt += 1;
            continue;
        }
        return (id, status);
    }
}

/// Tries until the runtime lives long enough to answer.
async fn sure<T, F: Future<Output = cri::Asked<T>>>(mut attempt: impl FnMut() -> F) -> T {
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(status) if is_about_the_connection(&status) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(status) => panic!("{status}"),
        }
    }
}

fn is_about_the_connection(status: &tonic::Status) -> bool {
    let text = format!("{status:?}");
    matches!(status.code(), tonic::Code::Unavailable | tonic::Code::Cancelled)
        || ["transport", "BrokenPipe", "ConnectionReset", "connection"].iter().any(|word| text.contains(word))
}

async fn listed_pod(cri: &Cri, sandbox: &v1::PodSandboxConfig) -> cri::Asked<Option<String>> {
    let filter = Some(v1::PodSandboxFilter { label_selector: sandbox.labels.clone(), ..Default::default() });
    let list = cri
        .connected()
        .await?
        .list_pod_sandbox(v1::ListPodSandboxRequest { filter })
        .await?
        .into_inner()
        .items;
    assert!(list.len() <= 1, "no pod twice");
    Ok(list.into_iter().next().map(|pod| pod.id))
}

async fn run_pod(cri: &Cri, sandbox: &v1::PodSandboxConfig) -> cri::Asked<String> {
    match listed_pod(cri, sandbox).await? {
        Some(id) => Ok(id),
        None => cri.run_pod(sandbox).await,
    }
}

async fn create(
    cri: &Cri,
    pod: &str,
    sandbox: &v1::PodSandboxConfig,
    config: &v1::ContainerConfig,
) -> cri::Asked<String> {
    let filter = Some(v1::ContainerFilter { pod_sandbox_id: pod.to_owned(), ..Default::default() });
    let list = cri
        .connected()
        .await?
        .list_containers(v1::ListContainersRequest { filter })
        .await?
        .into_inner()
        .containers;
    match list.into_iter().find(|container| container.metadata == config.metadata) {
        Some(container) => Ok(container.id),
        None => cri.create(pod, sandbox, config).await,
    }
}

async fn begin(cri: &Cri, id: &str) -> cri::Asked<v1::ContainerStatus> {
    let status = cri.status(id).await?;
    if status.state() != ContainerState::ContainerCreated {
        return Ok(status);
    }
    cri.start(id).await?;
    cri.status(id).await
}

async fn ended(cri: &Cri, id: &str) -> cri::Asked<v1::ContainerStatus> {
    loop {
        let status = cri.status(id).await?;
        if status.state() == ContainerState::ContainerExited {
            return Ok(status);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A network of its own or not, a process namespace for all of its containers or not.
fn vary(mut config: v1::PodSandboxConfig, random: &mut Random) -> v1::PodSandboxConfig {
    let context = config.linux.get_or_insert_default().security_context.get_or_insert_default();
    let options = context.namespace_options.get_or_insert_default();
    if random.below(2) == 0 {
        options.network = v1::NamespaceMode::Pod as i32;
    }
    if random.below(4) == 0 {
        options.pid = v1::NamespaceMode::Pod as i32;
    }
    config
}
