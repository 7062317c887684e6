//! The client of the runtime service, and the calls that concern the runtime itself.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use tonic::Code;

use super::{ImageClient, NO_TIME, method};
use crate::call::{Attempt, Caller, Failure};
use crate::codec::Message;
use crate::{Endpoint, Error, ErrorKind, Metrics, Operation, Options, v1};

/// The version in the protocol's handshake, which has never changed.
const HANDSHAKE: &str = "0.1.0";

/// A client for the sandboxes and containers of a runtime.
///
/// Creating one neither blocks nor fails: it connects when the first call is made, and reconnects whenever the
/// connection is gone. While the runtime cannot be reached, calls fail at once instead of waiting; after a pause of 100
/// ms, doubling up to 3 s, the next call tries to connect again. Most calls have a time limit; see [`Options::limit`].
///
/// Clones are cheap and share one connection. The connection is closed when the last clone and the last stream have
/// been dropped.
#[derive(Clone, Debug)]
pub struct RuntimeClient(pub(super) Arc<Caller>);

impl RuntimeClient {
    /// Creates a client for the runtime at `endpoint`.
    #[must_use]
    pub fn new(endpoint: Endpoint, options: Options, metrics: Metrics) -> Self {
        Self(Arc::new(Caller::new(endpoint, options, metrics)))
    }

    /// Returns a client for the images of the same runtime, on the same connection.
    #[must_use]
    pub fn images(&self) -> ImageClient {
        ImageClient(Arc::clone(&self.0))
    }

    /// The endpoint of the runtime.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.0.link().endpoint()
    }

    /// The number of the current or last connection: 0 before the first one, and one more for each. A new number means
    /// that the runtime may have restarted.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.link().epoch()
    }

    /// Closes the connection. Every call in progress on it, in this client and its clones, fails; the next call
    /// reconnects.
    ///
    /// When this returns, the runtime can tell that nobody is listening any more. A process that is about to be
    /// suspended needs this, since a runtime may stall while a reader of its events does.
    pub async fn hang_up(&self) {
        self.0.link().hang_up().await;
    }

    /// Returns the name and version of the runtime. Call it first: if what answers is not a CRI v1 runtime, the error
    /// says what it is instead.
    pub async fn version(&self) -> Result<v1::VersionResponse, Error> {
        let request = v1::VersionRequest { version: HANDSHAKE.to_owned() };
        let request = Bytes::from(request.encode_to_vec());
        self.0.perform(Operation::Version, NO_TIME, |attempt| handshake(attempt, request.clone())).await
    }

    /// Returns whether the runtime and its network are ready.
    pub async fn status(&self, verbose: bool) -> Result<v1::StatusResponse, Error> {
        let request = v1::StatusRequest { verbose };
        self.0.unary(Operation::Status, method!("Status"), NO_TIME, &request).await
    }

    /// Returns the configuration of the runtime. containerd has this call from 2.0 on.
    pub async fn runtime_config(&self) -> Result<v1::RuntimeConfigResponse, Error> {
        let request = v1::RuntimeConfigRequest {};
        self.0.unary(Operation::RuntimeConfig, method!("RuntimeConfig"), NO_TIME, &request).await
    }

    /// Passes the node's network configuration to the runtime.
    pub async fn update_runtime_config(&self, config: v1::RuntimeConfig) -> Result<(), Error> {
        let request = v1::UpdateRuntimeConfigRequest { runtime_config: Some(config) };
        let path = method!("UpdateRuntimeConfig");
        let _: v1::UpdateRuntimeConfigResponse =
            self.0.unary(Operation::UpdateRuntimeConfig, path, NO_TIME, &request).await?;
        Ok(())
    }
}

/// Requests the version in CRI v1 and, if the runtime does not implement that, in v1alpha2.
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
