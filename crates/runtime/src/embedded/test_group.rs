//! A v2 control group for tests, even where v1 has the controllers.

use std::path::{Path, PathBuf};

use super::mountinfo;

/// A group that is removed when this is dropped.
pub(crate) struct TestGroup(PathBuf);

impl TestGroup {
    /// Creates a group; `None` if this user may not.
    pub(crate) fn make(name: &str) -> Option<Self> {
        let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let mounts = mountinfo::parse(&table);
        let root = &mounts.iter().find(|mount| mount.fs == "cgroup2")?.point;
        let folder = root.join(format!("rubelet-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        Some(Self(folder))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
