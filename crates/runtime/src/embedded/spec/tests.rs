//! Tables of requests and their specs.

use std::path::{Path, PathBuf};

use v1::security_profile::ProfileType;

use super::*;
use crate::embedded::cgroup::Cgroups;

fn facts() -> Facts {
    let table = "1 2 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    Facts::able(Cgroups::from_mounts(&crate::embedded::mountinfo::parse(table)))
}

struct Case {
    config: v1::ContainerConfig,
    sandbox: v1::PodSandboxConfig,
    image: ImageConfig,
    host_image: bool,
    user: User,
    namespaces: Namespaces,
    files: SandboxFiles,
    image_volumes: Vec<(String, PathBuf)>,
    devices: Vec<devices::Device>,
    facts: Facts,
}

impl Case {
    fn new() -> Self {
        Self {
            config: v1::ContainerConfig { command: vec!["/bin/true".to_owned()], ..Default::default() },
            sandbox: v1::PodSandboxConfig {
                hostname: "pod".to_owned(),
                linux: Some(v1::LinuxPodSandboxConfig {
                    security_context: Some(v1::LinuxSandboxSecurityContext {
                        privileged: true,
                        ..Default::default()
                    }),
                    ..Default::default()
                }),
                ..Default::default()
            },
            image: ImageConfig::default(),
            host_image: false,
            user: User::default(),
            namespaces: Namespaces {
                pid: Namespace::New,
                ipc: Namespace::Join(PathBuf::from("/s/ipc")),
                uts: Namespace::Join(PathBuf::from("/s/uts")),
                network: Namespace::Join(PathBuf::from("/s/net")),
            },
            files: SandboxFiles {
                shm: Some("/s/shm".into()),
                hosts: "/s/hosts".into(),
                hostname: "/s/hostname".into(),
                resolv_conf: "/s/resolv.conf".into(),
            },
            image_volumes: Vec::new(),
            devices: Vec::new(),
            facts: facts(),
        }
    }

    fn in_plain_sandbox(mut self) -> Self {
        self.sandbox.linux = None;
        self
    }

    /// Puts it into a pod that asks for an `SELinux` label.
    fn labelled(mut self) -> Self {
        let linux = self.sandbox.linux.get_or_insert_default();
        let context = linux.security_context.get_or_insert_default();
        context.selinux_options = Some(v1::SeLinuxOption::default());
        self
    }

    fn context(mut self, change: impl FnOnce(&mut v1::LinuxContainerSecurityContext)) -> Self {
        let linux = self.config.linux.get_or_insert_default();
        change(linux.security_context.get_or_insert_default());
        self
    }

    fn resources(mut self, resources: v1::LinuxContainerResources) -> Self {
        self.config.linux.get_or_insert_default().resources = Some(resources);
        self
    }

    fn mount(mut self, mount: v1::Mount) -> Self {
        self.config.mounts.push(mount);
        self
    }

    fn build(&self) -> Result<Value, String> {
        let input = Input {
            config: &self.config,
            sandbox: &self.sandbox,
            image: &self.image,
            host_image: self.host_image,
            user: &self.user,
            namespaces: &self.namespaces,
            files: &self.files,
            image_volumes: &self.image_volumes,
            devices: &self.devices,
            cgroup: "/pod/c",
            rootfs: Path::new("/c/rootfs"),
            facts: &self.facts,
        };
        let spec = build(&input).map_err(|error| error.to_string())?;
        // The library must be able to read everything that we write.
        serde_json::from_value::<libcontainer::oci_spec::runtime::Spec>(spec.clone()).expect("an OCI spec");
        Ok(spec)
    }

    fn spec(&self) -> Value {
        self.build().expect("a spec")
    }

    fn refusal(&self) -> String {
        self.build().expect_err("a refusal")
    }
}

fn destinations(spec: &Value) -> Vec<String> {
    let mounts = spec["mounts"].as_array().unwrap().iter();
    mounts.map(|mount| mount["destination"].as_str().unwrap().to_owned()).collect()
}

fn mount_at<'a>(spec: &'a Value, path: &str) -> &'a Value {
    spec["mounts"].as_array().unwrap().iter().rev().find(|mount| mount["destination"] == path).expect(path)
}

fn bind(host: &str, inside: &str) -> v1::Mount {
    v1::Mount { host_path: host.to_owned(), container_path: inside.to_owned(), ..Default::default() }
}

#[test]
fn what_every_container_has_need_not_be_mounted() {
    let spec = Case::new().mount(bind("/dev/null", "/dev/null")).mount(bind("/dev/fuse", "/dev/fuse")).spec();
    let paths = destinations(&spec);
    assert!(!paths.contains(&"/dev/null".to_owned()) && paths.contains(&"/dev/fuse".to_owned()), "{paths:?}");
}

#[test]
fn a_plain_container() {
    let spec = Case::new().spec();
    assert_eq!(spec["process"]["args"], json!(["/bin/true"]));
    assert_eq!(spec["process"]["cwd"], "/");
    assert_eq!(spec["root"], json!({ "path": "/c/rootfs", "readonly": false }));
    assert_eq!(spec["linux"]["cgroupsPath"], "/pod/c");
    assert_eq!(
        spec["linux"]["namespaces"],
        json!([
            { "type": "mount" }, { "type": "pid" }, { "type": "ipc", "path": "/s/ipc" },
            { "type": "uts", "path": "/s/uts" }, { "type": "network", "path": "/s/net" }, { "type": "cgroup" },
        ])
    );
    assert_eq!(mount_at(&spec, "/dev/shm")["source"], "/s/shm");
    assert_eq!(mount_at(&spec, "/etc/hosts")["source"], "/s/hosts");
    assert_eq!(spec["linux"]["resources"]["devices"][0], json!({ "allow": false, "access": "rwm" }));
}

#[test]
fn the_host_image_is_read_only() {
    let mut case = Case::new();
    case.host_image = true;
    assert_eq!(case.spec()["root"]["readonly"], true);
}

#[test]
fn host_namespaces_and_a_host_ipc() {
    let mut case = Case::new();
    case.namespaces = Namespaces {
        pid: Namespace::Host,
        ipc: Namespace::Host,
        uts: Namespace::Host,
        network: Namespace::Host,
    };
    case.files.shm = None;
    let spec = case.spec();
    assert_eq!(spec["linux"]["namespaces"], json!([{ "type": "mount" }, { "type": "cgroup" }]));
    assert_eq!(mount_at(&spec, "/dev/shm")["source"], "/dev/shm");
    assert_eq!(mount_at(&spec, "/dev/mqueue")["type"], "mqueue");
    let env = spec["process"]["env"].as_array().unwrap();
    assert!(env.contains(&json!("HOSTNAME=machine")), "{env:?}");
}

#[test]
fn environment_is_default_then_image_then_request() {
    let mut case = Case::new();
    case.image.env = vec!["A=image".to_owned(), "PATH=/image".to_owned()];
    case.config.envs = vec![
        v1::KeyValue { key: "A".to_owned(), value: b"request".to_vec() },
        v1::KeyValue { key: "E".to_owned(), value: b"a=b".to_vec() },
    ];
    assert_eq!(case.spec()["process"]["env"], json!(["HOSTNAME=pod", "PATH=/image", "A=request", "E=a=b"]));
}

#[test]
fn mounts_keep_their_promises() {
    use v1::MountPropagation as P;
    let with = |propagation: P, readonly: bool, recursive: bool| v1::Mount {
        propagation: propagation as i32,
        readonly,
        recursive_read_only: recursive,
        ..bind("/h", "/v")
    };
    let table = [
        (with(P::PropagationPrivate, false, false), json!(["rbind", "rprivate", "rw"]), "slave"),
        (with(P::PropagationPrivate, true, false), json!(["rbind", "rprivate", "ro"]), "slave"),
        (with(P::PropagationHostToContainer, false, false), json!(["rbind", "rslave", "rw"]), "slave"),
        (with(P::PropagationBidirectional, false, false), json!(["rbind", "rshared", "rw"]), "shared"),
        (with(P::PropagationPrivate, true, true), json!(["rbind", "rprivate", "rro", "ro"]), "slave"),
    ];
    for (mount, options, root) in table {
        let spec = Case::new().mount(mount).spec();
        assert_eq!(mount_at(&spec, "/v")["options"], options);
        assert_eq!(spec["linux"]["rootfsPropagation"], root);
    }
}

#[test]
fn parents_are_mounted_before_children_and_a_request_replaces_a_default() {
    let spec = Case::new()
        .mount(bind("/h/3", "/a/b/c"))
        .mount(bind("/h/1", "/a"))
        .mount(bind("/h/hosts", "/etc/hosts"))
        .mount(bind("/h/shm", "/dev/shm"))
        .spec();
    let paths = destinations(&spec);
    assert_eq!(paths.iter().filter(|path| *path == "/etc/hosts").count(), 1);
    assert_eq!(paths.iter().filter(|path| *path == "/dev/shm").count(), 1);
    let at = |path: &str| paths.iter().position(|known| known == path).unwrap();
    assert!(at("/a") < at("/a/b/c"));
}

#[test]
fn a_volume_hides_nothing_that_is_mounted_in_it_however_its_path_is_spelt() {
    let spec = Case::new()
        .mount(bind("/h/inner", "/srv/app"))
        .mount(bind("/h/outer", "/./x/..//srv/./"))
        .mount(bind("/h/etc", "/etc/./"))
        .mount(bind("/h/hosts", "/etc//hosts"))
        .spec();
    let paths = destinations(&spec);
    let given: Vec<&str> =
        paths.iter().skip_while(|path| !path.contains("srv")).map(String::as_str).collect();
    let wanted =
        ["/./x/..//srv/./", "/etc/./", "/etc/hostname", "/etc/resolv.conf", "/srv/app", "/etc//hosts"];
    assert_eq!(given, wanted);
}

#[test]
fn volumes_of_an_image_are_mounted_among_those_of_the_request() {
    let mut case = Case::new().mount(bind("/h/inner", "/a/b/c")).mount(bind("/h/outer", "/a"));
    case.image_volumes = vec![("/a/b".to_owned(), "/c/volumes/0".into())];
    let spec = case.spec();
    let paths: Vec<String> = destinations(&spec).into_iter().filter(|path| path.starts_with("/a")).collect();
    assert_eq!(paths, ["/a", "/a/b", "/a/b/c"]);
    let volume = mount_at(&spec, "/a/b");
    assert_eq!(
        (&volume["source"], &volume["options"]),
        (&json!("/c/volumes/0"), &json!(["rbind", "rprivate", "rw", "nodev"]))
    );
}

#[test]
fn capabilities_by_table() {
    let caps = |add: &[&str], drop: &[&str]| {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Case::new().context(|context| {
            context.capabilities = Some(v1::Capability {
                add_capabilities: list(add),
                drop_capabilities: list(drop),
                add_ambient_capabilities: Vec::new(),
            });
        })
    };
    let count = |case: Case| case.spec()["process"]["capabilities"]["bounding"].as_array().unwrap().len();
    assert_eq!(count(Case::new()), 14);
    assert_eq!(count(caps(&["NET_ADMIN"], &[])), 15);
    assert_eq!(count(caps(&["CAP_NET_ADMIN", "net_admin"], &["CHOWN"])), 14);
    assert_eq!(count(caps(&[], &["ALL"])), 0);
    assert_eq!(count(caps(&["SYS_TIME"], &["ALL"])), 1);
    assert_eq!(count(caps(&["ALL"], &[])), 41);
    assert_eq!(count(caps(&["ALL"], &["SYS_ADMIN"])), 40);
    assert_eq!(count(Case::new().context(|context| context.privileged = true)), 41);
    assert!(caps(&["FLY"], &[]).refusal().contains("add_capabilities: \"FLY\""));

    let mut poor = caps(&["SYS_RESOURCE"], &[]);
    poor.facts.capabilities.remove("SYS_RESOURCE");
    assert!(poor.refusal().contains("cannot add CAP_SYS_RESOURCE"));
    let mut poor = Case::new().context(|context| context.privileged = true);
    poor.facts.capabilities.remove("SYS_RESOURCE");
    assert_eq!(count(poor), 40, "privileged means all that we have");
}

#[test]
fn privileged_hides_nothing() {
    let spec = Case::new().context(|context| context.privileged = true).spec();
    assert_eq!(spec["linux"]["maskedPaths"], json!([]));
    assert_eq!(spec["linux"]["readonlyPaths"], json!([]));
    assert_eq!(spec["linux"]["resources"]["devices"], json!([{ "allow": true, "access": "rwm" }]));
    assert!(mount_at(&spec, "/sys")["options"].as_array().unwrap().contains(&json!("rw")));
}

#[test]
fn limits_by_table() {
    let spec = Case::new()
        .resources(v1::LinuxContainerResources {
            cpu_period: 100_000,
            cpu_quota: 50_000,
            cpu_shares: 512,
            cpuset_cpus: "0-1".to_owned(),
            memory_limit_in_bytes: 1 << 20,
            memory_swap_limit_in_bytes: 1 << 20,
            oom_score_adj: -998,
            ..Default::default()
        })
        .spec();
    let resources = &spec["linux"]["resources"];
    assert_eq!(resources["cpu"], json!({ "period": 100_000, "quota": 50_000, "shares": 512, "cpus": "0-1" }));
    assert_eq!(resources["memory"], json!({ "limit": 1 << 20, "swap": 1 << 20 }));
    assert_eq!(spec["process"]["oomScoreAdj"], -998);
}

#[test]
fn the_oom_score_stays_above_our_own_floor() {
    let mut facts = facts();
    facts.oom_score_floor = 100;
    for (wanted, got) in [(-998, 100), (0, 100), (500, 500), (2000, 1000)] {
        assert_eq!(oom_score(wanted, &facts), got);
    }
}

#[test]
fn rights_are_taken_out_by_name_and_number() {
    let mut spec = Case::new()
        .context(|context| {
            context.capabilities = Some(v1::Capability {
                drop_capabilities: vec!["ALL".to_owned()],
                add_capabilities: vec![
                    "CHOWN".to_owned(),
                    "KILL".to_owned(),
                    "CHECKPOINT_RESTORE".to_owned(),
                ],
                add_ambient_capabilities: vec!["KILL".to_owned()],
            });
        })
        .spec();
    let names = take_rights(&mut spec);
    assert!(spec["process"].get("capabilities").is_none(), "the container library must not act on them");
    assert_eq!(names.bounding.len(), 3);
    let bits = names.bits();
    assert_eq!((bits.bounding, bits.ambient), (1 << 40 | 1 << 5 | 1, 1 << 5));
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    let v1_only = |mut case: Case| {
        let table = "1 2 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        case.facts.cgroups = Cgroups::from_mounts(&crate::embedded::mountinfo::parse(table));
        case.facts.swap_limit = false;
        case
    };
    let resources = |change: fn(&mut v1::LinuxContainerResources)| {
        let mut resources = v1::LinuxContainerResources::default();
        change(&mut resources);
        Case::new().resources(resources)
    };
    let local = v1::SecurityProfile { profile_type: 2, localhost_ref: "p".to_owned() };
    let mut nothing = Case::new();
    nothing.config.command.clear();
    let mut relative = Case::new();
    relative.config.working_dir = "here".to_owned();
    let mut tty = Case::new();
    tty.config.tty = true;
    let mut cdi = Case::new();
    cdi.config.cdi_devices.push(v1::CdiDevice { name: "gpu".to_owned() });
    let mut windows = Case::new();
    windows.config.windows = Some(v1::WindowsContainerConfig::default());
    let mut handler = Case::new();
    handler.config.image = Some(v1::ImageSpec { runtime_handler: "vm".to_owned(), ..Default::default() });
    let mut nul = Case::new();
    nul.config.args.push("a\0b".to_owned());
    let variable = |key: &[u8], value: &[u8]| {
        let mut case = Case::new();
        let key = String::from_utf8(key.to_vec()).expect("text");
        case.config.envs.push(v1::KeyValue { key, value: value.to_vec() });
        case
    };
    let selinux = |mut case: Case| {
        case.facts.selinux = true;
        case
    };
    let table: Vec<(Case, &str)> = vec![
        (nothing, "command: "),
        (relative, "working_dir: "),
        (tty, "tty: "),
        (cdi, "CDI_devices: "),
        (Case::new().mount(bind("relative", "/x")), "mounts[0].host_path: "),
        (Case::new().mount(bind("/x", "relative")), "mounts[0].container_path: "),
        (Case::new().mount(bind("/dev", "/dev")), "mounts[0].container_path: /, /dev "),
        (Case::new().mount(bind("/x", "//dev/./y/../")), "mounts[0].container_path: /, /dev "),
        (Case::new().mount(bind("/x", "/dev/null")), "mounts[0].container_path: /, /dev "),
        (Case::new().mount(bind("/dev/ptmx", "/dev/ptmx")), "mounts[0].container_path: /, /dev "),
        (Case::new().mount(bind("/x", "/")), "mounts[0].container_path: /, /dev "),
        (
            Case::new().mount(v1::Mount { recursive_read_only: true, ..bind("/x", "/y") }),
            "mounts[0].recursive_read_only: ",
        ),
        (
            Case::new().mount(v1::Mount { uid_mappings: vec![v1::IdMapping::default()], ..bind("/x", "/y") }),
            "mounts[0].uidMappings: ",
        ),
        (
            Case::new().mount(v1::Mount {
                image: Some(v1::ImageSpec { image: "x".to_owned(), ..Default::default() }),
                ..bind("/x", "/y")
            }),
            "mounts[0].image: ",
        ),
        (Case::new().context(|context| context.apparmor = Some(local)), "linux.security_context.apparmor: "),
        (v1_only(resources(|r| r.cpu_quota = 1000)), "linux.resources.cpu_quota: "),
        (
            v1_only(resources(|r| r.memory_swap_limit_in_bytes = 5)),
            "linux.resources.memory_swap_limit_in_bytes: ",
        ),
        (
            v1_only(resources(|r| {
                r.unified.insert("memory.high".to_owned(), "1".to_owned());
            })),
            "linux.resources.unified[\"memory.high\"]: ",
        ),
        (
            v1_only(resources(|r| {
                r.unified.insert("pids.max".to_owned(), "9".to_owned());
            })),
            "linux.resources.unified[\"pids.max\"]: ",
        ),
        (
            resources(|r| {
                r.unified.insert("../memory.max".to_owned(), "9".to_owned());
            }),
            "linux.resources.unified[\"../memory.max\"]: ",
        ),
        (v1_only(resources(|r| r.cpuset_cpus = "0".to_owned())), "linux.resources.cpuset_cpus: "),
        (v1_only(resources(|r| r.cpuset_mems = "0".to_owned())), "linux.resources.cpuset_mems: "),
        (v1_only(resources(|r| r.cpu_period = 1000)), "linux.resources.cpu_period: "),
        (v1_only(resources(|r| r.cpu_shares = 1000)), "linux.resources.cpu_shares: "),
        (
            v1_only(resources(|r| {
                r.hugepage_limits.push(v1::HugepageLimit { page_size: "2MB".to_owned(), limit: 1 });
            })),
            "linux.resources.hugepage_limits[2MB]: ",
        ),
        (
            resources(|r| {
                r.hugepage_limits.push(v1::HugepageLimit { page_size: "2MB/../..".to_owned(), limit: 0 });
            }),
            "linux.resources.hugepage_limits: ",
        ),
        (resources(|r| r.cpu_shares = -1), "linux.resources.cpu_shares: "),
        (resources(|r| r.cpu_period = -1), "linux.resources.cpu_period: "),
        (resources(|r| r.cpu_quota = -2), "linux.resources.cpu_quota: "),
        (resources(|r| r.memory_limit_in_bytes = -2), "linux.resources.memory_limit_in_bytes: "),
        (resources(|r| r.memory_swap_limit_in_bytes = -2), "linux.resources.memory_swap_limit_in_bytes: "),
        (windows, "windows: "),
        (handler, "image.runtime_handler: "),
        (nul, "command: "),
        (variable(b"=", b""), "envs[\"=\"]: "),
        (variable(b"A", b"\xff"), "envs[\"A\"]: "),
        (
            Case::new().context(|context| context.privileged = true).in_plain_sandbox(),
            "linux.security_context.privileged: ",
        ),
        (
            Case::new().context(|context| {
                let options = context.namespace_options.get_or_insert_default();
                options.userns_options = Some(v1::UserNamespace::default());
            }),
            "linux.security_context.namespace_options.userns_options: ",
        ),
        (
            Case::new().context(|context| context.apparmor_profile = "localhost/x".to_owned()),
            "linux.security_context.apparmor_profile: ",
        ),
        (
            selinux(
                Case::new().context(|context| context.selinux_options = Some(v1::SeLinuxOption::default())),
            ),
            "linux.security_context.selinux_options: ",
        ),
        (
            selinux(Case::new().labelled().mount(v1::Mount { selinux_relabel: true, ..bind("/x", "/y") })),
            "mounts[0].selinux_relabel: ",
        ),
        (
            Case::new().mount(v1::Mount { gid_mappings: vec![v1::IdMapping::default()], ..bind("/x", "/y") }),
            "mounts[0].uidMappings: ",
        ),
    ];
    for (case, field) in table {
        let refusal = case.refusal();
        assert!(refusal.starts_with(field), "{refusal:?} should name {field:?}");
    }
}

#[test]
fn apparmor_is_what_was_asked_for_or_a_refusal() {
    type Change = fn(&mut v1::LinuxContainerSecurityContext);
    let on = |enabled: bool, change: Change| {
        let mut case = Case::new().context(change);
        case.facts.apparmor = enabled;
        case
    };
    let profile = |kind: ProfileType, name: &str| {
        Some(v1::SecurityProfile { profile_type: kind.into(), localhost_ref: name.to_owned() })
    };
    let refused: [(bool, Change, &str); 7] = [
        (true, |context| context.apparmor = Some(v1::SecurityProfile::default()), "apparmor: "),
        (false, |context| context.apparmor = Some(v1::SecurityProfile::default()), "apparmor: "),
        (true, |context| context.apparmor_profile = "runtime/default".to_owned(), "apparmor_profile: "),
        (false, |context| context.apparmor_profile = "localhost/p".to_owned(), "apparmor_profile: "),
        (true, |context| context.apparmor_profile = "localhost/".to_owned(), "apparmor_profile: "),
        (true, |context| context.apparmor_profile = "p".to_owned(), "apparmor_profile: "),
        (false, |context| context.apparmor_profile = "p".to_owned(), "apparmor_profile: "),
    ];
    for (enabled, change, field) in refused {
        let refusal = on(enabled, change).refusal();
        assert!(refusal.starts_with(&format!("linux.security_context.{field}")), "{refusal}");
    }
    for privileged in [false, true] {
        for (enabled, wanted, old, gives) in [
            (true, profile(ProfileType::Localhost, "p"), "", json!("p")),
            (true, None, "localhost/p", json!("p")),
            (true, profile(ProfileType::Unconfined, ""), "localhost/p", Value::Null),
            (false, profile(ProfileType::Unconfined, ""), "", Value::Null),
            (true, None, "unconfined", Value::Null),
            (true, None, "", Value::Null),
        ] {
            let mut case = Case::new().context(|context| {
                context.privileged = privileged;
                context.apparmor = wanted.clone();
                context.apparmor_profile = old.to_owned();
            });
            case.facts.apparmor = enabled;
            assert_eq!(case.spec()["process"]["apparmorProfile"], gives, "{wanted:?} {old} {privileged}");
        }
    }
}

#[test]
fn groups_of_many_hierarchies_are_mounted_one_by_one_and_only_a_privileged_container_may_change_them() {
    let table = "1 2 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                 3 2 0:2 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                 4 2 0:3 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
    let mut case = Case::new();
    case.facts.cgroups = Cgroups::from_mounts(&crate::embedded::mountinfo::parse(table));
    for (pid, privileged, access) in [
        (Namespace::New, false, "ro"),
        (Namespace::Host, false, "ro"),
        (Namespace::Join("/proc/7/ns/pid".into()), false, "ro"),
        (Namespace::New, true, "rw"),
    ] {
        case.namespaces.pid = pid;
        case = case.context(|context| context.privileged = privileged);
        let spec = case.spec();
        assert_eq!(mount_at(&spec, "/sys/fs/cgroup")["type"], "tmpfs");
        for (name, hierarchy) in [
            ("memory", "memory"),
            ("cpu", "cpu,cpuacct"),
            ("cpuacct", "cpu,cpuacct"),
            ("cpu,cpuacct", "cpu,cpuacct"),
        ] {
            let mount = mount_at(&spec, &format!("/sys/fs/cgroup/{name}"));
            assert_eq!(mount["source"], format!("/sys/fs/cgroup/{hierarchy}/pod/c"));
            assert!(mount["options"].as_array().unwrap().contains(&json!(access)), "{mount}");
        }
        assert!(!destinations(&spec).contains(&"/sys/fs/cgroup/systemd".to_owned()), "not the container's");
        let readonly = spec["linux"]["readonlyPaths"].as_array().unwrap();
        assert_eq!(readonly.contains(&json!("/sys/fs/cgroup")), !privileged, "{readonly:?}");
    }
}

#[test]
fn the_only_hierarchy_is_mounted_as_asked() {
    for (privileged, access) in [(false, "ro"), (true, "rw")] {
        let spec = Case::new().context(|context| context.privileged = privileged).spec();
        let mount = mount_at(&spec, "/sys/fs/cgroup");
        assert_eq!(mount["type"], "cgroup");
        assert!(mount["options"].as_array().unwrap().contains(&json!(access)), "{mount}");
    }
}

#[test]
fn of_the_machines_sys_nothing_can_be_written_to() {
    let mut case = Case::new();
    case.facts.rootless = true;
    case.facts.cgroups = Cgroups::None;
    case.namespaces.network = Namespace::Host;
    assert_eq!(
        mount_at(&case.spec(), "/sys")["options"],
        json!(["rbind", "nosuid", "noexec", "nodev", "ro", "rro"])
    );
}

#[test]
fn what_a_kubelet_allows_to_be_relabelled_is_left_as_it_is_where_nobody_asks_for_a_label() {
    // As the agent requests it: its own files and volumes may be relabelled, the host's may not.
    let ours = |from: &str, to: &str| v1::Mount { selinux_relabel: true, ..bind(from, to) };
    let files = [("/pods/uid/etc-hosts", "/etc/hosts"), ("/pods/uid/containers/c/1", "/dev/termination-log")];
    for selinux in [false, true] {
        let mut case = Case::new().mount(ours("/pods/uid/volumes/v", "/data")).mount(bind("/srv", "/srv"));
        for (from, to) in files {
            case = case.mount(ours(from, to));
        }
        case = case.context(|context| context.readonly_rootfs = true);
        case.facts.selinux = selinux;
        let spec = case.spec();
        assert_eq!(mount_at(&spec, "/data")["source"], "/pods/uid/volumes/v", "{selinux}");
        assert_eq!(spec["linux"]["mountLabel"], Value::Null);
    }
}
