//! `hostPath`: a path of the host, if it is of the type that the manifest states. It is never deleted.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt, OpenOptionsExt, PermissionsExt as _};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::HostPathVolumeSource;
use rustix::fs::{Mode, OFlags};

use super::VolumeError;

/// Checks that the path is of the stated type; creates it if the type says so.
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
                make_folder(&path)?;
            }
            expect("directory", Metadata::is_dir)?;
        }
        "Directory" => expect("directory", Metadata::is_dir)?,
        "FileOrCreate" => {
            if is_missing(&path)? {
                make_file(&path)?;
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

// The owner of the parent folder may put a link there at any moment. So modes are set through file descriptors of what
// was created and never by path: a link could lead to any file of the host.

fn make_folder(path: &Path) -> Result<(), VolumeError> {
    let failed = VolumeError::io("create", path);
    let make = || {
        if let Some(parent) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
        }
        match DirBuilder::new().mode(0o755).create(path) {
            // It was created by someone else, who decides on its mode.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            made => made?,
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        folder.set_permissions(Permissions::from_mode(0o755))
    };
    make().map_err(failed)
}

fn make_file(path: &Path) -> Result<(), VolumeError> {
    let make = || {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
        file.set_permissions(Permissions::from_mode(0o644))
    };
    make().map_err(VolumeError::io("create", path))
}

fn is_missing(path: &Path) -> Result<bool, VolumeError> {
    path.try_exists().map(|exists| !exists).map_err(VolumeError::io("stat", path))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_link_that_comes_in_between_leads_to_no_change_of_modes() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let mode = |name: &str| fs::metadata(at(name)).expect("there").permissions().mode() & 0o7777;
        fs::create_dir(at("private")).expect("dir");
        fs::write(at("secret"), "x").expect("file");
        for (name, mode) in [("private", 0o700), ("secret", 0o600)] {
            fs::set_permissions(at(name), Permissions::from_mode(mode)).expect("mode");
        }
        std::os::unix::fs::symlink(at("private"), at("to-folder")).expect("link");
        std::os::unix::fs::symlink(at("secret"), at("to-file")).expect("link");
        assert!(make_folder(&at("to-folder")).is_ok(), "somebody else has made it");
        assert!(make_file(&at("to-file")).is_err());
        assert_eq!((mode("private"), mode("secret")), (0o700, 0o600));
    }
}
