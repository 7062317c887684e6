//! The built-in image `host`: the machine's own root filesystem, with nothing to download.

use super::config::ImageConfig;
use super::digest::Digest;
use super::name::ImageName;
use super::record::{Content, Image};

/// The name of the built-in image.
pub const HOST_IMAGE: &str = "host";

/// The text whose digest is the image's id. When what the image *is* changes, this text changes, and with it the id.
const RECIPE: &[u8] =
    b"rubelet built-in image: the host's root, read-only; private /tmp, /run, /var/tmp; version 1";

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The built-in image, which every store has without storing it.
pub(crate) fn image() -> Image {
    Image {
        id: Digest::of(RECIPE),
        repo_tags: vec![format!("{HOST_IMAGE}:latest")],
        repo_digests: Vec::new(),
        size: 0,
        config: ImageConfig {
            cmd: vec!["/bin/sh".to_owned()],
            env: vec![PATH.to_owned()],
            working_dir: "/".to_owned(),
            ..ImageConfig::default()
        },
        content: Content::Host,
    }
}

/// Returns whether the name refers to the built-in image. So does its full form, because clients normalise names first.
pub(crate) fn is_named_by(name: &ImageName) -> bool {
    name.registry() == "docker.io" && name.repository() == "library/host" && name.tag() == Some("latest")
}
