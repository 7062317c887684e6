//! Shows the logs of pods while they are written, on a thread of its own: whoever reads slowly holds up nobody but it.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::oneshot;

use super::printer::{Printer, Streams, Style};
use super::tail::Tail;
use crate::signals;

/// How often to look for more.
const LOOK: Duration = Duration::from_millis(100);

/// A container that is followed.
struct Followed {
    tail: Tail,
    printer: Printer,
}

/// Follows the logs of all containers of some pods. Each line is shown after the name of its container.
pub(crate) struct Follower {
    logs: PathBuf,
    known: BTreeSet<PathBuf>,
    /// Bounded by the containers of the pods. Dropping it ends the thread, after all that there is was shown.
    newcomers: Sender<Followed>,
    ended: oneshot::Receiver<()>,
}

impl Follower {
    pub(crate) fn new(logs: PathBuf) -> io::Result<Self> {
        let (newcomers, received) = channel();
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("logs".to_owned()).spawn(move || {
            signals::output::never_stops_this_thread();
            show_all(&received);
            drop(end);
        })?;
        Ok(Self { logs, known: BTreeSet::new(), newcomers, ended })
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
                if self.known.insert(folder.clone()) {
                    let prefix = format!("[{name}/{}] ", container.name);
                    let printer = Printer::new(Style { prefix, ..Style::default() });
                    // A thread that is gone has nobody to show anything to.
                    let _ = self.newcomers.send(Followed { tail: Tail::new(folder, 0, None), printer });
                }
            }
        }
    }

    /// Shows what is left and ends.
    pub(crate) async fn finish(self) {
        drop(self.newcomers);
        // An error is how the end is told.
        let _ = self.ended.await;
    }
}

fn show_all(newcomers: &Receiver<Followed>) {
    let mut all: Vec<Followed> = Vec::new();
    loop {
        let is_over = match newcomers.recv_timeout(LOOK) {
            Ok(newcomer) => {
                all.push(newcomer);
                all.extend(newcomers.try_iter());
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        for followed in &mut all {
            followed.show(is_over);
        }
        if is_over {
            return;
        }
    }
}

impl Followed {
    fn show(&mut self, is_over: bool) {
        let (mut out, mut err) = (io::stdout(), io::stderr());
        let mut streams = Streams { out: &mut out, err: &mut err };
        // Nobody who reads us any more is no reason not to run the pods.
        let mut each = |line: &[u8]| drop(self.printer.show(line, &mut streams));
        let read =
            if is_over { self.tail.read_to_end(&mut each) } else { self.tail.read(&mut each).map(drop) };
        if let Err(error) = read {
            tracing::warn!(%error, "a log cannot be read");
        }
        if is_over {
            let _ = self.printer.finish(&mut streams);
        }
    }
}
