//! Devices: which nodes a container has in `/dev`, and which it may open.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rubelet_cri::v1;
use serde_json::{Value, json};

use crate::embedded::error::{Error, Result};

/// A device node, looked up on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) path: PathBuf,
    pub(crate) block: bool,
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Any of the letters `rwm`.
    pub(crate) access: String,
}

/// Looks up the devices that a request asks for. Not pure: it reads the host's `/dev`.
pub(crate) fn look_up(config: &v1::ContainerConfig) -> Result<Vec<Device>> {
    let privileged = config
        .linux
        .as_ref()
        .and_then(|linux| linux.security_context.as_ref())
        .is_some_and(|context| context.privileged);
    let mut found = Vec::new();
    if privileged {
        collect(Path::new("/dev"), Path::new("/dev"), "rwm", &mut found);
        found.retain(|device| {
            !["/dev/pts", "/dev/shm", "/dev/fd", "/dev/mqueue", "/dev/console", "/dev/ptmx"]
                .iter()
                .any(|own| device.path.starts_with(own))
        });
    }
    for (index, device) in config.devices.iter().enumerate() {
        let field = format!("devices[{index}]");
        if device.permissions.is_empty() || !device.permissions.chars().all(|letter| "rwm".contains(letter)) {
            let problem = format!("{:?} must consist of r, w and m", device.permissions);
            return Err(Error::invalid(format!("{field}.permissions"), problem));
        }
        let host = Path::new(&device.host_path);
        let meta = fs::metadata(host).map_err(|error| {
            Error::invalid(format!("{field}.host_path"), format!("{}: {error}", device.host_path))
        })?;
        if meta.is_dir() {
            collect(host, Path::new(&device.container_path), &device.permissions, &mut found);
        } else {
            let node =
                node(host, Path::new(&device.container_path), &device.permissions).ok_or_else(|| {
                    Error::invalid(
                        format!("{field}.host_path"),
                        format!("{} is not a device", device.host_path),
                    )
                })?;
            found.retain(|other| other.path != node.path);
            found.push(node);
        }
    }
    Ok(found)
}

fn collect(host: &Path, inside: &Path, access: &str, found: &mut Vec<Device>) {
    for entry in fs::read_dir(host).into_iter().flatten().flatten() {
        let (path, target) = (entry.path(), inside.join(entry.file_name()));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&path, &target, access, found),
            Ok(kind) if kind.is_char_device() || kind.is_block_device() => {
                found.extend(node(&path, &target, access));
            }
            _ => {}
        }
    }
}

fn node(host: &Path, inside: &Path, access: &str) -> Option<Device> {
    let meta = fs::metadata(host).ok()?;
    let kind = meta.file_type();
    if !kind.is_char_device() && !kind.is_block_device() {
        return None;
    }
    Some(Device {
        path: inside.to_owned(),
        block: kind.is_block_device(),
        major: rustix::fs::major(meta.rdev()),
        minor: rustix::fs::minor(meta.rdev()),
        mode: meta.mode() & 0o7777,
        uid: meta.uid(),
        gid: meta.gid(),
        access: access.to_owned(),
    })
}

/// Returns the OCI `linux.devices` list.
pub(super) fn nodes(devices: &[Device]) -> Value {
    let nodes = devices.iter().map(|device| {
        json!({
            "path": device.path,
            "type": kind(device),
            "major": device.major,
            "minor": device.minor,
            "fileMode": device.mode,
            "uid": device.uid,
            "gid": device.gid,
        })
    });
    nodes.collect()
}

/// Returns the OCI `linux.resources.devices` list: first everything is forbidden, then exceptions follow.
pub(super) fn rules(privileged: bool, devices: &[Device]) -> Value {
    if privileged {
        return json!([{ "allow": true, "access": "rwm" }]);
    }
    let mut rules = vec![json!({ "allow": false, "access": "rwm" })];
    rules.extend(devices.iter().map(|device| {
        json!({
            "allow": true,
            "type": kind(device),
            "major": device.major,
            "minor": device.minor,
            "access": device.access,
        })
    }));
    Value::Array(rules)
}

fn kind(device: &Device) -> &'static str {
    if device.block { "b" } else { "c" }
}
