//! The files of volumes are brought up to date beside everything else: a disk that hangs keeps nobody from seeing that a
//! container has ended, nor from starting it again.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::PodStatus;
use tokio::task::JoinHandle;

use super::Actor;
use crate::off_thread::joined;
use crate::pod::act::refresh_volumes;
use crate::runtime::{ImageStore, Runtime};

/// A refresh that is under way. Dropping this ends it, but for what a thread is at: whoever takes the pod down waits for that.
pub(super) struct Refresh(JoinHandle<bool>);

impl Drop for Refresh {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Refresh {
    /// Waits for the end of a refresh, if one is under way: whether everything is up to date. Losing this future loses
    /// nothing.
    pub(super) async fn over(this: &mut Option<Self>) -> bool {
        let Some(Self(task)) = this else { return std::future::pending().await };
        let is_up_to_date = joined(task).await;
        *this = None;
        is_up_to_date
    }
}

impl<R: Runtime + ImageStore> Actor<R> {
    /// Has the files of volumes brought up to date, unless that is under way: then it is done again after that.
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
