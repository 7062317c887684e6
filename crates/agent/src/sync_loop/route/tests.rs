//! Who is told what, and in which order.

use super::*;
use crate::source::SourceKind;

fn file() -> SourceId {
    SourceId::new(SourceKind::File, "/pods")
}

fn routes() -> Routes {
    Routes::new([file()], Node::named("n"))
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

/// Commands in words: `spawn 1`, `spawn 2 behind file /pods`, `start 1`, `end 1`, `forget 1`, `wish 1`, `look 1`.
fn told(commands: &[Command]) -> Vec<String> {
    commands
        .iter()
        .map(|command| match command {
            Command::Spawn { pod, refusal: Some(refusal), .. } => {
                format!("refuse {} {}", pod_ref(pod).uid, refusal.reason())
            }
            Command::Spawn { pod, behind: Some(source), .. } => {
                format!("spawn {} behind {source}", pod_ref(pod).uid)
            }
            Command::Spawn { pod, after_loss: None, .. } => format!("spawn {}", pod_ref(pod).uid),
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
fn a_survey_that_saw_what_is_gone_makes_no_orphan_of_it() {
    let mut routes = routes();
    let one = pod("1", "web");
    routes.source(delta(file(), Operation::Add, std::slice::from_ref(&one)));
    routes.survey_begins();
    assert_eq!(told(&routes.source(delta(file(), Operation::Remove, std::slice::from_ref(&one)))), ["end 1"]);
    assert!(routes.ended(&"1".into(), false).is_empty());
    assert!(routes.survey(vec![pod_ref(&one)]).is_empty(), "it saw what was there before");
    routes.survey_begins();
    assert_eq!(told(&routes.survey(vec![pod_ref(&one)])), ["spawn 1", "start 1", "end soon 1"]);
}

#[test]
fn somebody_elses_pod_with_a_name_of_ours_is_a_namesake() {
    let mut routes = routes();
    let (web, db) = (pod("1", "web"), pod("2", "db"));
    routes.source(delta(file(), Operation::Add, &[web.clone(), db.clone()]));
    routes.survey_begins();
    routes.source(delta(file(), Operation::Remove, std::slice::from_ref(&db)));
    routes.ended(&"2".into(), false);
    let theirs =
        [("9", "default", "web"), ("8", "other", "web"), ("7", "default", "db"), ("6", "default", "x")];
    let theirs = theirs.map(|(uid, namespace, name)| PodRef::new(uid, namespace, name));
    let seen = [pod_ref(&web), pod_ref(&db)].into_iter().chain(theirs.clone());
    assert_eq!(routes.namesakes(seen.collect()), theirs[..1]);
}

#[test]
fn a_pod_comes_changes_and_goes() {
    let mut routes = routes();
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
    let mut routes = routes();
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
    let mut routes = routes();
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]));
    assert!(routes.source(delta(file(), Operation::Add, &[pod("1", "web")])).is_empty());
    assert_eq!(told(&routes.ended(&"1".into(), false)), ["spawn 1", "start 1"]);
    routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]));
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]));
    assert!(routes.ended(&"1".into(), false).is_empty(), "and go again before it came");
}

/// Two sources that were heard, the first of which has pod 1.
fn two_sources() -> Routes {
    let mut routes = Routes::new([file(), url()], Node::named("n"));
    routes.source(delta(url(), Operation::Add, &[]));
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    routes
}

#[test]
fn a_pod_moves_from_one_source_to_another_in_any_order() {
    let one = || [pod("1", "web")];
    let mut routes = two_sources();
    assert_eq!(told(&routes.source(delta(url(), Operation::Add, &one()))), ["wish 1"]);
    assert!(routes.source(delta(file(), Operation::Update, &one())).is_empty(), "it no longer has a say");
    assert!(routes.source(delta(file(), Operation::Remove, &one())).is_empty(), "it is another's now");
    assert!(routes.is_wanted(&"1".into()));
    assert_eq!(told(&routes.source(delta(url(), Operation::Remove, &one()))), ["end 1"]);

    let mut routes = two_sources();
    assert_eq!(told(&routes.source(delta(file(), Operation::Remove, &one()))), ["end 1"]);
    assert!(routes.source(delta(url(), Operation::Add, &one())).is_empty());
    assert_eq!(told(&routes.ended(&"1".into(), false)), ["spawn 1", "start 1"]);
}

#[test]
fn a_pod_of_two_sources_stays_until_both_have_let_go() {
    let one = || [pod("1", "web")];
    let mut routes = two_sources();
    routes.source(delta(url(), Operation::Add, &one()));
    assert_eq!(
        told(&routes.source(delta(url(), Operation::Remove, &one()))),
        ["wish 1"],
        "as the first wants"
    );
    let update = SourceUpdate::Objects { source: file(), objects: Arc::default() };
    assert_eq!(told(&routes.source(update)), ["wish 1"], "with what the first has");
    assert_eq!(told(&routes.source(delta(file(), Operation::Remove, &one()))), ["end 1"]);

    let mut routes = two_sources();
    routes.source(delta(file(), Operation::Remove, &one()));
    routes.source(delta(url(), Operation::Add, &one()));
    routes.source(delta(file(), Operation::Add, &one()));
    routes.source(delta(file(), Operation::Remove, &one()));
    assert_eq!(told(&routes.ended(&"1".into(), false)), ["spawn 1", "start 1"], "also while it goes");
}

#[test]
fn whoever_waits_for_a_namesake_of_another_source_is_told() {
    let mut routes = two_sources();
    assert_eq!(
        told(&routes.source(delta(url(), Operation::Add, &[pod("2", "web")]))),
        ["spawn 2 behind file /pods"]
    );
    assert_eq!(told(&routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]))), ["end 1"]);
    assert_eq!(told(&routes.ended(&"1".into(), false)), ["start 2"]);
}

#[test]
fn who_was_stopped_begins_anew_when_its_manifest_changes() {
    let mut routes = routes();
    let (uid, one) = (PodUid::from("1"), [pod("1", "web")]);
    routes.source(delta(file(), Operation::Add, &one));
    routes.told_to_end(&uid, End { grace: Some(1), forget: false });
    assert_eq!(told(&routes.ended(&uid, true)), ["respawn 1", "start 1", "stop 1"], "and stays stopped");
    assert_eq!(told(&routes.source(delta(file(), Operation::Update, &one))), ["end 1"]);
    assert_eq!(told(&routes.ended(&uid, false)), ["spawn 1", "start 1"]);
    assert_eq!(told(&routes.source(delta(file(), Operation::Update, &one))), ["wish 1"], "as any other");

    routes.told_to_end(&uid, End { grace: None, forget: true });
    assert!(routes.ended(&uid, false).is_empty(), "who was told to go for good does not come back");
}

#[test]
fn nothing_is_ended_before_every_source_was_heard() {
    let mut routes = Routes::new([file(), url()], Node::named("n"));
    let found = vec![PodRef::new("old", "default", "db")];
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    assert!(routes.source(delta(file(), Operation::Remove, &[pod("1", "web")])).is_empty());
    assert!(routes.survey(found.clone()).is_empty());
    assert_eq!(routes.missing_sources().collect::<Vec<_>>(), [&url()]);
    assert_eq!(told(&routes.source(delta(url(), Operation::Add, &[]))), ["end 1"]);
    assert_eq!(told(&routes.survey(found.clone())), ["spawn old", "start old", "end soon old"]);
    assert!(routes.survey(found).is_empty(), "once");
}

#[test]
fn what_a_newcomer_supersedes_goes_first_whoever_else_was_not_heard() {
    let mut routes = Routes::new([file(), url()], Node::named("n"));
    routes.survey(vec![PodRef::new("old", "default", "web"), PodRef::new("other", "default", "db")]);
    assert_eq!(
        told(&routes.source(delta(file(), Operation::Add, &[pod("1", "web")]))),
        ["spawn old", "start old", "end soon old", "spawn 1"]
    );
    assert_eq!(told(&routes.ended(&"old".into(), false)), ["start 1"]);
}

#[test]
fn what_runs_already_is_adopted() {
    let mut routes = routes();
    routes.survey(vec![PodRef::new("1", "default", "web")]);
    assert_eq!(
        told(&routes.source(delta(file(), Operation::Add, &[pod("1", "web")]))),
        ["spawn 1", "start 1"]
    );
    assert!(routes.survey(vec![PodRef::new("1", "default", "web")]).is_empty());
}

#[test]
fn nobody_is_renamed_while_it_lives() {
    let (uid, first, second) = (PodUid::from("1"), [pod("1", "web")], [pod("1", "shop")]);
    let renamed = |routes: &mut Routes| {
        assert_eq!(routes.outlook(), Outlook { wanted: 1, waiting_for_room: 0, beginning_anew: 1 });
        assert_eq!(told(&routes.ended(&uid, true)), ["respawn 1", "start 1", "end 1"], "under its old name");
        assert_eq!(&*routes.records[&uid].name, "web_default");
        assert_eq!(told(&routes.ended(&uid, false)), ["spawn 1", "start 1"]);
        assert_eq!(&*routes.records[&uid].name, "shop_default");
    };

    let mut routes = Routes::new([file(), url()], Node::named("n"));
    routes.source(delta(file(), Operation::Add, &first));
    assert!(routes.source(delta(file(), Operation::Remove, &first)).is_empty(), "it might be another's");
    assert_eq!(told(&routes.source(delta(file(), Operation::Add, &second))), ["end 1"]);
    renamed(&mut routes);

    let mut routes = two_sources();
    assert_eq!(told(&routes.source(delta(url(), Operation::Add, &second))), ["end 1"], "another calls it so");
    renamed(&mut routes);
    assert_eq!(told(&routes.source(delta(url(), Operation::Remove, &second))), ["end 1"], "and lets go");
}

#[test]
fn what_was_renamed_while_no_agent_ran_ends_before_it_comes() {
    let was_called = |name: &str| {
        let mut routes = Routes::new([file(), url()], Node::named("n"));
        routes.survey(vec![PodRef::new("1", "default", name), PodRef::new("old", "default", "shop")]);
        let commands = routes.source(delta(file(), Operation::Add, &[pod("1", "shop")]));
        (told(&commands), routes)
    };
    let (commands, mut routes) = was_called("web");
    assert_eq!(commands, ["spawn 1", "start 1", "end soon 1"]);
    assert_eq!(&*routes.records[&PodUid::from("1")].name, "web_default");
    assert_eq!(
        told(&routes.ended(&"1".into(), false)),
        ["spawn old", "start old", "end soon old", "spawn 1"],
        "who has its new name goes first"
    );
    assert_eq!(told(&routes.ended(&"old".into(), false)), ["start 1"]);
    for same in ["shop", ""] {
        let (commands, _) = was_called(same);
        assert_eq!(commands, ["spawn old", "start old", "end soon old", "spawn 1"], "{same:?} is adopted");
    }
}

#[test]
fn changed_objects_concern_the_pods_of_their_source() {
    let mut routes = Routes::new([file(), url()], Node::named("n"));
    routes.source(delta(file(), Operation::Add, &[pod("1", "a")]));
    routes.source(delta(url(), Operation::Add, &[pod("2", "b")]));
    let update = SourceUpdate::Objects { source: url(), objects: Arc::default() };
    assert_eq!(told(&routes.source(update)), ["wish 2"]);
}

#[test]
fn a_lost_actor_is_made_anew_and_knows_where_it_was() {
    let mut routes = routes();
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    assert_eq!(told(&routes.ended(&"1".into(), true)), ["respawn 1", "start 1"]);
    routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]));
    assert_eq!(
        told(&routes.ended(&"1".into(), true)),
        ["respawn 1", "start 1", "end 1"],
        "with the grace of its own"
    );
    routes.survey(vec![PodRef::new("old", "default", "db")]);
    assert_eq!(told(&routes.ended(&"old".into(), true)), ["respawn old", "start old", "end soon old"]);
    assert!(routes.ended(&"nobody".into(), true).is_empty());
}

/// A pod that asks for so many cores.
fn asking(uid: &str, name: &str, cores: &str) -> Arc<Pod> {
    use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    let requests = Some([("cpu".to_owned(), Quantity(cores.to_owned()))].into());
    let resources = Some(ResourceRequirements { requests, ..ResourceRequirements::default() });
    let containers = vec![Container { resources, ..Container::default() }];
    let mut pod = Pod::clone(&pod(uid, name));
    pod.spec = Some(PodSpec { containers, ..PodSpec::default() });
    Arc::new(pod)
}

fn two_cores() -> Routes {
    let mut node = Node::named("n");
    node.allocatable = [("cpu".to_owned(), "2".parse().unwrap())].into();
    Routes::new([file()], node)
}

#[test]
fn who_does_not_fit_is_refused_and_asked_again_when_there_is_room_first_come_first_served() {
    let mut routes = two_cores();
    let (one, two, three) = (asking("1", "a", "2"), asking("2", "b", "1"), asking("3", "c", "1500m"));
    let huge = asking("4", "d", "3");
    let add = delta(file(), Operation::Add, &[one.clone(), two, three, huge]);
    assert_eq!(
        told(&routes.source(add)),
        [
            "spawn 1",
            "start 1",
            "refuse 2 OutOfcpu",
            "start 2",
            "refuse 3 OutOfcpu",
            "start 3",
            "refuse 4 OutOfcpu",
            "start 4"
        ]
    );
    assert_eq!(routes.outlook(), Outlook { wanted: 4, waiting_for_room: 2, beginning_anew: 0 });
    assert!(routes.reconsider().is_empty(), "nothing has changed");
    routes.source(delta(file(), Operation::Remove, &[one]));
    assert_eq!(told(&routes.ended(&"1".into(), false)), ["end 2"], "the third no longer fits beside it");
    assert_eq!(routes.outlook(), Outlook { wanted: 3, waiting_for_room: 2, beginning_anew: 1 });
    assert_eq!(told(&routes.ended(&"2".into(), false)), ["spawn 2", "start 2"]);
    assert_eq!(routes.outlook(), Outlook { wanted: 3, waiting_for_room: 1, beginning_anew: 0 });
    routes.are_over([PodUid::from("2")].into());
    assert_eq!(told(&routes.reconsider()), ["end 3"], "a pod that has ended takes no room");
}

#[test]
fn who_was_here_before_keeps_its_room_and_a_new_version_takes_that_of_the_old() {
    let mut routes = two_cores();
    routes.survey(vec![PodRef::new("2", "default", "b")]);
    let (one, two) = (asking("1", "a", "2"), asking("2", "b", "2"));
    let commands = routes.source(delta(file(), Operation::Add, &[one, two]));
    assert_eq!(told(&commands), ["spawn 2", "start 2", "refuse 1 OutOfcpu", "start 1"]);
    let commands = routes.source(delta(file(), Operation::Add, &[asking("3", "b", "2")]));
    assert_eq!(told(&commands), ["spawn 3"], "it waits for the old one, not for room");
}

#[test]
fn a_refused_pod_whose_manifest_changes_is_asked_again() {
    let mut routes = two_cores();
    let commands = routes.source(delta(file(), Operation::Add, &[asking("1", "a", "3")]));
    assert_eq!(told(&commands), ["refuse 1 OutOfcpu", "start 1"]);
    let smaller = asking("1", "a", "1");
    assert_eq!(told(&routes.source(delta(file(), Operation::Update, &[smaller]))), ["end 1"]);
    assert_eq!(told(&routes.ended(&"1".into(), false)), ["spawn 1", "start 1"]);
}

fn pending(routes: &Routes, uid: &str) -> Option<&'static str> {
    routes.records[&PodUid::from(uid)].growth.as_ref().map(|growth| growth.pending.reason())
}

fn cores(routes: &Routes, uid: &str) -> i64 {
    crate::pod::requests(&routes.records[&PodUid::from(uid)].pod)["cpu"].millis()
}

#[test]
fn a_pod_that_wants_more_gets_it_when_there_is_room_and_keeps_what_it_has_until_then() {
    let mut routes = two_cores();
    let (one, two) = (asking("1", "a", "1"), asking("2", "b", "500m"));
    routes.source(delta(file(), Operation::Add, &[one, two.clone()]));
    let update = |routes: &mut Routes, cores: &str| {
        let changed = delta(file(), Operation::Update, &[asking("1", "a", cores)]);
        assert_eq!(told(&routes.source(changed)), ["wish 1"], "{cores}");
    };
    update(&mut routes, "1500m");
    assert_eq!((pending(&routes, "1"), cores(&routes, "1")), (None, 1500));
    update(&mut routes, "1800m");
    assert_eq!((pending(&routes, "1"), cores(&routes, "1")), (Some("Deferred"), 1500));
    update(&mut routes, "3");
    assert_eq!((pending(&routes, "1"), cores(&routes, "1")), (Some("Infeasible"), 1500));
    // Less always fits.
    update(&mut routes, "1");
    assert_eq!((pending(&routes, "1"), cores(&routes, "1")), (None, 1000));
    update(&mut routes, "2");
    assert_eq!(pending(&routes, "1"), Some("Deferred"));
    assert!(routes.reconsider().is_empty(), "nothing has changed");
    // What waits takes no room from others.
    let third = routes.source(delta(file(), Operation::Add, &[asking("3", "c", "250m")]));
    assert_eq!(told(&third), ["spawn 3", "start 3"]);
    routes.source(delta(file(), Operation::Remove, &[two]));
    assert_eq!(told(&routes.ended(&"2".into(), false)), ["wish 1"], "it says what is still in the way");
    assert_eq!(pending(&routes, "1"), Some("Deferred"));
    routes.are_over([PodUid::from("3")].into());
    assert_eq!(told(&routes.reconsider()), ["wish 1"]);
    assert_eq!((pending(&routes, "1"), cores(&routes, "1")), (None, 2000));
}

#[test]
fn a_pod_that_wants_too_much_since_before_this_agent_goes_on_with_what_it_has() {
    let mut routes = two_cores();
    let given = asking("1", "a", "1").spec.clone().unwrap().containers[0].resources.clone().unwrap();
    let given = Sizes { containers: [(String::new(), given)].into(), pod: None };
    routes.were_given([("1".into(), given)].into());
    let commands = routes.source(delta(file(), Operation::Add, &[asking("1", "a", "3")]));
    assert_eq!(told(&commands), ["spawn 1", "wish 1", "start 1"]);
    assert_eq!((pending(&routes, "1"), cores(&routes, "1")), (Some("Infeasible"), 1000));
    let commands = routes.source(delta(file(), Operation::Add, &[asking("2", "b", "3")]));
    assert_eq!(told(&commands), ["refuse 2 OutOfcpu", "start 2"], "of this one nothing was here");
    routes.source(delta(file(), Operation::Remove, &[asking("1", "a", "3")]));
    routes.ended(&"1".into(), false);
    let commands = routes.source(delta(file(), Operation::Add, &[asking("1", "a", "3")]));
    assert_eq!(told(&commands), ["refuse 1 OutOfcpu", "start 1"], "nothing of it is left");
}

#[test]
fn a_pod_that_wants_too_much_as_a_whole_goes_on_with_what_it_had_as_a_whole() {
    let as_a_whole = |cpu: &str| {
        let mut pod = (*asking("1", "a", "100m")).clone();
        let spec = pod.spec.as_mut().unwrap();
        spec.resources = asking("1", "a", cpu).spec.clone().unwrap().containers[0].resources.clone();
        Arc::new(pod)
    };
    let mut routes = two_cores();
    let given = as_a_whole("1").spec.clone().unwrap();
    let given = Sizes {
        containers: [(String::new(), given.containers[0].resources.clone().unwrap())].into(),
        pod: given.resources,
    };
    routes.were_given([("1".into(), given)].into());
    routes.source(delta(file(), Operation::Add, &[as_a_whole("3")]));
    assert_eq!(pending(&routes, "1"), Some("Infeasible"));
    assert_eq!(cores(&routes, "1"), 1000);
}
