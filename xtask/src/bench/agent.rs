//! The worker that is a node agent: a PLEG, and somebody who reads its events. Its work: one full relist.

use std::path::Path;
use std::time::Duration;

use pleg::cri::CriObserver;
use pleg::{Config, Handle, Metrics, Pleg, Subscription};
use rubelet_cri::{Endpoint, Options, RuntimeClient};

use super::worker::{Population, Work, serve};

pub(super) async fn work(socket: &Path, population: Population) -> anyhow::Result<()> {
    let endpoint: Endpoint = socket.display().to_string().parse()?;
    let client = RuntimeClient::new(endpoint, Options::default(), rubelet_cri::Metrics::default());
    let mut config = Config::default();
    // A list of all pods is made when it is asked for, and only then: by a nudge, since each is one too many.
    config.relist_period = Duration::from_secs(24 * 3600);
    config.look_limit = 0;
    let mut pleg = Pleg::new(CriObserver::new(client), config, Metrics::default());
    let handle = pleg.handle();
    let mut agent = Agent { events: handle.subscribe(), handle };
    pleg.start();
    // The first relist inspects every pod. It is over when every sandbox and container has been told.
    agent.hear(population.pods * (1 + population.containers)).await?;
    serve(agent).await
}

struct Agent {
    handle: Handle,
    events: Subscription,
}

impl Agent {
    async fn hear(&mut self, events: usize) -> anyhow::Result<()> {
        let mut heard = 0;
        while heard < events {
            let event = self.events.next().await.ok_or_else(|| anyhow::anyhow!("the PLEG has ended"))?;
            heard += usize::try_from(event.merged)?;
        }
        Ok(())
    }
}

impl Work for Agent {
    /// From asking for a relist until the cache vouches for it, and until `number` events have been heard.
    async fn once(&mut self, number: u64) -> anyhow::Result<()> {
        let anyone = "nobody".into();
        let asked = self.handle.clock().stamp();
        self.handle.nudge(&anyone);
        self.handle.cache().newer_than(&anyone, asked).await??;
        self.hear(usize::try_from(number)?).await
    }
}
