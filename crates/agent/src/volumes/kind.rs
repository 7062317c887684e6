//! The kinds of volumes. Unsupported kinds are refused by name.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource,
    ProjectedVolumeSource, SecretVolumeSource, Volume,
};

use super::VolumeError;

/// A volume of a supported kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VolumeKind<'a> {
    /// A folder that lives as long as the pod.
    EmptyDir(&'a EmptyDirVolumeSource),
    /// A path of the host.
    HostPath(&'a HostPathVolumeSource),
    /// The keys of a config map.
    ConfigMap(&'a ConfigMapVolumeSource),
    /// The keys of a secret.
    Secret(&'a SecretVolumeSource),
    /// Fields of the pod.
    DownwardApi(&'a DownwardAPIVolumeSource),
    /// Several of the previous three in one.
    Projected(&'a ProjectedVolumeSource),
}

impl<'a> VolumeKind<'a> {
    /// Returns the kind of a volume.
    ///
    /// # Errors
    ///
    /// If this agent does not support it.
    pub fn of(volume: &'a Volume) -> Result<Self, VolumeError> {
        if let Some(source) = &volume.empty_dir {
            return Ok(Self::EmptyDir(source));
        }
        if let Some(source) = &volume.host_path {
            return Ok(Self::HostPath(source));
        }
        if let Some(source) = &volume.config_map {
            return Ok(Self::ConfigMap(source));
        }
        if let Some(source) = &volume.secret {
            return Ok(Self::Secret(source));
        }
        if let Some(source) = &volume.downward_api {
            return Ok(Self::DownwardApi(source));
        }
        if let Some(source) = &volume.projected {
            return Ok(Self::Projected(source));
        }
        Err(VolumeError::Unsupported(given(volume).next().unwrap_or("(none)")))
    }

    /// Whether the agent writes its files, and nobody else does.
    pub(crate) fn is_written(self) -> bool {
        match self {
            Self::EmptyDir(_) | Self::HostPath(_) => false,
            Self::ConfigMap(_) | Self::Secret(_) | Self::DownwardApi(_) | Self::Projected(_) => true,
        }
    }
}

/// Returns the kinds that a volume specifies: exactly one, if it is valid.
pub(crate) fn given(volume: &Volume) -> impl Iterator<Item = &'static str> {
    let Volume {
        name: _,
        aws_elastic_block_store,
        azure_disk,
        azure_file,
        cephfs,
        cinder,
        config_map,
        csi,
        downward_api,
        empty_dir,
        ephemeral,
        fc,
        flex_volume,
        flocker,
        gce_persistent_disk,
        git_repo,
        glusterfs,
        host_path,
        image,
        iscsi,
        nfs,
        persistent_volume_claim,
        photon_persistent_disk,
        portworx_volume,
        projected,
        quobyte,
        rbd,
        scale_io,
        secret,
        storageos,
        vsphere_volume,
    } = volume;
    [
        ("awsElasticBlockStore", aws_elastic_block_store.is_some()),
        ("azureDisk", azure_disk.is_some()),
        ("azureFile", azure_file.is_some()),
        ("cephfs", cephfs.is_some()),
        ("cinder", cinder.is_some()),
        ("configMap", config_map.is_some()),
        ("csi", csi.is_some()),
        ("downwardAPI", downward_api.is_some()),
        ("emptyDir", empty_dir.is_some()),
        ("ephemeral", ephemeral.is_some()),
        ("fc", fc.is_some()),
        ("flexVolume", flex_volume.is_some()),
        ("flocker", flocker.is_some()),
        ("gcePersistentDisk", gce_persistent_disk.is_some()),
        ("gitRepo", git_repo.is_some()),
        ("glusterfs", glusterfs.is_some()),
        ("hostPath", host_path.is_some()),
        ("image", image.is_some()),
        ("iscsi", iscsi.is_some()),
        ("nfs", nfs.is_some()),
        ("persistentVolumeClaim", persistent_volume_claim.is_some()),
        ("photonPersistentDisk", photon_persistent_disk.is_some()),
        ("portworxVolume", portworx_volume.is_some()),
        ("projected", projected.is_some()),
        ("quobyte", quobyte.is_some()),
        ("rbd", rbd.is_some()),
        ("scaleIO", scale_io.is_some()),
        ("secret", secret.is_some()),
        ("storageos", storageos.is_some()),
        ("vsphereVolume", vsphere_volume.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, given)| given.then_some(name))
}
