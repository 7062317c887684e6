//! Pulls from a registry of our own, through everything that can go wrong on the way.
#![cfg(feature = "image")]

mod image_fixture;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use image_fixture::registry::{Fault, Guard, Registry};
use image_fixture::{Layer, Pack, TestImage};
use parking_lot::Mutex;
use rubelet_runtime::image::{
    Auth, Digest, Event, Image, ImageStore, IngestError, Progress, PullError, PullOptions, PullReason,
};
use serde_json::json;

struct Setting {
    _dir: tempfile::TempDir,
    store: ImageStore,
    registry: Registry,
}

/// Bytes that do not compress: layers of a size that matters.
fn noise(seed: u64, len: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b' ' + (state % 94) as u8)
    })
    .take(len)
    .collect()
}

fn image() -> TestImage {
    let layer = |n: u64| Layer::default().file(&format!("file-{n}"), &noise(n, 200_000));
    TestImage::new(vec![layer(1), layer(2), layer(3), layer(4)])
}

fn options() -> PullOptions {
    PullOptions {
        retry_pause: Duration::from_millis(1),
        stall_timeout: Duration::from_secs(20),
        ..PullOptions::default()
    }
}

impl Setting {
    async fn new(guard: Guard) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = ImageStore::open(dir.path()).unwrap();
        Self { store, registry: Registry::start(guard).await, _dir: dir }
    }

    async fn pull(&self, name: &str) -> Result<Image, PullError> {
        self.pull_with(name, &options()).await
    }

    async fn pull_with(&self, name: &str, options: &PullOptions) -> Result<Image, PullError> {
        let name = self.registry.name(name).parse().unwrap();
        self.store.pull(&name, options, &Progress::none()).await
    }

    /// How many bytes have been downloaded so far.
    fn downloaded(&self) -> u64 {
        let files = fs::read_dir(self.store.dir().join("downloads")).unwrap();
        files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum()
    }

    fn count(&self, dir: &str) -> usize {
        let visible = |entry: &fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
        fs::read_dir(self.store.dir().join(dir))
            .unwrap()
            .filter(|entry| visible(entry.as_ref().unwrap()))
            .count()
    }
}

#[tokio::test]
async fn an_image_comes_whole_and_only_once() {
    for pack in [Pack::Plain, Pack::Gzip, Pack::Zstd] {
        let setting = Setting::new(Guard::Nobody).await;
        let image = image().pack(pack);
        let manifest = setting.registry.offer("team/app", "1", &image);
        let events = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&events);
        let name = setting.registry.name("team/app:1").parse().unwrap();
        let progress = Progress::new(move |event| told.lock().push(event));
        let pulled = setting.store.pull(&name, &options(), &progress).await.unwrap();

        assert_eq!(pulled.id, image.blobs().config);
        assert_eq!(pulled.repo_tags, [setting.registry.name("team/app:1")]);
        assert_eq!(pulled.repo_digests, [format!("{}@{manifest}", setting.registry.name("team/app"))]);
        assert_eq!(setting.store.resolve(&pulled.repo_tags[0]).unwrap(), pulled);
        let files = setting.store.layer_dirs(&pulled);
        assert_eq!(fs::read_to_string(files[2].join("file-3")).unwrap(), noise(3, 200_000));
        assert_eq!(
            (setting.count("downloads"), setting.count("staging"), setting.count("layers")),
            (0, 0, 4)
        );
        assert!(setting.registry.most_at_once() <= 3, "{}", setting.registry.most_at_once());

        let events = events.lock().clone();
        let Event::Layers(layers) = &events[0] else { panic!("{:?}", events[0]) };
        assert_eq!(layers.len(), 4);
        for (layer, size) in layers.clone() {
            let whole = Event::Downloading { layer: layer.clone(), done: size, total: size };
            assert!(events.contains(&whole) && events.contains(&Event::Unpacked(layer.clone())));
        }

        setting.pull("team/app:1").await.unwrap();
        setting.pull(&format!("team/app@{manifest}")).await.unwrap();
        for layer in &image.blobs().layers {
            assert_eq!(setting.registry.asked(layer), [0], "a layer that is here is not asked for again");
        }
    }
}

#[tokio::test]
async fn the_variant_for_this_machine_is_pulled() {
    let setting = Setting::new(Guard::Nobody).await;
    let ours = image();
    let mut theirs = TestImage::new(vec![]);
    theirs.architecture = "s390x".to_owned();
    let entry = |image: &TestImage| json!({"digest": setting.registry.offer("x", "part", image), "size": 1, "platform": image.platform()});
    let index = |entries: &[serde_json::Value]| {
        serde_json::to_vec(&json!({"schemaVersion": 2, "manifests": entries})).unwrap()
    };
    let top = setting.registry.offer_manifest("x", "multi", &index(&[entry(&theirs), entry(&ours)]));
    setting.registry.offer_manifest("x", "foreign", &index(&[entry(&theirs)]));

    let pulled = setting.pull("x:multi").await.unwrap();
    assert_eq!(pulled.id, ours.blobs().config);
    assert_eq!(pulled.repo_digests.len(), 2, "by the index's digest and by the manifest's");
    assert!(pulled.repo_digests.contains(&setting.registry.name(&format!("x@{top}"))));
    let error = setting.pull("x:foreign").await.unwrap_err();
    assert!(error.to_string().contains("only for linux/s390x"), "{error}");
}

#[tokio::test]
async fn who_may_not_is_told_so() {
    let good = Auth::Basic { username: "user".to_owned(), password: "secret".to_owned() };
    let bad = Auth::Basic { username: "user".to_owned(), password: "hunter2".to_owned() };
    for guard in [Guard::Basic("user:secret"), Guard::Token("user:secret")] {
        let setting = Setting::new(guard).await;
        setting.registry.offer("x", "1", &image());
        for auth in [Auth::Anonymous, bad.clone()] {
            let error = setting.pull_with("x:1", &PullOptions { auth, ..options() }).await.unwrap_err();
            assert!(matches!(error.reason, PullReason::Unauthorized), "{guard:?}: {error}");
            assert!(!error.to_string().contains("hunter2"));
        }
        let with = PullOptions { auth: good.clone(), ..options() };
        setting.pull_with("x:1", &with).await.unwrap();
    }
    let setting = Setting::new(Guard::Token("user:secret")).await;
    setting.registry.offer("x", "1", &image());
    let with = PullOptions { auth: Auth::Bearer("good".to_owned()), ..options() };
    setting.pull_with("x:1", &with).await.unwrap();
}

#[tokio::test]
async fn what_is_not_there_is_told_so() {
    let setting = Setting::new(Guard::Nobody).await;
    setting.registry.offer("x", "1", &image());
    for name in ["x:2", "y:1", &format!("x@{}", Digest::of(b"?"))] {
        let error = setting.pull(name).await.unwrap_err();
        assert!(matches!(error.reason, PullReason::NotFound), "{name}: {error}");
    }
    let nobody = "127.0.0.1:1/x:1".parse().unwrap();
    let error = setting.store.pull(&nobody, &options(), &Progress::none()).await.unwrap_err();
    assert!(matches!(error.reason, PullReason::Unreachable(_)), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
    assert_eq!((setting.count("downloads"), setting.count("staging"), setting.count("layers")), (0, 0, 0));

    let host = setting.store.pull(&"host".parse().unwrap(), &options(), &Progress::none()).await.unwrap();
    assert!(host.is_built_in());
}

#[tokio::test]
async fn an_interrupted_layer_is_continued_where_it_stopped() {
    let setting = Setting::new(Guard::Nobody).await;
    let image = image().pack(Pack::Plain);
    setting.registry.offer("x", "1", &image);
    let layers = image.blobs().layers;
    setting.registry.fail(&image.blobs().config, &[Fault::Status(503), Fault::Cut(3)]);
    setting.registry.fail(&layers[0], &[Fault::Cut(50_000), Fault::Cut(50_000)]);
    setting.registry.fail(&layers[1], &[Fault::Status(503), Fault::Status(429), Fault::Cut(0)]);
    setting.registry.fail(&layers[2], &[Fault::Stall(70_000)]);
    setting.registry.fail(&layers[3], &[Fault::Cut(90_000), Fault::IgnoreRange]);
    // Longer than any pause of a busy machine; one stall is waited for.
    let options = PullOptions { stall_timeout: Duration::from_secs(5), ..options() };
    setting.pull_with("x:1", &options).await.unwrap();
    assert_eq!(setting.registry.asked(&layers[0]), [0, 50_000, 100_000]);
    assert_eq!(setting.registry.asked(&layers[1]), [0, 0, 0, 0]);
    assert_eq!(setting.registry.asked(&layers[2]), [0, 70_000]);
    assert_eq!(setting.registry.asked(&layers[3]), [0, 90_000]);
}

#[tokio::test]
async fn a_failed_pull_is_continued_by_the_next() {
    let setting = Setting::new(Guard::Nobody).await;
    let image = TestImage::new(vec![Layer::default().file("file", &noise(9, 300_000))]).pack(Pack::Plain);
    setting.registry.offer("x", "1", &image);
    let layer = &image.blobs().layers[0];
    let mut faults = vec![Fault::Cut(123_456)];
    faults.extend([Fault::Status(500); 5]);
    setting.registry.fail(layer, &faults);
    let error = setting.pull("x:1").await.unwrap_err();
    assert!(error.reason.is_transient(), "{error}");
    assert_eq!((setting.count("downloads"), setting.count("staging"), setting.count("layers")), (1, 0, 0));
    assert!(setting.store.list().unwrap().len() == 1, "nothing half is visible");
    setting.pull("x:1").await.unwrap();
    assert_eq!(setting.registry.asked(layer).last(), Some(&123_456));
    assert_eq!(setting.count("downloads"), 0);
}

#[tokio::test]
async fn damaged_and_lying_blobs_are_refused() {
    let setting = Setting::new(Guard::Nobody).await;
    let image = TestImage::new(vec![Layer::default().file("file", &noise(5, 100_000))]);
    setting.registry.offer("x", "1", &image);
    let layer = &image.blobs().layers[0];
    setting.registry.fail(layer, &[Fault::Cut(1000), Fault::Corrupt]);
    setting.pull("x:1").await.unwrap();
    setting.store.remove(&setting.registry.name("x:1")).unwrap();

    setting.registry.fail(layer, &[Fault::Cut(9), Fault::Corrupt, Fault::Cut(9), Fault::Corrupt]);
    let error = setting.pull("x:1").await.unwrap_err();
    assert!(matches!(error.reason, PullReason::Ingest(IngestError::Digest { .. })), "{error}");
    setting.registry.fail(layer, &[Fault::Longer]);
    let error = setting.pull("x:1").await.unwrap_err();
    assert!(matches!(error.reason, PullReason::TooLarge { .. }), "{error}");
    assert_eq!((setting.count("staging"), setting.count("layers")), (0, 0));

    // A configuration under the wrong digest, and a manifest that is none.
    setting.registry.fail(&image.blobs().config, &[Fault::Corrupt]);
    let error = setting.pull("x:1").await.unwrap_err();
    assert!(matches!(error.reason, PullReason::Ingest(IngestError::Digest { .. })), "{error}");
    setting.registry.offer_manifest("x", "bad", b"{\"schemaVersion\":2}");
    let error = setting.pull("x:bad").await.unwrap_err();
    assert!(matches!(error.reason, PullReason::Manifest(_)), "{error}");
    setting.pull("x:1").await.unwrap();
}

#[tokio::test]
async fn no_answer_of_a_registry_is_read_without_a_limit() {
    // What was sent and not read lies in the sockets.
    const SOCKETS: usize = 32 << 20;
    let auth = || Auth::Basic { username: "user".to_owned(), password: "secret".to_owned() };
    for (path, code) in [
        ("x/manifests/1", 200),
        ("x/manifests/1", 404),
        ("x/manifests/1", 418),
        ("x/manifests/1", 500),
        ("token", 200),
        ("token", 401),
        ("token", 418),
        ("token", 500),
    ] {
        let setting = Setting::new(Guard::Token("user:secret")).await;
        setting.registry.offer("x", "1", &image());
        setting.registry.flood(path, code);
        let error = setting.pull_with("x:1", &PullOptions { auth: auth(), ..options() }).await.unwrap_err();
        assert!(setting.registry.flooded() < SOCKETS, "{path} {code}: {}", setting.registry.flooded());
        assert!(error.to_string().len() < 400, "{path} {code}: {error}");
    }
    let setting = Setting::new(Guard::Nobody).await;
    let image = image().pack(Pack::Plain);
    setting.registry.offer("x", "1", &image);
    let layers = image.blobs().layers;
    setting.registry.fail(&image.blobs().config, &[Fault::Flood(500)]);
    setting.registry.fail(&layers[0], &[Fault::Flood(503)]);
    setting.registry.fail(&layers[1], &[Fault::Cut(1000), Fault::Flood(500)]);
    setting.pull("x:1").await.unwrap();
    assert!(setting.registry.flooded() < SOCKETS, "{}", setting.registry.flooded());
}

#[tokio::test]
async fn a_token_that_is_no_longer_good_is_bought_anew() {
    let setting = Setting::new(Guard::Token("user:secret")).await;
    let image = image().pack(Pack::Plain);
    setting.registry.offer("x", "1", &image);
    let layers = image.blobs().layers;
    setting.registry.fail(&layers[2], &[Fault::Status(401)]);
    let auth = Auth::Basic { username: "user".to_owned(), password: "secret".to_owned() };
    setting.pull_with("x:1", &PullOptions { auth, ..options() }).await.unwrap();
    assert_eq!(setting.registry.asked(&layers[2]), [0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pulls_of_the_same_layers_at_once_share_the_downloads() {
    let setting = Arc::new(Setting::new(Guard::Nobody).await);
    let (a, mut b) = (image(), image());
    b.layers.reverse();
    setting.registry.offer("a", "1", &a);
    setting.registry.offer("b", "1", &b);
    let mut tasks = tokio::task::JoinSet::new();
    for name in ["a:1", "b:1", "a:1"] {
        let setting = Arc::clone(&setting);
        tasks.spawn(async move { setting.pull(name).await.map(|image| image.id) });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap().unwrap();
    }
    assert_eq!(setting.store.list().unwrap().len(), 3);
    assert_eq!((setting.count("downloads"), setting.count("staging"), setting.count("layers")), (0, 0, 4));
    for layer in &a.blobs().layers {
        let asked = setting.registry.asked(layer).len();
        assert_eq!(asked, 1, "layer asked for {asked} times");
    }
}

#[tokio::test]
async fn a_cancelled_pull_leaves_only_what_the_next_one_continues() {
    let setting = Setting::new(Guard::Nobody).await;
    let image = TestImage::new(vec![Layer::default().file("file", &noise(3, 300_000))]).pack(Pack::Plain);
    setting.registry.offer("x", "1", &image);
    let layer = &image.blobs().layers[0];
    setting.registry.fail(layer, &[Fault::Stall(100_000)]);
    let stalled = async {
        while setting.downloaded() < 100_000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        pulled = setting.pull("x:1") => panic!("it has stalled: {pulled:?}"),
        () = stalled => {}
    }
    // The tasks end when they are next looked at.
    while setting.count("staging") > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((setting.count("downloads"), setting.count("staging"), setting.count("layers")), (1, 0, 0));
    setting.pull("x:1").await.unwrap();
    assert_eq!(setting.registry.asked(layer), [0, 100_000]);
}

#[tokio::test]
async fn a_full_disk_is_seen_before_it_is_full() {
    let setting = Setting::new(Guard::Nobody).await;
    setting.registry.offer("x", "1", &image());
    let mut options = options();
    options.limits.min_free_bytes = u64::MAX / 2;
    let error = setting.pull_with("x:1", &options).await.unwrap_err();
    assert!(matches!(error.reason, PullReason::NoSpace { .. }), "{error}");
}
