//! Texts that nobody writes by mistake. Each is either used, or refused in a few short lines.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::source::SourceKind;

fn origin() -> Origin {
    Origin {
        source: SourceKind::File,
        place: "web.yaml".to_owned(),
        node_name: "Node".to_owned(),
        seen: jiff::Timestamp::default(),
    }
}

/// Returns what is reported for a text that is not used: never much, and nothing that could manipulate a terminal.
fn told(text: impl AsRef<[u8]>) -> Vec<String> {
    let problems = load(text.as_ref(), &origin()).expect_err("it is not used");
    let told: Vec<String> = problems.iter().map(Problem::to_string).collect();
    assert!(told.len() <= 2 * (bounded::MOST + 1), "{} problems", told.len());
    for problem in &told {
        assert!(problem.len() < 1500, "{} bytes", problem.len());
        assert!(!problem.chars().any(char::is_control), "{problem:?}");
    }
    told
}

fn pod(meta: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: x{meta}}}\nspec:\n  containers: [{{name: c, image: x}}]\n{spec}"
    )
}

fn many(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

#[test]
fn too_much_of_anything_is_refused_with_its_place_and_its_limit() {
    let long = |count: usize| "y".repeat(count);
    let containers = |count: usize| {
        let list = many(count, |n| format!("  - {{name: c{n}, image: x}}\n"));
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\nspec:\n  containers:\n{list}")
    };
    let volumes = many(9000, |n| format!("  - {{name: v{n}}}\n"));
    // Unless containers are indexed first, all of them would be scanned for each of these.
    let profiles =
        many(4900, |n| format!("    container.apparmor.security.beta.kubernetes.io/n{n:04}: unconfined\n"));
    let profiles = format!("metadata:\n  name: x\n  annotations:\n{profiles}");
    for (text, expected) in [
        (
            containers(10_000),
            "web.yaml:6 (document 1, Pod x): spec.containers: has 10000 items; at most 5000 are allowed".to_owned(),
        ),
        (
            containers(2000),
            "web.yaml:6 (document 1, Pod default/x-node): spec.containers: Too long: may not be more than 500 items"
                .to_owned(),
        ),
        (
            containers(4900).replace("metadata: {name: x}\n", &profiles),
            "web.yaml:6 (document 1, Pod default/x-node): metadata.annotations[container.apparmor.security.beta.kubernetes.io/n0000]: Invalid value: \"n0000\": container not found"
                .to_owned(),
        ),
        (
            pod("", &format!("  volumes:\n{volumes}")),
            "web.yaml:7 (document 1, Pod x): spec.volumes: has 9000 items; at most 5000 are allowed".to_owned(),
        ),
        (
            pod(&format!(", annotations: {{a: {}}}", long(10_000_000)), ""),
            "web.yaml:3 (document 1, Pod default/x-node): metadata.annotations: Too long: may not be more than 262144 bytes"
                .to_owned(),
        ),
        (
            pod("", &format!("  hostname: {}\n", long(2_000_000))),
            "web.yaml:5 (document 1, Pod default/x-node): spec: Too long: may not be more than 1572864 bytes, with everything in the pod"
                .to_owned(),
        ),
        (
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{a: {}}}\n", long(2 << 20)),
            "web.yaml:4 (document 1, ConfigMap default/m): data: Too long: may not be more than 1048576 bytes".to_owned(),
        ),
        (
            format!("{}: 1\n{}: 2\n", long(1000), long(1000)),
            format!("web.yaml:2: has the key {:?} twice in the same map", long(256)),
        ),
        (
            format!(
                "apiVersion: v1\nkind: PodList\nitems:\n{}",
                many(6600, |n| format!("- {{metadata: {{name: p{n}}}, spec: {{containers: [{{name: c, image: x}}]}}}}\n"))
            ),
            "web.yaml:1004 (document 1): has more than 1000 pods, the limit for a manifest".to_owned(),
        ),
        ("---\na: 1\n".repeat(5000), "web.yaml:2049: has more than 1024 documents".to_owned()),
        (format!("a: {}", "[".repeat(5_000_000)), "web.yaml:1: recursion limit exceeded".to_owned()),
        (format!("a: {}", "{a: ".repeat(1000)), "web.yaml:1: is nested deeper than 32 levels".to_owned()),
        ("- ".repeat(1_000_000), "web.yaml:1: is nested deeper than 32 levels".to_owned()),
    ] {
        let told = told(&text);
        assert!(told.contains(&expected), "{expected}\n{told:#?}");
    }
}

#[test]
fn long_names_and_many_mistakes_are_cut() {
    let name = "n".repeat(3_000_000);
    let env = many(500, |_| "    - {name: 'A=B'}\n".to_owned());
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - name: c\n    image: x\n    env:\n{env}"
    );
    let count_more = |told: &[String], count: usize| {
        assert_eq!(told.len(), bounded::MOST + 1, "nobody reads more");
        assert_eq!(told[bounded::MOST], format!("web.yaml: {count} more problems not shown"));
    };
    // Each variable, the name, and the total size.
    count_more(&told(&text), 402);
    let unknown = many(3000, |n| format!("  unknown{n}: 1\n"));
    let good = load(pod("", &unknown).as_bytes(), &origin()).expect("used, without them");
    count_more(&good.warnings.iter().map(Problem::to_string).collect::<Vec<_>>(), 2900);
    let one_is_wrong = told(pod("", &format!("{unknown}  restartPolicy: Sometimes\n")));
    assert!(one_is_wrong.iter().any(|problem| problem.contains("Sometimes")), "an error is never left out");
    let items = many(9000, |n| format!("- {{apiVersion: v1, kind: Pod, metadata: {{name: A{n}}}}}\n"));
    assert_eq!(told(format!("apiVersion: v1\nkind: List\nitems:\n{items}")).len(), bounded::MOST + 1);
    told(format!("apiVersion: {name}\nkind: {name}\n"));
    told(pod(&format!(", labels: {{{name}: '{name}'}}"), ""));
    told(pod("", &format!("  volumes: [{{name: {name}}}, {{name: {name}}}]\n")));
    told(pod("", &format!("  {name}: 1\n  restartPolicy: {name}\n")));
}

#[test]
fn what_is_not_text_is_refused() {
    let good = pod("", "");
    let utf16: Vec<u8> =
        std::iter::once(0xfeff).chain(good.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    for (text, expected) in [
        ([good.as_bytes(), &[0xff, 0xfe]].concat(), "is not UTF-8 text"),
        (utf16, "is not UTF-8 text"),
        ([good.as_bytes(), &[0]].concat(), "unexpected character"),
        (vec![0; 1 << 20], "unexpected character"),
        (vec![b' '; LARGEST_MANIFEST + 1], "is larger than 10 MiB, the limit for a manifest"),
    ] {
        let told = told(&text);
        assert!(told[0].contains(expected), "{expected}: {told:?}");
    }
    assert!(
        load(format!("\u{feff}{good}").as_bytes(), &origin()).is_ok(),
        "a mark of the byte order is fine"
    );
}

#[test]
fn no_name_leads_out_of_its_folder_or_breaks_the_layout_of_logs() {
    let long = "x".repeat(300);
    let names = [
        "..",
        ".",
        "../../etc",
        "a/../b",
        "a/b",
        "/a",
        "a_b",
        "A",
        "a b",
        "ä",
        "a\\0",
        "a\\n",
        "a\\e[31m",
        "-a",
        &long,
    ];
    for name in names {
        for text in [
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: \"{name}\"}}\nspec: {{containers: [{{name: c, image: x}}]}}\n"
            ),
            pod(&format!(", namespace: \"{name}\""), ""),
            pod("", &format!("  initContainers: [{{name: \"{name}\", image: x}}]\n")),
            pod("", &format!("  volumes: [{{name: \"{name}\", emptyDir: {{}}}}]\n")),
            pod("", &format!("  hostname: \"{name}\"\n")),
            pod("", &format!("  hostnameOverride: \"{name}\"\n")),
        ] {
            let told = told(&text);
            assert!(told.iter().any(|problem| problem.contains("Invalid value")), "{text}\n{told:?}");
        }
    }
    for uid in ["..", ".", "../x", "a/b", "/a", "a_b", "ä", "a\\0", &long] {
        let told = told(pod(&format!(", uid: \"{uid}\""), ""));
        assert!(told[0].contains("metadata.uid: Invalid value"), "{told:?}");
    }
    // Each part is valid, but no such folder can exist.
    let named = |length: usize, uid: &str| {
        let name = "x".repeat(length);
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: \"{uid}\"}}\nspec: {{containers: [{{name: c, image: x}}]}}\n"
        )
    };
    let suffix = origin().node_name.len() + 1;
    for (length, uid, most) in [(215, String::new(), 214), (118, "u".repeat(128), 118)] {
        let told = told(named(length, &uid));
        let wanted = format!("must be no more than {most} characters with this namespace and UID");
        assert!(told[0].contains("metadata.name: Invalid value") && told[0].contains(&wanted), "{told:?}");
        assert!(load(named(most - suffix, &uid).as_bytes(), &origin()).is_ok(), "{most}");
    }
}

#[test]
fn no_path_leads_out_of_its_volume() {
    let mounted = |field: &str, volume: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\nspec:\n  containers:\n  - {{name: c, image: x, volumeMounts: [{{name: v, mountPath: /v{field}}}]}}\n  volumes: [{{name: v, {volume}}}]\n"
        )
    };
    for path in ["../x", "a/../../x", "/etc", "..", "a/..", "a\\0b"] {
        for text in [
            mounted(&format!(", subPath: \"{path}\""), "emptyDir: {}"),
            mounted(&format!(", subPathExpr: \"{path}\""), "emptyDir: {}"),
            mounted("", &format!("configMap: {{name: m, items: [{{key: k, path: \"{path}\"}}]}}")),
            mounted("", &format!("secret: {{secretName: m, items: [{{key: k, path: \"{path}\"}}]}}")),
            mounted(
                "",
                &format!(
                    "downwardAPI: {{items: [{{path: \"{path}\", fieldRef: {{fieldPath: metadata.name}}}}]}}"
                ),
            ),
            mounted(
                "",
                &format!(
                    "projected: {{sources: [{{configMap: {{name: m, items: [{{key: k, path: \"{path}\"}}]}}}}]}}"
                ),
            ),
        ] {
            let told = told(&text);
            assert!(told[0].contains("Invalid value"), "{text}\n{told:?}");
        }
    }
    for path in ["/a/../b", "a", "/a\\0"] {
        let told = told(mounted("", &format!("hostPath: {{path: \"{path}\"}}")));
        assert!(told[0].contains("spec.volumes[0].hostPath.path: Invalid value"), "{told:?}");
    }
    for key in ["..", ".", "..data", "..2026_01_01", "a/b", "../a", "ä", &"k".repeat(254)] {
        for kind in ["ConfigMap", "Secret"] {
            let told = told(format!(
                "apiVersion: v1\nkind: {kind}\nmetadata: {{name: m}}\ndata: {{\"{key}\": aGk=}}\n"
            ));
            assert!(told[0].contains("Invalid value"), "{key}: {told:?}");
        }
    }
}

#[test]
fn a_text_of_the_file_cannot_write_on_the_terminal_as_it_likes() {
    for text in [
        "apiVersion: \"\\e[2J\"\nkind: \"a\\nb\"\n".to_owned(),
        "\"\\e[2J\": 1\n\"\\e[2J\": 1\n".to_owned(),
        pod("", "  \"\\e[2J\": 1\n  restartPolicy: \"\\e[2J\"\n"),
        pod(", labels: {\"\\e[2J\": x}", ""),
        pod("", "  activeDeadlineSeconds: \"\\e[2J\"\n"),
    ] {
        told(&text);
    }
}

/// Pieces that a byte fuzzer would need years to find.
const PIECES: &[&str] = &[
    "spec:",
    "\n",
    "\n  ",
    "\n---\n",
    "- ",
    ": ",
    "&a ",
    "*a",
    "<<: *a",
    "!!binary ",
    "|\n",
    "\"",
    "'",
    "{",
    "}",
    "[",
    "]",
    "null",
    "~",
    "0x7fffffffffffffff",
    "-9223372036854775808",
    "1e999",
    ".nan",
    "0777",
    "\u{feff}",
    "\u{2028}",
    "\0",
    "#",
    "? ",
    "\t",
    "%YAML 1.2\n",
    "kind: List\nitems:",
    "1Ei",
    "-1m",
    "$(A)",
    "metadata.labels['']",
];

fn is_answered(text: &[u8]) -> Result<(), TestCaseError> {
    match load(text, &origin()) {
        Ok(manifest) => {
            let has_something = !manifest.pods.is_empty()
                || !manifest.objects.config_maps.is_empty()
                || !manifest.objects.secrets.is_empty();
            prop_assert!(has_something || text.windows(4).any(|window| window == b"List"));
            for pod in &manifest.pods {
                prop_assert!(pod.metadata.uid.is_some() && pod.spec.is_some());
            }
        }
        Err(problems) => {
            prop_assert!(problems.iter().any(|problem| problem.severity == Severity::Error));
            let mut told = String::new();
            for problem in &problems {
                write!(told, "{problem}").expect("it can be shown");
            }
            prop_assert!(!told.chars().any(char::is_control));
        }
    }
    Ok(())
}

proptest! {
    /// A manifest with bytes changed, removed and inserted is either used or refused in a few short lines.
    #[test]
    fn changed_bytes_are_answered(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..6)) {
        let mut text = RICH.as_bytes().to_vec();
        for (at, byte, edit) in edits {
            let at = at.index(text.len());
            match edit {
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                _ => drop(text.remove(at)),
            }
        }
        is_answered(&text)?;
    }

    #[test]
    fn pieces_put_in_anywhere_are_answered(
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(PIECES), 0..40_usize), 1..8)
    ) {
        let mut text = RICH.as_bytes().to_vec();
        for (at, piece, cut) in edits {
            let from = at.index(text.len());
            let to = (from + cut).min(text.len());
            text.splice(from..to, piece.bytes());
        }
        is_answered(&text)?;
    }

    #[test]
    fn lines_in_any_order_are_answered(order in Just(RICH.lines().collect::<Vec<_>>()).prop_shuffle(), count in 0..20_usize) {
        is_answered(order[..count.min(order.len())].join("\n").as_bytes())?;
    }

    #[test]
    fn bytes_of_any_kind_are_answered(text in prop::collection::vec(any::<u8>(), 0..200)) {
        is_answered(&text)?;
    }

    #[test]
    fn pieces_of_any_kind_are_answered(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60)) {
        is_answered(pieces.concat().as_bytes())?;
    }
}

const RICH: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {a: b}}\nspec:\n  hostNetwork: true\n  initContainers: [{name: i, image: x}]\n  containers:\n  - name: c\n    image: x\n    env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.labels['a']}}}]\n    ports: [{containerPort: 80, name: http}]\n    resources: {limits: {cpu: 1.5, memory: 64Mi}}\n    livenessProbe: {httpGet: {port: http}}\n    volumeMounts: [{name: v, mountPath: /v}]\n  volumes: [{name: v, projected: {sources: [{configMap: {name: m}}]}}]\n";
