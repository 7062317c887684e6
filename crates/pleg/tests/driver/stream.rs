//! The reader of announcements.

use super::*;

/// On a quiet node, a stream may end before it has said anything. That does not mean that there is none.
#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_a_word_after_a_while_is_opened_again_soon() {
    let runtime = FakeRuntime::default();
    runtime.set("a", ContainerState::Running);
    let first = runtime.announces();
    let pleg = start(&runtime);
    let mut events = pleg.handle().subscribe();
    next(&mut events).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let second = runtime.announces();
    drop(first);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(runtime.0.stream.lock().is_none(), "somebody follows the second one");
    // Lists have become rare again.
    tokio::time::sleep(Duration::from_secs(60)).await;
    runtime.set("a", ContainerState::Exited);
    let stopped = Instant::now();
    second.send(stopped_of("a")).expect("it listens");
    assert_eq!(next(&mut events).await.trigger, pleg::Trigger::Event);
    assert_eq!(stopped.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_the_stream_too() {
    let runtime = FakeRuntime::default();
    let stream = runtime.announces();
    let mut pleg = start(&runtime);
    tokio::time::sleep(Duration::from_secs(10)).await;
    pleg.stop().await;
    assert!(stream.is_closed(), "nobody reads it any more");
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_events_that_panics_is_replaced() {
    let runtime = FakeRuntime::default();
    runtime.set("a", ContainerState::Running);
    *runtime.0.stream_panics.lock() = true;
    let _announced = runtime.announces();
    let pleg = start(&runtime);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let facts = pleg.handle().stream_facts();
    assert_eq!(facts.last_end.map(|(_, error)| error.to_string()).as_deref(), Some("its reader panicked"));
    assert_eq!(facts.open_since, None);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(pleg.handle().stream_facts().open_since.is_some(), "it is followed again");
}
