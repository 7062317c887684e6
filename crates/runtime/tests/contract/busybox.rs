//! An image of the machine's own static busybox, put straight into the embedded runtime's store.

use std::path::Path;
use std::process::Command;

use rubelet_runtime::image::{Digest, ImageStore, ImportOptions, Progress};
use rubelet_testbed::BUSYBOX;
use serde_json::json;

/// Imports it; its name. `None`, said aloud, where there is no busybox.
pub(crate) fn import(store: &Path) -> Option<String> {
    let Ok(busybox) = std::fs::read("/bin/busybox") else {
        eprintln!("SKIPPED: there is no /bin/busybox to make an image of");
        return None;
    };
    let applets = Command::new("/bin/busybox").arg("--list").output().expect("its commands").stdout;
    let mut layer = tar::Builder::new(Vec::new());
    append(&mut layer, "bin/busybox", &busybox, 0o755);
    append(&mut layer, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n", 0o644);
    for applet in String::from_utf8_lossy(&applets).lines().filter(|applet| *applet != "busybox") {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        header.set_mode(0o777);
        layer.append_link(&mut header, format!("bin/{applet}"), "busybox").expect("a link");
    }
    let layer = layer.into_inner().expect("a layer");
    let config = json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": { "Env": ["PATH=/bin"], "Cmd": ["/bin/sh"] },
        "rootfs": { "type": "layers", "diff_ids": [Digest::of(&layer).as_str()] },
    });
    let manifest = json!([{ "Config": "config.json", "RepoTags": [BUSYBOX], "Layers": ["layer.tar"] }]);
    let mut archive = tar::Builder::new(Vec::new());
    append(&mut archive, "layer.tar", &layer, 0o644);
    append(&mut archive, "config.json", config.to_string().as_bytes(), 0o644);
    append(&mut archive, "manifest.json", manifest.to_string().as_bytes(), 0o644);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), archive.into_inner().expect("an archive")).expect("a file");
    let store = ImageStore::open(store).expect("the store");
    store.import(file.path(), &ImportOptions::default(), &Progress::none()).expect("an image");
    Some(BUSYBOX.to_owned())
}

fn append(archive: &mut tar::Builder<Vec<u8>>, path: &str, bytes: &[u8], mode: u32) {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(mode);
    archive.append_data(&mut header, path, bytes).expect("an entry");
}
