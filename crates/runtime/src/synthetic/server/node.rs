//! Calls about the runtime itself.

use rubelet_cri::v1;
use tonic::Status;

use super::answer::Answer;
use super::dispatch::unimplemented;
use super::shared::Shared;
use crate::synthetic::op::Op;

pub(super) fn version(shared: &Shared) -> Result<Answer, Status> {
    shared.look(|world| {
        let quirks = world.quirks();
        Ok(Answer::of(&v1::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: quirks.runtime_name.to_owned(),
            runtime_version: quirks.runtime_version.to_owned(),
            runtime_api_version: "v1".to_owned(),
        }))
    })
}

pub(super) fn status(shared: &Shared) -> Result<Answer, Status> {
    let conditions = shared.look(|world| world.conditions().clone());
    let condition = |kind: &str, reason: &str, trouble: Option<String>| v1::RuntimeCondition {
        r#type: format!("{kind}Ready"),
        status: trouble.is_none(),
        reason: if trouble.is_some() { reason.to_owned() } else { String::new() },
        message: trouble.unwrap_or_default(),
    };
    let [runtime, network] = conditions;
    let conditions = vec![
        condition("Runtime", "RuntimeNotReady", runtime),
        condition("Network", "NetworkPluginNotReady", network),
    ];
    Ok(Answer::of(&v1::StatusResponse {
        status: Some(v1::RuntimeStatus { conditions }),
        ..Default::default()
    }))
}

pub(super) fn config(shared: &Shared) -> Result<Answer, Status> {
    let (has, systemd) =
        shared.look(|world| (world.quirks().has_runtime_config, world.quirks().systemd_cgroups));
    if !has {
        return Err(unimplemented(Op::RuntimeConfig));
    }
    let driver = if systemd { v1::CgroupDriver::Systemd } else { v1::CgroupDriver::Cgroupfs };
    Ok(Answer::of(&v1::RuntimeConfigResponse {
        linux: Some(v1::LinuxRuntimeConfiguration { cgroup_driver: driver.into() }),
    }))
}

/// The pod network does not exist here; runtimes with CNI accept the call and do nothing either.
pub(super) fn update_config() -> Result<Answer, Status> {
    Ok(Answer::of(&v1::UpdateRuntimeConfigResponse {}))
}
