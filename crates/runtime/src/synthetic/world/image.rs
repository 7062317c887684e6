//! Images: names that have been pulled, with nothing in them.

use std::collections::BTreeMap;

use rubelet_cri::v1;

use super::World;
use super::status::image_id;

/// The images of the node, by name.
#[derive(Debug, Default)]
pub(super) struct Images(BTreeMap<String, u64>);

impl World {
    /// Puts an image on the node, and returns its id.
    pub fn add_image(&mut self, name: impl Into<String>, size: u64) -> String {
        let name = name.into();
        let id = image_id(&name);
        self.images.0.insert(name, size);
        id
    }

    /// Removes an image from the node, by name or id. Containers made from it stay.
    pub fn remove_image(&mut self, name: &str) {
        self.images.0.retain(|known, _| known != name && image_id(known) != name);
    }

    /// Finds an image by name or id.
    pub(crate) fn find_image(&self, name: &str) -> Option<v1::Image> {
        if let Some((known, size)) = self.images.0.get_key_value(name) {
            return Some(image(known, *size));
        }
        let by_id = self.images.0.iter().find(|(known, _)| image_id(known) == name)?;
        Some(image(by_id.0, *by_id.1))
    }

    /// Returns all images, by name.
    pub(crate) fn images(&self) -> impl Iterator<Item = v1::Image> {
        self.images.0.iter().map(|(name, size)| image(name, *size))
    }

    /// Returns the size of all images in bytes.
    pub(crate) fn image_bytes(&self) -> u64 {
        self.images.0.values().sum()
    }
}

fn image(name: &str, size: u64) -> v1::Image {
    let id = image_id(name);
    let repository = name.split_once('@').map_or(name, |(repository, _)| repository);
    let (tags, repository) = match repository.rsplit_once(':') {
        Some((before, tag)) if !tag.contains('/') => (vec![repository.to_owned()], before),
        _ => (Vec::new(), repository),
    };
    v1::Image {
        repo_digests: vec![format!("{repository}@{id}")],
        id,
        repo_tags: tags,
        size,
        spec: Some(v1::ImageSpec { image: name.to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::profile::Profile;
    use super::*;

    #[test]
    fn images_are_found_by_name_and_by_id() {
        let mut world = World::new(Profile::Ctd2, 0);
        let id = world.add_image("registry.example.com:5000/app:v1", 7);
        let image = world.find_image(&id).unwrap();
        assert_eq!(image.repo_tags, ["registry.example.com:5000/app:v1"]);
        assert!(image.repo_digests[0].starts_with("registry.example.com:5000/app@sha256:"));
        assert_eq!(world.find_image("registry.example.com:5000/app:v1"), Some(image));
        world.remove_image(&id);
        assert_eq!(world.images().count(), 0);
    }
}
