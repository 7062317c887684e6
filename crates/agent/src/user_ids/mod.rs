//! The host IDs of the users in pods with user namespaces (`hostUsers: false`).
//!
//! Each such pod has an exclusive range for as long as anything of it runs: a process that breaks out of it has no
//! rights on the host or in any other pod. All ranges are managed in one place, and each is written to the pod's folder
//! before the runtime learns of it, so that the next agent knows it as well.

mod file;
mod ledger;
mod pool;

use std::io;
use std::path::PathBuf;

use parking_lot::Mutex;
use rubelet_model::PodUid;

use crate::pod_file;
use crate::volumes::{DataDirectory, VolumeError};
use ledger::{Found, Ledger, NoRange};
pub use pool::{IdPool, IdPoolError};

/// A range of host IDs, for both users and groups. It is mapped to the pod's IDs from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdRange {
    /// The host ID of root in the pod.
    pub(crate) first: u32,
    pub(crate) length: u32,
}

impl IdRange {
    /// Returns the first ID after the range.
    fn end(self) -> u64 {
        u64::from(self.first) + u64::from(self.length)
    }
}

/// Why a pod has no ID range.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UserIdsError {
    #[error(transparent)]
    NoRange(#[from] NoRange),
    #[error("cannot find the ids of other pods in {}: {source}", path.display())]
    Unread { path: PathBuf, source: io::Error },
    #[error("cannot record the ids of the pod in {}: {source}", path.display())]
    Unwritten { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Folder(#[from] VolumeError),
}

/// Assigns ranges to pods. All of this blocks on the disk: call it off the async threads.
#[derive(Debug)]
pub(crate) struct UserIds {
    data: DataDirectory,
    pool: Result<IdPool, IdPoolError>,
    /// `None` until the first pod asks; the existing ranges are then read from the folders of their pods.
    ledger: Mutex<Option<Ledger>>,
}

impl UserIds {
    pub(crate) fn new(data: DataDirectory, pool: Result<IdPool, IdPoolError>) -> Self {
        Self { data, pool, ledger: Mutex::new(None) }
    }

    /// Returns the range of a pod: its existing one, or a new one that is written to disk before it is returned.
    pub(crate) fn of_pod(&self, uid: &PodUid) -> Result<IdRange, UserIdsError> {
        let folder = self.data.pod(uid.as_str())?;
        folder.create()?;
        let mut place = self.ledger.lock();
        let ledger = match &mut *place {
            Some(ledger) => ledger,
            None => place.insert(Ledger::new(self.pool.clone(), self.found()?)),
        };
        if let Some(range) = ledger.held(uid) {
            return Ok(range);
        }
        let range = ledger.take(uid)?;
        if let Err(source) = file::write(&folder.user_ids(), range) {
            ledger.give_back(uid);
            return Err(UserIdsError::Unwritten { path: folder.user_ids(), source });
        }
        Ok(range)
    }

    /// Releases the range of a pod: nothing of the pod runs any more, and its folder no longer states a range.
    pub(crate) fn give_back(&self, uid: &PodUid) {
        if let Some(ledger) = &mut *self.ledger.lock() {
            ledger.give_back(uid);
        }
    }

    /// Reads the ranges of all pods that have a folder.
    fn found(&self) -> Result<Vec<(PodUid, Found)>, UserIdsError> {
        let pods = self.data.pods();
        let unread = |source| UserIdsError::Unread { path: pods.clone(), source };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&pods).map_err(unread)? {
            let Ok(name) = entry.map_err(unread)?.file_name().into_string() else { continue };
            let Ok(folder) = self.data.pod(&name) else { continue };
            match pod_file::read::<file::Mappings>(&folder.user_ids()) {
                Ok(None) => {}
                Ok(Some(mappings)) => found.push((PodUid::from(name), Found::of(mappings.range()))),
                Err(error) => found.push((PodUid::from(name), Found::Damaged(error.to_string()))),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn ids(folder: &std::path::Path) -> UserIds {
        UserIds::new(DataDirectory::new(folder), Ok(IdPool::usual()))
    }

    #[test]
    fn the_next_agent_knows_who_has_which_range() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b, c) = (PodUid::from("a"), PodUid::from("b"), PodUid::from("c"));
        let first = ids(folder.path());
        let (of_a, of_b) = (first.of_pod(&a).unwrap(), first.of_pod(&b).unwrap());
        assert_ne!(of_a, of_b);
        assert_eq!(first.of_pod(&a).unwrap(), of_a);
        let written = fs::read_to_string(folder.path().join("pods/a/userns")).unwrap();
        let mapping = r#"[{"hostId":65536,"containerId":0,"length":65536}]"#;
        assert_eq!(written, format!(r#"{{"uidMappings":{mapping},"gidMappings":{mapping}}}"#));

        let next = ids(folder.path());
        let of_c = next.of_pod(&c).unwrap();
        assert!(![of_a, of_b].contains(&of_c));
        assert_eq!((next.of_pod(&b).unwrap(), next.of_pod(&a).unwrap()), (of_b, of_a));
    }

    #[test]
    fn as_long_as_the_range_of_one_pod_is_not_known_no_other_gets_one() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        let kept = ids(folder.path()).of_pod(&b).unwrap();
        let damaged = folder.path().join("pods/a");
        let mapping = |host, length| format!(r#"[{{"hostId":{host},"containerId":0,"length":{length}}}]"#);
        fs::create_dir_all(&damaged).unwrap();
        for text in [
            "{".to_owned(),
            r#"{"uidMappings":[],"gidMappings":[]}"#.to_owned(),
            format!(r#"{{"uidMappings":{},"gidMappings":{}}}"#, mapping(65536, 65536), mapping(65536, 1)),
            format!(r#"{{"uidMappings":{0},"gidMappings":{0}}}"#, mapping(0, 65536)),
            format!(r#"{{"uidMappings":{0},"gidMappings":{0}}}"#, mapping(4_294_901_760_u32, 65537)),
        ] {
            fs::write(damaged.join("userns"), &text).unwrap();
            let ids = ids(folder.path());
            let error = ids.of_pod(&PodUid::from("new")).unwrap_err().to_string();
            assert!(error.contains("pod a") && error.contains("userns"), "{text}: {error}");
            assert!(ids.of_pod(&a).is_err(), "{text}: nor that pod");
            assert_eq!(ids.of_pod(&b).unwrap(), kept, "{text}: who has one keeps it");
            ids.give_back(&a);
            ids.of_pod(&PodUid::from("new")).unwrap();
            fs::remove_dir_all(folder.path().join("pods/new")).unwrap();
        }
    }

    #[test]
    fn a_range_that_cannot_be_written_down_is_not_given() {
        let folder = tempfile::tempdir().unwrap();
        let ids = ids(folder.path());
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        // A non-empty folder stands where the file should be.
        fs::create_dir_all(folder.path().join("pods/a/userns.new/x")).unwrap();
        assert!(matches!(ids.of_pod(&a), Err(UserIdsError::Unwritten { .. })));
        fs::remove_dir_all(folder.path().join("pods/a/userns.new")).unwrap();
        assert_ne!(ids.of_pod(&b).unwrap(), ids.of_pod(&a).unwrap());
    }
}
