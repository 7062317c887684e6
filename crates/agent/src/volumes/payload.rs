//! The files of the volumes that the agent writes: `configMap`, `secret`, `downwardAPI`, `projected`. Nothing here uses
//! the disk.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeFile, DownwardAPIVolumeSource, KeyToPath, ProjectedVolumeSource,
    SecretVolumeSource, VolumeProjection,
};

use super::VolumeError;
use super::room::Room;
use crate::downward::PodFacts;

/// The mode of a file unless specified otherwise.
pub(crate) const DEFAULT_MODE: i32 = 0o644;

/// Files by their path in the volume.
pub(super) type Files = BTreeMap<String, File>;

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) content: Vec<u8>,
    pub(super) mode: u32,
}

pub(super) fn config_map(
    source: &ConfigMapVolumeSource,
    facts: &PodFacts<'_>,
    room: &mut Room,
) -> Result<Files, VolumeError> {
    let keys = config_map_keys(&source.name, source.optional, facts)?;
    let ConfigMapVolumeSource { items, optional, default_mode, .. } = source;
    select(keys, items.as_deref(), *default_mode, *optional, VolumeError::NoConfigMapKey, room)
}

pub(super) fn secret(
    source: &SecretVolumeSource,
    facts: &PodFacts<'_>,
    room: &mut Room,
) -> Result<Files, VolumeError> {
    let keys = secret_keys(source.secret_name.as_deref().unwrap_or_default(), source.optional, facts)?;
    let SecretVolumeSource { items, optional, default_mode, .. } = source;
    select(keys, items.as_deref(), *default_mode, *optional, VolumeError::NoSecretKey, room)
}

pub(super) fn downward(
    source: &DownwardAPIVolumeSource,
    facts: &PodFacts<'_>,
    room: &mut Room,
) -> Result<Files, VolumeError> {
    downward_files(source.items.as_deref(), source.default_mode, facts, room)
}

/// Combines all sources in their order; of two files at one path, the later one wins. The problems of all of them are
/// reported.
pub(super) fn projected(
    source: &ProjectedVolumeSource,
    facts: &PodFacts<'_>,
    room: &mut Room,
) -> Result<Files, VolumeError> {
    let (mut files, mut errors) = (Files::new(), Vec::new());
    for projection in source.sources.iter().flatten() {
        match projected_files(projection, source.default_mode, facts, room) {
            Ok(more) => files.extend(more),
            Err(error @ (VolumeError::TooLarge | VolumeError::TooLargeTogether)) => return Err(error),
            Err(error) => errors.push(error),
        }
    }
    VolumeError::all_in_one(errors).map_or(Ok(files), Err)
}

fn projected_files(
    projection: &VolumeProjection,
    mode: Option<i32>,
    facts: &PodFacts<'_>,
    room: &mut Room,
) -> Result<Files, VolumeError> {
    if let Some(source) = &projection.config_map {
        let keys = config_map_keys(&source.name, source.optional, facts)?;
        select(keys, source.items.as_deref(), mode, source.optional, VolumeError::NoConfigMapKey, room)
    } else if let Some(source) = &projection.secret {
        let keys = secret_keys(&source.name, source.optional, facts)?;
        select(keys, source.items.as_deref(), mode, source.optional, VolumeError::NoSecretKey, room)
    } else if let Some(source) = &projection.downward_api {
        downward_files(source.items.as_deref(), mode, facts, room)
    } else {
        Err(VolumeError::Unsupported(given_projections(projection).next().unwrap_or("(none)")))
    }
}

/// Returns the sources that a projection specifies: exactly one, if it is valid.
pub(crate) fn given_projections(projection: &VolumeProjection) -> impl Iterator<Item = &'static str> {
    let VolumeProjection {
        cluster_trust_bundle,
        config_map,
        downward_api,
        pod_certificate,
        secret,
        service_account_token,
    } = projection;
    [
        ("clusterTrustBundle", cluster_trust_bundle.is_some()),
        ("configMap", config_map.is_some()),
        ("downwardAPI", downward_api.is_some()),
        ("podCertificate", pod_certificate.is_some()),
        ("secret", secret.is_some()),
        ("serviceAccountToken", service_account_token.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, given)| given.then_some(name))
}

/// The contents of a config map or a secret, borrowed. If a key has both text and bytes, the bytes win.
#[derive(Clone, Copy, Default)]
struct Keys<'a> {
    text: Option<&'a BTreeMap<String, String>>,
    bytes: Option<&'a BTreeMap<String, ByteString>>,
}

impl<'a> Keys<'a> {
    fn get(self, key: &str) -> Option<&'a [u8]> {
        let bytes = self.bytes.and_then(|bytes| bytes.get(key)).map(|value| &value.0[..]);
        bytes.or_else(|| self.text?.get(key).map(String::as_bytes))
    }

    fn iter(self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let text = self.text.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_bytes()));
        let bytes = self.bytes.into_iter().flatten().map(|(key, value)| (key.as_str(), &value.0[..]));
        text.chain(bytes)
    }
}

fn config_map_keys<'a>(
    name: &str,
    optional: Option<bool>,
    facts: &PodFacts<'a>,
) -> Result<Keys<'a>, VolumeError> {
    match facts.objects.config_map(facts.namespace(), name) {
        Some(map) => Ok(Keys { text: map.data.as_ref(), bytes: map.binary_data.as_ref() }),
        None if optional == Some(true) => Ok(Keys::default()),
        None => Err(VolumeError::NoConfigMap(name.to_owned())),
    }
}

fn secret_keys<'a>(
    name: &str,
    optional: Option<bool>,
    facts: &PodFacts<'a>,
) -> Result<Keys<'a>, VolumeError> {
    match facts.objects.secret(facts.namespace(), name) {
        Some(secret) => Ok(Keys { text: None, bytes: secret.data.as_ref() }),
        None if optional == Some(true) => Ok(Keys::default()),
        None => Err(VolumeError::NoSecret(name.to_owned())),
    }
}

/// Turns every key into a file of its name, or only the keys that `items` selects.
fn select(
    keys: Keys<'_>,
    items: Option<&[KeyToPath]>,
    default_mode: Option<i32>,
    optional: Option<bool>,
    missing: fn(String) -> VolumeError,
    room: &mut Room,
) -> Result<Files, VolumeError> {
    let mut files = Files::new();
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        for (key, content) in keys.iter() {
            room.take(key, content.len())?;
            files.insert(key.to_owned(), File { content: content.to_vec(), mode: mode(None, default_mode) });
        }
        return Ok(files);
    };
    for item in items {
        match keys.get(&item.key) {
            Some(content) => {
                let path = clean_path(&item.path);
                room.take(&path, content.len())?;
                files.insert(path, File { content: content.to_vec(), mode: mode(item.mode, default_mode) });
            }
            None if optional == Some(true) => {}
            None => return Err(missing(item.key.clone())),
        }
    }
    Ok(files)
}

fn downward_files(
    items: Option<&[DownwardAPIVolumeFile]>,
    default_mode: Option<i32>,
    facts: &PodFacts<'_>,
    room: &mut Room,
) -> Result<Files, VolumeError> {
    let mut files = Files::new();
    for item in items.unwrap_or_default() {
        let content = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => facts.field(&field.field_path)?,
            (None, Some(selector)) => facts.resource(selector, None)?,
            (None, None) => String::new(),
        };
        let path = clean_path(&item.path);
        room.take(&path, content.len())?;
        files.insert(path, File { content: content.into_bytes(), mode: mode(item.mode, default_mode) });
    }
    Ok(files)
}

/// Returns the path of a file in its shortest form: `./a//b/` is `a/b`.
pub(crate) fn clean_path(path: &str) -> String {
    path.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>().join("/")
}

fn mode(item: Option<i32>, default: Option<i32>) -> u32 {
    item.or(default).unwrap_or(DEFAULT_MODE).unsigned_abs() & 0o7777
}

#[cfg(test)]
mod tests;
