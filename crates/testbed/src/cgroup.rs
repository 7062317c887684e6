//! Removal of the control groups of containers that were killed while their runtime was not there to do it.

use std::path::{Path, PathBuf};

use crate::teardown::Task;

pub(crate) const HIERARCHIES: &str = "/sys/fs/cgroup";
/// CRI uses random ids of this length; anything shorter could be somebody else's name.
const UNMISTAKABLE: usize = 64;

/// Best effort: an empty group costs nothing, and the kernel refuses to remove any other.
pub(crate) fn remove(tasks: &[Task]) {
    if !tasks.is_empty() {
        remove_below(Path::new(HIERARCHIES), tasks);
    }
}

fn remove_below(group: &Path, tasks: &[Task]) {
    for child in children(group) {
        if tasks.iter().any(|task| is_of(task, &child)) {
            remove_tree(&child);
        } else {
            remove_below(&child, tasks);
        }
    }
}

fn is_of(task: &Task, group: &Path) -> bool {
    let named =
        |path: Option<&Path>, name: &str| path.and_then(Path::file_name).is_some_and(|found| found == name);
    named(Some(group), &task.id) && (task.id.len() == UNMISTAKABLE || named(group.parent(), &task.namespace))
}

fn remove_tree(group: &Path) {
    for child in children(group) {
        remove_tree(&child);
    }
    let _ = std::fs::remove_dir(group);
}

/// Returns the groups directly below this one.
pub(crate) fn children(group: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(group).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::is_of;
    use crate::teardown::Task;

    #[test]
    fn a_short_id_counts_only_below_its_namespace() {
        let named = |id: &str| Task { namespace: "k8s.io".to_owned(), id: id.to_owned() };
        assert!(is_of(&named("web"), Path::new("/sys/fs/cgroup/cpu/k8s.io/web")));
        assert!(!is_of(&named("web"), Path::new("/sys/fs/cgroup/cpu/system/web")));
        let long = "a".repeat(64);
        assert!(is_of(&named(&long), &Path::new("/sys/fs/cgroup/cpu/pods/pod1").join(&long)));
    }
}
