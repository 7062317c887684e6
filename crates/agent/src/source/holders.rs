//! The holders of names and UIDs: which file has which one, if several files claim it.
//!
//! A file keeps what it has had: a copy of a manifest must not end the pod of the original. This must survive restarts
//! of the agent, so it is written to disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use crate::manifest::{Issue, Manifest, ObjectKey, Problem};

/// Something that only one file of a source can have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Claim {
    Pod(ObjectKey),
    Uid(String),
    ConfigMap(ObjectKey),
    Secret(ObjectKey),
}

impl Claim {
    pub(super) fn all_of(manifest: &Manifest) -> impl Iterator<Item = Vec<Self>> {
        let maps = manifest.objects.config_maps.keys().map(|key| vec![Self::ConfigMap(key.clone())]);
        let secrets = manifest.objects.secrets.keys().map(|key| vec![Self::Secret(key.clone())]);
        manifest.pods.iter().map(|pod| Self::of_pod(pod)).chain(maps).chain(secrets)
    }

    pub(super) fn of_pod(pod: &Pod) -> Vec<Self> {
        vec![Self::Pod(key(pod)), Self::Uid(pod.metadata.uid.clone().unwrap_or_default())]
    }
}

/// The claims of one object in a file: an object that does not get all that it claims gets nothing.
pub(super) type Claimant<'a> = (&'a Path, Vec<Claim>);

/// Maps every claim to the file that holds it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Holders(BTreeMap<Claim, PathBuf>);

impl Holders {
    /// Returns the new holders: first come the claimants that already hold some of their claims, then newcomers in
    /// their order, and last those that want what another one holds.
    pub(super) fn among(&self, claimants: &[Claimant<'_>]) -> Self {
        let all = claimants.iter().flat_map(|(path, claims)| claims.iter().map(move |claim| (claim, *path)));
        let had: BTreeMap<&Claim, &Path> =
            all.filter(|(claim, path)| self.holder(claim) == Some(path)).collect();
        let mut in_order: Vec<&Claimant<'_>> = claimants.iter().collect();
        in_order.sort_by_key(|(path, claims)| {
            let mut holders = claims.iter().filter_map(|claim| had.get(claim)).peekable();
            let is_new = holders.peek().is_none();
            (holders.any(|holder| holder != path), is_new)
        });
        let mut next = Self::default();
        for (path, claims) in in_order {
            if claims.iter().all(|claim| next.holder(claim).is_none_or(|holder| holder == *path)) {
                next.0.extend(claims.iter().map(|claim| (claim.clone(), path.to_path_buf())));
            }
        }
        next
    }

    pub(super) fn holds(&self, path: &Path, claims: &[Claim]) -> bool {
        claims.iter().all(|claim| self.holder(claim) == Some(path))
    }

    /// Returns why an object of the file at `path` cannot be used, if so.
    pub(super) fn problem(&self, path: &Path, claims: &[Claim]) -> Option<Problem> {
        let is_taken = |claim: &&Claim| self.holder(claim).is_some_and(|holder| holder != path);
        let taken = claims.iter().find(is_taken)?;
        let issue = match taken {
            Claim::Uid(uid) => Issue::DuplicateUid(uid.clone()),
            Claim::Pod(_) | Claim::ConfigMap(_) | Claim::Secret(_) => {
                Issue::DuplicateOf(self.holder(taken)?.to_string_lossy().into_owned())
            }
        };
        let about = claims.iter().find_map(|claim| match claim {
            Claim::Pod(key) => Some(format!("Pod {key}")),
            Claim::ConfigMap(key) => Some(format!("ConfigMap {key}")),
            Claim::Secret(key) => Some(format!("Secret {key}")),
            Claim::Uid(_) => None,
        });
        Some(Problem::error(path.to_string_lossy(), issue).about(about?))
    }

    /// Returns a text that [`read`](Self::read) can parse. Paths that are not UTF-8 are left out.
    pub(super) fn written(&self) -> Vec<u8> {
        let all: Vec<(&Claim, &str)> =
            self.0.iter().filter_map(|(claim, path)| Some((claim, path.to_str()?))).collect();
        serde_json::to_vec(&all).unwrap_or_default()
    }

    /// Parses what [`written`](Self::written) returned. A text that cannot be parsed means that there are no holders.
    pub(super) fn read(text: &[u8]) -> Self {
        let all: Vec<(Claim, PathBuf)> = serde_json::from_slice(text).unwrap_or_default();
        Self(all.into_iter().collect())
    }

    fn holder(&self, claim: &Claim) -> Option<&Path> {
        self.0.get(claim).map(PathBuf::as_path)
    }
}

pub(super) fn key(pod: &Pod) -> ObjectKey {
    let meta = &pod.metadata;
    ObjectKey::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a:web/1`: the file `a` has a pod with that name and UID.
    fn claimants(texts: &str) -> Vec<(PathBuf, Vec<Claim>)> {
        let one = |text: &str| {
            let (path, pod) = text.split_once(':').expect("a path");
            let (name, uid) = pod.split_once('/').expect("a UID");
            (path.into(), vec![Claim::Pod(ObjectKey::new("default", name)), Claim::Uid(uid.to_owned())])
        };
        texts.split_whitespace().map(one).collect()
    }

    fn among(holders: &Holders, claimants: &[(PathBuf, Vec<Claim>)]) -> Holders {
        let claimants: Vec<_> =
            claimants.iter().map(|(path, claims)| (path.as_path(), claims.clone())).collect();
        holders.among(&claimants)
    }

    #[test]
    fn who_has_had_something_keeps_it() {
        // before → now → which files are used
        for (before, now, used) in [
            ("", "a:web/1 b:web/2", "a"),
            ("b:web/2", "a:web/1 b:web/2", "b"),
            ("b:web/2", "a:web/1 b:web/3", "b"),
            ("b:web/2", "a:web/1 b:shop/2", "a b"),
            ("b:web/2", "a:web/1", "a"),
            ("b:web/1", "a:shop/1 b:web/1", "b"),
            ("a:web/1 b:shop/2", "a:web/2 b:shop/2", "b"),
            // A refused object takes nothing, nor does it keep others out.
            ("a:web/1", "a:web/1 b:web/2 c:shop/2", "a c"),
            ("b:web/2", "a:shop/3 b:web/3", "b"),
        ] {
            let holders = among(&Holders::default(), &claimants(before));
            let holders = Holders::read(&holders.written());
            let now = claimants(now);
            let holders = among(&holders, &now);
            let (in_use, refused): (Vec<_>, Vec<_>) =
                now.iter().partition(|(path, claims)| holders.holds(path, claims));
            let files: Vec<_> = in_use.iter().map(|(path, _)| path.to_string_lossy()).collect();
            assert_eq!(files.join(" "), used, "{before} → {now:?}");
            assert!(in_use.iter().all(|(path, claims)| holders.problem(path, claims).is_none()));
            assert!(refused.iter().all(|(path, claims)| holders.problem(path, claims).is_some()));
        }
    }

    #[test]
    fn what_cannot_be_understood_is_nothing() {
        assert_eq!(Holders::read(b"[[\"web\""), Holders::default());
    }
}
