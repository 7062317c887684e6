//! Makes sure that the image of a container is present.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use pleg::{GoDuration, Stamp};
use rubelet_cri::v1;

use super::Work;
use crate::image::{Credentials, ImageError, PullPolicy, Pulled, Resolved, full_name, node_config};
use crate::runtime::{ImageStore, Runtime};

/// Why there is no image, and when to try again.
#[derive(Debug)]
pub(super) struct NoImage {
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) retry_at: Stamp,
}

impl<R: Runtime + ImageStore> Work<'_, R> {
    /// Returns the image of a container, pulled if its policy says so.
    pub(super) async fn image(
        &mut self,
        container: &Container,
        sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<Resolved, NoImage> {
        let wanted = container.image.as_deref().unwrap_or_default();
        let name = match full_name(wanted) {
            Ok(name) => name,
            Err(why) => {
                let error = ImageError::InvalidName { name: wanted.to_owned(), why };
                let message = format!("Failed to apply default image tag {wanted:?}: {error}");
                self.journal.warning(Some(&container.name), "InspectFailed", message.clone());
                return Err(self.without(&error, message));
            }
        };
        let policy = PullPolicy::of(container);
        match self.tools.puller.present(&name, policy).await {
            Ok(Some(image)) => {
                let message = format!(
                    "Container image {wanted:?} already present on machine and can be accessed by the pod"
                );
                self.journal.normal(Some(&container.name), "Pulled", message);
                return Ok(image);
            }
            Ok(None) if policy == PullPolicy::Never => {
                let error = ImageError::NeverPull(wanted.to_owned());
                let message = error.to_string();
                self.journal.warning(Some(&container.name), error.reason(), message.clone());
                return Err(self.without(&error, message));
            }
            Ok(None) => {}
            // What is present does not matter: it is pulled again.
            Err(_) if policy == PullPolicy::Always => {}
            Err(error) => {
                let message = format!("Failed to inspect image {wanted:?}: {error}");
                self.journal.warning(Some(&container.name), "InspectFailed", message.clone());
                return Err(self.without(&error, message));
            }
        }
        self.pull(container, wanted, &name, sandbox_config).await
    }

    async fn pull(
        &mut self,
        container: &Container,
        wanted: &str,
        name: &str,
        sandbox_config: &v1::PodSandboxConfig,
    ) -> Result<Resolved, NoImage> {
        if let Some(wait) = self.memory.pulls.wait_since_failure(name, self.now()) {
            let mut message = format!("Back-off pulling image {wanted:?}");
            self.journal.normal(Some(&container.name), "BackOff", message.clone());
            if let Some(before) = self.memory.pull_errors.get(name) {
                message = format!("{message}: {before}");
            }
            return Err(NoImage { reason: "ImagePullBackOff", message, retry_at: wait.until });
        }
        self.journal.normal(Some(&container.name), "Pulling", format!("Pulling image {wanted:?}"));
        let begun = self.now();
        let fetched = self.fetch(name, sandbox_config).await;
        self.memory.pulling += begun.until(self.now());
        match fetched {
            Ok(pulled) => {
                self.memory.pulls.forget(name);
                self.memory.pull_errors.remove(name);
                self.journal.normal(Some(&container.name), "Pulled", pulled_message(wanted, &pulled));
                Ok(pulled.image)
            }
            Err(error) => {
                let message = format!("Failed to pull image {wanted:?}: {error}");
                self.journal.warning(Some(&container.name), "Failed", message);
                self.memory.pull_errors.insert(name.to_owned(), format!("{}: {error}", error.reason()));
                let now = self.now();
                self.memory.pulls.failed(name, now);
                // The error is shown first, and then the back-off.
                let wait = self.memory.pulls.wait_since_failure(name, now);
                let retry_at = wait.map_or(now, |wait| now.plus(wait.delay / 2));
                Err(NoImage { reason: error.reason(), message: error.to_string(), retry_at })
            }
        }
    }

    /// Pulls an image, with the credentials of the pod and of the node.
    async fn fetch(&self, name: &str, sandbox_config: &v1::PodSandboxConfig) -> Result<Pulled, ImageError> {
        let node = node_config(self.tools.settings.data.path()).await?;
        let credentials = Credentials::of(self.pod, self.objects, node)?;
        if !credentials.missing.is_empty() {
            let message = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                credentials.missing.join(", ")
            );
            self.journal.warning(None, "FailedToRetrieveImagePullSecret", message);
        }
        self.tools.puller.pull(name, &credentials, sandbox_config).await
    }

    fn without(&self, error: &ImageError, message: String) -> NoImage {
        let retry_at = self.now().plus(self.tools.settings.retry);
        NoImage { reason: error.reason(), message, retry_at }
    }
}

fn pulled_message(wanted: &str, pulled: &Pulled) -> String {
    let shown = |time: Duration| {
        GoDuration(Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    };
    format!(
        "Successfully pulled image {wanted:?} in {} ({} including waiting). Image size: {} bytes.",
        shown(pulled.took),
        shown(pulled.with_waiting),
        pulled.size
    )
}
