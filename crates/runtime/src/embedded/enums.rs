//! Enum values that the protocol does not define: rejected by name, before the generated getters default them.

use rubelet_cri::v1;

use super::error::{Error, Result};

fn known<E: TryFrom<i32>>(field: &str, value: i32) -> Result<()> {
    match E::try_from(value) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::unsupported(field, format!("{value} is not a value in this version of CRI"))),
    }
}

fn options(field: &str, options: Option<&v1::NamespaceOption>) -> Result<()> {
    let Some(options) = options else { return Ok(()) };
    for (name, value) in [("network", options.network), ("pid", options.pid), ("ipc", options.ipc)] {
        known::<v1::NamespaceMode>(&format!("{field}.{name}"), value)?;
    }
    if let Some(user) = &options.userns_options {
        known::<v1::NamespaceMode>(&format!("{field}.userns_options.mode"), user.mode)?;
    }
    Ok(())
}

/// Checks every enum of a sandbox's config.
pub(crate) fn check_sandbox(config: &v1::PodSandboxConfig) -> Result<()> {
    for (index, mapping) in config.port_mappings.iter().enumerate() {
        known::<v1::Protocol>(&format!("config.port_mappings[{index}].protocol"), mapping.protocol)?;
    }
    let context = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    context.map_or(Ok(()), |context| {
        const FIELD: &str = "config.linux.security_context";
        known::<v1::SupplementalGroupsPolicy>(
            &format!("{FIELD}.supplemental_groups_policy"),
            context.supplemental_groups_policy,
        )?;
        options(&format!("{FIELD}.namespace_options"), context.namespace_options.as_ref())
    })
}

/// Checks every enum of a container's config.
pub(crate) fn check_container(config: &v1::ContainerConfig) -> Result<()> {
    known::<v1::Signal>("stop_signal", config.stop_signal)?;
    for (index, mount) in config.mounts.iter().enumerate() {
        known::<v1::MountPropagation>(&format!("mounts[{index}].propagation"), mount.propagation)?;
    }
    let context = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    context.map_or(Ok(()), |context| {
        const FIELD: &str = "linux.security_context";
        known::<v1::SupplementalGroupsPolicy>(
            &format!("{FIELD}.supplemental_groups_policy"),
            context.supplemental_groups_policy,
        )?;
        for (name, profile) in [("seccomp", &context.seccomp), ("apparmor", &context.apparmor)] {
            if let Some(profile) = profile {
                let field = format!("{FIELD}.{name}.profile_type");
                known::<v1::security_profile::ProfileType>(&field, profile.profile_type)?;
            }
        }
        options(&format!("{FIELD}.namespace_options"), context.namespace_options.as_ref())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_from_the_future_is_refused_by_name() {
        let context = |change: fn(&mut v1::LinuxContainerSecurityContext)| {
            let mut config = v1::ContainerConfig::default();
            change(config.linux.get_or_insert_default().security_context.get_or_insert_default());
            config
        };
        let profile = || Some(v1::SecurityProfile { profile_type: 9, ..Default::default() });
        let table = [
            (v1::ContainerConfig { stop_signal: 99, ..Default::default() }, "stop_signal: "),
            (
                v1::ContainerConfig {
                    mounts: vec![v1::Mount { propagation: 9, ..Default::default() }],
                    ..Default::default()
                },
                "mounts[0].propagation: ",
            ),
            (
                context(|context| context.supplemental_groups_policy = 9),
                "linux.security_context.supplemental_groups_policy: ",
            ),
            (
                context(|context| context.namespace_options.get_or_insert_default().pid = 9),
                "linux.security_context.namespace_options.pid: ",
            ),
        ];
        for (config, field) in table {
            let refusal = check_container(&config).expect_err(field).to_string();
            assert!(refusal.starts_with(field), "{refusal}");
        }
        let mut config = context(|_| {});
        let security = config.linux.get_or_insert_default().security_context.get_or_insert_default();
        security.seccomp = profile();
        assert!(check_container(&config).is_err());
        assert!(check_container(&v1::ContainerConfig::default()).is_ok());

        let mut pod = v1::PodSandboxConfig::default();
        assert!(check_sandbox(&pod).is_ok());
        pod.port_mappings.push(v1::PortMapping { protocol: 9, ..Default::default() });
        let refusal = check_sandbox(&pod).expect_err("refused").to_string();
        assert!(refusal.starts_with("config.port_mappings[0].protocol: "), "{refusal}");
    }
}
