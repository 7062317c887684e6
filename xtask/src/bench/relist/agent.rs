//! The worker that is a node agent: a PLEG and a reader of its events. Its work is one full relist.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use pleg::cri::CriObserver;
use pleg::{Config, Metrics, Pleg, Subscription};
use rubelet_cri::{Endpoint, Options, RuntimeClient};

use super::worker::{Population, Work, serve};

pub(super) async fn work(socket: &Path, population: Population) -> anyhow::Result<()> {
    let endpoint: Endpoint = socket.display().to_string().parse()?;
    let client = RuntimeClient::new(endpoint, Options::default(), rubelet_cri::Metrics::default());
    let mut config = Config::default();
    // The PLEG lists all pods once each time it is started, and never again.
    config.relist_period = Duration::from_secs(24 * 3600);
    let pleg = Pleg::new(CriObserver::new(client), config, Metrics::default());
    let mut agent = Agent { events: pleg.handle().subscribe(), pleg };
    // The first relist inspects every pod, and reports every sandbox and container.
    agent.relist(population.pods * (1 + population.containers)).await?;
    serve(agent).await
}

struct Agent {
    pleg: Pleg<CriObserver>,
    events: Subscription,
}

impl Agent {
    /// Waits from the start of a relist until the cache vouches for it and this many events have been received.
    async fn relist(&mut self, events: usize) -> anyhow::Result<()> {
        let handle = self.pleg.handle();
        let before = handle.clock().stamp();
        self.pleg.start();
        handle.cache().newer_than(&"no pod".into(), before).await??;
        let mut heard = 0;
        while heard < events {
            let event = self.events.next().await.context("the PLEG has ended")?;
            heard += usize::try_from(event.merged)?;
        }
        Ok(())
    }
}

impl Work for Agent {
    async fn once(&mut self, events: u64) -> anyhow::Result<()> {
        self.relist(usize::try_from(events)?).await
    }

    async fn rest(&mut self) {
        self.pleg.stop().await;
    }
}
