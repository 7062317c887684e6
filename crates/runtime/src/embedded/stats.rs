//! The resource usage of containers and pods, from their control groups.

use std::path::{Path, PathBuf};

use rubelet_cri::v1;

use super::cgroup::{Cgroups, Usage};
use super::clock;
use super::registry::{Container, Sandbox};
use super::runtime::Runtime;
use super::shim::mount_ns::{SCRATCH, UPPER};

fn number(value: Option<u64>) -> Option<v1::UInt64Value> {
    value.map(|value| v1::UInt64Value { value })
}

/// Everything needed to read one container's usage outside of an async task.
pub(crate) struct Subject {
    attributes: v1::ContainerAttributes,
    group: String,
    folder: PathBuf,
}

impl Runtime {
    pub(crate) fn stats_subject(&self, container: &Container) -> Subject {
        Subject {
            attributes: v1::ContainerAttributes {
                id: container.id().to_owned(),
                metadata: container.config.metadata.clone(),
                labels: container.config.labels.clone(),
                annotations: container.config.annotations.clone(),
            },
            group: container.record.cgroup.clone(),
            folder: self.layout.container(container.id()),
        }
    }
}

/// Reads the control group. Must be called where it may block.
pub(crate) fn container(subject: Subject, cgroups: &Cgroups) -> v1::ContainerStats {
    let usage = cgroups.usage(&subject.group);
    let now = clock::now();
    v1::ContainerStats {
        cpu: Some(cpu(&usage, now)),
        memory: Some(memory(&usage, now)),
        writable_layer: writable_layer(&subject.folder, now),
        swap: usage.swap_bytes.map(|bytes| v1::SwapUsage {
            timestamp: now,
            swap_available_bytes: None,
            swap_usage_bytes: number(Some(bytes)),
        }),
        io: None,
        attributes: Some(subject.attributes),
    }
}

/// Returns the usage of a pod: that of its own group if it has one, else the sum of its containers.
pub(crate) fn sandbox(
    sandbox: &Sandbox,
    containers: Vec<v1::ContainerStats>,
    cgroups: &Cgroups,
) -> v1::PodSandboxStats {
    let group = sandbox.record.read().cgroup.clone();
    let usage = cgroups.usage(&group);
    let now = clock::now();
    let linux = v1::LinuxPodSandboxStats {
        cpu: Some(cpu(&usage, now)),
        memory: Some(memory(&usage, now)),
        network: None,
        process: Some(v1::ProcessUsage { timestamp: now, process_count: number(usage.processes) }),
        containers,
        io: None,
    };
    v1::PodSandboxStats {
        attributes: Some(v1::PodSandboxAttributes {
            id: sandbox.id.clone(),
            metadata: sandbox.config.metadata.clone(),
            labels: sandbox.config.labels.clone(),
            annotations: sandbox.config.annotations.clone(),
        }),
        linux: Some(linux),
        windows: None,
    }
}

fn cpu(usage: &Usage, now: i64) -> v1::CpuUsage {
    v1::CpuUsage {
        timestamp: now,
        usage_core_nano_seconds: number(usage.cpu_nanos),
        usage_nano_cores: None,
        psi: None,
    }
}

fn memory(usage: &Usage, now: i64) -> v1::MemoryUsage {
    let available = match (usage.memory_limit_bytes, usage.working_set_bytes) {
        (Some(limit), Some(used)) => Some(limit.saturating_sub(used)),
        _ => None,
    };
    v1::MemoryUsage {
        timestamp: now,
        working_set_bytes: number(usage.working_set_bytes),
        available_bytes: number(available),
        usage_bytes: number(usage.memory_bytes),
        rss_bytes: number(usage.rss_bytes),
        page_faults: number(usage.page_faults),
        major_page_faults: number(usage.major_page_faults),
        psi: None,
    }
}

fn writable_layer(folder: &Path, now: i64) -> Option<v1::FilesystemUsage> {
    let upper = [UPPER, SCRATCH].iter().map(|name| folder.join(name)).find(|path| path.is_dir())?;
    let (bytes, inodes) = count(&upper);
    Some(v1::FilesystemUsage {
        timestamp: now,
        fs_id: Some(v1::FilesystemIdentifier { mountpoint: upper.to_string_lossy().into_owned() }),
        used_bytes: number(Some(bytes)),
        inodes_used: number(Some(inodes)),
    })
}

/// Counts bytes and inodes without recursion: the container decides how deep its folders are.
fn count(folder: &Path) -> (u64, u64) {
    let (mut bytes, mut inodes) = (0, 0);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            inodes += 1;
            bytes += std::os::unix::fs::MetadataExt::blocks(&meta) * 512;
            if meta.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    (bytes, inodes)
}
