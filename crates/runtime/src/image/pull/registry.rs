//! One registry as seen from one pull: the client crate, its errors told apart, and limits on what it may send.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use oci_client::client::{BlobResponse, ClientConfig, ClientProtocol};
use oci_client::errors::{OciDistributionError, OciErrorCode};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};

use super::auth::Auth;
use super::{PullOptions, PullReason};
use crate::image::digest::Digest;
use crate::image::name::ImageName;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const ACCEPT: [&str; 4] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// The registry of one image.
#[derive(Clone)]
pub(super) struct Registry {
    client: Client,
    auth: RegistryAuth,
    name: ImageName,
}

/// A blob on its way.
pub(super) struct BlobStream {
    /// Whether it begins where it was asked to, and not at the beginning.
    pub(super) resumed: bool,
    pub(super) chunks: BoxStream<'static, std::io::Result<Bytes>>,
}

impl Registry {
    pub(super) fn new(name: &ImageName, options: &PullOptions) -> Result<Self, PullReason> {
        // One of the two providers must be chosen for the process; whoever came first has chosen.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let host = name.registry();
        let plain = is_loopback(host) || options.http_registries.iter().any(|registry| registry == host);
        let mut config = ClientConfig {
            protocol: if plain { ClientProtocol::Http } else { ClientProtocol::Https },
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(options.stall_timeout),
            user_agent: concat!("rubelet/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        if is_loopback(host) {
            // A proxy cannot reach this machine's own loopback. Naming one, for nobody, turns off the one from the
            // environment.
            config.http_proxy = Some("http://127.0.0.1:9".to_owned());
            config.no_proxy = Some("*,127.0.0.0/8,::1".to_owned());
        }
        let auth = match &options.auth {
            Auth::Anonymous => RegistryAuth::Anonymous,
            Auth::Basic { username, password } => RegistryAuth::Basic(username.clone(), password.clone()),
            Auth::Bearer(token) => RegistryAuth::Bearer(token.clone()),
        };
        let client = Client::try_from(config).map_err(reason)?;
        Ok(Self { client, auth, name: name.clone() })
    }

    fn reference(&self, digest: Option<&Digest>) -> Reference {
        let (registry, repository) = (self.name.registry().to_owned(), self.name.repository().to_owned());
        match digest.or(self.name.digest()) {
            Some(digest) => Reference::with_digest(registry, repository, digest.to_string()),
            None => {
                let tag = self.name.tag().unwrap_or("latest").to_owned();
                Reference::with_tag(registry, repository, tag)
            }
        }
    }

    /// Introduces us. Asked on its own, a refusal is told apart from an image that does not exist.
    pub(super) async fn log_in(&self) -> Result<(), PullReason> {
        self.client
            .auth(&self.reference(None), &self.auth, RegistryOperation::Pull)
            .await
            .map(drop)
            .map_err(reason)
    }

    /// A manifest or index: the one that the name means, or the one of this digest.
    pub(super) async fn manifest(&self, digest: Option<&Digest>) -> Result<(Digest, Bytes), PullReason> {
        let reference = self.reference(digest);
        let (bytes, _) =
            self.client.pull_manifest_raw(&reference, &self.auth, &ACCEPT).await.map_err(reason)?;
        let found = Digest::of(&bytes);
        match digest.or(self.name.digest()) {
            Some(wanted) if *wanted != found => Err(PullReason::Digest { wanted: wanted.clone(), found }),
            _ => Ok((found, bytes)),
        }
    }

    /// A small blob, whole.
    pub(super) async fn document(&self, digest: &Digest, max: u64) -> Result<Vec<u8>, PullReason> {
        let mut stream = self.blob(digest, 0).await?.chunks;
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.try_next().await.map_err(PullReason::Interrupted)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > max {
                return Err(PullReason::TooLarge { digest: digest.clone(), limit: max });
            }
        }
        Ok(bytes)
    }

    /// A blob from this byte on, or from the beginning where the registry cannot do otherwise.
    pub(super) async fn blob(&self, digest: &Digest, offset: u64) -> Result<BlobStream, PullReason> {
        let reference = self.reference(None);
        let layer = digest.as_str();
        if offset == 0 {
            // The plain request: some registries answer a range from zero with an error.
            let stream = self.client.pull_blob_stream(&reference, layer).await.map_err(reason)?;
            return Ok(BlobStream { resumed: false, chunks: stream.stream.boxed() });
        }
        let response =
            self.client.pull_blob_stream_partial(&reference, layer, offset, None).await.map_err(reason)?;
        Ok(match response {
            BlobResponse::Full(stream) => BlobStream { resumed: false, chunks: stream.stream.boxed() },
            BlobResponse::Partial(stream) => BlobStream { resumed: true, chunks: stream.stream.boxed() },
        })
    }
}

/// Whether the registry is this machine: then plain HTTP is nobody else's business.
pub(super) fn is_loopback(registry: &str) -> bool {
    let host = match registry.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(v6),
        None => registry.split(':').next().unwrap_or(registry),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Tells the client's errors apart by what can be done about them.
fn reason(error: OciDistributionError) -> PullReason {
    match error {
        OciDistributionError::UnauthorizedError { .. } | OciDistributionError::AuthenticationFailure(_) => {
            PullReason::Unauthorized
        }
        OciDistributionError::RegistryError { envelope, .. } => {
            let has =
                |wanted: &[OciErrorCode]| envelope.errors.iter().any(|error| wanted.contains(&error.code));
            if has(&[OciErrorCode::Unauthorized, OciErrorCode::Denied]) {
                PullReason::Unauthorized
            } else if has(&[OciErrorCode::ManifestUnknown, OciErrorCode::NameUnknown, OciErrorCode::NotFound])
            {
                PullReason::NotFound
            } else if has(&[OciErrorCode::Toomanyrequests]) {
                PullReason::Busy(envelope.to_string())
            } else {
                PullReason::Refused(envelope.to_string())
            }
        }
        OciDistributionError::ImageManifestNotFoundError(_) => PullReason::NotFound,
        OciDistributionError::ServerError { code, message, .. } => match code {
            404 => PullReason::NotFound,
            401 | 403 => PullReason::Unauthorized,
            408 | 429 | 500.. => PullReason::Busy(describe(code, &message)),
            _ => PullReason::Refused(describe(code, &message)),
        },
        OciDistributionError::IoError(error) => PullReason::Interrupted(error),
        OciDistributionError::RequestError(error) => {
            let connect = error.is_connect();
            let error = std::io::Error::other(chain(&error));
            if connect { PullReason::Unreachable(error) } else { PullReason::Interrupted(error) }
        }
        other => PullReason::Refused(other.to_string()),
    }
}

fn describe(code: u16, message: &str) -> String {
    let line: String = message.lines().next().unwrap_or_default().chars().take(200).collect();
    format!("HTTP {code} {line}").trim_end().to_owned()
}

/// The whole story: the outermost error only says that a request failed.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for registry in ["localhost", "localhost:5000", "127.0.0.1:5000", "127.9.9.9", "[::1]:5000", "[::1]"]
        {
            assert!(is_loopback(registry), "{registry}");
        }
        for registry in
            ["docker.io", "localhost.example", "10.0.0.1:5000", "127.0.0.1.example:5000", "[::2]:1"]
        {
            assert!(!is_loopback(registry), "{registry}");
        }
    }
}
