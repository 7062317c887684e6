//! The filters of the list calls. Pure.

use std::collections::HashMap;

use rubelet_cri::v1;

/// Whether every wanted label is present with the wanted value.
fn labels_fit(wanted: &HashMap<String, String>, have: &HashMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| have.get(key) == Some(value))
}

/// Whether an id matches a wanted one, which may be shortened.
fn id_fits(wanted: &str, have: &str) -> bool {
    have.starts_with(wanted)
}

pub(crate) fn sandbox(filter: Option<&v1::PodSandboxFilter>, item: &v1::PodSandbox) -> bool {
    filter.is_none_or(|filter| {
        id_fits(&filter.id, &item.id)
            && filter.state.as_ref().is_none_or(|state| state.state == item.state)
            && labels_fit(&filter.label_selector, &item.labels)
    })
}

pub(crate) fn container(filter: Option<&v1::ContainerFilter>, item: &v1::Container) -> bool {
    filter.is_none_or(|filter| {
        id_fits(&filter.id, &item.id)
            && id_fits(&filter.pod_sandbox_id, &item.pod_sandbox_id)
            && filter.state.as_ref().is_none_or(|state| state.state == item.state)
            && labels_fit(&filter.label_selector, &item.labels)
    })
}

pub(crate) fn container_stats(
    filter: Option<&v1::ContainerStatsFilter>,
    id: &str,
    sandbox: &str,
    labels: &HashMap<String, String>,
) -> bool {
    filter.is_none_or(|filter| {
        id_fits(&filter.id, id)
            && id_fits(&filter.pod_sandbox_id, sandbox)
            && labels_fit(&filter.label_selector, labels)
    })
}

pub(crate) fn sandbox_stats(
    filter: Option<&v1::PodSandboxStatsFilter>,
    id: &str,
    labels: &HashMap<String, String>,
) -> bool {
    filter.is_none_or(|filter| id_fits(&filter.id, id) && labels_fit(&filter.label_selector, labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn container_filters_are_anded() {
        let item = v1::Container {
            id: "abc".into(),
            pod_sandbox_id: "s1".into(),
            state: v1::ContainerState::ContainerRunning as i32,
            labels: labels(&[("a", "1"), ("b", "2")]),
            ..Default::default()
        };
        let running = Some(v1::ContainerStateValue { state: v1::ContainerState::ContainerRunning as i32 });
        let exited = Some(v1::ContainerStateValue { state: v1::ContainerState::ContainerExited as i32 });
        let filter = |id: &str, pod: &str, state, selector: &[(&str, &str)]| v1::ContainerFilter {
            id: id.into(),
            pod_sandbox_id: pod.into(),
            state,
            label_selector: labels(selector),
        };
        let table = [
            (filter("", "", None, &[]), true),
            (filter("ab", "", None, &[]), true),
            (filter("b", "", None, &[]), false),
            (filter("", "s1", running, &[("a", "1")]), true),
            (filter("", "s2", running, &[]), false),
            (filter("", "", exited, &[]), false),
            (filter("", "", None, &[("a", "2")]), false),
            (filter("", "", None, &[("c", "")]), false),
        ];
        for (filter, fits) in table {
            assert_eq!(container(Some(&filter), &item), fits, "{filter:?}");
        }
        assert!(container(None, &item));
    }
}
