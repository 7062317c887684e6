use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use k8s_openapi::api::core::v1::Pod;
use tempfile::TempDir;

use super::*;
use crate::manifest::annotation;

fn pod(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: '{image}'}}]}}\n"
    )
}

struct Folder {
    folder: TempDir,
    files: Files,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files::new(folder.path().join("manifests"), "node".to_owned(), None);
        fs::create_dir(folder.path().join("manifests")).expect("made");
        Self { folder, files }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("manifests").join(name)
    }

    /// Writes as programs should: atomically, and always as a different version.
    fn put(&self, name: &str, text: &str) {
        let next = self.folder.path().join("next");
        fs::write(&next, text).expect("written");
        fs::rename(next, self.path(name)).expect("renamed");
    }

    /// Returns names with images, and problems, once everything is decided.
    fn scan(&mut self) -> (Vec<String>, Vec<String>) {
        settle(&mut self.files);
        self.known()
    }

    fn known(&self) -> (Vec<String>, Vec<String>) {
        let set = self.files.set();
        let shown = |pod: &Arc<k8s_openapi::api::core::v1::Pod>| {
            let image = pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone());
            format!("{} {}", pod.metadata.name.clone().unwrap_or_default(), image.unwrap_or_default())
        };
        let root = format!("{}/", self.folder.path().join("manifests").display());
        let problems = set.problems.iter().map(|problem| problem.to_string().replace(&root, ""));
        (set.pods.iter().map(shown).collect(), problems.collect())
    }
}

/// Scans as often as is worthwhile.
fn settle(files: &mut Files) {
    let mut now = Instant::now();
    while let Some(after) = files.scan(&Due::default(), now).expect("scanned") {
        now += after;
    }
    while files.has_unkept() {
        files.keep_one();
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn files_come_change_and_go() {
    let mut folder = Folder::new();
    assert_eq!(folder.scan(), (vec![], vec![]));
    folder.put("b.yaml", &pod("b", "1"));
    folder.put("a.yaml", &pod("a", "1"));
    assert_eq!(folder.scan().0, texts(&["a-node 1", "b-node 1"]), "in the order of names");
    folder.put("a.yaml", &pod("a", "2"));
    assert_eq!(folder.scan().0, texts(&["a-node 2", "b-node 1"]));
    folder.put("a.yaml", &pod("renamed", "2"));
    assert_eq!(folder.scan().0, texts(&["renamed-node 2", "b-node 1"]), "the old name does not stay");
    fs::remove_file(folder.path("a.yaml")).expect("removed");
    assert_eq!(folder.scan().0, texts(&["b-node 1"]));
    fs::remove_dir_all(folder.folder.path().join("manifests")).expect("removed");
    assert_eq!(folder.scan().0, [""; 0], "what is not there has no pods");
}

#[test]
fn a_spoilt_manifest_leaves_its_pod_alone() {
    let mut folder = Folder::new();
    folder.put("a.yaml", &pod("a", "1"));
    folder.scan();
    let uid = folder.files.set().pods[0].metadata.uid.clone();
    for (text, problem) in [
        ("kind: Pod\n spec: [", "a.yaml:2: mapping values are not allowed in this context"),
        ("", "a.yaml: contains no document; write a Pod or an empty PodList, or remove it"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n",
            "a.yaml:4 (document 1, Pod default/a-node): spec.containers[0].image: Required value",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: '2'}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Inn, values: [b]}]}]}}}}\n",
            "a.yaml:4 (document 1, Pod default/a-node): spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Invalid value: \"Inn\": not a valid selector operator",
        ),
    ] {
        folder.put("a.yaml", text);
        assert_eq!(folder.scan(), (texts(&["a-node 1"]), texts(&[problem])));
        assert_eq!(folder.scan(), (texts(&["a-node 1"]), texts(&[problem])), "and it stays that way");
        assert_eq!(folder.files.set().pods[0].metadata.uid, uid);
    }
    folder.put("a.yaml", &pod("a", "2"));
    assert_eq!(folder.scan(), (texts(&["a-node 2"]), vec![]), "repaired");
    folder.put("a.yaml", "spoilt: [");
    folder.scan();
    fs::remove_file(folder.path("a.yaml")).expect("removed");
    assert_eq!(folder.scan(), (vec![], vec![]), "gone is gone");
}

#[test]
fn a_manifest_that_is_caught_half_written_is_not_told_of() {
    let mut folder = Folder::new();
    let start = Instant::now();
    let looks = [
        (0, pod("a", "1"), texts(&["a-node 1"]), vec![]),
        (10, String::new(), texts(&["a-node 1"]), vec![]),
        (20, "kind: [".to_owned(), texts(&["a-node 1"]), vec![]),
        (30, pod("a", "2"), texts(&["a-node 2"]), vec![]),
        (400, String::new(), texts(&["a-node 2"]), vec![]),
        (699, "kind: [".to_owned(), texts(&["a-node 2"]), vec![]),
        (700, "kind: [".to_owned(), texts(&["a-node 2"]), texts(&["a.yaml:1: unclosed bracket '['"])),
    ];
    for (millis, text, pods, problems) in looks {
        folder.put("a.yaml", &text);
        let now = start + Duration::from_millis(millis);
        let again = folder.files.scan(&Due::default(), now).expect("scanned");
        assert_eq!(folder.known(), (pods, problems), "after {millis} ms");
        let is_doubtful = [10, 20, 400, 699].contains(&millis);
        assert_eq!(again.is_some(), is_doubtful, "after {millis} ms");
    }
}

#[test]
fn what_is_wrong_at_the_first_look_is_told_with_it() {
    let mut folder = Folder::new();
    folder.put("a.yaml", "kind: [");
    folder.files.scan(&Due::default(), Instant::now()).expect("scanned");
    assert_eq!(folder.known().1, texts(&["a.yaml:1: unclosed bracket '['"]));
}

#[test]
fn what_is_not_a_manifest_is_left_out_or_named() {
    let mut folder = Folder::new();
    folder.put(".hidden.yaml", &pod("hidden", "1"));
    folder.put("good.yaml", &pod("good", "1"));
    fs::create_dir(folder.path("sub")).expect("made");
    let _socket = UnixListener::bind(folder.path("socket")).expect("a socket");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("a pipe");
    symlink("nowhere", folder.path("dangling")).expect("a link");
    symlink("good.yaml", folder.path("link.yaml")).expect("a link");
    let (pods, problems) = folder.scan();
    assert_eq!(pods, texts(&["good-node 1"]), "a link is a file");
    assert_eq!(
        problems,
        texts(&[
            "dangling: cannot be read: it is a dangling link",
            "pipe: is neither a regular file nor a folder",
            "socket: is neither a regular file nor a folder",
            "link.yaml (Pod default/good-node): FailedValidation: the name is already taken by good.yaml; this one \
             is ignored"
        ])
    );
}

#[test]
fn large_files_are_refused_without_reading_them() {
    let mut folder = Folder::new();
    let file = File::create(folder.path("large.yaml")).expect("a file");
    file.set_len(1 << 40).expect("a hole of a terabyte");
    assert_eq!(folder.scan().1, texts(&["large.yaml: is larger than 10 MiB, the limit for a manifest"]));
}

#[test]
fn files_that_are_being_written_wait() {
    let mut folder = Folder::new();
    folder.put("a.yaml", &pod("a", "1"));
    folder.scan();
    folder.put("a.yaml", &pod("a", "2"));
    let writing = BTreeSet::from([folder.path("a.yaml"), folder.path("new.yaml")]);
    folder.put("new.yaml", &pod("new", "1"));
    folder.files.scan(&Due { writing, ..Due::default() }, Instant::now()).expect("scanned");
    assert_eq!(folder.known().0, texts(&["a-node 1"]));
    assert_eq!(folder.scan().0, texts(&["a-node 2", "new-node 1"]));
}

#[test]
fn objects_serve_all_pods_and_the_first_of_a_name_is_used() {
    let mut folder = Folder::new();
    let map = |value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{k: {value}}}\n")
    };
    folder.put("1.yaml", &map("first"));
    folder.put("2.yaml", &map("second"));
    let (_, problems) = folder.scan();
    assert_eq!(
        problems,
        texts(&[
            "2.yaml (ConfigMap default/m): FailedValidation: the name is already taken by 1.yaml; this one is ignored"
        ])
    );
    let set = folder.files.set();
    let value = set
        .objects
        .config_map("default", "m")
        .and_then(|map| map.data.as_ref())
        .map(|data| data["k"].clone());
    assert_eq!(value.as_deref(), Some("first"));
    fs::remove_file(folder.path("1.yaml")).expect("removed");
    assert_eq!(folder.scan().1, Vec::<String>::new());
}

#[test]
fn a_copy_of_a_manifest_does_not_take_the_place_of_the_original() {
    let mut folder = Folder::new();
    folder.put("web.yaml", &pod("web", "1"));
    folder.scan();
    folder.put("0-copy.yaml", &pod("web", "2"));
    let taken = "0-copy.yaml (Pod default/web-node): FailedValidation: the name is already taken by web.yaml; this \
                 one is ignored";
    assert_eq!(folder.scan(), (texts(&["web-node 1"]), texts(&[taken])));
    folder.put("web.yaml", &pod("other", "1"));
    assert_eq!(
        folder.scan(),
        (texts(&["web-node 2", "other-node 1"]), Vec::new()),
        "it has let go of the name"
    );
}

/// Returns the pods without the times at which they were read.
fn wanted(files: &Files) -> Vec<Pod> {
    let unseen = |pod: Arc<Pod>| {
        let mut pod = Arc::unwrap_or_clone(pod);
        pod.metadata.annotations.get_or_insert_default().remove(annotation::SEEN);
        pod
    };
    files.set().pods.into_iter().map(unseen).collect()
}

#[test]
fn a_copy_does_not_take_the_place_of_the_original_when_the_agent_is_restarted() {
    let folder = Folder::new();
    let kept = LastGood::new(&folder.folder.path().join("kept"), "manifests");
    let start = || Files::new(folder.folder.path().join("manifests"), "node".to_owned(), Some(kept.clone()));
    folder.put("web.yaml", &pod("web", "1"));
    let mut before = start();
    settle(&mut before);
    folder.put("web-old.yaml", &pod("web", "1"));
    folder.put("web.yaml", &pod("web", "2"));
    settle(&mut before);
    let mut after = start();
    settle(&mut after);
    assert_eq!(wanted(&after), wanted(&before), "the same pod, with the same UID");
    assert_eq!(after.set().problems, before.set().problems, "and the same problem");
    assert_eq!(before.set().problems.len(), 1);

    // A copy made while no agent was running changes nothing either.
    folder.put("also.yaml", &pod("web", "3"));
    let mut later = start();
    settle(&mut later);
    assert_eq!(wanted(&later), wanted(&before));
}

#[test]
fn a_copy_does_not_take_the_place_of_an_original_that_is_away_for_a_moment() {
    let mut folder = Folder::new();
    folder.put("web.yaml", &pod("web", "1"));
    folder.scan();
    folder.put("copy.yaml", &pod("web", "2"));
    folder.scan();
    fs::remove_file(folder.path("web.yaml")).expect("removed");
    let again = folder.files.scan(&Due::default(), Instant::now()).expect("scanned");
    assert_eq!((again, folder.known().0), (Some(GONE_AFTER), texts(&["web-node 1"])));
    folder.put("web.yaml", &pod("web", "3"));
    assert_eq!(folder.scan().0, texts(&["web-node 3"]));
    fs::remove_file(folder.path("web.yaml")).expect("removed");
    assert_eq!(folder.scan(), (texts(&["web-node 2"]), Vec::new()), "now it is gone");
}

#[test]
fn a_copy_with_another_name_does_not_take_the_uid_of_the_original() {
    let fixed = |name: &str| pod(name, "1").replacen("{name:", "{uid: fixed, name:", 1);
    let folder = Folder::new();
    let kept = LastGood::new(&folder.folder.path().join("kept"), "manifests");
    let manifests = folder.folder.path().join("manifests");
    let mut folder =
        Folder { files: Files::new(manifests.clone(), "node".to_owned(), Some(kept.clone())), ..folder };
    folder.put("web.yaml", &fixed("web"));
    folder.scan();
    folder.put("a.yaml", &fixed("shop"));
    let taken = "a.yaml (Pod default/shop-node): FailedValidation: another pod has the UID fixed; this one is ignored";
    let told = (texts(&["web-node 1"]), texts(&[taken]));
    assert_eq!(folder.scan(), told);
    folder.files = Files::new(manifests, "node".to_owned(), Some(kept));
    assert_eq!(folder.scan(), told, "also after a restart");
}

#[test]
fn one_file_is_a_source_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("only.yaml");
    fs::write(folder.path().join("other.yaml"), pod("other", "1")).expect("written");
    let mut files = Files::new(path.clone(), "node".to_owned(), None);
    settle(&mut files);
    assert_eq!(files.set().pods, []);
    fs::write(path, pod("only", "1")).expect("written");
    settle(&mut files);
    assert_eq!((files.set().pods.len(), files.set().problems.len()), (1, 0));
}

#[test]
fn a_socket_as_the_source_cannot_be_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let _socket = UnixListener::bind(&path).expect("a socket");
    assert_eq!(
        Files::new(path, "node".to_owned(), None).scan(&Due::default(), Instant::now()),
        Err(CannotList(Issue::NotAFile))
    );
}

#[test]
fn the_last_good_version_survives_a_restart() {
    let folder = Folder::new();
    let kept = LastGood::new(&folder.folder.path().join("kept"), "manifests");
    let start = || Files::new(folder.folder.path().join("manifests"), "node".to_owned(), Some(kept.clone()));
    folder.put("a.yaml", &pod("a", "1"));
    let mut before = start();
    settle(&mut before);

    folder.put("a.yaml", "spoilt: [");
    let mut after = start();
    settle(&mut after);
    assert_eq!(wanted(&after), wanted(&before), "the same pod, with the same UID");
    assert_eq!(after.set().problems.len(), 1);

    fs::remove_file(folder.path("a.yaml")).expect("removed");
    let mut gone = start();
    settle(&mut gone);
    folder.put("a.yaml", "spoilt: [");
    let mut later = start();
    settle(&mut later);
    assert_eq!(later.set().pods, [], "a removed manifest is not remembered");
}

#[test]
fn what_goes_before_it_was_kept_is_not_kept() {
    let mut folder = Folder::new();
    let kept = LastGood::new(&folder.folder.path().join("kept"), "manifests");
    folder.files.kept = Some(kept.clone());
    folder.put("a.yaml", &pod("a", "1"));
    folder.put("b.yaml", &pod("b", "1"));
    folder.files.scan(&Due::default(), Instant::now()).expect("scanned");
    assert!(folder.files.has_unkept());
    fs::remove_file(folder.path("a.yaml")).expect("removed");
    settle(&mut folder.files);
    let recalled = ["a.yaml", "b.yaml"].map(|name| kept.recall(&place(&folder.path(name))).is_some());
    assert_eq!(recalled, [false, true]);
}

#[test]
fn a_file_that_cannot_be_read_keeps_its_pod() {
    let mut folder = Folder::new();
    folder.put("a.yaml", &pod("a", "1"));
    folder.scan();
    // Root can read files without permissions, but nobody can follow a link to itself or to nothing.
    for (target, why) in [
        ("a.yaml", "a.yaml: cannot be read: Too many levels of symbolic links (os error 40)"),
        ("nowhere", "a.yaml: cannot be read: it is a dangling link"),
    ] {
        fs::remove_file(folder.path("a.yaml")).expect("removed");
        symlink(target, folder.path("a.yaml")).expect("linked");
        assert_eq!(folder.scan(), (texts(&["a-node 1"]), texts(&[why])));
    }
    fs::remove_file(folder.path("a.yaml")).expect("removed");
    assert_eq!(folder.scan(), (vec![], vec![]), "the link itself is the file");
}

#[test]
fn what_was_wrong_is_forgotten_when_the_same_text_is_back() {
    let mut folder = Folder::new();
    folder.put("a.yaml", &pod("a", "1"));
    folder.scan();
    fs::remove_file(folder.path("a.yaml")).expect("removed");
    let _socket = UnixListener::bind(folder.path("a.yaml")).expect("a socket");
    assert_eq!(
        folder.scan(),
        (texts(&["a-node 1"]), texts(&["a.yaml: is neither a regular file nor a folder"]))
    );
    folder.put("a.yaml", &pod("a", "1"));
    assert_eq!(folder.scan(), (texts(&["a-node 1"]), vec![]));
}

/// Two versions in one tick of the file system's clock: same file, same size, same times.
#[test]
fn a_change_that_leaves_no_trace_is_found() {
    let mut folder = Folder::new();
    folder.put("a.yaml", &pod("a", "1"));
    let rewrite_unnoticed = |folder: &mut Folder, image: &str| {
        let path = folder.path("a.yaml");
        fs::write(&path, pod("a", image)).expect("written in place");
        let version = Version::of(&fs::metadata(&path).expect("there"));
        folder.files.files.get_mut(&path).expect("known").version = Some(version);
    };
    assert_eq!(folder.scan().0, texts(&["a-node 1"]));
    rewrite_unnoticed(&mut folder, "2");
    assert_eq!(folder.scan().0, texts(&["a-node 2"]), "a new version is read twice");
    rewrite_unnoticed(&mut folder, "3");
    let touched = BTreeSet::from([folder.path("a.yaml")]);
    folder.files.scan(&Due { touched, ..Due::default() }, Instant::now()).expect("scanned");
    assert_eq!(folder.known().0, texts(&["a-node 3"]), "an event names it");
}

#[test]
fn a_file_that_is_away_for_a_moment_is_not_gone() {
    let mut folder = Folder::new();
    folder.put("a.yaml", &pod("a", "1"));
    folder.scan();
    let uid = folder.files.set().pods[0].metadata.uid.clone();
    // Some editors write this way: move away, write again, remove what was moved.
    fs::rename(folder.path("a.yaml"), folder.path("a.yaml~")).expect("moved");
    let now = Instant::now();
    let again = folder.files.scan(&Due::default(), now).expect("scanned");
    assert_eq!((again, folder.known()), (Some(GONE_AFTER), (texts(&["a-node 1"]), vec![])));
    folder.put("a.yaml", &pod("a", "1"));
    assert_eq!(folder.files.scan(&Due::default(), now + GONE_AFTER).expect("scanned"), None);
    assert_eq!(folder.files.set().pods[0].metadata.uid, uid, "nothing happened");

    fs::remove_file(folder.path("a.yaml")).expect("removed");
    let again = folder.files.scan(&Due::default(), now + GONE_AFTER).expect("scanned");
    assert_eq!(again, Some(GONE_AFTER), "counted from the second time");
    assert_eq!(folder.scan(), (vec![], vec![]));
}

#[test]
fn a_renamed_file_is_another_one_at_once() {
    let mut folder = Folder::new();
    folder.put("a.yaml", &pod("a", "1"));
    folder.scan();
    fs::rename(folder.path("a.yaml"), folder.path("b.yaml")).expect("moved");
    assert_eq!(folder.files.scan(&Due::default(), Instant::now()).expect("scanned"), None);
    assert_eq!(folder.known(), (texts(&["a-node 1"]), vec![]));
}

/// A disk that is not mounted is no reason to end pods.
#[test]
fn a_root_that_has_become_a_link_to_nothing_is_named_and_its_pods_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let release = folder.path().join("41");
    fs::create_dir_all(release.join("pods")).expect("made");
    fs::write(release.join("pods/a.yaml"), pod("a", "1")).expect("written");
    symlink("41", folder.path().join("current")).expect("a link");
    symlink("41/pods/a.yaml", folder.path().join("a.yaml")).expect("a link");
    let roots = ["current/pods", "a.yaml"].map(|root| folder.path().join(root));
    let mut all = roots.map(|root| Files::new(root, "node".to_owned(), None));
    all.iter_mut().for_each(settle);
    fs::rename(&release, folder.path().join("away")).expect("moved");
    for files in &mut all {
        assert_eq!(files.scan(&Due::default(), Instant::now()), Err(CannotList(dangling_link())));
        assert_eq!(files.set().pods.len(), 1);
    }
    fs::remove_file(folder.path().join("a.yaml")).expect("removed");
    settle(&mut all[1]);
    assert!(all[1].set().pods.is_empty(), "the link itself is gone");
}

#[test]
fn a_file_in_motion_at_the_first_look_has_what_it_had() {
    for (motion, after) in [(Look::InMotion, QUIET), (Look::BeingWritten, SOON)] {
        let mut folder = Folder::new();
        let root = folder.path("");
        let kept = LastGood::new(&folder.folder.path().join("kept"), "/manifests");
        let files = || Files::new(root.clone(), "node".to_owned(), Some(kept.clone()));
        folder.put("b.yaml", &pod("web", "1"));
        folder.files = files();
        assert_eq!(folder.scan().0, texts(&["web-node 1"]));

        // A copy appears while no agent is running, and the original is touched when the next agent scans.
        folder.put("a.yaml", &pod("web", "2"));
        folder.files = files();
        let motion = Cell::new(Some(motion));
        let in_motion = |path: &Path, known: Option<Version>| match look(path, known, |_| None) {
            Look::Read(..) if path.ends_with("b.yaml") => motion.take().expect("one look"),
            seen => seen,
        };
        let again = folder.files.scan_with(in_motion, &Due::default(), Instant::now());
        assert_eq!((again, folder.known().0), (Ok(Some(after)), texts(&["web-node 1"])));
        assert_eq!(folder.scan().0, texts(&["web-node 1"]));
    }
}

/// A file counts as being written as long as it does not end like this.
const COMPLETE: &str = "# complete\n";

fn is_incomplete(mut file: &File) -> Option<bool> {
    let mut text = String::new();
    file.read_to_string(&mut text).and_then(|_| file.rewind()).expect("read");
    Some(!text.ends_with(COMPLETE))
}

/// What has been written so far is a valid manifest as well, with one pod less.
#[test]
fn a_file_that_somebody_writes_is_left_alone_until_it_is_closed() {
    let mut folder = Folder::new();
    folder.files = Files::new(folder.path(""), "node".to_owned(), None).ask_for_writers(is_incomplete);
    let both = format!("{}---\n{}{COMPLETE}", pod("a", "1"), pod("b", "1"));
    let start = Instant::now();
    let told = "two.yaml: still open for writing; it will be read once it is closed (`fuser -v FILE` shows by which \
                program)";
    let (nothing, all) = (Vec::new(), texts(&["a-node 1", "b-node 1"]));
    for (millis, text, pods, problems, again) in [
        (0, &both, &all, &[][..], None),
        (100, &pod("a", "1"), &all, &[], Some(2)),
        (110, &pod("a", "1"), &all, &[], Some(10)),
        (5099, &pod("a", "1"), &all, &[], Some(1)),
        (5100, &pod("a", "1"), &all, &[told], Some(5000)),
        (9000, &both, &all, &[], None),
        (9100, &String::new(), &all, &[], Some(2)),
        (9200, &format!("{}{COMPLETE}", pod("b", "2")), &texts(&["b-node 2"]), &[], None),
        (9300, &COMPLETE.to_owned(), &texts(&["b-node 2"]), &[], Some(300)),
    ] {
        folder.put("two.yaml", text);
        let looked = folder.files.scan(&Due::default(), start + Duration::from_millis(millis));
        assert_eq!(looked, Ok(again.map(Duration::from_millis)), "after {millis} ms");
        assert_eq!(folder.known(), (pods.clone(), texts(problems)), "after {millis} ms");
    }
    folder.put("new.yaml", &pod("c", "1"));
    folder.files = Files::new(folder.path(""), "node".to_owned(), None).ask_for_writers(is_incomplete);
    folder.files.scan(&Due::default(), start).expect("scanned");
    let new = folder.known();
    assert_eq!((new.0, new.1.len()), (nothing, 2), "the first look tells what is there and what is not");
}

#[test]
fn a_path_that_disappears_is_told_and_so_is_its_return() {
    let mut folder = Folder::new();
    folder.put("a.yaml", &pod("a", "1"));
    settle(&mut folder.files);
    assert_eq!(folder.files.set().problems, []);
    let (here, away) = (folder.folder.path().join("manifests"), folder.folder.path().join("away"));
    fs::rename(&here, &away).expect("moved");
    folder.files.scan(&Due::default(), Instant::now()).expect("scanned");
    assert_eq!(folder.files.set().problems, [], "it may be moved for a moment only");
    settle(&mut folder.files);
    assert!(folder.files.set().pods.is_empty());
    let told: Vec<String> = folder.files.set().problems.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("is gone, so its pods are stopped"), "{told:?}");
    fs::rename(&away, &here).expect("moved back");
    settle(&mut folder.files);
    assert_eq!((folder.files.set().pods.len(), folder.files.set().problems.len()), (1, 0));
}
