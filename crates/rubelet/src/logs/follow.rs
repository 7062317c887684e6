//! Prints the logs of pods as they are written, on a thread of its own, so that a slow reader blocks nothing else.

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

/// How often to check for more output.
const LOOK: Duration = Duration::from_millis(100);

/// A message to the thread.
enum News {
    /// A container to follow: its logs are in `folder`, and each of its lines is printed after `prefix`.
    Container { folder: PathBuf, prefix: String },
    /// The container's instances before this one have ended.
    Ended { folder: PathBuf, before: u32 },
}

/// Follows the logs of all containers of some pods, and prints each line after the name of its container.
pub(crate) struct Follower {
    logs: PathBuf,
    /// Which instances of a container have ended, as the thread knows.
    told: BTreeMap<PathBuf, u32>,
    /// The queue is bounded by the number of containers and of their starts. Dropping it ends the thread, after
    /// everything has been printed.
    news: Sender<News>,
    ended: oneshot::Receiver<Option<io::Error>>,
}

impl Follower {
    /// Creates a follower for pods whose logs are below `logs`. It notes in `reader` what has been read, and calls
    /// `complain` once if something cannot be printed.
    pub(crate) fn new(
        logs: PathBuf,
        reader: LogReader,
        complain: impl Fn(&io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        let (news, received) = channel();
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("logs".to_owned()).spawn(move || {
            signals::output::never_stops_this_thread();
            // If the receiver is gone, nobody waits for the result.
            let _ = end.send(show_all(&received, &reader, complain));
        })?;
        Ok(Self { logs, told: BTreeMap::new(), news, ended })
    }

    /// Follows the logs of these pods, given their current statuses.
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
        // If the thread has ended, there is nothing left to print.
        if !self.told.contains_key(&folder) {
            let _ = self.news.send(News::Container { folder: folder.clone(), prefix });
        }
        if self.told.insert(folder.clone(), before) != Some(before) {
            let _ = self.news.send(News::Ended { folder, before });
        }
    }

    /// Prints what remains, and ends. Fails if something could not be printed although there was a reader.
    pub(crate) async fn finish(self) -> io::Result<()> {
        drop(self.news);
        match self.ended.await {
            Ok(Some(error)) => Err(error),
            Ok(None) | Err(_) => Ok(()),
        }
    }
}

/// Returns the number before which all instances of a container have ended, according to its status.
fn ended_before(status: &PodStatus, container: &str) -> u32 {
    let mut all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let Some(status) = all.find(|one| one.name == container) else { return 0 };
    let newest = u32::try_from(status.restart_count).unwrap_or(0);
    newest + u32::from(has_ended(status))
}

/// Whether the newest instance of a container has ended. A container that waits for its first instance has none.
fn has_ended(status: &ContainerStatus) -> bool {
    let Some(state) = &status.state else { return false };
    let last_ended = status.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
    state.terminated.is_some() || (state.waiting.is_some() && last_ended)
}

/// A container whose log is followed.
struct Followed {
    folder: PathBuf,
    tail: Tail,
    printer: Printer,
    ended_before: u32,
}

/// Prints everything until nothing more can follow. Returns the first error of printing, unless it was that the reader
/// is gone: the pods run nevertheless.
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
    /// Prints what is new. Returns the first error of printing; an error of reading the log is logged.
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
        // An unfinished last line is printed when its instance has ended, not when the next one starts.
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
