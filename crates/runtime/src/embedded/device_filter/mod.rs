//! The devices that programs in a container may open and create, on control groups v2.
//!
//! On v2, the kernel has no files to write device rules to: it asks a program that is attached to the group, and that
//! is compiled here from the rules of the container's spec. On v1, the container library writes the rules to the files
//! of the group. The program belongs to the group: it also applies to the groups below, survives every change of
//! limits, and disappears with the group.

mod bpf;
mod compile;
#[cfg(test)]
mod machine;
mod rule;

use std::fs::File;

use serde::Deserialize as _;
use serde_json::Value;

use super::cgroup::Cgroups;
use super::error::{Error, Result};
use super::process;
use rule::{Access, Kind, Rule};

pub(crate) use bpf::Instruction;

/// The device rules of one container.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DeviceRules(Vec<Rule>);

impl DeviceRules {
    /// Collects the rules of a spec, and those that every container has.
    pub(crate) fn of(spec: &Value) -> Result<Self> {
        let broken = |error| Error::Internal(format!("the container's rules on devices are broken: {error}"));
        let wanted = &spec["linux"]["resources"]["devices"];
        let mut rules =
            if wanted.is_null() { Vec::new() } else { Vec::deserialize(wanted).map_err(broken)? };
        rules.extend(usual());
        Ok(Self(rules))
    }

    /// Makes the kernel enforce the rules in this group, if it is a v2 group. A container without a group of its own is
    /// in a user namespace, where nobody can create devices.
    pub(crate) fn enforce(&self, cgroups: &Cgroups, group: &str) -> Result<()> {
        let Cgroups::V2(_) = cgroups else { return Ok(()) };
        let Some(folder) = cgroups.folders(group).pop() else { return Ok(()) };
        let Some(program) = compile::program(&self.0) else { return Ok(()) };
        let folder = File::open(&folder)
            .map_err(|error| Error::io(format!("open the control group {}", folder.display()), error))?;
        let program = process::load_device_filter(&program).map_err(|errno| {
            Error::io("load the rules on devices (the kernel needs CONFIG_CGROUP_BPF)", errno)
        })?;
        process::attach_device_filter(&program, &folder)
            .map_err(|errno| Error::io("forbid devices in the control group", errno))
    }
}

/// The rules that every container has, as with other runtimes: the standard devices, terminals, and nodes of all kinds,
/// which may be created but not opened.
fn usual() -> impl Iterator<Item = Rule> {
    let allow = |kind, major, minor, access| Rule { allow: true, kind: Some(kind), major, minor, access };
    // null, zero, full, random, urandom, tty, console, ptmx
    let devices = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2)];
    let devices = devices.map(|(major, minor)| allow(Kind::Character, Some(major), Some(minor), Access::ALL));
    let terminals = allow(Kind::Character, Some(136), None, Access::ALL);
    let nodes = [Kind::Character, Kind::Block].map(|kind| allow(kind, None, None, Access::MAKE));
    devices.into_iter().chain([terminals]).chain(nodes)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::fd::AsFd as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use nix::libc;
    use nix::sys::wait::{WaitStatus, waitpid};
    use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat};
    use rustix::io::Errno;
    use serde_json::json;

    use super::*;
    use crate::embedded::test_group::TestGroup;

    fn rules(list: &Value) -> DeviceRules {
        DeviceRules::of(&json!({ "linux": { "resources": { "devices": list } } })).unwrap()
    }

    #[test]
    fn what_is_no_rule_is_an_error() {
        for list in [json!([{ "allow": true, "access": "rx" }]), json!([{ "access": "r" }]), json!("all")] {
            let spec = json!({ "linux": { "resources": { "devices": list } } });
            assert!(DeviceRules::of(&spec).is_err(), "{list}");
        }
        assert_eq!(DeviceRules::of(&json!({})).unwrap().0, usual().collect::<Vec<_>>());
    }

    /// Opens each node for reading and writing, in a process of this group, and returns the errors, 0 for success. Uses
    /// only system calls: the threads of other tests do not exist in the child.
    fn answers_in(group: &TestGroup, nodes: &[CString]) -> Vec<i32> {
        let folder = File::open(group.folder()).unwrap();
        let ask = |node: &CString| match process::fork(Some(folder.as_fd())).unwrap() {
            process::Born::Child { in_group } => {
                let opened =
                    rustix::fs::open(node.as_c_str(), OFlags::RDWR | OFlags::NONBLOCK, Mode::empty());
                let answer = opened.map_or_else(Errno::raw_os_error, |_| 0);
                process::exit_now(if in_group { answer } else { 255 })
            }
            process::Born::Parent(pid) => match waitpid(nix::unistd::Pid::from_raw(pid), None) {
                Ok(WaitStatus::Exited(_, answer)) => answer,
                other => panic!("{other:?}"),
            },
        };
        nodes.iter().map(ask).collect()
    }

    #[test]
    fn the_kernel_forbids_what_the_rules_do() {
        let Some(group) = TestGroup::make("devices") else {
            return eprintln!("SKIPPED: no control groups of v2 to make one in");
        };
        let folder = tempfile::tempdir().unwrap();
        let nodes = [
            ("null", FileType::CharacterDevice, 1, 3),
            ("full", FileType::CharacterDevice, 1, 7),
            ("kmsg", FileType::CharacterDevice, 1, 11),
            ("loop", FileType::BlockDevice, 7, 0),
        ];
        let nodes = nodes.map(|(name, kind, major, minor)| {
            let path = folder.path().join(name);
            mknodat(CWD, &path, kind, Mode::RWXU, makedev(major, minor)).unwrap();
            CString::new(path.as_os_str().as_bytes()).unwrap()
        });
        let forbidden = Errno::PERM.raw_os_error();
        let before = answers_in(&group, &nodes);
        assert!(before[..2] == [0, 0] && !before[2..].contains(&forbidden), "{before:?}");

        let cgroups = Cgroups::V2(group.folder().parent().unwrap().to_owned());
        let name = Path::new("/").join(group.folder().file_name().unwrap());
        let enforce = |list: &Value| rules(list).enforce(&cgroups, name.to_str().unwrap());
        enforce(&json!([{ "allow": true, "access": "rwm" }])).unwrap();
        assert_eq!(answers_in(&group, &nodes), before, "everything is allowed");
        let list = json!([
            { "allow": false, "access": "rwm" },
            { "allow": true, "type": "c", "major": 1, "minor": 11, "access": "r" },
            { "allow": true, "type": "c", "major": 1, "minor": 11, "access": "w" },
        ]);
        match enforce(&list) {
            Err(Error::Io { source, .. })
                if matches!(source.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) =>
            {
                return eprintln!("SKIPPED: this kernel has no programs for devices");
            }
            enforced => enforced.unwrap(),
        }
        assert_eq!(answers_in(&group, &nodes), [0, 0, before[2], forbidden]);
        enforce(&json!([{ "allow": false, "access": "rwm" }])).unwrap();
        assert_eq!(answers_in(&group, &nodes), [0, 0, forbidden, forbidden], "one more only forbids more");

        // The kernel accepts a program for many devices, each with only some kinds of access.
        let many = (0..300).map(|minor| {
            let access = ["r", "rw", "w", "rwm"][minor % 4];
            json!({ "allow": minor % 7 != 0, "type": "c", "major": minor % 40, "minor": minor, "access": access })
        });
        enforce(&many.collect()).unwrap();
    }
}
