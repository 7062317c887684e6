//! File systems of the machine, made for a test and gone with it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of its own, which is gone with this.
pub(crate) struct Mounted(pub(crate) PathBuf);

impl Mounted {
    /// On a folder, in memory; `kind` is an option of `mount` that says who is to see what is mounted in it.
    pub(crate) fn new(folder: PathBuf, kind: &str) -> Self {
        let path = folder.to_str().expect("plain");
        run("mount", &["-t", "tmpfs", "none", path]);
        run("mount", &[kind, path]);
        Self(folder)
    }

    /// One more, in a folder of this one, with a file `f` in it. It goes with this one.
    pub(crate) fn mount_inside(&self, name: &str) {
        let inner = self.0.join(name);
        std::fs::create_dir_all(&inner).expect("a folder");
        run("mount", &["-t", "tmpfs", "none", inner.to_str().expect("plain")]);
        std::fs::write(inner.join("f"), "").expect("a file");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--recursive", "--lazy"]).arg(&self.0).status();
    }
}

fn run(program: &str, words: &[&str]) {
    assert!(Command::new(program).args(words).status().expect(program).success(), "{program} {words:?}");
}

pub(crate) fn is_mounted(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("a table");
    table.lines().any(|line| line.split(' ').nth(4) == path.to_str())
}
