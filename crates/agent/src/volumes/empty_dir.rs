//! `emptyDir`: a folder on disk, in memory or of huge pages that lives as long as the pod.

use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, PodSpec, ResourceRequirements};

use super::ownership::FileGroup;
use super::{MODE_IN_MEMORY, PodDirectory, VolumeError, layout, mount_table};
use crate::downward::PodFacts;
use crate::resource::{self, Quantity};

const PLUGIN: &str = "empty-dir";

/// Makes it, or finds it as it was left: its content belongs to the pod.
pub(super) fn make(
    directory: &PodDirectory,
    name: &str,
    source: &EmptyDirVolumeSource,
    facts: &PodFacts<'_>,
) -> Result<PathBuf, VolumeError> {
    let path = directory.volume(PLUGIN, name);
    let medium = Medium::of(source, facts)?;
    let marker = directory.plugin(PLUGIN, name).join("ready");
    let is_in_place = medium == Medium::Disk || mount_table::is_mount_point(&path)?;
    if is_in_place && path.is_dir() && marker.exists() {
        return Ok(path);
    }
    layout::create_directory(&path, 0o777)?;
    if !is_in_place {
        match medium {
            Medium::Disk => {}
            Medium::Memory { size } => mount_table::mount_tmpfs(&path, size)?,
            Medium::HugePages { page_size } => mount_table::mount_huge_pages(&path, page_size)?,
        }
    }
    let mode = if matches!(medium, Medium::Memory { .. }) { MODE_IN_MEMORY } else { 0o777 };
    layout::set_mode(&path, mode)?;
    if let Some(group) = FileGroup::of(facts.pod) {
        group.take_folder(&path).map_err(VolumeError::io("give the group", &path))?;
    }
    layout::create_directory(&directory.plugin(PLUGIN, name), 0o750)?;
    fs::write(&marker, []).map_err(VolumeError::io("create", &marker))?;
    Ok(path)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    Disk,
    Memory { size: Option<u64> },
    HugePages { page_size: u64 },
}

impl Medium {
    fn of(source: &EmptyDirVolumeSource, facts: &PodFacts<'_>) -> Result<Self, VolumeError> {
        match source.medium.as_deref().unwrap_or_default() {
            "Memory" => Ok(Self::Memory { size: memory_size(source, facts) }),
            "HugePages" => sole_huge_page_size(facts).map(|page_size| Self::HugePages { page_size }),
            medium => {
                match medium.strip_prefix("HugePages-").and_then(|size| size.parse::<Quantity>().ok()) {
                    Some(size) => Ok(Self::HugePages { page_size: size.units().unsigned_abs() }),
                    None => Ok(Self::Disk),
                }
            }
        }
    }
}

/// The least of what the node has, what the pod may use and what the volume may hold.
fn memory_size(source: &EmptyDirVolumeSource, facts: &PodFacts<'_>) -> Option<u64> {
    let node = facts.node.allocatable.get("memory").copied();
    let pod = facts.pod.spec.as_ref().and_then(pod_memory_limit);
    let volume = source.size_limit.as_ref().and_then(|limit| Quantity::of(limit).ok());
    let least = [node, pod, volume].into_iter().flatten().filter(|limit| *limit > Quantity::ZERO).min()?;
    u64::try_from(least.units()).ok()
}

/// Only if every container has one: otherwise the pod has no limit.
fn pod_memory_limit(spec: &PodSpec) -> Option<Quantity> {
    let memory = |resources: Option<&ResourceRequirements>| resource::limit(resources, "memory");
    memory(spec.resources.as_ref())
        .or_else(|| spec.containers.iter().map(|container| memory(container.resources.as_ref())).sum())
}

fn sole_huge_page_size(facts: &PodFacts<'_>) -> Result<u64, VolumeError> {
    let spec = facts.pod.spec.as_ref().ok_or(VolumeError::HugePages)?;
    let mut sizes: Vec<&str> = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten())
        .filter_map(|container| container.resources.as_ref()?.limits.as_ref())
        .flat_map(|limits| limits.keys().filter_map(|name| name.strip_prefix("hugepages-")))
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    match sizes[..] {
        [size] => size
            .parse::<Quantity>()
            .map(|size| size.units().unsigned_abs())
            .map_err(|_| VolumeError::HugePages),
        _ => Err(VolumeError::HugePages),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, Pod};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

    use super::*;
    use crate::downward::NodeFacts;
    use crate::manifest::Objects;

    fn limits(pairs: &[(&str, &str)]) -> Option<ResourceRequirements> {
        let limits =
            pairs.iter().map(|(name, amount)| ((*name).to_owned(), WireQuantity((*amount).to_owned())));
        Some(ResourceRequirements { limits: Some(limits.collect()), ..ResourceRequirements::default() })
    }

    /// The medium on a node of 1 GiB, for a pod of containers with these limits.
    fn medium(medium: &str, size: Option<&str>, containers: &[&[(&str, &str)]]) -> Option<Medium> {
        let containers =
            containers.iter().map(|pairs| Container { resources: limits(pairs), ..Container::default() });
        let spec = PodSpec { containers: containers.collect(), ..PodSpec::default() };
        let pod = Pod { spec: Some(spec), ..Pod::default() };
        let node = NodeFacts {
            allocatable: [("memory".to_owned(), Quantity::from_units(1 << 30))].into(),
            ..NodeFacts::default()
        };
        let source = EmptyDirVolumeSource {
            medium: Some(medium.to_owned()),
            size_limit: size.map(|size| WireQuantity(size.to_owned())),
        };
        let facts = PodFacts { pod: &pod, objects: &Objects::default(), node: &node, pod_ips: &[] };
        Medium::of(&source, &facts).ok()
    }

    #[test]
    fn memory_is_the_least_of_all_limits() {
        let memory = |size, containers| medium("Memory", size, containers);
        let of = |bytes| Some(Medium::Memory { size: Some(bytes) });
        assert_eq!(memory(None, &[&[]]), of(1 << 30));
        assert_eq!(memory(Some("1Mi"), &[&[]]), of(1 << 20));
        assert_eq!(memory(Some("8Gi"), &[&[]]), of(1 << 30));
        assert_eq!(memory(Some("0"), &[&[]]), of(1 << 30), "zero is no limit");
        assert_eq!(memory(None, &[&[("memory", "1Mi")], &[("memory", "2Mi")]]), of(3 << 20));
        assert_eq!(
            memory(None, &[&[("memory", "1Mi")], &[]]),
            of(1 << 30),
            "one container without a limit is enough"
        );
    }

    #[test]
    fn huge_pages_have_one_size() {
        let pages = |page_size| Some(Medium::HugePages { page_size });
        assert_eq!(medium("HugePages-2Mi", None, &[]), pages(2 << 20));
        assert_eq!(medium("HugePages", None, &[&[("hugepages-1Gi", "2Gi"), ("cpu", "1")]]), pages(1 << 30));
        assert_eq!(
            medium("HugePages", None, &[&[("hugepages-1Gi", "2Gi")], &[("hugepages-2Mi", "2Mi")]]),
            None
        );
        assert_eq!(medium("HugePages", None, &[&[]]), None);
        assert_eq!(medium("", Some("1Mi"), &[&[]]), Some(Medium::Disk));
    }
}
