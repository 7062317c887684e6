//! Root filesystems of layered images: by overlay and by copy, with the same result.
#![cfg(feature = "image")]

mod image_fixture;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use image_fixture::{Layer, TestImage, archive, oci, write};
use rubelet_runtime::image::rootfs::{self, Kind, Options};
use rubelet_runtime::image::{Image, ImageStore, ImportOptions, Progress};

struct Setting {
    dir: tempfile::TempDir,
    store: ImageStore,
    image: Image,
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = rootfs::unmount(&self.container());
    }
}

impl Setting {
    fn new(layers: Vec<Layer>) -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), layers)
    }

    fn in_dir(dir: tempfile::TempDir, layers: Vec<Layer>) -> Self {
        let store = ImageStore::open(dir.path().join("store")).unwrap();
        let path = write(dir.path(), "x.tar", &archive(&oci(&[(&TestImage::new(layers), &["x:1"])])));
        let image = store.import(&path, &ImportOptions::default(), &Progress::none()).unwrap().remove(0);
        fs::create_dir(dir.path().join("container")).unwrap();
        Self { dir, store, image }
    }

    fn container(&self) -> PathBuf {
        self.dir.path().join("container")
    }

    fn mount(&self) -> rootfs::Rootfs {
        rootfs::mount(&self.store, &self.image, &self.container(), &Options::default()).unwrap()
    }
}

/// Layers that use every way of hiding something.
fn layers() -> Vec<Layer> {
    vec![
        Layer::default()
            .dir("etc")
            .file("etc/kept", "low")
            .file("etc/gone", "low")
            .file("etc/over", "low")
            .dir("opaque")
            .file("opaque/low", "low")
            .dir("dir-gone/deep")
            .file("dir-gone/deep/x", "low")
            .dir("dir-to-file")
            .file("file-to-dir", "low")
            .dir("back")
            .file("back/low", "low")
            .symlink("link", "etc/kept")
            .file("hard-a", "twin")
            .hardlink("hard-b", "hard-a"),
        Layer::default()
            .file("etc/.wh.gone", "")
            .file("etc/over", "high")
            .file("opaque/.wh..wh..opq", "")
            .file("opaque/high", "high")
            .file(".wh.dir-gone", "")
            .file("dir-to-file", "high")
            .dir("file-to-dir")
            .file("file-to-dir/x", "high")
            .file(".wh.back", "")
            .dir("back")
            .file("back/high", "high"),
        Layer::default().file("etc/gone-twice", "x").file("etc/.wh.never-there", ""),
    ]
}

fn tree(root: &Path) -> BTreeMap<String, String> {
    fn walk(dir: &Path, root: &Path, out: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                out.insert(name, "dir".to_owned());
                walk(&path, root, out);
            } else if kind.is_symlink() {
                out.insert(name, format!("-> {}", fs::read_link(&path).unwrap().display()));
            } else {
                out.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut out = BTreeMap::new();
    walk(root, root, &mut out);
    out
}

fn expected() -> BTreeMap<String, String> {
    [
        ("back", "dir"),
        ("back/high", "high"),
        ("dir-to-file", "high"),
        ("etc", "dir"),
        ("etc/gone-twice", "x"),
        ("etc/kept", "low"),
        ("etc/over", "high"),
        ("file-to-dir", "dir"),
        ("file-to-dir/x", "high"),
        ("hard-a", "twin"),
        ("hard-b", "twin"),
        ("link", "-> etc/kept"),
        ("opaque", "dir"),
        ("opaque/high", "high"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .into()
}

#[test]
fn an_overlay_shows_what_the_layers_mean_and_keeps_what_is_written() {
    let setting = Setting::new(layers());
    let rootfs = setting.mount();
    if rootfs.kind != Kind::Overlay {
        eprintln!("not shown here: no overlays ({:?})", rootfs.kind);
        return;
    }
    assert_eq!(tree(&rootfs.path), expected());
    assert_eq!(fs::metadata(&rootfs.path).unwrap().permissions().mode() & 0o7777, 0o755);
    fs::write(rootfs.path.join("etc/kept"), "written").unwrap();
    fs::remove_file(rootfs.path.join("link")).unwrap();
    assert_eq!(setting.mount(), rootfs, "again is fine");

    rootfs::unmount(&setting.container()).unwrap();
    rootfs::unmount(&setting.container()).unwrap();
    assert!(fs::read_dir(&rootfs.path).unwrap().next().is_none());
    assert_eq!(fs::read_to_string(rootfs.writable[0].join("etc/kept")).unwrap(), "written");

    // As after a reboot.
    assert_eq!(setting.mount(), rootfs);
    assert_eq!(fs::read_to_string(rootfs.path.join("etc/kept")).unwrap(), "written");
    assert!(!rootfs.path.join("link").exists());
    rootfs::remove(&setting.container()).unwrap();
    rootfs::remove(&setting.container()).unwrap();
    assert!(fs::read_dir(setting.container()).unwrap().next().is_none());
    let layer = &setting.store.layer_dirs(&setting.image)[0];
    assert_eq!(fs::read_to_string(layer.join("etc/kept")).unwrap(), "low", "the layer is untouched");
}

/// On an overlay no other overlay can have its upper layer: the files are copied.
#[test]
fn a_copy_shows_the_same() {
    let base = tempfile::tempdir().unwrap();
    let at = |name: &str| base.path().join(name);
    for name in ["l", "u", "w", "m"] {
        fs::create_dir(at(name)).unwrap();
    }
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        at("l").display(),
        at("u").display(),
        at("w").display()
    );
    let options = std::ffi::CString::new(options).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    if let Err(error) = rustix::mount::mount("o", at("m"), "overlay", flags, Some(options.as_c_str())) {
        eprintln!("not shown here: mounts need root ({error})");
        return;
    }
    struct Unmount(PathBuf);
    impl Drop for Unmount {
        fn drop(&mut self) {
            let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
        }
    }
    let _unmount = Unmount(at("m"));
    let setting = Setting::in_dir(tempfile::tempdir_in(at("m")).unwrap(), layers());
    let rootfs = setting.mount();
    assert_eq!(rootfs.kind, Kind::Copy);
    assert_eq!(tree(&rootfs.path), expected());
    let ino = |name: &str| fs::metadata(rootfs.path.join(name)).unwrap().ino();
    assert_eq!(ino("hard-a"), ino("hard-b"));
    assert_eq!(fs::metadata(rootfs.path.join("etc/kept")).unwrap().mtime(), 1_600_000_000);
    fs::write(rootfs.path.join("etc/kept"), "written").unwrap();
    assert_eq!(setting.mount(), rootfs);
    assert_eq!(fs::read_to_string(rootfs.path.join("etc/kept")).unwrap(), "written", "copied once only");

    let null = rootfs.path.join("null");
    let rights = rustix::fs::Mode::RWXU;
    let kind = rustix::fs::FileType::CharacterDevice;
    rustix::fs::mknodat(rustix::fs::CWD, &null, kind, rights, rustix::fs::makedev(1, 3)).unwrap();
    fs::read(&null).unwrap();
    rootfs::forbid_devices(&rootfs.path).unwrap();
    assert_eq!(fs::read(&null).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    fs::read(rootfs.path.join("etc/kept")).unwrap();
    rootfs::remove(&setting.container()).unwrap();
    assert!(fs::read_dir(setting.container()).unwrap().next().is_none());

    // A copy that was cut short is not taken for a whole one.
    fs::create_dir_all(setting.container().join("rootfs.partial/etc")).unwrap();
    for name in ["rootfs", "upper", "work", "empty"] {
        fs::create_dir(setting.container().join(name)).unwrap();
    }
    assert_eq!(tree(&setting.mount().path), expected());
}

#[test]
fn images_without_layers_and_with_one_layer_twice_can_be_mounted() {
    let setting = Setting::new(vec![]);
    let rootfs = setting.mount();
    fs::write(rootfs.path.join("x"), "x").unwrap();
    rootfs::remove(&setting.container()).unwrap();

    let twice = Layer::default().file("a", "a");
    let setting = Setting::new(vec![twice.clone(), Layer::default().file(".wh.a", "").file("b", "b"), twice]);
    let rootfs = setting.mount();
    let names: Vec<String> = tree(&rootfs.path).into_keys().collect();
    assert_eq!(names, ["a", "b"]);
}
