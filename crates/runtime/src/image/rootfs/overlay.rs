//! Overlay mounts, with as many layers as the kernel allows.
//!
//! Two limits rule out the obvious call: the options of a classic mount share one page, and a value given to `fsconfig`
//! may not exceed 255 bytes. So layers are added one at a time if the kernel supports that (`lowerdir+`, Linux 6.8),
//! and through `/proc/self/fd/N` if paths are too long or the kernel is too old.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags};

use super::{RootfsError, copy};
use crate::image::marks::Marks;
use crate::image::store::read_layer_meta;

/// The longest value that `fsconfig` accepts, without the final zero.
const MAX_VALUE: usize = 255;

/// The lower directories of an overlay, top first.
#[derive(Debug)]
pub(super) struct Lower {
    dirs: Vec<PathBuf>,
    marks: Option<Marks>,
}

/// Why an overlay could not be mounted: the step that failed, and the kernel's answer.
#[derive(Debug)]
pub(super) struct Refusal {
    step: &'static str,
    errno: Errno,
    detail: String,
}

// === impl Lower ===

impl Lower {
    /// The lower directories for these layers, which are given lowest first. Overlayfs needs at least one, and allows
    /// none twice: a higher occurrence of a layer makes the lower one invisible, so the lower one can be dropped.
    pub(super) fn of(layers: &[PathBuf], empty: &Path) -> Result<Self, RootfsError> {
        let mut dirs: Vec<PathBuf> = Vec::new();
        let mut marks = None;
        for dir in layers.iter().rev() {
            if dirs.contains(dir) {
                continue;
            }
            let meta = read_layer_meta(dir).map_err(RootfsError::io("cannot read the record of", dir))?;
            // Layers marked by names, or in two different ways, cannot be mounted faithfully.
            if meta.marked {
                marks = match (marks, meta.marks) {
                    (_, Marks::Names) => return Ok(Self { dirs: Vec::new(), marks: None }),
                    (None, one) => Some(one),
                    (Some(a), b) if a == b => Some(a),
                    (Some(_), _) => return Ok(Self { dirs: Vec::new(), marks: None }),
                };
            }
            // The kernel merges layer roots whatever their marks say, so an opaque root has to be the last.
            let hides_the_rest = copy::is_opaque_root(dir)?;
            dirs.push(dir.clone());
            if hides_the_rest {
                break;
            }
        }
        if dirs.is_empty() {
            dirs.push(empty.to_owned());
        }
        Ok(Self { dirs, marks })
    }
}

// === impl Refusal ===

impl Refusal {
    /// Returns whether overlays are impossible here, as opposed to a mount that failed for another reason.
    pub(super) fn is_unsupported(&self) -> bool {
        // INVAL results from a filesystem that cannot be an upper layer, such as another overlay; STALE and XDEV from
        // filesystems that cannot tell their files apart.
        matches!(
            self.errno,
            Errno::PERM
                | Errno::ACCESS
                | Errno::INVAL
                | Errno::NODEV
                | Errno::NOSYS
                | Errno::OPNOTSUPP
                | Errno::STALE
                | Errno::XDEV
                | Errno::LOOP
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.errno)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, " ({})", self.detail) }
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::new(io::Error::from(refusal.errno).kind(), refusal.to_string())
    }
}

fn refusal(step: &'static str) -> impl FnOnce(Errno) -> Refusal {
    move |errno| Refusal { step, errno, detail: String::new() }
}

/// Mounts the overlay on this target. Device nodes in layers do not work: a container's devices are in its own `/dev`.
pub(super) fn mount(layers: &Lower, upper: &Path, work: &Path, target: &Path) -> Result<(), Refusal> {
    if layers.dirs.is_empty() {
        return Err(refusal("layers not marked for one overlay")(Errno::INVAL));
    }
    match mount_by_parts(layers, upper, work, target) {
        // An older kernel lacks `lowerdir+` or, before 5.2, the calls themselves.
        Err(Refusal { step: "lowerdir+" | "fsopen", errno: Errno::INVAL | Errno::NOSYS, .. }) => {
            mount_classic(layers, upper, work, target)
        }
        other => other,
    }
}

fn mount_by_parts(layers: &Lower, upper: &Path, work: &Path, target: &Path) -> Result<(), Refusal> {
    let fs = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).map_err(refusal("fsopen"))?;
    let mut held = Vec::new();
    let mut set = |key: &'static str, path: &Path| {
        let value = short(path, &mut held)?;
        rustix::mount::fsconfig_set_string(&fs, key, &value).map_err(refusal(key))
    };
    let mut configure = || {
        rustix::mount::fsconfig_set_string(&fs, "source", "overlay").map_err(refusal("source"))?;
        for dir in &layers.dirs {
            set("lowerdir+", dir)?;
        }
        set("upperdir", upper)?;
        set("workdir", work)?;
        if layers.marks == Some(Marks::User) {
            rustix::mount::fsconfig_set_flag(&fs, "userxattr").map_err(refusal("userxattr"))?;
        }
        rustix::mount::fsconfig_create(&fs).map_err(refusal("create"))
    };
    configure().map_err(|refusal: Refusal| Refusal { detail: kernel_log(&fs), ..refusal })?;
    let mount = rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NODEV)
        .map_err(refusal("fsmount"))?;
    rustix::mount::move_mount(&mount, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(refusal("move_mount"))
}

/// Reads the kernel's messages about a configuration that it refused: lines such as `e overlay: …`.
fn kernel_log(fs: &OwnedFd) -> String {
    let mut lines = Vec::new();
    let mut buffer = [0_u8; 1024];
    while let Ok(len) = rustix::io::read(fs, &mut buffer) {
        if len == 0 {
            break;
        }
        lines.push(String::from_utf8_lossy(&buffer[..len]).trim().to_owned());
    }
    lines.join("; ")
}

/// Returns a path that `fsconfig` takes as it is: the path itself if it is short and has nothing to escape (so that the
/// mount table stays readable), otherwise one through a descriptor that `held` keeps open.
fn short(path: &Path, held: &mut Vec<OwnedFd>) -> Result<PathBuf, Refusal> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() <= MAX_VALUE && !bytes.iter().any(|byte| b":,\\".contains(byte)) {
        return Ok(path.to_owned());
    }
    by_descriptor(path, held)
}

fn by_descriptor(path: &Path, held: &mut Vec<OwnedFd>) -> Result<PathBuf, Refusal> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(refusal("open a layer"))?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    held.push(fd);
    Ok(path)
}

fn mount_classic(layers: &Lower, upper: &Path, work: &Path, target: &Path) -> Result<(), Refusal> {
    let mut held = Vec::new();
    let mut lower = Vec::new();
    for dir in &layers.dirs {
        lower.push(by_descriptor(dir, &mut held)?.display().to_string());
    }
    let upper = by_descriptor(upper, &mut held)?;
    let work = by_descriptor(work, &mut held)?;
    let mut options =
        format!("lowerdir={},upperdir={},workdir={}", lower.join(":"), upper.display(), work.display());
    if layers.marks == Some(Marks::User) {
        options.push_str(",userxattr");
    }
    let options = CString::new(options).map_err(|_| refusal("mount")(Errno::INVAL))?;
    rustix::mount::mount("overlay", target, "overlay", MountFlags::NODEV, Some(options.as_c_str()))
        .map_err(refusal("mount"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_awkward_paths_go_by_descriptor() {
        let mut held = Vec::new();
        assert_eq!(short(Path::new("/tmp"), &mut held).unwrap(), Path::new("/tmp"));
        let dir = tempfile::tempdir().unwrap();
        let awkward = dir.path().join("a:b,c");
        std::fs::create_dir(&awkward).unwrap();
        let through = short(&awkward, &mut held).unwrap();
        assert!(through.starts_with("/proc/self/fd"));
        assert_eq!(through.canonicalize().unwrap(), awkward.canonicalize().unwrap());
    }

    /// Mounts in both ways, with more layers and longer paths than one page of options can hold.
    #[test]
    fn two_hundred_layers_with_long_paths_mount_either_way() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("x".repeat(120)).join("y".repeat(120));
        let mut dirs: Vec<PathBuf> = (0..200).map(|n| base.join(format!("layer-{n}"))).collect();
        for (n, layer) in dirs.iter().enumerate() {
            std::fs::create_dir_all(layer).unwrap();
            std::fs::write(layer.join("top"), n.to_string()).unwrap();
            std::fs::write(layer.join(n.to_string()), "").unwrap();
        }
        dirs.reverse();
        let layers = Lower { dirs, marks: None };
        let (upper, work, target) = (dir.path().join("u"), dir.path().join("w"), dir.path().join("t"));
        for path in [&upper, &work, &target] {
            std::fs::create_dir(path).unwrap();
        }
        for how in [mount_by_parts, mount_classic] {
            match how(&layers, &upper, &work, &target) {
                Ok(()) => {}
                Err(refusal) if refusal.is_unsupported() && !rustix::process::geteuid().is_root() => {
                    eprintln!("not shown here: overlays need root ({refusal})");
                    return;
                }
                Err(refusal) => panic!("{refusal}"),
            }
            assert_eq!(std::fs::read_to_string(target.join("top")).unwrap(), "199");
            assert_eq!(std::fs::read_dir(&target).unwrap().count(), 201);
            rustix::mount::unmount(&target, rustix::mount::UnmountFlags::DETACH).unwrap();
        }
    }
}
