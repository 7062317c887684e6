//! The client of the runtime service.

use std::sync::Arc;

use crate::call::Caller;
use crate::{Endpoint, Error, Metrics, Operation, Options, v1};

/// A client of a runtime's sandboxes and containers.
///
/// Clones are cheap and share one connection.
#[derive(Clone, Debug)]
pub struct RuntimeClient(pub(super) Arc<Caller>);

macro_rules! method {
    ($method:literal) => {
        concat!("/runtime.v1.RuntimeService/", $method)
    };
}
pub(super) use method;

impl RuntimeClient {
    /// A client of the runtime at `endpoint`. It connects when the first call is made, and again whenever the
    /// connection is gone.
    #[must_use]
    pub fn new(endpoint: Endpoint, options: Options, metrics: Metrics) -> Self {
        Self(Arc::new(Caller::new(endpoint, options, metrics)))
    }

    /// Where the runtime is.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.0.link().endpoint()
    }

    /// The number of the connection in use, or last used: 0 before the first, and one more with each.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.link().epoch()
    }

    /// What runtime it is.
    pub async fn version(&self) -> Result<v1::VersionResponse, Error> {
        let limit = Some(self.0.options().inspect_timeout);
        let request = v1::VersionRequest { version: "0.1.0".to_owned() };
        self.0.unary(Operation::Version, method!("Version"), limit, &request).await
    }
}
