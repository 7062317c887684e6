//! Whether pods get control groups of their own, and who creates them.

use rubelet_agent::cgroup::{CgroupSettings, Driver, PodGroups};
use rubelet_cri::{RuntimeClient, v1};

use super::{GroupConfig, Remarks};

/// Opens the control groups of pods, if they are available. If not, that is reported once, and pods run where the
/// runtime puts them.
pub(super) async fn open(
    config: &GroupConfig,
    client: &RuntimeClient,
    remarks: &Remarks,
) -> Option<(PodGroups, CgroupSettings)> {
    let opened = try_open(config, client, remarks).await;
    let driver = opened.as_ref().map(|(_, settings)| settings.driver);
    if let Some(why) = why_processes_are_not_limited(driver).filter(|_| config.pids_limit.is_some()) {
        remarks.print(&format!("podPidsLimit has no effect: {why}"));
    }
    opened
}

/// Returns why `podPidsLimit` has no effect: only groups that are created here have a process limit.
fn why_processes_are_not_limited(driver: Option<Driver>) -> Option<&'static str> {
    match driver {
        Some(Driver::Cgroupfs) => None,
        Some(Driver::Systemd) => Some("the runtime leaves control groups to systemd"),
        None => Some("pods get no control groups of their own"),
    }
}

async fn try_open(
    config: &GroupConfig,
    client: &RuntimeClient,
    remarks: &Remarks,
) -> Option<(PodGroups, CgroupSettings)> {
    if !config.are_made {
        return None;
    }
    let driver = match told(client).await {
        Some(driver) => driver,
        None => config.driver.unwrap_or_default(),
    };
    let usual = CgroupSettings::default();
    let settings = CgroupSettings {
        driver,
        root: config.root.clone().unwrap_or(usual.root),
        pids_limit: config.pids_limit,
    };
    match PodGroups::open(&settings) {
        Ok(groups) => Some((groups, settings)),
        Err(error) => {
            remarks.print(&format!(
                "pods get no control groups of their own, so a pod with pod-level limits cannot start: {error}"
            ));
            None
        }
    }
}

/// Asks the runtime who creates control groups. A runtime too old for that question may show its configuration instead.
async fn told(client: &RuntimeClient) -> Option<Driver> {
    if let Ok(answer) = client.runtime_config().await {
        return match answer.linux?.cgroup_driver() {
            v1::CgroupDriver::Systemd => Some(Driver::Systemd),
            v1::CgroupDriver::Cgroupfs => Some(Driver::Cgroupfs),
        };
    }
    let info = client.status(true).await.ok()?.info;
    of_containerd(info.get("config")?)
}

/// Reads the driver from the configuration of a containerd before 2.0.
fn of_containerd(config: &str) -> Option<Driver> {
    let config: serde_json::Value = serde_json::from_str(config).ok()?;
    let containerd = config.get("containerd")?;
    let name = containerd.get("defaultRuntimeName")?.as_str()?;
    let options = containerd.get("runtimes")?.get(name)?.get("options")?;
    let is_systemd = options.get("SystemdCgroup").and_then(serde_json::Value::as_bool).unwrap_or(false);
    Some(if is_systemd { Driver::Systemd } else { Driver::Cgroupfs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_that_are_made_here_limit_processes() {
        assert_eq!(why_processes_are_not_limited(Some(Driver::Cgroupfs)), None);
        for driver in [Some(Driver::Systemd), None] {
            assert!(why_processes_are_not_limited(driver).is_some(), "{driver:?}");
        }
    }

    #[test]
    fn an_older_containerd_shows_who_makes_groups() {
        let config = |options: &str| {
            format!(
                r#"{{"containerd":{{"defaultRuntimeName":"runc","runtimes":{{"runc":{{"options":{options}}}}}}}}}"#
            )
        };
        assert_eq!(of_containerd(&config(r#"{"SystemdCgroup":true}"#)), Some(Driver::Systemd));
        assert_eq!(of_containerd(&config("{}")), Some(Driver::Cgroupfs));
        assert_eq!(of_containerd("{}"), None);
        assert_eq!(of_containerd("nonsense"), None);
    }
}
