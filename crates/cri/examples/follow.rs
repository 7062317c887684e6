//! Prints what a runtime is, its pods and containers, and then its events as they happen.
//!
//! `cargo run -p rubelet-cri --example follow -- unix:///run/containerd/containerd.sock`

use rubelet_cri::{Endpoint, Error, ListFilter, Metrics, Options, RuntimeClient};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let argument =
        std::env::args().nth(1).unwrap_or_else(|| "unix:///run/containerd/containerd.sock".to_owned());
    let endpoint: Endpoint = match argument.parse() {
        Ok(endpoint) => endpoint,
        Err(error) => return eprintln!("{error}"),
    };
    let client = RuntimeClient::new(endpoint, Options::default(), Metrics::default());
    if let Err(error) = follow(&client).await {
        eprintln!("{error}");
    }
}

async fn follow(client: &RuntimeClient) -> Result<(), Error> {
    let version = client.version().await?;
    println!("{} {}", version.runtime_name, version.runtime_version);
    // Open the stream before the list, so that nothing falls between them.
    let mut events = client.get_container_events().await?;
    for pod in client.list_pods(&ListFilter::All).await?.pods {
        for sandbox in &pod.sandboxes {
            let ips = client.sandbox_status(&sandbox.id).await?.map(|status| status.ips).unwrap_or_default();
            println!("{} sandbox {} {ips:?}", pod.pod, sandbox.state);
        }
        for container in &pod.containers {
            let status = client.container_status(&container.id, &container.sandbox).await?;
            let reason = status.map(|status| status.reason).unwrap_or_default();
            println!("{} {} {} {reason}", pod.pod, container.name, container.state);
        }
    }
    while let Some(event) = events.next().await {
        let event = event?;
        println!("{} {}", event.container_id, event.container_event_type().as_str_name());
    }
    println!("the runtime has ended the stream");
    Ok(())
}
