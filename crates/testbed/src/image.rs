//! The images of the test runtimes, built from the machine's busybox, so that no registry is needed.

use std::io;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::requirement::BUSYBOX_BINARY;
use crate::{Error, program};

/// An image whose process waits forever, reaps orphans, and ends at once on SIGTERM.
pub const PAUSE: &str = "localhost/pause:1";
/// An image with busybox and a link for each of its commands in `/bin`. By default it runs `sh`.
pub const BUSYBOX: &str = "localhost/busybox:1";

/// An image that serves a page on port 80.
pub const WEB: &str = "localhost/web:1";

/// Like [`BUSYBOX`], with volumes: `/www`, which has a file, `/data`, which does not exist, and `/given`.
pub const VOLUMES: &str = "localhost/volumes:1";

/// A shell is the only part of busybox that can catch a signal, which process 1 would otherwise ignore.
const WAIT_FOR_TERM: &str = "trap 'exit 0' TERM INT; sleep 2147483647 & wait";

/// Returns [`PAUSE`], [`BUSYBOX`], [`WEB`] and [`VOLUMES`] in one docker archive, as `docker save` writes it.
pub fn archive() -> Result<&'static [u8], Error> {
    static ARCHIVE: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(made) = ARCHIVE.get() {
        return Ok(made);
    }
    let busybox = std::fs::read(BUSYBOX_BINARY).map_err(Error::io("read", BUSYBOX_BINARY.as_ref()))?;
    let applets = program::output(Command::new(BUSYBOX_BINARY).arg("--list"))?;
    let made = pack(&busybox, &applets).map_err(Error::io("pack images from", BUSYBOX_BINARY.as_ref()))?;
    Ok(ARCHIVE.get_or_init(|| made))
}

fn pack(busybox: &[u8], applets: &str) -> io::Result<Vec<u8>> {
    const LAYER: &str = "layer.tar";
    let layer = layer(busybox, applets)?;
    let diff_id = format!("sha256:{}", hex(&Sha256::digest(&layer)));
    let pause = config(&diff_id, json!({ "Entrypoint": ["/bin/sh", "-c", WAIT_FOR_TERM] }));
    let shell = config(&diff_id, json!({ "Cmd": ["/bin/sh"] }));
    let web = config(&diff_id, json!({ "Entrypoint": ["/bin/httpd", "-f", "-p", "80", "-h", "/www"] }));
    let wanted = json!({ "/www": {}, "/data/": {}, "/given": {} });
    let volumes = config(&diff_id, json!({ "Cmd": ["/bin/sh"], "Volumes": wanted }));
    let manifest = json!([
        { "Config": "pause.json", "RepoTags": [PAUSE], "Layers": [LAYER] },
        { "Config": "busybox.json", "RepoTags": [BUSYBOX], "Layers": [LAYER] },
        { "Config": "web.json", "RepoTags": [WEB], "Layers": [LAYER] },
        { "Config": "volumes.json", "RepoTags": [VOLUMES], "Layers": [LAYER] },
    ]);
    let mut archive = Builder::new(Vec::new());
    file(&mut archive, LAYER, 0o644, &layer)?;
    file(&mut archive, "pause.json", 0o644, pause.to_string().as_bytes())?;
    file(&mut archive, "busybox.json", 0o644, shell.to_string().as_bytes())?;
    file(&mut archive, "web.json", 0o644, web.to_string().as_bytes())?;
    file(&mut archive, "volumes.json", 0o644, volumes.to_string().as_bytes())?;
    file(&mut archive, "manifest.json", 0o644, manifest.to_string().as_bytes())?;
    archive.into_inner()
}

fn config(diff_id: &str, mut process: Value) -> Value {
    process["Env"] = json!(["PATH=/bin"]);
    process["WorkingDir"] = json!("/");
    json!({
        "architecture": architecture(),
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": process,
        "rootfs": { "type": "layers", "diff_ids": [diff_id] },
    })
}

/// Go's name for the architecture this was compiled for.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        same => same,
    }
}

fn layer(busybox: &[u8], applets: &str) -> io::Result<Vec<u8>> {
    let mut layer = Builder::new(Vec::new());
    for (name, mode) in [
        ("bin/", 0o755),
        ("dev/", 0o755),
        ("etc/", 0o755),
        ("proc/", 0o755),
        ("root/", 0o700),
        ("sys/", 0o755),
        ("tmp/", 0o1777),
        ("www/", 0o755),
    ] {
        layer.append_data(&mut header(EntryType::Directory, mode, 0), name, io::empty())?;
    }
    file(
        &mut layer,
        "etc/passwd",
        0o644,
        b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    )?;
    file(&mut layer, "etc/group", 0o644, b"root:x:0:\nnobody:x:65534:\n")?;
    file(&mut layer, "www/index.html", 0o644, b"here\n")?;
    file(&mut layer, "bin/busybox", 0o755, busybox)?;
    for applet in applets.lines().filter(|applet| *applet != "busybox") {
        layer.append_link(&mut header(EntryType::Symlink, 0o777, 0), format!("bin/{applet}"), "busybox")?;
    }
    layer.into_inner()
}

fn file(archive: &mut Builder<Vec<u8>>, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
    archive.append_data(&mut header(EntryType::Regular, mode, content.len() as u64), name, content)
}

/// Owned by root and without a time, so that the same busybox always results in the same image.
fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;

    use serde_json::Value;
    use sha2::{Digest, Sha256};

    use super::{BUSYBOX, PAUSE, VOLUMES, WEB, hex, pack};

    fn entries(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let unpack = |entry: std::io::Result<tar::Entry<'_, _>>| {
            let mut entry: tar::Entry<'_, &[u8]> = entry.expect("a whole entry");
            let name = entry.path().expect("a name").display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).expect("its content");
            (name, content)
        };
        archive.entries().expect("an archive").map(unpack).collect()
    }

    #[test]
    fn all_images_share_a_layer_that_their_configs_name_by_digest() {
        let archive = pack(b"the binary", "busybox\nls\n[\n").expect("packs");
        let files = entries(&archive);
        let manifest: Value = serde_json::from_slice(&files["manifest.json"]).expect("JSON");
        let tags: Vec<_> =
            manifest.as_array().expect("a list").iter().map(|image| &image["RepoTags"][0]).collect();
        assert_eq!(tags, [PAUSE, BUSYBOX, WEB, VOLUMES]);
        let digest = format!("sha256:{}", hex(&Sha256::digest(&files["layer.tar"])));
        for config in ["pause.json", "busybox.json", "web.json", "volumes.json"] {
            let config: Value = serde_json::from_slice(&files[config]).expect("JSON");
            assert_eq!(config["rootfs"]["diff_ids"][0], digest);
        }
        let layer = entries(&files["layer.tar"]);
        assert_eq!(layer["bin/busybox"], b"the binary");
        assert!(layer.contains_key("bin/ls") && layer.contains_key("bin/["));
    }

    #[test]
    fn the_same_busybox_gives_the_same_images() {
        let [first, second] = [(); 2].map(|()| pack(b"the binary", "ls").expect("packs"));
        assert!(first == second);
    }
}
