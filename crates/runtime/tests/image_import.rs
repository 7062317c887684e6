//! Archives of every kind into a store, honest ones and others.
#![cfg(feature = "image")]

mod image_fixture;

use std::fs;
use std::path::Path;

use image_fixture::{Layer, Pack, TestImage, archive, docker, oci, write};
use rubelet_runtime::image::{
    Digest, Image, ImageStore, ImportError, ImportOptions, ImportReason, IngestError, Limits, Progress,
    StoreError,
};
use serde_json::json;

type Files = Vec<(String, Vec<u8>)>;

fn import(store: &ImageStore, path: &Path) -> Result<Vec<Image>, ImportError> {
    store.import(path, &ImportOptions::default(), &Progress::none())
}

fn store() -> (tempfile::TempDir, ImageStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = ImageStore::open(dir.path().join("store")).unwrap();
    (dir, store)
}

fn base() -> Layer {
    Layer::default().dir("etc").file("etc/base", "base").file("etc/old", "old").symlink("link", "etc/base")
}

fn app() -> TestImage {
    TestImage::new(vec![base(), Layer::default().file("bin/app", "app").file("etc/.wh.old", "")])
}

/// What a store has on disk besides its lock: nothing may be left over.
fn leftovers(store: &ImageStore) -> Vec<String> {
    let names = |dir: &str| -> Vec<String> {
        fs::read_dir(store.dir().join(dir))
            .unwrap()
            .map(|entry| format!("{dir}/{}", entry.unwrap().file_name().into_string().unwrap()))
            .collect()
    };
    [names("layers"), names("staging"), names("leases")].concat()
}

#[test]
fn archives_of_either_kind_and_any_compression_give_the_same_image() {
    let (dir, _) = store();
    let mut seen = Vec::new();
    for layers in [Pack::Plain, Pack::Gzip, Pack::Zstd] {
        for whole in [Pack::Plain, Pack::Gzip, Pack::Zstd] {
            for kind in [oci, docker] {
                let image = app().pack(layers);
                let names: &[&str] = &["localhost/app:1"];
                let path = write(dir.path(), "x.tar", &whole.pack(&archive(&kind(&[(&image, names)]))));
                let store = ImageStore::open(dir.path().join(format!("store-{}", seen.len()))).unwrap();
                let imported = import(&store, &path).unwrap();
                assert_eq!(imported.len(), 1);
                assert_eq!(store.resolve("localhost/app:1").unwrap(), imported[0]);
                assert_eq!(imported[0].config.cmd, ["/bin/app"]);
                assert_eq!(imported[0].config.user, "7:8");
                let files = store.layer_dirs(&imported[0]);
                assert_eq!(fs::read_to_string(files[0].join("etc/base")).unwrap(), "base");
                assert_eq!(fs::read_to_string(files[1].join("bin/app")).unwrap(), "app");
                assert_eq!(leftovers(&store).len(), 2, "two layers and nothing else");
                seen.push((imported[0].id.clone(), imported[0].size));
            }
        }
    }
    assert!(seen.iter().all(|one| *one == seen[0]), "the same content has the same id and size");
}

#[test]
fn several_images_share_layers_and_bring_all_their_tags() {
    let (dir, store) = store();
    let other = TestImage::new(vec![base(), Layer::default().file("bin/other", "other")]);
    let files = oci(&[(&app(), &["a:1", "localhost/a:2"]), (&other, &["registry.example/b:1"])]);
    let images = import(&store, &write(dir.path(), "x.tar", &archive(&files))).unwrap();
    assert_eq!(images.len(), 2);
    assert_eq!(store.list().unwrap().len(), 3, "and the built-in one");
    let a = store.resolve("a:1").unwrap();
    assert_eq!(a.repo_tags, ["docker.io/library/a:1", "localhost/a:2"]);
    assert_eq!(a.repo_digests.len(), 2);
    assert_eq!(store.resolve(&a.repo_digests[0]).unwrap(), a);
    assert_eq!(leftovers(&store).len(), 3, "the shared layer is there once");
    let usage = store.fs_usage().unwrap();
    assert_eq!(usage.used_bytes, 4 + 3 + 3 + 5);

    // Again is fine, and changes nothing.
    import(&store, &dir.path().join("x.tar")).unwrap();
    assert_eq!(leftovers(&store).len(), 3);

    assert_eq!(store.remove("localhost/a:2").unwrap().layers_removed, 1);
    assert!(store.resolve("a:1").unwrap_err().is_not_found());
    assert_eq!(store.remove("registry.example/b:1").unwrap().layers_removed, 2);
    assert_eq!(leftovers(&store), Vec::<String>::new());
    assert_eq!(store.fs_usage().unwrap().used_bytes, 0);
}

#[test]
fn an_archive_that_is_both_kinds_at_once_gets_its_whole_names() {
    let (dir, store) = store();
    let image = app();
    let mut files = oci(&[(&image, &[])]);
    let blobs = image.blobs();
    let layers: Vec<String> =
        blobs.layers.iter().map(|digest| format!("blobs/sha256/{}", digest.hex())).collect();
    let list = json!([{"Config": format!("blobs/sha256/{}", blobs.config.hex()), "RepoTags": ["busybox:1.36"],
                       "Layers": layers}]);
    files.push(("manifest.json".to_owned(), serde_json::to_vec(&list).unwrap()));
    import(&store, &write(dir.path(), "x.tar", &archive(&files))).unwrap();
    assert_eq!(store.resolve("busybox:1.36").unwrap().id, blobs.config);
}

#[test]
fn a_tag_names_a_nameless_image_and_cannot_name_two() {
    let (dir, store) = store();
    let path = write(dir.path(), "x.tar", &archive(&docker(&[(&app(), &[])])));
    let options = ImportOptions { tag: Some("mine:1".parse().unwrap()), ..ImportOptions::default() };
    store.import(&path, &options, &Progress::none()).unwrap();
    assert_eq!(store.resolve("mine:1").unwrap().repo_tags, ["docker.io/library/mine:1"]);

    let other = TestImage::new(vec![base()]);
    let path = write(dir.path(), "y.tar", &archive(&docker(&[(&app(), &[]), (&other, &[])])));
    let error = store.import(&path, &options, &Progress::none()).unwrap_err();
    assert!(matches!(error.reason, ImportReason::OneTagForSeveral(2)), "{error}");
    let options = ImportOptions { tag: Some("host".parse().unwrap()), ..ImportOptions::default() };
    let error = store.import(&path, &options, &Progress::none()).unwrap_err();
    assert!(matches!(error.reason, ImportReason::Ingest(IngestError::Store(StoreError::BuiltIn))), "{error}");
}

#[test]
fn the_variant_for_this_machine_is_chosen() {
    let (dir, store) = store();
    let ours = app();
    let mut theirs = TestImage::new(vec![base()]);
    theirs.architecture = "s390x".to_owned();
    let mut files = oci(&[(&theirs, &[]), (&ours, &[])]);
    files.pop();
    let entry = |image: &TestImage| {
        let manifest = image.blobs().manifest;
        json!({"digest": Digest::of(&manifest), "size": manifest.len(), "platform": image.platform()})
    };
    let attestation = json!({"digest": Digest::of(b"x"), "size": 1,
        "platform": {"os": "unknown", "architecture": "unknown"}});
    let inner = json!({"schemaVersion": 2, "manifests": [attestation, entry(&theirs), entry(&ours)]});
    let inner = serde_json::to_vec(&inner).unwrap();
    files.push((format!("blobs/sha256/{}", Digest::of(&inner).hex()), inner.clone()));
    let top = |digest: Digest| {
        json!({"schemaVersion": 2, "manifests": [{"digest": digest, "size": 1,
            "annotations": {"io.containerd.image.name": "docker.io/library/multi:1"}}]})
    };
    let mut good = files.clone();
    good.push(("index.json".to_owned(), serde_json::to_vec(&top(Digest::of(&inner))).unwrap()));
    let images = import(&store, &write(dir.path(), "x.tar", &archive(&good))).unwrap();
    assert_eq!(images.len(), 1);
    assert_eq!(store.resolve("multi:1").unwrap().id, ours.blobs().config);

    let only = serde_json::to_vec(&json!({"schemaVersion": 2, "manifests": [entry(&theirs)]})).unwrap();
    files.push(("index.json".to_owned(), only));
    let error = import(&store, &write(dir.path(), "y.tar", &archive(&files))).unwrap_err();
    assert!(error.to_string().contains("only for linux/s390x"), "{error}");
}

#[test]
fn what_is_wrong_is_said_and_nothing_is_left() {
    let (dir, store) = store();
    let good = app();
    let names: &[&str] = &["app:1"];
    let with = |change: &dyn Fn(&mut Files)| {
        let mut files = oci(&[(&good, names)]);
        change(&mut files);
        archive(&files)
    };
    let layer = format!("blobs/sha256/{}", good.blobs().layers[1].hex());
    let config = format!("blobs/sha256/{}", good.blobs().config.hex());
    let at = |files: &mut Files, name: &str| files.iter().position(|(path, _)| path == name).unwrap();
    let evil = TestImage::new(vec![base(), Layer::default().symlink("x", "/etc").file("x/.wh...", "")]);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"not an archive at all, but long enough to be a block".repeat(20), "not a readable archive"),
        (Vec::new(), "not an image archive"),
        (archive(&[("some/file".to_owned(), b"x".to_vec())]), "not an image archive"),
        (archive(&[("index.json".to_owned(), b"{}".to_vec())]), "index.json"),
        (archive(&[("manifest.json".to_owned(), b"[{}]".to_vec())]), "manifest.json"),
        (archive(&[("manifest.json".to_owned(), b"[]".to_vec())]), "no image"),
        (archive(&docker(&[(&good, &["Not A Name"])])), "Not A Name"),
        (
            with(&|files| {
                let at = at(files, &layer);
                files.remove(at);
            }),
            "missing",
        ),
        (
            with(&|files| {
                let at = at(files, &config);
                files.remove(at);
            }),
            "missing",
        ),
        (
            with(&|files| {
                let at = at(files, &layer);
                files[at].1[30] ^= 1;
            }),
            "damaged or forged",
        ),
        (
            with(&|files| {
                let at = at(files, &config);
                files[at].1.push(b' ');
            }),
            "damaged or forged",
        ),
        (archive(&oci(&[(&evil, names)])), "\"x/.wh...\""),
        (archive(&oci(&[(&TestImage { os: "windows".into(), ..good.clone() }, names)])), "windows"),
    ];
    for (bytes, message) in cases {
        let path = write(dir.path(), "bad.tar", &bytes);
        let error = import(&store, &path).unwrap_err().to_string();
        assert!(error.contains(message), "{error:?} does not say {message:?}");
        assert!(error.contains("bad.tar"), "{error:?} does not name the archive");
        assert_eq!(leftovers(&store), Vec::<String>::new());
        assert_eq!(store.list().unwrap().len(), 1);
    }
    let error = import(&store, Path::new("/nowhere/x.tar")).unwrap_err().to_string();
    assert!(error.contains("/nowhere/x.tar"), "{error}");

    // One bad image of two: the good one does not come alone.
    let path = write(dir.path(), "half.tar", &archive(&oci(&[(&good, names), (&evil, &["evil:1"])])));
    import(&store, &path).unwrap_err();
    assert_eq!((leftovers(&store), store.list().unwrap().len()), (Vec::new(), 1));
}

#[test]
fn a_layer_that_is_not_what_the_configuration_says_is_refused() {
    let (dir, store) = store();
    let image = app();
    let mut files = docker(&[(&image, &["app:1"])]);
    let name = format!("{}/layer.tar", image.blobs().layers[0].hex());
    let other = Layer::default().file("evil", "evil").tar();
    files.iter_mut().find(|(path, _)| *path == name).unwrap().1 = other;
    let error = import(&store, &write(dir.path(), "x.tar", &archive(&files))).unwrap_err();
    assert!(matches!(error.reason, ImportReason::Ingest(IngestError::Digest { .. })), "{error}");
    assert_eq!(leftovers(&store), Vec::<String>::new());
}

#[test]
fn a_bomb_stops_at_the_limit() {
    let (dir, store) = store();
    let image = TestImage::new(vec![Layer::default().file("zeros", &"\0".repeat(4 << 20))]);
    let path = write(dir.path(), "x.tar", &archive(&oci(&[(&image, &["bomb:1"])])));
    assert!(fs::metadata(&path).unwrap().len() < 1 << 20);
    let limits = Limits { max_layer_bytes: 1 << 20, ..Limits::default() };
    let error = store.import(&path, &ImportOptions { limits, tag: None }, &Progress::none()).unwrap_err();
    assert!(error.to_string().contains("more than 1048576 bytes"), "{error}");
    assert_eq!(leftovers(&store), Vec::<String>::new());
}

proptest::proptest! {
    #[test]
    fn arbitrary_and_bent_archives_never_panic_and_leave_nothing(
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 1..64),
        at in 0_usize..20_000,
        fresh in proptest::bool::ANY,
    ) {
        let (dir, store) = store();
        let mut whole = if fresh { Vec::new() } else { archive(&oci(&[(&app(), &["a:1"])])) };
        if fresh {
            whole.extend_from_slice(&bytes);
        } else {
            let len = whole.len();
            for (offset, byte) in bytes.iter().enumerate() {
                whole[(at + offset) % len] = *byte;
            }
        }
        let path = write(dir.path(), "x.tar", &whole);
        match import(&store, &path) {
            Ok(images) => proptest::prop_assert_eq!(store.list().unwrap().len(), images.len() + 1),
            Err(_) => proptest::prop_assert_eq!(leftovers(&store), Vec::<String>::new()),
        }
    }
}
