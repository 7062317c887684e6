//! Images built in memory, and written as every kind of archive.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod registry;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rubelet_runtime::image::Digest;
use serde_json::{Value, json};

/// A layer as a tar archive.
#[derive(Clone, Default)]
pub(crate) struct Layer {
    entries: Vec<(tar::Header, String, String)>,
}

/// How a blob is compressed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pack {
    Plain,
    Gzip,
    Zstd,
}

/// An image: layers, and what its configuration says.
#[derive(Clone)]
pub(crate) struct TestImage {
    pub(crate) layers: Vec<Layer>,
    pub(crate) run: Value,
    pub(crate) os: String,
    pub(crate) architecture: String,
    pub(crate) pack: Pack,
}

/// The blobs of an image, by digest, and its manifest.
pub(crate) struct Blobs {
    pub(crate) blobs: Vec<(Digest, Vec<u8>)>,
    pub(crate) manifest: Vec<u8>,
    pub(crate) config: Digest,
    pub(crate) diff_ids: Vec<Digest>,
    pub(crate) layers: Vec<Digest>,
}

impl Layer {
    fn push(mut self, kind: tar::EntryType, path: &str, data: &str, mode: u32) -> Self {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(1_600_000_000);
        header.set_uid(0);
        header.set_gid(0);
        self.entries.push((header, path.to_owned(), data.to_owned()));
        self
    }

    pub(crate) fn file(self, path: &str, data: &str) -> Self {
        self.push(tar::EntryType::Regular, path, data, 0o644)
    }

    pub(crate) fn dir(self, path: &str) -> Self {
        self.push(tar::EntryType::Directory, path, "", 0o755)
    }

    pub(crate) fn symlink(self, path: &str, target: &str) -> Self {
        self.push(tar::EntryType::Symlink, path, target, 0o777)
    }

    pub(crate) fn hardlink(self, path: &str, target: &str) -> Self {
        self.push(tar::EntryType::Link, path, target, 0o644)
    }

    pub(crate) fn tar(&self) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (header, path, data) in &self.entries {
            let mut header = header.clone();
            if header.entry_type() == tar::EntryType::Regular {
                header.set_size(data.len() as u64);
                tar.append_data(&mut header, path, data.as_bytes()).unwrap();
            } else if data.is_empty() {
                header.set_size(0);
                tar.append_data(&mut header, path, &b""[..]).unwrap();
            } else {
                header.set_size(0);
                tar.append_link(&mut header, path, data).unwrap();
            }
        }
        tar.into_inner().unwrap()
    }
}

impl Pack {
    pub(crate) fn pack(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Plain => bytes.to_vec(),
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Self::Zstd => {
                ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
            }
        }
    }
}

impl TestImage {
    pub(crate) fn new(layers: Vec<Layer>) -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            layers,
            run: json!({"Cmd": ["/bin/app"], "Env": ["A=b"], "User": "7:8", "WorkingDir": "/srv"}),
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
            pack: Pack::Gzip,
        }
    }

    pub(crate) fn pack(mut self, pack: Pack) -> Self {
        self.pack = pack;
        self
    }

    pub(crate) fn blobs(&self) -> Blobs {
        let mut blobs = Vec::new();
        let (mut diff_ids, mut layers, mut descriptors) = (Vec::new(), Vec::new(), Vec::new());
        for layer in &self.layers {
            let tar = layer.tar();
            diff_ids.push(Digest::of(&tar));
            let packed = self.pack.pack(&tar);
            let digest = Digest::of(&packed);
            descriptors.push(json!({"digest": digest, "size": packed.len(),
                "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip"}));
            layers.push(digest.clone());
            blobs.push((digest, packed));
        }
        let config = json!({"os": self.os, "architecture": self.architecture, "config": self.run,
            "rootfs": {"type": "layers", "diff_ids": diff_ids}});
        let config = serde_json::to_vec(&config).unwrap();
        let config_digest = Digest::of(&config);
        let manifest = serde_json::to_vec(&json!({"schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config_digest,
                       "size": config.len()},
            "layers": descriptors}))
        .unwrap();
        blobs.push((config_digest.clone(), config));
        Blobs { blobs, manifest, config: config_digest, diff_ids, layers }
    }

    pub(crate) fn platform(&self) -> Value {
        json!({"os": self.os, "architecture": self.architecture})
    }
}

/// Files by name, as an archive.
pub(crate) fn archive(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, data.as_slice()).unwrap();
    }
    tar.into_inner().unwrap()
}

/// The files of an OCI archive of these images, each with the names it is listed under.
pub(crate) fn oci(images: &[(&TestImage, &[&str])]) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec())];
    let mut manifests = Vec::new();
    for (image, names) in images {
        let blobs = image.blobs();
        let digest = Digest::of(&blobs.manifest);
        for (digest, blob) in blobs.blobs {
            files.push((format!("blobs/sha256/{}", digest.hex()), blob));
        }
        files.push((format!("blobs/sha256/{}", digest.hex()), blobs.manifest.clone()));
        let entry = json!({"digest": digest, "size": blobs.manifest.len(),
            "mediaType": "application/vnd.oci.image.manifest.v1+json"});
        if names.is_empty() {
            manifests.push(entry.clone());
        }
        for name in *names {
            let mut entry = entry.clone();
            entry["annotations"] = json!({"org.opencontainers.image.ref.name": name});
            manifests.push(entry);
        }
    }
    let index = serde_json::to_vec(&json!({"schemaVersion": 2, "manifests": manifests})).unwrap();
    files.push(("index.json".to_owned(), index));
    files
}

/// The files of a docker archive of these images.
pub(crate) fn docker(images: &[(&TestImage, &[&str])]) -> Vec<(String, Vec<u8>)> {
    let (mut files, mut list) = (Vec::new(), Vec::new());
    for (image, names) in images {
        let blobs = image.blobs();
        let mut layers = Vec::new();
        for (digest, blob) in &blobs.blobs {
            if *digest == blobs.config {
                files.push((format!("{}.json", digest.hex()), blob.clone()));
            } else {
                files.push((format!("{}/layer.tar", digest.hex()), blob.clone()));
            }
        }
        layers.extend(blobs.layers.iter().map(|digest| format!("{}/layer.tar", digest.hex())));
        list.push(
            json!({"Config": format!("{}.json", blobs.config.hex()), "RepoTags": names, "Layers": layers}),
        );
    }
    files.push(("manifest.json".to_owned(), serde_json::to_vec(&list).unwrap()));
    files
}

pub(crate) fn write(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    path
}
