//! The client of the runtime service, and the calls about the runtime itself.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use tonic::Code;

use super::{ImageClient, NO_TIME, method};
use crate::call::{Attempt, Caller, Failure};
use crate::codec::Message;
use crate::{Endpoint, Error, ErrorKind, Metrics, Operation, Options, v1};

/// The version of the protocol's handshake; it has been the same since there is one.
const HANDSHAKE: &str = "0.1.0";

/// A client of a runtime's sandboxes and containers.
///
/// Making one neither blocks nor fails: it connects when the first call is made, and again whenever the connection is
/// gone. While the runtime cannot be reached, calls fail at once rather than wait; after a pause of 100 ms, doubling
/// up to 3 s, the next call tries to connect again. Every call has a [time limit](Options::limit).
///
/// Clones are cheap and share one connection. When the last one is dropped, and with it the last stream, the
/// connection is closed.
#[derive(Clone, Debug)]
pub struct RuntimeClient(pub(super) Arc<Caller>);

impl RuntimeClient {
    /// A client of the runtime at `endpoint`.
    #[must_use]
    pub fn new(endpoint: Endpoint, options: Options, metrics: Metrics) -> Self {
        Self(Arc::new(Caller::new(endpoint, options, metrics)))
    }

    /// A client of the images of the same runtime, on the same connection.
    #[must_use]
    pub fn images(&self) -> ImageClient {
        ImageClient(Arc::clone(&self.0))
    }

    /// Where the runtime is.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.0.link().endpoint()
    }

    /// The number of the connection in use, or last used: 0 before the first, and one more with each. A new number
    /// means that the runtime may have restarted.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.link().epoch()
    }

    /// Closes the connection. Whatever is under way on it, in this client and its clones, fails; the next call connects
    /// again. When this returns, the runtime can tell that nobody listens any more: of use to a process that is
    /// about to stand still, since a runtime may stand still with those who read its events.
    pub async fn hang_up(&self) {
        self.0.link().hang_up().await;
    }

    /// What runtime it is. The first thing to ask: if what answers is not a CRI v1 runtime, the error says what it is
    /// instead.
    pub async fn version(&self) -> Result<v1::VersionResponse, Error> {
        let request = v1::VersionRequest { version: HANDSHAKE.to_owned() };
        let request = Bytes::from(request.encode_to_vec());
        self.0.perform(Operation::Version, NO_TIME, |attempt| handshake(attempt, request.clone())).await
    }

    /// Whether the runtime and its network are ready.
    pub async fn status(&self, verbose: bool) -> Result<v1::StatusResponse, Error> {
        let request = v1::StatusRequest { verbose };
        self.0.unary(Operation::Status, method!("Status"), NO_TIME, &request).await
    }

    /// How the runtime is configured. Runtimes before containerd 2.0 do not have this call.
    pub async fn runtime_config(&self) -> Result<v1::RuntimeConfigResponse, Error> {
        let request = v1::RuntimeConfigRequest {};
        self.0.unary(Operation::RuntimeConfig, method!("RuntimeConfig"), NO_TIME, &request).await
    }

    /// Tells the runtime about the node's network.
    pub async fn update_runtime_config(&self, config: v1::RuntimeConfig) -> Result<(), Error> {
        let request = v1::UpdateRuntimeConfigRequest { runtime_config: Some(config) };
        let path = method!("UpdateRuntimeConfig");
        let _: v1::UpdateRuntimeConfigResponse =
            self.0.unary(Operation::UpdateRuntimeConfig, path, NO_TIME, &request).await?;
        Ok(())
    }
}

/// Asks for the version by the protocol that we speak, and if that is unknown, by the one before it.
async fn handshake(attempt: Attempt, request: Bytes) -> Result<v1::VersionResponse, Failure> {
    let answer = Message::<v1::VersionResponse>::new();
    match attempt.unary(method!("Version"), request.clone(), answer.clone()).await {
        Ok(version) if version.version == HANDSHAKE => Ok(version),
        Ok(version) => {
            let detail = format!("{:?}, and {HANDSHAKE:?} is needed", version.version);
            Err(Failure::Kind(ErrorKind::Invalid("version"), detail))
        }
        Err(status) if status.code() == Code::Unimplemented => {
            match attempt.unary("/runtime.v1alpha2.RuntimeService/Version", request, answer).await {
                Ok(old) => {
                    let detail = format!("{} {}", old.runtime_name, old.runtime_version);
                    Err(Failure::Kind(ErrorKind::OldApi, detail))
                }
                Err(status) if status.code() == Code::Unimplemented => {
                    Err(Failure::Kind(ErrorKind::NotCri, status.message().to_owned()))
                }
                Err(status) => Err(status.into()),
            }
        }
        Err(status) => Err(status.into()),
    }
}
