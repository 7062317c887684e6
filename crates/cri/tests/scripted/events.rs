//! The stream of events.

use crate::support::{Place, Reply, Server};
use parking_lot::Mutex;
use prost::Message as _;
use rubelet_cri::{ErrorKind, ListFilter, Operation, v1};
use tokio::sync::mpsc;
use tonic::{Code, Status};

fn event(id: &str) -> v1::ContainerEventResponse {
    v1::ContainerEventResponse { container_id: id.to_owned(), ..Default::default() }
}

/// A runtime that sends the events that the test sends, and knows no other call.
async fn live(place: &Place) -> (Server, mpsc::Sender<Vec<u8>>) {
    let (sender, receiver) = mpsc::channel(8);
    let receiver = Mutex::new(Some(receiver));
    let server = Server::start(place, move |call| match call.method.as_str() {
        "GetContainerEvents" => Reply::Live(receiver.lock().take().unwrap()),
        "ListContainers" => Reply::message(&v1::ListContainersResponse::default()),
        _ => Reply::unimplemented(),
    })
    .await;
    (server, sender)
}

#[tokio::test]
async fn events_come_as_they_happen_until_the_runtime_ends_the_stream() {
    let place = Place::new();
    let (_server, sender) = live(&place).await;
    let client = place.client();
    let mut events = client.get_container_events().await.unwrap();
    assert_eq!(events.epoch(), 1);
    for id in ["a", "b"] {
        sender.send(event(id).encode_to_vec()).await.unwrap();
        assert_eq!(events.next().await.unwrap().unwrap(), event(id));
    }
    drop(sender);
    assert!(events.next().await.is_none());
    assert!(events.next().await.is_none(), "and stays ended");
}

#[tokio::test]
async fn opening_does_not_wait_for_a_runtime_that_has_nothing_to_tell_yet() {
    let place = Place::new();
    let (server, sender) = live(&place).await;
    let client = place.client();
    let mut events = client.get_container_events().await.unwrap();
    client.list_containers(&ListFilter::All).await.unwrap();
    let methods = server.take_methods();
    assert_eq!(methods[0], "GetContainerEvents", "asked for before a list that was asked for later");
    // Giving up the wait for an event loses nothing.
    assert!(tokio::time::timeout(std::time::Duration::ZERO, events.next()).await.is_err());
    sender.send(event("a").encode_to_vec()).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap(), event("a"));
}

#[tokio::test]
async fn hanging_up_ends_the_stream_and_the_next_call_connects_again() {
    let place = Place::new();
    let (_server, sender) = live(&place).await;
    let client = place.client();
    let mut events = client.get_container_events().await.unwrap();
    sender.send(event("a").encode_to_vec()).await.unwrap();
    events.next().await.unwrap().unwrap();

    client.hang_up().await;
    client.hang_up().await;
    // The runtime notices although the stream is still held, and not read.
    sender.closed().await;
    assert!(events.next().await.unwrap().is_err());
    client.list_containers(&ListFilter::All).await.unwrap();
    assert_eq!(client.epoch(), 2);
}

#[tokio::test]
async fn a_stream_outlives_its_client() {
    let place = Place::new();
    let (_server, sender) = live(&place).await;
    let mut events = place.client().get_container_events().await.unwrap();
    sender.send(event("a").encode_to_vec()).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap(), event("a"));
}

#[tokio::test]
async fn a_runtime_without_events_fails_or_ends_at_once() {
    let place = Place::new();
    let server = Server::start(&place, |_| Reply::unimplemented()).await;
    let mut events = place.client().get_container_events().await.unwrap();
    let error = events.next().await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Unimplemented, Operation::GetContainerEvents));
    assert!(events.next().await.is_none());
    server.stop().await;
    let _server = Server::start(&place, |_| Reply::Nothing).await;
    assert!(place.client().get_container_events().await.unwrap().next().await.is_none());
}

#[tokio::test]
async fn a_stream_that_breaks_is_told_from_one_that_ends() {
    let place = Place::new();
    let server = Server::start(&place, |_| {
        Reply::Stream(vec![event("a").encode_to_vec()], Status::new(Code::Unavailable, "going down"))
    })
    .await;
    let mut events = place.client().get_container_events().await.unwrap();
    assert!(events.next().await.unwrap().is_ok());
    assert_eq!(events.next().await.unwrap().unwrap_err().detail(), "going down");
    assert!(events.next().await.is_none());
    server.stop().await;

    let (server, sender) = live(&place).await;
    let mut events = place.client().get_container_events().await.unwrap();
    sender.send(event("a").encode_to_vec()).await.unwrap();
    assert!(events.next().await.unwrap().is_ok());
    server.stop().await;
    assert_eq!(events.next().await.unwrap().unwrap_err().kind(), ErrorKind::ConnectionLost);
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn without_a_runtime_there_is_no_stream() {
    let place = Place::new();
    assert_eq!(place.client().get_container_events().await.unwrap_err().kind(), ErrorKind::NoSocket);
}
