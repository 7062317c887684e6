//! Removes unused images when their disk is full.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pleg::{CacheReader, Clock};

use super::disk;
use super::image_plan::{Candidate, ImageHistory, ImagePolicy};
use crate::metrics::Metrics;
use crate::off_thread::off_thread;
use crate::runtime::{CallError, ImageStore};

/// How often to check.
const PERIOD: Duration = Duration::from_secs(300);

/// How long to wait if not every pod is known, because an unknown one may use any image.
const SOON: Duration = Duration::from_secs(10);

/// How many of these waits pass before each log message.
const WAITS_A_WORD: u32 = 30;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Done,
    /// Not every pod is known.
    TooEarly,
}

/// Removes unused images.
#[derive(Debug)]
pub struct ImageCollector<S> {
    store: Arc<S>,
    cache: CacheReader,
    clock: Clock,
    policy: ImagePolicy,
    history: ImageHistory,
    metrics: Metrics,
}

impl<S: ImageStore> ImageCollector<S> {
    /// Creates a collector for the images of a store; the cache says which are in use.
    pub fn new(
        store: Arc<S>,
        cache: CacheReader,
        clock: Clock,
        policy: ImagePolicy,
        metrics: Metrics,
    ) -> Self {
        Self { store, cache, clock, policy, history: ImageHistory::default(), metrics }
    }

    /// Runs until it is dropped.
    pub async fn run(mut self) {
        let mut waits = 0;
        loop {
            let next = match self.collect().await {
                Ok(Look::Done) => {
                    waits = 0;
                    PERIOD
                }
                Ok(Look::TooEarly) => {
                    waits += 1;
                    if waits % WAITS_A_WORD == 0 {
                        tracing::warn!(
                            "not removing images: a pod cannot be inspected and might use any of them"
                        );
                    }
                    SOON
                }
                Err(error) => {
                    tracing::warn!(%error, "image garbage collection failed");
                    PERIOD
                }
            };
            tokio::time::sleep(next).await;
        }
    }

    async fn collect(&mut self) -> Result<Look, CallError> {
        let images: Vec<Candidate> = self
            .store
            .images()
            .await?
            .into_iter()
            .map(|image| Candidate { id: image.id, size: image.size, is_pinned: image.pinned })
            .collect();
        let of_sandboxes = self.store.sandbox_image().await?;
        let used = self.used(&images, of_sandboxes.as_deref()).await?;
        let Some(used) = used else { return Ok(Look::TooEarly) };
        let now = self.clock.stamp();
        self.history.observe(&images, &used, now);
        let Some(place) = self.store.image_folder().await? else { return Ok(Look::Done) };
        let Some(room) = room(place).await else { return Ok(Look::Done) };
        let (remove, missing) = self.history.to_remove(&images, &used, room, self.policy, now);
        let mut stuck = 0;
        for id in &remove {
            // Removing images takes long, and pods start in the meantime. An image is known to be in use once its
            // container is created; if it is removed just before, the creation fails, and the image is pulled again,
            // unless its policy is never to.
            let used = self.used(&images, of_sandboxes.as_deref()).await?;
            let Some(used) = used else { return Ok(Look::TooEarly) };
            if used.contains(id) {
                continue;
            }
            tracing::info!(image = id, "removing an unused image to free disk space");
            match self.store.remove_image(id).await {
                Ok(()) => self.metrics.image_collected(),
                Err(error) => {
                    tracing::warn!(image = id, %error, "cannot remove an unused image");
                    stuck += images.iter().find(|image| image.id == *id).map_or(0, |image| image.size);
                }
            }
        }
        let missing = missing + stuck;
        if missing > 0 {
            let mib = missing >> 20;
            tracing::warn!(
                "the image disk needs {mib} MiB more free space, but there is no unused image left to remove"
            );
        }
        Ok(Look::Done)
    }

    /// Returns the IDs of the images that containers, running or not, and sandboxes were created from; `None` while not
    /// every pod is known.
    async fn used(
        &self,
        images: &[Candidate],
        of_sandboxes: Option<&str>,
    ) -> Result<Option<BTreeSet<String>>, CallError> {
        let Some(pods) = self.cache.whole() else { return Ok(None) };
        let references: BTreeSet<String> = pods
            .iter()
            .flat_map(|status| &status.containers)
            .map(|container| container.image_ref.to_string())
            .chain(of_sandboxes.map(str::to_owned))
            .filter(|reference| !reference.is_empty())
            .collect();
        let mut used = BTreeSet::new();
        for reference in references {
            if images.iter().any(|image| image.id == reference) {
                used.insert(reference);
            } else if let Some(image) = self.store.image(&reference).await? {
                used.insert(image.id);
            }
        }
        Ok(Some(used))
    }
}

async fn room(place: PathBuf) -> Option<super::image_plan::Room> {
    let shown = place.clone();
    match off_thread(move || disk::room(&place)).await {
        Ok(room) => Some(room),
        Err(error) => {
            tracing::warn!(folder = %shown.display(), %error, "cannot determine how full the image disk is");
            None
        }
    }
}

#[cfg(test)]
mod tests;
