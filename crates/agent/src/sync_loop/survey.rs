//! Which pods are ours: those that have a folder. The folder is made before anything else of a pod, and removed after
//! everything else. What a runtime makes even later is ours if we have seen its pod go.
//!
//! A runtime may be shared: a pod that another agent or a person made is none of our business, however unknown it is.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use rubelet_model::{ContainerState, PodRef, PodStatus, PodUid, SandboxState};

use crate::board::{self, Footprint};
use crate::pod::{Grants, Sizes};
use crate::volumes::DataDirectory;

/// What a survey has found.
pub(super) struct Found {
    pub(super) pods: Vec<PodRef>,
    /// Those of `pods` that have nothing running.
    pub(super) at_rest: BTreeSet<PodUid>,
    /// Pods that run in the runtime and that somebody else made.
    pub(super) strangers: Vec<PodRef>,
    /// Set by the first survey only, before anything is decided: what an earlier agent gave still counts.
    pub(super) before: Option<Before>,
}

/// What an earlier agent recorded about its pods.
pub(super) struct Before {
    /// The resources that their containers were given.
    pub(super) given: BTreeMap<PodUid, Sizes>,
    /// Their sources, and the room that they take.
    pub(super) footprints: BTreeMap<PodUid, Footprint>,
}

/// Lists the pods that have a folder, with their names. Blocks on the disk.
///
/// The name is what keeps a newer version of a pod from starting before an older one has ended. It must not depend on a
/// runtime that does not answer just now, so where `told` knows nothing, it comes from the folder of the logs, which is
/// as old as the pod's own.
///
/// # Errors
///
/// If the folder of all pods cannot be listed.
pub fn survey(pods: &Path, logs: &Path, told: impl Fn(&PodUid) -> Option<PodRef>) -> io::Result<Vec<PodRef>> {
    let mut by_logs = None;
    let named = |uid: PodUid| {
        let found = told(&uid)
            .filter(|pod| !pod.name.is_empty())
            .or_else(|| by_logs.get_or_insert_with(|| pods_with_logs(logs)).get(&uid).cloned());
        found.unwrap_or_else(|| PodRef::new(uid, "", ""))
    };
    Ok(pods_with_folder(pods)?.into_iter().map(named).collect())
}

/// Whether nothing of a pod runs, or might be running.
pub(super) fn is_at_rest(status: &PodStatus) -> bool {
    status.sandboxes.iter().all(|sandbox| sandbox.state == SandboxState::NotReady)
        && status.containers.iter().all(|container| container.state == ContainerState::Exited)
}

/// Pods that the runtime knows again though we have seen them go: it did late what it was asked to do, and nobody else
/// knows whose the result is.
pub(super) fn late_comers(
    all: &[Arc<PodStatus>],
    has_gone: impl Fn(&PodUid) -> bool,
) -> impl Iterator<Item = PodRef> {
    let is_there = |status: &&Arc<PodStatus>| !status.sandboxes.is_empty() || !status.containers.is_empty();
    all.iter().filter(is_there).map(|status| status.pod.clone()).filter(move |pod| has_gone(&pod.uid))
}

/// The pods in the runtime that run and are not ours.
pub(super) fn strangers(all: impl IntoIterator<Item = Arc<PodStatus>>, ours: &[PodRef]) -> Vec<PodRef> {
    let ours: BTreeSet<&PodUid> = ours.iter().map(|pod| &pod.uid).collect();
    let runs = |status: &Arc<PodStatus>| {
        status.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready)
            && !ours.contains(&status.pod.uid)
    };
    all.into_iter().filter(runs).map(|status| status.pod.clone()).collect()
}

/// Reads what an earlier agent recorded about pods that have a folder. Blocks on the disk.
pub(super) fn before(data: &DataDirectory) -> Before {
    // The survey reports what cannot be read now.
    let pods = pods_with_folder(&data.pods()).unwrap_or_default();
    let mut before = Before { given: BTreeMap::new(), footprints: BTreeMap::new() };
    for uid in pods {
        let Ok(folder) = data.pod(uid.as_str()) else { continue };
        let sizes = Grants::read(&folder.resources()).into_sizes();
        if !sizes.is_empty() {
            before.given.insert(uid.clone(), sizes);
        }
        before.footprints.extend(board::footprint(&folder, &uid).map(|footprint| (uid, footprint)));
    }
    before
}

/// Pods by the folders of their logs, `<namespace>_<name>_<uid>`.
fn pods_with_logs(logs: &Path) -> BTreeMap<PodUid, PodRef> {
    let entries = std::fs::read_dir(logs).into_iter().flatten().flatten();
    let pod = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let mut words = name.splitn(3, '_');
        let (namespace, name, uid) = (words.next()?, words.next()?, PodUid::from(words.next()?));
        Some((uid.clone(), PodRef::new(uid, namespace, name)))
    };
    entries.filter_map(pod).collect()
}

/// The pods that have a folder. Blocks on the disk.
fn pods_with_folder(pods: &Path) -> io::Result<BTreeSet<PodUid>> {
    let entries = match std::fs::read_dir(pods) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    entries
        .map(|entry| Ok(entry?.file_name().into_string().ok().map(PodUid::from)))
        .filter_map(Result::transpose)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testkit;

    #[test]
    fn folders_tell_which_pods_are_ours() {
        let folder = tempfile::tempdir().unwrap();
        assert!(pods_with_folder(&folder.path().join("pods")).unwrap().is_empty());
        std::fs::create_dir_all(folder.path().join("pods/a")).unwrap();
        std::fs::create_dir_all(folder.path().join("pods/b")).unwrap();
        let found: Vec<String> =
            pods_with_folder(&folder.path().join("pods")).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found, ["a", "b"]);
    }

    #[test]
    fn what_comes_after_its_pod_has_gone_is_ours() {
        let made = Arc::new(testkit::status(SandboxState::Ready, &[]));
        let empty = Arc::new(PodStatus::unknown_to_runtime("gone"));
        let uid = made.pod.uid.clone();
        let late = |has_gone: bool| {
            late_comers(&[made.clone(), empty.clone()], |asked| {
                has_gone && (*asked == uid || *asked == "gone".into())
            })
            .map(|pod| pod.uid)
            .collect::<Vec<_>>()
        };
        assert_eq!(late(true), std::slice::from_ref(&made.pod.uid));
        assert!(late(false).is_empty(), "others' pods are none of our business");
    }

    #[test]
    fn who_has_ended_or_is_not_there_is_at_rest() {
        use crate::pod::testkit::Is;
        let nothing = PodStatus::unknown_to_runtime("u");
        let status = |sandbox, container| testkit::status(sandbox, &[("c", container)]);
        for (status, is_at_rest_now) in [
            (nothing, true),
            (status(SandboxState::NotReady, Is::Exited(0)), true),
            (status(SandboxState::Ready, Is::Exited(0)), false),
            (status(SandboxState::NotReady, Is::Running), false),
            (status(SandboxState::Unknown, Is::Exited(0)), false),
        ] {
            assert_eq!(is_at_rest(&status), is_at_rest_now, "{status:?}");
        }
    }

    #[test]
    fn who_runs_without_a_folder_is_a_stranger() {
        let pod = |uid: &str, state| {
            let mut status = testkit::status(state, &[]);
            status.pod = PodRef::new(uid, "ns", "web");
            Arc::new(status)
        };
        let all = [
            pod("ours", SandboxState::Ready),
            pod("theirs", SandboxState::Ready),
            pod("over", SandboxState::NotReady),
        ];
        let ours = [PodRef::new("ours", "ns", "web")];
        assert_eq!(strangers(all, &ours), [PodRef::new("theirs", "ns", "web")]);
    }

    #[test]
    fn names_come_from_the_runtime_or_from_the_logs() {
        let folder = tempfile::tempdir().unwrap();
        let (pods, logs) = (folder.path().join("pods"), folder.path().join("logs"));
        for uid in ["1", "2", "3"] {
            std::fs::create_dir_all(pods.join(uid)).unwrap();
        }
        std::fs::create_dir_all(logs.join("ns_web_2")).unwrap();
        std::fs::create_dir_all(logs.join("ns_other_9")).unwrap();
        let told = |uid: &PodUid| match uid.as_str() {
            "1" => Some(PodRef::new(uid.clone(), "ns", "db")),
            _ => Some(PodRef::new(uid.clone(), "", "")),
        };
        let found = survey(&pods, &logs, told).unwrap();
        let wanted = [("1", "ns", "db"), ("2", "ns", "web"), ("3", "", "")];
        assert_eq!(found, wanted.map(|(uid, namespace, name)| PodRef::new(uid, namespace, name)));
    }
}
