//! A private network for a runtime that can be given a CNI configuration.

use std::fs;
use std::path::PathBuf;

use crate::slot::Slot;
use crate::{Error, network, teardown};

/// A bridge and a subnet that nobody else uses. Removed on drop.
#[derive(Debug)]
pub struct Cni {
    slot: Slot,
}

impl Cni {
    /// Claims a free network. The first pod creates the bridge.
    pub fn claim() -> Result<Self, Error> {
        let cni = Self { slot: Slot::claim()? };
        let folder = cni.conf_dir();
        fs::create_dir(&folder).map_err(Error::io("create", &folder))?;
        let path = folder.join("10-testbed.conflist");
        fs::write(&path, network::conflist(&cni.slot)).map_err(Error::io("write", &path))?;
        Ok(cni)
    }

    /// The subnet of its pods, e.g. `10.213.7.0/24`.
    pub fn subnet(&self) -> String {
        network::subnet(&self.slot)
    }

    /// The folder of its configuration.
    pub fn conf_dir(&self) -> PathBuf {
        self.slot.dir().join("cni")
    }
}

impl Drop for Cni {
    fn drop(&mut self) {
        if let Err(error) = teardown::take_down(&self.slot) {
            eprintln!("warning: {error}");
        }
    }
}
