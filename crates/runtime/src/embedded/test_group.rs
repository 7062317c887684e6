//! A control group of v2 for tests, also where v1 has the controllers.

use std::path::{Path, PathBuf};

use super::mountinfo;

/// A group that goes away again.
pub(crate) struct TestGroup(PathBuf);

impl TestGroup {
    /// `None` where this user may not make one.
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
