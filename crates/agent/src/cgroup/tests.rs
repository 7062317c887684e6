//! Tests the cgroups of pods in ordinary folders.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use rustix::fs::{CWD, Mode, mkfifoat};

use super::*;
use crate::pod::testkit;
use crate::resource::Quantity;
use values::Version;

/// Folders like the kernel's cgroups, except for what the kernel creates by itself: each has the files of its
/// controllers.
struct Machinery {
    folder: tempfile::TempDir,
    groups: PodGroups,
    version: Version,
    mounts: Vec<(PathBuf, &'static [&'static str])>,
}

impl Machinery {
    fn new(version: Version) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mounts: Vec<(PathBuf, &'static [&'static str])> = match version {
            Version::One => vec![(at("cpu"), &["cpu"]), (at("memory"), &["memory"]), (at("pids"), &["pids"])],
            Version::Two => vec![(at(""), &[])],
        };
        for (point, _) in &mounts {
            std::fs::create_dir_all(point).unwrap();
        }
        let groups = Self::groups(version, &mounts);
        Self { folder, groups, version, mounts }
    }

    fn groups(version: Version, mounts: &[(PathBuf, &'static [&'static str])]) -> PodGroups {
        let settings = CgroupSettings { pids_limit: Some(50), ..CgroupSettings::default() };
        PodGroups::over(Some(Hierarchies::in_folder(version, mounts)), &settings)
    }

    /// Returns the cgroups of an agent that has just been restarted.
    fn restarted(&self) -> PodGroups {
        Self::groups(self.version, &self.mounts)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Puts files into a cgroup, as the kernel would.
    fn put_files(&self, group: &str, files: &[&str]) {
        std::fs::create_dir_all(self.at(group)).unwrap();
        for file in files {
            std::fs::write(self.at(group).join(file), "").unwrap();
        }
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn remove_files(&self) {
        remove_files(self.folder.path());
    }
}

/// In the kernel's folders, files do not prevent the removal of a cgroup.
fn remove_files(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            remove_files(&entry.path());
        } else {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}

fn pod(uid: &str, cpu: &str, memory_limit: Option<&str>) -> Pod {
    let mut pod = testkit::pod("Always", &[], &["c"]);
    pod.metadata.uid = Some(uid.to_owned());
    let amount = |name: &str, value: &str| (name.to_owned(), WireQuantity(value.to_owned()));
    let limits = memory_limit.map(|memory| [amount("memory", memory)].into());
    pod.spec.as_mut().unwrap().containers[0].resources = (cpu != "0").then(|| ResourceRequirements {
        requests: Some([amount("cpu", cpu)].into()),
        limits,
        claims: None,
    });
    pod
}

#[test]
fn a_pod_has_a_group_in_that_of_its_class_and_the_class_weighs_what_its_pods_do() {
    let machinery = Machinery::new(Version::One);
    let machine = Machine::default();
    machinery.put_files("cpu/kubepods/burstable", &["cpu.shares"]);
    machinery
        .put_files("cpu/kubepods/burstable/poda", &["cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us"]);
    machinery.put_files("memory/kubepods/burstable/poda", &["memory.limit_in_bytes"]);
    machinery.put_files("pids/kubepods/burstable/poda", &["pids.max"]);
    machinery.put_files("pids/kubepods/burstable/podb", &["pids.max"]);
    let (one, two) = (pod("a", "500m", Some("1Mi")), pod("b", "1", None));
    assert_eq!(machinery.groups.parent(&one), "/kubepods/burstable/poda");
    machinery.groups.ensure(&one, &machine).unwrap();
    assert_eq!(machinery.read("cpu/kubepods/burstable/poda/cpu.shares"), "512");
    assert_eq!(machinery.read("cpu/kubepods/burstable/poda/cpu.cfs_quota_us"), "-1");
    assert_eq!(machinery.read("memory/kubepods/burstable/poda/memory.limit_in_bytes"), "1048576");
    assert_eq!(machinery.read("pids/kubepods/burstable/poda/pids.max"), "50");
    assert_eq!(machinery.read("cpu/kubepods/burstable/cpu.shares"), "512");
    machinery.groups.ensure(&two, &machine).unwrap();
    machinery.groups.ensure(&two, &machine).unwrap();
    assert_eq!(machinery.read("cpu/kubepods/burstable/cpu.shares"), "1536");

    std::fs::create_dir(machinery.at("cpu/kubepods/burstable/podb/container")).unwrap();
    std::fs::remove_file(machinery.at("pids/kubepods/burstable/podb/pids.max")).unwrap();
    machinery.groups.forget(&"b".into()).unwrap();
    machinery.groups.forget(&"b".into()).unwrap();
    assert!(!machinery.at("cpu/kubepods/burstable/podb").exists());
    assert_eq!(machinery.read("cpu/kubepods/burstable/cpu.shares"), "512");
    machinery.remove_files();
    machinery.groups.forget(&"a".into()).unwrap();
    assert!(!machinery.at("cpu/kubepods").exists(), "the last one leaves nothing behind");
}

#[test]
fn pods_of_an_agent_before_count_in_the_weight_of_their_class() {
    let machinery = Machinery::new(Version::One);
    let machine = Machine::default();
    machinery.put_files("cpu/kubepods/burstable", &["cpu.shares"]);
    for pod in ["a", "b", "c"] {
        machinery.put_files(&format!("pids/kubepods/burstable/pod{pod}"), &["pids.max"]);
    }
    let weight = || machinery.read("cpu/kubepods/burstable/cpu.shares");
    let old = [pod("a", "500m", None), pod("b", "1", None)];
    old.iter().for_each(|pod| machinery.groups.ensure(pod, &machine).unwrap());
    assert_eq!(weight(), "1536");
    let groups = machinery.restarted();
    groups.count(&old[0]).unwrap();
    groups.ensure(&pod("c", "2", None), &machine).unwrap();
    groups.count(&old[1]).unwrap();
    groups.count(&old[1]).unwrap();
    groups.count(&pod("d", "0", None)).unwrap();
    assert_eq!(weight(), "3584");
}

#[test]
fn what_is_in_use_stays_and_is_told() {
    let machinery = Machinery::new(Version::Two);
    let best_effort = pod("a", "0", None);
    machinery.put_files("kubepods/besteffort/poda", &["pids.max"]);
    machinery.groups.ensure(&best_effort, &Machine::default()).unwrap();
    // In place of a process.
    machinery.put_files("kubepods/besteffort/poda", &["process"]);
    let error = machinery.groups.forget(&"a".into()).unwrap_err().to_string();
    assert!(error.starts_with("control group [kubepods besteffort poda]: "), "{error}");
    machinery.remove_files();
    machinery.groups.forget(&"a".into()).unwrap();
    assert!(!machinery.at("kubepods").exists());
}

#[test]
fn who_is_still_there_the_second_time_is_killed() {
    let machinery = Machinery::new(Version::Two);
    let forgotten = || std::process::Command::new("sleep").arg("1000000").spawn().unwrap();
    let (mut left, mut other) = (forgotten(), forgotten());
    for (group, processes) in
        [("poda/container", format!("0\n{}\n", left.id())), ("podb", format!("{}\n", other.id()))]
    {
        let group = format!("kubepods/besteffort/{group}");
        machinery.put_files(&group, &[]);
        std::fs::write(machinery.at(&group).join("cgroup.procs"), processes).unwrap();
    }
    machinery.groups.forget(&"a".into()).unwrap_err();
    assert_eq!(left.try_wait().unwrap(), None, "it may be just leaving");
    machinery.groups.forget(&"a".into()).unwrap_err();
    assert_eq!(left.wait().unwrap().signal(), Some(9));
    remove_files(&machinery.at("kubepods/besteffort/poda"));
    machinery.groups.forget(&"a".into()).unwrap();
    assert!(!machinery.at("kubepods/besteffort/poda").exists());
    assert_eq!(other.try_wait().unwrap(), None, "another pod's");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn who_is_left_of_a_container_that_has_ended_is_killed() {
    let machinery = Machinery::new(Version::Two);
    let mut all = ["old", "crio-older", "new"].map(|name| {
        let process = std::process::Command::new("sleep").arg("1000000").spawn().unwrap();
        let group = format!("kubepods/besteffort/poda/{name}");
        machinery.put_files(&group, &[]);
        std::fs::write(machinery.at(&group).join("cgroup.procs"), format!("{}\n", process.id())).unwrap();
        process
    });
    machinery.groups.end_remnants(&pod("a", "0", None), &["old".into(), "older".into(), "gone".into()]);
    let [old, older, new] = &mut all;
    assert_eq!([old.wait().unwrap().signal(), older.wait().unwrap().signal()], [Some(9), Some(9)]);
    assert_eq!(new.try_wait().unwrap(), None);
    new.kill().unwrap();
    new.wait().unwrap();
}

#[test]
fn a_limit_of_the_pod_itself_that_cannot_be_set_is_an_error() {
    let machinery = Machinery::new(Version::Two);
    let machine = Machine::default();
    // A file that does not exist stands for a controller that does not exist.
    machinery.put_files("kubepods/burstable/poda", &["pids.max"]);
    let mut pod = pod("a", "500m", Some("1Mi"));
    machinery.groups.ensure(&pod, &machine).unwrap();
    pod.spec.as_mut().unwrap().resources = Some(ResourceRequirements {
        requests: Some([("memory".to_owned(), WireQuantity("1Mi".to_owned()))].into()),
        limits: Some([("memory".to_owned(), WireQuantity("2Mi".to_owned()))].into()),
        claims: None,
    });
    let error = machinery.groups.ensure(&pod, &machine).unwrap_err().to_string();
    assert!(error.contains("cannot set memory.max: this machine has no memory controller"), "{error}");
    machinery.put_files("kubepods/burstable/poda", &["memory.max"]);
    machinery.groups.ensure(&pod, &machine).unwrap();
    assert_eq!(machinery.read("kubepods/burstable/poda/memory.max"), "2097152");
}

#[test]
fn systemd_makes_its_slices_itself() {
    let settings = CgroupSettings { driver: Driver::Systemd, ..CgroupSettings::default() };
    let groups = PodGroups::over(None, &settings);
    let pod = pod("1-2", "1", None);
    groups.ensure(&pod, &Machine::default()).unwrap();
    assert_eq!(
        groups.parent(&pod),
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice"
    );
    groups.forget(&"1-2".into()).unwrap();
    let mut limited = pod;
    limited.spec.as_mut().unwrap().resources = Some(ResourceRequirements {
        limits: Some([("cpu".to_owned(), WireQuantity("1".to_owned()))].into()),
        ..ResourceRequirements::default()
    });
    let error = groups.ensure(&limited, &Machine::default()).unwrap_err().to_string();
    assert!(error.contains("pod-level limits are not enforced"), "{error}");
}

#[test]
fn a_pod_whose_group_takes_long_to_change_holds_up_no_other() {
    let machinery = Machinery::new(Version::Two);
    machinery.put_files("kubepods/burstable", &["cpu.weight"]);
    machinery.put_files("kubepods/burstable/poda", &["pids.max"]);
    machinery.put_files("kubepods/burstable/podb", &["pids.max"]);
    // A reader of this waits for a writer that never comes.
    let path = machinery.at("kubepods/burstable/poda/memory.max");
    mkfifoat(CWD, &path, Mode::RWXU).unwrap();
    let pipe = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let (one, two) = (pod("a", "500m", Some("1Mi")), pod("b", "1", None));
    let machine = Machine::default();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| machinery.groups.ensure(&one, &machine));
        while machinery.read("kubepods/burstable/cpu.weight").is_empty() {
            std::thread::yield_now();
        }
        scope.spawn(|| done.send(machinery.groups.ensure(&two, &machine)).unwrap());
        let other = is_done.recv_timeout(std::time::Duration::from_secs(30));
        std::fs::remove_file(&path).unwrap();
        machinery.put_files("kubepods/burstable/poda", &["memory.max"]);
        drop(pipe);
        slow.join().unwrap().unwrap();
        other.expect("it waits for the first").unwrap();
    });
    assert_eq!(machinery.read("kubepods/burstable/poda/memory.max"), "1048576");
}

#[test]
fn all_pods_together_get_what_is_not_reserved() {
    let gibibyte = 1 << 30;
    let node = |cpu: Option<i64>, reserved: i64| {
        let mut settings = Settings::new("node", "/nowhere");
        settings.machine.memory = 4 * gibibyte;
        settings.allocatable =
            cpu.map(|cpu| ("cpu".to_owned(), Quantity::from_millis(cpu))).into_iter().collect();
        settings.reserved = Some([("memory".to_owned(), Quantity::from_units(reserved))].into());
        Whole::of(&settings)
    };
    for (whole, on_one, on_two) in [
        (node(None, gibibyte), ["", ""], ["", ""]),
        (node(Some(4000), 0), ["4096", "-1"], ["157", "max"]),
        (node(Some(3500), gibibyte), ["3584", "3221225472"], ["137", "3221225472"]),
        (node(Some(3500), 9 * gibibyte), ["3584", "-1"], ["137", "max"]),
    ] {
        for (version, files, wanted) in [
            (Version::One, ["cpu/kubepods/cpu.shares", "memory/kubepods/memory.limit_in_bytes"], on_one),
            (Version::Two, ["kubepods/cpu.weight", "kubepods/memory.max"], on_two),
        ] {
            for class in ["0", "1"] {
                let machinery = Machinery::new(version);
                for (group, file) in files.map(|path| path.rsplit_once('/').unwrap()) {
                    machinery.put_files(group, &[file]);
                }
                let tier = if class == "0" { "besteffort" } else { "burstable" };
                let pids = if version == Version::One { "pids/" } else { "" };
                machinery.put_files(&format!("{pids}kubepods/{tier}/poda"), &["pids.max"]);
                let groups = machinery.restarted().within(whole);
                groups.ensure(&pod("a", class, None), &Machine::default()).unwrap();
                assert_eq!(files.map(|file| machinery.read(file)), wanted, "{version:?}, {whole:?}");
                // Whatever happened to it before the next agent started is repaired for running pods.
                machinery
                    .put_files(files[0].rsplit_once('/').unwrap().0, &[files[0].rsplit_once('/').unwrap().1]);
                groups.count(&pod("a", class, None)).unwrap();
                assert_eq!(machinery.read(files[0]), wanted[0]);
            }
        }
    }
}
