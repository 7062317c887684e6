//! The choice of the machine's mounts that belong to its root as users see it: the pure part of the built-in image.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// What a container gets from elsewhere: the kernel's filesystems, and private directories.
const NEVER: [&str; 6] = ["/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp"];

/// Filesystems that hold a machine's files. All others are views of the kernel, use a network that may hang, or belong
/// to one user.
const LOCAL: [&str; 12] =
    ["bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "squashfs", "vfat", "xfs", "zfs"];

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    id: u32,
    parent: u32,
    device: String,
    root: PathBuf,
    pub(super) point: PathBuf,
    kind: String,
}

/// Parses the table; lines that are not understood are left out.
pub(super) fn parse(table: &[u8]) -> Vec<Mount> {
    table.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let id = text(fields.next()?).parse().ok()?;
    let parent = text(fields.next()?).parse().ok()?;
    let device = text(fields.next()?);
    let root = unescape(fields.next()?);
    let point = unescape(fields.next()?);
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    Some(Mount { id, parent, device, root, point, kind: text(rest.next()?) })
}

/// Decodes spaces and the like, which are written as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let octal = field.get(at + 1..at + 4).and_then(|digits| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        });
        match octal {
            Some(byte) if field[at] == b'\\' => {
                out.push(byte);
                at += 4;
            }
            _ => {
                out.push(field[at]);
                at += 1;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

/// Returns the mount points below `/` that are part of the machine's root, parents first.
///
/// Left out are: what containers get anyway; what is hidden; views of something already shown (above all the roots of
/// other containers, each of which would show all others, endlessly); and whatever is mounted on something left out.
pub(super) fn part_of_root(
    mounts: &[Mount],
    hide: &[PathBuf],
    is_file: impl Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let root = mounts.iter().rfind(|mount| mount.point == Path::new("/"));
    let mut shown: HashSet<u32> = root.iter().map(|mount| mount.id).collect();
    let mut seen: HashSet<(&str, &Path)> =
        root.iter().map(|mount| (mount.device.as_str(), mount.root.as_path())).collect();
    let mut points = Vec::new();
    // The table lists every mount after the one it is mounted on.
    for mount in mounts {
        let excluded = mount.point == Path::new("/")
            || !shown.contains(&mount.parent)
            || NEVER.iter().any(|dir| mount.point.starts_with(dir))
            || hide.iter().any(|dir| mount.point.starts_with(dir));
        if excluded {
            continue;
        }
        let view_of_part = mount.root != Path::new("/") && mount.kind != "btrfs";
        let wanted = if is_file(&mount.point) {
            // A file mounted over a file, such as /etc/resolv.conf in a container, is meant to be seen.
            true
        } else {
            LOCAL.contains(&mount.kind.as_str())
                && !view_of_part
                && seen.insert((mount.device.as_str(), mount.root.as_path()))
        };
        if wanted {
            shown.insert(mount.id);
            if !points.contains(&mount.point) {
                points.push(mount.point.clone());
            }
        }
    }
    points.sort_by_key(|point| point.components().count());
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
21 20 0:5 / /proc rw - proc proc rw
22 20 0:6 / /dev rw - devtmpfs udev rw
23 20 8:2 / /home rw - xfs /dev/sda2 rw
24 20 0:30 / /run rw - tmpfs tmpfs rw
25 24 8:3 / /run/media/stick rw - vfat /dev/sdb1 rw
26 20 0:40 / /mnt/far rw - nfs4 server:/x rw
27 20 8:4 / /srv/with\\040space rw - ext4 /dev/sda4 rw
28 27 8:5 / /srv/with\\040space/deep rw - ext4 /dev/sda5 rw
29 20 8:1 / /var/lib/rubelet/containers/a/rootfs ro - ext4 /dev/sda1 rw
30 29 8:2 / /var/lib/rubelet/containers/a/rootfs/home ro - xfs /dev/sda2 rw
31 20 0:50 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
32 31 8:9 / /var/lib/docker/overlay2/x/merged/data rw - ext4 /dev/sda9 rw
33 20 8:1 /some/where /opt/bind rw - ext4 /dev/sda1 rw
34 20 8:1 /hosts /etc/hosts rw - ext4 /dev/sda1 rw
35 20 8:7 / /secret rw - ext4 /dev/sda7 rw
nonsense
";

    #[test]
    fn the_root_is_the_local_disks_and_nothing_twice() {
        let mounts = parse(TABLE.as_bytes());
        assert_eq!(mounts.len(), 16);
        let points = part_of_root(&mounts, &["/secret".into()], |path| path == Path::new("/etc/hosts"));
        let expected = ["/home", "/srv/with space", "/etc/hosts", "/srv/with space/deep"];
        assert_eq!(points, expected.map(PathBuf::from));
    }

    #[test]
    fn subvolumes_are_parts_of_one_device() {
        let table = "20 1 0:25 /@ / rw - btrfs /dev/sda1 rw\n21 20 0:25 /@home /home rw - btrfs /dev/sda1 rw\n\
                     22 20 0:25 /@ /again rw - btrfs /dev/sda1 rw\n";
        let points = part_of_root(&parse(table.as_bytes()), &[], |_| false);
        assert_eq!(points, [PathBuf::from("/home")]);
    }

    #[test]
    fn a_table_without_a_root_or_with_rubbish_gives_nothing() {
        assert!(part_of_root(&parse(b""), &[], |_| false).is_empty());
        assert!(parse(b"1 2 3\n\n\xff\xfe - - -\n").is_empty());
        assert_eq!(unescape(b"a\\040b\\x\\04"), PathBuf::from("a b\\x\\04"));
    }
}
