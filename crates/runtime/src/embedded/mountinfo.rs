//! A parser for `/proc/self/mountinfo`.

use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The folder of the file system that is mounted.
    pub(crate) root: PathBuf,
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// Type of the file system.
    pub(crate) fs: String,
    /// Options of the file system.
    pub(crate) options: String,
    /// Whether mounts below it propagate to its peers.
    pub(crate) shared: bool,
    /// Whether mounts propagate to it from a master.
    pub(crate) slave: bool,
}

/// Parses all lines that have the documented format.
pub(crate) fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let root = unescape(left.nth(3)?);
    let point = unescape(left.next()?);
    let tags: Vec<&str> = left.skip(1).collect();
    let mut right = right.split(' ');
    let fs = right.next()?.to_owned();
    let options = right.nth(1).unwrap_or_default().to_owned();
    Some(Mount {
        root: root.into(),
        point: point.into(),
        fs,
        options,
        shared: tags.iter().any(|tag| tag.starts_with("shared:")),
        slave: tags.iter().any(|tag| tag.starts_with("master:")),
    })
}

/// Decodes space, tab, newline and backslash, which the kernel writes in octal.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Finds the mount that a path is on: the deepest of those that contain it, and the last of equally deep ones.
pub(crate) fn containing<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
22 21 0:20 / /proc rw - proc proc rw\n\
23 21 8:2 / /home rw shared:5 master:2 - xfs /dev/sdb rw\n\
24 21 8:3 / /mnt/my\\040disk rw - ext4 /dev/sdc rw\n\
25 21 0:30 / /run/user rw - ext4 tmpfs rw\n\
26 21 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
27 21 8:4 / /data rw - ext4 /dev/sdd rw\n";

    #[test]
    fn fields_tags_and_escapes() {
        let mounts = parse(TABLE);
        assert_eq!(mounts.len(), 7);
        assert!(mounts[0].shared && !mounts[0].slave);
        assert!(mounts[2].shared && mounts[2].slave);
        assert_eq!(mounts[3].point, Path::new("/mnt/my disk"));
        assert_eq!(mounts[5].options, "rw,cpu,cpuacct");
        assert!(parse("nonsense\n\n1 2 3\n").is_empty());
    }

    #[test]
    fn the_deepest_mount_holds_a_path() {
        let mounts = parse(TABLE);
        assert_eq!(containing(&mounts, Path::new("/home/x")).unwrap().point, Path::new("/home"));
        assert_eq!(containing(&mounts, Path::new("/homes")).unwrap().point, Path::new("/"));
    }
}
