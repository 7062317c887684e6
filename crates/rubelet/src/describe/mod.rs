//! Everything known about a pod, in the form of `kubectl describe pod`. Pure: from a pod, its events and the time to a
//! text.

mod container;
mod events;
mod probe;
mod sheet;
#[cfg(test)]
mod tests;
mod volume;

use jiff::Zoned;
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus, Toleration};
use rubelet_model::RuntimePod;

use crate::local::PodInfo;
use crate::summary::Summary;

pub(crate) use events::event_age;
use events::events_table;
use sheet::Sheet;

const NONE: &str = "<none>";

/// Describes a pod that an agent reports.
pub(crate) fn told(info: &PodInfo, now: &Zoned) -> String {
    let PodInfo { pod, stage, events } = info;
    let (spec, status) = (pod.spec.clone().unwrap_or_default(), pod.status.clone().unwrap_or_default());
    let mut sheet = Sheet::new(now.time_zone().clone());
    about(&mut sheet, pod, &spec, &status, stage);
    let sections = [
        ("Init Containers", spec.init_containers.as_deref(), &status.init_container_statuses),
        ("Containers", Some(spec.containers.as_slice()), &status.container_statuses),
    ];
    for (title, containers, statuses) in sections {
        let (containers, statuses) =
            (containers.unwrap_or_default(), statuses.as_deref().unwrap_or_default());
        section(&mut sheet, title, pod, containers, statuses);
    }
    conditions(&mut sheet, &status);
    volumes(&mut sheet, &spec);
    sheet.fields(&[("QoS Class", status.qos_class.unwrap_or_default())]);
    sheet.list(
        "Node-Selectors",
        spec.node_selector.iter().flatten().map(|(key, value)| format!("{key}={value}")),
    );
    let mut tolerations = spec.tolerations.clone().unwrap_or_default();
    tolerations.sort_by(|one, other| one.key.cmp(&other.key));
    sheet.list("Tolerations", tolerations.iter().map(toleration));
    if events.is_empty() {
        sheet.fields(&[("Events", NONE.to_owned())]);
    } else {
        sheet.line("Events:");
        sheet.indented(|sheet| sheet.lines(&events_table(events, now.timestamp())));
    }
    sheet.finish()
}

fn about(sheet: &mut Sheet, pod: &Pod, spec: &PodSpec, status: &PodStatus, stage: &str) {
    let metadata = &pod.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let node = [&spec.node_name, &status.host_ip].map(text);
    let node = if node[1].is_empty() { node[0].clone() } else { node.join("/") };
    let started = sheet.moment(status.start_time.as_ref());
    let shown = Summary::of(pod, status, stage).status;
    let phase = text(&status.phase);
    sheet.fields(&[
        ("Name", text(&metadata.name)),
        ("Namespace", text(&metadata.namespace)),
        ("UID", text(&metadata.uid)),
        ("Priority", spec.priority.map(|priority| priority.to_string()).unwrap_or_default()),
        ("Priority Class Name", text(&spec.priority_class_name)),
        ("Node", node),
        ("Start Time", started),
    ]);
    sheet.list("Labels", metadata.labels.iter().flatten().map(|(key, value)| format!("{key}={value}")));
    sheet.list(
        "Annotations",
        metadata.annotations.iter().flatten().map(|(key, value)| format!("{key}: {}", one_line(value))),
    );
    // The status that `ps` shows is added if it says more than the phase.
    let status_line = if shown == phase { phase } else { format!("{phase} ({shown})") };
    sheet.fields(&[
        ("Status", status_line),
        ("Reason", text(&status.reason)),
        ("Message", text(&status.message)),
        ("IP", text(&status.pod_ip)),
    ]);
    if let Some(ips) = status.pod_ips.as_ref().filter(|ips| !ips.is_empty()) {
        sheet.line("IPs:");
        sheet.indented(|sheet| ips.iter().for_each(|one| sheet.fields(&[("IP", one.ip.clone())])));
    }
}

fn section(
    sheet: &mut Sheet,
    title: &str,
    pod: &Pod,
    containers: &[Container],
    statuses: &[ContainerStatus],
) {
    if containers.is_empty() {
        return;
    }
    sheet.line(&format!("{title}:"));
    sheet.indented(|sheet| {
        for container in containers {
            let status = statuses.iter().find(|status| status.name == container.name);
            container::describe(sheet, pod, container, status);
        }
    });
}

fn conditions(sheet: &mut Sheet, status: &PodStatus) {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    if conditions.is_empty() {
        return;
    }
    sheet.line("Conditions:");
    let rows = conditions.iter().map(|condition| {
        [
            condition.type_.clone(),
            condition.status.clone(),
            sheet.moment(condition.last_transition_time.as_ref()),
            condition.reason.clone().unwrap_or_default(),
            condition.message.clone().unwrap_or_default(),
        ]
    });
    let rows: Vec<[String; 5]> = rows.collect();
    sheet.indented(|sheet| {
        sheet.lines(&sheet::table(["Type", "Status", "Since", "Reason", "Message"], &rows));
    });
}

fn volumes(sheet: &mut Sheet, spec: &PodSpec) {
    let volumes = spec.volumes.as_deref().unwrap_or_default();
    if volumes.is_empty() {
        sheet.fields(&[("Volumes", NONE.to_owned())]);
        return;
    }
    sheet.line("Volumes:");
    sheet.indented(|sheet| volumes.iter().for_each(|volume| volume::describe(sheet, volume)));
}

/// `key=value:NoExecute for 300s`, or `op=Exists` for one that tolerates everything.
fn toleration(toleration: &Toleration) -> String {
    let Toleration { key, value, effect, operator, toleration_seconds } = toleration;
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let mut taint = given(key).unwrap_or_default();
    taint.extend(given(value).map(|value| format!("={value}")));
    taint.extend(given(effect).map(|effect| format!(":{effect}")));
    let exists = operator.as_deref() == Some("Exists") && given(value).is_none();
    let words = [
        given(&Some(taint)),
        exists.then(|| "op=Exists".to_owned()),
        toleration_seconds.map(|seconds| format!("for {seconds}s")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Describes a pod that only the runtime reports.
pub(crate) fn seen(pod: &RuntimePod) -> String {
    let mut sheet = Sheet::new(TimeZone::UTC);
    sheet.fields(&[
        ("Name", pod.pod.name.to_string()),
        ("Namespace", pod.pod.namespace.to_string()),
        ("UID", pod.pod.uid.to_string()),
    ]);
    sheet.line("Sandboxes:");
    sheet.indented(|sheet| {
        for sandbox in &pod.sandboxes {
            sheet.line(&format!("{}  attempt {}, {}", sandbox.id, sandbox.attempt, sandbox.state));
        }
    });
    sheet.line("Containers:");
    sheet.indented(|sheet| {
        for container in &pod.containers {
            let (id, name) = (&container.id, &container.name);
            sheet.line(&format!("{id}  {name}, attempt {}, {}", container.attempt, container.state));
        }
    });
    sheet.finish()
}

/// Joins the lines of a text.
fn one_line(text: &str) -> String {
    text.trim_end().replace('\n', "\\n")
}
