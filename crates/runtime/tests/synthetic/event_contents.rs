//! Which action sends which event, and what it says: profile by profile.

use rubelet_cri::v1::{self, ContainerEventType as Type};
use rubelet_runtime::synthetic::{Behavior, Exit, OnStart, Profile, World};

use crate::client::{Crictl, Served, container_config, sandbox_config, serve};

/// One short life: a pod with one container, stopped and removed, then its sandbox.
async fn short_life(profile: Profile) -> (Vec<v1::ContainerEventResponse>, String, String) {
    let Served { runtime, client } = serve(profile).await;
    runtime.world(|world| world.add_image("app:1", 1));
    let mut stream = client.clone().get_container_events(v1::GetEventsRequest {}).await.unwrap().into_inner();
    let mut crictl = Crictl(client);
    let sandbox = crictl.run_sandbox(sandbox_config("p", "u", 0)).await.unwrap();
    let id = crictl.create(&sandbox, container_config("c", 0)).await.unwrap();
    crictl.start(&id).await.unwrap();
    runtime.world(|world| world.exit(&id.as_str().into(), 3));
    crictl.remove(&id).await.unwrap();
    crictl.stop_sandbox(&sandbox).await.unwrap();
    crictl.remove_sandbox(&sandbox).await.unwrap();
    let made = runtime.events().counts().made;
    let mut events = Vec::new();
    for _ in 0..made {
        events.push(stream.message().await.unwrap().unwrap());
    }
    (events, sandbox, id)
}

fn trace(events: &[v1::ContainerEventResponse], sandbox: &str) -> Vec<(Type, bool)> {
    events.iter().map(|event| (event.container_event_type(), event.container_id == sandbox)).collect()
}

#[tokio::test]
async fn containerd_announces_everything_and_its_sandbox_is_still_there_when_deleted() {
    let (events, sandbox, id) = short_life(Profile::Ctd2).await;
    let (c, s) = (false, true);
    assert_eq!(
        trace(&events, &sandbox),
        [
            (Type::ContainerCreatedEvent, s),
            (Type::ContainerStartedEvent, s),
            (Type::ContainerCreatedEvent, c),
            (Type::ContainerStartedEvent, c),
            (Type::ContainerStoppedEvent, c),
            (Type::ContainerDeletedEvent, c),
            (Type::ContainerStoppedEvent, s),
            (Type::ContainerDeletedEvent, s),
        ]
    );
    let stopped = &events[4];
    assert_eq!(stopped.container_id, id);
    assert_eq!(stopped.containers_statuses[0].exit_code, 3);
    assert!(stopped.created_at > 0);
    assert!(events[5].containers_statuses.is_empty(), "what is deleted is not told about any more");
    let deleted = events[7].pod_sandbox_status.as_ref().unwrap();
    assert_eq!(deleted.metadata.as_ref().unwrap().uid, "u");
    assert_eq!(deleted.created_at, -6_795_364_578_871_345_152, "garbage, as sent by containerd 2.x");
}

#[tokio::test]
async fn containerd_1_7_does_not_say_which_pod_lost_its_sandbox() {
    let (events, sandbox, _) = short_life(Profile::Ctd17).await;
    assert_eq!(events.len(), 8);
    let last = events.last().unwrap();
    assert_eq!((last.container_event_type(), &*last.container_id), (Type::ContainerDeletedEvent, &*sandbox));
    assert_eq!(last.pod_sandbox_status, None);
}

#[tokio::test]
async fn crio_keeps_quiet_about_sandboxes_made_and_removed() {
    let (events, sandbox, _) = short_life(Profile::CrioOn).await;
    let (c, s) = (false, true);
    assert_eq!(
        trace(&events, &sandbox),
        [
            (Type::ContainerStartedEvent, s),
            (Type::ContainerCreatedEvent, c),
            (Type::ContainerStartedEvent, c),
            (Type::ContainerStoppedEvent, c),
            (Type::ContainerDeletedEvent, c),
            (Type::ContainerStoppedEvent, s),
        ]
    );
}

#[test]
fn removal_of_a_sandbox_takes_its_containers_along_loudly_or_not() {
    for (profile, deleted) in [(Profile::Ctd17, 3), (Profile::Ctd2, 3), (Profile::CrioOn, 0)] {
        let mut world = World::new(profile, 1);
        let pod = world.add_pod("p");
        for name in ["a", "b"] {
            let id = world.run(&pod.sandbox, name);
            world.exit(&id, 0);
        }
        world.take_events();
        world.remove_sandbox(&pod.sandbox);
        let events = world.take_events();
        let deletions =
            events.iter().filter(|event| event.message.container_event_type() == Type::ContainerDeletedEvent);
        assert_eq!(deletions.count(), deleted, "{profile}");
    }
}

#[test]
fn events_tell_of_one_sandbox_or_of_the_whole_pod() {
    for (profile, told) in [(Profile::Ctd2, 1), (Profile::CrioOn, 2)] {
        let mut world = World::new(profile, 1);
        let pod = world.add_pod("p");
        let old = world.run(&pod.sandbox, "c");
        world.stop_sandbox(&pod.sandbox);
        let new = world.add_sandbox(&pod.uid);
        world.take_events();
        world.run(&new, "c");
        let event = world.take_events().pop().unwrap();
        assert_eq!(event.message.containers_statuses.len(), told, "{profile}");
        let has_old = event.message.containers_statuses.iter().any(|status| status.id == old.as_str());
        assert_eq!(has_old, told == 2);
    }
    let mut world = World::new(Profile::CrioOn, 1);
    let pod = world.add_pod(rubelet_runtime::synthetic::PodSpec::by_hand("manual"));
    world.run(&pod.sandbox, "c");
    let event = world.take_events().pop().unwrap();
    assert!(event.message.containers_statuses.is_empty(), "without the label CRI-O finds no containers");
}

#[test]
fn what_no_runtime_announces_is_not_announced() {
    for profile in [Profile::Ctd17, Profile::Ctd2, Profile::CrioOn] {
        let mut world = World::new(profile, 1);
        let pod = world.add_pod("p");
        let broken = world.create(&pod.sandbox, "broken");
        let running = world.run(&pod.sandbox, "running");
        let lost = world.run(&pod.sandbox, "lost");
        world.exit(&running, 137);
        world.take_events();
        world.fail_start(&broken, "no");
        world.revise_exit(&running, Exit::oom());
        world.set_unknown(&lost);
        world.vanish(&lost);
        world.set_ips(&pod.sandbox, &[]);
        assert_eq!(world.take_events(), [], "{profile}");
        let silent = world.history().iter().filter(|change| change.announced.is_empty()).count();
        assert_eq!(silent, 5, "the history knows");
    }
}

#[test]
fn a_container_that_is_over_at_once_may_be_stopped_before_it_is_started() {
    let mut reversed = 0;
    for seed in 0..40 {
        let mut world = World::new(Profile::Ctd2, seed);
        let pod = world.add_pod("p");
        let id = world.create(&pod.sandbox, "c");
        world.take_events();
        world.start_and_exit(&id, 1);
        let events = world.take_events();
        assert_eq!(events.len(), 2);
        assert!(events.iter().all(|event| event.message.containers_statuses[0].exit_code == 1));
        reversed += u32::from(events[0].message.container_event_type() == Type::ContainerStoppedEvent);
    }
    assert!((5..=35).contains(&reversed), "{reversed}");
}

#[tokio::test]
async fn the_same_race_through_calls() {
    let Served { runtime, client } = serve(Profile::Ctd2).await;
    let sandbox = runtime.world(|world| {
        world.add_image("app:1", 1);
        world.behave("c", Behavior::default().on_start(OnStart::ExitAtOnce(Exit::code(0))));
        world.add_pod("p").sandbox
    });
    let mut crictl = Crictl(client);
    let id = crictl.create(sandbox.as_str(), container_config("c", 0)).await.unwrap();
    crictl.start(&id).await.unwrap();
    assert_eq!(crictl.status(&id).await.unwrap().reason, "Completed");
    assert_eq!(runtime.events().counts().made, 5);
}
