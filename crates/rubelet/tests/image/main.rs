//! `rubelet image` in real use: what it prints in a pipe, and its exit codes.

use std::path::Path;
use std::process::{Command, Output};

use rubelet_runtime::image::{Digest, ImageStore};
use serde_json::json;

fn rubelet(data: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rubelet"))
        .args(["image", "--data-dir"])
        .arg(data)
        .args(args)
        .env_remove("REGISTRY_AUTH_FILE")
        .env("HOME", "/nowhere")
        .output()
        .unwrap()
}

fn text(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, *data).unwrap();
    }
    tar.into_inner().unwrap()
}

/// Returns a docker archive with one image, which contains one file.
fn archive(tags: &[&str]) -> Vec<u8> {
    let layer = tar(&[("file", b"hello")]);
    let config = json!({"os": "linux", "config": {"Cmd": ["/file"]},
        "rootfs": {"type": "layers", "diff_ids": [Digest::of(&layer)]}})
    .to_string();
    let manifest = json!([{"Config": "c.json", "RepoTags": tags, "Layers": ["l.tar"]}]).to_string();
    tar(&[("c.json", config.as_bytes()), ("l.tar", &layer), ("manifest.json", manifest.as_bytes())])
}

#[test]
fn an_image_comes_is_listed_and_goes() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let file = dir.path().join("x.tar");
    std::fs::write(&file, archive(&["app:1", "localhost/app:2"])).unwrap();

    let (code, out, err) = text(&rubelet(&data, &["import", file.to_str().unwrap()]));
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("imported docker.io/library/app:1, localhost/app:2 ("), "{out}");
    assert!(out.contains(", 5B)"), "{out}");
    assert!(err.contains(": unpacked"), "{err}");

    let (_, out, _) = text(&rubelet(&data, &["ls"]));
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["IMAGE", "TAG", "ID", "SIZE", "CONTAINERS"]);
    let shown: Vec<_> = rows[1..].iter().map(|row| (row[0], row[1], row[3])).collect();
    assert_eq!(
        shown,
        [("docker.io/library/app", "1", "5B"), ("host", "latest", "-"), ("localhost/app", "2", "5B")]
    );
    assert!(!out.contains('\x1b'), "no colours in a pipe");
    let (_, out, _) = text(&rubelet(&data, &["ls", "-o", "json"]));
    let list: serde_json::Value = serde_json::from_str(&out).unwrap();
    let app = list["images"].as_array().unwrap().iter().find(|image| image["builtIn"] == false).unwrap();
    assert_eq!(app["config"]["cmd"][0], "/file");

    // A container uses it.
    let store = ImageStore::open(data.join("images")).unwrap();
    store.lease("c1", &store.resolve("app:1").unwrap()).unwrap();
    let (code, _, err) = text(&rubelet(&data, &["rm", "app:1"]));
    assert_eq!(code, 4);
    assert!(err.contains("is used by 1 container;") && err.contains("--force"), "{err}");
    store.release("c1").unwrap();

    // An image that cannot be removed does not prevent the removal of the others.
    let (code, out, err) = text(&rubelet(&data, &["rm", "app:1", "nothing", "localhost/app:2"]));
    assert_eq!(code, 4);
    assert!(err.contains("no image \"nothing\""), "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("untagged app:1 of "), "{out}");
    assert!(lines[1].starts_with("removed localhost/app:2 ("), "{out}");
    assert_eq!(std::fs::read_dir(data.join("images/layers")).unwrap().count(), 0);
}

#[test]
fn standard_input_is_a_file_too_and_names_can_be_given() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.tar");
    std::fs::write(&file, archive(&[])).unwrap();
    let command = format!(
        "cat {} | {} image --data-dir {} import - --tag mine",
        file.display(),
        env!("CARGO_BIN_EXE_rubelet"),
        dir.path().join("data").display()
    );
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    let (code, out, err) = text(&output);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("docker.io/library/mine:latest"), "{out}");
}

#[test]
fn failures_say_what_to_do_and_end_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let noise = dir.path().join("noise");
    std::fs::write(&noise, "noise".repeat(1000)).unwrap();
    let plain = dir.path().join("plain.tar");
    std::fs::write(&plain, tar(&[("x", b"x")])).unwrap();
    // The outcome is the same whether or not the image is in use.
    let store = ImageStore::open(data.join("images")).unwrap();
    store.lease("c1", &store.resolve("host").unwrap()).unwrap();
    for (args, code, message) in [
        (vec!["import", "/nowhere.tar"], 4, "/nowhere.tar: No such file"),
        (vec!["import", noise.to_str().unwrap()], 4, "not a readable archive"),
        (vec!["import", plain.to_str().unwrap()], 4, "create one with `docker save`"),
        (vec!["rm", "host"], 4, "built in"),
        (vec!["rm"], 2, "NAME"),
        (vec!["pull", "Not A Name"], 2, "must be lower case"),
        (vec!["pull", "127.0.0.1:1/x"], 4, "cannot be reached"),
        (vec!["pull", "x", "--authfile", "/nowhere.json"], 1, "cannot read /nowhere.json"),
    ] {
        let (found, out, err) = text(&rubelet(&data, &args));
        assert_eq!(found, code, "{args:?}: {err}");
        assert!(err.contains(message), "{args:?}: {err}");
        assert_eq!(out, "");
    }
    let (code, out, _) = text(&rubelet(&data, &["pull", "host"]));
    assert_eq!((code, out.as_str()), (0, "host is built in; there is nothing to pull\n"));
    let (code, _, err) = text(&rubelet(Path::new("/proc/nowhere"), &["ls"]));
    assert_eq!(code, 1, "{err}");
}
