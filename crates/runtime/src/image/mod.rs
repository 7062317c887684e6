//! Images: archives, registries, layers.
