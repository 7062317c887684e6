//! `rubelet describe`: all that is known of a pod.

use std::fmt::Write as _;
use std::process::ExitCode;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerState, ContainerStatus};
use rubelet_model::RuntimePod;

use crate::columns::columns;
use crate::local::{LocalArgs, PodInfo};
use crate::pods::{NotChosen, PodName, Pods, pod_of};
use crate::summary::{Summary, age};

/// The arguments of `rubelet describe`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    local: LocalArgs,
    /// The pod: `name` or `namespace/name`
    #[arg(value_name = "POD")]
    pod: PodName,
}

pub(super) fn run(args: &Args) -> ExitCode {
    super::on_one_thread(async {
        match describe(args).await {
            Ok(text) => {
                super::show(&text);
                ExitCode::SUCCESS
            }
            Err(error) => super::fail(error.failure(), &error),
        }
    })
}

async fn describe(args: &Args) -> Result<String, NotChosen> {
    let local = args.local.reach().await?;
    let pods = Pods::of(&local).await?;
    let rows = pods.rows();
    let row = args.pod.find(&rows, &super::node_name())?;
    let text = match &pods {
        Pods::Told(told) => pod_of(told, row).map(told_text),
        Pods::Seen(seen) => seen.iter().find(|pod| pod.pod.uid.as_str() == row.uid).map(seen_text),
    };
    Ok(text.unwrap_or_default())
}

fn field(text: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        let _ = writeln!(text, "{:<14}{value}", format!("{name}:"));
    }
}

fn told_text(info: &PodInfo) -> String {
    let (metadata, status) = (&info.pod.metadata, info.pod.status.clone().unwrap_or_default());
    let or_nothing = |text: &Option<String>| text.clone().unwrap_or_default();
    let summary = Summary::of(&info.pod, &info.pod.status.clone().unwrap_or_default(), &info.stage);
    let mut text = String::new();
    field(&mut text, "Name", &or_nothing(&metadata.name));
    field(&mut text, "Namespace", &or_nothing(&metadata.namespace));
    field(&mut text, "UID", &or_nothing(&metadata.uid));
    field(
        &mut text,
        "Source",
        metadata
            .annotations
            .iter()
            .flatten()
            .find(|(key, _)| *key == "kubernetes.io/config.source")
            .map_or("", |(_, value)| value),
    );
    field(&mut text, "Status", &summary.status);
    field(&mut text, "Reason", &or_nothing(&status.reason));
    field(&mut text, "Message", &or_nothing(&status.message));
    field(&mut text, "IP", &or_nothing(&status.pod_ip));
    field(&mut text, "QoS", &or_nothing(&status.qos_class));
    if let Some(started) = &status.start_time {
        field(&mut text, "Started", &format!("{} ({} ago)", started.0, age(started.0)));
    }
    let spec = info.pod.spec.clone().unwrap_or_default();
    let sections = [
        ("Init containers", spec.init_containers.unwrap_or_default(), status.init_container_statuses),
        ("Containers", spec.containers, status.container_statuses),
    ];
    for (title, containers, statuses) in sections {
        if containers.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{title}:");
        for container in &containers {
            let status = statuses.iter().flatten().find(|status| status.name == container.name);
            container_text(&mut text, container, status);
        }
    }
    let conditions = status.conditions.unwrap_or_default();
    if !conditions.is_empty() {
        let _ = writeln!(text, "Conditions:");
        for condition in conditions {
            let why = condition.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
            let _ = writeln!(text, "  {:<26} {}{why}", condition.type_, condition.status);
        }
    }
    if !info.happenings.is_empty() {
        let _ = writeln!(text, "Events:");
        let rows: Vec<[String; 5]> = info
            .happenings
            .iter()
            .map(|one| {
                let at = Timestamp::from_nanosecond(i128::from(one.last_seen)).map(age).unwrap_or_default();
                let count = if one.count > 1 { format!("{at} (x{})", one.count) } else { at };
                let from = one.container.clone().unwrap_or_default();
                [one.severity.clone(), one.reason.clone(), count, from, one.message.clone()]
            })
            .collect();
        for line in columns(["TYPE", "REASON", "AGE", "CONTAINER", "MESSAGE"], &rows).lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

fn container_text(text: &mut String, container: &Container, status: Option<&ContainerStatus>) {
    let _ = writeln!(text, "  {}:", container.name);
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "    {:<14}{value}", format!("{name}:"));
        }
    };
    line("Image", container.image.as_deref().unwrap_or_default());
    let command: Vec<&str> =
        container.command.iter().chain(&container.args).flatten().map(String::as_str).collect();
    line("Command", &command.join(" ").replace('\n', " "));
    let Some(status) = status else { return };
    line("Container ID", status.container_id.as_deref().unwrap_or_default());
    line("State", &state_text(status.state.as_ref()));
    line("Last state", &state_text(status.last_state.as_ref()));
    line("Ready", if status.ready { "True" } else { "False" });
    line("Restarts", &status.restart_count.to_string());
}

fn state_text(state: Option<&ContainerState>) -> String {
    let Some(state) = state else { return String::new() };
    let with = |message: &Option<String>| {
        message.as_ref().map(|message| format!(": {}", message.trim_end())).unwrap_or_default()
    };
    if let Some(running) = &state.running {
        let since = running.started_at.as_ref().map(|time| format!(" for {}", age(time.0)));
        return format!("Running{}", since.unwrap_or_default());
    }
    if let Some(ended) = &state.terminated {
        let reason = ended.reason.as_deref().unwrap_or("Unknown");
        return format!("Terminated, {reason}, exit code {}{}", ended.exit_code, with(&ended.message));
    }
    let waiting = state.waiting.clone().unwrap_or_default();
    format!("Waiting, {}{}", waiting.reason.as_deref().unwrap_or("-"), with(&waiting.message))
}

/// What a runtime alone can tell.
fn seen_text(pod: &RuntimePod) -> String {
    let mut text = String::new();
    field(&mut text, "Name", &pod.pod.name);
    field(&mut text, "Namespace", &pod.pod.namespace);
    field(&mut text, "UID", pod.pod.uid.as_str());
    let _ = writeln!(text, "Sandboxes:");
    for sandbox in &pod.sandboxes {
        let _ = writeln!(text, "  {}  attempt {}, {}", sandbox.id, sandbox.attempt, sandbox.state);
    }
    let _ = writeln!(text, "Containers:");
    for container in &pod.containers {
        let _ = writeln!(
            text,
            "  {}  {}, attempt {}, {}",
            container.id, container.name, container.attempt, container.state
        );
    }
    text
}
