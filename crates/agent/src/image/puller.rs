//! Asks the runtime for images, a few at a time and not too often.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pleg::Clock;
use rubelet_cri::v1;
use tokio::sync::Semaphore;

use super::docker_config::Credential;
use super::limit::{Bucket, PullRate};
use super::{Credentials, ImageError, Resolved, resolved};
use crate::runtime::{CallError, CallFailure, ImageStore};

/// Fetches images.
#[derive(Debug)]
pub(crate) struct Puller<S> {
    store: Arc<S>,
    at_once: Semaphore,
    bucket: Mutex<Bucket>,
    clock: Clock,
}

/// An image that was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pulled {
    pub(crate) image: Resolved,
    /// In bytes, as the runtime says.
    pub(crate) size: u64,
    /// How long fetching took, without the wait for its turn.
    pub(crate) took: Duration,
    pub(crate) with_waiting: Duration,
}

impl<S: ImageStore> Puller<S> {
    pub(crate) fn new(store: Arc<S>, at_once: usize, rate: PullRate, clock: Clock) -> Self {
        let bucket = Mutex::new(Bucket::new(rate));
        Self { store, at_once: Semaphore::new(at_once.max(1)), bucket, clock }
    }

    /// The image of that name, if it is there.
    pub(crate) async fn present(&self, name: &str) -> Result<Option<Resolved>, ImageError> {
        let image = self.store.image(name).await.map_err(ImageError::Inspect)?;
        Ok(image.map(|image| resolved(image.id.clone(), &image)))
    }

    /// Fetches an image when it is its turn, with each of the credentials that fit until one is good enough.
    pub(crate) async fn pull(
        &self,
        name: &str,
        credentials: &Credentials,
        sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<Pulled, ImageError> {
        let asked = self.clock.stamp();
        // Nobody closes it.
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
        credentials: Vec<Credential>,
        sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<String, ImageError> {
        let mut to_try: Vec<Option<Credential>> = credentials.into_iter().map(Some).collect();
        if to_try.is_empty() {
            to_try.push(None);
        }
        let mut errors: Vec<CallError> = Vec::new();
        for credential in to_try {
            let may_ask = self.bucket.lock().take(self.clock.stamp());
            if !may_ask {
                return Err(ImageError::TooMany);
            }
            match self.store.pull(name, credential.map(auth), sandbox_config.clone()).await {
                Ok(reference) => return Ok(reference),
                Err(error) if errors.contains(&error) => {}
                Err(error) => errors.push(error),
            }
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

/// One error as it is; several as a list.
fn all_in_one(mut errors: Vec<CallError>) -> CallError {
    if errors.len() == 1 {
        return errors.remove(0);
    }
    let messages: Vec<&str> = errors.iter().map(|error| &*error.message).collect();
    let message = format!("[{}]", messages.join(", ")).into();
    CallError { failure: errors.first().map_or(CallFailure::Refused, |error| error.failure), message }
}
