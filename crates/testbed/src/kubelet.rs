//! A private kubelet on a private containerd: standalone, without an API server, with pods from a folder.
//!
//! A kubelet assumes that the machine is its own. What it changes outside its folder is restored on drop: a few kernel
//! settings, two folders, its control groups.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::daemon::{self, Daemon};
use crate::{Containerd, Error, Group, go_cache, wait};

const READY_LIMIT: Duration = Duration::from_secs(120);
const ASK_LIMIT: Duration = Duration::from_secs(10);

/// Folders whose paths cannot be configured. If they exist, there may be another kubelet.
const FIXED_FOLDERS: [&str; 2] = ["/var/lib/kubelet", "/var/log/containers"];

/// The kernel settings that it always overwrites.
const KERNEL_SETTINGS: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

/// A running kubelet. Drop it before its containerd.
#[derive(Debug)]
pub struct Kubelet {
    // In the order in which they have to end.
    daemon: Daemon,
    _group: Group,
    _machine: Machine,
    dir: PathBuf,
    port: u16,
}

impl Kubelet {
    /// Starts one that was built by `cargo xtask conformance record`. When this returns, it answers. `gates` are the
    /// features to switch on or off.
    pub fn start(containerd: &Containerd, node: &str, gates: &Value) -> Result<Self, Error> {
        let machine = Machine::note()?;
        let dir = containerd.dir().join("kubelet");
        for folder in [&dir, &dir.join("manifests")] {
            fs::create_dir(folder).map_err(Error::io("create", folder))?;
        }
        let group = group()?;
        let [port, tls_port] = [free_port()?, free_port()?];
        let config = config(&dir, &containerd.endpoint(), group.path(), [port, tls_port], gates);
        let path = dir.join("config.json");
        fs::write(&path, config.to_string()).map_err(Error::io("write", &path))?;
        let args = [
            "--config".into(),
            path.into(),
            "--root-dir".into(),
            dir.join("root").into(),
            "--cert-dir".into(),
            dir.join("certificates").into(),
            "--hostname-override".into(),
            node.into(),
        ];
        let program = go_cache::KUBELET.bin_dir().join("kubelet");
        let daemon = Daemon::spawn(&program, &args, None, &log(&dir))?;
        let mut kubelet = Self { daemon, _group: group, _machine: machine, dir, port };
        kubelet.wait()?;
        Ok(kubelet)
    }

    /// The folder of the manifests to run.
    pub fn manifests(&self) -> PathBuf {
        self.dir.join("manifests")
    }

    /// Every pod, as it reports them; `None` while it does not answer.
    pub fn pods(&self) -> Option<Vec<Value>> {
        let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        connection.set_read_timeout(Some(ASK_LIMIT)).ok()?;
        // In this version of HTTP, the answer ends with the connection.
        connection.write_all(b"GET /pods HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let mut list: Value = head.contains(" 200 ").then(|| serde_json::from_str(body).ok())??;
        match list["items"].take() {
            Value::Array(pods) => Some(pods),
            // Go encodes an empty list as `null`.
            _ => Some(Vec::new()),
        }
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(log(&self.dir)).unwrap_or_default()).into_owned()
    }

    fn wait(&mut self) -> Result<(), Error> {
        let outcome = wait::until(READY_LIMIT, || match self.daemon.ended() {
            Some(status) => Some(Err(status)),
            None => self.pods().map(|_| Ok(())),
        });
        let log = || daemon::log_tail(&log(&self.dir));
        match outcome {
            Some(Ok(())) => Ok(()),
            Some(Err(status)) => Err(Error::EndedEarly { status, log: log() }),
            None => {
                Err(Error::NotInTime { condition: "the kubelet answers", limit: READY_LIMIT, log: log() })
            }
        }
    }
}

fn log(dir: &Path) -> PathBuf {
    dir.join("kubelet.log")
}

/// Nothing that belongs to anybody else (folders, sockets, ports), nothing that a test machine may lack permission for,
/// and no eviction of pods on a machine that is nearly full.
fn config(dir: &Path, endpoint: &str, group: &str, [port, tls_port]: [u16; 2], gates: &Value) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": tls_port,
        "readOnlyPort": port,
        "healthzPort": 0,
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "containerRuntimeEndpoint": endpoint,
        "staticPodPath": dir.join("manifests"),
        "podLogsDir": dir.join("logs"),
        "volumePluginDir": dir.join("plugins"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": group,
        "failCgroupV1": false,
        "failSwapOn": false,
        "makeIPTablesUtilChains": false,
        "oomScoreAdj": 0,
        "evictionHard": { "memory.available": "1Mi" },
        "imageGCHighThresholdPercent": 100,
        "featureGates": gates,
    })
}

/// Creates the control group for all its pods, which must exist in every hierarchy before it starts.
fn group() -> Result<Group, Error> {
    let group = Group::new(&format!("/rubelet-kubelet-{}", std::process::id()));
    let root = Path::new("/sys/fs/cgroup");
    let is_hierarchy = |folder: &Path| folder.join("cgroup.procs").exists();
    let split = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let hierarchies: Vec<PathBuf> = if is_hierarchy(root) { vec![root.into()] } else { split.collect() };
    for hierarchy in hierarchies.iter().filter(|folder| is_hierarchy(folder)) {
        let folder = hierarchy.join(group.path().trim_start_matches('/'));
        fs::create_dir(&folder).map_err(Error::io("create", &folder))?;
    }
    Ok(group)
}

/// Finds a free port, since its ports must be configured. If another process takes the port first, the kubelet does not
/// start.
fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(Error::io("find a port on", Path::new("127.0.0.1")))
}

/// The state of the machine before.
#[derive(Debug)]
struct Machine {
    settings: Vec<(PathBuf, String)>,
}

impl Machine {
    fn note() -> Result<Self, Error> {
        if let Some(path) = FIXED_FOLDERS.iter().map(PathBuf::from).find(|path| path.exists()) {
            return Err(Error::AnotherKubelet { path });
        }
        let setting = |name: &&str| {
            let path = Path::new("/proc/sys").join(name);
            let value = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
            Ok((path, value))
        };
        Ok(Self { settings: KERNEL_SETTINGS.iter().map(setting).collect::<Result<_, _>>()? })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for (path, value) in &self.settings {
            if let Err(error) = fs::write(path, value) {
                eprintln!("warning: cannot put back {}={}: {error}", path.display(), value.trim());
            }
        }
        for folder in FIXED_FOLDERS {
            if let Err(error) = fs::remove_dir_all(folder)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                eprintln!("warning: cannot remove {folder}: {error}");
            }
        }
    }
}
