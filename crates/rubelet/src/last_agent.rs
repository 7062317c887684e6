//! A record of the last agent's settings in its folder, so that commands that find no agent know where its pods are.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rubelet_agent::cgroup::CgroupSettings;
use rubelet_cri::{Endpoint, EndpointError};
use serde::{Deserialize, Serialize};

use crate::place::EMBEDDED_SOCKET;

/// Where other tools look for container logs, and where agents link them.
pub(crate) const USUAL_LOG_LINKS: &str = "/var/log/containers";

/// The name of the record in the agent's folder.
const FILE: &str = "agent.json";
/// For its owner only, like the folder.
const MODE: u32 = 0o600;

/// The settings of a folder's last agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastAgent {
    /// The runtime that it used; `None` for the embedded one.
    pub(crate) runtime_endpoint: Option<String>,
    pub(crate) pod_logs: PathBuf,
    /// The suffix of pod names.
    pub(crate) node_name: String,
    /// The control groups of its pods, if they had their own.
    pub(crate) groups: Option<Groups>,
}

/// The settings of the pods' control groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Groups {
    driver: String,
    root: String,
}

/// The record cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LastAgentError {
    #[error("cannot write {}: {source}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("cannot read {}: {source}{}", path.display(), help(source))]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("cannot parse {}: {source}; remove it, and name the runtime with --runtime-endpoint", path.display())]
    NotUnderstood { path: PathBuf, source: serde_json::Error },
    #[error("{} does not name a runtime: {source}", path.display())]
    Endpoint { path: PathBuf, source: EndpointError },
}

/// Returns advice for users who must not read the agent's folder.
fn help(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied { "; run as root" } else { "" }
}

impl LastAgent {
    /// Writes the record into the agent's folder, atomically. An identical record is not rewritten, so that an agent
    /// that restarts on a full disk still manages its pods.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), LastAgentError> {
        if Self::read(folder).ok().flatten().as_ref() == Some(self) {
            return Ok(());
        }
        let path = folder.join(FILE);
        let new = path.with_extension("new");
        serde_json::to_vec_pretty(self)
            .map_err(io::Error::from)
            .and_then(|text| {
                let mut options = fs::File::options();
                let mut file = options.write(true).create(true).truncate(true).mode(MODE).open(&new)?;
                // A file that was left behind may have another mode.
                file.set_permissions(fs::Permissions::from_mode(MODE))?;
                file.write_all(&text)
            })
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|source| LastAgentError::Unwritable { path, source })
    }

    /// Reads the record in that folder; `None` if no agent ever ran there.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, LastAgentError> {
        let path = folder.join(FILE);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|source| LastAgentError::NotUnderstood { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(LastAgentError::Unreadable { path, source }),
        }
    }

    /// Whether the agent used this runtime (`None` is the embedded one), whatever path names its socket now.
    pub(crate) fn had_runtime(&self, folder: &Path, endpoint: Option<&Endpoint>) -> bool {
        let socket = |endpoint: Option<&Endpoint>| {
            let path = endpoint.map_or_else(|| folder.join(EMBEDDED_SOCKET), |one| one.path().to_owned());
            path.canonicalize().unwrap_or(path)
        };
        self.endpoint(folder).is_ok_and(|theirs| socket(theirs.as_ref()) == socket(endpoint))
    }

    /// Returns the runtime that it used; `None` for the embedded one.
    pub(crate) fn endpoint(&self, folder: &Path) -> Result<Option<Endpoint>, LastAgentError> {
        let parsed = self.runtime_endpoint.as_deref().map(str::parse).transpose();
        parsed.map_err(|source| LastAgentError::Endpoint { path: folder.join(FILE), source })
    }
}

impl Groups {
    pub(crate) fn of(settings: &CgroupSettings) -> Self {
        Self { driver: settings.driver.to_string(), root: settings.root.clone() }
    }

    /// Returns settings by which the groups can be found again.
    pub(crate) fn settings(&self) -> CgroupSettings {
        // An unknown driver was written by a later version; the safest choice is to remove nothing.
        let driver = self.driver.parse().unwrap_or(rubelet_agent::cgroup::Driver::Systemd);
        CgroupSettings { driver, root: self.root.clone(), pids_limit: None }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_runtime_is_known_by_its_socket_whatever_that_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["one.sock", "two.sock"] {
            fs::write(at(name), "").unwrap();
        }
        std::os::unix::fs::symlink("one.sock", at("link.sock")).unwrap();
        let had = |theirs: Option<&str>, ours: Option<&str>| {
            let name = |name: Option<&str>| name.map(|name| format!("unix://{}", at(name).display()));
            let last = LastAgent {
                runtime_endpoint: name(theirs),
                pod_logs: "/logs".into(),
                node_name: "n".to_owned(),
                groups: None,
            };
            let ours: Option<Endpoint> = name(ours).map(|ours| ours.parse().unwrap());
            last.had_runtime(folder.path(), ours.as_ref())
        };
        assert!(had(None, None) && had(Some("one.sock"), Some("one.sock")));
        assert!(had(Some("one.sock"), Some("link.sock")), "another name for it");
        assert!(had(Some("gone.sock"), Some("gone.sock")) && had(None, Some(EMBEDDED_SOCKET)));
        assert!(!had(Some("one.sock"), Some("two.sock")));
        assert!(!had(None, Some("one.sock")) && !had(Some("one.sock"), None));
    }

    #[test]
    fn what_is_kept_is_read_again_and_nonsense_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(LastAgent::read(folder.path()).unwrap(), None);
        let settings = CgroupSettings { root: "/mine".to_owned(), ..CgroupSettings::default() };
        let kept = LastAgent {
            runtime_endpoint: Some("unix:///run/x.sock".to_owned()),
            pod_logs: "/logs".into(),
            node_name: "n".to_owned(),
            groups: Some(Groups::of(&settings)),
        };
        kept.write(folder.path()).unwrap();
        let read = LastAgent::read(folder.path()).unwrap().unwrap();
        assert_eq!(read, kept);
        // When nothing can be written, the existing record remains.
        fs::create_dir(folder.path().join("agent.new")).unwrap();
        kept.write(folder.path()).unwrap();
        let other = LastAgent { node_name: "m".to_owned(), ..kept.clone() };
        assert!(matches!(other.write(folder.path()), Err(LastAgentError::Unwritable { .. })));
        fs::remove_dir(folder.path().join("agent.new")).unwrap();
        assert_eq!(read.groups.unwrap().settings(), settings);
        assert_eq!(kept.endpoint(folder.path()).unwrap().unwrap().path(), Path::new("/run/x.sock"));
        let nameless = PathBuf::from(std::ffi::OsStr::from_bytes(b"/\xff"));
        let unspeakable = LastAgent { pod_logs: nameless, ..kept.clone() };
        let error = unspeakable.write(folder.path()).unwrap_err().to_string();
        assert!(error.contains("agent.json: path contains invalid UTF-8"), "{error}");
        let embedded = LastAgent { runtime_endpoint: None, ..kept.clone() };
        assert!(embedded.endpoint(folder.path()).unwrap().is_none());
        assert_eq!(fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        let nonsense = LastAgent { runtime_endpoint: Some("tcp://x".to_owned()), ..kept };
        assert!(matches!(nonsense.endpoint(folder.path()), Err(LastAgentError::Endpoint { .. })));

        fs::write(folder.path().join(FILE), "{").unwrap();
        let error = LastAgent::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("agent.json: ") && error.contains("remove it"), "{error}");
    }
}
