//! Who is told what, and in which order.

use super::*;
use crate::source::SourceKind;

fn file() -> SourceId {
    SourceId::new(SourceKind::File, "/pods")
}

fn url() -> SourceId {
    SourceId::new(SourceKind::Http, "http://x")
}

fn pod(uid: &str, name: &str) -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.uid = Some(uid.to_owned());
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    Arc::new(pod)
}

fn delta(source: SourceId, operation: Operation, pods: &[Arc<Pod>]) -> SourceUpdate {
    SourceUpdate::Pods(Delta { source, operation, pods: pods.to_vec() })
}

/// Commands in words: `spawn 1`, `start 1`, `end 1`, `forget 1`, `wish 1`, `look 1`.
fn told(commands: &[Command]) -> Vec<String> {
    commands
        .iter()
        .map(|command| match command {
            Command::Spawn { pod, after, .. } if after.is_zero() => format!("spawn {}", pod_ref(pod).uid),
            Command::Spawn { pod, .. } => format!("respawn {}", pod_ref(pod).uid),
            Command::Post { uid, mail } => {
                let what = match mail {
                    Mail { end: Some(End { forget: true, grace: None }), .. } => "end",
                    Mail { end: Some(End { forget: true, grace: Some(_) }), .. } => "end soon",
                    Mail { end: Some(_), .. } => "stop",
                    Mail { may_start: true, .. } => "start",
                    Mail { wish: Some(_), .. } => "wish",
                    _ => "look",
                };
                format!("{what} {uid}")
            }
            Command::Tell { source, .. } => format!("tell {source}"),
        })
        .collect()
}

#[test]
fn a_pod_comes_changes_and_goes() {
    let mut routes = Routes::new([file()]);
    let one = pod("1", "web");
    assert_eq!(
        told(&routes.source(delta(file(), Operation::Add, std::slice::from_ref(&one)))),
        ["spawn 1", "start 1"]
    );
    assert_eq!(
        told(&routes.source(delta(file(), Operation::Update, std::slice::from_ref(&one)))),
        ["wish 1"]
    );
    assert_eq!(told(&routes.event(&"1".into()).into_iter().collect::<Vec<_>>()), ["look 1"]);
    assert_eq!(told(&routes.source(delta(file(), Operation::Remove, &[one]))), ["end 1"]);
    assert!(routes.ended(&"1".into(), false).is_empty());
    assert_eq!(routes.event(&"1".into()), None);
}

#[test]
fn a_new_version_waits_until_the_old_one_is_gone() {
    let mut routes = Routes::new([file()]);
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    assert_eq!(told(&routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]))), ["end 1"]);
    assert_eq!(told(&routes.source(delta(file(), Operation::Add, &[pod("2", "web")]))), ["spawn 2"]);
    assert_eq!(told(&routes.source(delta(file(), Operation::Remove, &[pod("2", "web")]))), ["end 2"]);
    assert_eq!(told(&routes.source(delta(file(), Operation::Add, &[pod("3", "web")]))), ["spawn 3"]);
    assert!(routes.ended(&"2".into(), false).is_empty(), "not its turn");
    assert_eq!(told(&routes.ended(&"1".into(), false)), ["start 3"]);
}

#[test]
fn the_same_pod_may_come_back_while_it_goes() {
    let mut routes = Routes::new([file()]);
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]));
    assert!(routes.source(delta(file(), Operation::Add, &[pod("1", "web")])).is_empty());
    assert_eq!(told(&routes.ended(&"1".into(), false)), ["spawn 1", "start 1"]);
    routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]));
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]));
    assert!(routes.ended(&"1".into(), false).is_empty(), "and go again before it came");
}

#[test]
fn nothing_is_ended_before_every_source_was_heard() {
    let mut routes = Routes::new([file(), url()]);
    let found = vec![PodRef::new("old", "default", "db")];
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    assert!(routes.source(delta(file(), Operation::Remove, &[pod("1", "web")])).is_empty());
    assert!(routes.survey(found.clone()).is_empty());
    assert!(!routes.sources_ready());
    assert_eq!(told(&routes.source(delta(url(), Operation::Add, &[]))), ["end 1"]);
    assert_eq!(told(&routes.survey(found.clone())), ["spawn old", "start old", "end soon old"]);
    assert!(routes.survey(found).is_empty(), "once");
}

#[test]
fn what_a_newcomer_supersedes_goes_first_whoever_else_was_not_heard() {
    let mut routes = Routes::new([file(), url()]);
    routes.survey(vec![PodRef::new("old", "default", "web"), PodRef::new("other", "default", "db")]);
    assert_eq!(
        told(&routes.source(delta(file(), Operation::Add, &[pod("1", "web")]))),
        ["spawn old", "start old", "end soon old", "spawn 1"]
    );
    assert_eq!(told(&routes.ended(&"old".into(), false)), ["start 1"]);
}

#[test]
fn what_runs_already_is_adopted() {
    let mut routes = Routes::new([file()]);
    routes.survey(vec![PodRef::new("1", "default", "web")]);
    assert_eq!(
        told(&routes.source(delta(file(), Operation::Add, &[pod("1", "web")]))),
        ["spawn 1", "start 1"]
    );
    assert!(routes.survey(vec![PodRef::new("1", "default", "web")]).is_empty());
}

#[test]
fn changed_objects_concern_the_pods_of_their_source() {
    let mut routes = Routes::new([file(), url()]);
    routes.source(delta(file(), Operation::Add, &[pod("1", "a")]));
    routes.source(delta(url(), Operation::Add, &[pod("2", "b")]));
    let update = SourceUpdate::Objects { source: url(), objects: Arc::default() };
    assert_eq!(told(&routes.source(update)), ["wish 2"]);
}

#[test]
fn a_lost_actor_is_made_anew_and_knows_where_it_was() {
    let mut routes = Routes::new([file()]);
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    assert_eq!(told(&routes.ended(&"1".into(), true)), ["respawn 1", "start 1"]);
    routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]));
    assert_eq!(told(&routes.ended(&"1".into(), true)), ["respawn 1", "start 1", "end soon 1"]);
    assert!(routes.ended(&"nobody".into(), true).is_empty());
}
