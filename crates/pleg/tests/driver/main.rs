//! The whole PLEG on paused time, over a runtime that the test holds in its hand.

mod fake;
mod pace;
mod stopping;
mod stream;
mod trouble;

use std::future::Future as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pleg::{Config, EventKind, Failure, Metrics, Pleg, PodEvent, Reach, Subscription};
use rubelet_model::{ContainerState, PodUid};
use tokio::time::Instant;

use fake::{FakeRuntime, stopped_of};

fn start(runtime: &FakeRuntime) -> Pleg<FakeRuntime> {
    let mut pleg = Pleg::new(runtime.clone(), Config::default(), Metrics::default());
    pleg.start();
    pleg
}

async fn next(events: &mut Subscription) -> Arc<PodEvent> {
    events.next().await.expect("the pleg runs")
}
