//! The mounts of a container, in order.

use std::path::Path;

use rubelet_cri::v1;
use serde_json::{Value, json};

use super::{Input, Namespace, security};
use crate::embedded::cgroup::Cgroups;
use crate::embedded::error::{Error, Result};

/// Paths that the container library creates once everything is mounted, even if they lead to a folder of the host.
const FILLED_LAST: [&str; 8] =
    ["/", "/dev", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/ptmx", "/dev/kcore"];
/// Devices that it creates in every container in the same way.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/urandom", "/dev/random"];

/// Whether no volume may be mounted on this path of a container, which must not contain links.
pub(crate) fn is_filled_last(place: &Path) -> bool {
    FILLED_LAST.iter().chain(&DEVICES).any(|taken| Path::new(taken) == place)
}

/// The mounts, and whether any of them propagates back to the host.
pub(super) struct Mounts {
    pub(super) list: Vec<Value>,
    pub(super) spread_back: bool,
}

pub(super) fn all(input: &Input<'_>) -> Result<Mounts> {
    let mut list = system(input);
    list.extend(given(input)?);
    Ok(Mounts { list, spread_back: super::spreads_back(input.config) })
}

/// Returns the mounts that every Linux program expects.
fn system(input: &Input<'_>) -> Vec<Value> {
    let privileged = input.privileged();
    let access = if privileged { "rw" } else { "ro" };
    let mut terminals = vec!["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"];
    // The terminal group of every Linux machine, which may not exist in a user namespace.
    if input.facts.groups.has(5) {
        terminals.push("gid=5");
    }
    let mut list = vec![
        mount("/proc", "proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount("/dev", "tmpfs", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        mount("/dev/pts", "devpts", "devpts", &terminals),
    ];
    // It shows the ipc namespace that the container is in; only the machine's root can mount it for the machine's.
    if !(input.namespaces.ipc == Namespace::Host && input.facts.rootless) {
        list.push(mount("/dev/mqueue", "mqueue", "mqueue", &["nosuid", "noexec", "nodev"]));
    }
    if !takes(input.config, "/dev/shm") {
        let shm = match &input.files.shm {
            Some(path) => path.to_string_lossy().into_owned(),
            None => "/dev/shm".to_owned(),
        };
        list.push(mount("/dev/shm", "bind", &shm, &["rbind", "rprivate", "rw", "nosuid", "nodev"]));
    }
    if input.facts.rootless && input.namespaces.network == Namespace::Host {
        // A new sysfs cannot show the network of another user namespace. This mount includes the machine's control
        // groups, some of which may be this user's own.
        list.push(mount("/sys", "bind", "/sys", &["rbind", "nosuid", "noexec", "nodev", "ro", "rro"]));
    } else {
        list.push(mount("/sys", "sysfs", "sysfs", &["nosuid", "noexec", "nodev", access]));
        list.extend(control_groups(input, access));
    }
    list
}

/// The mount point of control groups.
pub(super) const CGROUPS: &str = "/sys/fs/cgroup";

/// Returns the mounts of the container's own control groups, and no others.
fn control_groups(input: &Input<'_>, access: &str) -> Vec<Value> {
    let flags = ["nosuid", "noexec", "nodev"];
    match &input.facts.cgroups {
        Cgroups::None => Vec::new(),
        // The container library would mount them writable, whatever was requested, and would show the shim's groups in
        // hierarchies that have no group for the container. Its groups are known here, and exist when this is mounted.
        cgroups @ Cgroups::V1(_) => {
            let own = cgroups.named_folders(input.cgroup);
            let binds = own.iter().map(|(name, folder)| {
                let options = ["rbind", flags[0], flags[1], flags[2], access];
                mount(&format!("{CGROUPS}/{name}"), "bind", &folder.to_string_lossy(), &options)
            });
            let place = mount(CGROUPS, "tmpfs", "tmpfs", &[flags[0], flags[1], flags[2], "mode=755"]);
            std::iter::once(place).chain(binds).collect()
        }
        Cgroups::V2(_) => {
            vec![mount(CGROUPS, "cgroup", "cgroup", &[flags[0], flags[1], flags[2], "relatime", access])]
        }
    }
}

/// Returns the files for name resolution from the pod, unless the request has its own.
fn files(input: &Input<'_>) -> Vec<(&'static str, Value)> {
    let readonly = input.security().is_some_and(|context| context.readonly_rootfs) || input.host_image;
    let access = if readonly { "ro" } else { "rw" };
    let files = [
        ("/etc/hostname", &input.files.hostname),
        ("/etc/hosts", &input.files.hosts),
        ("/etc/resolv.conf", &input.files.resolv_conf),
    ];
    let wanted = files
        .into_iter()
        .filter(|(path, source)| !source.as_os_str().is_empty() && !takes(input.config, path));
    let options = ["rbind", "rprivate", access];
    wanted.map(|(path, source)| (path, mount(path, "bind", &source.to_string_lossy(), &options))).collect()
}

/// Returns all mounts that the pod, the image and the request specify.
fn given(input: &Input<'_>) -> Result<Vec<Value>> {
    // A container's `/dev/null` is the same as the host's, so there is nothing to mount.
    let is_there = |mount: &v1::Mount| {
        mount.host_path == mount.container_path && DEVICES.contains(&mount.host_path.as_str())
    };
    let wanted = input.config.mounts.iter().enumerate().filter(|(_, mount)| !is_there(mount));
    let asked =
        wanted.map(|(index, wanted)| Ok((depth(&wanted.container_path), volume(index, wanted, input)?)));
    let of_image = input.image_volumes.iter().map(|(place, source)| {
        let options = ["rbind", "rprivate", "rw", "nodev"];
        Ok((depth(place), mount(place, "bind", &source.to_string_lossy(), &options)))
    });
    let of_pod = files(input).into_iter().map(|(place, mount)| Ok((depth(place), mount)));
    let mut all: Vec<(usize, Value)> = of_image.chain(of_pod).chain(asked).collect::<Result<_>>()?;
    // Parents before what is mounted inside them.
    all.sort_by_key(|(depth, _)| *depth);
    Ok(all.into_iter().map(|(_, mount)| mount).collect())
}

fn depth(path: &str) -> usize {
    Path::new(&plain(path)).components().count()
}

fn volume(index: usize, wanted: &v1::Mount, input: &Input<'_>) -> Result<Value> {
    let field = |name: &str| format!("mounts[{index}].{name}");
    if !wanted.container_path.starts_with('/') {
        let problem = format!("{:?} is not an absolute path", wanted.container_path);
        return Err(Error::invalid(field("container_path"), problem));
    }
    let place = plain(&wanted.container_path);
    if is_filled_last(Path::new(&place)) {
        let problem = "/, /dev and the standard entries of /dev are reserved for the runtime; other paths in them, \
                       such as /dev/fuse, can be mounted";
        return Err(Error::unsupported(field("container_path"), problem));
    }
    if wanted.image.as_ref().is_some_and(|image| !image.image.is_empty()) {
        return Err(Error::unsupported(field("image"), "image volumes are not supported"));
    }
    if !wanted.host_path.starts_with('/') {
        let problem = format!("{:?} is not an absolute path", wanted.host_path);
        return Err(Error::invalid(field("host_path"), problem));
    }
    if !wanted.uid_mappings.is_empty() || !wanted.gid_mappings.is_empty() {
        return Err(Error::unsupported(field("uidMappings"), "ID-mapped mounts are not supported"));
    }
    // Not an error without a label: kubelets allow relabelling for every volume that they created themselves.
    if wanted.selinux_relabel && security::asks_for_label(input) {
        return Err(Error::unsupported(field("selinux_relabel"), "SELinux labels are not supported"));
    }
    let propagation = match wanted.propagation() {
        v1::MountPropagation::PropagationPrivate => "rprivate",
        v1::MountPropagation::PropagationHostToContainer => "rslave",
        v1::MountPropagation::PropagationBidirectional => "rshared",
    };
    let mut options = vec!["rbind", propagation];
    if wanted.recursive_read_only {
        if !wanted.readonly {
            return Err(Error::invalid(field("recursive_read_only"), "needs readonly"));
        }
        if wanted.propagation() != v1::MountPropagation::PropagationPrivate {
            return Err(Error::invalid(field("recursive_read_only"), "needs private propagation"));
        }
        options.push("rro");
    }
    options.push(if wanted.readonly { "ro" } else { "rw" });
    Ok(mount(&wanted.container_path, "bind", &wanted.host_path, &options))
}

/// Normalizes a path: `//dev/./x/..` becomes `/dev`.
pub(crate) fn plain(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn takes(config: &v1::ContainerConfig, path: &str) -> bool {
    config.mounts.iter().any(|mount| plain(&mount.container_path) == path)
}

fn mount(destination: &str, kind: &str, source: &str, options: &[&str]) -> Value {
    json!({ "destination": destination, "type": kind, "source": source, "options": options })
}
