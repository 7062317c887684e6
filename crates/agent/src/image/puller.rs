//! Pulls images through the runtime, a few at a time and not too often.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pleg::Clock;
use rubelet_cri::v1;
use tokio::sync::Semaphore;

use super::credentials::{MOST_TRIED, ToTry};
use super::docker_config::Credential;
use super::limit::Bucket;
use super::{Credentials, ImageError, PullPolicy, Resolved, resolved};
use crate::runtime::{CallError, CallFailure, ImageStore};
use crate::settings::Settings;

/// Pulls images.
#[derive(Debug)]
pub(crate) struct Puller<S> {
    store: Arc<S>,
    at_once: Semaphore,
    bucket: Mutex<Bucket>,
    has_built_in_images: bool,
    clock: Clock,
}

/// An image that was pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pulled {
    pub(crate) image: Resolved,
    /// In bytes, according to the runtime.
    pub(crate) size: u64,
    /// How long the pull took, without the wait for its turn.
    pub(crate) took: Duration,
    pub(crate) with_waiting: Duration,
}

impl<S: ImageStore> Puller<S> {
    pub(crate) fn new(store: Arc<S>, settings: &Settings, clock: Clock) -> Self {
        Self {
            store,
            at_once: Semaphore::new(settings.parallel_pulls.max(1)),
            bucket: Mutex::new(Bucket::new(settings.pull_rate)),
            has_built_in_images: settings.has_built_in_images,
            clock,
        }
    }

    /// Returns the image of that name, if it exists and the policy does not require asking a registry for another.
    pub(crate) async fn present(
        &self,
        name: &str,
        policy: PullPolicy,
    ) -> Result<Option<Resolved>, ImageError> {
        let image = self.store.image(name).await.map_err(ImageError::Inspect)?;
        let usable = image.filter(|image| policy != PullPolicy::Always || self.is_built_in(image));
        Ok(usable.map(|image| resolved(image.id.clone(), &image)))
    }

    /// Whether an image came with the runtime: it is pinned and from no registry, so there is nothing to pull. In other
    /// runtimes, an image that was imported and pinned looks the same.
    fn is_built_in(&self, image: &v1::Image) -> bool {
        self.has_built_in_images && image.pinned && image.repo_digests.is_empty()
    }

    /// Pulls an image when it is its turn, trying each of the matching credentials until one is accepted.
    pub(crate) async fn pull(
        &self,
        name: &str,
        credentials: &Credentials,
        sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<Pulled, ImageError> {
        let asked = self.clock.stamp();
        // The semaphore is never closed.
        let _turn = self.at_once.acquire().await;
        let begun = self.clock.stamp();
        let reference = self.try_all(name, credentials.for_image(name), sandbox_config).await?;
        let image = self.store.image(&reference).await.map_err(ImageError::Inspect)?.unwrap_or_default();
        let now = self.clock.stamp();
        Ok(Pulled {
            size: image.size,
            image: resolved(reference, &image),
            took: begun.until(now),
            with_waiting: asked.until(now),
        })
    }

    async fn try_all(
        &self,
        name: &str,
        ToTry { credentials, left_out }: ToTry,
        sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<String, ImageError> {
        let mut to_try: Vec<Option<Credential>> = credentials.into_iter().map(Some).collect();
        if to_try.is_empty() {
            to_try.push(None);
        }
        let may_ask = self.bucket.lock().take(self.clock.stamp());
        if !may_ask {
            return Err(ImageError::TooMany);
        }
        let mut errors: Vec<CallError> = Vec::new();
        for credential in to_try {
            match self.store.pull(name, credential.map(auth), sandbox_config.clone()).await {
                Ok(reference) => return Ok(reference),
                Err(error) if errors.contains(&error) => {}
                Err(error) => errors.push(error),
            }
        }
        if left_out > 0 {
            let message =
                format!("{left_out} more credentials are not tried: {MOST_TRIED} are, at most").into();
            errors.push(CallError { failure: CallFailure::Refused, message });
        }
        Err(ImageError::of_pull(name, all_in_one(errors)))
    }
}

fn auth(credential: Credential) -> v1::AuthConfig {
    v1::AuthConfig {
        username: credential.username,
        password: credential.password,
        ..v1::AuthConfig::default()
    }
}

/// Combines errors: one stays as it is, several become a list.
fn all_in_one(mut errors: Vec<CallError>) -> CallError {
    if errors.len() == 1 {
        return errors.remove(0);
    }
    let messages: Vec<&str> = errors.iter().map(|error| &*error.message).collect();
    let message = format!("[{}]", messages.join(", ")).into();
    CallError { failure: errors.first().map_or(CallFailure::Refused, |error| error.failure), message }
}
