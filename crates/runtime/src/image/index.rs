//! The list of images as a value: how names are resolved, and how tags move. No file is touched here.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::host;
use super::name::{ImageName, Selector};
use super::record::Image;

pub(crate) const VERSION: u32 = 1;

/// All images of a store except the built-in one, by id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) version: u32,
    pub(crate) images: Vec<Image>,
}

/// The result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    One(Box<Image>),
    None,
    /// The text is the beginning of several ids.
    Several(Vec<Digest>),
}

impl Found {
    fn one(image: Image) -> Self {
        Self::One(Box::new(image))
    }
}

impl Default for Index {
    fn default() -> Self {
        Self { version: VERSION, images: Vec::new() }
    }
}

impl Index {
    /// Finds the image that a selector refers to. A tag takes precedence over an id that begins with the same text.
    pub(crate) fn find(&self, selector: &Selector) -> Found {
        match selector {
            Selector::Name(name) => self.by_name(name).map_or(Found::None, Found::one),
            Selector::NameOrIdPrefix(name, prefix) => match self.by_name(name) {
                Some(image) => Found::one(image),
                None => self.by_prefix(prefix),
            },
            Selector::IdPrefix(prefix) => self.by_prefix(prefix),
            Selector::Digest(digest) => self
                .all()
                .find(|image| image.id == *digest)
                .or_else(|| {
                    // A manifest's digest identifies the image even without the repository.
                    self.all().find(|image| {
                        image.repo_digests.iter().any(|name| name.ends_with(&format!("@{digest}")))
                    })
                })
                .map_or(Found::None, Found::one),
        }
    }

    fn all(&self) -> impl Iterator<Item = Image> + '_ {
        std::iter::once(host::image()).chain(self.images.iter().cloned())
    }

    fn by_name(&self, name: &ImageName) -> Option<Image> {
        if host::is_named_by(name) {
            return Some(host::image());
        }
        let text = name.to_string();
        let has = |image: &&Image| image.repo_tags.contains(&text) || image.repo_digests.contains(&text);
        self.images.iter().find(has).cloned()
    }

    fn by_prefix(&self, prefix: &str) -> Found {
        let mut found: Vec<Image> = self.all().filter(|image| image.id.hex().starts_with(prefix)).collect();
        match (found.pop(), found.is_empty()) {
            (None, _) => Found::None,
            (Some(one), true) => Found::one(one),
            (Some(one), false) => {
                found.push(one);
                Found::Several(found.into_iter().map(|image| image.id).collect())
            }
        }
    }

    /// Adds an image, or adds its names to the image with the same id. A tag belongs to one image only, so it moves.
    pub(crate) fn insert(&mut self, image: Image) -> Image {
        for other in self.images.iter_mut().filter(|other| other.id != image.id) {
            other.repo_tags.retain(|tag| !image.repo_tags.contains(tag));
            other.repo_digests.retain(|name| !image.repo_digests.contains(name));
        }
        match self.images.binary_search_by(|other| other.id.cmp(&image.id)) {
            Ok(at) => {
                let known = &mut self.images[at];
                merge(&mut known.repo_tags, image.repo_tags);
                merge(&mut known.repo_digests, image.repo_digests);
                known.clone()
            }
            Err(at) => {
                let mut image = image;
                merge(&mut image.repo_tags, Vec::new());
                merge(&mut image.repo_digests, Vec::new());
                self.images.insert(at, image.clone());
                image
            }
        }
    }

    /// Removes one name of an image, and the image itself with its last tag. Returns whether the image was removed.
    pub(crate) fn untag(&mut self, id: &Digest, name: &ImageName) -> bool {
        let Some(at) = self.images.iter().position(|image| image.id == *id) else { return false };
        let text = name.to_string();
        let image = &mut self.images[at];
        let had_tags = !image.repo_tags.is_empty();
        image.repo_tags.retain(|tag| *tag != text);
        image.repo_digests.retain(|digest| *digest != text);
        let nameless = image.repo_tags.is_empty() && (had_tags || image.repo_digests.is_empty());
        if nameless {
            self.images.remove(at);
        }
        nameless
    }

    /// Removes an image with all its names. Returns whether it existed.
    pub(crate) fn remove(&mut self, id: &Digest) -> bool {
        let before = self.images.len();
        self.images.retain(|image| image.id != *id);
        self.images.len() < before
    }

    /// Returns all layers that images are made of.
    pub(crate) fn layers(&self) -> BTreeSet<Digest> {
        self.images.iter().flat_map(Image::layers).cloned().collect()
    }
}

fn merge(names: &mut Vec<String>, more: Vec<String>) {
    names.extend(more);
    names.sort();
    names.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Content, ImageConfig};

    fn image(seed: &str, tags: &[&str]) -> Image {
        Image {
            id: Digest::of(seed.as_bytes()),
            repo_tags: tags.iter().map(|tag| tag.parse::<ImageName>().unwrap().to_string()).collect(),
            repo_digests: vec![format!(
                "docker.io/library/x@{}",
                Digest::of(&[seed.as_bytes(), b"m"].concat())
            )],
            size: 1,
            config: ImageConfig::default(),
            content: Content::Layers(vec![Digest::of(b"base"), Digest::of(seed.as_bytes())]),
        }
    }

    fn find(index: &Index, text: &str) -> Found {
        index.find(&Selector::parse(text).unwrap())
    }

    #[test]
    fn an_image_is_found_by_every_name_it_has() {
        let mut index = Index::default();
        let a = index.insert(image("a", &["busybox", "localhost/b:2"]));
        let manifest = a.repo_digests[0].split_once('@').unwrap().1;
        for text in [
            "busybox",
            "busybox:latest",
            "docker.io/busybox",
            "localhost/b:2",
            a.id.as_str(),
            a.id.hex(),
            &a.id.hex()[..12],
            &a.id.as_str()[..20],
            &a.repo_digests[0],
            manifest,
            &format!("x:whatever@{manifest}"),
        ] {
            assert_eq!(find(&index, text), Found::one(a.clone()), "{text}");
        }
        for text in ["busybox:1", "b:2", "localhost/busybox", "0000", &format!("y@{manifest}")] {
            assert_eq!(find(&index, text), Found::None, "{text}");
        }
    }

    #[test]
    fn the_built_in_image_is_always_there() {
        let index = Index::default();
        for text in ["host", "host:latest", "docker.io/library/host:latest", host::image().id.as_str()] {
            assert_eq!(find(&index, text), Found::one(host::image()), "{text}");
        }
        assert_eq!(find(&index, "host:1"), Found::None);
        assert_eq!(find(&index, "localhost/host"), Found::None);
    }

    #[test]
    fn a_prefix_of_two_ids_is_ambiguous_and_a_tag_wins_over_a_prefix() {
        let mut index = Index::default();
        for n in 0..200 {
            index.insert(image(&n.to_string(), &[]));
        }
        let long = index.images.iter().map(|image| image.id.hex()[..4].to_owned());
        let mut seen = BTreeSet::new();
        let twice = long.into_iter().find(|prefix| !seen.insert(prefix.clone()));
        if let Some(prefix) = twice {
            assert!(matches!(find(&index, &prefix), Found::Several(ids) if ids.len() > 1));
        }
        let prefix = index.images[7].id.hex()[..8].to_owned();
        assert_eq!(find(&index, &prefix), Found::one(index.images[7].clone()));
        let tagged = index.insert(image("tagged", &[&prefix]));
        assert_eq!(find(&index, &prefix), Found::one(tagged));
    }

    #[test]
    fn a_tag_moves_to_the_newest_image() {
        let mut index = Index::default();
        index.insert(image("a", &["x", "y"]));
        let b = index.insert(image("b", &["x"]));
        assert_eq!(find(&index, "x"), Found::one(b));
        let Found::One(a) = find(&index, "y") else { panic!("y is gone") };
        assert_eq!(a.repo_tags, ["docker.io/library/y:latest"]);
        index.insert(image("b", &["y"]));
        let Found::One(a) = find(&index, a.id.as_str()) else { panic!("a is gone") };
        assert!(a.repo_tags.is_empty(), "an image without a tag stays until someone removes it");
    }

    #[test]
    fn an_image_goes_with_its_last_tag() {
        let mut index = Index::default();
        let a = index.insert(image("a", &["x", "y"]));
        assert!(!index.untag(&a.id, &"x".parse().unwrap()));
        assert!(!index.untag(&a.id, &"x".parse().unwrap()), "twice is fine");
        assert!(index.untag(&a.id, &"y".parse().unwrap()));
        assert_eq!(find(&index, a.id.as_str()), Found::None);
        assert!(!index.remove(&a.id));
    }

    #[test]
    fn layers_are_the_union() {
        let mut index = Index::default();
        index.insert(image("a", &[]));
        index.insert(image("b", &[]));
        assert_eq!(index.layers().len(), 3);
    }
}
