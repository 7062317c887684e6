//! One container of a description.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStatus, EnvVar, EnvVarSource, Pod, ResourceFieldSelector, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rubelet_agent::downward::{NodeFacts, PodFacts};
use rubelet_agent::manifest::Objects;

use super::sheet::Sheet;
use super::{NONE, probe};

pub(super) fn describe(
    sheet: &mut Sheet,
    pod: &Pod,
    container: &Container,
    status: Option<&ContainerStatus>,
) {
    sheet.line(&format!("{}:", container.name));
    sheet.indented(|sheet| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        if let Some(status) = status {
            sheet.fields(&[("Container ID", text(&status.container_id))]);
        }
        sheet.fields(&[
            ("Image", text(&container.image)),
            ("Image ID", status.map(|status| status.image_id.clone()).unwrap_or_default()),
            ("Port", ports(container, |port| Some(port.container_port))),
            ("Host Port", ports(container, |port| port.host_port)),
            ("Restart Policy", text(&container.restart_policy)),
        ]);
        for (name, words) in [("Command", &container.command), ("Args", &container.args)] {
            if let Some(words) = words {
                sheet.line(&format!("{name}:"));
                let lines = words.iter().flat_map(|word| word.trim_end_matches('\n').split('\n'));
                sheet.indented(|sheet| lines.for_each(|line| sheet.line(line)));
            }
        }
        if let Some(status) = status {
            state(sheet, "State", status.state.as_ref());
            if status.last_state.as_ref().is_some_and(|state| state.terminated.is_some()) {
                state(sheet, "Last State", status.last_state.as_ref());
            }
            let ready = if status.ready { "True" } else { "False" };
            sheet.fields(&[("Ready", ready.to_owned()), ("Restart Count", status.restart_count.to_string())]);
        }
        let resources = container.resources.clone().unwrap_or_default();
        quantities(sheet, "Limits", resources.limits.as_ref());
        quantities(sheet, "Requests", resources.requests.as_ref());
        let probes = [
            ("Liveness", &container.liveness_probe),
            ("Readiness", &container.readiness_probe),
            ("Startup", &container.startup_probe),
        ];
        for (name, probe) in probes {
            sheet.fields(&[(name, probe.as_ref().map(probe::words).unwrap_or_default())]);
        }
        environment(sheet, pod, container);
        mounts(sheet, container.volume_mounts.as_deref().unwrap_or_default());
    });
}

fn ports(
    container: &Container,
    number: impl Fn(&k8s_openapi::api::core::v1::ContainerPort) -> Option<i32>,
) -> String {
    let ports = container.ports.iter().flatten().filter_map(|port| {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        Some(format!("{}/{protocol}", number(port).filter(|number| *number != 0)?))
    });
    ports.collect::<Vec<_>>().join(", ")
}

fn state(sheet: &mut Sheet, name: &str, state: Option<&ContainerState>) {
    let state = state.cloned().unwrap_or_default();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    if let Some(running) = &state.running {
        sheet.fields(&[(name, "Running".to_owned())]);
        let started = sheet.moment(running.started_at.as_ref());
        sheet.indented(|sheet| sheet.fields(&[("Started", started)]));
    } else if let Some(ended) = &state.terminated {
        sheet.fields(&[(name, "Terminated".to_owned())]);
        sheet.indented(|sheet| {
            sheet.fields(&[
                ("Reason", text(&ended.reason)),
                ("Message", text(&ended.message)),
                ("Exit Code", ended.exit_code.to_string()),
                ("Signal", ended.signal.map(|signal| signal.to_string()).unwrap_or_default()),
                ("Started", sheet.moment(ended.started_at.as_ref())),
                ("Finished", sheet.moment(ended.finished_at.as_ref())),
            ]);
        });
    } else {
        let waiting = state.waiting.unwrap_or_default();
        sheet.fields(&[(name, "Waiting".to_owned())]);
        sheet.indented(|sheet| {
            sheet.fields(&[("Reason", text(&waiting.reason)), ("Message", text(&waiting.message))]);
        });
    }
}

fn quantities(sheet: &mut Sheet, name: &str, quantities: Option<&BTreeMap<String, Quantity>>) {
    let Some(quantities) = quantities.filter(|quantities| !quantities.is_empty()) else { return };
    sheet.line(&format!("{name}:"));
    sheet.indented(|sheet| {
        quantities.iter().for_each(|(name, quantity)| sheet.fields(&[(name, quantity.0.clone())]));
    });
}

fn environment(sheet: &mut Sheet, pod: &Pod, container: &Container) {
    let sources = container.env_from.iter().flatten().map(|source| {
        let (kind, name, optional) = match (&source.config_map_ref, &source.secret_ref) {
            (Some(map), _) => ("ConfigMap", map.name.clone(), map.optional),
            (None, Some(secret)) => ("Secret", secret.name.clone(), secret.optional),
            (None, None) => ("unknown", String::new(), None),
        };
        let prefix = source.prefix.as_ref().filter(|prefix| !prefix.is_empty());
        let prefix = prefix.map(|prefix| format!(" with prefix '{prefix}'")).unwrap_or_default();
        (name, format!("{kind}{prefix}  Optional: {}", optional.unwrap_or(false)))
    });
    let sources: Vec<(String, String)> = sources.collect();
    if !sources.is_empty() {
        sheet.line("Environment Variables from:");
        sheet.indented(|sheet| {
            sources.into_iter().for_each(|(name, what)| sheet.fields(&[(name.as_str(), what)]));
        });
    }
    let variables = container.env.as_deref().unwrap_or_default();
    if variables.is_empty() {
        sheet.fields(&[("Environment", NONE.to_owned())]);
        return;
    }
    sheet.line("Environment:");
    sheet.indented(|sheet| {
        for variable in variables {
            // A variable with an empty value is listed as well.
            sheet.list(&variable.name, value(pod, container, variable).split('\n').map(ToOwned::to_owned));
        }
    });
}

/// Returns the value, or where it comes from. Secret values are not shown.
fn value(pod: &Pod, container: &Container, variable: &EnvVar) -> String {
    let Some(source) = &variable.value_from else {
        return variable.value.clone().unwrap_or_default();
    };
    match source {
        EnvVarSource { field_ref: Some(field), .. } => {
            format!("({}:{})", field.api_version.as_deref().unwrap_or("v1"), field.field_path)
        }
        EnvVarSource { resource_field_ref: Some(field), .. } => {
            format!("{} ({})", amount(pod, container, field), field.resource)
        }
        EnvVarSource { secret_key_ref: Some(key), .. } => format!(
            "<set to the key '{}' in secret '{}'>  Optional: {}",
            key.key,
            key.name,
            key.optional.unwrap_or(false)
        ),
        EnvVarSource { config_map_key_ref: Some(key), .. } => format!(
            "<set to the key '{}' of config map '{}'>  Optional: {}",
            key.key,
            key.name,
            key.optional.unwrap_or(false)
        ),
        _ => "<set from elsewhere>".to_owned(),
    }
}

/// Returns a container's limit or request, as its environment shows it. Without a limit that is the capacity of the
/// node, which only the agent knows.
fn amount(pod: &Pod, container: &Container, field: &ResourceFieldSelector) -> String {
    let (node, objects) = (NodeFacts::default(), Objects::default());
    let facts = PodFacts { pod, objects: &objects, node: &node, pod_ips: &[] };
    let is_of_node = matches!(field.resource.as_str(), "limits.cpu" | "limits.memory");
    match facts.resource(field, Some(container)) {
        Ok(amount) if amount == "0" && is_of_node => "node allocatable".to_owned(),
        Ok(amount) => amount,
        Err(error) => error.to_string(),
    }
}

fn mounts(sheet: &mut Sheet, mounts: &[VolumeMount]) {
    if mounts.is_empty() {
        sheet.fields(&[("Mounts", NONE.to_owned())]);
        return;
    }
    sheet.line("Mounts:");
    sheet.indented(|sheet| {
        for mount in mounts {
            let mut how = vec![if mount.read_only == Some(true) { "ro" } else { "rw" }.to_owned()];
            how.extend(
                mount.sub_path.iter().chain(&mount.sub_path_expr).map(|path| format!("path={path:?}")),
            );
            sheet.line(&format!("{} from {} ({})", mount.mount_path, mount.name, how.join(",")));
        }
    });
}
