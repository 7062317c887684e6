//! Volume files are updated alongside everything else: a disk that hangs delays neither noticing that a container has
//! ended nor starting it again.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::PodStatus;
use tokio::task::JoinHandle;

use super::Actor;
use crate::off_thread::joined;
use crate::pod::act::refresh_volumes;
use crate::runtime::{ImageStore, Runtime};

/// A refresh in progress. Dropping this ends it, except for what a thread is doing: taking down the pod waits for that.
pub(super) struct Refresh(JoinHandle<bool>);

impl Drop for Refresh {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Refresh {
    /// Waits for the end of the refresh in progress (for ever if there is none), and returns whether everything is up
    /// to date. Cancel-safe.
    pub(super) async fn over(this: &mut Option<Self>) -> bool {
        let Some(Self(task)) = this else { return std::future::pending().await };
        let is_up_to_date = joined(task).await;
        *this = None;
        is_up_to_date
    }
}

impl<R: Runtime + ImageStore> Actor<R> {
    /// Starts to update the files of volumes, unless a refresh is in progress: then they are updated again after it.
    pub(super) fn begin_refresh(&mut self, pod: &Arc<Pod>, status: &PodStatus) {
        if self.refresh.is_some() {
            return;
        }
        self.refresh_volumes = false;
        let refreshing = refresh_volumes(
            self.tools.clone(),
            pod.clone(),
            self.objects.clone(),
            status.ips.clone(),
            self.journal.clone(),
            self.unbroken.volumes.clone(),
        );
        self.refresh = Some(Refresh(tokio::spawn(refreshing)));
    }
}
