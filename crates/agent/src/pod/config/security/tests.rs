//! What a pod asks for is what the runtime gets.

use super::*;
use crate::pod::testkit;

fn image(uid: Option<i64>, username: &str) -> Resolved {
    Resolved { reference: "sha256:1".to_owned(), uid, username: username.to_owned() }
}

fn pod(of_pod: PodSecurityContext, own: SecurityContext) -> Pod {
    let mut pod = testkit::pod("Always", &[], &["c"]);
    let spec = pod.spec.as_mut().unwrap();
    spec.security_context = Some(of_pod);
    spec.containers[0].security_context = Some(own);
    pod
}

fn of(pod: &Pod, image: &Resolved) -> Result<v1::LinuxContainerSecurityContext, ConfigError> {
    let settings = SecuritySettings {
        seccomp_folder: "/data/seccomp".into(),
        hidden_paths: vec!["/sys/hot".to_owned()],
        ..SecuritySettings::default()
    };
    of_container(pod, &spec::containers(pod)[0], image, &settings, None)
}

#[test]
fn users_come_from_the_container_then_the_pod_then_the_image() {
    let user = |user| SecurityContext { run_as_user: user, ..SecurityContext::default() };
    let pod_user = |user| PodSecurityContext { run_as_user: user, ..PodSecurityContext::default() };
    let table = [
        (Some(5), Some(7), image(Some(9), ""), Some(7), ""),
        (Some(5), None, image(Some(9), ""), Some(5), ""),
        (None, None, image(Some(9), ""), Some(9), ""),
        (None, None, image(None, "web"), None, "web"),
        (None, None, image(None, ""), Some(0), ""),
    ];
    for (of_pod, own, image, uid, username) in table {
        let pod = pod(pod_user(of_pod), user(own));
        let got = of(&pod, &image).unwrap();
        let got = (got.run_as_user.map(|user| user.value), got.run_as_username);
        assert_eq!(got, (uid, username.to_owned()), "{of_pod:?} {own:?} {image:?}");
    }
}

#[test]
fn whoever_may_not_be_root_is_not() {
    let non_root = || PodSecurityContext { run_as_non_root: Some(true), ..PodSecurityContext::default() };
    let user = |user| SecurityContext { run_as_user: user, ..SecurityContext::default() };
    let table = [
        (Some(0), image(Some(9), ""), false),
        (Some(7), image(Some(0), ""), true),
        (None, image(Some(0), ""), false),
        (None, image(None, ""), false),
        (None, image(None, "web"), false),
        (None, image(Some(9), ""), true),
    ];
    for (own, image, is_fine) in table {
        let pod = pod(non_root(), user(own));
        let got = of(&pod, &image);
        assert_eq!(got.is_ok(), is_fine, "{own:?} {image:?} {got:?}");
    }
}

#[test]
fn proc_is_masked_unless_asked_otherwise() {
    let own = |own: SecurityContext| {
        let pod = pod(PodSecurityContext::default(), own);
        of(&pod, &image(None, "")).unwrap()
    };
    let usual = own(SecurityContext::default()).masked_paths;
    assert_eq!((usual.len(), usual.last().map(String::as_str)), (MASKED.len() + 1, Some("/sys/hot")));
    let unmasked = SecurityContext { proc_mount: Some("Unmasked".to_owned()), ..SecurityContext::default() };
    assert!(own(unmasked).masked_paths.is_empty());
    let privileged = SecurityContext { privileged: Some(true), ..SecurityContext::default() };
    assert!(own(privileged).readonly_paths.is_empty());
}

#[test]
fn namespaces_are_those_that_the_pod_asks_for() {
    let mut pod = testkit::pod("Always", &[], &["c"]);
    let options = namespaces(&pod, None);
    assert_eq!(options.network(), v1::NamespaceMode::Node);
    assert_eq!((options.ipc(), options.pid()), (v1::NamespaceMode::Pod, v1::NamespaceMode::Container));
    let spec = pod.spec.as_mut().unwrap();
    spec.host_network = None;
    spec.share_process_namespace = Some(true);
    spec.host_ipc = Some(true);
    let options = namespaces(&pod, None);
    assert_eq!(options.network(), v1::NamespaceMode::Pod);
    assert_eq!((options.ipc(), options.pid()), (v1::NamespaceMode::Node, v1::NamespaceMode::Pod));
}

#[test]
fn users_are_those_of_the_host_unless_the_pod_has_ids() {
    let pod = pod(PodSecurityContext::default(), SecurityContext::default());
    let of_host = v1::UserNamespace { mode: v1::NamespaceMode::Node.into(), ..Default::default() };
    let ids = v1::IdMapping { host_id: 131_072, container_id: 0, length: 65_536 };
    let own = v1::UserNamespace { mode: v1::NamespaceMode::Pod.into(), uids: vec![ids], gids: vec![ids] };
    let range = IdRange { first: 131_072, length: 65_536 };
    for (users, wanted) in [(None, of_host), (Some(range), own)] {
        let settings = SecuritySettings::default();
        let container = of_container(&pod, &spec::containers(&pod)[0], &image(None, ""), &settings, users);
        let options = [of_sandbox(&pod, users).namespace_options, container.unwrap().namespace_options];
        for options in options {
            assert_eq!(options.unwrap().userns_options, Some(wanted.clone()), "{users:?}");
        }
    }
}

#[test]
fn filters_of_system_calls_come_from_the_container_then_the_pod_then_the_node() {
    use v1::security_profile::ProfileType::{Localhost, RuntimeDefault, Unconfined};
    let filter = |kind: &str| {
        let localhost_profile = (kind == "Localhost").then(|| "audit.json".to_owned());
        Some(SeccompProfile { type_: kind.to_owned(), localhost_profile })
    };
    let table = [
        (None, None, false, Unconfined, ""),
        (None, None, true, RuntimeDefault, ""),
        (filter("RuntimeDefault"), None, false, RuntimeDefault, ""),
        (filter("RuntimeDefault"), filter("Unconfined"), true, Unconfined, ""),
        (filter("Unconfined"), filter("Localhost"), false, Localhost, "/data/seccomp/audit.json"),
    ];
    for (of_pod, own, seccomp_default, kind, path) in table {
        let settings = SecuritySettings {
            seccomp_folder: "/data/seccomp".into(),
            seccomp_default,
            ..SecuritySettings::default()
        };
        let own = SecurityContext { seccomp_profile: own, ..SecurityContext::default() };
        let of_pod = PodSecurityContext { seccomp_profile: of_pod, ..PodSecurityContext::default() };
        let got = seccomp(Some(&own), Some(&of_pod), &settings);
        assert_eq!((got.profile_type(), got.localhost_ref.as_str()), (kind, path), "{own:?} {of_pod:?}");
    }
}

#[test]
fn app_armor_is_told_in_both_ways() {
    use v1::security_profile::ProfileType::{Localhost, RuntimeDefault, Unconfined};
    let armor = |kind: &str| {
        let localhost_profile = (kind == "Localhost").then(|| "web".to_owned());
        Some(AppArmorProfile { type_: kind.to_owned(), localhost_profile })
    };
    let table = [
        (None, None, None, ""),
        (armor("RuntimeDefault"), None, Some((RuntimeDefault, "")), "runtime/default"),
        (armor("RuntimeDefault"), armor("Unconfined"), Some((Unconfined, "")), "unconfined"),
        (None, armor("Localhost"), Some((Localhost, "web")), "localhost/web"),
    ];
    for (of_pod, own, wanted, deprecated) in table {
        let pod = pod(
            PodSecurityContext { app_armor_profile: of_pod, ..PodSecurityContext::default() },
            SecurityContext { app_armor_profile: own, ..SecurityContext::default() },
        );
        let got = of(&pod, &image(None, "")).unwrap();
        let profile =
            got.apparmor.as_ref().map(|profile| (profile.profile_type(), profile.localhost_ref.as_str()));
        assert_eq!((profile, got.apparmor_profile.as_str()), (wanted, deprecated));
    }
}

#[test]
fn an_annotation_has_app_armor_of_its_container() {
    let armor = |kind: &str| Some(AppArmorProfile { type_: kind.to_owned(), ..AppArmorProfile::default() });
    // of the pod, annotated, the container's own
    let table = [
        (None, "c", "localhost/web", None, "localhost/web"),
        (armor("Unconfined"), "c", "runtime/default", None, "runtime/default"),
        (None, "c", "runtime/default", armor("Unconfined"), "unconfined"),
        (armor("Unconfined"), "other", "runtime/default", None, "unconfined"),
        (None, "c", "", None, ""),
    ];
    for (of_pod, name, value, own, wanted) in table {
        let mut pod = pod(
            PodSecurityContext { app_armor_profile: of_pod, ..PodSecurityContext::default() },
            SecurityContext { app_armor_profile: own, ..SecurityContext::default() },
        );
        let key = format!("{}{name}", crate::pod::app_armor::ANNOTATION);
        pod.metadata.annotations = Some([(key, value.to_owned())].into());
        assert_eq!(of(&pod, &image(None, "")).unwrap().apparmor_profile, wanted, "{name}: {value}");
    }
}

#[test]
fn groups_privileges_and_labels_are_passed_on() {
    let context = PodSecurityContext {
        fs_group: Some(7),
        supplemental_groups: Some(vec![8, 9]),
        supplemental_groups_policy: Some("Strict".to_owned()),
        run_as_group: Some(5),
        se_linux_options: Some(SELinuxOptions {
            level: Some("s0:c1".to_owned()),
            ..SELinuxOptions::default()
        }),
        ..PodSecurityContext::default()
    };
    let own = SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            add: Some(vec!["NET_ADMIN".to_owned()]),
            drop: Some(vec!["ALL".to_owned()]),
        }),
        ..SecurityContext::default()
    };
    let pod = pod(context, own);
    let got = of(&pod, &image(None, "")).unwrap();
    assert_eq!(got.supplemental_groups, [7, 8, 9]);
    assert_eq!(got.supplemental_groups_policy(), v1::SupplementalGroupsPolicy::Strict);
    assert_eq!(got.run_as_group.map(|group| group.value), Some(5));
    assert_eq!(got.selinux_options.unwrap().level, "s0:c1");
    assert!(got.no_new_privs && got.readonly_rootfs);
    let capabilities = got.capabilities.unwrap();
    assert_eq!(
        (capabilities.add_capabilities, capabilities.drop_capabilities),
        (vec!["NET_ADMIN".to_owned()], vec!["ALL".to_owned()])
    );
    let sandbox = of_sandbox(&pod, None);
    assert_eq!(sandbox.supplemental_groups_policy(), v1::SupplementalGroupsPolicy::Strict);
    assert_eq!(sandbox.run_as_group, None, "a group alone is none");
}
