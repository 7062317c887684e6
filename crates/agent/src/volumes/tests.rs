//! Tests volumes as pods use them, on a real disk and with real mounts, which need the right to mount.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use tempfile::TempDir;

use super::*;
use crate::downward::NodeFacts;
use crate::manifest::{Manifest, Objects, Origin, load};
use crate::resource::Quantity;
use crate::source::SourceKind;

struct Node {
    folder: TempDir,
    volumes: Volumes,
    facts: NodeFacts,
}

impl Node {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(folder.path()).expect("a path").join("data");
        let facts = NodeFacts {
            allocatable: [("memory".to_owned(), Quantity::from_units(64 << 20))].into(),
            ..NodeFacts::default()
        };
        Self { folder, volumes: Volumes::new(DataDirectory::new(root)), facts }
    }

    fn prepare(&self, pod: &Pod, objects: &Objects, second: i64) -> Result<Prepared, Vec<VolumeError>> {
        let facts = PodFacts { pod, objects, node: &self.facts, pod_ips: &[] };
        let done =
            self.volumes.prepare(&facts, Timestamp::from_second(second).expect("a time"), false, |_| {});
        let errors: Vec<VolumeError> = done.stale.into_iter().chain(done.missing).collect();
        if errors.is_empty() { Ok(done.prepared) } else { Err(errors) }
    }

    fn mounts(&self, pod: &Pod, prepared: &Prepared) -> Result<Vec<Mount>, VolumeError> {
        let container = &pod.spec.as_ref().expect("a spec").containers[0];
        let facts = PodFacts { pod, objects: &Objects::default(), node: &self.facts, pod_ips: &[] };
        let environment = Environment::of(container, &facts).expect("an environment");
        self.volumes.mounts(uid(pod), prepared, container, &environment)
    }

    fn pod_folder(&self, pod: &Pod) -> PathBuf {
        self.volumes.data().pod(uid(pod)).expect("a UID").path().to_path_buf()
    }
}

/// Returns where the files of a volume are, which changes each time they are rewritten.
fn version(prepared: &Prepared, volume: &str) -> PathBuf {
    let path = prepared.path(volume).expect("a volume");
    fs::read_link(path.join("..data")).expect("files that were written at once")
}

/// Ensures that a failed test leaves no mounts behind.
impl Drop for Node {
    fn drop(&mut self) {
        let root = fs::canonicalize(self.folder.path()).expect("a path");
        for point in mount_table::mount_points_below(&root).unwrap_or_default() {
            let _ = unmount(&point, UnmountFlags::DETACH);
        }
    }
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().expect("a UID")
}

fn manifest(text: &str) -> Manifest {
    let origin = Origin {
        source: SourceKind::File,
        place: "test.yaml".to_owned(),
        node_name: "node".to_owned(),
        seen: jiff::Timestamp::default(),
    };
    load(text.as_bytes(), &origin).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn pod_with(mounts: &str, volumes: &str) -> (Arc<Pod>, Objects) {
    let manifest = manifest(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, labels: {{app: web}}}}\nspec:\n  containers:\n  - name: c\n    image: host\n    env: [{{name: PART, value: part}}, {{name: OUT, value: ../out}}]\n    volumeMounts: {mounts}\n  volumes: {volumes}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map}}\ndata: {{a: '1', b: '2'}}\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: secret}}\nstringData: {{key: hush}}\n"
    ));
    (Arc::clone(&manifest.pods[0]), manifest.objects)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o7777
}

#[test]
fn every_kind_is_made_mounted_and_taken_down() {
    let node = Node::new();
    let host = node.folder.path().join("host");
    let (pod, objects) = pod_with(
        "[{name: disk, mountPath: /disk}, {name: memory, mountPath: mem}, {name: host, mountPath: /host, mountPropagation: HostToContainer}, {name: map, mountPath: /map}, {name: secret, mountPath: /secret}, {name: down, mountPath: /down}, {name: all, mountPath: /all, readOnly: true, recursiveReadOnly: IfPossible}]",
        &format!(
            "[{{name: disk}}, {{name: memory, emptyDir: {{medium: Memory, sizeLimit: 1Mi}}}}, {{name: host, hostPath: {{path: '{}', type: DirectoryOrCreate}}}}, {{name: map, configMap: {{name: map}}}}, {{name: secret, secret: {{secretName: secret, defaultMode: 0400}}}}, {{name: down, downwardAPI: {{items: [{{path: labels, fieldRef: {{fieldPath: metadata.labels}}}}]}}}}, {{name: all, projected: {{sources: [{{configMap: {{name: map}}}}, {{secret: {{name: secret}}}}]}}}}, {{name: unused, configMap: {{name: nobody-mounts-it}}}}]",
            host.display()
        ),
    );
    let prepared = node.prepare(&pod, &objects, 1).expect("prepared");
    let versions = || ["map", "secret", "down", "all"].map(|volume| version(&prepared, volume));
    let written = versions();
    let mounts = node.mounts(&pod, &prepared).expect("mounts");
    let shown: Vec<_> = mounts
        .iter()
        .map(|mount| {
            (mount.container_path.as_str(), mount.read_only, mount.propagation, mount.selinux_relabel)
        })
        .collect();
    let private = Propagation::Private;
    assert_eq!(
        shown,
        [
            ("/disk", false, private, true),
            ("/mem", false, private, true),
            ("/host", false, Propagation::HostToContainer, false),
            ("/map", true, private, true),
            ("/secret", true, private, true),
            ("/down", true, private, true),
            ("/all", true, private, true),
        ]
    );
    assert_eq!(mounts[6].recursive_read_only, RecursiveReadOnly::IfPossible);
    let at = |index: usize| mounts[index].host_path.as_path();
    let root = node.pod_folder(&pod);
    assert_eq!(at(0), root.join("volumes/kubernetes.io~empty-dir/disk"));
    assert_eq!(at(2), host);
    assert_eq!(at(3), root.join("volumes/kubernetes.io~configmap/map"));
    assert_eq!((mode(at(0)), mode(at(1)), mode(&root)), (0o777, 0o1777, 0o750));
    assert_eq!([3, 4, 5, 6].map(|index| mode(at(index))), [0o777, 0o1777, 0o1777, 0o1777]);
    assert!(root.join("plugins/kubernetes.io~empty-dir/disk/ready").exists());
    assert_eq!(fs::read_to_string(at(4).join("key")).expect("a file"), "hush");
    assert_eq!(mode(&at(4).join("key")), 0o400);
    assert_eq!(fs::read_to_string(at(5).join("labels")).expect("a file"), "app=\"web\"");
    assert_eq!(fs::read_to_string(at(6).join("b")).expect("a file"), "2");
    for (index, in_memory) in [(0, false), (1, true), (3, false), (4, true), (5, true), (6, true)] {
        assert_eq!(
            mount_table::is_mount_point(at(index)).expect("looked"),
            in_memory,
            "{}",
            at(index).display()
        );
    }
    let size = rustix::fs::statvfs(at(1)).expect("a file system");
    assert_eq!(size.f_blocks * size.f_frsize, 1 << 20);

    // A restarted agent finds everything as it was.
    fs::write(at(0).join("mine"), "x").expect("written");
    fs::write(at(1).join("mine"), "x").expect("written");
    node.prepare(&pod, &objects, 2).expect("prepared again");
    assert_eq!(versions(), written, "nothing is written that has not changed");
    assert!(at(0).join("mine").exists() && at(1).join("mine").exists());

    fs::write(host.join("precious"), "x").expect("written");
    fs::write(root.join("status.json"), "x").expect("written");
    node.volumes.release(uid(&pod)).expect("given back");
    node.volumes.release(uid(&pod)).expect("nothing left to do");
    let is_there = |name: &str| root.join(name).exists();
    assert!(["status.json", "containers"].into_iter().all(is_there), "what tells of the pod stays");
    assert!(!["volumes", "volume-subpaths", "plugins"].into_iter().any(is_there));
    assert_eq!(
        mount_table::mount_points_below(&fs::canonicalize(&root).expect("a path")).expect("read"),
        [] as [PathBuf; 0]
    );
    node.prepare(&pod, &objects, 3).expect("and made again");
    assert!(!at(0).join("mine").exists() && !at(1).join("mine").exists());

    node.volumes.teardown(uid(&pod)).expect("taken down");
    assert!(!root.exists());
    assert!(host.join("precious").exists(), "the host's files stay");
    assert_eq!(
        mount_table::mount_points_below(&fs::canonicalize(node.folder.path()).expect("a path"))
            .expect("read"),
        [] as [PathBuf; 0]
    );
    node.volumes.teardown(uid(&pod)).expect("nothing left to do");
}

#[test]
fn changed_objects_are_shown_by_preparing_again() {
    let node = Node::new();
    let (pod, objects) = pod_with(
        "[{name: map, mountPath: /map}, {name: secret, mountPath: /s}]",
        "[{name: map, configMap: {name: map}}, {name: secret, secret: {secretName: secret}}]",
    );
    let prepared = node.prepare(&pod, &objects, 1).expect("prepared");
    let path = prepared.path("map").expect("a volume").to_path_buf();
    let versions = || ["map", "secret"].map(|volume| version(&prepared, volume));
    let [map, secret] = versions();
    let changed = manifest(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {a: '9'}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: secret}\nstringData: {key: hush}\n",
    );
    node.prepare(&pod, &changed.objects, 2).expect("refreshed");
    let [new_map, same_secret] = versions();
    assert!(new_map != map && same_secret == secret, "only what has changed is written anew");
    assert_eq!(fs::read_to_string(path.join("a")).expect("a file"), "9");
    assert!(!path.join("b").exists());

    // The object is gone: that is an error, and the files stay.
    let errors = node.prepare(&pod, &Objects::default(), 3).expect_err("gone");
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            r#"MountVolume.SetUp failed for volume "map" : configmap "map" not found"#,
            r#"MountVolume.SetUp failed for volume "secret" : secret "secret" not found"#,
        ]
    );
    assert_eq!(fs::read_to_string(path.join("a")).expect("a file"), "9");

    // It holds up no others: the volumes after it are refreshed.
    let without_map =
        manifest("apiVersion: v1\nkind: Secret\nmetadata: {name: secret}\nstringData: {key: louder}\n");
    node.prepare(&pod, &without_map.objects, 4).expect_err("still gone");
    let secret = prepared.path("secret").expect("a volume").join("key");
    assert_eq!(fs::read_to_string(secret).expect("a file"), "louder");
}

#[test]
fn a_pod_whose_volumes_are_too_large_together_gets_those_that_are_not() {
    let node = Node::new();
    let names = || (0..5).map(|n| format!("v{n}"));
    let mounts: Vec<String> = names().map(|name| format!("{{name: {name}, mountPath: /{name}}}")).collect();
    let items: Vec<String> = (0..15).map(|n| format!("{{key: k, path: p{n}}}")).collect();
    let volume =
        |name: String| format!("{{name: {name}, configMap: {{name: large, items: [{}]}}}}", items.join(", "));
    let volumes: Vec<String> = names().map(volume).collect();
    let (pod, _) = pod_with(&format!("[{}]", mounts.join(", ")), &format!("[{}]", volumes.join(", ")));
    let large = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: large}}\ndata: {{k: {}}}\n",
        "y".repeat((1 << 20) - 1)
    );
    let errors = node.prepare(&pod, &manifest(&large).objects, 1).expect_err("75 MiB");
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let why =
        "the files of the pod's volumes take up more than 64 MiB together, the most that a pod may have";
    assert_eq!(told, [format!("MountVolume.SetUp failed for volume \"v4\" : {why}")]);
}

#[test]
fn a_volume_that_fails_leaves_nothing() {
    let node = Node::new();
    let (pod, _) = pod_with("[{name: s, mountPath: /s}]", "[{name: s, secret: {secretName: secret}}]");
    node.prepare(&pod, &Objects::default(), 1).expect_err("no such secret");
    assert!(!node.pod_folder(&pod).join("volumes/kubernetes.io~secret").exists());
    node.volumes.teardown(uid(&pod)).expect("taken down");
}

#[test]
fn parts_of_volumes_are_bound_where_nobody_can_move_them() {
    let node = Node::new();
    let (pod, objects) = pod_with(
        "[{name: disk, mountPath: /a, subPath: one/two}, {name: map, mountPath: /etc/a.conf, subPath: a}, {name: disk, mountPath: /b, subPathExpr: $(PART)/x}]",
        "[{name: disk}, {name: map, configMap: {name: map}}]",
    );
    let prepared = node.prepare(&pod, &objects, 1).expect("prepared");
    let mounts = node.mounts(&pod, &prepared).expect("mounts");
    let disk = prepared.path("disk").expect("a volume").to_path_buf();
    assert_eq!(mounts[0].host_path, node.pod_folder(&pod).join("volume-subpaths/disk/c/0"));
    assert_eq!(fs::read_to_string(&mounts[1].host_path).expect("a file"), "1");
    fs::write(mounts[2].host_path.join("through"), "x").expect("written");
    assert!(disk.join("part/x/through").exists());

    // The container replaces the folder with a link to the host: what is bound stays what it was.
    fs::rename(disk.join("one/two"), disk.join("one/moved")).expect("moved");
    symlink("/etc", disk.join("one/two")).expect("a link");
    fs::write(mounts[0].host_path.join("safe"), "x").expect("written");
    assert!(disk.join("one/moved/safe").exists());
    let error = node.mounts(&pod, &prepared).expect_err("leads out");
    assert!(matches!(error, VolumeError::Escapes { .. }), "{error}");

    fs::remove_file(disk.join("one/two")).expect("removed");
    let again = node.mounts(&pod, &prepared).expect("mounts for the next container");
    assert!(!again[0].host_path.join("safe").exists(), "bound anew, to the folder that is there now");
    node.volumes.teardown(uid(&pod)).expect("taken down");
    assert!(!node.pod_folder(&pod).exists());
}

#[test]
fn expressions_must_be_whole_and_stay_inside() {
    let node = Node::new();
    for (expression, reason) in
        [("$(NOBODY)/x", "missing value for \"NOBODY\""), ("$(OUT)", "leads out of the volume")]
    {
        let (pod, objects) = pod_with(
            &format!("[{{name: disk, mountPath: /a, subPathExpr: {expression}}}]"),
            "[{name: disk}]",
        );
        let prepared = node.prepare(&pod, &objects, 1).expect("prepared");
        let error = node.mounts(&pod, &prepared).expect_err(expression);
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn teardown_never_crosses_a_mount() {
    let node = Node::new();
    let precious = node.folder.path().join("precious");
    fs::create_dir(&precious).expect("made");
    fs::write(precious.join("data"), "keep me").expect("written");
    let (pod, objects) = pod_with(
        "[{name: disk, mountPath: /a}, {name: memory, mountPath: /m}]",
        "[{name: disk}, {name: memory, emptyDir: {medium: Memory}}]",
    );
    let prepared = node.prepare(&pod, &objects, 1).expect("prepared");
    // A privileged container can mount into its volumes, and so can anyone on the host.
    let inside = prepared.path("disk").expect("a volume").join("inside");
    fs::create_dir(&inside).expect("made");
    mount_bind(&precious, &inside).expect("bound");

    let error = node.volumes.teardown(uid(&pod)).expect_err("something is mounted");
    assert!(matches!(&error, VolumeError::StillMounted(path) if *path == inside), "{error}");
    assert!(inside.join("data").exists(), "nothing was deleted");

    unmount(&inside, UnmountFlags::empty()).expect("unmounted");
    node.volumes.teardown(uid(&pod)).expect("taken down");
    assert_eq!(fs::read_to_string(precious.join("data")).expect("still there"), "keep me");
    assert!(!node.pod_folder(&pod).exists());
}

#[test]
fn what_is_mounted_below_a_part_of_a_volume_later_keeps_neither_a_container_nor_the_end_waiting() {
    for (propagation, comes_along) in [("None", false), ("HostToContainer", true)] {
        let node = Node::new();
        let host = node.folder.path().join("host");
        fs::create_dir(&host).expect("made");
        // The root of most hosts is shared as well.
        mount_table::mount_tmpfs(&host, None).expect("mounted");
        mount_change(&host, MountPropagationFlags::SHARED).expect("shared");
        fs::create_dir_all(host.join("part/later")).expect("made");
        let (pod, objects) = pod_with(
            &format!("[{{name: host, mountPath: /a, subPath: part, mountPropagation: {propagation}}}]"),
            &format!("[{{name: host, hostPath: {{path: '{}'}}}}]", host.display()),
        );
        let prepared = node.prepare(&pod, &objects, 1).expect("prepared");
        let bound = node.mounts(&pod, &prepared).expect("mounts").remove(0).host_path;
        let (later, deeper) = (host.join("part/later"), host.join("part/later/deeper"));
        mount_table::mount_tmpfs(&later, None).expect("mounted");
        fs::write(later.join("file"), "x").expect("written");
        fs::create_dir(&deeper).expect("made");
        mount_table::mount_tmpfs(&deeper, None).expect("mounted");
        fs::write(deeper.join("file"), "x").expect("written");
        assert_eq!(bound.join("later/file").exists(), comes_along, "{propagation}");

        let again = node.mounts(&pod, &prepared).expect("mounts for the next container");
        assert_eq!(again[0].host_path, bound);
        node.volumes.teardown(uid(&pod)).expect("taken down");
        assert!(!node.pod_folder(&pod).exists());
        for place in [deeper, later] {
            assert!(place.join("file").exists(), "{propagation}: nobody unmounts what is the host's");
            unmount(place, UnmountFlags::empty()).expect("unmounted");
        }
    }
}

#[test]
fn a_refresh_never_crosses_a_mount() {
    let node = Node::new();
    let precious = node.folder.path().join("precious");
    fs::create_dir(&precious).expect("made");
    fs::write(precious.join("data"), "keep me").expect("written");
    let (pod, objects) = pod_with("[{name: map, mountPath: /a}]", "[{name: map, configMap: {name: map}}]");
    let prepared = node.prepare(&pod, &objects, 1).expect("prepared");
    let path = prepared.path("map").expect("a volume");
    let inside = path.join(version(&prepared, "map")).join("inside");
    fs::create_dir(&inside).expect("made");
    mount_bind(&precious, &inside).expect("bound");

    let changed = manifest("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {a: '9'}\n");
    let errors = node.prepare(&pod, &changed.objects, 2).expect_err("something is mounted");
    assert!(errors[0].to_string().contains("still contains a mount"), "{errors:?}");
    assert_eq!(fs::read_to_string(path.join("a")).expect("a file"), "9", "what is new is shown all the same");
    assert_eq!(fs::read_to_string(precious.join("data")).expect("still there"), "keep me");

    unmount(&inside, UnmountFlags::empty()).expect("unmounted");
    node.prepare(&pod, &changed.objects, 3).expect("cleaned up");
    assert!(!inside.exists());
}

#[test]
fn memory_in_use_is_not_taken_away() {
    let node = Node::new();
    let (pod, objects) =
        pod_with("[{name: memory, mountPath: /m}]", "[{name: memory, emptyDir: {medium: Memory}}]");
    let prepared = node.prepare(&pod, &objects, 1).expect("prepared");
    let open = fs::File::create(prepared.path("memory").expect("a volume").join("open")).expect("a file");
    assert!(matches!(node.volumes.teardown(uid(&pod)), Err(VolumeError::StillMounted(_))));
    drop(open);
    node.volumes.teardown(uid(&pod)).expect("taken down");
}

#[test]
fn uids_lead_nowhere_else() {
    let node = Node::new();
    for uid in ["", ".", "..", "a/b", "/", "../../etc", "a/", "./a"] {
        assert!(matches!(node.volumes.teardown(uid), Err(VolumeError::Path { .. })), "{uid:?}");
    }
}

#[test]
fn other_kinds_are_refused_by_name() {
    let volume = Volume { name: "v".to_owned(), nfs: Some(Default::default()), ..Volume::default() };
    let error = VolumeKind::of(&volume).expect_err("not here").to_string();
    assert_eq!(
        error,
        "volume type nfs is not supported; use emptyDir, hostPath, configMap, secret, projected or downwardAPI"
    );
}

#[test]
fn files_belong_to_the_group_of_the_pod() {
    use std::os::unix::fs::MetadataExt;

    let node = Node::new();
    let (pod, objects) = pod_with(
        "[{name: disk, mountPath: /a}, {name: memory, mountPath: /m}, {name: map, mountPath: /c}, {name: secret, mountPath: /s}]",
        "[{name: disk}, {name: memory, emptyDir: {medium: Memory}}, {name: map, configMap: {name: map, items: [{key: a, path: d/a}]}}, {name: secret, secret: {secretName: secret, defaultMode: 0400}}]\n  securityContext: {fsGroup: 4711}",
    );
    let prepared = node.prepare(&pod, &objects, 1).expect("prepared");
    let at = |volume: &str, inside: &str| prepared.path(volume).expect("a volume").join(inside);
    for (path, expected) in [
        (at("disk", ""), 0o2777),
        (at("memory", ""), 0o3777),
        (at("map", ""), 0o2777),
        (at("secret", ""), 0o3777),
        (at("map", "d/a"), 0o644),
        (at("map", "d"), 0o2755),
        (at("secret", "key"), 0o440),
    ] {
        let group = fs::metadata(&path).expect("there").gid();
        assert_eq!((group, mode(&path)), (4711, expected), "{}", path.display());
    }
    let links = ["..data", "key"].map(|name| fs::symlink_metadata(at("secret", name)).expect("a link").gid());
    assert_eq!(links, [4711, 4711]);
    node.volumes.teardown(uid(&pod)).expect("taken down");
}

#[test]
fn what_was_set_up_once_can_be_mounted_whatever_became_of_what_it_was_made_from() {
    let node = Node::new();
    let host = node.folder.path().join("host");
    let volumes = format!(
        "[{{name: m, configMap: {{name: map}}}}, {{name: s, secret: {{secretName: secret}}}}, {{name: e, emptyDir: {{}}}}, {{name: h, hostPath: {{path: {}, type: Directory}}}}]",
        host.display()
    );
    let mounts = "[{name: m, mountPath: /m}, {name: s, mountPath: /s}, {name: e, mountPath: /e}, {name: h, mountPath: /h}]";
    let (pod, objects) = pod_with(mounts, &volumes);
    let prepare = |objects: &Objects, ran_before: bool| {
        let facts = PodFacts { pod: &pod, objects, node: &node.facts, pod_ips: &[] };
        let done = node.volumes.prepare(&facts, Timestamp::UNIX_EPOCH, ran_before, |_| {});
        let names = |errors: &[VolumeError]| -> String {
            let name = |error: &VolumeError| match error {
                VolumeError::SetUp { volume, .. } => volume.clone(),
                other => other.to_string(),
            };
            errors.iter().map(name).collect()
        };
        let ready: String = done.prepared.volumes.keys().cloned().collect();
        (ready, names(&done.stale), names(&done.missing))
    };
    let told =
        |ready: &str, stale: &str, missing: &str| (ready.to_owned(), stale.to_owned(), missing.to_owned());
    // First nothing exists, then everything, then only what was set up.
    assert_eq!(prepare(&Objects::default(), false), told("e", "", "msh"));
    assert_eq!(
        prepare(&Objects::default(), true),
        told("eh", "", "ms"),
        "what the host has is not looked at again"
    );
    fs::create_dir(&host).unwrap();
    assert_eq!(prepare(&objects, false), told("ehms", "", ""));
    fs::remove_dir(&host).unwrap();
    assert_eq!(prepare(&Objects::default(), true), told("ehms", "ms", ""));
    assert_eq!(prepare(&Objects::default(), false), told("ems", "ms", "h"));
    let as_they_are = node.volumes.as_they_are(&pod).unwrap();
    fs::create_dir(&host).unwrap();
    assert_eq!(node.prepare(&pod, &objects, 9).unwrap(), as_they_are);
}

#[test]
fn another_volume_or_another_source_of_one_is_not_the_same() {
    let volumes = "[{name: a, emptyDir: {}}, {name: h, hostPath: {path: /x}}]";
    let of = |mounts: &str, volumes: &str| pod_with(mounts, volumes).0;
    let pod = of("[{name: a, mountPath: /a}]", volumes);
    assert!(are_the_same(&pod, &of("[{name: a, mountPath: /elsewhere}]", volumes)));
    for (mounts, volumes) in [
        ("[{name: a, mountPath: /a}, {name: h, mountPath: /h}]", volumes),
        ("[{name: a, mountPath: /a}]", "[{name: a, hostPath: {path: /x}}]"),
        ("[]", volumes),
    ] {
        assert!(!are_the_same(&pod, &of(mounts, volumes)), "{mounts} {volumes}");
    }
}
