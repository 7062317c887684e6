//! One volume of a description.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Volume, VolumeProjection};

use super::sheet::Sheet;

pub(super) fn describe(sheet: &mut Sheet, volume: &Volume) {
    sheet.line(&format!("{}:", volume.name));
    sheet.indented(|sheet| source(sheet, volume));
}

fn source(sheet: &mut Sheet, volume: &Volume) {
    if let Some(empty) = &volume.empty_dir {
        sheet.field("Type", "EmptyDir (a temporary directory that shares a pod's lifetime)");
        sheet.field("Medium", empty.medium.as_deref().unwrap_or_default());
        sheet.field("SizeLimit", empty.size_limit.as_ref().map_or("<unset>", |limit| &limit.0));
    } else if let Some(host) = &volume.host_path {
        sheet.field("Type", "HostPath (bare host directory volume)");
        sheet.field("Path", &host.path);
        sheet.field("HostPathType", host.type_.as_deref().unwrap_or_default());
    } else if let Some(map) = &volume.config_map {
        sheet.field("Type", "ConfigMap (a volume populated by a ConfigMap)");
        named(sheet, "Name", &map.name, map.optional, map.items.as_deref());
    } else if let Some(secret) = &volume.secret {
        sheet.field("Type", "Secret (a volume populated by a Secret)");
        let name = secret.secret_name.as_deref().unwrap_or_default();
        named(sheet, "SecretName", name, secret.optional, secret.items.as_deref());
    } else if let Some(downward) = &volume.downward_api {
        sheet.field("Type", "DownwardAPI (a volume populated by information about the pod)");
        files(sheet, downward.items.as_deref());
    } else if let Some(projected) = &volume.projected {
        sheet.field("Type", "Projected (a volume that contains injected data from multiple sources)");
        projected.sources.iter().flatten().for_each(|source| projection(sheet, source));
    } else {
        sheet.field("Type", "<unknown>");
    }
}

fn projection(sheet: &mut Sheet, source: &VolumeProjection) {
    if let Some(map) = &source.config_map {
        named(sheet, "ConfigMapName", &map.name, map.optional, map.items.as_deref());
    } else if let Some(secret) = &source.secret {
        named(sheet, "SecretName", &secret.name, secret.optional, secret.items.as_deref());
    } else if let Some(downward) = &source.downward_api {
        sheet.field("DownwardAPI", "true");
        files(sheet, downward.items.as_deref());
    } else {
        sheet.field("Source", "<unknown>");
    }
}

/// Adds an object, and which of its keys go to which paths, unless all of them go to a path of the same name.
fn named(sheet: &mut Sheet, title: &str, name: &str, optional: Option<bool>, keys: Option<&[KeyToPath]>) {
    sheet.field(title, name);
    sheet.field("Optional", &optional.unwrap_or(false).to_string());
    items(sheet, keys.unwrap_or_default().iter().map(|item| (item.key.as_str(), item.path.as_str())));
}

fn files(sheet: &mut Sheet, files: Option<&[DownwardAPIVolumeFile]>) {
    let of = |file: &DownwardAPIVolumeFile| match (&file.field_ref, &file.resource_field_ref) {
        (Some(field), _) => field.field_path.clone(),
        (None, Some(resource)) => resource.resource.clone(),
        (None, None) => "<unknown>".to_owned(),
    };
    let all: Vec<(String, &str)> =
        files.unwrap_or_default().iter().map(|file| (of(file), file.path.as_str())).collect();
    items(sheet, all.iter().map(|(what, path)| (what.as_str(), *path)));
}

/// Adds which key goes to which path.
fn items<'a>(sheet: &mut Sheet, items: impl Iterator<Item = (&'a str, &'a str)>) {
    let mut items = items.peekable();
    if items.peek().is_some() {
        sheet.line("Items:");
        sheet.indented(|sheet| items.for_each(|(what, path)| sheet.line(&format!("{what} -> {path}"))));
    }
}
