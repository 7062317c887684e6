//! Which pods are ours: those that have a folder. It is made before anything else of a pod, and removed after everything.
//!
//! A runtime may be shared: a pod that another agent or a person made is none of our business, however unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use rubelet_model::{PodRef, PodStatus, PodUid, SandboxState};

use crate::pod::{Grants, Sizes};
use crate::volumes::DataDirectory;

/// What a survey has found.
pub(super) struct Found {
    pub(super) pods: Vec<PodRef>,
    /// Pods that run in the runtime and that somebody else made.
    pub(super) strangers: Vec<PodRef>,
    /// The first one, before anything is decided: what was given by an agent before this one still counts.
    pub(super) given: Option<BTreeMap<PodUid, Sizes>>,
}

/// The pods that have a folder, by name. Blocks on the disk.
///
/// The name is what keeps a newer version of a pod from starting before an older one has ended. It must not depend on a
/// runtime that just now does not tell, so where `told` knows nothing, the folder of the logs does, which is as old as the
/// pod's own.
pub(super) fn survey(
    pods: &Path,
    logs: &Path,
    told: impl Fn(&PodUid) -> Option<PodRef>,
) -> io::Result<Vec<PodRef>> {
    let mut by_logs = None;
    let named = |uid: PodUid| {
        let found = told(&uid)
            .filter(|pod| !pod.name.is_empty())
            .or_else(|| by_logs.get_or_insert_with(|| pods_with_logs(logs)).get(&uid).cloned());
        found.unwrap_or_else(|| PodRef::new(uid, "", ""))
    };
    Ok(pods_with_folder(pods)?.into_iter().map(named).collect())
}

/// Those of the pods in the runtime that run and are not ours.
pub(super) fn strangers(all: impl IntoIterator<Item = Arc<PodStatus>>, ours: &[PodRef]) -> Vec<PodRef> {
    let ours: BTreeSet<&PodUid> = ours.iter().map(|pod| &pod.uid).collect();
    let runs = |status: &Arc<PodStatus>| {
        status.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready)
            && !ours.contains(&status.pod.uid)
    };
    all.into_iter().filter(runs).map(|status| status.pod.clone()).collect()
}

/// What the containers of pods that have a folder were given to use, as an agent before this one noted it. Blocks on the
/// disk.
pub(super) fn given(data: &DataDirectory) -> BTreeMap<PodUid, Sizes> {
    // What cannot be read now is told by the survey.
    let pods = pods_with_folder(&data.pods()).unwrap_or_default();
    let noted = |uid: PodUid| {
        let noted = Grants::read(&data.pod(uid.as_str()).ok()?.resources()).into_sizes();
        (!noted.is_empty()).then_some((uid, noted))
    };
    pods.into_iter().filter_map(noted).collect()
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
