//! Names that the kubelet gives to things of a pod: log folders and files, host names.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;

use crate::pod::spec;

/// `<root>/<namespace>_<name>_<uid>`.
pub(crate) fn log_directory(root: &Path, pod: &Pod) -> PathBuf {
    root.join(format!("{}_{}_{}", spec::namespace(pod), spec::name(pod), spec::uid(pod)))
}

/// A log file of a container: `<restart count>.log`, or a rotated part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogName {
    pub(crate) restart_count: u32,
}

impl LogName {
    /// Reads a file name: `3.log`, `3.log.20260801-120000`, `3.log.20260801-120000.gz`.
    pub(crate) fn read(file_name: &str) -> Option<Self> {
        let (number, rest) = file_name.split_once(".log")?;
        let is_log = rest.is_empty() || rest.starts_with('.');
        number.parse().ok().filter(|_| is_log).map(|restart_count| Self { restart_count })
    }

    /// Where it is, below the pod's log folder.
    pub(crate) fn path(self, container: &str) -> String {
        format!("{container}/{}.log", self.restart_count)
    }
}

/// The longest name that a machine may have.
const LONGEST_HOST_NAME: usize = 63;

/// What the pod calls itself; empty on the host's network, where it has the host's name.
pub(crate) fn host_name(pod: &Pod) -> String {
    if spec::uses_host_network(pod) {
        return String::new();
    }
    let own = pod.spec.as_ref().and_then(|spec| {
        let given = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        given(&spec.hostname_override).or_else(|| given(&spec.hostname))
    });
    let name = own.unwrap_or_else(|| spec::name(pod).to_owned());
    let end = name.char_indices().nth(LONGEST_HOST_NAME).map_or(name.len(), |(index, _)| index);
    name[..end].trim_end_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testkit;

    #[test]
    fn log_names_are_read_rotated_or_not() {
        let table = [
            ("0.log", Some(0)),
            ("12.log", Some(12)),
            ("3.log.20260801-120000", Some(3)),
            ("3.log.20260801-120000.gz", Some(3)),
            ("3.logs", None),
            ("x.log", None),
            ("3", None),
        ];
        for (name, wanted) in table {
            assert_eq!(LogName::read(name).map(|name| name.restart_count), wanted, "{name}");
        }
        assert_eq!(LogName { restart_count: 4 }.path("web"), "web/4.log");
    }

    #[test]
    fn host_names_are_cut_and_trimmed() {
        let mut pod = testkit::pod("Always", &[], &["c"]);
        assert_eq!(host_name(&pod), "", "on the host's network");
        let spec = pod.spec.as_mut().unwrap();
        spec.host_network = None;
        assert_eq!(host_name(&pod), "web");
        pod.metadata.name = Some(format!("{}-.-tail", "a".repeat(61)));
        assert_eq!(host_name(&pod), "a".repeat(61));
        pod.spec.as_mut().unwrap().hostname = Some("own".to_owned());
        assert_eq!(host_name(&pod), "own");
    }
}
