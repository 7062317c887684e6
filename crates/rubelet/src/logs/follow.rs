//! Shows the logs of pods while they are written.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::line::{Line, Stream};

/// How often to look for more.
const LOOK: Duration = Duration::from_millis(100);

/// Follows the logs of all containers of some pods. Each line is shown after the name of its container.
pub(crate) struct Follower {
    logs: PathBuf,
    known: BTreeMap<PathBuf, ()>,
    tasks: JoinSet<()>,
    is_over: watch::Sender<bool>,
}

impl Follower {
    pub(crate) fn new(logs: PathBuf) -> Self {
        Self { logs, known: BTreeMap::new(), tasks: JoinSet::new(), is_over: watch::Sender::new(false) }
    }

    /// Follows these pods, if it does not yet.
    pub(crate) fn follow<'a>(&mut self, pods: impl Iterator<Item = &'a Pod>) {
        for pod in pods {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let metadata = &pod.metadata;
            let (namespace, name, uid) =
                (text(&metadata.namespace), text(&metadata.name), text(&metadata.uid));
            let folder = self.logs.join(format!("{namespace}_{name}_{uid}"));
            let spec = pod.spec.as_ref();
            let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
            let regular = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
            for container in init.iter().chain(regular) {
                let folder = folder.join(&container.name);
                if self.known.insert(folder.clone(), ()).is_none() {
                    let prefix = format!("[{name}/{}] ", container.name);
                    self.tasks.spawn(follow_container(folder, prefix, self.is_over.subscribe()));
                }
            }
        }
    }

    /// Shows what is left and ends.
    pub(crate) async fn finish(mut self) {
        self.is_over.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Shows one log after the other, as the container is started again.
async fn follow_container(folder: PathBuf, prefix: String, mut is_over: watch::Receiver<bool>) {
    for restart in 0_u32.. {
        let path = folder.join(format!("{restart}.log"));
        if !follow_file(&path, &folder.join(format!("{}.log", restart + 1)), &prefix, &mut is_over).await {
            return;
        }
    }
}

/// Shows a log until the next one begins; `false` when it is all over.
async fn follow_file(path: &Path, next: &Path, prefix: &str, is_over: &mut watch::Receiver<bool>) -> bool {
    let mut reader = None;
    let mut raw = String::new();
    loop {
        // Before reading: what is written after this is read in the next round.
        let ends = *is_over.borrow();
        let has_next = tokio::fs::try_exists(next).await.unwrap_or(false);
        if reader.is_none() {
            reader = tokio::fs::File::open(path).await.ok().map(BufReader::new);
        }
        if let Some(reader) = &mut reader {
            while reader.read_line(&mut raw).await.is_ok_and(|read| read > 0) {
                if raw.ends_with('\n') {
                    show(prefix, raw.trim_end_matches('\n'));
                    raw.clear();
                }
            }
        }
        if has_next {
            return true;
        }
        if ends {
            return false;
        }
        let _ = tokio::time::timeout(LOOK, is_over.changed()).await;
    }
}

fn show(prefix: &str, raw: &str) {
    let Some(line) = Line::read(raw) else { return };
    // Nobody who reads us any more is no reason not to run the pods.
    let _ = match line.stream {
        Stream::Out => writeln!(io::stdout(), "{prefix}{}", line.text),
        Stream::Err => writeln!(io::stderr(), "{prefix}{}", line.text),
    };
}
