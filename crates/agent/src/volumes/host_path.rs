//! `hostPath`: a path of the host, if it is what the manifest says it is. It is never deleted.

use std::fs::{self, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::HostPathVolumeSource;

use super::{VolumeError, layout};

/// Whether the path is what the type says; made if the type says so.
pub(super) fn check(source: &HostPathVolumeSource) -> Result<(), VolumeError> {
    let path = PathBuf::from(&source.path);
    let expect = |kind: &'static str, is: fn(&Metadata) -> bool| match fs::metadata(&path) {
        Ok(metadata) if is(&metadata) => Ok(()),
        Ok(_) => Err(VolumeError::HostPath { path: path.clone(), kind }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(VolumeError::HostPath { path: path.clone(), kind })
        }
        Err(error) => Err(VolumeError::io("stat", &path)(error)),
    };
    match source.type_.as_deref().unwrap_or_default() {
        "DirectoryOrCreate" => {
            if is_missing(&path)? {
                layout::create_directory_tree(&path, 0o755)?;
            }
            expect("directory", Metadata::is_dir)?;
        }
        "Directory" => expect("directory", Metadata::is_dir)?,
        "FileOrCreate" => {
            if is_missing(&path)? {
                let create = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path);
                create.map_err(VolumeError::io("create", &path))?;
                layout::set_mode(&path, 0o644)?;
            }
            expect("file", Metadata::is_file)?;
        }
        "File" => expect("file", Metadata::is_file)?,
        "Socket" => expect("socket file", |metadata| metadata.file_type().is_socket())?,
        "CharDevice" => expect("character device", |metadata| metadata.file_type().is_char_device())?,
        "BlockDevice" => expect("block device", |metadata| metadata.file_type().is_block_device())?,
        _ => {}
    }
    Ok(())
}

fn is_missing(path: &Path) -> Result<bool, VolumeError> {
    path.try_exists().map(|exists| !exists).map_err(VolumeError::io("stat", path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn types_are_checked_and_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("dir")).expect("dir");
        fs::write(at("file"), "x").expect("file");
        let _socket = UnixListener::bind(at("socket")).expect("socket");

        let cases = [
            ("dir", "", Ok(())),
            ("missing", "", Ok(())),
            ("dir", "Directory", Ok(())),
            ("file", "Directory", Err("directory")),
            ("missing", "Directory", Err("directory")),
            ("file", "File", Ok(())),
            ("dir", "File", Err("file")),
            ("missing", "File", Err("file")),
            ("socket", "Socket", Ok(())),
            ("file", "Socket", Err("socket file")),
            ("file", "CharDevice", Err("character device")),
            ("file", "BlockDevice", Err("block device")),
            ("made/deep", "DirectoryOrCreate", Ok(())),
            ("dir", "DirectoryOrCreate", Ok(())),
            ("file", "DirectoryOrCreate", Err("directory")),
            ("made-file", "FileOrCreate", Ok(())),
            ("dir", "FileOrCreate", Err("file")),
        ];
        for (name, kind, expected) in cases {
            let path = at(name).to_str().expect("text").to_owned();
            let source = HostPathVolumeSource { path: path.clone(), type_: Some(kind.to_owned()) };
            match (check(&source), expected) {
                (Ok(()), Ok(())) => {}
                (Err(error), Err(what)) => {
                    assert_eq!(
                        error.to_string(),
                        format!("hostPath type check failed: {path} is not a {what}")
                    );
                }
                (result, expected) => panic!("{name} as {kind:?}: {result:?}, expected {expected:?}"),
            }
        }
        let device =
            HostPathVolumeSource { path: "/dev/null".to_owned(), type_: Some("CharDevice".to_owned()) };
        assert!(check(&device).is_ok());
        let mode = |name: &str| fs::metadata(at(name)).expect("there").permissions().mode() & 0o7777;
        assert_eq!((mode("made/deep"), mode("made-file")), (0o755, 0o644));
        assert!(!at("missing").exists(), "no type, no check, nothing made");
    }
}
