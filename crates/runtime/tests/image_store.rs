//! The store under several hands, and after sudden deaths.
#![cfg(feature = "image")]

mod image_fixture;

use std::fs;
use std::path::{Path, PathBuf};

use image_fixture::{Layer, TestImage, archive, oci, write};
use rubelet_runtime::image::{HOST_IMAGE, Image, ImageStore, ImportOptions, Progress, StoreError};

struct Setting {
    dir: tempfile::TempDir,
}

impl Setting {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn open(&self) -> ImageStore {
        ImageStore::open(self.path()).unwrap()
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn import(&self, store: &ImageStore, name: &str, layers: &[&str]) -> Image {
        let layers = layers.iter().map(|text| Layer::default().file("file", text)).collect();
        let image = TestImage::new(layers);
        let path = write(
            self.dir.path(),
            &format!("{}.tar", name.replace(['/', ':'], "-")),
            &archive(&oci(&[(&image, &[&format!("localhost/{name}:1")])])),
        );
        store.import(&path, &ImportOptions::default(), &Progress::none()).unwrap().remove(0)
    }

    fn count(&self, dir: &str) -> usize {
        fs::read_dir(self.path().join(dir)).unwrap().count()
    }
}

#[test]
fn the_built_in_image_is_there_and_stays() {
    let setting = Setting::new();
    let store = setting.open();
    let host = store.resolve(HOST_IMAGE).unwrap();
    assert_eq!(store.list().unwrap(), std::slice::from_ref(&host));
    assert_eq!(store.resolve(host.short_id()).unwrap(), host);
    assert!(matches!(store.remove("host"), Err(StoreError::BuiltIn)));
    assert!(matches!(store.remove(host.id.as_str()), Err(StoreError::BuiltIn)));
    assert!(matches!(store.tag("host", &"mine:1".parse().unwrap()), Err(StoreError::BuiltIn)));
    store.lease("c1", &host).unwrap();
    assert_eq!(store.leases().unwrap()[0].layers, []);
}

#[test]
fn tags_move_and_take_the_image_with_the_last() {
    let setting = Setting::new();
    let store = setting.open();
    let a = setting.import(&store, "a", &["base", "a"]);
    let b = setting.import(&store, "b", &["base", "b"]);
    store.tag("localhost/a:1", &"localhost/x:1".parse().unwrap()).unwrap();
    assert_eq!(store.resolve("localhost/x:1").unwrap().id, a.id);
    store.tag(b.short_id(), &"localhost/x:1".parse().unwrap()).unwrap();
    assert_eq!(store.resolve("localhost/x:1").unwrap().id, b.id);
    assert!(matches!(store.tag("localhost/a:1", &"host".parse().unwrap()), Err(StoreError::BuiltIn)));

    assert!(!store.untag("localhost/x:1").unwrap().image_gone);
    assert!(store.untag("localhost/b:1").unwrap().image_gone);
    assert_eq!(setting.count("layers"), 2);
    assert!(store.untag(a.short_id()).unwrap().image_gone, "by id the whole image goes");
    assert_eq!(setting.count("layers"), 0);
    assert!(store.remove("localhost/a:1").unwrap_err().is_not_found());
}

#[test]
fn a_layer_in_use_outlives_its_image_and_restarts() {
    let setting = Setting::new();
    let store = setting.open();
    let image = setting.import(&store, "a", &["base", "a"]);
    store.lease("c1", &image).unwrap();
    store.lease("c1", &image).unwrap();
    store.lease("c2", &image).unwrap();
    assert_eq!(store.remove("localhost/a:1").unwrap().layers_removed, 0);
    drop(store);

    let store = setting.open();
    assert_eq!(setting.count("layers"), 2);
    assert_eq!(
        store.leases().unwrap().iter().map(|lease| lease.key.as_str()).collect::<Vec<_>>(),
        ["c1", "c2"]
    );
    assert_eq!(store.layer_dirs(&image).iter().filter(|dir| dir.is_dir()).count(), 2);
    store.release("c1").unwrap();
    store.release("c1").unwrap();
    store.release("never-held").unwrap();
    assert_eq!(setting.count("layers"), 2);
    store.release("c2").unwrap();
    assert_eq!(setting.count("layers"), 0);
    let error = store.lease("c3", &image).unwrap_err();
    assert!(matches!(error, StoreError::LayerMissing { .. }), "{error}");
    assert!(matches!(store.lease("../x", &image), Err(StoreError::LeaseKey(_))));
}

/// Every state in which a killed process can leave the directory.
#[test]
fn what_a_killed_process_leaves_is_swept() {
    let setting = Setting::new();
    let store = setting.open();
    let image = setting.import(&store, "a", &["base", "a"]);
    let layers = setting.path().join("layers");
    let staging = setting.path().join("staging");
    let layer = |name: char| layers.join(name.to_string().repeat(64));

    // In the middle of unpacking.
    fs::create_dir_all(staging.join("work-1-0/layers/x.partial/fs/deep/er")).unwrap();
    fs::write(staging.join("work-1-0/layers/x.partial/fs/file"), "half").unwrap();
    fs::write(staging.join("work-1-0/pins.json"), "[\"sha").unwrap();
    // Between moving layers in and writing the index.
    fs::create_dir_all(layer('a').join("fs")).unwrap();
    // While a layer is removed.
    fs::create_dir_all(staging.join("old-1-0/fs/half")).unwrap();
    // While a file is replaced.
    fs::write(setting.path().join("index.json.new"), "{\"version\":1,\"ima").unwrap();
    fs::write(setting.path().join("leases/c9.json.new"), "{").unwrap();

    let again = setting.open();
    assert_eq!(setting.count("staging"), 0);
    assert_eq!(setting.count("layers"), 2);
    assert_eq!(again.resolve("localhost/a:1").unwrap(), image);
    assert_eq!(again.leases().unwrap(), []);
    again.tag("localhost/a:1", &"localhost/b:1".parse().unwrap()).unwrap();
    again.lease("c9", &image).unwrap();
    assert_eq!(setting.open().leases().unwrap().len(), 1);
}

#[test]
fn a_damaged_index_is_said_and_nothing_is_removed() {
    let setting = Setting::new();
    setting.import(&setting.open(), "a", &["base", "a"]);
    fs::write(setting.path().join("index.json"), "{\"version\":1,\"images\":[").unwrap();
    let error = ImageStore::open(setting.path()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("index.json"), "{error}");
    assert_eq!(setting.count("layers"), 2);
    fs::write(setting.path().join("index.json"), "{\"version\":9,\"images\":[]}").unwrap();
    assert!(matches!(ImageStore::open(setting.path()), Err(StoreError::Format { found: 9, .. })));
    assert_eq!(setting.count("layers"), 2);
}

#[test]
fn many_hands_at_once_lose_nothing() {
    let setting = Setting::new();
    let store = setting.open();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let setting = &setting;
            let store = if thread % 2 == 0 { store.clone() } else { setting.open() };
            scope.spawn(move || {
                for round in 0..6 {
                    let name = format!("t{thread}r{round}");
                    let image = setting.import(&store, &name, &["base", &name]);
                    store.lease(&name, &image).unwrap();
                    // Somebody opens the store, and sweeps, in the middle of everything.
                    ImageStore::open(setting.path()).unwrap();
                    if round % 2 == 0 {
                        store.remove(&format!("localhost/{name}:1")).unwrap();
                    }
                    assert!(store.layer_dirs(&image).iter().all(|dir| Path::new(dir).is_dir()));
                    store.release(&name).unwrap();
                }
            });
        }
    });
    assert_eq!(store.list().unwrap().len(), 1 + 4 * 3);
    assert_eq!(setting.count("layers"), 1 + 4 * 3);
    assert_eq!((setting.count("staging"), setting.count("leases")), (0, 0));
    for image in store.list().unwrap() {
        if !image.is_built_in() {
            store.remove(image.id.as_str()).unwrap();
        }
    }
    assert_eq!(setting.count("layers"), 0);
}
