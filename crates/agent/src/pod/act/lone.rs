//! Ends a container without an agent, and without its manifest: by what is written on it.

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

/// How long a container gets if nobody says, in seconds.
const GRACE: u64 = 30;

/// A container that no agent cares for.
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
    /// As it wanted to.
    Well,
    /// Its `preStop` hook failed, for this reason.
    HookFailed(String),
}

impl LoneContainer<'_> {
    /// Runs its `preStop` hook and stops it, both within `grace` seconds, or the time that its pod grants.
    ///
    /// # Errors
    /// If the runtime does not stop it.
    pub async fn end<R: Runtime>(
        &self,
        runtime: &R,
        grace: Option<u64>,
    ) -> Result<EndedWithoutAgent, CallError> {
        let mut ended = EndedWithoutAgent::Well;
        // With no time to do anything before it ends, nothing need be known.
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
            // One whose time is over has not failed: the container's is over, too.
            if let Ok(Err(error)) = timeout(Duration::from_secs(grace), hooked.run(hook)).await {
                ended = EndedWithoutAgent::HookFailed(error.to_string());
            }
            grace = left(grace, begun.elapsed());
        }
        runtime.stop_container(self.id, Duration::from_secs(grace)).await?;
        Ok(ended)
    }
}
