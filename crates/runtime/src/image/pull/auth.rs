//! Credentials for a registry: from a CRI request, or from a file that `docker login` or `podman login` wrote.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use rubelet_cri::v1;
use serde::Deserialize;

use crate::image::name::ImageName;

/// How to authenticate.
#[derive(Clone, PartialEq, Eq, Default)]
pub enum Auth {
    /// Without credentials.
    #[default]
    Anonymous,
    /// With a user name and a password.
    Basic {
        /// The user name.
        username: String,
        /// The password, or a token in its place.
        password: String,
    },
    /// With a token that the registry itself issued.
    Bearer(String),
}

/// The reason why credentials cannot be used. No message contains the credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// `auth` is not the base64 of `user:password`.
    #[error("the credential's field \"auth\" is not user:password in base64")]
    Encoding,
    /// It is an OAuth refresh token.
    #[error("the credential's field \"identity_token\" is not supported; use a username and password")]
    IdentityToken,
    /// The file is not the expected JSON.
    #[error("the credentials file is not valid: {0}")]
    File(String),
    /// The file refers to a credential helper.
    #[error(
        "the credentials for {0} are kept by a credential helper, which is not supported; log in without it"
    )]
    Helper(String),
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Basic { .. } => "Basic(…)",
            Self::Bearer(_) => "Bearer(…)",
        })
    }
}

impl Auth {
    /// Reads what a CRI request says about this image. Credentials for another server are not sent to this one.
    pub fn from_cri(config: &v1::AuthConfig, image: &ImageName) -> Result<Self, AuthError> {
        if !config.server_address.is_empty() && server(&config.server_address) != image.registry() {
            return Ok(Self::Anonymous);
        }
        if !config.username.is_empty() {
            return Ok(Self::Basic { username: config.username.clone(), password: config.password.clone() });
        }
        if !config.identity_token.is_empty() {
            return Err(AuthError::IdentityToken);
        }
        if !config.auth.is_empty() {
            return decode(&config.auth);
        }
        if !config.registry_token.is_empty() {
            return Ok(Self::Bearer(config.registry_token.clone()));
        }
        Ok(Self::Anonymous)
    }

    /// Reads what a file in the format of docker's `config.json` says about this image. The most specific entry wins,
    /// since podman's files have entries for single repositories.
    pub fn from_docker_config(json: &[u8], image: &ImageName) -> Result<Self, AuthError> {
        let file: File = serde_json::from_slice(json).map_err(|error| AuthError::File(error.to_string()))?;
        let auths = file.auths.unwrap_or_default();
        let mut wanted = format!("{}/{}", image.registry(), image.repository());
        loop {
            if let Some((_, entry)) = auths.iter().find(|(key, _)| server(key) == wanted) {
                let has_own = entry.auth.is_some() || entry.username.is_some();
                if has_own || entry.identity_token.is_some() {
                    return entry.auth();
                }
            }
            match wanted.rfind('/') {
                Some(slash) => wanted.truncate(slash),
                None => break,
            }
        }
        let helpers = file.cred_helpers.unwrap_or_default();
        if helpers.keys().any(|key| server(key) == image.registry()) || file.creds_store.is_some() {
            return Err(AuthError::Helper(image.registry().to_owned()));
        }
        Ok(Self::Anonymous)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    auths: Option<BTreeMap<String, Entry>>,
    cred_helpers: Option<BTreeMap<String, String>>,
    creds_store: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    #[serde(rename = "identitytoken")]
    identity_token: Option<String>,
}

impl Entry {
    fn auth(&self) -> Result<Auth, AuthError> {
        if let Some(username) = &self.username {
            let password = self.password.clone().unwrap_or_default();
            return Ok(Auth::Basic { username: username.clone(), password });
        }
        match (&self.auth, &self.identity_token) {
            (_, Some(token)) if !token.is_empty() => Err(AuthError::IdentityToken),
            (Some(auth), _) => decode(auth),
            (None, _) => Ok(Auth::Anonymous),
        }
    }
}

fn decode(auth: &str) -> Result<Auth, AuthError> {
    let auth = auth.trim();
    let bytes =
        STANDARD.decode(auth).or_else(|_| STANDARD_NO_PAD.decode(auth)).map_err(|_| AuthError::Encoding)?;
    let text = String::from_utf8(bytes).map_err(|_| AuthError::Encoding)?;
    let (username, password) = text.split_once(':').ok_or(AuthError::Encoding)?;
    Ok(Auth::Basic { username: username.to_owned(), password: password.trim_matches('\0').to_owned() })
}

/// The server of a key, in the form used in image names: `https://index.docker.io/v1/` is `docker.io`.
fn server(key: &str) -> &str {
    let rest = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let rest = rest.trim_end_matches('/');
    let rest = rest.strip_suffix("/v1").or_else(|| rest.strip_suffix("/v2")).unwrap_or(rest);
    match rest {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ImageName {
        text.parse().unwrap()
    }

    fn basic(username: &str, password: &str) -> Auth {
        Auth::Basic { username: username.to_owned(), password: password.to_owned() }
    }

    #[test]
    fn cri_credentials() {
        let config = |change: &dyn Fn(&mut v1::AuthConfig)| {
            let mut config = v1::AuthConfig::default();
            change(&mut config);
            Auth::from_cri(&config, &name("r.io/x"))
        };
        assert_eq!(config(&|_| {}), Ok(Auth::Anonymous));
        assert_eq!(config(&|c| (c.username, c.password) = ("u".into(), "p".into())), Ok(basic("u", "p")));
        assert_eq!(config(&|c| c.auth = "dTpwOnE=".into()), Ok(basic("u", "p:q")));
        assert_eq!(config(&|c| c.auth = "dTpwAA".into()), Ok(basic("u", "p")));
        assert_eq!(config(&|c| c.registry_token = "t".into()), Ok(Auth::Bearer("t".into())));
        assert_eq!(config(&|c| c.identity_token = "t".into()), Err(AuthError::IdentityToken));
        for bad in ["!!!", "dQ==", "/w=="] {
            assert_eq!(config(&|c| c.auth = bad.into()), Err(AuthError::Encoding), "{bad}");
        }
        let elsewhere = |c: &mut v1::AuthConfig| {
            (c.username, c.password) = ("u".into(), "p".into());
            c.server_address = "https://other.io".into();
        };
        assert_eq!(config(&elsewhere), Ok(Auth::Anonymous), "not for this server");
    }

    #[test]
    fn docker_files_by_the_most_specific_entry() {
        let json = br#"{"auths": {
            "https://index.docker.io/v1/": {"auth": "aHViOnA="},
            "r.io": {"username": "whole", "password": "p"},
            "r.io/team": {"auth": "dGVhbTpw"},
            "r.io/team/app": {"auth": "YXBwOnA="},
            "https://old.io:5000/v2/": {"auth": "b2xkOnA="},
            "token.io": {"identitytoken": "x", "auth": "dTpw"},
            "empty.io": {}
        }, "credHelpers": {"helped.io": "x"}}"#;
        for (image, auth) in [
            ("busybox", Ok(basic("hub", "p"))),
            ("r.io/x", Ok(basic("whole", "p"))),
            ("r.io/team/other", Ok(basic("team", "p"))),
            ("r.io/team/app:1", Ok(basic("app", "p"))),
            ("r.io/teamwork", Ok(basic("whole", "p"))),
            ("old.io:5000/x", Ok(basic("old", "p"))),
            ("nobody.io/x", Ok(Auth::Anonymous)),
            ("empty.io/x", Ok(Auth::Anonymous)),
            ("token.io/x", Err(AuthError::IdentityToken)),
            ("helped.io/x", Err(AuthError::Helper("helped.io".into()))),
        ] {
            assert_eq!(Auth::from_docker_config(json, &name(image)), auth, "{image}");
        }
        assert_eq!(Auth::from_docker_config(b"{}", &name("x")), Ok(Auth::Anonymous));
        assert!(matches!(Auth::from_docker_config(b"[", &name("x")), Err(AuthError::File(_))));
    }

    #[test]
    fn secrets_are_not_printed() {
        let text = format!("{:?} {:?}", basic("user", "secret"), Auth::Bearer("secret".into()));
        assert!(!text.contains("secret") && !text.contains("user"), "{text}");
    }
}
