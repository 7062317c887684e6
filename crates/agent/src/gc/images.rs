//! Removes images that nobody uses when their disk is full.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pleg::{CacheReader, Clock};
use tokio::time::MissedTickBehavior;

use super::disk;
use super::image_plan::{Candidate, ImageHistory, ImagePolicy};
use crate::runtime::{CallError, ImageStore};

/// How often to look.
const PERIOD: Duration = Duration::from_secs(300);

/// Removes images that nobody uses.
#[derive(Debug)]
pub struct ImageCollector<S> {
    store: Arc<S>,
    cache: CacheReader,
    clock: Clock,
    policy: ImagePolicy,
    history: ImageHistory,
}

impl<S: ImageStore> ImageCollector<S> {
    /// A collector for the images of a store; the cache tells which are in use.
    pub fn new(store: Arc<S>, cache: CacheReader, clock: Clock, policy: ImagePolicy) -> Self {
        Self { store, cache, clock, policy, history: ImageHistory::default() }
    }

    /// Runs until it is dropped.
    pub async fn run(mut self) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.collect().await {
                tracing::warn!(%error, "images could not be looked after");
            }
        }
    }

    async fn collect(&mut self) -> Result<(), CallError> {
        let images: Vec<Candidate> = self
            .store
            .images()
            .await?
            .into_iter()
            .map(|image| Candidate { id: image.id, size: image.size, is_pinned: image.pinned })
            .collect();
        let used = self.used(&images).await?;
        let now = self.clock.stamp();
        self.history.observe(&images, &used, now);
        let Some(place) = self.store.image_folder().await? else { return Ok(()) };
        let Some(room) = room(place).await else { return Ok(()) };
        let (remove, missing) = self.history.to_remove(&images, &used, room, self.policy, now);
        for id in &remove {
            tracing::info!(image = id, "removing an image that nobody uses, to make room");
            self.store.remove_image(id).await?;
        }
        if missing > 0 {
            let mib = missing >> 20;
            tracing::warn!(
                "the disk of the images is too full by {mib} MiB, and there is no unused image left to remove"
            );
        }
        Ok(())
    }

    /// The ids of images that containers were made from, running or not.
    async fn used(&self, images: &[Candidate]) -> Result<BTreeSet<String>, CallError> {
        let statuses = self.cache.all().into_iter().filter_map(|(_, status)| status.ok());
        let references: BTreeSet<String> = statuses
            .flat_map(|status| status.containers.clone())
            .map(|container| container.image_ref.to_string())
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
        Ok(used)
    }
}

async fn room(place: PathBuf) -> Option<super::image_plan::Room> {
    let shown = place.clone();
    match tokio::task::spawn_blocking(move || disk::room(&place)).await {
        Ok(Ok(room)) => Some(room),
        Ok(Err(error)) => {
            tracing::warn!(folder = %shown.display(), %error, "cannot see how full the disk of the images is");
            None
        }
        Err(panicked) => {
            tracing::error!(%panicked, "looking at the disk of the images failed");
            None
        }
    }
}
