use super::*;
use crate::manifest::{default, tree, typed};

/// Returns what is wrong with a pod that has this spec, after defaults.
pub(super) fn wrong(spec: &str) -> Vec<String> {
    let text = format!("metadata: {{name: x, namespace: default, uid: u}}\nspec: {spec}\n");
    let documents = tree::documents(&text).unwrap_or_else(|error| panic!("{spec}: {error:?}"));
    let (mut pod, unknown) =
        typed::decode::<Pod>(&documents[0]).unwrap_or_else(|error| panic!("{spec}: {error:?}"));
    assert_eq!(unknown.kept, [], "{spec}");
    default::pod(&mut pod);
    super::pod(&pod).kept.iter().map(FieldError::to_string).collect()
}

/// Returns the mistakes in a container, without the path of the container.
fn wrong_container(fields: &str) -> Vec<String> {
    let spec = format!("{{containers: [{{name: c, image: x, {fields}}}], volumes: [{{name: v}}]}}");
    wrong(&spec).into_iter().map(|error| error.replace("spec.containers[0].", "")).collect()
}

fn wrong_volume(source: &str) -> Vec<String> {
    let spec = format!("{{containers: [{{name: c, image: x}}], volumes: [{{name: v, {source}}}]}}");
    wrong(&spec).into_iter().map(|error| error.replace("spec.volumes[0].", "")).collect()
}

pub(super) fn check(found: impl Fn(&str) -> Vec<String>, cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        assert_eq!(found(text), *expected, "{text}");
    }
}

#[test]
fn a_good_pod_has_nothing_wrong() {
    assert_eq!(
        wrong(
            "{hostNetwork: true, restartPolicy: OnFailure, activeDeadlineSeconds: 5, hostname: h, subdomain: s, dnsPolicy: None, dnsConfig: {nameservers: [1.1.1.1], searches: [a.b., '.'], options: [{name: ndots}]}, hostAliases: [{ip: '::1', hostnames: [a.b]}], shareProcessNamespace: true, securityContext: {fsGroup: 5, sysctls: [{name: net.core.somaxconn, value: '1'}, {name: kernel/shm_rmid_forced, value: '0'}], seccompProfile: {type: RuntimeDefault}}, initContainers: [{name: i, image: x}, {name: s, image: x, restartPolicy: Always, startupProbe: {exec: {command: [a]}}}], containers: [{name: c, image: x, command: [a], ports: [{name: http, containerPort: 80}], env: [{name: A, value: b}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}], envFrom: [{prefix: P_, configMapRef: {name: m}}], resources: {limits: {cpu: 1, memory: 1Gi, example.com/gpu: 1}, requests: {cpu: 100m}}, volumeMounts: [{name: v, mountPath: /v, subPath: a/b}, {name: h, mountPath: /h, readOnly: true, recursiveReadOnly: IfPossible}], livenessProbe: {tcpSocket: {port: http}}, lifecycle: {preStop: {sleep: {seconds: 5}}, postStart: {exec: {command: [x]}}}, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]}], volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 1Mi}}, {name: h, hostPath: {path: /tmp, type: Directory}}, {name: p, projected: {sources: [{configMap: {name: m}}, {secret: {name: s, items: [{key: k, path: p}]}}, {downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}, {path: r, resourceFieldRef: {containerName: c, resource: limits.cpu, divisor: 1m}}]}}]}}]}"
        ),
        Vec::<String>::new()
    );
}

#[test]
fn pods() {
    check(
        wrong,
        &[
            ("{}", &["spec.containers: Required value"]),
            ("{containers: []}", &["spec.containers: Required value"]),
            (
                "{containers: [{name: c, image: x}, {name: c, image: x}], initContainers: [{name: c, image: x}]}",
                &[
                    "spec.containers[0].name: Duplicate value: \"c\"",
                    "spec.containers[1].name: Duplicate value: \"c\"",
                ],
            ),
            (
                "{containers: [{name: c, image: x}], terminationGracePeriodSeconds: -1, activeDeadlineSeconds: 0}",
                &[
                    "spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0",
                    "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
                ],
            ),
            (
                "{resources: {limits: {cpu: 1, disk: 1}, requests: {cpu: 500m}}, containers: [{name: c, image: x, resources: {requests: {cpu: 400m}}}, {name: d, image: x, resources: {limits: {cpu: 2}, requests: {cpu: 200m}}}]}",
                &[
                    "spec.resources.limits[disk]: Invalid value: \"disk\": must be a standard resource for containers (cpu, memory, ephemeral-storage, hugepages-<size>) or fully qualified (e.g. example.com/gpu)",
                    "spec.resources.requests[disk]: Invalid value: \"disk\": must be a standard resource for containers (cpu, memory, ephemeral-storage, hugepages-<size>) or fully qualified (e.g. example.com/gpu)",
                    "spec.resources.limits[disk]: Unsupported value: \"disk\": supported values: \"cpu\", \"memory\", \"hugepages-<size>\"",
                    "spec.resources.requests[disk]: Unsupported value: \"disk\": supported values: \"cpu\", \"memory\", \"hugepages-<size>\"",
                    "spec.resources.requests[cpu]: Invalid value: \"500m\": must be greater than or equal to aggregate container requests of 600m",
                    "spec.containers[1].resources.limits[cpu]: Invalid value: \"2\": must be less than or equal to pod limits of 1",
                ],
            ),
            (
                "{resources: {limits: {cpu: 2, hugepages-2Mi: 4Mi}}, containers: [{name: c, image: x, resources: {limits: {cpu: 1, hugepages-2Mi: 2Mi}}}, {name: d, image: x}]}",
                &[
                    "spec.resources.limits[hugepages-2Mi]: Forbidden: not enforceable: give each container a limit, \
                     together within the pod's",
                ],
            ),
            (
                "{resources: {limits: {cpu: 2, hugepages-2Mi: 4Mi}}, containers: [{name: c, image: x, resources: {limits: {cpu: 1, hugepages-2Mi: 2Mi}}}, {name: d, image: x, resources: {limits: {cpu: 1, hugepages-2Mi: 2Mi}}}]}",
                &[],
            ),
            (
                "{containers: [{name: c, image: x}], overhead: {cpu: lots, memory: -1Gi, disk: 1, hugepages-2Mi: 2Mi}}",
                &[
                    "spec.overhead[cpu]: Invalid value: \"lots\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'; for example 500m, 1, 64Mi or 2G",
                    "spec.overhead[disk]: Invalid value: \"disk\": must be a standard resource for containers (cpu, memory, ephemeral-storage, hugepages-<size>) or fully qualified (e.g. example.com/gpu)",
                    "spec.overhead[memory]: Invalid value: \"-1Gi\": must be greater than or equal to 0",
                ],
            ),
            ("{containers: [{name: c, image: x}], hostnameOverride: a.example.com}", &[]),
            ("{containers: [{name: c, image: x}], hostname: '', subdomain: ''}", &[]),
            (
                "{containers: [{name: c, image: x}], hostname: '-', subdomain: '-'}",
                &[
                    "spec.hostname: Invalid value: \"-\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', or '123-abc')",
                    "spec.subdomain: Invalid value: \"-\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', or '123-abc')",
                ],
            ),
            (
                "{containers: [{name: c, image: x}], hostnameOverride: \"a\\n10.0.0.1 db\"}",
                &[
                    "spec.hostnameOverride: Invalid value: \"a\\n10.0.0.1 db\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com')",
                ],
            ),
            (
                "{containers: [{name: c, image: x}], hostNetwork: true, setHostnameAsFQDN: true, hostnameOverride: a2345678901234567890123456789012345678901234567890123456789012345}",
                &[
                    "spec.hostnameOverride: Too long: may not be more than 64 characters",
                    "spec.hostnameOverride: Forbidden: may not be set together with `hostNetwork`, with which a pod \
                     has the host name of its node",
                    "spec.hostnameOverride: Forbidden: may not be set together with `setHostnameAsFQDN`; set the \
                     full name here",
                ],
            ),
            (
                "{containers: [{name: c, image: x}], dnsPolicy: None, hostAliases: [{ip: x}]}",
                &[
                    "spec.hostAliases[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                    "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
                ],
            ),
            (
                "{containers: [{name: c, image: x}], serviceAccountName: a, runtimeClassName: b, schedulingGates: [{name: g}], os: {name: plan9}, ephemeralContainers: [{name: e}]}",
                &[
                    "spec.ephemeralContainers: Forbidden: ephemeral containers are added to a running pod through \
                     the API server; add a container to the manifest instead",
                    "spec.serviceAccountName: Forbidden: static pods may not reference serviceaccounts",
                    "spec.runtimeClassName: Forbidden: static pods may not reference runtimeclasses",
                    "spec.schedulingGates: Forbidden: nothing here could ever remove a gate",
                    "spec.os.name: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\"",
                ],
            ),
            (
                "{containers: [{name: c, image: x}], hostPID: true, shareProcessNamespace: true, hostUsers: false, securityContext: {runAsUser: -1, sysctls: [{name: A}, {name: a.b}, {name: a.b}], seccompProfile: {type: Localhost}, appArmorProfile: {type: Odd}}}",
                &[
                    "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                    "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when type is Localhost",
                    "spec.securityContext.appArmorProfile.type: Unsupported value: \"Odd\": supported values: \"Localhost\", \"RuntimeDefault\", \"Unconfined\"",
                    "spec.securityContext.sysctls[0].name: Invalid value: \"A\": must have at most 253 characters and parts of lower case alphanumeric characters, '-' or '_', separated by '.' or '/'",
                    "spec.securityContext.sysctls[2].name: Duplicate value: \"a.b\"",
                    "spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
                    "spec.hostPID: Forbidden: when `hostUsers` is false",
                ],
            ),
            (
                "{containers: [{name: c, image: x, ports: [{containerPort: 1, hostPort: 80}]}, {name: d, image: x, ports: [{containerPort: 2, hostPort: 80, hostIP: 0.0.0.0}, {containerPort: 3, hostPort: 80, protocol: UDP}]}]}",
                &["spec.containers[1].ports[0].hostPort: Duplicate value: \"/TCP/80\""],
            ),
            (
                "{containers: [{name: c, image: x}], initContainers: [{name: i, image: x, livenessProbe: {exec: {command: [a]}}, lifecycle: {}}]}",
                &[
                    "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always",
                    "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
                ],
            ),
        ],
    );
}

#[test]
fn containers() {
    check(
        wrong_container,
        &[
            (
                "imagePullPolicy: x",
                &[
                    "imagePullPolicy: Unsupported value: \"x\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
                ],
            ),
            (
                "terminationMessagePolicy: x",
                &[
                    "terminationMessagePolicy: Unsupported value: \"x\": supported values: \"File\", \"FallbackToLogsOnError\"",
                ],
            ),
            (
                "ports: [{}, {containerPort: 70000}, {containerPort: 1, name: a, protocol: X}, {containerPort: 2, name: a, hostPort: -1, hostIP: h}]",
                &[
                    "ports[0].containerPort: Required value",
                    "ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                    "ports[2].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                    "ports[3].name: Duplicate value: \"a\"",
                    "ports[3].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
                    "ports[3].hostIP: Invalid value: \"h\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                ],
            ),
            (
                "volumeMounts: [{name: w, mountPath: /a}, {name: v}, {name: v, mountPath: '/a:b'}, {name: v, mountPath: /a}, {name: v, mountPath: /b, subPath: ../x}, {name: v, mountPath: /c, subPath: /x}, {name: v, mountPath: /d, subPath: x, subPathExpr: z}, {name: v, mountPath: /e, mountPropagation: Bidirectional}, {name: v, mountPath: /f, recursiveReadOnly: Enabled}]",
                &[
                    "volumeMounts[0].name: Not found: \"w\"",
                    "volumeMounts[1].mountPath: Required value",
                    "volumeMounts[2].mountPath: Invalid value: \"/a:b\": must not contain ':'",
                    "volumeMounts[3].mountPath: Invalid value: \"/a\": must be unique",
                    "volumeMounts[4].subPath: Invalid value: \"../x\": must not contain '..'",
                    "volumeMounts[5].subPath: Invalid value: \"/x\": must be a relative path",
                    "volumeMounts[6].subPathExpr: Invalid value: \"z\": subPathExpr and subPath are mutually exclusive",
                    "volumeMounts[7].mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
                    "volumeMounts[8].recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
                ],
            ),
            (
                "volumeDevices: [{name: v, devicePath: /dev/x}]",
                &["volumeDevices: Forbidden: static pods may not reference persistentvolumeclaims"],
            ),
            (
                "restartPolicyRules: [{action: x, exitCodes: {operator: z}}, {action: Restart}]",
                &[
                    "restartPolicyRules: Required value: must specify restartPolicy when restart rules are used",
                    "restartPolicyRules[0].action: Unsupported value: \"x\": supported values: \"Restart\", \"RestartAllContainers\"",
                    "restartPolicyRules[0].exitCodes.operator: Unsupported value: \"z\": supported values: \"In\", \"NotIn\"",
                    "restartPolicyRules[0].exitCodes.values: Invalid value: []: must specify at least one value",
                    "restartPolicyRules[1].exitCodes: Required value: must be specified",
                ],
            ),
            (
                "resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: cpu, restartPolicy: Sometimes}, {resourceName: disk, restartPolicy: ''}]",
                &[
                    "resizePolicy[1].restartPolicy: Unsupported value: \"Sometimes\": supported values: \"NotRequired\", \"RestartContainer\"",
                    "resizePolicy[1]: Duplicate value: \"cpu\"",
                    "resizePolicy[2].resourceName: Unsupported value: \"disk\": supported values: \"cpu\", \"memory\"",
                    "resizePolicy[2].restartPolicy: Required value",
                ],
            ),
            ("securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [SYS_ADMIN]}}", &[]),
            (
                "securityContext: {procMount: Unmasked}",
                &[
                    "securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`",
                ],
            ),
            (
                "securityContext: {privileged: true, allowPrivilegeEscalation: false, procMount: x, capabilities: {add: [CAP_SYS_ADMIN]}}",
                &[
                    "securityContext.procMount: Unsupported value: \"x\": supported values: \"Default\", \"Unmasked\"",
                    "securityContext: Invalid value: {}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
                    "securityContext: Invalid value: {}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
                ],
            ),
        ],
    );
    assert_eq!(
        wrong("{containers: [{name: c, image: ' x'}]}"),
        ["spec.containers[0].image: Invalid value: \" x\": must not have leading or trailing whitespace"]
    );
    assert_eq!(
        wrong("{containers: [{}]}"),
        ["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"]
    );
    assert_eq!(
        wrong(
            "{hostNetwork: true, containers: [{name: c, image: x, ports: [{containerPort: 1, hostPort: 2}]}]}"
        ),
        [
            "spec.containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true"
        ]
    );
    // Init containers run one after another, but even one of them cannot have a port twice.
    let one_after_another = |ports: &str| {
        let init = format!(
            "[{{name: i, image: x, ports: [{{containerPort: 8080}}]}}, {{name: j, image: x, ports: [{ports}]}}]"
        );
        wrong(&format!(
            "{{hostNetwork: true, initContainers: {init}, containers: [{{name: c, image: x, ports: [{{containerPort: 8080}}]}}]}}"
        ))
    };
    assert_eq!(one_after_another("{containerPort: 8080}"), Vec::<String>::new());
    assert_eq!(
        one_after_another("{containerPort: 8080}, {containerPort: 8080}"),
        ["spec.initContainers[1].ports[1].hostPort: Duplicate value: \"/TCP/8080\""]
    );
}

#[test]
fn profiles_of_this_host() {
    let wrong = |kind: &str, profile: &str| {
        wrong_container(&format!(
            "securityContext: {{{kind}: {{type: Localhost, localhostProfile: '{profile}'}}}}"
        ))
    };
    let at = |kind: &str| format!("securityContext.{kind}.localhostProfile");
    let (app_armor, seccomp) = ("appArmorProfile", "seccompProfile");
    let longest = "x".repeat(4095);
    for name in ["/usr/sbin/nginx", "../odd", "snap.a//b c", &longest] {
        assert_eq!(wrong(app_armor, name), Vec::<String>::new(), "{name}");
    }
    for name in [" a", "a ", " "] {
        let detail = "must not be padded with whitespace";
        assert_eq!(wrong(app_armor, name), [format!("{}: Invalid value: {name:?}: {detail}", at(app_armor))]);
    }
    assert_eq!(
        wrong(app_armor, &format!("{longest}x")),
        [format!("{}: Too long: may not be more than 4095 bytes", at(app_armor))]
    );
    for kind in [app_armor, seccomp] {
        let wanted = format!("{}: Required value: must be set when type is Localhost", at(kind));
        assert_eq!(wrong(kind, ""), [wanted]);
    }
    assert_eq!(wrong(seccomp, "profiles/mine.json"), Vec::<String>::new());
    for (path, detail) in
        [("/mine.json", "must be a relative path"), ("../mine.json", "must not contain '..'")]
    {
        assert_eq!(wrong(seccomp, path), [format!("{}: Invalid value: {path:?}: {detail}", at(seccomp))]);
    }
}

#[test]
fn app_armor_of_annotations() {
    let wrong = |container: &str, value: &str| {
        let mut pod = crate::pod::testkit::pod("Always", &["i"], &["c"]);
        let key = format!("{}{container}", crate::pod::app_armor::ANNOTATION);
        pod.metadata.annotations = Some([(key, value.to_owned())].into());
        let mut report = Report::default();
        security::check_annotations(&pod, &mut report);
        report.into_errors().kept.iter().map(FieldError::to_string).collect::<Vec<_>>()
    };
    for value in ["", "runtime/default", "unconfined", "localhost/mine"] {
        assert_eq!((wrong("c", value), wrong("i", value)), (vec![], vec![]), "{value}");
    }
    let at = "metadata.annotations[container.apparmor.security.beta.kubernetes.io/";
    for value in ["odd", "localhost/", "runtime/other"] {
        let detail =
            "invalid AppArmor profile name: must be runtime/default, unconfined or localhost/<profile>";
        assert_eq!(wrong("c", value), [format!("{at}c]: Invalid value: {value:?}: {detail}")]);
    }
    assert_eq!(wrong("d", "unconfined"), [format!("{at}d]: Invalid value: \"d\": container not found")]);
}

#[test]
fn environments() {
    check(
        wrong_container,
        &[
            (
                "env: [{name: ''}, {name: A=B}, {name: C, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: D, valueFrom: {}}, {name: E, valueFrom: {fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: s, key: k}}}]",
                &[
                    "env[0].name: Required value",
                    "env[1].name: Invalid value: \"A=B\": a valid environment variable name must consist only of printable ASCII characters other than '='",
                    "env[2].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
                    "env[3].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
                    "env[4].valueFrom: Invalid value: \"\": may not have more than one field specified at a time",
                ],
            ),
            (
                "env: [{name: A, valueFrom: {configMapKeyRef: {}}}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1Mi}}}, {name: C, valueFrom: {fileKeyRef: {key: k, path: p, volumeName: v}}}]",
                &[
                    "env[0].valueFrom.configMapKeyRef.name: Required value",
                    "env[0].valueFrom.configMapKeyRef.key: Required value",
                    "env[1].valueFrom.resourceFieldRef.divisor: Invalid value: \"1Mi\": only divisor's values 1m and 1 are supported with the cpu resource",
                    "env[2].valueFrom.fileKeyRef: Forbidden: variables from files are not supported here",
                ],
            ),
            (
                "envFrom: [{}, {configMapRef: {name: a}, secretRef: {name: b}}, {secretRef: {}}]",
                &[
                    "envFrom[0]: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
                    "envFrom[1]: Invalid value: \"\": may not have more than one field specified at a time",
                    "envFrom[2].secretRef.name: Required value",
                ],
            ),
        ],
    );
    let annotation =
        "env: [{name: A, valueFrom: {fieldRef: {fieldPath: 'metadata.annotations[''Example.com/x'']'}}}]";
    assert_eq!(wrong_container(annotation), Vec::<String>::new(), "keys of annotations may have capitals");
    assert_eq!(wrong_container(&annotation.replace("annotations", "labels")).len(), 1);
    let unsupported = wrong_container("env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.phase}}}]");
    assert!(unsupported[0].starts_with(
        "env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"status.phase\": supported values:"
    ));
}

#[test]
fn resources() {
    check(
        wrong_container,
        &[
            (
                "resources: {limits: {cpu: 1, memory: lots}, requests: {cpu: 2, memory: -1}}",
                &[
                    "resources.limits[memory]: Invalid value: \"lots\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'; for example 500m, 1, 64Mi or 2G",
                    "resources.requests[memory]: Invalid value: \"-1\": must be greater than or equal to 0",
                    "resources.requests[cpu]: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
                ],
            ),
            (
                "resources: {limits: {hugepages-2Mi: 4Mi, x.y/z: 1.5}, requests: {hugepages-2Mi: 2Mi, a.b/c: 1}}",
                &[
                    "resources.limits[x.y/z]: Invalid value: \"1500m\": must be an integer",
                    "resources.requests[x.y/z]: Invalid value: \"1500m\": must be an integer",
                    "resources.requests[a.b/c]: Required value: Limit must be set for non overcommitable resources",
                    "resources.requests[hugepages-2Mi]: Invalid value: \"2Mi\": must be equal to hugepages-2Mi limit of 4Mi",
                    "resources: Forbidden: HugePages require cpu or memory",
                ],
            ),
            (
                "resources: {limits: {memory: 1Mi, hugepages-2Mi: 3Mi, hugepages-1Gi: 2Gi}}",
                &[
                    "resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                    "resources.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                ],
            ),
            (
                "resources: {requests: {hugepages-: 1, hugepages-0: 1, hugepages-foo: 1, \"hugepages-2Mi\\e[2J\": 1}}",
                &[
                    "resources.requests[hugepages-]: Invalid value: \"hugepages-\": must be hugepages-<size> with a size of pages (e.g. hugepages-2Mi)",
                    "resources.requests[hugepages-0]: Invalid value: \"hugepages-0\": must be hugepages-<size> with a size of pages (e.g. hugepages-2Mi)",
                    "resources.requests[hugepages-2Mi\u{1b}[2J]: Invalid value: \"hugepages-2Mi\\u{1b}[2J\": must be hugepages-<size> with a size of pages (e.g. hugepages-2Mi)",
                    "resources.requests[hugepages-foo]: Invalid value: \"hugepages-foo\": must be hugepages-<size> with a size of pages (e.g. hugepages-2Mi)",
                ],
            ),
            (
                "resources: {claims: [{name: c}]}",
                &["resources.claims: Forbidden: static pods may not reference resourceclaims"],
            ),
        ],
    );
    assert!(
        wrong_container("resources: {limits: {disk: 1}}")[0]
            .starts_with("resources.limits[disk]: Invalid value: \"disk\": must be a standard resource")
    );
}

#[test]
fn probes_and_handlers() {
    check(
        wrong_container,
        &[
            ("livenessProbe: {}", &["livenessProbe: Required value: must specify a handler type"]),
            (
                "livenessProbe: {exec: {}, tcpSocket: {port: 0}, periodSeconds: -1, successThreshold: 2, terminationGracePeriodSeconds: 0}",
                &[
                    "livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
                    "livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0",
                    "livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
                    "livenessProbe.exec.command: Required value",
                    "livenessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "livenessProbe.successThreshold: Invalid value: 2: must be 1",
                ],
            ),
            (
                "readinessProbe: {httpGet: {port: Web, scheme: ftp, httpHeaders: [{name: 'a b', value: x}]}, successThreshold: 2, terminationGracePeriodSeconds: 5}",
                &[
                    "readinessProbe.httpGet.port: Invalid value: \"Web\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                    "readinessProbe.httpGet.scheme: Unsupported value: \"ftp\": supported values: \"HTTP\", \"HTTPS\"",
                    "readinessProbe.httpGet.httpHeaders[0].name: Invalid value: \"a b\": a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name')",
                    "readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for readinessProbes",
                ],
            ),
            (
                "startupProbe: {grpc: {port: 99999}}",
                &["startupProbe.grpc.port: Invalid value: 99999: must be between 1 and 65535, inclusive"],
            ),
            (
                "lifecycle: {postStart: {}, preStop: {sleep: {seconds: 31}}}",
                &[
                    "lifecycle.postStart: Required value: must specify a handler type",
                    "lifecycle.preStop.sleep.seconds: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
                ],
            ),
            (
                "lifecycle: {stopSignal: SIGUSR1}",
                &["lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"],
            ),
            (
                "lifecycle: {preStop: {tcpSocket: {port: 1}}}",
                &[
                    "lifecycle.preStop.tcpSocket: Forbidden: a lifecycle handler cannot be a tcpSocket; use exec, httpGet or sleep",
                ],
            ),
        ],
    );
}

#[test]
fn volumes_of_all_kinds() {
    check(
        wrong_volume,
        &[
            (
                "emptyDir: {sizeLimit: -1, medium: Tape}",
                &[
                    "emptyDir.sizeLimit: Invalid value: \"-1\": must be greater than or equal to 0",
                    "emptyDir.medium: Unsupported value: \"Tape\": supported values: \"\", \"Memory\", \"HugePages\", \"HugePages-<size>\"",
                ],
            ),
            ("emptyDir: {medium: HugePages-2Mi}", &[]),
            ("hostPath: {path: ''}", &["hostPath.path: Required value"]),
            (
                "hostPath: {path: /a/../b, type: Thing}",
                &[
                    "hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
                    "hostPath.type: Unsupported value: \"Thing\": supported values: \"\", \"DirectoryOrCreate\", \"Directory\", \"FileOrCreate\", \"File\", \"Socket\", \"CharDevice\", \"BlockDevice\"",
                ],
            ),
            ("hostPath: {path: a}", &["hostPath.path: Invalid value: \"a\": must be an absolute path"]),
            (
                "configMap: {defaultMode: 0777, items: [{key: a, path: ../b}, {key: a, path: ..b}, {path: c, mode: 01000}]}",
                &[
                    "configMap.name: Required value",
                    "configMap.items[0].path: Invalid value: \"../b\": must not contain '..'",
                    "configMap.items[1].path: Invalid value: \"..b\": must not start with '..'",
                    "configMap.items[2].key: Required value",
                    "configMap.items[2].mode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
                ],
            ),
            (
                "secret: {secretName: S}",
                &[
                    "secret.secretName: Invalid value: \"S\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com')",
                ],
            ),
            (
                "downwardAPI: {items: [{path: a}, {path: b, resourceFieldRef: {resource: limits.cpu}}]}",
                &[
                    "downwardAPI.items[0]: Required value: one of fieldRef and resourceFieldRef is required",
                    "downwardAPI.items[1].resourceFieldRef.containerName: Required value",
                ],
            ),
            (
                "projected: {sources: [{}, {serviceAccountToken: {path: t}}, {configMap: {name: m, items: [{key: k, path: p}]}}, {secret: {name: s, items: [{key: k, path: p}]}}]}",
                &[
                    "projected.sources[0]: Required value: must specify a projection type",
                    "projected.sources[1].serviceAccountToken: Forbidden: static pods may not reference objects of the API server",
                    "projected.sources[3].secret.items[0].path: Invalid value: \"p\": conflicting duplicate paths",
                ],
            ),
            (
                "emptyDir: {}, hostPath: {path: /x}",
                &["hostPath: Forbidden: may not specify more than 1 volume type"],
            ),
            (
                "persistentVolumeClaim: {claimName: c}",
                &["persistentVolumeClaim: Forbidden: static pods may not reference persistentvolumeclaims"],
            ),
            (
                "nfs: {server: s, path: /p}",
                &[
                    "nfs: Forbidden: this type of volume is not supported here; use emptyDir, hostPath, configMap, secret, projected or downwardAPI",
                ],
            ),
        ],
    );
    assert_eq!(
        wrong("{containers: [{name: c, image: x}], volumes: [{name: v}, {name: v}, {name: V}]}"),
        [
            "spec.volumes[1].name: Duplicate value: \"v\"",
            "spec.volumes[2].name: Invalid value: \"V\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', or '123-abc')",
        ]
    );
}

#[test]
fn objects_beside_pods() {
    let decode = |text: &str| typed::decode(&tree::documents(text).expect("YAML")[0]).expect("a map").0;
    let map = decode("metadata: {name: m}\ndata: {a: x, a/b: x, ..data: z}\nbinaryData: {a: eA==}\n");
    let errors: Vec<String> = config_map(&map).kept.iter().map(FieldError::to_string).collect();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[0].starts_with("data[a]: Invalid value: \"a\": duplicate of key present in binaryData"));
    let large = decode(&format!("metadata: {{name: m}}\ndata: {{a: {}}}\n", "x".repeat(1 << 21)));
    assert_eq!(config_map(&large).kept[0].to_string(), "data: Too long: may not be more than 1048576 bytes");
}

#[test]
fn stop_signals_have_names() {
    let with = |signal: &str| {
        wrong(&format!(
            "{{os: {{name: linux}}, containers: [{{name: c, image: x, lifecycle: {{stopSignal: {signal}}}}}]}}"
        ))
    };
    for good in ["SIGUSR1", "SIGRTMIN+3", "SIGKILL"] {
        assert_eq!(with(good), Vec::<String>::new(), "{good}");
    }
    for bad in ["TERM", "'15'", "SIGNAL"] {
        let found = with(bad);
        assert!(found.len() == 1 && found[0].contains("must be the name of a signal"), "{bad}: {found:?}");
    }
}
