//! The paths of logs: `<namespace>_<name>_<uid>/<container>/<number>.log`.

use std::path::{Path, PathBuf};

use crate::pods::{NotOne, PodName, Row};

/// Returns the numbers of a container's instances that have logs, oldest first.
pub(crate) fn instances(folder: &Path) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        names(folder).iter().filter_map(|name| name.strip_suffix(".log")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Returns the rotated parts of an instance's log, oldest first, without compressed ones.
pub(super) fn parts(folder: &Path, number: u32) -> Vec<PathBuf> {
    let prefix = format!("{number}.log.");
    let is_plain = |name: &&String| {
        name.strip_prefix(&prefix).is_some_and(|moment| !moment.ends_with(".gz") && !moment.ends_with(".tmp"))
    };
    names(folder).iter().filter(is_plain).map(|name| folder.join(name)).collect()
}

/// The logs of a pod.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PodLogs {
    pub(crate) uid: String,
    pub(crate) folder: PathBuf,
    pub(crate) containers: Vec<String>,
}

/// Finds the newest logs of a pod.
pub(crate) fn newest_pod_logs(logs: &Path, pod: &PodName, node: &str) -> Result<PodLogs, NotOne> {
    let age = |name: &String| logs.join(name).metadata().and_then(|metadata| metadata.modified()).ok();
    let mut folders = names(logs);
    folders.sort_by_cached_key(|name| std::cmp::Reverse(age(name)));
    let mut rows: Vec<Row> = Vec::new();
    for folder in &folders {
        let [namespace, name, uid] = folder.splitn(3, '_').collect::<Vec<_>>()[..] else { continue };
        let yields = rows.iter().any(|newer| newer.namespace == namespace && newer.name == name);
        let (namespace, name, uid) = (namespace.to_owned(), name.to_owned(), uid.to_owned());
        rows.push(Row { namespace, name, uid, yields, ..Row::default() });
    }
    let Row { namespace, name, uid, .. } = pod.find(&rows, node)?;
    let folder = logs.join(format!("{namespace}_{name}_{uid}"));
    Ok(PodLogs { uid: uid.clone(), containers: names(&folder), folder })
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
        let folders =
            ["default_web-node_1", "default_db-node_2", "shop_web-node_3", "default_db-node_4", "x"];
        for (age, folder) in folders.iter().enumerate() {
            std::fs::create_dir_all(logs.path().join(folder).join("c")).unwrap();
            let moment = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000 - age as u64);
            std::fs::File::open(logs.path().join(folder)).unwrap().set_modified(moment).unwrap();
        }
        let find = |name: &str| newest_pod_logs(logs.path(), &name.parse().unwrap(), "node");
        let db = PodLogs {
            uid: "2".to_owned(),
            folder: logs.path().join("default_db-node_2"),
            containers: vec!["c".to_owned()],
        };
        assert_eq!(find("db").unwrap(), db, "the newest");
        assert_eq!(find("4").unwrap().folder, logs.path().join("default_db-node_4"), "by its UID");
        assert_eq!(find("shop/web").unwrap().folder, logs.path().join("shop_web-node_3"));
        let error = find("web").unwrap_err().to_string();
        assert_eq!(error, "web is ambiguous: default/web-node or shop/web-node");
        assert!(matches!(find("x"), Err(NotOne::None { .. })));
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
