//! `emptyDir`: a folder on disk, in memory or of huge pages that lives as long as the pod.

use std::fs;

use k8s_openapi::api::core::v1::EmptyDirVolumeSource;

use super::ownership::FileGroup;
use super::{MODE_IN_MEMORY, PodDirectory, VolumeError, layout, mount_table};
use crate::downward::PodFacts;
use crate::pod;
use crate::resource::Quantity;

pub(super) const PLUGIN: &str = "empty-dir";

/// Creates it, or finds it as it was left: its content belongs to the pod.
pub(super) fn make(
    directory: &PodDirectory,
    name: &str,
    source: &EmptyDirVolumeSource,
    facts: &PodFacts<'_>,
) -> Result<(), VolumeError> {
    let path = directory.volume(PLUGIN, name);
    let medium = Medium::of(source, facts)?;
    let marker = directory.plugin(PLUGIN, name).join("ready");
    let is_in_place = medium == Medium::Disk || mount_table::is_mount_point(&path)?;
    if is_in_place && path.is_dir() && marker.exists() {
        return Ok(());
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
        group.take_folder(&path).map_err(VolumeError::io("change the group of", &path))?;
    }
    layout::create_directory(&directory.plugin(PLUGIN, name), 0o750)?;
    fs::write(&marker, []).map_err(VolumeError::io("create", &marker))
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

/// Returns the minimum of what the node has, what the pod may use and what the volume may hold.
fn memory_size(source: &EmptyDirVolumeSource, facts: &PodFacts<'_>) -> Option<u64> {
    let node = facts.node.allocatable.get("memory").copied();
    let pod = pod::limit(facts.pod, "memory");
    let volume = source.size_limit.as_ref().and_then(|limit| Quantity::of(limit).ok());
    let least = [node, pod, volume].into_iter().flatten().filter(|limit| *limit > Quantity::ZERO).min()?;
    u64::try_from(least.units()).ok()
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
    use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

    use super::*;
    use crate::downward::NodeFacts;
    use crate::manifest::Objects;

    fn limits(pairs: &[(&str, &str)]) -> Option<ResourceRequirements> {
        let limits =
            pairs.iter().map(|(name, amount)| ((*name).to_owned(), WireQuantity((*amount).to_owned())));
        Some(ResourceRequirements { limits: Some(limits.collect()), ..ResourceRequirements::default() })
    }

    fn container(pairs: &[(&str, &str)]) -> Container {
        Container { resources: limits(pairs), ..Container::default() }
    }

    /// Returns the medium on a node of 1 GiB, for a pod of containers with these limits.
    fn medium(medium: &str, size: Option<&str>, containers: &[&[(&str, &str)]]) -> Option<Medium> {
        let containers = containers.iter().map(|pairs| container(pairs));
        medium_in(PodSpec { containers: containers.collect(), ..PodSpec::default() }, medium, size)
    }

    fn medium_in(spec: PodSpec, medium: &str, size: Option<&str>) -> Option<Medium> {
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
    fn memory_is_what_the_pod_as_a_whole_may_use() {
        let with = |amount| container(&[("memory", amount)]);
        let sidecar = |amount| Container { restart_policy: Some("Always".to_owned()), ..with(amount) };
        let none = || container(&[]);
        let overhead = || Some([("memory".to_owned(), WireQuantity("4Mi".to_owned()))].into());
        // init containers, whether the pod has an overhead of 4Mi, MiB: beside a container with 2Mi
        let rows = [
            (vec![], false, 2),
            (vec![with("8Mi")], false, 8),
            (vec![with("1Mi")], false, 2),
            (vec![sidecar("8Mi")], false, 10),
            (vec![sidecar("8Mi"), with("16Mi")], false, 24),
            (vec![none()], false, 1024),
            (vec![], true, 6),
            (vec![none()], true, 1024),
        ];
        for (row, (init, costs, mebibytes)) in rows.into_iter().enumerate() {
            let spec = PodSpec {
                containers: vec![with("2Mi")],
                init_containers: Some(init),
                overhead: costs.then(overhead).flatten(),
                ..PodSpec::default()
            };
            let wanted = Some(Medium::Memory { size: Some(mebibytes << 20) });
            assert_eq!(medium_in(spec, "Memory", None), wanted, "row {row}");
        }
        let own = PodSpec {
            containers: vec![none()],
            resources: limits(&[("memory", "3Mi")]),
            ..PodSpec::default()
        };
        assert_eq!(medium_in(own, "Memory", None), Some(Medium::Memory { size: Some(3 << 20) }));
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
