//! The event stream.

use rubelet_cri::v1::{self, ContainerEventType as Kind};
use tonic::Streaming;

use crate::cri::Cri;

/// Opens a stream. Some runtimes do not even answer the call before there is something to tell: so something happens.
async fn open(cri: &Cri) -> Streaming<v1::ContainerEventResponse> {
    let mut client = cri.runtime().await;
    let mut call =
        tokio::spawn(async move { client.get_container_events(v1::GetEventsRequest::default()).await });
    loop {
        tokio::select! {
            biased;
            answer = &mut call => return answer.expect("a task").expect("a stream").into_inner(),
            () = noise(cri) => {}
        }
    }
}

async fn noise(cri: &Cri) {
    let pod = cri.run_pod(&cri.pod_config()).await.expect("a pod");
    cri.stop_pod(&pod).await.expect("stops");
    cri.remove_pod(&pod).await.expect("is removed");
}

/// Events about these ids, until one of them fits the end.
async fn until(
    stream: &mut Streaming<v1::ContainerEventResponse>,
    ids: &[&str],
    end: (&str, Kind),
) -> Vec<(String, Kind)> {
    let mut seen = Vec::new();
    while let Some(event) = stream.message().await.expect("an event") {
        if !ids.contains(&event.container_id.as_str()) {
            continue;
        }
        seen.push((event.container_id.clone(), event.container_event_type()));
        if (event.container_id.as_str(), event.container_event_type()) == end {
            break;
        }
    }
    seen
}

pub(crate) async fn events_tell_the_whole_life(cri: Cri) {
    let mut stream = open(&cri).await;
    let (pod, id, _) = cri.pod_with("exec sleep 3600").await;
    cri.start(&id).await.expect("starts");
    cri.stop(&id, 0).await.expect("stops");
    cri.remove(&id).await.expect("is removed");
    cri.stop_pod(&pod).await.expect("stops");
    cri.remove_pod(&pod).await.expect("is removed");
    let seen = until(&mut stream, &[&pod, &id], (&pod, Kind::ContainerDeletedEvent)).await;
    let of = |wanted: &str| -> Vec<Kind> {
        seen.iter().filter(|event| event.0 == wanted).map(|event| event.1).collect()
    };
    let life = [
        Kind::ContainerCreatedEvent,
        Kind::ContainerStartedEvent,
        Kind::ContainerStoppedEvent,
        Kind::ContainerDeletedEvent,
    ];
    assert_eq!(of(&id), life);
    assert_eq!(of(&pod), life);
}

pub(crate) async fn events_go_to_every_subscriber(cri: Cri) {
    let mut streams = [open(&cri).await, open(&cri).await, open(&cri).await];
    let (_, id, _) = cri.pod_with("true").await;
    cri.start(&id).await.expect("starts");
    cri.exited(&id).await;
    for stream in &mut streams {
        let seen = until(stream, &[&id], (&id, Kind::ContainerStoppedEvent)).await;
        assert!(seen.iter().any(|event| event.1 == Kind::ContainerCreatedEvent));
    }
}

pub(crate) async fn events_tell_of_a_failed_start(cri: Cri) {
    let mut stream = open(&cri).await;
    let mut config = cri.container_config("");
    config.command = vec!["/there/is/no/such/program".to_owned()];
    let (_, id, _) = cri.pod_with_config(config).await;
    cri.start(&id).await.expect_err("cannot start");
    cri.remove(&id).await.expect("is removed");
    let seen = until(&mut stream, &[&id], (&id, Kind::ContainerDeletedEvent)).await;
    let kinds: Vec<Kind> = seen.into_iter().map(|event| event.1).collect();
    assert_eq!(
        kinds,
        [Kind::ContainerCreatedEvent, Kind::ContainerStoppedEvent, Kind::ContainerDeletedEvent]
    );
}

pub(crate) async fn a_deleted_sandbox_is_not_listed_any_more(cri: Cri) {
    let mut stream = open(&cri).await;
    for _ in 0..10 {
        let pod = cri.run_pod(&cri.pod_config()).await.expect("a pod");
        let removal = tokio::spawn({
            let (cri, pod) = (cri.clone(), pod.clone());
            async move {
                cri.stop_pod(&pod).await?;
                cri.remove_pod(&pod).await
            }
        });
        while let Some(event) = stream.message().await.expect("an event") {
            if event.container_id == pod && event.container_event_type() == Kind::ContainerDeletedEvent {
                assert!(
                    event.pod_sandbox_status.is_some_and(|status| status.created_at > 0),
                    "the event names the pod"
                );
                break;
            }
        }
        assert!(cri.pods(None).await.iter().all(|listed| listed.id != pod), "gone before it is told");
        removal.await.expect("a task").expect("is removed");
    }
}
