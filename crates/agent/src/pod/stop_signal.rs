//! The signals that a manifest can name to stop a container.

use k8s_openapi::api::core::v1::Container;
use rubelet_cri::v1;

/// Reads a signal by its API name: `SIGTERM`, `SIGRTMIN+3`.
pub(crate) fn read(name: &str) -> Option<v1::Signal> {
    // The names in the protocol are the same, except for signs.
    let is_plain = name.starts_with("SIG") && !name.contains("PLUS") && !name.contains("MINUS");
    let name = name.replace('+', "PLUS").replace('-', "MINUS");
    v1::Signal::from_str_name(&name).filter(|_| is_plain)
}

/// Returns the signal that stops a container; that of its image, if its manifest names none.
pub(crate) fn of(container: &Container) -> v1::Signal {
    let named = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.as_deref());
    named.and_then(read).unwrap_or(v1::Signal::RuntimeDefault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_apis() {
        let table = [
            ("SIGTERM", Some(v1::Signal::Sigterm)),
            ("SIGUSR1", Some(v1::Signal::Sigusr1)),
            ("SIGRTMIN", Some(v1::Signal::Sigrtmin)),
            ("SIGRTMIN+3", Some(v1::Signal::Sigrtminplus3)),
            ("SIGRTMAX-1", Some(v1::Signal::Sigrtmaxminus1)),
            ("SIGRTMIN+16", None),
            ("SIGRTMINPLUS3", None),
            ("TERM", None),
            ("sigterm", None),
            ("15", None),
            ("RUNTIME_DEFAULT", None),
            ("", None),
        ];
        for (name, wanted) in table {
            assert_eq!(read(name), wanted, "{name}");
        }
    }
}
