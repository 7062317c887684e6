//! One volume of a description.

use k8s_openapi::api::core::v1::{Volume, VolumeProjection};

use super::sheet::Sheet;

pub(super) fn describe(sheet: &mut Sheet, volume: &Volume) {
    sheet.line(&format!("{}:", volume.name));
    sheet.indented(|sheet| {
        for (name, value) in fields(volume) {
            sheet.fields(&[(name, value)]);
        }
    });
}

fn fields(volume: &Volume) -> Vec<(&'static str, String)> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let optional = |optional: Option<bool>| ("Optional", optional.unwrap_or(false).to_string());
    if let Some(empty) = &volume.empty_dir {
        let kind = "EmptyDir (a temporary directory that shares a pod's lifetime)";
        let limit = empty.size_limit.as_ref().map_or_else(|| "<unset>".to_owned(), |limit| limit.0.clone());
        vec![("Type", kind.to_owned()), ("Medium", text(&empty.medium)), ("SizeLimit", limit)]
    } else if let Some(host) = &volume.host_path {
        vec![
            ("Type", "HostPath (bare host directory volume)".to_owned()),
            ("Path", host.path.clone()),
            ("HostPathType", text(&host.type_)),
        ]
    } else if let Some(map) = &volume.config_map {
        let kind = "ConfigMap (a volume populated by a ConfigMap)".to_owned();
        vec![("Type", kind), ("Name", map.name.clone()), optional(map.optional)]
    } else if let Some(secret) = &volume.secret {
        let kind = "Secret (a volume populated by a Secret)".to_owned();
        vec![("Type", kind), ("SecretName", text(&secret.secret_name)), optional(secret.optional)]
    } else if volume.downward_api.is_some() {
        vec![("Type", "DownwardAPI (a volume populated by information about the pod)".to_owned())]
    } else if let Some(projected) = &volume.projected {
        let kind = "Projected (a volume that contains injected data from multiple sources)".to_owned();
        let sources = projected.sources.iter().flatten().map(source).collect::<Vec<_>>().join(", ");
        vec![("Type", kind), ("Sources", sources)]
    } else {
        vec![("Type", "<unknown>".to_owned())]
    }
}

fn source(source: &VolumeProjection) -> String {
    if let Some(map) = &source.config_map {
        format!("ConfigMap {}", map.name)
    } else if let Some(secret) = &source.secret {
        format!("Secret {}", secret.name)
    } else if source.downward_api.is_some() {
        "DownwardAPI".to_owned()
    } else {
        "<unknown>".to_owned()
    }
}
