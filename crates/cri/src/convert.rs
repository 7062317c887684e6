//! Conversion from the answers of status calls to the inspected view.
//!
//! Only what identifies the *subject* of an answer is required: the status itself, and the id that was requested. The
//! kubelet requires more (metadata, creation time, image), and keeps failing on a pod that lacks it; here such a pod is
//! shown with whatever there is, since a list shows it as well. Numbers and addresses that make no sense are left out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use rubelet_model::{ContainerId, ContainerStatus, ContainerUser, SandboxId, SandboxStatus, UnixNanos};

use crate::lean::{container_state, sandbox_state};
use crate::{labels, v1};

/// The name of the field that makes an answer unusable.
pub type BadField = &'static str;

/// Converts the status of a sandbox.
///
/// # Errors
///
/// If the answer has no status, or the status of another sandbox.
pub fn sandbox_status(
    id: &SandboxId,
    answer: v1::PodSandboxStatusResponse,
) -> Result<SandboxStatus, BadField> {
    let status = answer.status.ok_or("status")?;
    if status.id != id.as_str() {
        return Err("status.id");
    }
    let namespaces = status.linux.and_then(|linux| linux.namespaces?.options);
    Ok(SandboxStatus {
        id: id.clone(),
        attempt: status.metadata.map_or(0, |metadata| metadata.attempt),
        state: sandbox_state(status.state),
        created_at: UnixNanos(status.created_at),
        ips: status.network.as_ref().map(addresses).unwrap_or_default(),
        has_network: status.network.is_some(),
        is_on_host_network: namespaces.as_ref().map(is_on_host_network),
        has_own_users: namespaces.as_ref().and_then(has_own_users),
        runtime_handler: text(status.runtime_handler),
    })
}

fn is_on_host_network(namespaces: &v1::NamespaceOption) -> bool {
    namespaces.network() == v1::NamespaceMode::Node
}

fn has_own_users(namespaces: &v1::NamespaceOption) -> Option<bool> {
    namespaces.userns_options.as_ref().map(|users| users.mode() != v1::NamespaceMode::Node)
}

/// The addresses of a sandbox, its primary address first. If one of them is not an address, none is returned: half a
/// set would be mistaken for the whole.
fn addresses(network: &v1::PodSandboxNetworkStatus) -> Vec<IpAddr> {
    let first = Some(network.ip.as_str()).filter(|address| !address.is_empty());
    let more = network.additional_ips.iter().map(|address| address.ip.as_str());
    first.into_iter().chain(more).map(str::parse).collect::<Result<_, _>>().unwrap_or_default()
}

/// Converts the status of a container of `sandbox`.
///
/// # Errors
///
/// If the answer has no status, or the status of another container.
pub fn container_status(
    id: &ContainerId,
    sandbox: &SandboxId,
    answer: v1::ContainerStatusResponse,
) -> Result<ContainerStatus, BadField> {
    let status = answer.status.ok_or("status")?;
    if status.id != id.as_str() {
        return Err("status.id");
    }
    let metadata = status.metadata.unwrap_or_default();
    let name = if metadata.name.is_empty() {
        status.labels.get(labels::CONTAINER_NAME).map_or("", String::as_str).into()
    } else {
        Arc::from(metadata.name)
    };
    Ok(ContainerStatus {
        id: id.clone(),
        name,
        sandbox: sandbox.clone(),
        attempt: metadata.attempt,
        state: container_state(status.state),
        created_at: UnixNanos(status.created_at),
        started_at: UnixNanos(status.started_at),
        finished_at: UnixNanos(status.finished_at),
        exit_code: status.exit_code,
        reason: text(status.reason),
        message: text(status.message),
        image: text(status.image.unwrap_or_default().image),
        image_ref: text(status.image_ref),
        log_path: text(status.log_path),
        hash: hash(&status.annotations),
        restart_count: restart_count(&status.annotations),
        user: status.user.and_then(|user| user.linux).map(user),
    })
}

fn user(user: v1::LinuxContainerUser) -> ContainerUser {
    let v1::LinuxContainerUser { uid, gid, supplemental_groups } = user;
    ContainerUser { uid, gid, supplemental_groups }
}

/// Converts a string. Most reasons and messages are empty, and the empty default is not allocated.
fn text(text: String) -> Arc<str> {
    if text.is_empty() { Arc::default() } else { text.into() }
}

fn hash(annotations: &HashMap<String, String>) -> Option<u64> {
    u64::from_str_radix(annotations.get(labels::CONTAINER_HASH)?, 16).ok()
}

fn restart_count(annotations: &HashMap<String, String>) -> u32 {
    annotations.get(labels::CONTAINER_RESTART_COUNT).and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rubelet_model::{ContainerState, SandboxState};

    use super::*;

    fn sandbox(change: impl FnOnce(&mut v1::PodSandboxStatus)) -> Result<SandboxStatus, BadField> {
        let mut status = v1::PodSandboxStatus {
            id: "s".to_owned(),
            metadata: Some(v1::PodSandboxMetadata { attempt: 3, ..Default::default() }),
            state: v1::PodSandboxState::SandboxReady.into(),
            created_at: 5,
            runtime_handler: "kata".to_owned(),
            ..Default::default()
        };
        change(&mut status);
        let answer = v1::PodSandboxStatusResponse { status: Some(status), ..Default::default() };
        sandbox_status(&"s".into(), answer)
    }

    fn with_addresses(first: &str, more: &[&str]) -> Vec<String> {
        let network = v1::PodSandboxNetworkStatus {
            ip: first.to_owned(),
            additional_ips: more.iter().map(|ip| v1::PodIp { ip: (*ip).to_owned() }).collect(),
        };
        let status = sandbox(|status| status.network = Some(network)).unwrap();
        status.ips.iter().map(ToString::to_string).collect()
    }

    fn container(change: impl FnOnce(&mut v1::ContainerStatus)) -> Result<ContainerStatus, BadField> {
        let mut status = v1::ContainerStatus {
            id: "c".to_owned(),
            metadata: Some(v1::ContainerMetadata { name: "web".to_owned(), attempt: 2 }),
            state: v1::ContainerState::ContainerExited.into(),
            created_at: 1,
            started_at: 2,
            finished_at: 3,
            exit_code: 137,
            image: Some(v1::ImageSpec { image: "nginx".to_owned(), ..Default::default() }),
            image_ref: "sha256:1".to_owned(),
            reason: "OOMKilled".to_owned(),
            message: "no memory".to_owned(),
            labels: HashMap::from([(labels::CONTAINER_NAME.to_owned(), "by-label".to_owned())]),
            annotations: HashMap::from([
                (labels::CONTAINER_HASH.to_owned(), "ff01".to_owned()),
                (labels::CONTAINER_RESTART_COUNT.to_owned(), "7".to_owned()),
            ]),
            log_path: "/log".to_owned(),
            user: Some(v1::ContainerUser {
                linux: Some(v1::LinuxContainerUser { uid: 1000, gid: 100, supplemental_groups: vec![7] }),
            }),
            ..Default::default()
        };
        change(&mut status);
        let answer = v1::ContainerStatusResponse { status: Some(status), ..Default::default() };
        container_status(&"c".into(), &"s".into(), answer)
    }

    #[test]
    fn a_sandbox_is_read_in_full() {
        let read = sandbox(|_| {}).unwrap();
        let wanted = SandboxStatus {
            id: "s".into(),
            attempt: 3,
            state: SandboxState::Ready,
            created_at: UnixNanos(5),
            ips: Vec::new(),
            has_network: false,
            is_on_host_network: None,
            has_own_users: None,
            runtime_handler: "kata".into(),
        };
        assert_eq!(read, wanted);
    }

    #[test]
    fn whose_network_and_users_it_has_is_read_if_it_is_told() {
        let on = |network: v1::NamespaceMode| {
            let options = v1::NamespaceOption { network: network.into(), ..Default::default() };
            let namespaces = Some(v1::Namespace { options: Some(options) });
            sandbox(|status| status.linux = Some(v1::LinuxPodSandboxStatus { namespaces })).unwrap()
        };
        assert_eq!(on(v1::NamespaceMode::Node).is_on_host_network, Some(true));
        assert_eq!(on(v1::NamespaceMode::Pod).is_on_host_network, Some(false));
        let silent = v1::LinuxPodSandboxStatus { namespaces: None };
        assert_eq!(sandbox(|status| status.linux = Some(silent)).unwrap().is_on_host_network, None);
        let users = |mode: Option<v1::NamespaceMode>| {
            let users = mode.map(|mode| v1::UserNamespace { mode: mode.into(), ..Default::default() });
            let options = v1::NamespaceOption { userns_options: users, ..Default::default() };
            let namespaces = Some(v1::Namespace { options: Some(options) });
            let told = sandbox(|status| status.linux = Some(v1::LinuxPodSandboxStatus { namespaces }));
            told.unwrap().has_own_users
        };
        assert_eq!(users(Some(v1::NamespaceMode::Node)), Some(false));
        assert_eq!(users(Some(v1::NamespaceMode::Pod)), Some(true));
        assert_eq!(users(None), None);
        let empty = Some(v1::PodSandboxNetworkStatus::default());
        assert!(sandbox(|status| status.network = empty).unwrap().has_network);
    }

    #[test]
    fn addresses_come_in_order_or_not_at_all() {
        assert_eq!(with_addresses("10.0.0.1", &["fd00::1"]), ["10.0.0.1", "fd00::1"]);
        assert_eq!(with_addresses("", &["fd00::1"]), ["fd00::1"]);
        assert_eq!(with_addresses("10.0.0.1", &["10.0.0.1/24"]), [""; 0]);
        assert_eq!(with_addresses("nonsense", &[]), [""; 0]);
    }

    #[test]
    fn a_container_is_read_in_full() {
        let read = container(|_| {}).unwrap();
        let wanted = ContainerStatus {
            id: "c".into(),
            name: "web".into(),
            sandbox: "s".into(),
            attempt: 2,
            state: ContainerState::Exited,
            created_at: UnixNanos(1),
            started_at: UnixNanos(2),
            finished_at: UnixNanos(3),
            exit_code: 137,
            reason: "OOMKilled".into(),
            message: "no memory".into(),
            image: "nginx".into(),
            image_ref: "sha256:1".into(),
            log_path: "/log".into(),
            hash: Some(0xff01),
            restart_count: 7,
            user: Some(ContainerUser { uid: 1000, gid: 100, supplemental_groups: vec![7] }),
        };
        assert_eq!(read, wanted);
    }

    #[test]
    fn only_the_status_and_its_id_are_required() {
        let nothing = container_status(&"c".into(), &"s".into(), v1::ContainerStatusResponse::default());
        assert_eq!(nothing, Err("status"));
        assert_eq!(sandbox_status(&"s".into(), v1::PodSandboxStatusResponse::default()), Err("status"));
        assert_eq!(container(|status| status.id = "other".to_owned()), Err("status.id"));
        assert_eq!(sandbox(|status| status.id = String::new()), Err("status.id"));
        let bare =
            container(|status| *status = v1::ContainerStatus { id: "c".to_owned(), ..Default::default() });
        assert_eq!(bare.unwrap().state, ContainerState::Created);
        assert!(sandbox(|status| status.metadata = None).is_ok());
    }

    #[test]
    fn what_makes_no_sense_is_left_out() {
        let read = container(|status| {
            status.metadata = None;
            status.state = 17;
            status.annotations.insert(labels::CONTAINER_HASH.to_owned(), "0x12".to_owned());
            status.annotations.insert(labels::CONTAINER_RESTART_COUNT.to_owned(), "-1".to_owned());
        })
        .unwrap();
        assert_eq!((&*read.name, read.attempt, read.state), ("by-label", 0, ContainerState::Unknown));
        assert_eq!((read.hash, read.restart_count), (None, 0));
        assert_eq!(sandbox(|status| status.state = -1).unwrap().state, SandboxState::Unknown);
    }
}
