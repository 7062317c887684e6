//! Tests of what configuration files set, and of how errors in them are reported.

use rubelet_agent::gc::{ImagePolicy, LogPolicy};
use rubelet_agent::resource::Quantity;

use super::node::{KeptFree, Threshold};
use super::*;

#[test]
fn pods_are_held_to_what_is_not_reserved_unless_that_is_switched_off() {
    for (said, are_held, ignored) in [
        ("", true, vec![]),
        ("enforceNodeAllocatable: [pods]", true, vec![]),
        ("enforceNodeAllocatable: []", false, vec![]),
        ("enforceNodeAllocatable: [none]", false, vec![]),
        (
            "enforceNodeAllocatable: [pods, system-reserved]",
            true,
            vec!["enforceNodeAllocatable: system-reserved"],
        ),
    ] {
        let text = format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{said}\n");
        let config = FileConfig::read(&text).expect(said);
        assert_eq!(config.node.groups.are_held, are_held, "{said}");
        assert_eq!(config.ignored, ignored, "{said}");
    }
}

#[test]
fn what_we_honour_is_read_and_the_rest_is_named() {
    let config = FileConfig::read(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodPath: /etc/pods\n\
         syncFrequency: 1m30s\nmaxParallelImagePulls: 4\nregistryPullQPS: 0\nreadOnlyPort: 10255\nmaxPods: 50\n\
         imageGCHighThresholdPercent: 90\nimageGCLowThresholdPercent: 70\nimageMinimumGCAge: 5m\n\
         containerLogMaxSize: 50Mi\ncontainerLogMaxFiles: 3\nimageMaximumGCAge: 24h\nsystemReserved: {cpu: 500m, memory: 1Gi, pid: '100'}\n\
         kubeReserved: {cpu: 250m}\nevictionHard: {memory.available: 5%, imagefs.available: 15%}\n\
         allowedUnsafeSysctls: ['net.core.*']\nseccompDefault: true\n\
         cgroupDriver: systemd\ncgroupRoot: /mine\npodPidsLimit: 100\n\
         oomScoreAdj: -500\ncrashLoopBackOff:\n  maxContainerRestartPeriod: 60s\nclusterDNS: [10.96.0.10]\n\
         clusterDomain: cluster.local\nresolvConf: \"\"\nuserNamespaces: {idsPerPod: 131072}\n",
    )
    .unwrap();
    let wanted = FileConfig {
        static_pod_path: Some("/etc/pods".into()),
        resync: Some(Duration::from_secs(90)),
        parallel_pulls: Some(4),
        pulls_per_second: Some(0),
        listen: Some("127.0.0.1:10255".parse().unwrap()),
        upkeep: Upkeep {
            images: ImagePolicy { high: 90, low: 70, min_age: Duration::from_secs(300) },
            logs: LogPolicy { max_size: 50 << 20, max_files: 3 },
        },
        longest_backoff: Some(Duration::from_secs(60)),
        oom_score: Some(-500),
        resolv_conf: Some("".into()),
        cluster_dns: vec!["10.96.0.10".parse().unwrap()],
        cluster_domain: Some("cluster.local".to_owned()),
        node: NodeConfig {
            max_pods: Some(50),
            reserved: [
                ("cpu".to_owned(), Quantity::from_millis(750)),
                ("memory".to_owned(), Quantity::from_units(1 << 30)),
            ]
            .into(),
            kept_free: KeptFree { memory: Threshold::Percent(5), disk: Threshold::Percent(0) },
            unsafe_sysctls: vec!["net.core.*".parse().unwrap()],
            seccomp_default: true,
            ids_per_pod: Some(131_072),
            groups: GroupConfig {
                driver: Some(rubelet_agent::cgroup::Driver::Systemd),
                root: Some("/mine".to_owned()),
                pids_limit: Some(100),
                ..GroupConfig::default()
            },
            ..NodeConfig::default()
        },
        ignored: ["systemReserved.pid", "evictionHard.imagefs.available", "imageMaximumGCAge"]
            .map(str::to_owned)
            .into(),
        ..FileConfig::default()
    };
    assert_eq!(config, wanted);
}

#[test]
fn what_is_wrong_is_said() {
    let table = [
        ("kind: Pod", "it is a Pod, not a KubeletConfiguration"),
        (
            "kind: KubeletConfiguration\nstaticPodURLHeader: {X-Token: [a]}",
            "staticPodURLHeader: needs staticPodURL",
        ),
        (
            "kind: KubeletConfiguration\nstaticPodURL: http://x\nstaticPodURLHeader: {X-Token: secret}",
            "staticPodURLHeader: must have a list of strings for each name",
        ),
        ("kind: KubeletConfiguration\nmaxParallelImagePulls: many", "maxParallelImagePulls: "),
        ("kind: KubeletConfiguration\nclusterDNS: [here]", "clusterDNS: "),
        ("kind: KubeletConfiguration\nsyncFrequency: soon", "syncFrequency: "),
        ("kind: KubeletConfiguration\nuserNamespaces: {idsPerPod: 1000}", "userNamespaces.idsPerPod: "),
        ("kind: KubeletConfiguration\nuserNamespaces: {idsPerPod: 0}", "userNamespaces.idsPerPod: "),
        ("kind: KubeletConfiguration\nuserNamespaces: {idsPerPod: 4294967296}", "userNamespaces.idsPerPod: "),
        ("kind: KubeletConfiguration\nallowedUnsafeSysctls: [vm.*]", "allowedUnsafeSysctls: "),
        ("kind: KubeletConfiguration\nevictionHard: {memory.available: 101%}", "evictionHard: "),
        ("kind: KubeletConfiguration\ncgroupDriver: mine", "cgroupDriver: \"mine\" is not"),
        ("kind: KubeletConfiguration\nkubeReserved: {cpu: much}", "kubeReserved: "),
        ("kind: KubeletConfiguration\nmaxParallelImagePulls: 0", "maxParallelImagePulls: must be at least 1"),
        (
            "kind: KubeletConfiguration\nserializeImagePulls: true\nmaxParallelImagePulls: 2",
            "maxParallelImagePulls: must be 1 unless serializeImagePulls is false",
        ),
        (
            "kind: KubeletConfiguration\ncrashLoopBackOff: {maxContainerRestartPeriod: 0s}",
            "maxContainerRestartPeriod: must be from 1s to 300s",
        ),
        (
            "kind: KubeletConfiguration\ncrashLoopBackOff: {maxContainerRestartPeriod: 301s}",
            "maxContainerRestartPeriod: must be from 1s to 300s",
        ),
        ("kind: KubeletConfiguration\ncpuCFSQuotaPeriod: 2s", "cpuCFSQuotaPeriod: must be from 1ms to 1s"),
        ("kind: KubeletConfiguration\nsyncFrequency: -1s", "syncFrequency: "),
        (
            "kind: KubeletConfiguration\nimageGCHighThresholdPercent: 101",
            "imageGCHighThresholdPercent: must be from 0 to 100",
        ),
        (
            "kind: KubeletConfiguration\nimageGCHighThresholdPercent: 70",
            "imageGCLowThresholdPercent: is 80, must be below imageGCHighThresholdPercent, which is 70",
        ),
        (
            "apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration",
            "apiVersion: is \"kubelet.config.k8s.io/v1\", must be \"kubelet.config.k8s.io/v1beta1\"",
        ),
        ("kind: KubeletConfiguration\ncontainerLogMaxSize: 0", "containerLogMaxSize: "),
        ("kind: KubeletConfiguration\ncontainerLogMaxSize: '0'", "containerLogMaxSize: must not be zero"),
        ("kind: KubeletConfiguration\ncontainerLogMaxFiles: 1", "containerLogMaxFiles: must be at least 2"),
        ("kind: KubeletConfiguration\ncontainerRuntimeEndpoint: tcp://x", "containerRuntimeEndpoint: "),
    ];
    for (text, wanted) in table {
        let error = FileConfig::read(text).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{text}: {error}");
    }
}

#[test]
fn a_file_without_end_is_refused() {
    let error = FileConfig::load(Path::new("/dev/zero")).unwrap_err().to_string();
    assert_eq!(error, "it is larger than 10 MiB, too large for a configuration");
}

/// As kubeadm writes it: every setting without a value is zero or empty, which means the default.
const OF_KUBEADM: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous:
    enabled: false
  webhook:
    cacheTTL: 0s
    enabled: true
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
authorization:
  mode: Webhook
  webhook:
    cacheAuthorizedTTL: 0s
    cacheUnauthorizedTTL: 0s
cgroupDriver: systemd
clusterDNS:
- 10.96.0.10
clusterDomain: cluster.local
containerRuntimeEndpoint: \"\"
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
kind: KubeletConfiguration
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: \"0\"
    text:
      infoBufferSize: \"0\"
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
";

#[test]
fn a_file_that_kubeadm_wrote_changes_nothing_that_it_does_not_name() {
    let wanted = FileConfig {
        static_pod_path: Some("/etc/kubernetes/manifests".into()),
        resolv_conf: Some("/run/systemd/resolve/resolv.conf".into()),
        cluster_dns: vec!["10.96.0.10".parse().unwrap()],
        cluster_domain: Some("cluster.local".to_owned()),
        node: NodeConfig {
            groups: GroupConfig {
                driver: Some(rubelet_agent::cgroup::Driver::Systemd),
                ..GroupConfig::default()
            },
            ..NodeConfig::default()
        },
        ignored: [
            "authentication",
            "authorization",
            "healthzBindAddress",
            "healthzPort",
            "logging",
            "rotateCertificates",
        ]
        .map(str::to_owned)
        .into(),
        ..FileConfig::default()
    };
    assert_eq!(FileConfig::read(OF_KUBEADM).unwrap(), wanted);
}

#[test]
fn zero_is_what_is_usual_but_port_zero_is_off() {
    let read =
        |text: &str| FileConfig::read(&format!("kind: KubeletConfiguration\n{text}")).expect("it is right");
    for text in ["maxPods: 0", "registryBurst: 0", "cpuCFSQuotaPeriod: 0s", "syncFrequency: null"] {
        assert_eq!(read(text), FileConfig::default(), "{text}");
    }
    assert_eq!(read("readOnlyPort: 0").listen, Some(Listen(None)));
    let everywhere = read("readOnlyPort: 7\naddress: 0.0.0.0");
    assert_eq!(everywhere.listen, Some("0.0.0.0:7".parse().unwrap()));
    assert_eq!(read("address: 0.0.0.0").ignored, ["address"]);
    assert_eq!(read("containerLogMaxSize: '-1'").upkeep.logs.max_size, u64::MAX, "never");
}

#[test]
fn headers_are_for_one_url_and_are_not_shown() {
    let text = "kind: KubeletConfiguration\nstaticPodURL: http://x\nstaticPodURLHeader: {X-Token: [secret, other], Y: [z]}";
    let url = FileConfig::read(text).unwrap().static_pod_url.unwrap();
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(url.headers, [header("X-Token", "secret"), header("X-Token", "other"), header("Y", "z")]);
    assert_eq!(
        format!("{url:?}"),
        r#"ConfiguredUrl { url: "http://x", headers: ["X-Token", "X-Token", "Y"] }"#
    );
}
