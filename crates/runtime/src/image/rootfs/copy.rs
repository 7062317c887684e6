//! A root filesystem as a plain copy: layer upon layer, with whiteouts applied. For places where overlays are not
//! possible.
//!
//! Both trees are ours and nothing runs in them. Still, every step is relative to an open directory and follows no
//! link, since links in an image point wherever its author liked.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::RootfsError;
use crate::image::files;
use crate::image::marks::{self, Marks};
use crate::image::store::read_layer_meta;

/// The paths of files with several links, by device and inode, so that later names become links again.
type Links = HashMap<(u64, u64), PathBuf>;

struct Copier<'a> {
    root: BorrowedFd<'a>,
    links: Links,
    may_chown: bool,
    marks: Marks,
}

/// Copies these layers, lowest first, into this directory, which is created.
pub(super) fn layers(layers: &[PathBuf], target: &Path) -> Result<(), RootfsError> {
    std::fs::create_dir(target).map_err(RootfsError::io("cannot create", target))?;
    let root = open_dir(CWD, target).map_err(RootfsError::io("cannot open", target))?;
    let mut first = 0;
    for (at, layer) in layers.iter().enumerate() {
        if is_opaque_root(layer)? {
            first = at;
        }
    }
    for layer in &layers[first..] {
        let from = open_dir(CWD, layer).map_err(RootfsError::io("cannot open", layer))?;
        let mut copier = Copier {
            root: root.as_fd(),
            links: Links::new(),
            may_chown: rustix::process::geteuid().is_root(),
            marks: read_layer_meta(layer).map_err(RootfsError::io("cannot read the record of", layer))?.marks,
        };
        copier.dir(&from, &root, Path::new("")).map_err(RootfsError::io("cannot copy", layer))?;
    }
    Ok(())
}

/// Copies the contents of a folder in a root into another folder, and gives that the same attributes. Does nothing if
/// the root has no such folder.
pub(super) fn folder(root: &Path, place: &Path, target: &Path) -> Result<(), RootfsError> {
    let inside = || -> rustix::io::Result<OwnedFd> {
        let root = open_dir(CWD, root)?;
        let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
        // Links point wherever the image's author liked, but cannot lead outside.
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat2(&root, place, flags, Mode::empty(), resolve)
    };
    let from = match inside() {
        Ok(from) => from,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        Err(error) => return Err(RootfsError::io("cannot open", &root.join(place))(error)),
    };
    let to = open_dir(CWD, target).map_err(RootfsError::io("cannot open", target))?;
    let mut copier = Copier {
        root: to.as_fd(),
        links: Links::new(),
        may_chown: rustix::process::geteuid().is_root(),
        // In a root, layers are already merged: nothing in it is a mark.
        marks: Marks::Trusted,
    };
    copier.dir(&from, &to, Path::new("")).map_err(RootfsError::io("cannot copy", &root.join(place)))
}

/// Returns whether this layer hides everything below it.
pub(super) fn is_opaque_root(layer: &Path) -> Result<bool, RootfsError> {
    open_dir(CWD, layer).map(marks::is_opaque).map_err(RootfsError::io("cannot open", layer))
}

/// Gives one directory the owner, mode and attributes of another.
pub(super) fn attributes_of_dir(from: &Path, to: &Path) -> Result<(), RootfsError> {
    let copy = || -> io::Result<()> {
        let (from, to) = (open_dir(CWD, from)?, open_dir(CWD, to)?);
        let stat = rustix::fs::fstat(&from)?;
        tolerate_unmapped(rustix::fs::fchown(&to, uid(&stat), gid(&stat)))?;
        rustix::fs::fchmod(&to, Mode::from_raw_mode(stat.st_mode))?;
        copy_attributes(from.as_fd(), to.as_fd())
    };
    copy().map_err(RootfsError::io("cannot set the attributes of", to))
}

impl Copier<'_> {
    /// Puts the contents of `from` over those of `to`, and gives `to` its attributes.
    fn dir(&mut self, from: &OwnedFd, to: &OwnedFd, path: &Path) -> io::Result<()> {
        if self.marks == Marks::Names {
            // Before anything of this layer is put there, since a layer may both delete a name and create it.
            remove_hidden(from, to)?;
        }
        for entry in Dir::read_from(from)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_mark = self.marks == Marks::Names && name.to_bytes().starts_with(marks::PREFIX);
            if name == c"." || name == c".." || is_mark {
                continue;
            }
            let at = path.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
            self.entry(from, to, name, &at)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", at.display())))?;
        }
        let stat = rustix::fs::fstat(from)?;
        copy_attributes(from.as_fd(), to.as_fd())?;
        if self.may_chown {
            tolerate_unmapped(rustix::fs::fchown(to, uid(&stat), gid(&stat)))?;
        }
        rustix::fs::fchmod(to, Mode::from_raw_mode(stat.st_mode))?;
        Ok(rustix::fs::futimens(to, &times(&stat))?)
    }

    fn entry(&mut self, from: &OwnedFd, to: &OwnedFd, name: &CStr, path: &Path) -> io::Result<()> {
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if marks::is_whiteout(&stat) {
            return files::remove_at(to.as_fd(), name);
        }
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let source = open_dir(from, name)?;
            if marks::is_opaque(&source) || !is_dir(to, name)? {
                files::remove_at(to.as_fd(), name)?;
            }
            match rustix::fs::mkdirat(to, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            return self.dir(&source, &open_dir(to, name)?, path);
        }
        files::remove_at(to.as_fd(), name)?;
        let key = (stat.st_dev, stat.st_ino);
        if let Some(first) = self.links.get(&key) {
            return Ok(rustix::fs::linkat(self.root, first, to, name, AtFlags::empty())?);
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.file(from, to, name, &stat)?,
            FileType::Symlink => {
                let link: CString = rustix::fs::readlinkat(from, name, Vec::new())?;
                rustix::fs::symlinkat(link.as_c_str(), to, name)?;
                self.finish(to, name, &stat)?;
            }
            // Devices do not work in a container's root; its own are in its `/dev`.
            FileType::BlockDevice | FileType::CharacterDevice => return Ok(()),
            kind => {
                rustix::fs::mknodat(to, name, kind, Mode::from_raw_mode(stat.st_mode), 0)?;
                self.finish(to, name, &stat)?;
                rustix::fs::chmodat(to, name, Mode::from_raw_mode(stat.st_mode), AtFlags::empty())?;
            }
        }
        if stat.st_nlink > 1 {
            self.links.insert(key, path.to_owned());
        }
        Ok(())
    }

    fn file(&self, from: &OwnedFd, to: &OwnedFd, name: &CStr, stat: &Stat) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut source = File::from(rustix::fs::openat(from, name, flags, Mode::empty())?);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut target = File::from(rustix::fs::openat(to, name, flags, Mode::RUSR | Mode::WUSR)?);
        // A clone shares the blocks if the filesystem can do that; otherwise `copy` lets the kernel do the work.
        if rustix::fs::ioctl_ficlone(&target, &source).is_err() {
            io::copy(&mut source, &mut target)?;
        }
        if self.may_chown {
            tolerate_unmapped(rustix::fs::fchown(&target, uid(stat), gid(stat)))?;
        }
        // After the owner, since changing that clears set-id bits and capabilities.
        rustix::fs::fchmod(&target, Mode::from_raw_mode(stat.st_mode))?;
        copy_attributes(source.as_fd(), target.as_fd())?;
        Ok(rustix::fs::futimens(&target, &times(stat))?)
    }

    fn finish(&self, to: &OwnedFd, name: &CStr, stat: &Stat) -> io::Result<()> {
        if self.may_chown {
            let owner = rustix::fs::chownat(to, name, uid(stat), gid(stat), AtFlags::SYMLINK_NOFOLLOW);
            tolerate_unmapped(owner)?;
        }
        Ok(rustix::fs::utimensat(to, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// Removes what this directory's marks by name declare deleted.
fn remove_hidden(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    for entry in Dir::read_from(from)? {
        let entry = entry?;
        match entry.file_name().to_bytes().strip_prefix(marks::PREFIX) {
            // Opaque directories were emptied on entry.
            None => {}
            Some(_) if entry.file_name() == marks::OPAQUE_NAME => {}
            Some(hidden) => files::remove_at(to.as_fd(), &CString::new(hidden)?)?,
        }
    }
    Ok(())
}

/// In a user namespace some owners do not exist; such a file stays ours.
fn tolerate_unmapped(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::INVAL | Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn open_dir<P: rustix::path::Arg>(at: impl AsFd, path: P) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}

fn is_dir(at: &OwnedFd, name: &CStr) -> io::Result<bool> {
    match rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn copy_attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    let mut names = Vec::with_capacity(256);
    loop {
        match rustix::fs::flistxattr(from, rustix::buffer::spare_capacity(&mut names)) {
            Ok(_) => break,
            Err(Errno::RANGE) => names.reserve(names.capacity() * 2),
            Err(Errno::OPNOTSUPP) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        if marks::is_overlay_attribute(name) || name == b"security.selinux" {
            continue;
        }
        let mut value = Vec::with_capacity(256);
        loop {
            match rustix::fs::fgetxattr(from, name, rustix::buffer::spare_capacity(&mut value)) {
                Ok(_) => break,
                Err(Errno::RANGE) => value.reserve(value.capacity() * 2),
                Err(error) => return Err(error.into()),
            }
        }
        match rustix::fs::fsetxattr(to, name, &value, XattrFlags::empty()) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn uid(stat: &Stat) -> Option<Uid> {
    Some(Uid::from_raw(stat.st_uid))
}

fn gid(stat: &Stat) -> Option<Gid> {
    Some(Gid::from_raw(stat.st_gid))
}

fn times(stat: &Stat) -> Timestamps {
    let time = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ };
    Timestamps { last_access: time, last_modification: time }
}
