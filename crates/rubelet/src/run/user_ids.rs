//! The ids of this machine that pods with user namespaces may use.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use rubelet_agent::user_ids::{IdPool, IdPoolError};

/// The number of ids that a kubelet gives a pod.
const USUAL: u32 = 65_536;
/// The user whose subordinate ids are for pods, if an administrator has set some aside.
const USER: &str = "kubelet";

/// Returns the ids set aside for the user `kubelet`, if that user and the program `getsubids` exist; else all ids but
/// the lowest.
pub(super) fn pool(ids_per_pod: Option<u32>, most_pods: usize) -> Result<IdPool, IdPoolError> {
    let per_pod = ids_per_pod.unwrap_or(USUAL);
    let subids = if has_user(Path::new("/etc/passwd")) { subids()? } else { None };
    match subids {
        Some((users, groups)) => IdPool::of_subids(&users, &groups, per_pod, most_pods),
        None => IdPool::with_ids_per_pod(per_pod, most_pods),
    }
}

fn has_user(passwd: &Path) -> bool {
    // User names may be in any encoding.
    let text = std::fs::read(passwd).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().any(|line| line.split(':').next() == Some(USER))
}

/// Returns what `getsubids` prints for users and for groups; `None` if there is no such program.
fn subids() -> Result<Option<(String, String)>, IdPoolError> {
    let asked = |options: &[&str]| match Command::new("getsubids").args(options).arg(USER).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(IdPoolError::Unasked(error.to_string())),
        Ok(said) if said.status.success() => Ok(Some(String::from_utf8_lossy(&said.stdout).into_owned())),
        Ok(said) => {
            let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
            Err(IdPoolError::Unasked(if why.is_empty() { said.status.to_string() } else { why }))
        }
    };
    Ok(asked(&[])?.zip(asked(&["-g"])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_name_is_the_user() {
        let folder = tempfile::tempdir().unwrap();
        let passwd = folder.path().join("passwd");
        assert!(!has_user(&passwd));
        for (line, is_there) in [("kubelet2:x:1:1::/:/bin/sh", false), ("kubelet:x:1:1::/:/bin/sh", true)] {
            std::fs::write(&passwd, format!("root:x:0:0::/root:/bin/sh\n{line}\n")).unwrap();
            assert_eq!(has_user(&passwd), is_there, "{line}");
        }
        std::fs::write(&passwd, b"ann:x:1:1:M\xfcller:/:/bin/sh\nkubelet:x:2:2::/:/bin/sh\n").unwrap();
        assert!(has_user(&passwd), "names of others are in any encoding");
    }
}
