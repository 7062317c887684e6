//! `volumes`: their kinds and contents.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, PodSpec, ProjectedVolumeSource, Volume};

use super::report::{Path, Report};
use super::{environment, names, resources};
use crate::resource::Quantity;
use crate::volumes::{given_kinds, given_projections};

const HOST_PATH_TYPES: &[&str] =
    &["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];
const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels",
    "metadata.annotations",
    "metadata.labels['<KEY>']",
    "metadata.annotations['<KEY>']",
];

/// Checks all volumes; returns their names, which containers may mount.
pub(super) fn check(spec: &PodSpec, path: &Path, report: &mut Report) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let path = path.index(index);
        report.require(&path.field("name"), &volume.name, names::dns_label);
        if !known.insert(volume.name.clone()) {
            report.duplicate(&path.field("name"), &volume.name);
        }
        check_kinds(volume, &path, report);
        check_source(volume, &path, report);
    }
    known
}

fn check_kinds(volume: &Volume, path: &Path, report: &mut Report) {
    for second in given_kinds(volume).skip(1) {
        report.forbidden(&path.field(second), "may not specify more than 1 volume type");
    }
    for kind in given_kinds(volume) {
        match kind {
            "configMap" | "downwardAPI" | "emptyDir" | "hostPath" | "projected" | "secret" => {}
            "persistentVolumeClaim" | "ephemeral" => {
                report.forbidden(&path.field(kind), "static pods may not reference persistentvolumeclaims");
            }
            "csi" => report.forbidden(&path.field(kind), "static pods may not reference csidrivers"),
            _ => {
                let detail = "this type of volume is not supported here; use emptyDir, hostPath, configMap, secret, projected or downwardAPI";
                report.forbidden(&path.field(kind), detail);
            }
        }
    }
}

fn check_source(volume: &Volume, path: &Path, report: &mut Report) {
    if let Some(source) = &volume.empty_dir {
        let path = path.field("emptyDir");
        if let Some(limit) = &source.size_limit {
            resources::quantity(limit, &path.field("sizeLimit"), report);
        }
        let medium = source.medium.as_deref().unwrap_or_default();
        let page = medium
            .strip_prefix("HugePages-")
            .is_some_and(|size| size.parse::<Quantity>().is_ok_and(|size| size > Quantity::ZERO));
        if !page && !matches!(medium, "" | "Memory" | "HugePages") {
            report.unsupported(
                &path.field("medium"),
                medium,
                &["", "Memory", "HugePages", "HugePages-<size>"],
            );
        }
    }
    if let Some(source) = &volume.host_path {
        let path = path.field("hostPath");
        report.require(&path.field("path"), &source.path, names::no_backsteps);
        if !source.path.is_empty() && !source.path.starts_with('/') {
            report.invalid_text(&path.field("path"), &source.path, "must be an absolute path");
        }
        report.one_of(&path.field("type"), source.type_.as_deref(), HOST_PATH_TYPES);
    }
    if let Some(source) = &volume.config_map {
        let path = path.field("configMap");
        report.require(&path.field("name"), &source.name, names::dns_subdomain);
        mode(source.default_mode, &path.field("defaultMode"), report);
        check_items(source.items.as_deref(), &path, report);
    }
    if let Some(source) = &volume.secret {
        let path = path.field("secret");
        report.require(
            &path.field("secretName"),
            source.secret_name.as_deref().unwrap_or_default(),
            names::dns_subdomain,
        );
        mode(source.default_mode, &path.field("defaultMode"), report);
        check_items(source.items.as_deref(), &path, report);
    }
    if let Some(source) = &volume.downward_api {
        let path = path.field("downwardAPI");
        mode(source.default_mode, &path.field("defaultMode"), report);
        check_downward(source.items.as_deref(), &path, report);
    }
    if let Some(source) = &volume.projected {
        check_projected(source, &path.field("projected"), report);
    }
}

fn check_projected(source: &ProjectedVolumeSource, path: &Path, report: &mut Report) {
    mode(source.default_mode, &path.field("defaultMode"), report);
    let mut paths = BTreeSet::new();
    for (index, projection) in source.sources.iter().flatten().enumerate() {
        let path = path.field("sources").index(index);
        let given: Vec<_> = given_projections(projection).collect();
        if given.is_empty() {
            report.required(&path, "must specify a projection type");
        }
        for second in given.iter().skip(1) {
            report.forbidden(&path.field(second), "may not specify more than 1 volume type");
        }
        for unknown in given.iter().filter(|kind| !matches!(**kind, "configMap" | "downwardAPI" | "secret")) {
            report.forbidden(&path.field(unknown), "static pods may not reference objects of the API server");
        }
        let mut files: Vec<(Path, &str)> = Vec::new();
        for (field, name, items) in [
            (
                "configMap",
                projection.config_map.as_ref().map(|source| &source.name),
                projection.config_map.as_ref().and_then(|source| source.items.as_deref()),
            ),
            (
                "secret",
                projection.secret.as_ref().map(|source| &source.name),
                projection.secret.as_ref().and_then(|source| source.items.as_deref()),
            ),
        ] {
            let Some(name) = name else { continue };
            let path = path.field(field);
            report.require(&path.field("name"), name, names::dns_subdomain);
            check_items(items, &path, report);
            let items = items.unwrap_or_default().iter().enumerate();
            files.extend(
                items.map(|(index, item)| {
                    (path.field("items").index(index).field("path"), item.path.as_str())
                }),
            );
        }
        if let Some(source) = &projection.downward_api {
            let path = path.field("downwardAPI");
            check_downward(source.items.as_deref(), &path, report);
            let items = source.items.iter().flatten().enumerate();
            files.extend(
                items.map(|(index, item)| {
                    (path.field("items").index(index).field("path"), item.path.as_str())
                }),
            );
        }
        for (path, file) in files {
            if !paths.insert(file.to_owned()) && !file.is_empty() {
                report.invalid_text(&path, file, "conflicting duplicate paths");
            }
        }
    }
}

fn check_items(items: Option<&[KeyToPath]>, path: &Path, report: &mut Report) {
    for (index, item) in items.unwrap_or_default().iter().enumerate() {
        let path = path.field("items").index(index);
        if item.key.is_empty() {
            report.required(&path.field("key"), "");
        }
        report.require(&path.field("path"), &item.path, names::file_path);
        mode(item.mode, &path.field("mode"), report);
    }
}

fn check_downward(items: Option<&[DownwardAPIVolumeFile]>, path: &Path, report: &mut Report) {
    for (index, item) in items.unwrap_or_default().iter().enumerate() {
        let path = path.field("items").index(index);
        report.require(&path.field("path"), &item.path, names::file_path);
        mode(item.mode, &path.field("mode"), report);
        match (&item.field_ref, &item.resource_field_ref) {
            (None, None) => report.required(&path, "one of fieldRef and resourceFieldRef is required"),
            (Some(_), Some(_)) => report.invalid_text(
                &path,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            ),
            (Some(field), None) => {
                environment::check_version(field, &path.field("fieldRef"), report);
                let is_subscripted = environment::is_label_or_annotation(&field.field_path);
                if !is_subscripted && !FIELDS.contains(&field.field_path.as_str()) {
                    report.unsupported(&path.field("fieldRef").field("fieldPath"), &field.field_path, FIELDS);
                }
            }
            (None, Some(selector)) => {
                let path = path.field("resourceFieldRef");
                if selector.container_name.as_ref().is_none_or(String::is_empty) {
                    report.required(&path.field("containerName"), "");
                }
                environment::check_resource(selector, &path, report);
            }
        }
    }
}

fn mode(mode: Option<i32>, path: &Path, report: &mut Report) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        report.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}
