//! Credentials in docker's format: `{"auths": {"registry": {"auth": "…"}}}`, in secrets and in a file of the node.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;

/// A user and password for a registry. Its `Debug` output hides the password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) username: String,
    pub(crate) password: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}

/// Credentials by registry, as written: with or without scheme, port and path.
pub(crate) type DockerConfig = BTreeMap<String, Credential>;

/// Credentials cannot be read. The messages reveal nothing of their contents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CredentialError {
    #[error("{place}: not a docker configuration ({category} at line {line}, column {column})")]
    NotJson { place: String, category: &'static str, line: usize, column: usize },
    #[error("{place}: the entry for {registry:?} has no valid `auth`, which is `user:password` in base64")]
    BadAuth { place: String, registry: String },
}

#[derive(Deserialize)]
struct ConfigJson {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    auth: String,
}

/// Returns the credentials in a secret. A secret of any other type has none.
pub(super) fn of_secret(secret: &Secret) -> Result<DockerConfig, CredentialError> {
    let place = format!("secret {:?}", secret.metadata.name.as_deref().unwrap_or_default());
    let data = |key: &str| secret.data.as_ref()?.get(key).map(|ByteString(bytes)| bytes.as_slice());
    match secret.type_.as_deref() {
        Some("kubernetes.io/dockerconfigjson") => {
            data(".dockerconfigjson").map_or(Ok(DockerConfig::new()), |json| of_config_json(json, &place))
        }
        Some("kubernetes.io/dockercfg") => {
            data(".dockercfg").map_or(Ok(DockerConfig::new()), |json| read(parse(json, &place)?, &place))
        }
        _ => Ok(DockerConfig::new()),
    }
}

/// Returns the credentials in a `config.json`.
pub(super) fn of_config_json(json: &[u8], place: &str) -> Result<DockerConfig, CredentialError> {
    let config: ConfigJson = parse(json, place)?;
    read(config.auths, place)
}

fn parse<'a, T: Deserialize<'a>>(json: &'a [u8], place: &str) -> Result<T, CredentialError> {
    serde_json::from_slice(json).map_err(|error| CredentialError::NotJson {
        place: place.to_owned(),
        // The parser's own messages are not used: they quote the text.
        category: match error.classify() {
            serde_json::error::Category::Data => "a value of the wrong type",
            serde_json::error::Category::Eof => "unexpected end",
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => "invalid JSON",
        },
        line: error.line(),
        column: error.column(),
    })
}

fn read(entries: BTreeMap<String, Entry>, place: &str) -> Result<DockerConfig, CredentialError> {
    let credential = |(registry, entry): (String, Entry)| {
        if entry.auth.is_empty() {
            let credential = Credential { username: entry.username, password: entry.password };
            return Ok((registry, credential));
        }
        match user_and_password(&entry.auth) {
            Some((username, password)) => Ok((registry, Credential { username, password })),
            None => Err(CredentialError::BadAuth { place: place.to_owned(), registry }),
        }
    };
    entries.into_iter().map(credential).collect()
}

/// Decodes `user:password` from base64, with or without padding.
fn user_and_password(auth: &str) -> Option<(String, String)> {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;

    let bytes = STANDARD_NO_PAD.decode(auth.trim_end_matches('=')).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.trim_matches('\0').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(kind: &str, key: &str, json: &str) -> Secret {
        let data = [(key.to_owned(), ByteString(json.as_bytes().to_vec()))];
        Secret { type_: Some(kind.to_owned()), data: Some(data.into()), ..Secret::default() }
    }

    #[test]
    fn both_types_of_secrets_are_read_and_others_have_none() {
        let ann = Credential { username: "ann".to_owned(), password: "se:cret".to_owned() };
        // "ann:se:cret"
        let table = [
            (
                "kubernetes.io/dockerconfigjson",
                ".dockerconfigjson",
                r#"{"auths":{"r.io":{"auth":"YW5uOnNlOmNyZXQ="}}}"#,
                true,
            ),
            (
                "kubernetes.io/dockerconfigjson",
                ".dockerconfigjson",
                r#"{"auths":{"r.io":{"auth":"YW5uOnNlOmNyZXQ"}}}"#,
                true,
            ),
            (
                "kubernetes.io/dockerconfigjson",
                ".dockerconfigjson",
                r#"{"auths":{"r.io":{"username":"ann","password":"se:cret","email":"a@b"}},"HttpHeaders":{}}"#,
                true,
            ),
            ("kubernetes.io/dockercfg", ".dockercfg", r#"{"r.io":{"auth":"YW5uOnNlOmNyZXQ="}}"#, true),
            ("kubernetes.io/dockercfg", ".dockerconfigjson", r#"{"auths":{}}"#, false),
            ("Opaque", ".dockerconfigjson", r#"{"auths":{"r.io":{"auth":"YW5uOnNlOmNyZXQ="}}}"#, false),
        ];
        for (kind, key, json, has_one) in table {
            let read = of_secret(&secret(kind, key, json)).unwrap();
            assert_eq!(read.get("r.io"), has_one.then_some(&ann), "{kind} {json}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_and_not_quoted() {
        let table = [
            ("{", "unexpected end"),
            (r#"{"auths":{"r.io":{"auth":"!hunter2!"}}}"#, "no valid `auth`"),
            (r#"{"auths":{"r.io":{"auth":"aHVudGVyMg=="}}}"#, "no valid `auth`"),
            (r#"{"auths":{"r.io":"hunter2"}}"#, "a value of the wrong type"),
        ];
        for (json, wanted) in table {
            let error = of_config_json(json.as_bytes(), "config.json").unwrap_err().to_string();
            assert!(error.starts_with("config.json: ") && error.contains(wanted), "{json}: {error}");
            assert!(!error.contains("hunter2") && !error.contains("aHVudGVyMg"), "{error}");
        }
        let credential = Credential { username: "ann".to_owned(), password: "hunter2".to_owned() };
        assert!(!format!("{credential:?}").contains("hunter2"));
    }
}
