//! An index of objects by the label with their pod's UID, which is what agents filter by most.
//!
//! Real runtimes scan everything for this. If a test server did, every experiment with many pods would measure the
//! server.

use std::collections::{BTreeSet, HashMap};

use super::kubelet::POD_UID_LABEL;

/// Ids by the value of one label.
#[derive(Debug)]
pub(super) struct LabelIndex<I> {
    by_uid: HashMap<String, BTreeSet<I>>,
}

impl<I> Default for LabelIndex<I> {
    fn default() -> Self {
        Self { by_uid: HashMap::new() }
    }
}

impl<I: Ord> LabelIndex<I> {
    pub(super) fn insert(&mut self, labels: &HashMap<String, String>, id: I) {
        if let Some(uid) = labels.get(POD_UID_LABEL) {
            self.by_uid.entry(uid.clone()).or_default().insert(id);
        }
    }

    pub(super) fn remove(&mut self, labels: &HashMap<String, String>, id: &I) {
        let Some(uid) = labels.get(POD_UID_LABEL) else { return };
        if let Some(ids) = self.by_uid.get_mut(uid) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_uid.remove(uid);
            }
        }
    }

    /// Returns the candidates for a selector, if this index narrows them down.
    pub(super) fn narrow(
        &self,
        selector: &HashMap<String, String>,
    ) -> Option<impl Iterator<Item = &I> + use<'_, I>> {
        let uid = selector.get(POD_UID_LABEL)?;
        Some(self.by_uid.get(uid).into_iter().flatten())
    }
}
