//! What was last said of a pod, kept in its folder: so a later agent knows since when the pod runs, how its containers
//! ended before, and above all that it has finished, even when the runtime has forgotten everything.
//!
//! A file that cannot be read is no file. One that is lost costs some history, never a pod.

use std::io;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus as ApiStatus};
use rubelet_model::PodUid;
use serde::{Deserialize, Serialize};

use super::PodView;
use super::delivery::{Pace, StatusSink};
use crate::pod_file::{self, Outlives, PodFileError};
use crate::volumes::{DataDirectory, PodDirectory};

/// The form of the file; another one is not understood.
const FORM: u32 = 1;

/// A pod that starts changes several times within a moment: that is one write.
const SETTLE: Duration = Duration::from_secs(1);
/// However restless a pod is, it is written six times a minute at most.
const BETWEEN: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Written<'a> {
    form: u32,
    uid: &'a str,
    status: &'a ApiStatus,
    /// For those who ask without an agent, and have no manifest: which container is the first.
    containers: &'a [String],
}

/// Only that of it.
#[derive(Deserialize)]
struct ReadContainers {
    #[serde(default)]
    containers: Vec<String>,
}

#[derive(Deserialize)]
struct Read {
    form: u32,
    uid: String,
    status: ApiStatus,
}

/// Why what was said of a pod cannot be used.
#[derive(Debug, thiserror::Error)]
enum RecallError {
    #[error("{0}")]
    File(#[from] PodFileError),
    #[error("it has form {0}, not {FORM}")]
    Form(u32),
    #[error("it is about pod {0}")]
    OtherPod(String),
}

/// What was last said of a pod, if it was kept. Blocks on the disk.
pub(crate) fn recall(folder: &PodDirectory, uid: &PodUid) -> Option<ApiStatus> {
    let path = folder.status();
    match read(&path, uid) {
        Ok(status) => status,
        Err(error) => {
            tracing::warn!(pod = %uid, file = %path.display(), %error, "what was said of a pod before cannot be used; going on without it");
            None
        }
    }
}

fn read(path: &Path, uid: &PodUid) -> Result<Option<ApiStatus>, RecallError> {
    let Some(Read { form, uid: of, status }) = pod_file::read(path)? else { return Ok(None) };
    if form != FORM {
        return Err(RecallError::Form(form));
    }
    if of != uid.as_str() {
        return Err(RecallError::OtherPod(of));
    }
    Ok(Some(status))
}

/// What the containers of a pod are called, as in its manifest, those that run beside each other first; nothing if that was
/// not kept. Blocks on the disk.
#[must_use]
pub fn kept_containers(data: &DataDirectory, uid: &str) -> Vec<String> {
    let read = |path: &Path| pod_file::read::<ReadContainers>(path).ok().flatten();
    let kept = data.pod(uid).ok().and_then(|folder| read(&folder.status()));
    kept.map(|kept| kept.containers).unwrap_or_default()
}

fn write(
    folder: &PodDirectory,
    uid: &str,
    status: &ApiStatus,
    containers: &[String],
    is_final: bool,
) -> io::Result<()> {
    // An end is written once and must be there after a power cut. The rest can be found out again.
    let outlives = if is_final { Outlives::Machine } else { Outlives::Agent };
    pod_file::write(&folder.status(), &Written { form: FORM, uid, status, containers }, outlives)
}

fn container_names(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    all.map(|container| container.name.clone()).collect()
}

/// The disk, as somebody who wants to know how pods are.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    data: DataDirectory,
}

impl Keeper {
    pub(crate) fn new(data: DataDirectory) -> Self {
        Self { data }
    }
}

impl StatusSink for Keeper {
    type Error = io::Error;

    fn name(&self) -> &'static str {
        "disk"
    }

    fn pace(&self) -> Pace {
        Pace { settle: SETTLE, between: BETWEEN }
    }

    async fn take(&self, uid: &PodUid, view: &PodView) -> Result<(), io::Error> {
        // A UID that cannot be a folder was refused with its manifest.
        let Ok(folder) = self.data.pod(uid.as_str()) else { return Ok(()) };
        let (uid, status, is_final) = (uid.clone(), view.status.clone(), view.is_finished());
        let containers = container_names(&view.pod);
        tokio::task::spawn_blocking(move || write(&folder, uid.as_str(), &status, &containers, is_final))
            .await?
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn status(phase: &str) -> ApiStatus {
        ApiStatus { phase: Some(phase.to_owned()), ..ApiStatus::default() }
    }

    fn keep(data: &DataDirectory, uid: &str, phase: &str) {
        let containers = ["web".to_owned(), "log".to_owned()];
        write(&data.pod(uid).unwrap(), uid, &status(phase), &containers, true).unwrap();
    }

    fn recalled(data: &DataDirectory, uid: &str) -> Option<ApiStatus> {
        recall(&data.pod(uid).unwrap(), &uid.into())
    }

    #[test]
    fn what_was_kept_comes_back_and_without_a_folder_nothing_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDirectory::new(folder.path());
        keep(&data, "1", "Failed");
        assert_eq!(recalled(&data, "1"), None);
        assert!(!folder.path().join("pods").exists());
        data.pod("1").unwrap().create().unwrap();
        keep(&data, "1", "Running");
        keep(&data, "1", "Failed");
        assert_eq!(recalled(&data, "1"), Some(status("Failed")));
        assert_eq!(kept_containers(&data, "1"), ["web", "log"]);
        assert_eq!(kept_containers(&data, "2"), Vec::<String>::new());
        assert_eq!(recalled(&data, "2"), None);
        assert!(data.pod("../1").is_err(), "nothing is recalled from elsewhere");
    }

    #[test]
    fn what_cannot_be_understood_is_as_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDirectory::new(folder.path());
        let pod = data.pod("1").unwrap();
        pod.create().unwrap();
        keep(&data, "1", "Failed");
        let whole = fs::read_to_string(pod.status()).unwrap();
        let texts = [
            whole[..whole.len() / 2].to_owned(),
            String::new(),
            "\0\0\0\0".to_owned(),
            whole.replace("\"form\":1", "\"form\":2"),
            whole.replace("\"uid\":\"1\"", "\"uid\":\"2\""),
        ];
        for text in texts {
            fs::write(pod.status(), &text).unwrap();
            assert_eq!(recalled(&data, "1"), None, "{}", &text[..text.len().min(80)]);
        }
        fs::remove_file(pod.status()).unwrap();
        fs::create_dir(pod.status()).unwrap();
        assert_eq!(recalled(&data, "1"), None, "a folder");
    }
}
