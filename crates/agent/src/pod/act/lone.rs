//! Ends a container without an agent and without its manifest, using its annotations.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use pleg::Clock;
use rubelet_model::ContainerId;
use tokio::time::{Instant, timeout};

use super::hooks::Hooked;
use crate::pod::grace::left;
use crate::pod::journal::Journal;
use crate::pod::written;
use crate::reach::PodHttp;
use crate::runtime::{CallError, CallFailure, Runtime};

/// The grace period of a container if nothing else is known, in seconds.
const GRACE: u64 = 30;

/// A container that no agent manages.
#[derive(Clone, Debug)]
pub struct LoneContainer<'a> {
    /// Its id.
    pub id: &'a ContainerId,
    /// Its name in the pod.
    pub name: &'a str,
    /// Where its pod can be reached.
    pub ips: Vec<IpAddr>,
}

/// How the end of a container went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndedWithoutAgent {
    /// Nothing went wrong.
    Well,
    /// Its `preStop` hook failed, for this reason.
    HookFailed(String),
}

impl LoneContainer<'_> {
    /// Runs its `preStop` hook and stops it, both within `grace` seconds or, if `None`, the pod's own grace period.
    ///
    /// # Errors
    ///
    /// If the runtime does not stop it.
    pub async fn end<R: Runtime>(
        &self,
        runtime: &R,
        grace: Option<u64>,
    ) -> Result<EndedWithoutAgent, CallError> {
        let mut ended = EndedWithoutAgent::Well;
        // Without time to do anything before it ends, nothing needs to be known.
        let written = if grace == Some(0) { Ok(HashMap::new()) } else { runtime.annotations(self.id).await };
        let annotations = match written {
            Ok(annotations) => annotations,
            Err(error) if error.failure == CallFailure::NotFound => return Ok(ended),
            Err(error) => {
                ended =
                    EndedWithoutAgent::HookFailed(format!("cannot find out whether there is one: {error}"));
                HashMap::new()
            }
        };
        let mut grace = grace.or_else(|| written::grace(&annotations)).unwrap_or(GRACE);
        let container = written::container(self.name, &annotations);
        if let Some(hook) = written::pre_stop(&container).filter(|_| grace > 0) {
            let (http, journal) = (PodHttp::default(), Journal::new(Clock::start()));
            let hooked = Hooked {
                runtime,
                http: &http,
                journal: &journal,
                id: self.id,
                container: &container,
                ips: self.ips.clone(),
            };
            let begun = Instant::now();
            // A hook that runs out of time has not failed: the container's time is over as well.
            if let Ok(Err(error)) = timeout(Duration::from_secs(grace), hooked.run(hook)).await {
                ended = EndedWithoutAgent::HookFailed(error.to_string());
            }
            grace = left(grace, begun.elapsed());
        }
        runtime.stop_container(self.id, Duration::from_secs(grace)).await?;
        Ok(ended)
    }
}
