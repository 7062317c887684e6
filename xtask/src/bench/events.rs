//! `cargo xtask bench events`: how soon the end of a container is noticed, with and without the event stream, and what
//! it costs to wait for one, on real runtimes.

pub(super) mod embedded;
mod idle;
mod latency;
pub(super) mod pods;

use anyhow::Context;
use rubelet_testbed::{BUSYBOX, Containerd, Flavor};

use super::EventsArgs;
use super::subject::build_rubelet;
use super::verdict::conclude;
use embedded::Embedded;
use pods::Node;

pub(super) fn run(args: &EventsArgs) -> anyhow::Result<()> {
    let rubelet = build_rubelet()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let containerd = Containerd::start(Flavor::V2)?;
    let embedded = Embedded::start(&rubelet)?;
    let on_containerd = Node::new("containerd 2", &containerd.endpoint(), BUSYBOX)?;
    let on_embedded = Node::new("embedded", &embedded.endpoint(), Embedded::IMAGE)?;
    let mut verdicts = Vec::new();

    println!("{}\n", latency::LEGEND);
    println!("{}", latency::Row::HEAD);
    for node in [&on_containerd, &on_embedded] {
        let row = runtime.block_on(latency::measure(node, args.samples))?;
        println!("{row}");
        verdicts.extend(row.verdicts());
    }
    drop(embedded);
    let old = Containerd::start(Flavor::V1_6)?;
    let node = Node::new("containerd 1.6", &old.endpoint(), BUSYBOX)?;
    let row = runtime.block_on(latency::measure_unpublished(&node, args.samples))?;
    println!("{row}");
    verdicts.extend(row.verdicts());
    drop(old);

    println!("\n{}\n", idle::legend(args.pods, args.seconds));
    let pid = containerd.pid().context("containerd has ended")?;
    let costs = runtime.block_on(idle::measure(&on_containerd, pid, &rubelet, args.pods, args.seconds))?;
    println!("{costs}");
    verdicts.extend(costs.verdicts());
    conclude(&verdicts, args.check)
}
