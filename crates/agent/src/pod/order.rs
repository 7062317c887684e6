//! The order in which the containers of a pod end: sidecars outlive what they serve.

use k8s_openapi::api::core::v1::Pod;

use super::spec;

/// Returns, for each running container, which of the others must have ended before it is stopped.
///
/// Everything ends at once, except sidecars: they wait for the containers, and for the sidecars that were started after
/// them. Nothing waits for a container that does not run.
pub(crate) fn waits_for(pod: &Pod, running: &[&str]) -> Vec<Vec<usize>> {
    let place = |name: &str| {
        let init = spec::init_containers(pod).iter().position(|container| container.name == name);
        init.filter(|index| spec::is_sidecar(&spec::init_containers(pod)[*index]))
    };
    let places: Vec<Option<usize>> = running.iter().map(|name| place(name)).collect();
    let is_container = |name: &str| spec::containers(pod).iter().any(|container| container.name == name);
    places
        .iter()
        .map(|own| {
            let Some(own) = own else { return Vec::new() };
            let comes_first = |other: &usize| match places[*other] {
                Some(place) => place > *own,
                None => is_container(running[*other]),
            };
            (0..running.len()).filter(comes_first).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, PodSpec};

    use super::*;

    fn pod(init: &[(&str, bool)], containers: &[&str]) -> Pod {
        let named = |name: &str| Container { name: name.to_owned(), ..Container::default() };
        let init = init.iter().map(|(name, is_sidecar)| Container {
            restart_policy: is_sidecar.then(|| "Always".to_owned()),
            ..named(name)
        });
        let spec = PodSpec {
            init_containers: Some(init.collect()),
            containers: containers.iter().map(|name| named(name)).collect(),
            ..PodSpec::default()
        };
        Pod { spec: Some(spec), ..Pod::default() }
    }

    #[test]
    fn sidecars_end_last_and_backwards() {
        let sidecars: &[(&str, bool)] = &[("a", true), ("b", true), ("c", true)];
        type Waits<'a> = &'a [(&'a str, &'a [&'a str])];
        let table: [(&str, Pod, Waits<'_>); 5] = [
            ("no sidecar", pod(&[("init", false)], &["x", "y"]), &[("x", &[]), ("y", &[])]),
            ("one sidecar", pod(&[("a", true)], &["x", "y"]), &[("a", &["x", "y"]), ("x", &[]), ("y", &[])]),
            (
                "three sidecars",
                pod(sidecars, &["x"]),
                &[("a", &["b", "c", "x"]), ("b", &["c", "x"]), ("c", &["x"]), ("x", &[])],
            ),
            ("what does not run is not waited for", pod(sidecars, &["x"]), &[("a", &["c"]), ("c", &[])]),
            (
                "an init container delays nobody",
                pod(&[("a", true), ("i", false)], &[]),
                &[("a", &[]), ("i", &[])],
            ),
        ];
        for (what, pod, waits) in table {
            let running: Vec<&str> = waits.iter().map(|(name, _)| *name).collect();
            let got: Vec<Vec<&str>> = waits_for(&pod, &running)
                .into_iter()
                .map(|waits| waits.into_iter().map(|index| running[index]).collect())
                .collect();
            let wanted: Vec<Vec<&str>> = waits.iter().map(|(_, names)| names.to_vec()).collect();
            assert_eq!(got, wanted, "{what}");
        }
    }
}
