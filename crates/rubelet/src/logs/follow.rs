//! Shows the logs of pods while they are written, on a thread of its own: whoever reads slowly holds up nobody but it.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use rubelet_agent::settings::LogReader;
use tokio::sync::oneshot;

use super::printer::{Printer, Streams, Style};
use super::tail::{Tail, Told};
use crate::signals;

/// How often to look for more.
const LOOK: Duration = Duration::from_millis(100);

/// What the thread is told.
enum News {
    /// There is a container to follow: its logs are there, and this stands before its lines.
    Container { folder: PathBuf, prefix: String },
    /// Its instances before this one have ended.
    Ended { folder: PathBuf, before: u32 },
}

/// Follows the logs of all containers of some pods. Each line is shown after the name of its container.
pub(crate) struct Follower {
    logs: PathBuf,
    /// Which instances of a container have ended, as the thread was told.
    told: BTreeMap<PathBuf, u32>,
    /// Bounded by the containers of the pods and by how often they are started. Dropping it ends the thread, after all that
    /// there is was shown.
    news: Sender<News>,
    ended: oneshot::Receiver<Option<io::Error>>,
}

impl Follower {
    /// Of pods whose logs are below `logs`. The reader hears what was read; `complain` that something cannot be shown, once.
    pub(crate) fn new(
        logs: PathBuf,
        reader: LogReader,
        complain: impl Fn(&io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        let (news, received) = channel();
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("logs".to_owned()).spawn(move || {
            signals::output::never_stops_this_thread();
            // Nobody waits for it any more if nobody receives it.
            let _ = end.send(show_all(&received, &reader, complain));
        })?;
        Ok(Self { logs, told: BTreeMap::new(), news, ended })
    }

    /// Follows these pods, which are as it is said.
    pub(crate) fn follow<'a>(&mut self, pods: impl Iterator<Item = (&'a Pod, &'a PodStatus)>) {
        for (pod, status) in pods {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let metadata = &pod.metadata;
            let (namespace, name, uid) =
                (text(&metadata.namespace), text(&metadata.name), text(&metadata.uid));
            let folder = self.logs.join(format!("{namespace}_{name}_{uid}"));
            let spec = pod.spec.as_ref();
            let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
            let regular = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
            for container in init.iter().chain(regular) {
                let prefix = format!("[{name}/{}] ", container.name);
                self.follow_container(
                    folder.join(&container.name),
                    prefix,
                    ended_before(status, &container.name),
                );
            }
        }
    }

    fn follow_container(&mut self, folder: PathBuf, prefix: String, before: u32) {
        // A thread that is gone has nobody to show anything to.
        if !self.told.contains_key(&folder) {
            let _ = self.news.send(News::Container { folder: folder.clone(), prefix });
        }
        if self.told.insert(folder.clone(), before) != Some(before) {
            let _ = self.news.send(News::Ended { folder, before });
        }
    }

    /// Shows what is left and ends. An error, if something could not be shown to somebody who reads.
    pub(crate) async fn finish(self) -> io::Result<()> {
        drop(self.news);
        match self.ended.await {
            Ok(Some(error)) => Err(error),
            Ok(None) | Err(_) => Ok(()),
        }
    }
}

/// The instances of a container before this one have ended, by what is said of it.
fn ended_before(status: &PodStatus, container: &str) -> u32 {
    let mut all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let Some(status) = all.find(|one| one.name == container) else { return 0 };
    let newest = u32::try_from(status.restart_count).unwrap_or(0);
    newest + u32::from(has_ended(status))
}

/// Whether the newest instance of a container has ended. One that waits for its first has none.
fn has_ended(status: &ContainerStatus) -> bool {
    let Some(state) = &status.state else { return false };
    let last_ended = status.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
    state.terminated.is_some() || (state.waiting.is_some() && last_ended)
}

/// A container that is followed.
struct Followed {
    folder: PathBuf,
    tail: Tail,
    printer: Printer,
    ended_before: u32,
}

/// Shows all there is until nothing more is to come. Gives the first error of showing it, but not that nobody reads it any more:
/// that is no reason not to run the pods.
fn show_all(news: &Receiver<News>, reader: &LogReader, complain: impl Fn(&io::Error)) -> Option<io::Error> {
    let mut all: Vec<Followed> = Vec::new();
    let mut failure = None;
    loop {
        let is_over = match news.recv_timeout(LOOK) {
            Ok(first) => {
                std::iter::once(first).chain(news.try_iter()).for_each(|one| take(&mut all, one));
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        for followed in &mut all {
            let shown = followed.show(is_over);
            if let Some((number, file)) = followed.tail.reading() {
                reader.note_reading(&followed.folder, number, file);
            }
            if let Err(error) = shown
                && error.kind() != io::ErrorKind::BrokenPipe
                && failure.is_none()
            {
                complain(&error);
                failure = Some(error);
            }
        }
        if is_over {
            return failure;
        }
    }
}

fn take(all: &mut Vec<Followed>, news: News) {
    match news {
        News::Container { folder, prefix } => {
            let printer = Printer::new(Style { prefix, ..Style::default() });
            let tail = Tail::of_everything(folder.clone());
            all.push(Followed { folder, tail, printer, ended_before: 0 });
        }
        News::Ended { folder, before } => {
            let of_it = all.iter_mut().find(|followed| followed.folder == folder);
            of_it.into_iter().for_each(|followed| followed.ended_before = before);
        }
    }
}

impl Followed {
    /// Shows what is new. Gives the first error of showing it; that a log cannot be read is logged.
    fn show(&mut self, is_over: bool) -> io::Result<()> {
        let Self { tail, printer, ended_before, .. } = self;
        let (mut out, mut err) = (io::stdout(), io::stderr());
        let mut streams = Streams { out: &mut out, err: &mut err };
        let mut shown = Ok(());
        let mut keep = |result: io::Result<()>| {
            if shown.is_ok() {
                shown = result;
            }
        };
        let mut tell = |told: Told<'_>| {
            keep(match told {
                Told::Line(line) => printer.show(line, &mut streams),
                Told::EndOfInstance => printer.end_lines(&mut streams),
            });
        };
        let read = if is_over { tail.read_to_end(&mut tell) } else { tail.read(&mut tell).map(drop) };
        if let Err(error) = read {
            tracing::warn!(%error, "cannot read a log");
        }
        let has_ended = tail.reading().is_none_or(|(number, _)| number < *ended_before);
        // What an instance said last is shown when it has ended, and not when the next one begins.
        if is_over || has_ended {
            keep(printer.end_lines(&mut streams));
        }
        keep(io::stdout().flush());
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_ended_when_it_is_said_to_have() {
        let ended = |count: u32, state: &str, last: &str| {
            let status: PodStatus = serde_json::from_str(&format!(
                "{{\"containerStatuses\": [{{\"name\": \"c\", \"image\": \"\", \"imageID\": \"\", \"ready\": false,
                  \"restartCount\": {count}, \"state\": {{{state}}}, \"lastState\": {{{last}}}}}]}}"
            ))
            .unwrap();
            ended_before(&status, "c")
        };
        let [running, waiting] = ["running", "waiting"].map(|state| format!("\"{state}\": {{}}"));
        let terminated = "\"terminated\": {\"exitCode\": 1}";
        assert_eq!(ended_before(&PodStatus::default(), "c"), 0);
        assert_eq!(ended(0, &waiting, ""), 0, "it waits for its image");
        assert_eq!(ended(0, &running, ""), 0);
        assert_eq!(ended(0, terminated, ""), 1);
        assert_eq!(ended(2, &running, terminated), 2);
        assert_eq!(ended(2, &waiting, terminated), 3, "it waits to be started again");
    }
}
