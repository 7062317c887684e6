//! Tests the source with a real folder and kernel events. Polling is slow here, so that every change is seen through an
//! event.

use std::fs;
use std::io::Write as _;
use std::sync::Arc;

use rubelet_runtime::writers::is_open_for_writing;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;
use crate::manifest::Issue;
use crate::source::SourceSet;
use crate::source::inbox::{Inbox, News};

const NEVER: Duration = Duration::from_secs(24 * 3600);
/// Longer than any machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

struct Running {
    inbox: Inbox,
    task: JoinHandle<()>,
}

impl Running {
    fn start(source: FileSource) -> Self {
        let inbox = Inbox::default();
        let sets = inbox.sender(source.id());
        Self { inbox, task: tokio::spawn(source.run(sets)) }
    }

    /// Waits until the source has exactly these pods.
    async fn until(&self, expected: &[&str]) {
        let mut last = None;
        let reached = tokio::time::timeout(PATIENCE, async {
            loop {
                let (_, News::Set(set)) = self.inbox.next().await else { continue };
                let names = names(&set);
                if names == expected {
                    return;
                }
                last = Some(names);
            }
        });
        assert!(reached.await.is_ok(), "expected {expected:?}, have {last:?}");
    }

    /// Returns the next set.
    async fn next(&self) -> SourceSet {
        let news = tokio::time::timeout(PATIENCE, self.inbox.next()).await.expect("news").1;
        let News::Set(set) = news else { panic!("{news:?}") };
        set
    }
}

fn names(set: &SourceSet) -> Vec<String> {
    set.pods.iter().filter_map(|pod| pod.metadata.name.clone()).collect()
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: x}}]}}\n"
    )
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = fs::canonicalize(folder.path()).expect("a path").join("manifests");
    fs::create_dir(&path).expect("made");
    (folder, path)
}

#[tokio::test]
async fn files_are_heard_of() {
    let (_folder, path) = folder();
    fs::write(path.join("a.yaml"), pod("a")).expect("written");
    let source = Running::start(FileSource::new(format!("{}/", path.display()), "node").poll_period(NEVER));
    source.until(&["a-node"]).await;
    fs::write(path.join("b.yaml"), pod("b")).expect("written");
    source.until(&["a-node", "b-node"]).await;
    fs::write(path.join(".next"), pod("c")).expect("written");
    fs::rename(path.join(".next"), path.join("b.yaml")).expect("renamed");
    source.until(&["a-node", "c-node"]).await;
    fs::remove_file(path.join("a.yaml")).expect("removed");
    source.until(&["c-node"]).await;
}

#[tokio::test]
async fn a_folder_that_goes_and_comes_again_is_heard_of() {
    let (_folder, path) = folder();
    fs::write(path.join("a.yaml"), pod("a")).expect("written");
    let source = Running::start(FileSource::new(&path, "node").poll_period(NEVER));
    source.until(&["a-node"]).await;
    fs::remove_dir_all(&path).expect("removed");
    source.until(&[]).await;
    let next = path.with_extension("next");
    fs::create_dir(&next).expect("made");
    fs::write(next.join("b.yaml"), pod("b")).expect("written");
    fs::rename(next, &path).expect("renamed");
    source.until(&["b-node"]).await;
    fs::write(path.join("c.yaml"), pod("c")).expect("written");
    source.until(&["b-node", "c-node"]).await;
}

#[tokio::test]
async fn one_file_is_heard_of_before_it_exists_and_when_it_is_replaced() {
    let (_folder, path) = folder();
    let file = path.join("only.yaml");
    let source = Running::start(FileSource::new(&file, "node").poll_period(NEVER));
    source.until(&[]).await;
    fs::write(path.join("other.yaml"), pod("other")).expect("written");
    fs::write(&file, pod("a")).expect("written");
    source.until(&["a-node"]).await;
    fs::write(path.join("next"), pod("b")).expect("written");
    fs::rename(path.join("next"), &file).expect("renamed");
    source.until(&["b-node"]).await;
}

#[tokio::test]
async fn a_file_that_was_asked_for_is_heard_of_whatever_its_name() {
    let (_folder, path) = folder();
    for name in [".pod.yaml", "pod.yaml~"] {
        let file = path.join(name);
        fs::write(&file, pod("a")).expect("written");
        let source = Running::start(FileSource::new(&file, "node").poll_period(NEVER));
        source.until(&["a-node"]).await;
        fs::write(&file, pod("b")).expect("written");
        source.until(&["b-node"]).await;
    }
}

/// Kubernetes writes config maps this way: the path goes through a link that is replaced.
#[tokio::test]
async fn a_link_to_a_file_is_followed_wherever_it_leads_to() {
    let (_folder, path) = folder();
    let write = |version: &str| {
        let next = path.join(version);
        fs::create_dir(&next).expect("made");
        fs::write(next.join("pod.yaml"), pod(version.trim_start_matches('.'))).expect("written");
        std::os::unix::fs::symlink(version, path.join("..data_tmp")).expect("a link");
        fs::rename(path.join("..data_tmp"), path.join("..data")).expect("renamed");
    };
    write("..v1");
    let file = path.join("pod.yaml");
    std::os::unix::fs::symlink("..data/pod.yaml", &file).expect("a link");
    let source = Running::start(FileSource::new(&file, "node").poll_period(NEVER));
    source.until(&["v1-node"]).await;
    write("..v2");
    fs::remove_dir_all(path.join("..v1")).expect("removed");
    source.until(&["v2-node"]).await;
}

/// Releases are often made this way: the folder is a link that is replaced.
#[tokio::test]
async fn a_link_to_a_folder_is_followed_wherever_it_leads_to() {
    let (_folder, path) = folder();
    let release = |name: &str| {
        let release = path.join(name);
        fs::create_dir(&release).expect("made");
        fs::write(release.join("web.yaml"), pod(name)).expect("written");
        std::os::unix::fs::symlink(name, path.join("next")).expect("a link");
        fs::rename(path.join("next"), path.join("current")).expect("renamed");
    };
    release("v41");
    let source = Running::start(FileSource::new(path.join("current"), "node").poll_period(NEVER));
    source.until(&["v41-node"]).await;
    release("v42");
    source.until(&["v42-node"]).await;
    fs::write(path.join("v42/db.yaml"), pod("db")).expect("written");
    source.until(&["db-node", "v42-node"]).await;
}

#[tokio::test]
async fn polling_finds_what_no_event_told() {
    let (folder, path) = folder();
    // Files behind a link to another folder cause no events here.
    let real = folder.path().join("real.yaml");
    fs::write(&real, pod("a")).expect("written");
    std::os::unix::fs::symlink(&real, path.join("link.yaml")).expect("a link");
    let source = Running::start(FileSource::new(&path, "node").poll_period(Duration::from_millis(50)));
    source.until(&["a-node"]).await;
    fs::write(folder.path().join("next"), pod("bb")).expect("written");
    fs::rename(folder.path().join("next"), real).expect("renamed");
    source.until(&["bb-node"]).await;
}

#[tokio::test]
async fn a_source_that_cannot_be_told_says_why() {
    let (folder, _) = folder();
    let path = folder.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let source = Running::start(FileSource::new(&path, "node"));
    let news = tokio::time::timeout(PATIENCE, source.inbox.next()).await.expect("news").1;
    let News::CannotTell(problems) = news else { panic!("{news:?}") };
    assert_eq!(
        problems[0].to_string(),
        format!("{}: is neither a regular file nor a folder", path.display())
    );
    assert_eq!(&*FileSource::new(&path, "n").id().place, &*Arc::<str>::from(path.to_string_lossy()));
}

/// A manifest that is rewritten many times, in all the ways in which programs write, ends up in its last version.
#[tokio::test]
async fn the_last_version_wins_however_it_was_written() {
    let (_folder, path) = folder();
    let file = path.join("a.yaml");
    let source = FileSource::new(&path, "node").poll_period(NEVER).ask_for_writers(is_open_for_writing);
    let source = Running::start(source);
    for round in 0..=120_u32 {
        let text = pod(&format!("v{round}"));
        match round % 5 {
            0 => fs::write(&file, &text).expect("written"),
            1 => {
                let next = path.join(".next");
                fs::write(&next, &text).expect("written");
                fs::rename(next, &file).expect("renamed");
            }
            2 => {
                // In pieces, each of which is a valid manifest.
                let mut open = fs::File::create(&file).expect("truncated");
                for piece in text.as_bytes().chunks(20) {
                    open.write_all(piece).expect("written");
                    tokio::task::yield_now().await;
                }
            }
            3 => {
                fs::remove_file(&file).expect("removed");
                fs::write(&file, &text).expect("written");
            }
            _ => {
                fs::write(&file, "half: [").expect("spoilt");
                fs::write(&file, &text).expect("written");
            }
        }
        if round % 7 == 0 {
            source.until(&[&format!("v{round}-node")]).await;
        }
    }
    source.until(&["v120-node"]).await;
}

/// What has been written so far is a valid manifest as well, with one pod less.
#[tokio::test]
async fn a_writer_may_take_as_long_as_he_likes() {
    let (_folder, path) = folder();
    let file = path.join("two.yaml");
    fs::write(&file, format!("{}---\n{}", pod("a"), pod("b"))).expect("written");
    if is_open_for_writing(&fs::File::open(&file).expect("open")).is_none() {
        return eprintln!("skipped: the file system of {} does not tell who writes", path.display());
    }
    let source = FileSource::new(&path, "node").poll_period(NEVER).ask_for_writers(is_open_for_writing);
    let source = Running::start(source);
    source.until(&["a-node", "b-node"]).await;
    let mut open = fs::File::create(&file).expect("truncated");
    open.write_all(pod("a").as_bytes()).expect("written");
    // This is reported after some seconds, much later than a file that is merely quiet would be read.
    let told = source.next().await;
    assert_eq!(
        told.problems.iter().map(|problem| &problem.issue).collect::<Vec<_>>(),
        [&Issue::BeingWritten]
    );
    assert_eq!(told.pods.len(), 2, "both go on");
    open.write_all(format!("---\n{}", pod("c")).as_bytes()).expect("written");
    drop(open);
    let complete = source.next().await;
    assert_eq!(
        (names(&complete), complete.problems),
        (vec!["a-node".to_owned(), "c-node".to_owned()], vec![])
    );
}
