//! Which pods are ours: those that have a folder. It is made before anything else of a pod, and removed after everything.
//!
//! A runtime may be shared: a pod that another agent or a person made is none of our business, however unknown.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rubelet_model::PodUid;

/// The pods that have a folder. Blocks on the disk.
pub(super) fn pods_with_folder(pods: &Path) -> io::Result<BTreeSet<PodUid>> {
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
}
