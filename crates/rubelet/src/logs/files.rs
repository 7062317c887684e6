//! Where logs are on disk: `<namespace>_<name>_<uid>/<container>/<number>.log`.

use std::path::{Path, PathBuf};

use crate::pods::PodName;

/// The numbers of a container's instances that have logs, oldest first.
pub(crate) fn instances(folder: &Path) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        names(folder).iter().filter_map(|name| name.strip_suffix(".log")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The rotated parts of the log of an instance, oldest first. Not those that are compressed.
pub(super) fn parts(folder: &Path, number: u32) -> Vec<PathBuf> {
    let prefix = format!("{number}.log.");
    let is_plain = |name: &&String| {
        name.strip_prefix(&prefix).is_some_and(|moment| !moment.ends_with(".gz") && !moment.ends_with(".tmp"))
    };
    names(folder).iter().filter(is_plain).map(|name| folder.join(name)).collect()
}

/// The newest folder of logs of a pod, and the containers in it.
pub(crate) fn newest_pod_folder(logs: &Path, pod: &PodName, node: &str) -> Option<(PathBuf, Vec<String>)> {
    let is_its = |name: &&String| {
        let mut parts = name.split('_');
        matches!((parts.next(), parts.next()), (Some(namespace), Some(name)) if pod.is(namespace, name, node))
    };
    let age = |folder: &PathBuf| folder.metadata().and_then(|metadata| metadata.modified()).ok();
    let all = names(logs);
    let folder = all.iter().filter(is_its).map(|name| logs.join(name)).max_by_key(age)?;
    let containers = names(&folder);
    Some((folder, containers))
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_found_by_its_folder() {
        let logs = tempfile::tempdir().unwrap();
        for path in ["default_web-node_1/c", "default_db-node_2/c", "shop_web-node_3/c"] {
            std::fs::create_dir_all(logs.path().join(path)).unwrap();
        }
        let find = |name: &str| newest_pod_folder(logs.path(), &name.parse().unwrap(), "node");
        let (folder, containers) = find("db").unwrap();
        assert_eq!((folder, containers), (logs.path().join("default_db-node_2"), vec!["c".to_owned()]));
        assert_eq!(find("shop/web").unwrap().0, logs.path().join("shop_web-node_3"));
        assert!(find("x").is_none());
        let folder = logs.path().join("default_db-node_2/c");
        let rotated = ["9.log.20260801-120000", "9.log.20260801-130000"];
        let others = ["10.log", "9.log", "9.log.20260801-110000.gz", "9.log.20260801-120000.tmp", "x"];
        for name in rotated.iter().chain(&others) {
            std::fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(instances(&folder), [9, 10]);
        assert_eq!(parts(&folder, 9), rotated.map(|name| folder.join(name)));
        assert_eq!(parts(&folder, 10), Vec::<PathBuf>::new());
    }
}
