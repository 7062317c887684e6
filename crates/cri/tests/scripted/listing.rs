//! Lists: every way of reading them gives the same, and what a runtime lacks is asked for only once.

use std::collections::HashMap;
use std::time::Duration;

use crate::support::{Call, Place, Reply, Server};
use prost::Message as _;
use rubelet_cri::{Error, ErrorKind, ListFilter, Metrics, Operation, Options, RuntimeClient, labels, v1};
use rubelet_model::{ContainerState, PodUid, SandboxState};
use tonic::{Code, Status};

fn container(id: &str, state: v1::ContainerState) -> v1::Container {
    v1::Container {
        id: id.to_owned(),
        pod_sandbox_id: "s".to_owned(),
        state: state.into(),
        ..Default::default()
    }
}

fn sandbox(id: &str, state: v1::PodSandboxState) -> v1::PodSandbox {
    v1::PodSandbox { id: id.to_owned(), state: state.into(), ..Default::default() }
}

fn list(containers: &[v1::Container]) -> v1::ListContainersResponse {
    v1::ListContainersResponse { containers: containers.to_vec() }
}

fn two() -> [v1::Container; 2] {
    [
        container("a", v1::ContainerState::ContainerRunning),
        container("b", v1::ContainerState::ContainerExited),
    ]
}

/// The ids that a list shows, in order of the alphabet.
async fn ids(client: &RuntimeClient) -> Result<Vec<String>, Error> {
    let list = client.list_containers(&ListFilter::All).await?;
    assert_eq!((list.unreadable, list.epoch), (0, client.epoch()));
    let mut ids: Vec<String> = list.iter().map(|entry| entry.id.to_owned()).collect();
    ids.sort();
    Ok(ids)
}

fn too_large() -> Reply {
    Reply::fail(
        Code::ResourceExhausted,
        "grpc: trying to send message larger than max (16777999 vs. 16777216)",
    )
}

#[tokio::test]
async fn as_a_stream_where_there_are_streams() {
    let place = Place::new();
    let server = Server::start(&place, |call| match call.method.as_str() {
        "StreamContainers" => {
            let parts = two().map(|container| list(&[container]).encode_to_vec());
            Reply::Stream(parts.to_vec(), Status::ok(""))
        }
        _ => Reply::unimplemented(),
    })
    .await;
    let client = place.client();
    assert_eq!(ids(&client).await.unwrap(), ["a", "b"]);
    assert_eq!(ids(&client).await.unwrap(), ["a", "b"]);
    assert_eq!(server.take_methods(), ["StreamContainers", "StreamContainers"]);
}

#[tokio::test(start_paused = true)]
async fn in_one_answer_where_there_are_none_and_that_is_remembered_for_the_connection() {
    let place = Place::new();
    let script = |call: &Call| match call.method.as_str() {
        "ListContainers" => Reply::message(&list(&two())),
        "ListPodSandbox" => Reply::message(&v1::ListPodSandboxResponse::default()),
        _ => Reply::unimplemented(),
    };
    let server = Server::start(&place, script).await;
    let client = place.client();
    assert_eq!(ids(&client).await.unwrap(), ["a", "b"]);
    assert_eq!(ids(&client).await.unwrap(), ["a", "b"]);
    assert_eq!(server.take_methods(), ["StreamContainers", "ListContainers", "ListContainers"]);
    client.list_sandboxes(&ListFilter::All).await.unwrap();
    assert_eq!(server.take_methods(), ["StreamPodSandboxes", "ListPodSandbox"], "each kind for itself");
    server.stop().await;
    let server = Server::start(&place, script).await;
    assert_eq!(ids(&client).await.unwrap(), ["a", "b"]);
    assert_eq!(
        server.take_methods(),
        ["StreamContainers", "ListContainers"],
        "it may be another runtime now"
    );
}

#[tokio::test]
async fn a_stream_that_fails_half_way_gives_nothing() {
    let place = Place::new();
    let server = Server::start(&place, |call| match call.method.as_str() {
        "StreamContainers" => {
            Reply::Stream(vec![list(&two()).encode_to_vec()], Status::new(Code::Internal, "disk on fire"))
        }
        _ => Reply::message(&list(&two())),
    })
    .await;
    let error = ids(&place.client()).await.unwrap_err();
    assert_eq!((error.kind(), error.detail()), (ErrorKind::Code(Code::Internal), "disk on fire"));
    assert_eq!(server.take_methods(), ["StreamContainers"]);
}

#[tokio::test]
async fn an_empty_stream_is_not_taken_at_its_word() {
    let place = Place::new();
    let server = Server::start(&place, |call| match call.method.as_str() {
        "StreamContainers" => Reply::Nothing,
        _ => Reply::message(&list(&two())),
    })
    .await;
    assert_eq!(ids(&place.client()).await.unwrap(), ["a", "b"]);
    assert_eq!(server.take_methods(), ["StreamContainers", "ListContainers"]);
}

#[tokio::test]
async fn a_success_without_an_answer_is_not_an_empty_list() {
    let place = Place::new();
    let _server = Server::start(&place, |_| Reply::Nothing).await;
    assert_eq!(ids(&place.client()).await.unwrap_err().kind(), ErrorKind::Code(Code::Internal));
}

#[tokio::test]
async fn a_filtered_list_asks_for_the_label_in_one_answer() {
    let place = Place::new();
    let server = Server::start(&place, |call| match call.method.as_str() {
        "ListContainers" => Reply::message(&list(&two()[..1])),
        "ListPodSandbox" => {
            let items = vec![sandbox("s", v1::PodSandboxState::SandboxReady)];
            Reply::message(&v1::ListPodSandboxResponse { items })
        }
        _ => Reply::unimplemented(),
    })
    .await;
    let uid = PodUid::from("u");
    let pods = place.client().list_pods(&ListFilter::Pod(&uid)).await.unwrap();
    assert_eq!((pods.pods.len(), pods.epoch), (1, Some(1)));
    let label_selector = HashMap::from([(labels::POD_UID.to_owned(), "u".to_owned())]);
    let calls = server.calls();
    let methods: Vec<&str> = calls.iter().map(|call| call.method.as_str()).collect();
    assert_eq!(methods, ["ListPodSandbox", "ListContainers"]);
    let filter = calls[0].decode::<v1::ListPodSandboxRequest>().filter.unwrap();
    assert_eq!(filter, v1::PodSandboxFilter { label_selector: label_selector.clone(), ..Default::default() });
    let filter = calls[1].decode::<v1::ListContainersRequest>().filter.unwrap();
    assert_eq!(filter, v1::ContainerFilter { label_selector, ..Default::default() });
}

/// A runtime whose full list is too large, with one container in each state.
fn crowded(call: &Call) -> Reply {
    match call.method.as_str() {
        "ListContainers" => match call.decode::<v1::ListContainersRequest>().filter {
            None => too_large(),
            Some(filter) => {
                let state = filter.state.unwrap().state();
                Reply::message(&list(&[container(state.as_str_name(), state)]))
            }
        },
        _ => Reply::unimplemented(),
    }
}

fn states(server: &Server) -> Vec<Option<v1::ContainerState>> {
    let calls = server.calls();
    server.take_methods();
    let lists = calls.iter().filter(|call| call.method == "ListContainers");
    lists
        .map(|call| {
            call.decode::<v1::ListContainersRequest>().filter.map(|filter| filter.state.unwrap().state())
        })
        .collect()
}

const BY_STATE: [Option<v1::ContainerState>; 4] = [
    Some(v1::ContainerState::ContainerUnknown),
    Some(v1::ContainerState::ContainerCreated),
    Some(v1::ContainerState::ContainerRunning),
    Some(v1::ContainerState::ContainerExited),
];

#[tokio::test(start_paused = true)]
async fn by_state_where_one_answer_is_too_large_and_that_is_remembered_for_a_while() {
    let place = Place::new();
    let server = Server::start(&place, crowded).await;
    let client = place.client();
    let all = ["CONTAINER_CREATED", "CONTAINER_EXITED", "CONTAINER_RUNNING", "CONTAINER_UNKNOWN"];
    assert_eq!(ids(&client).await.unwrap(), all);
    assert_eq!(states(&server), [&[None], &BY_STATE[..]].concat());
    tokio::time::advance(Duration::from_secs(299)).await;
    assert_eq!(ids(&client).await.unwrap(), all);
    assert_eq!(states(&server), BY_STATE);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(ids(&client).await.unwrap(), all);
    assert_eq!(states(&server), [&[None], &BY_STATE[..]].concat(), "it may have become shorter");
}

#[tokio::test]
async fn that_the_full_list_is_too_large_says_nothing_about_a_filtered_one() {
    let place = Place::new();
    let server = Server::start(&place, |call| match call.decode::<v1::ListContainersRequest>().filter {
        Some(filter) if !filter.label_selector.is_empty() => Reply::message(&list(&two())),
        _ => crowded(call),
    })
    .await;
    let client = place.client();
    assert!(client.list_containers(&ListFilter::All).await.unwrap().in_parts);
    server.take_methods();
    let of_pod = client.list_containers(&ListFilter::Pod(&"u".into())).await.unwrap();
    assert_eq!((of_pod.len(), of_pod.in_parts), (2, false));
    assert_eq!(server.take_methods(), ["ListContainers"]);
}

#[tokio::test]
async fn a_filtered_list_may_be_too_large_as_well() {
    let place = Place::new();
    let _server = Server::start(&place, |call| match call.decode::<v1::ListContainersRequest>().filter {
        Some(v1::ContainerFilter { state: None, .. }) => too_large(),
        Some(filter) => {
            assert_eq!(filter.label_selector[labels::POD_UID], "u");
            let state = filter.state.unwrap().state();
            Reply::message(&list(&[container(state.as_str_name(), state)]))
        }
        None => Reply::unimplemented(),
    })
    .await;
    assert_eq!(place.client().list_containers(&ListFilter::Pod(&"u".into())).await.unwrap().len(), 4);
}

#[tokio::test]
async fn sandboxes_by_state() {
    let place = Place::new();
    let _server = Server::start(&place, |call| match call.method.as_str() {
        "ListPodSandbox" => match call.decode::<v1::ListPodSandboxRequest>().filter {
            None => too_large(),
            Some(filter) => {
                let state = filter.state.unwrap().state();
                Reply::message(&v1::ListPodSandboxResponse {
                    items: vec![sandbox(state.as_str_name(), state)],
                })
            }
        },
        _ => Reply::unimplemented(),
    })
    .await;
    let list = place.client().list_sandboxes(&ListFilter::All).await.unwrap();
    let seen: Vec<_> = list.iter().map(|entry| (entry.id, entry.state)).collect();
    assert_eq!(seen, [("SANDBOX_READY", SandboxState::Ready), ("SANDBOX_NOTREADY", SandboxState::NotReady)]);
}

#[tokio::test]
async fn one_that_changes_state_between_two_lists_is_seen_once_and_as_it_was_last() {
    let place = Place::new();
    // "moves" starts and ends while the lists are read, so each list finds it.
    let _server = Server::start(&place, |call| match call.method.as_str() {
        "ListContainers" => match call.decode::<v1::ListContainersRequest>().filter {
            None => too_large(),
            Some(filter) => Reply::message(&list(&[container("moves", filter.state.unwrap().state())])),
        },
        _ => Reply::unimplemented(),
    })
    .await;
    let list = place.client().list_containers(&ListFilter::All).await.unwrap();
    let seen: Vec<_> = list.iter().map(|entry| (entry.id, entry.state)).collect();
    assert_eq!(seen, [("moves", ContainerState::Exited)]);
}

#[tokio::test]
async fn states_that_are_too_large_each_for_itself_are_an_error() {
    let place = Place::new();
    let _server = Server::start(&place, |call| match call.method.as_str() {
        "ListContainers" => too_large(),
        _ => Reply::unimplemented(),
    })
    .await;
    let error = ids(&place.client()).await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::TooLarge, Operation::ListContainers));
}

#[tokio::test]
async fn an_answer_larger_than_we_allow_is_too_large() {
    let place = Place::new();
    let _server = Server::start(&place, crowded_for_us).await;
    let mut options = Options::default();
    options.max_answer = 40;
    let client = RuntimeClient::new(place.endpoint.clone(), options, Metrics::default());
    assert_eq!(ids(&client).await.unwrap().len(), 4);
    let error = client.describe_containers(None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
}

fn crowded_for_us(call: &Call) -> Reply {
    let all = BY_STATE.map(|state| container(state.unwrap().as_str_name(), state.unwrap()));
    match (call.method.as_str(), call.decode::<v1::ListContainersRequest>().filter) {
        ("ListContainers", None) => Reply::message(&list(&all)),
        ("ListContainers", Some(_)) => crowded(call),
        _ => Reply::unimplemented(),
    }
}

#[tokio::test(start_paused = true)]
async fn one_deadline_for_all_of_a_list() {
    let place = Place::new();
    let (messages, receiver) = tokio::sync::mpsc::channel(1);
    let receiver = parking_lot::Mutex::new(Some(receiver));
    let server = Server::start(&place, move |_| Reply::Live(receiver.lock().take().unwrap())).await;
    let drip = tokio::spawn(async move {
        // Always something new, and never an end.
        while messages.send(list(&two()).encode_to_vec()).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let start = tokio::time::Instant::now();
    assert_eq!(ids(&place.client()).await.unwrap_err().kind(), ErrorKind::Deadline);
    assert_eq!(start.elapsed().as_secs(), 120);
    assert_eq!(server.take_methods(), ["StreamContainers"]);
    drip.abort();
}

#[tokio::test]
async fn damaged_entries_are_kept_and_those_without_an_id_are_counted() {
    let place = Place::new();
    let _server = Server::start(&place, |call| match call.method.as_str() {
        "ListContainers" => {
            let mut answer = list(&two()).encode_to_vec();
            // An entry that has an id, and then garbage; and one that has no id.
            answer.extend([0x0a, 5, 0x0a, 1, b'c', 0xff, 0xff]);
            answer.extend([0x0a, 2, 0x12, 0]);
            Reply::Message(answer)
        }
        _ => Reply::unimplemented(),
    })
    .await;
    let list = place.client().list_containers(&ListFilter::All).await.unwrap();
    let seen: Vec<_> = list.iter().map(|entry| (entry.id, entry.state)).collect();
    let wanted =
        [("a", ContainerState::Running), ("b", ContainerState::Exited), ("c", ContainerState::Unknown)];
    assert_eq!(seen, wanted);
    assert_eq!(list.unreadable, 2, "whose c is, and what the other is, cannot be told");
}

#[tokio::test(start_paused = true)]
async fn a_restart_between_the_lists_shows() {
    let place = Place::new();
    let script = |call: &Call| match call.method.as_str() {
        "ListContainers" => Reply::message(&list(&two())),
        "ListPodSandbox" => Reply::message(&v1::ListPodSandboxResponse::default()),
        _ => Reply::unimplemented(),
    };
    let server = Server::start(&place, script).await;
    let client = place.client();
    assert_eq!(client.list_pods(&ListFilter::All).await.unwrap().epoch, Some(1));
    let sandboxes = client.list_sandboxes(&ListFilter::All).await.unwrap();
    server.stop().await;
    let _server = Server::start(&place, script).await;
    let containers = client.list_containers(&ListFilter::All).await.unwrap();
    assert_eq!((sandboxes.epoch, containers.epoch), (1, 2));
    assert_eq!(rubelet_cri::assemble(&sandboxes, &containers).epoch, None);
}
