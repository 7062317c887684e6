//! The error message for a container that could not be created because memory ran out. The container library sees only
//! that a process is gone, or that a folder cannot be created.

use serde_json::Value;

use crate::embedded::cgroup::Cgroups;

/// What is known about a failed start.
pub(super) struct Failed<'a> {
    /// The library's error.
    pub(super) message: &'a str,
    /// Whether a process of the container was killed, but not by us.
    pub(super) was_killed: bool,
    pub(super) spec: &'a Value,
    pub(super) cgroups: &'a Cgroups,
    pub(super) group: &'a str,
}

/// Returns the message, with the memory limit that is too small, if that is the cause.
pub(super) fn explain(failed: &Failed<'_>) -> String {
    let message = failed.message;
    if failed.was_killed {
        let limit = failed.spec["linux"]["resources"]["memory"]["limit"].as_i64().filter(|limit| *limit > 0);
        let limit = match limit {
            Some(limit) => format!("memory limit of {limit} bytes"),
            None => "memory limit of its pod".to_owned(),
        };
        return format!("it was killed before it could start: is the {limit} too small? ({message})");
    }
    if failed.cgroups.lacks_memory_for(failed.group) {
        return format!("the memory limit of its pod is too small for a container ({message})");
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_limit_is_named_where_there_is_one() {
        let limited = json!({ "linux": { "resources": { "memory": { "limit": 1 << 20 } } } });
        let unlimited = json!({ "linux": { "resources": { "memory": { "limit": -1 } } } });
        let explain = |spec: &Value, was_killed| {
            explain(&Failed { message: "why", was_killed, spec, cgroups: &Cgroups::None, group: "" })
        };
        assert_eq!(
            explain(&limited, true),
            "it was killed before it could start: is the memory limit of 1048576 bytes too small? (why)"
        );
        for spec in [&unlimited, &json!({})] {
            let said = explain(spec, true);
            assert_eq!(
                said,
                "it was killed before it could start: is the memory limit of its pod too small? (why)"
            );
        }
        assert_eq!(explain(&limited, false), "why");
    }
}
