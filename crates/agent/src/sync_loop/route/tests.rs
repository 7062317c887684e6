//! Which pods get which commands, and in which order.

mod room;

use std::ops::{Deref, DerefMut};

use super::*;
use crate::board::Standing;
use crate::source::SourceKind;

fn file() -> SourceId {
    SourceId::new(SourceKind::File, "/pods")
}

/// Routes together with the facts for each decision.
struct Known {
    routes: Routes,
    facts: Facts,
    /// The pods that the next survey finds at rest.
    at_rest: BTreeSet<PodUid>,
}

impl Known {
    fn new(sources: impl IntoIterator<Item = SourceId>, node: Node) -> Self {
        Self { routes: Routes::new(sources, node), facts: Facts::default(), at_rest: BTreeSet::new() }
    }

    fn source(&mut self, update: SourceUpdate) -> Vec<Command> {
        self.routes.source(update, &self.facts)
    }

    fn survey(&mut self, found: Vec<PodRef>) -> Vec<Command> {
        self.routes.survey(found, &self.at_rest)
    }

    fn let_in(&mut self) -> Vec<Command> {
        self.routes.let_in(&self.facts)
    }

    fn reconsider(&mut self) -> Vec<Command> {
        self.routes.reconsider(&self.facts)
    }

    fn ended(&mut self, uid: &PodUid) -> Vec<Command> {
        self.routes.ended(uid, &self.facts)
    }
}

impl Deref for Known {
    type Target = Routes;

    fn deref(&self) -> &Routes {
        &self.routes
    }
}

impl DerefMut for Known {
    fn deref_mut(&mut self) -> &mut Routes {
        &mut self.routes
    }
}

fn routes() -> Known {
    Known::new([file()], Node::named("n"))
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

/// Commands in words: `spawn 1`, `spawn 2 behind file /pods`, `start 1`, `end 1`, `forget 1`, `wish 1`, `look 1`,
/// `still 1 OutOfcpu`.
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
            Command::Post { uid, mail: Mail { refused: Some(refused), .. } } => {
                format!("still {uid} {}", refused.rejection.reason)
            }
            Command::Post { uid, mail } => {
                let what = match mail {
                    Mail { end: Some(End { forget: true, .. }), .. } => "end",
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

/// A pod that requests this many cores.
fn asking(uid: &str, name: &str, cores: &str) -> Arc<Pod> {
    asking_for(uid, name, &[("cpu", cores)])
}

/// A pod that requests this much.
fn asking_for(uid: &str, name: &str, amounts: &[(&str, &str)]) -> Arc<Pod> {
    use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    let amount = |(resource, much): &(&str, &str)| ((*resource).to_owned(), Quantity((*much).to_owned()));
    let requests = Some(amounts.iter().map(amount).collect());
    let resources = Some(ResourceRequirements { requests, ..ResourceRequirements::default() });
    let containers = vec![Container { resources, ..Container::default() }];
    let mut pod = Pod::clone(&pod(uid, name));
    pod.spec = Some(PodSpec { containers, ..PodSpec::default() });
    Arc::new(pod)
}

/// One source, and a node that has this much.
fn with_room_for(amounts: &[(&str, &str)]) -> Known {
    let mut node = Node::named("n");
    let amount = |(resource, much): &(&str, &str)| ((*resource).to_owned(), much.parse().unwrap());
    node.allocatable = amounts.iter().map(amount).collect();
    Known::new([file()], node)
}

fn two_cores() -> Known {
    with_room_for(&[("cpu", "2")])
}

/// Two sources, neither of which has been read, two cores, and a running pod of this source that is older than the
/// agent.
fn with_two_cores_and_one_from_before(source: &SourceId, pod: &Arc<Pod>) -> Known {
    let mut node = Node::named("n");
    node.allocatable = [("cpu".to_owned(), "2".parse().unwrap())].into();
    let mut routes = Known::new([file(), url()], node);
    routes.survey(vec![pod_ref(pod)]);
    routes.note_footprints([(pod_ref(pod).uid, footprint(source, pod))].into());
    routes
}

fn footprint(source: &SourceId, pod: &Arc<Pod>) -> Footprint {
    Footprint { source: Some(source.clone()), pod: Pod::clone(pod), standing: Standing::Active }
}

#[test]
fn a_survey_that_saw_what_is_gone_makes_no_orphan_of_it() {
    let mut routes = routes();
    let one = pod("1", "web");
    routes.source(delta(file(), Operation::Add, std::slice::from_ref(&one)));
    routes.survey_begins();
    assert_eq!(told(&routes.source(delta(file(), Operation::Remove, std::slice::from_ref(&one)))), ["end 1"]);
    assert!(routes.ended(&"1".into()).is_empty());
    assert!(routes.survey(vec![pod_ref(&one)]).is_empty(), "it saw what was there before");
    routes.survey_begins();
    assert_eq!(told(&routes.survey(vec![pod_ref(&one)])), ["spawn 1", "start 1", "end 1"]);
}

#[test]
fn somebody_elses_pod_with_a_name_of_ours_is_a_namesake() {
    let mut routes = routes();
    let (web, db) = (pod("1", "web"), pod("2", "db"));
    routes.source(delta(file(), Operation::Add, &[web.clone(), db.clone()]));
    routes.survey_begins();
    routes.source(delta(file(), Operation::Remove, std::slice::from_ref(&db)));
    routes.ended(&"2".into());
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
    assert!(routes.ended(&"1".into()).is_empty());
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
    assert!(routes.ended(&"2".into()).is_empty(), "not its turn");
    assert_eq!(told(&routes.ended(&"1".into())), ["start 3"]);
}

#[test]
fn the_same_pod_may_come_back_while_it_goes() {
    let mut routes = routes();
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]));
    assert!(routes.source(delta(file(), Operation::Add, &[pod("1", "web")])).is_empty());
    assert_eq!(told(&routes.ended(&"1".into())), ["spawn 1", "start 1"]);
    routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]));
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]));
    assert!(routes.ended(&"1".into()).is_empty(), "and go again before it came");
}

/// Two sources that have been read, the first of which has pod 1.
fn two_sources() -> Known {
    let mut routes = Known::new([file(), url()], Node::named("n"));
    routes.source(delta(url(), Operation::Add, &[]));
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    routes
}

#[test]
fn a_pod_moves_from_one_source_to_another_in_any_order() {
    let one = || [pod("1", "web")];
    let mut routes = two_sources();
    assert!(routes.source(delta(url(), Operation::Add, &one())).is_empty());
    assert!(routes.source(delta(url(), Operation::Update, &one())).is_empty(), "it has no say yet");
    assert_eq!(told(&routes.source(delta(file(), Operation::Remove, &one()))), ["wish 1"], "now it has");
    assert!(routes.is_wanted(&"1".into()));
    assert_eq!(told(&routes.source(delta(url(), Operation::Remove, &one()))), ["end 1"]);

    let mut routes = two_sources();
    assert_eq!(told(&routes.source(delta(file(), Operation::Remove, &one()))), ["end 1"]);
    assert!(routes.source(delta(url(), Operation::Add, &one())).is_empty());
    assert_eq!(told(&routes.ended(&"1".into())), ["spawn 1", "start 1"]);
}

#[test]
fn a_pod_of_two_sources_stays_until_both_have_let_go() {
    let one = || [pod("1", "web")];
    let mut routes = two_sources();
    routes.source(delta(url(), Operation::Add, &one()));
    assert!(routes.source(delta(url(), Operation::Remove, &one())).is_empty(), "it is the first's");
    let update = SourceUpdate::Objects { source: file(), objects: Arc::default() };
    assert_eq!(told(&routes.source(update)), ["wish 1"], "with what the first has");
    assert_eq!(told(&routes.source(delta(file(), Operation::Remove, &one()))), ["end 1"]);

    let mut routes = two_sources();
    routes.source(delta(file(), Operation::Remove, &one()));
    routes.source(delta(url(), Operation::Add, &one()));
    routes.source(delta(file(), Operation::Add, &one()));
    routes.source(delta(file(), Operation::Remove, &one()));
    assert_eq!(told(&routes.ended(&"1".into())), ["spawn 1", "start 1"], "also while it goes");
}

/// If two sources have a pod of the same UID, it stays with the source it belonged to, whichever is read first.
#[test]
fn a_pod_of_two_sources_stays_its_of_whom_it_was() {
    let one = asking("1", "web", "1");
    let add = |source| delta(source, Operation::Add, std::slice::from_ref(&one));
    let of = |routes: &Known| routes.records[&PodUid::from("1")].source.clone().unwrap();
    for [first, second] in [[file(), url()], [url(), file()]] {
        for had in [file(), url()] {
            let mut routes = with_two_cores_and_one_from_before(&had, &one);
            let commands = routes.source(add(first.clone()));
            if first == had {
                assert_eq!(told(&commands), ["spawn 1", "start 1"], "it waits for nobody");
            } else {
                assert!(commands.is_empty(), "it waits for {had}");
            }
            routes.source(add(second.clone()));
            assert_eq!(of(&routes), had, "{first} {second}");
        }
    }

    // A pod whose source stays silent goes to the other source in the end, and remains there.
    let mut routes = with_two_cores_and_one_from_before(&url(), &one);
    routes.source(add(file()));
    for _ in 0..8 {
        routes.survey(vec![pod_ref(&one)]);
        routes.let_in();
    }
    routes.source(add(url()));
    assert_eq!(of(&routes), file());
    // A source that no longer has it does not keep it from the other.
    let mut routes = with_two_cores_and_one_from_before(&url(), &one);
    routes.source(add(file()));
    assert_eq!(told(&routes.source(delta(url(), Operation::Add, &[]))), ["spawn 1", "start 1"]);
}

#[test]
fn whoever_waits_for_a_namesake_of_another_source_is_told() {
    let mut routes = two_sources();
    assert_eq!(
        told(&routes.source(delta(url(), Operation::Add, &[pod("2", "web")]))),
        ["spawn 2 behind file /pods"]
    );
    assert_eq!(told(&routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]))), ["end 1"]);
    assert_eq!(told(&routes.ended(&"1".into())), ["start 2"]);
}

#[test]
fn who_was_stopped_begins_anew_when_its_manifest_changes() {
    let mut routes = routes();
    let (uid, one) = (PodUid::from("1"), [pod("1", "web")]);
    routes.source(delta(file(), Operation::Add, &one));
    routes.note_order(&uid, End { grace: Some(1), forget: false });
    assert_eq!(told(&routes.lost(&uid)), ["respawn 1", "start 1", "stop 1"], "and stays stopped");
    assert_eq!(told(&routes.source(delta(file(), Operation::Update, &one))), ["end 1"]);
    assert_eq!(told(&routes.ended(&uid)), ["spawn 1", "start 1"]);
    assert_eq!(told(&routes.source(delta(file(), Operation::Update, &one))), ["wish 1"], "as any other");

    routes.note_order(&uid, End { grace: None, forget: true });
    assert!(routes.ended(&uid).is_empty(), "who was told to go for good does not come back");
}

#[test]
fn who_is_stopped_on_its_way_back_comes_back_stopped_unless_its_manifest_changes_again() {
    let (uid, one, renamed) = (PodUid::from("1"), [pod("1", "web")], [pod("1", "db")]);
    let stop = End { grace: None, forget: false };
    for back in [&one, &renamed] {
        let mut routes = routes();
        routes.source(delta(file(), Operation::Add, &one));
        routes.source(delta(file(), Operation::Remove, &one));
        routes.source(delta(file(), Operation::Add, back));
        routes.note_order(&uid, stop);
        assert_eq!(told(&routes.ended(&uid)), ["spawn 1", "stop 1", "start 1"]);
        assert_eq!(told(&routes.lost(&uid)), ["respawn 1", "start 1", "stop 1"], "and stays stopped");
        assert_eq!(told(&routes.source(delta(file(), Operation::Update, back))), ["end 1"]);
        assert_eq!(told(&routes.ended(&uid)), ["spawn 1", "start 1"]);
    }
    let mut routes = routes();
    routes.source(delta(file(), Operation::Add, &one));
    routes.source(delta(file(), Operation::Remove, &one));
    routes.note_order(&uid, stop);
    routes.source(delta(file(), Operation::Add, &one));
    assert_eq!(told(&routes.ended(&uid)), ["spawn 1", "start 1"], "somebody wants it since");
}

#[test]
fn nothing_is_ended_before_every_source_was_heard() {
    let mut routes = Known::new([file(), url()], Node::named("n"));
    let found = vec![PodRef::new("old", "default", "db")];
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    assert!(routes.source(delta(file(), Operation::Remove, &[pod("1", "web")])).is_empty());
    assert!(routes.survey(found.clone()).is_empty());
    assert_eq!(routes.missing_sources().collect::<Vec<_>>(), [&url()]);
    assert_eq!(told(&routes.source(delta(url(), Operation::Add, &[]))), ["end 1"]);
    assert_eq!(told(&routes.survey(found.clone())), ["spawn old", "start old", "end old"]);
    assert!(routes.survey(found).is_empty(), "once");
}

#[test]
fn what_a_newcomer_supersedes_goes_first() {
    let mut routes = routes();
    routes.survey(vec![PodRef::new("old", "default", "web"), PodRef::new("other", "default", "db")]);
    assert_eq!(
        told(&routes.source(delta(file(), Operation::Add, &[pod("1", "web")]))),
        ["spawn old", "start old", "end old", "spawn 1"]
    );
    assert_eq!(told(&routes.ended(&"old".into())), ["start 1"]);
}

#[test]
fn who_runs_goes_on_whichever_source_speaks_first() {
    let mut routes = Known::new([file(), url()], Node::named("n"));
    let found = vec![PodRef::new("1", "default", "web")];
    routes.survey(found.clone());
    assert!(
        routes.source(delta(url(), Operation::Add, &[pod("2", "web")])).is_empty(),
        "it waits for the file"
    );
    assert_eq!(routes.outlook().wanted, 1);
    routes.survey(found);
    assert!(routes.let_in().is_empty());
    assert_eq!(
        told(&routes.source(delta(file(), Operation::Add, &[pod("1", "web")]))),
        ["spawn 1", "start 1", "spawn 2 behind file /pods"]
    );
    assert_eq!(told(&routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]))), ["end 1"]);
    assert_eq!(told(&routes.ended(&"1".into())), ["start 2"]);
}

/// If two sources have a pod of the same UID, it is let in only once, whichever of them causes that.
#[test]
fn who_is_held_and_let_in_by_another_source_comes_once() {
    let third = SourceId::new(SourceKind::File, "/more");
    let mut routes = Known::new([file(), url(), third.clone()], Node::named("n"));
    routes.survey(vec![PodRef::new("1", "default", "web")]);
    assert!(routes.source(delta(url(), Operation::Add, &[pod("2", "web")])).is_empty());
    routes.source(delta(file(), Operation::Add, &[pod("1", "web"), pod("2", "web")]));
    assert_eq!(routes.outlook().wanted, 2);
    assert!(routes.source(delta(third, Operation::Add, &[])).is_empty(), "it is here already");
}

#[test]
fn a_source_that_stays_silent_holds_nobody_for_long() {
    let mut routes = Known::new([file(), url()], Node::named("n"));
    let found = vec![PodRef::new("old", "default", "web")];
    routes.survey(found.clone());
    routes.source(delta(file(), Operation::Add, &[pod("1", "web"), pod("2", "web")]));
    routes.source(delta(file(), Operation::Remove, &[pod("2", "web")]));
    for _ in 0..7 {
        routes.survey(found.clone());
        assert!(routes.let_in().is_empty());
    }
    routes.survey(found);
    assert_eq!(told(&routes.let_in()), ["spawn old", "start old", "end old", "spawn 1"]);
    assert_eq!(told(&routes.ended(&"old".into())), ["start 1"]);
    assert!(routes.let_in().is_empty(), "once, and only who is wanted");
}

/// The grace period of a pod in seconds.
fn grace(routes: &Known, uid: &str) -> Option<i64> {
    routes.records[&PodUid::from(uid)].pod.spec.as_ref()?.termination_grace_period_seconds
}

#[test]
fn whose_source_is_silent_ends_in_its_own_time() {
    let mut slow = Pod::clone(&asking("old", "web", "1"));
    slow.spec.as_mut().unwrap().termination_grace_period_seconds = Some(60);
    let slow = Arc::new(slow);
    let ended_by = |source: SourceId| {
        let mut routes = with_two_cores_and_one_from_before(&url(), &slow);
        routes.source(delta(source, Operation::Add, &[pod("1", "web")]));
        for _ in 0..8 {
            routes.survey(vec![pod_ref(&slow)]);
            routes.let_in();
        }
        grace(&routes, "old")
    };
    assert_eq!(ended_by(file()), Some(60), "it might still be wanted");
    assert_eq!(ended_by(url()), Some(1), "as any orphan");
}

#[test]
fn who_replaces_its_own_pod_waits_for_nobody() {
    let old = asking("old", "web", "1");
    let mut routes = with_two_cores_and_one_from_before(&file(), &old);
    assert_eq!(
        told(&routes.source(delta(file(), Operation::Add, &[pod("1", "web")]))),
        ["spawn old", "start old", "end old", "spawn 1"]
    );
}

#[test]
fn an_edited_manifest_is_followed_whoever_else_was_not_heard() {
    let mut routes = Known::new([file(), url()], Node::named("n"));
    routes.source(delta(file(), Operation::Add, &[pod("1", "web"), pod("2", "db")]));
    assert!(routes.source(delta(file(), Operation::Remove, &[pod("1", "web"), pod("2", "db")])).is_empty());
    assert_eq!(told(&routes.source(delta(file(), Operation::Add, &[pod("3", "web")]))), ["end 1", "spawn 3"]);
    assert_eq!(told(&routes.ended(&"1".into())), ["start 3"]);
    assert_eq!(told(&routes.source(delta(url(), Operation::Add, &[]))), ["end 2"]);
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
    let renamed = |routes: &mut Known| {
        assert_eq!(routes.outlook(), Outlook { wanted: 1, waiting_for_room: 0, beginning_anew: 1 });
        assert_eq!(told(&routes.lost(&uid)), ["respawn 1", "start 1", "end 1"], "under its old name");
        assert_eq!(&*routes.records[&uid].name, "web_default");
        assert_eq!(told(&routes.ended(&uid)), ["spawn 1", "start 1"]);
        assert_eq!(&*routes.records[&uid].name, "shop_default");
    };

    let mut routes = Known::new([file(), url()], Node::named("n"));
    routes.source(delta(file(), Operation::Add, &first));
    assert!(routes.source(delta(file(), Operation::Remove, &first)).is_empty(), "it might be another's");
    assert_eq!(told(&routes.source(delta(file(), Operation::Add, &second))), ["end 1"]);
    renamed(&mut routes);

    let mut routes = two_sources();
    assert!(routes.source(delta(url(), Operation::Add, &second)).is_empty());
    assert_eq!(
        told(&routes.source(delta(file(), Operation::Remove, &first))),
        ["end 1"],
        "another calls it so"
    );
    renamed(&mut routes);
}

#[test]
fn what_was_renamed_while_no_agent_ran_ends_before_it_comes() {
    let was_called = |name: &str| {
        let mut routes = routes();
        routes.survey(vec![PodRef::new("1", "default", name), PodRef::new("old", "default", "shop")]);
        let commands = routes.source(delta(file(), Operation::Add, &[pod("1", "shop")]));
        (told(&commands), routes)
    };
    let (commands, mut routes) = was_called("web");
    assert_eq!(commands, ["spawn 1", "start 1", "end 1"]);
    assert_eq!(&*routes.records[&PodUid::from("1")].name, "web_default");
    assert_eq!(
        told(&routes.ended(&"1".into())),
        ["spawn old", "start old", "end old", "spawn 1"],
        "who has its new name goes first"
    );
    assert_eq!(told(&routes.ended(&"old".into())), ["start 1"]);
    for same in ["shop", ""] {
        let (commands, _) = was_called(same);
        assert_eq!(commands, ["spawn old", "start old", "end old", "spawn 1"], "{same:?} is adopted");
    }
}

#[test]
fn changed_objects_concern_the_pods_of_their_source() {
    let mut routes = Known::new([file(), url()], Node::named("n"));
    routes.source(delta(file(), Operation::Add, &[pod("1", "a")]));
    routes.source(delta(url(), Operation::Add, &[pod("2", "b")]));
    let update = SourceUpdate::Objects { source: url(), objects: Arc::default() };
    assert_eq!(told(&routes.source(update)), ["wish 2"]);
}

#[test]
fn a_lost_actor_is_made_anew_and_knows_where_it_was() {
    let mut routes = routes();
    routes.source(delta(file(), Operation::Add, &[pod("1", "web")]));
    assert_eq!(told(&routes.lost(&"1".into())), ["respawn 1", "start 1"]);
    routes.source(delta(file(), Operation::Remove, &[pod("1", "web")]));
    assert_eq!(
        told(&routes.lost(&"1".into())),
        ["respawn 1", "start 1", "end 1"],
        "with the grace of its own"
    );
    routes.survey(vec![PodRef::new("old", "default", "db")]);
    assert_eq!(told(&routes.lost(&"old".into())), ["respawn old", "start old", "end old"]);
    assert!(routes.lost(&"nobody".into()).is_empty());
}
