//! The built-in image on the real machine. Needs the right to mount; says so where it is missing.
#![cfg(feature = "image")]

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rubelet_runtime::image::rootfs::{self, Kind, MountPoint, Options, Rootfs, RootfsError};
use rubelet_runtime::image::{HOST_IMAGE, ImageStore};

/// A container's directory that never outlives its mounts: removing the one through the other could reach the host.
struct Container {
    dir: Option<tempfile::TempDir>,
    store: ImageStore,
}

impl Container {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = ImageStore::open(dir.path().join("images")).unwrap();
        fs::create_dir(dir.path().join("container")).unwrap();
        Self { dir: Some(dir), store }
    }

    fn path(&self) -> PathBuf {
        self.dir.as_ref().unwrap().path().join("container")
    }

    fn mount(&self, options: &Options) -> Option<Rootfs> {
        let image = self.store.resolve(HOST_IMAGE).unwrap();
        match rootfs::mount(&self.store, &image, &self.path(), options) {
            Ok(rootfs) => Some(rootfs),
            Err(RootfsError::MountRefused { source }) if !rustix::process::geteuid().is_root() => {
                eprintln!("not shown here: mounts need root ({source})");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Err(error) = rootfs::unmount(&self.path()) {
            eprintln!("left behind: {error}");
            let _ = self.dir.take().map(tempfile::TempDir::keep);
        }
    }
}

fn mounts_below(dir: &Path) -> usize {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().filter(|line| line.contains(&format!(" {}/", dir.display()))).count()
}

#[test]
fn the_host_is_there_read_only_with_private_directories() {
    let container = Container::new();
    let Some(rootfs) = container.mount(&Options::default()) else { return };
    let root = &rootfs.path;
    assert_eq!(rootfs.kind, Kind::Host);
    assert_eq!(fs::read("/etc/passwd").unwrap(), fs::read(root.join("etc/passwd")).unwrap());
    for dir in ["", "etc", "usr", "var"] {
        let error = fs::write(root.join(dir).join("rubelet-test-canary"), "x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem, "/{dir}");
    }
    for dir in ["tmp", "run", "var/tmp"] {
        let inside = root.join(dir).join("rubelet-test-private");
        fs::write(&inside, "x").unwrap();
        assert!(!Path::new("/").join(dir).join("rubelet-test-private").exists(), "/{dir} is the host's");
        assert_eq!(fs::read_dir(root.join(dir)).unwrap().count(), 1, "/{dir} shows the host's files");
    }
    assert_eq!(fs::metadata(root.join("tmp")).unwrap().permissions().mode() & 0o7777, 0o1777);
    if fs::read_to_string("/proc/self/uid_map").unwrap().contains("4294967295") {
        // In a user namespace the machine's own comes along, until the container's covers it.
        assert_eq!(fs::read_dir(root.join("proc")).unwrap().count(), 0);
    }

    let again = container.mount(&Options::default()).unwrap();
    assert_eq!(again, rootfs);
    let count = mounts_below(&container.path());
    assert!(count < 64, "{count} mounts for one container");

    rootfs::unmount(&container.path()).unwrap();
    rootfs::unmount(&container.path()).unwrap();
    assert_eq!(mounts_below(&container.path()), 0);
    assert_eq!(fs::read_dir(root).unwrap().count(), 0);

    // What it wrote is still there for the next start, and gone with the container.
    let rootfs = container.mount(&Options::default()).unwrap();
    assert!(rootfs.path.join("run/rubelet-test-private").exists());
    rootfs::remove(&container.path()).unwrap();
    rootfs::remove(&container.path()).unwrap();
    assert_eq!(fs::read_dir(container.path()).unwrap().count(), 0);
    assert!(Path::new("/etc/passwd").exists());
}

#[test]
fn mount_points_that_the_host_lacks_are_made_in_the_container_only() {
    let container = Container::new();
    let hidden = container.dir.as_ref().unwrap().path().join("images");
    fs::write(hidden.join("secret"), "x").unwrap();
    let options = Options {
        mount_points: vec![
            MountPoint::Dir("/rubelet-test-top/deep/er".into()),
            MountPoint::File("/etc/rubelet-test-dir/file".into()),
            MountPoint::Dir("/etc/ssl".into()),
            MountPoint::Dir("/var/run/secrets/kubernetes.io".into()),
            MountPoint::Dir("/proc/rubelet-test".into()),
        ],
        ..Options::default()
    };
    let Some(rootfs) = container.mount(&options) else { return };
    let root = &rootfs.path;
    assert!(root.join("rubelet-test-top/deep/er").is_dir());
    assert!(root.join("etc/rubelet-test-dir/file").is_file());
    assert!(!Path::new("/rubelet-test-top").exists());
    assert!(!Path::new("/etc/rubelet-test-dir").exists());
    // The rebuilt directories still have everything else, read-only.
    assert_eq!(fs::read("/etc/passwd").unwrap(), fs::read(root.join("etc/passwd")).unwrap());
    let sorted = |dir: &Path| {
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let mut host = sorted(Path::new("/etc"));
    host.push("rubelet-test-dir".into());
    host.sort();
    assert_eq!(sorted(&root.join("etc")), host);
    for path in ["canary", "etc/canary", "etc/ssl/canary", "usr/canary", "rubelet-test-top/canary"] {
        let error = fs::write(root.join(path), "x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem, "/{path}");
    }
    assert!(fs::write(root.join("tmp/ok"), "x").is_ok());
    rootfs::remove(&container.path()).unwrap();
    assert!(hidden.join("secret").exists());
}

#[test]
fn of_a_read_only_root_the_private_directories_are_so_too_and_have_their_mount_points() {
    let container = Container::new();
    let options = Options {
        mount_points: vec![
            MountPoint::Dir("/tmp".into()),
            MountPoint::Dir("/tmp/some/data".into()),
            MountPoint::File("/var/tmp/file".into()),
            MountPoint::Dir("/var/run/secrets".into()),
            MountPoint::File("/run/socket".into()),
            MountPoint::Dir("/proc".into()),
            MountPoint::File("/dev/termination-log".into()),
        ],
        read_only: true,
        ..Options::default()
    };
    // As after a reboot.
    for _ in 0..2 {
        let Some(rootfs) = container.mount(&options) else { return };
        let root = &rootfs.path;
        assert!(root.join("tmp/some/data").is_dir() && root.join("run/secrets").is_dir());
        assert!(root.join("var/tmp/file").is_file() && root.join("run/socket").is_file());
        for folder in ["", "etc", "tmp", "tmp/some/data", "run", "var/tmp"] {
            let error = fs::write(root.join(folder).join("rubelet-test-canary"), "x").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem, "/{folder}");
        }
        rootfs::unmount(&container.path()).unwrap();
    }
    rootfs::remove(&container.path()).unwrap();
}

#[test]
fn hidden_directories_are_empty_and_other_containers_are_not_inside() {
    // Under /var/lib and not /tmp, which is private anyway.
    let Ok(base) = tempfile::tempdir_in("/var/lib") else { return };
    let store = ImageStore::open(base.path().join("images")).unwrap();
    let image = store.resolve(HOST_IMAGE).unwrap();
    let dirs: Vec<_> = (0..3).map(|n| base.path().join(format!("c{n}"))).collect();
    let options = Options { hide: vec![base.path().join("images")], ..Options::default() };
    let mut counts = Vec::new();
    for dir in &dirs {
        fs::create_dir(dir).unwrap();
        if rootfs::mount(&store, &image, dir, &options).is_err() && !rustix::process::geteuid().is_root() {
            return;
        }
        counts.push(mounts_below(dir));
    }
    let inside = dirs[2].join("rootfs").join(base.path().strip_prefix("/").unwrap());
    let hidden = fs::read_dir(inside.join("images")).map(Iterator::count);
    let nested = fs::read_dir(inside.join("c0/rootfs")).map(Iterator::count);
    for dir in &dirs {
        rootfs::remove(dir).unwrap();
    }
    assert_eq!(hidden.unwrap(), 0);
    assert_eq!(nested.unwrap(), 0, "a container sees another container's root");
    assert!(counts.iter().all(|count| *count == counts[0]), "mounts grow with containers: {counts:?}");
    assert!(store.dir().join("lock").exists());
}

#[test]
fn half_a_root_is_not_taken_for_a_whole_one() {
    let container = Container::new();
    let Some(rootfs) = container.mount(&Options::default()) else { return };
    // As a process leaves it that dies before its last step.
    fs::remove_file(container.path().join("rootfs.ready")).unwrap();
    rustix::mount::unmount(rootfs.path.join("tmp"), rustix::mount::UnmountFlags::DETACH).unwrap();
    container.mount(&Options::default()).unwrap();
    assert!(fs::write(rootfs.path.join("tmp/ok"), "x").is_ok());
    rootfs::remove(&container.path()).unwrap();
    assert_eq!(mounts_below(&container.path()), 0);
}
