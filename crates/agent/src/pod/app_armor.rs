//! The `AppArmor` profile of a container.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, Pod};

/// The annotation of a container's profile, up to the name of the container: older manifests have it instead of the
/// field.
pub(crate) const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Returns the container's own profile, else that of its annotation, else the pod's.
pub(crate) fn effective_app_armor<'a>(
    pod: &'a Pod,
    container: &'a Container,
) -> Option<Cow<'a, AppArmorProfile>> {
    let own = container.security_context.as_ref().and_then(|own| own.app_armor_profile.as_ref());
    let annotated = || {
        let key = format!("{ANNOTATION}{}", container.name);
        read(pod.metadata.annotations.as_ref()?.get(&key)?).ok().flatten()
    };
    let of_pod = || pod.spec.as_ref()?.security_context.as_ref()?.app_armor_profile.as_ref();
    own.map(Cow::Borrowed).or_else(|| annotated().map(Cow::Owned)).or_else(|| of_pod().map(Cow::Borrowed))
}

/// Reads the value of the annotation; an empty one counts as none.
pub(crate) fn read(value: &str) -> Result<Option<AppArmorProfile>, &'static str> {
    let profile = |kind: &str, name: Option<&str>| AppArmorProfile {
        type_: kind.to_owned(),
        localhost_profile: name.map(str::to_owned),
    };
    match (value, value.strip_prefix("localhost/").filter(|name| !name.is_empty())) {
        ("", _) => Ok(None),
        ("runtime/default", _) => Ok(Some(profile("RuntimeDefault", None))),
        ("unconfined", _) => Ok(Some(profile("Unconfined", None))),
        (_, name @ Some(_)) => Ok(Some(profile("Localhost", name))),
        _ => Err("invalid AppArmor profile name: must be runtime/default, unconfined or localhost/<profile>"),
    }
}
