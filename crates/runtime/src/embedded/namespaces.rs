//! The namespaces of a sandbox, held by bind mounts: no process is needed to keep them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, setns, unshare};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

use super::error::{Error, Result};
use super::record::Held;
use super::{mountinfo, netlink};

/// The subfolder of a sandbox's folder with its held namespaces.
pub(crate) const NS: &str = "ns";
/// The subfolder of a sandbox's folder with the pod's shared memory.
pub(crate) const SHM: &str = "shm";

/// Creates namespaces and holds them. The sandbox's folder must not be used by anyone else at the same time.
pub(crate) fn hold(folder: &Path, wanted: Held, hostname: &str) -> Result<()> {
    let ns = folder.join(NS);
    super::store::make_dir(&ns)?;
    let hostname = hostname.to_owned();
    apart(move || make(&ns, wanted, &hostname))?;
    if wanted.ipc {
        let shm = folder.join(SHM);
        super::store::make_dir(&shm)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("shm", &shm, "tmpfs", flags, Some(c"mode=1777,size=65536k"))
            .map_err(|errno| Error::io("mount the pod's shared memory", errno))?;
    }
    Ok(())
}

/// Sets the pod's kernel settings, in the order of their names. Must be called once the pod has its network: some
/// settings belong to an interface, and what a CNI plugin sets must not override what the pod asks for.
pub(crate) fn set_sysctls(folder: &Path, held: Held, sysctls: BTreeMap<String, String>) -> Result<()> {
    if sysctls.is_empty() {
        return Ok(());
    }
    let ns = folder.join(NS);
    apart(move || {
        for (name, kind) in kinds(held) {
            let path = ns.join(name);
            let file =
                File::open(&path).map_err(|error| Error::io(format!("open {}", path.display()), error))?;
            setns(&file, kind).map_err(|errno| Error::io(format!("join the {name} namespace"), errno))?;
        }
        for (name, value) in &sysctls {
            fs::write(sysctl_file(name), value)
                .map_err(|error| Error::io(format!("set linux.sysctls[{name:?}]"), error))?;
        }
        Ok(())
    })
}

/// Runs work on a thread of its own: a thread that has left its namespaces must never be used for anything else.
fn apart(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let worker = std::thread::Builder::new().name("namespaces".to_owned());
    let worker = worker.spawn(work).map_err(|error| Error::io("start a thread", error))?;
    worker.join().map_err(|_| Error::Internal("a thread with other namespaces panicked".to_owned()))?
}

/// Returns the kinds that are held, each with its file name.
fn kinds(held: Held) -> impl Iterator<Item = (&'static str, CloneFlags)> {
    let all = [
        (held.network, "net", CloneFlags::CLONE_NEWNET),
        (held.ipc, "ipc", CloneFlags::CLONE_NEWIPC),
        (held.uts, "uts", CloneFlags::CLONE_NEWUTS),
    ];
    all.into_iter().filter_map(|(is_held, name, kind)| is_held.then_some((name, kind)))
}

fn make(ns: &Path, wanted: Held, hostname: &str) -> Result<()> {
    let flags = kinds(wanted).fold(CloneFlags::empty(), |all, (_, kind)| all | kind);
    if flags.is_empty() {
        return Ok(());
    }
    unshare(flags).map_err(|errno| Error::io("make namespaces", errno))?;
    if wanted.network {
        netlink::loopback_up().map_err(|error| Error::io("bring the loopback interface up", error))?;
    }
    if wanted.uts && !hostname.is_empty() {
        rustix::system::sethostname(hostname.as_bytes())
            .map_err(|errno| Error::io("set the host name", errno))?;
    }
    for (name, _) in kinds(wanted) {
        let target = ns.join(name);
        File::create(&target).map_err(|error| Error::io(format!("create {}", target.display()), error))?;
        mount_bind(format!("/proc/thread-self/ns/{name}"), &target)
            .map_err(|errno| Error::io(format!("pin the {name} namespace"), errno))?;
    }
    Ok(())
}

/// Returns the kernel's file of a setting. `net.ipv4.conf.eth0/1.forwarding` and `net/ipv4/conf/eth0.1/forwarding` are
/// the same setting: the first separator decides.
fn sysctl_file(name: &str) -> PathBuf {
    let path: String = match name.find(['.', '/']) {
        Some(first) if name[first..].starts_with('/') => name.to_owned(),
        _ => {
            let swapped = |c| match c {
                '.' => '/',
                '/' => '.',
                c => c,
            };
            name.chars().map(swapped).collect()
        }
    };
    Path::new("/proc/sys").join(path)
}

/// Checks that each sysctl belongs to a namespace that the pod has for itself.
pub(crate) fn check_sysctls(sysctls: &BTreeMap<String, String>, held: Held) -> Result<()> {
    for name in sysctls.keys() {
        let field = format!("linux.sysctls[{name:?}]");
        let plain = name.replace('/', ".");
        if plain.split('.').any(|part| part.is_empty() || part == "..") {
            return Err(Error::invalid(field, "is not a kernel setting"));
        }
        let ipc = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];
        let (owner, own) = if plain.starts_with("net.") {
            ("network", held.network)
        } else if ipc.iter().any(|prefix| plain.starts_with(prefix)) {
            ("ipc", held.ipc)
        } else if plain == "kernel.hostname" || plain == "kernel.domainname" {
            ("uts", held.uts)
        } else {
            return Err(Error::unsupported(field, "is not namespaced: it would change the whole machine"));
        };
        if !own {
            return Err(Error::invalid(field, format!("the pod uses the host's {owner} namespace")));
        }
    }
    Ok(())
}

/// Unmounts everything below a sandbox's folder, if there is anything.
pub(crate) fn release(folder: &Path) -> Result<()> {
    let text = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| Error::io("read the mount table", error))?;
    let mut points: Vec<PathBuf> = mountinfo::parse(&text)
        .into_iter()
        .map(|mount| mount.point)
        .filter(|point| point != folder && point.starts_with(folder))
        .collect();
    points.sort();
    // Deepest first; a mount point that is mounted twice is unmounted twice.
    for point in points.iter().rev() {
        unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .map_err(|errno| Error::io(format!("unmount {}", point.display()), errno))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_separator_says_what_the_others_mean() {
        for (name, file) in [
            ("kernel.shmmax", "kernel/shmmax"),
            ("net/ipv4/tcp_syncookies", "net/ipv4/tcp_syncookies"),
            ("net.ipv4.conf.eth0/1.forwarding", "net/ipv4/conf/eth0.1/forwarding"),
            ("net/ipv4/conf/eth0.1/forwarding", "net/ipv4/conf/eth0.1/forwarding"),
        ] {
            assert_eq!(sysctl_file(name), Path::new("/proc/sys").join(file), "{name}");
        }
    }

    #[test]
    fn only_settings_of_the_pods_own_namespaces() {
        let all = Held { network: true, ipc: true, uts: true };
        let none = Held::default();
        let table = [
            ("net.ipv4.ip_unprivileged_port_start", all, None),
            ("net/ipv4/tcp_syncookies", all, None),
            ("kernel.shm_rmid_forced", all, None),
            ("net.ipv4.ip_forward", none, Some("the pod uses the host's network namespace")),
            ("kernel.msgmax", none, Some("the pod uses the host's ipc namespace")),
            ("vm.swappiness", all, Some("it would change the whole machine")),
            ("net..x", all, Some("is not a kernel setting")),
            ("net.ipv4/../../kernel/panic", all, Some("is not a kernel setting")),
        ];
        for (name, held, refusal) in table {
            let sysctls = BTreeMap::from([(name.to_owned(), "1".to_owned())]);
            let got = check_sysctls(&sysctls, held).map_err(|error| error.to_string());
            match refusal {
                None => assert_eq!(got, Ok(()), "{name}"),
                Some(part) => assert!(got.as_ref().is_err_and(|text| text.contains(part)), "{name}: {got:?}"),
            }
        }
    }
}
