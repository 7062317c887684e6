//! `userns` in the folder of a pod: its range, in the format of the kubelet's file of that name.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::IdRange;
use crate::pod_file::{self, Outlives};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Mappings {
    uid_mappings: Vec<Mapping>,
    gid_mappings: Vec<Mapping>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mapping {
    host_id: u32,
    container_id: u32,
    length: u32,
}

impl Mappings {
    /// Returns the single range in the file, or why there is not exactly one.
    pub(super) fn range(&self) -> Result<IdRange, &'static str> {
        let ([users], [groups]) = (&self.uid_mappings[..], &self.gid_mappings[..]) else {
            return Err("it must have exactly one mapping");
        };
        let range = IdRange { first: users.host_id, length: users.length };
        match users {
            _ if users != groups => Err("GID and UID mapping should be identical"),
            Mapping { container_id: 1.., .. } => Err("UID 0 must be mapped"),
            Mapping { host_id: 0, .. } => Err("it includes the host's root"),
            Mapping { length: 0, .. } => Err("it is empty"),
            _ if range.end() > 1 << 32 => Err("its ids are out of range"),
            _ => Ok(range),
        }
    }
}

/// Writes the file so that it survives a power cut, as the runtime's containers may as well.
pub(super) fn write(path: &Path, range: IdRange) -> io::Result<()> {
    let mapping = Mapping { host_id: range.first, container_id: 0, length: range.length };
    let mappings = Mappings { uid_mappings: vec![mapping], gid_mappings: vec![mapping] };
    pod_file::write(path, &mappings, Outlives::Machine)
}
