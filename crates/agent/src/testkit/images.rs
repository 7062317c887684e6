//! The images of the runtime in memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rubelet_cri::v1;

use super::{FakeRuntime, refused};
use crate::runtime::{CallError, CallFailure, ImageStore};

impl FakeRuntime {
    /// Makes an image unavailable, or available again.
    pub(crate) fn image_is_absent(&self, name: &str, is_absent: bool) {
        let mut world = self.0.lock();
        if is_absent {
            world.absent_images.insert(name.to_owned());
        } else {
            world.absent_images.remove(name);
        }
    }

    /// Adds an image that is built into the runtime, and that no registry has.
    pub(crate) fn image_is_built_in(&self, name: &str) {
        self.0.lock().built_in_images.insert(name.to_owned());
    }

    /// Stores these images, in this folder.
    pub(crate) fn keeps_images(&self, ids: &[&str], folder: &Path) {
        let mut world = self.0.lock();
        let image = |id: &&str| v1::Image { id: (*id).to_owned(), size: 4_096, ..v1::Image::default() };
        world.images = ids.iter().map(image).collect();
        world.image_folder = Some(folder.to_owned());
    }

    /// Makes an image impossible to remove.
    pub(crate) fn image_is_stuck(&self, id: &str) {
        self.0.lock().stuck_images.insert(id.to_owned());
    }

    /// Makes pulls take this long before they succeed or fail.
    pub(crate) fn pulls_take(&self, time: Duration) {
        self.0.lock().pulls_take = time;
    }

    /// Sets the image that sandboxes are created from.
    pub(crate) fn makes_sandboxes_from(&self, id: &str) {
        self.0.lock().sandbox_image = Some(id.to_owned());
    }

    /// Lets only this user pull images from now on.
    pub(crate) fn let_in(&self, user: &str) {
        self.0.lock().lets_in = Some(user.to_owned());
    }
}

impl ImageStore for FakeRuntime {
    async fn image(&self, name: &str) -> Result<Option<v1::Image>, CallError> {
        let world = self.0.lock();
        if let Some(error) = world.fails.get("image") {
            return Err(error.clone());
        }
        let is_there = !world.absent_images.contains(name);
        let pinned = world.built_in_images.contains(name);
        let image = || v1::Image { id: "sha256:1".to_owned(), size: 4_096, pinned, ..v1::Image::default() };
        Ok(is_there.then(image))
    }

    async fn pull(
        &self,
        name: &str,
        auth: Option<v1::AuthConfig>,
        _: v1::PodSandboxConfig,
    ) -> Result<String, CallError> {
        let user = auth.map(|auth| auth.username);
        let words = user.as_ref().map_or(format!("pull {name}"), |user| format!("pull {name} as {user}"));
        self.call("pull", words).await?;
        let takes = self.0.lock().pulls_take;
        tokio::time::sleep(takes).await;
        if self.0.lock().lets_in.as_ref().is_some_and(|wanted| user.as_ref() != Some(wanted)) {
            return Err(refused(&format!("no pull for {}", user.unwrap_or_else(|| "nobody".to_owned()))));
        }
        if self.0.lock().absent_images.contains(name) {
            return Err(CallError { failure: CallFailure::NotFound, message: "no such image".into() });
        }
        Ok("sha256:1".to_owned())
    }

    async fn sandbox_image(&self) -> Result<Option<String>, CallError> {
        Ok(self.0.lock().sandbox_image.clone())
    }

    async fn images(&self) -> Result<Vec<v1::Image>, CallError> {
        Ok(self.0.lock().images.clone())
    }

    async fn image_folder(&self) -> Result<Option<PathBuf>, CallError> {
        Ok(self.0.lock().image_folder.clone())
    }

    async fn remove_image(&self, id: &str) -> Result<(), CallError> {
        self.call("remove_image", format!("remove image {id}")).await?;
        // As long as a large one takes.
        tokio::time::sleep(Duration::from_secs(10)).await;
        if self.0.lock().stuck_images.contains(id) {
            return Err(refused("it is in use"));
        }
        self.0.lock().images.retain(|image| image.id != id);
        Ok(())
    }
}
