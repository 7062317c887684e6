//! A CRI v1 runtime with thousands of virtual pods and no processes, for tests and benchmarks.
//!
//! - [`World`]: the virtual node, a plain value that a test changes step by step;
//! - [`SyntheticRuntime`]: a server for it on a unix socket; its [`Handle`] drives the world, programs
//!   [faults](Faults), and records every [call](Calls);
//! - [`LocalRuntime`]: the same without a socket, for tests that play thousands of histories;
//! - [`Profile`]: the real runtime whose behaviour is simulated.
//!
//! All randomness comes from one seed, and the same seed gives the same run. Time is tokio's, so delays work on a
//! paused clock; the world's wall clock is separate.
//!
//! ```
//! use rubelet_runtime::synthetic::{Op, Profile, SyntheticRuntime};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! # let directory = tempfile::tempdir()?;
//! # let socket = directory.path().join("cri.sock");
//! let runtime = SyntheticRuntime::new(Profile::Ctd2).seed(7).serve(&socket).await?;
//! let container = runtime.world(|world| {
//!     let pod = world.add_pod("default/web");
//!     world.run(&pod.sandbox, "nginx")
//! });
//! let stuck = runtime.faults().on(Op::ContainerStatus).container(&container).hang();
//! // … let something look at the runtime …
//! stuck.release();
//! runtime.calls().assert_read_only();
//! # Ok(())
//! # }
//! ```

mod bus;
mod calls;
mod corrupt;
mod faults;
mod forever;
mod local;
mod op;
mod profile;
mod seed;
mod server;
mod target;
mod world;

pub use bus::{EventCounts, EventFaults, Events, Loss, Lost};
pub use calls::{Call, Calls, Count, Pending};
pub use corrupt::{Corruption, Part};
pub use faults::{Fault, FaultBuilder, Faults};
pub use forever::{Config, Population, serve_forever};
pub use local::{LocalEvents, LocalRuntime};
pub use op::Op;
pub use profile::{
    Delivery, EventContainers, EventSupport, ExecTimeout, FailedStart, NameTaken, NotReadyYet, Profile,
    Quirks, SandboxDeleted, SandboxExtras,
};
pub use rubelet_model::{ContainerId, ContainerState, PodUid, SandboxId, SandboxState};
pub use server::{Handle, SyntheticRuntime};
pub use target::Target;
pub use world::{
    Behavior, Change, Container, ContainerSpec, CriEvent, EventKind, ExecResult, Exit, NewPod, OnStart,
    OnStop, PodSpec, Restart, Sandbox, Stir, What, World,
};
