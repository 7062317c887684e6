//! Arguments that name one pod.

use crate::pods::PodName;

#[derive(Debug, clap::Args)]
pub(super) struct OnePod {
    /// The pod: `name` or `namespace/name`
    #[arg(value_name = "POD")]
    pod: PodName,
    /// Namespace of the pod
    #[arg(long, short)]
    namespace: Option<String>,
}

impl OnePod {
    /// Returns the name of the pod, made from both arguments.
    pub(super) fn name(&self) -> PodName {
        self.pod.clone().in_namespace(self.namespace.as_deref())
    }
}
