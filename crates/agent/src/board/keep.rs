//! Keeps the last status of a pod in its folder, so that a later agent knows since when the pod has been running, how
//! its containers ended before and, above all, that it has finished, even if the runtime has forgotten everything.
//!
//! A file that cannot be read counts as missing. A lost file costs some history, never a pod.

use std::io;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus as ApiStatus;
use rubelet_model::PodUid;
use serde::{Deserialize, Serialize};

use super::PodView;
use super::containers::ContainerNames;
use super::delivery::{Pace, StatusSink};
use super::footprint::{Footprint, Noted, Standing};
use crate::off_thread::off_thread;
use crate::pod_file::{self, Outlives, PodFileError};
use crate::volumes::{DataDirectory, PodDirectory};

/// The version of the file format; no other version can be read.
const FORM: u32 = 1;

/// A pod that starts changes several times within a moment: this merges the changes into one write.
const SETTLE: Duration = Duration::from_secs(1);
/// However often a pod changes, its file is written at most six times a minute.
const BETWEEN: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Written<'a> {
    form: u32,
    uid: &'a str,
    status: &'a ApiStatus,
    /// For readers that have neither an agent nor a manifest.
    #[serde(flatten)]
    containers: &'a ContainerNames,
    /// For the next agent, until it knows which source the pod belongs to.
    #[serde(flatten)]
    noted: Noted,
}

#[derive(Deserialize)]
struct Read {
    form: u32,
    uid: String,
    status: ApiStatus,
    #[serde(flatten)]
    containers: ContainerNames,
    #[serde(flatten)]
    noted: Noted,
}

/// Why a kept status cannot be used.
#[derive(Debug, thiserror::Error)]
enum RecallError {
    #[error(transparent)]
    File(#[from] PodFileError),
    #[error("it has format {0}, not {FORM}")]
    Form(u32),
    #[error("it belongs to pod {0}")]
    OtherPod(String),
}

/// Returns the last kept status of a pod, if any. Blocks on the disk.
pub(crate) fn recall(folder: &PodDirectory, uid: &PodUid) -> Option<ApiStatus> {
    match read(folder, uid.as_str()) {
        Ok(read) => read.map(|read| read.status),
        Err(error) => {
            let file = folder.status();
            tracing::warn!(pod = %uid, file = %file.display(), %error, "cannot use the saved status of a pod; \
                                                                        continuing without it");
            None
        }
    }
}

/// Returns the names of a pod's containers; empty if they were not kept. Blocks on the disk.
#[must_use]
pub fn kept_containers(data: &DataDirectory, uid: &str) -> ContainerNames {
    let kept = data.pod(uid).ok().and_then(|folder| read(&folder, uid).ok().flatten());
    kept.map(|kept| kept.containers).unwrap_or_default()
}

/// Returns what was noted about a pod; `None` if that cannot be read. Blocks on the disk.
pub(crate) fn footprint(folder: &PodDirectory, uid: &PodUid) -> Option<Footprint> {
    // What is wrong with the file is logged when the status is recalled.
    let Read { status, noted, .. } = read(folder, uid.as_str()).ok().flatten()?;
    noted.read(Standing::of(&status))
}

fn read(folder: &PodDirectory, uid: &str) -> Result<Option<Read>, RecallError> {
    let Some(read) = pod_file::read::<Read>(&folder.status())? else { return Ok(None) };
    if read.form != FORM {
        return Err(RecallError::Form(read.form));
    }
    if read.uid != uid {
        return Err(RecallError::OtherPod(read.uid));
    }
    Ok(Some(read))
}

fn write(folder: &PodDirectory, uid: &str, view: &PodView) -> io::Result<()> {
    // An end is written once and must survive a power cut. The rest can be found out again.
    let outlives = if view.is_finished() { Outlives::Machine } else { Outlives::Agent };
    let written = Written {
        form: FORM,
        uid,
        status: &view.status,
        containers: &ContainerNames::of(&view.pod),
        noted: Noted::of(&view.pod, view.source.as_ref()),
    };
    pod_file::write(&folder.status(), &written, outlives)
}

/// The sink that writes statuses to disk.
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
        // A manifest with a UID that cannot name a folder was refused.
        let Ok(folder) = self.data.pod(uid.as_str()) else { return Ok(()) };
        let (uid, view) = (uid.clone(), view.clone());
        off_thread(move || write(&folder, uid.as_str(), &view)).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ContainerPort;

    use super::*;
    use crate::board::Stage;
    use crate::pod::testkit;
    use crate::source::{SourceId, SourceKind};

    fn status(phase: &str) -> ApiStatus {
        ApiStatus { phase: Some(phase.to_owned()), ..ApiStatus::default() }
    }

    fn view(phase: &str) -> PodView {
        let mut pod = testkit::pod("Always", &[], &["web", "log"]);
        let spec = pod.spec.as_mut().unwrap();
        spec.containers[0].ports =
            Some(vec![ContainerPort { host_port: Some(80), ..ContainerPort::default() }]);
        spec.containers[0].command = Some(vec!["a secret".to_owned()]);
        PodView {
            pod: Arc::new(pod),
            source: Some(SourceId::new(SourceKind::Http, "http://x/")),
            status: status(phase),
            version: 1,
            stage: Stage::Syncing,
            events: Vec::new(),
        }
    }

    fn keep(data: &DataDirectory, uid: &str, phase: &str) {
        write(&data.pod(uid).unwrap(), uid, &view(phase)).unwrap();
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
        assert_eq!(kept_containers(&data, "1").all, ["web", "log"]);
        assert_eq!(kept_containers(&data, "2"), ContainerNames::default());
        assert_eq!(recalled(&data, "2"), None);
        assert!(data.pod("../1").is_err(), "nothing is recalled from elsewhere");
    }

    #[test]
    fn the_next_agent_knows_whose_a_pod_is_and_what_it_takes() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDirectory::new(folder.path());
        let pod = data.pod("1").unwrap();
        pod.create().unwrap();
        assert_eq!(footprint(&pod, &"1".into()), None);
        for (phase, standing) in [("Running", Standing::Active), ("Failed", Standing::Finished)] {
            keep(&data, "1", phase);
            let noted = footprint(&pod, &"1".into()).unwrap();
            assert_eq!((noted.source, noted.standing), (view(phase).source, standing));
            let spec = noted.pod.spec.unwrap();
            assert_eq!(spec.termination_grace_period_seconds, Some(30));
            assert_eq!(spec.containers[0].ports.as_ref().unwrap()[0].host_port, Some(80));
            assert_eq!(spec.containers[0].command, None, "not what may be a secret");
        }
        // As written by agents that noted nothing.
        fs::write(pod.status(), r#"{"form":1,"uid":"1","status":{}}"#).unwrap();
        assert_eq!(footprint(&pod, &"1".into()), None);
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
            let shown = &text[..text.len().min(80)];
            assert_eq!(recalled(&data, "1"), None, "{shown}");
            assert_eq!(footprint(&pod, &"1".into()), None, "{shown}");
            assert_eq!(kept_containers(&data, "1"), ContainerNames::default(), "{shown}");
        }
        fs::remove_file(pod.status()).unwrap();
        fs::create_dir(pod.status()).unwrap();
        assert_eq!(recalled(&data, "1"), None, "a folder");
    }
}
