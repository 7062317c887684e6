//! A control group for the pods of a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cgroup::{HIERARCHIES, children};
use crate::{processes, wait};

const LIMIT: Duration = Duration::from_secs(30);

/// A control group that is emptied and removed on drop, whatever happened.
#[derive(Debug)]
pub struct Group(String);

impl Group {
    /// Only notes the path: whoever runs pods below it creates the group.
    #[must_use]
    pub fn new(path: &str) -> Self {
        Self(path.to_owned())
    }

    /// Its path below the mount point of any hierarchy.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0
    }

    /// The folders in which it exists: in each hierarchy of v1, or in the one of v2.
    #[must_use]
    pub fn folders(&self) -> Vec<PathBuf> {
        let below = self.0.trim_start_matches('/');
        let unified = Path::new(HIERARCHIES).to_owned();
        let all = children(Path::new(HIERARCHIES)).into_iter().chain([unified]);
        all.map(|hierarchy| hierarchy.join(below)).filter(|folder| folder.is_dir()).collect()
    }

    /// Returns the groups directly below it.
    pub(crate) fn children(&self) -> Vec<PathBuf> {
        self.folders().iter().flat_map(|folder| children(folder)).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        wait::until(LIMIT, || {
            let folders = self.folders();
            folders.iter().for_each(|folder| empty(folder));
            folders.is_empty().then_some(())
        });
    }
}

fn empty(folder: &Path) {
    children(folder).iter().for_each(|child| empty(child));
    let members = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    members.lines().filter_map(|pid| pid.parse().ok()).for_each(processes::kill);
    let _ = fs::remove_dir(folder);
}
