use std::io::Write as _;

use super::*;

/// A container's log folder, and its reader.
struct Scene {
    folder: tempfile::TempDir,
    tail: Tail,
}

impl Scene {
    fn new(last_lines: Option<usize>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tail = Tail::new(folder.path().join("c"), 0, last_lines);
        Self { folder, tail }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("c").join(name)
    }

    /// Appends to a file, like a runtime that opens it now.
    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path("")).unwrap();
        let mut file = File::options().create(true).append(true).open(self.path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn read(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        self.tail.read(&mut |told| lines.push(text(told))).unwrap();
        lines
    }

    fn read_to_end(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        self.tail.read_to_end(&mut |told| lines.push(text(told))).unwrap();
        lines
    }
}

/// Formats a line, or the end of an instance.
fn text(told: Told<'_>) -> String {
    match told {
        Told::Line(line) => String::from_utf8_lossy(line).into_owned(),
        Told::EndOfInstance => "(end)".to_owned(),
    }
}

#[test]
fn lines_come_once_and_whole() {
    let mut scene = Scene::new(None);
    assert_eq!(scene.read(), [""; 0], "there is nothing yet");
    scene.write("0.log", "a\nb\nhal");
    assert_eq!(scene.read(), ["a", "b"]);
    assert_eq!(scene.read(), [""; 0]);
    scene.write("0.log", "f\nc\n");
    assert_eq!(scene.read(), ["half", "c"]);
    scene.write("0.log", "end");
    assert_eq!(scene.read(), [""; 0]);
    assert_eq!(scene.read_to_end(), ["end"]);
}

#[test]
fn what_is_no_text_and_what_is_long_is_read_too() {
    let mut scene = Scene::new(None);
    scene.write("0.log", "");
    let long = "x".repeat(3 * CHUNK);
    fs::write(scene.path("0.log"), [b"\xff\xfe\n", long.as_bytes(), b"\n"].concat()).unwrap();
    assert_eq!(scene.read(), ["\u{fffd}\u{fffd}", &long]);
}

#[test]
fn nothing_is_lost_by_a_rotation() {
    let mut scene = Scene::new(None);
    scene.write("0.log", "1\n");
    assert_eq!(scene.read(), ["1"]);
    scene.write("0.log", "2\n");
    // It is renamed, and written to until the runtime reopens the log, and for a moment after that.
    fs::rename(scene.path("0.log"), scene.path("0.log.20260801-120000")).unwrap();
    assert_eq!(scene.read(), ["2"]);
    scene.write("0.log.20260801-120000", "3\n");
    scene.write("0.log", "5\n");
    assert_eq!(scene.read(), ["3"]);
    scene.write("0.log.20260801-120000", "4\n");
    assert_eq!(scene.read(), ["4", "5"]);
    scene.write("0.log", "6\n");
    assert_eq!(scene.read(), ["6"]);
}

#[test]
fn rotations_that_were_slept_through_are_read_in_order() {
    let mut scene = Scene::new(None);
    scene.write("0.log", "1\n");
    assert_eq!(scene.read(), ["1"]);
    for (moment, text) in [("120000", "2\n"), ("120010", "3\n")] {
        fs::rename(scene.path("0.log"), scene.path(&format!("0.log.20260801-{moment}"))).unwrap();
        scene.write("0.log", text);
    }
    assert_eq!(scene.read_to_end(), ["2", "3"]);
}

#[test]
fn a_part_that_was_compressed_is_followed_by_what_was_not() {
    let mut scene = Scene::new(None);
    scene.write("0.log", "1\n");
    assert_eq!(scene.read(), ["1"]);
    fs::remove_file(scene.path("0.log")).unwrap();
    scene.write("0.log.20260801-120000.gz", "packed");
    scene.write("0.log.20260801-120010", "2\n");
    scene.write("0.log", "3\n");
    assert_eq!(scene.read_to_end(), ["2", "3"]);
}

#[test]
fn a_log_that_is_emptied_begins_anew() {
    let mut scene = Scene::new(None);
    scene.write("0.log", "a\nb\n");
    assert_eq!(scene.read(), ["a", "b"]);
    File::options().write(true).open(scene.path("0.log")).unwrap().set_len(0).unwrap();
    scene.write("0.log", "c\n");
    assert_eq!(scene.read(), ["c"]);
}

#[test]
fn instances_follow_each_other_from_the_oldest_that_is_there() {
    let mut scene = Scene::new(None);
    // The first two were removed long ago, and so was the fourth.
    scene.write("2.log", "two\n");
    assert_eq!(scene.read(), ["two"]);
    scene.write("2.log", "last words");
    scene.write("4.log", "four\n");
    assert_eq!(scene.tail.reading().map(|(number, _)| number), Some(2));
    assert_eq!(scene.read(), ["last words", "(end)", "four"]);
    assert_eq!(scene.tail.reading().map(|(number, _)| number), Some(4));
    fs::remove_file(scene.path("2.log")).unwrap();
    fs::remove_file(scene.path("4.log")).unwrap();
    scene.write("5.log", "five\n");
    assert_eq!(scene.read(), ["(end)", "five"]);
}

#[test]
fn the_last_lines_are_found_from_the_end() {
    let table = [
        ("a\nb\nc\n", 2, vec!["b", "c"]),
        ("a\nb\nc\n", 9, vec!["a", "b", "c"]),
        ("a\nb\nc\n", 3, vec!["a", "b", "c"]),
        ("a\nb\nc\n", 0, vec![]),
        ("a\nb\nhalf", 2, vec!["b", "half"]),
        ("a\nb\nhalf", 0, vec![]),
        ("\n\n", 1, vec![""]),
        ("", 3, vec![]),
    ];
    for (text, count, wanted) in table {
        let mut scene = Scene::new(Some(count));
        scene.write("0.log", text);
        assert_eq!(scene.read_to_end(), wanted, "{text:?} {count}");
    }
    // More than one read returns.
    let mut scene = Scene::new(Some(3));
    let line = "y".repeat(CHUNK / 2);
    scene.write("0.log", &format!("{line}\n").repeat(20));
    assert_eq!(scene.read(), vec![line; 3]);
    scene.write("0.log", "more\n");
    assert_eq!(scene.read(), ["more"]);
}

#[test]
fn a_reader_of_everything_begins_with_the_oldest_part_of_each_instance() {
    let mut scene = Scene::new(None);
    scene.tail = Tail::of_everything(scene.path(""));
    for (name, text) in [
        ("0.log.20260801-120000", "a\n"),
        ("0.log.20260801-130000", "b\n"),
        ("0.log", "c\n"),
        ("1.log.20260801-140000", "d\n"),
        ("1.log", "e\n"),
    ] {
        scene.write(name, text);
    }
    assert_eq!(scene.read_to_end(), ["a", "b", "c", "(end)", "d", "e"]);
}
