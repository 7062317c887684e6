use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn files(entries: &[(&str, &str)]) -> Files {
    let file = |content: &str| File { content: content.as_bytes().to_vec(), mode: 0o640 };
    entries.iter().map(|(path, content)| ((*path).to_owned(), file(content))).collect()
}

fn names(root: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort_unstable();
    names
}

fn read(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).expect("a file")
}

#[test]
fn the_layout() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    assert!(write(root, &files(&[("a", "1"), ("d/e", "2")]), None, at(1_700_000_000)).expect("written"));
    assert_eq!(names(root), ["..2023_11_14_22_13_20.000000000", "..data", "a", "d"]);
    assert_eq!(
        fs::read_link(root.join("..data")).expect("a link"),
        Path::new("..2023_11_14_22_13_20.000000000")
    );
    assert_eq!(fs::read_link(root.join("a")).expect("a link"), Path::new("..data/a"));
    assert_eq!(fs::read_link(root.join("d")).expect("a link"), Path::new("..data/d"));
    assert_eq!((read(root, "a").as_str(), read(root, "d/e").as_str()), ("1", "2"));
    let mode = fs::metadata(root.join("a")).expect("a file").permissions().mode() & 0o7777;
    assert_eq!(mode, 0o640, "whatever the umask");
}

#[test]
fn the_same_again_writes_nothing_and_a_change_writes_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    assert!(write(root, &files(&[("a", "1"), ("gone", "x")]), None, at(1)).expect("written"));
    let before = fs::read_link(root.join("..data")).expect("a link");
    assert!(!write(root, &files(&[("a", "1"), ("gone", "x")]), None, at(2)).expect("the same"));
    assert_eq!(fs::read_link(root.join("..data")).expect("a link"), before);

    let open = fs::File::open(root.join("a")).expect("a reader");
    assert!(write(root, &files(&[("a", "2"), ("new/b", "3")]), None, at(2)).expect("written"));
    assert_eq!(names(root), ["..1970_01_01_00_00_02.000000000", "..data", "a", "new"]);
    assert_eq!((read(root, "a").as_str(), read(root, "new/b").as_str()), ("2", "3"));
    assert_eq!(io::read_to_string(open).expect("the old file"), "1", "who had it open still has the old one");

    assert!(write(root, &files(&[]), None, at(2)).expect("written"), "the name of this second is taken");
    assert_eq!(names(root), ["..1970_01_01_00_00_02.000000001", "..data"]);
}

#[test]
fn what_a_writer_that_died_left_is_repaired() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    write(root, &files(&[("a", "1")]), None, at(1)).expect("written");
    // One writer died before publishing, another one before linking the names.
    fs::create_dir(root.join("..1970_01_01_00_00_09.000000000")).expect("a half-written folder");
    symlink("..1970_01_01_00_00_09.000000000", root.join("..data_tmp")).expect("a link");
    fs::remove_file(root.join("a")).expect("unlinked");
    assert!(!write(root, &files(&[("a", "1")]), None, at(9)).expect("repaired"));
    assert_eq!(names(root), ["..1970_01_01_00_00_01.000000000", "..data", "a"]);
    // Someone deleted the files themselves.
    fs::remove_dir_all(root.join("..1970_01_01_00_00_01.000000000")).expect("removed");
    assert!(write(root, &files(&[("a", "1")]), None, at(3)).expect("written again"));
    assert_eq!(read(root, "a"), "1");
}

#[test]
fn an_attempt_that_fails_leaves_nothing_and_the_old_files_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    write(root, &files(&[("a", "1")]), None, at(1)).expect("written");
    let before = names(root);
    for second in 2..5 {
        // A file cannot also be a folder: the second of these cannot be written.
        write(root, &files(&[("a", "2"), ("a/b", "2")]), None, at(second)).expect_err("impossible");
        assert_eq!(names(root), before);
    }
    assert_eq!(read(root, "a"), "1");
}

#[test]
fn a_folder_for_a_nested_mount_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("mount-point")).expect("made");
    write(folder.path(), &files(&[("a", "1")]), None, at(1)).expect("written");
    write(folder.path(), &files(&[("b", "1")]), None, at(2)).expect("written");
    assert_eq!(names(folder.path()), ["..1970_01_01_00_00_02.000000000", "..data", "b", "mount-point"]);
}

#[test]
fn paths_that_lead_out_are_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = "x".repeat(256);
    for path in ["", "/a", "..", "../a", "a/../b", "..a", "a//b", "./a", "a\0b", &long, &"y/".repeat(2100)] {
        let refused = write(folder.path(), &files(&[("good", "1"), (path, "2")]), None, at(1));
        assert!(matches!(refused, Err(VolumeError::Path { .. })), "{path:?}: {refused:?}");
    }
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_sequence_of_contents_ends_in_the_last(steps in prop::collection::vec(prop::collection::btree_map("[a-c](/[x-y])?", "[0-9]{0,3}", 0..4), 1..6)) {
        let folder = tempfile::tempdir().expect("a folder");
        for (second, step) in steps.iter().enumerate() {
            // A file cannot also be a folder.
            let step: Vec<(&str, &str)> = step
                .iter()
                .filter(|(path, _)| !step.keys().any(|other| other.starts_with(&format!("{path}/"))))
                .map(|(path, content)| (path.as_str(), content.as_str()))
                .collect();
            write(folder.path(), &files(&step), None, at(i64::try_from(second / 2).expect("small"))).expect("written");
            for (path, content) in &step {
                prop_assert_eq!(&read(folder.path(), path), content);
            }
            let visible = names(folder.path()).into_iter().filter(|name| !name.starts_with("..")).count();
            prop_assert_eq!(visible, top_level(&files(&step)).len());
        }
    }
}
