//! A folder of links to the logs of the agent's own pods, with names that identify each log, as kubelets have it in
//! `/var/log/containers`. Log collectors look there.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pleg::{EventKind, Handle};
use rubelet_model::{ContainerStatus, PodRef, PodStatus};
use tokio::time::MissedTickBehavior;

use crate::off_thread::off_thread;
use crate::volumes::DataDirectory;

/// How often to look for dangling links, and for what no event has reported.
const PERIOD: Duration = Duration::from_secs(60);
const LONGEST_NAME: usize = 255;
const SUFFIX: &str = ".log";

/// Creates the links, and removes dangling ones.
#[derive(Debug)]
pub struct LogLinks {
    pleg: Handle,
    places: Places,
    /// The last error, so that it is logged only once.
    problem: Option<io::ErrorKind>,
}

#[derive(Clone, Debug)]
struct Places {
    /// Only pods with a folder here are the agent's own.
    data: DataDirectory,
    /// Only logs below this folder are linked.
    logs: PathBuf,
    links: PathBuf,
}

impl LogLinks {
    /// Links in `links` to the logs below `logs`, for pods that have a folder below `data`.
    pub fn new(pleg: Handle, data: DataDirectory, logs: PathBuf, links: PathBuf) -> Self {
        Self { pleg, places: Places { data, logs, links }, problem: None }
    }

    /// Runs until it is dropped.
    pub async fn run(mut self) {
        let (mut events, cache) = (self.pleg.subscribe(), self.pleg.cache());
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let places = self.places.clone();
            let done = tokio::select! {
                _ = ticks.tick() => {
                    let all = cache.all().into_iter().filter_map(|(_, status)| status.ok()).collect::<Vec<_>>();
                    off_thread(move || remove_dead_links(&places.links, &places.logs).and_then(|()| places.link(&all))).await
                }
                event = events.next() => {
                    // The PLEG has ended, and the agent with it.
                    let Some(event) = event else { return std::future::pending().await };
                    let may_have_begun = matches!(event.kind, EventKind::ContainerStarted | EventKind::PodSync);
                    match cache.get(&event.pod.uid) {
                        Ok(status) if may_have_begun => off_thread(move || places.link(&[status])).await,
                        _ => continue,
                    }
                }
            };
            self.note(done);
        }
    }

    fn note(&mut self, done: io::Result<()>) {
        let Err(error) = done else {
            self.problem = None;
            return;
        };
        if self.problem.replace(error.kind()) != Some(error.kind()) {
            let folder = self.places.links.display();
            tracing::warn!(%folder, %error, "cannot update the links to container logs");
        }
    }
}

impl Places {
    /// Creates missing links. Blocks on the disk.
    fn link(&self, pods: &[Arc<PodStatus>]) -> io::Result<()> {
        for status in pods {
            let is_ours = self.data.pod(status.pod.uid.as_str()).is_ok_and(|folder| folder.path().is_dir());
            for container in status.containers.iter().filter(|_| is_ours) {
                let log = Path::new(&*container.log_path);
                if log.starts_with(&self.logs) && log.exists() {
                    make(log, &self.links, &name(&status.pod, container))?;
                }
            }
        }
        Ok(())
    }
}

/// Removes links in a folder to logs below another one that no longer exist. Blocks on the disk.
///
/// # Errors
///
/// If the folder of links cannot be read, or a link cannot be removed.
pub fn remove_dead_links(links: &Path, logs: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(links) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let link = entry?.path();
        let Ok(log) = std::fs::read_link(&link) else { continue };
        if log.starts_with(logs) && !log.exists() {
            std::fs::remove_file(&link)?;
        }
    }
    Ok(())
}

fn make(log: &Path, folder: &Path, name: &str) -> io::Result<()> {
    let link = folder.join(name);
    let made = match symlink(log, &link) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(folder)?;
            symlink(log, &link)
        }
        made => made,
    };
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Returns `<pod>_<namespace>_<container>-<id>.log`, shortened before the suffix if it is too long for a file name.
fn name(pod: &PodRef, container: &ContainerStatus) -> String {
    let mut name = format!("{}_{}_{}-{}", pod.name, pod.namespace, container.name, container.id);
    let room = (0..=LONGEST_NAME - SUFFIX.len()).rev().find(|end| name.is_char_boundary(*end));
    name.truncate(room.unwrap_or_default());
    name + SUFFIX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gc::testkit::Watched;
    use crate::pod::testkit::{Is, instance};

    #[test]
    fn names_are_a_kubelets_and_fit_a_file() {
        let web = instance("web", 0, Is::Running, "sandbox");
        let pod = PodRef::new("uid", "shop", "front");
        assert_eq!(name(&pod, &web), format!("front_shop_web-{}.log", web.id));
        let long = name(&PodRef::new("uid", "shop", "x".repeat(250)), &web);
        assert_eq!((long.len(), &long[246..]), (255, "xxxx_.log"));
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_of_ours_has_a_link_as_long_as_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let [logs, links] = ["logs", "containers"].map(|name| folder.path().join(name));
        let data = DataDirectory::new(folder.path().join("data"));
        data.pod("ours").unwrap().create().unwrap();
        let watched = Watched::new();
        let task =
            tokio::spawn(LogLinks::new(watched.pleg.handle(), data, logs.clone(), links.clone()).run());
        for pod in ["ours", "theirs"] {
            std::fs::create_dir_all(logs.join(pod).join("web")).unwrap();
            std::fs::write(logs.join(pod).join("web/0.log"), "x").unwrap();
            watched.run(pod, "web", &logs).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let [link] = &names(&links)[..] else { panic!("one link: {:?}", names(&links)) };
        assert!(link.starts_with("ours_default_web-"), "{link}");
        assert_eq!(std::fs::read_link(links.join(link)).unwrap(), logs.join("ours/web/0.log"));

        // Files that are not the agent's links stay.
        std::fs::write(links.join("a"), "").unwrap();
        symlink("/nowhere/else", links.join("b")).unwrap();
        std::fs::remove_file(logs.join("ours/web/0.log")).unwrap();
        tokio::time::sleep(PERIOD * 2).await;
        assert_eq!(names(&links), ["a", "b"]);
        task.abort();
    }
}
