//! User ids of its own for a pod that asks for them.

use super::Work;
use crate::disk::Hangs;
use crate::pod::spec;
use crate::runtime::{ImageStore, Runtime};
use crate::user_ids::{IdRange, UserIdsError};

/// Why a pod cannot have users of its own. Where the kubelet has a text for it, that is used.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoUsers {
    #[error("can't set `spec.hostUsers: false`, runtime does not support user namespaces")]
    NotHere,
    #[error(transparent)]
    Ids(#[from] UserIdsError),
    #[error(transparent)]
    Hangs(#[from] Hangs),
}

impl<R: Runtime + ImageStore> Work<'_, R> {
    /// Returns the ids of the host that the pod's users have; `None` if it shares those of the host.
    pub(super) async fn users(&self) -> Result<Option<IdRange>, NoUsers> {
        if !spec::has_own_users(self.pod) {
            return Ok(None);
        }
        if !self.tools.settings.admission.runtime.user_namespaces {
            return Err(NoUsers::NotHere);
        }
        let (tools, uid) = (self.tools.clone(), spec::uid(self.pod));
        Ok(Some(self.with_files("its user IDs", move || tools.user_ids.of_pod(&uid)).await??))
    }
}
