//! Which pods fit, which wait for room, and which get more of it.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use proptest::prelude::*;

use super::*;

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
    assert_eq!(told(&routes.ended(&"1".into())), ["end 2"], "the third no longer fits beside it");
    assert_eq!(routes.outlook(), Outlook { wanted: 3, waiting_for_room: 2, beginning_anew: 1 });
    assert_eq!(told(&routes.ended(&"2".into())), ["spawn 2", "start 2"]);
    assert_eq!(routes.outlook(), Outlook { wanted: 3, waiting_for_room: 1, beginning_anew: 0 });
    routes.facts.over = [PodUid::from("2")].into();
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
fn who_was_here_before_keeps_its_room_whichever_source_speaks_first() {
    let (old, new) = (asking("1", "old", "1500m"), asking("2", "new", "1"));
    let add = |source, pod: &Arc<Pod>| delta(source, Operation::Add, std::slice::from_ref(pod));
    let mut routes = with_two_cores_and_one_from_before(&url(), &old);
    assert_eq!(told(&routes.source(add(file(), &new))), ["refuse 2 OutOfcpu", "start 2"]);
    assert!(routes.reconsider().is_empty(), "it still runs");
    assert_eq!(told(&routes.source(add(url(), &old))), ["spawn 1", "start 1"]);

    // Its source no longer wants it: it goes, and the other one comes.
    let mut routes = with_two_cores_and_one_from_before(&url(), &old);
    routes.source(add(file(), &new));
    routes.source(delta(url(), Operation::Add, &[]));
    assert_eq!(told(&routes.survey(vec![pod_ref(&old)])), ["spawn 1", "start 1", "end 1"]);
    assert_eq!(told(&routes.ended(&"1".into())), ["end 2"]);
    assert_eq!(told(&routes.ended(&"2".into())), ["spawn 2", "start 2"]);

    // No source will want it any more, but it still runs.
    let mut routes = with_two_cores_and_one_from_before(&file(), &old);
    assert_eq!(told(&routes.source(add(file(), &new))), ["refuse 2 OutOfcpu", "start 2"]);
    routes.source(delta(url(), Operation::Add, &[]));
    assert!(routes.reconsider().is_empty());
    assert_eq!(told(&routes.survey(vec![pod_ref(&old)])), ["spawn 1", "start 1", "end 1"]);
    assert!(routes.reconsider().is_empty());
    routes.facts.over = ["1".into()].into();
    assert_eq!(told(&routes.reconsider()), ["end 2"]);

    // It has finished: no room is kept for it.
    let mut routes = with_two_cores_and_one_from_before(&url(), &old);
    let finished = Footprint { standing: Standing::Finished, ..footprint(&url(), &old) };
    routes.note_footprints([("1".into(), finished)].into());
    assert_eq!(told(&routes.source(add(file(), &new))), ["spawn 2", "start 2"]);
    let mut routes = with_two_cores_and_one_from_before(&url(), &old);
    routes.at_rest = ["1".into()].into();
    routes.survey(vec![pod_ref(&old)]);
    assert_eq!(told(&routes.source(add(file(), &new))), ["spawn 2", "start 2"], "nor if nothing of it runs");
}

#[test]
fn who_runs_is_let_in_before_who_has_finished_was_stopped_or_was_refused() {
    let (first, second) = (asking("1", "a", "1500m"), asking("2", "b", "1500m"));
    let add = |routes: &mut Known, pods: &[&Arc<Pod>]| {
        let pods: Vec<Arc<Pod>> = pods.iter().copied().cloned().collect();
        told(&routes.source(delta(file(), Operation::Add, &pods)))
    };
    let from_before = |standing| {
        let mut routes = two_cores();
        routes.at_rest = ["1".into()].into();
        routes.survey(vec![pod_ref(&first), pod_ref(&second)]);
        let of_first = Footprint { standing, ..footprint(&file(), &first) };
        routes.note_footprints([("1".into(), of_first), ("2".into(), footprint(&file(), &second))].into());
        routes
    };
    let mut routes = from_before(Standing::Finished);
    assert_eq!(add(&mut routes, &[&first, &second]), ["spawn 2", "start 2", "spawn 1", "start 1"]);
    assert!(routes.reconsider().is_empty(), "who has finished is not asked again, and takes nothing");
    for standing in [Standing::Active, Standing::Refused] {
        let mut routes = from_before(standing);
        let commands = add(&mut routes, &[&first, &second]);
        assert_eq!(commands, ["spawn 2", "start 2", "refuse 1 OutOfcpu", "start 1"], "{standing:?}");
    }
    // A pod that has finished is not refused, whatever this node accepts now.
    let mut routes = from_before(Standing::Finished);
    assert_eq!(add(&mut routes, &[&second]), ["spawn 2", "start 2"]);
    assert_eq!(add(&mut routes, &[&first]), ["spawn 1", "start 1"]);
    // After a reboot nothing runs, but a pod that had a place still has it.
    let mut routes = from_before(Standing::Refused);
    routes.at_rest = ["1".into(), "2".into()].into();
    routes.survey(vec![pod_ref(&first), pod_ref(&second)]);
    let commands = add(&mut routes, &[&first, &second]);
    assert_eq!(commands, ["spawn 2", "start 2", "refuse 1 OutOfcpu", "start 1"]);
}

#[test]
fn where_nobody_knows_how_much_room_is_taken_newcomers_wait() {
    let old = asking("1", "old", "1500m");
    let mut routes = with_two_cores_and_one_from_before(&url(), &old);
    routes.note_footprints(BTreeMap::new());
    let new = [asking("2", "new", "1")];
    assert!(routes.source(delta(file(), Operation::Add, &new)).is_empty());
    assert_eq!(routes.outlook().wanted, 1);
    assert_eq!(
        told(&routes.source(delta(url(), Operation::Add, &[old]))),
        ["spawn 1", "start 1", "refuse 2 OutOfcpu", "start 2"]
    );
}

/// A pod with this port of the host.
fn with_port(uid: &str, name: &str, port: i32) -> Arc<Pod> {
    use k8s_openapi::api::core::v1::ContainerPort;
    let mut pod = Pod::clone(&asking(uid, name, "1"));
    pod.spec.as_mut().unwrap().containers[0].ports =
        Some(vec![ContainerPort { container_port: 80, host_port: Some(port), ..ContainerPort::default() }]);
    Arc::new(pod)
}

#[test]
fn who_is_no_longer_wanted_keeps_its_room_and_its_ports_until_it_has_ended() {
    let add = |pod: &Arc<Pod>| delta(file(), Operation::Add, std::slice::from_ref(pod));
    let remove = |pod: &Arc<Pod>| delta(file(), Operation::Remove, std::slice::from_ref(pod));
    let (old, new) = (with_port("1", "old", 80), with_port("2", "new", 80));
    let mut routes = with_room_for(&[("cpu", "9")]);
    routes.source(add(&old));
    assert_eq!(told(&routes.source(remove(&old))), ["end 1"]);
    assert_eq!(told(&routes.source(add(&new))), ["refuse 2 NodePorts", "start 2"]);
    assert!(routes.reconsider().is_empty(), "it takes its time to end");
    routes.facts.over = ["1".into()].into();
    assert_eq!(told(&routes.reconsider()), ["end 2"], "what is left of it needs no port");

    // The same before every source has been read, when it is not told to go yet.
    let mut routes = Known::new([file(), url()], Node::named("n"));
    routes.source(add(&old));
    assert!(routes.source(remove(&old)).is_empty());
    assert_eq!(told(&routes.source(add(&new))), ["refuse 2 NodePorts", "start 2"]);

    // A pod that was refused has no place to keep.
    let mut routes = with_room_for(&[("cpu", "0")]);
    routes.source(add(&old));
    routes.source(remove(&old));
    let idle = asking_for("3", "idle", &[]);
    let mut idle = Pod::clone(&idle);
    idle.spec.as_mut().unwrap().containers[0].ports = new.spec.as_ref().unwrap().containers[0].ports.clone();
    assert_eq!(told(&routes.source(add(&Arc::new(idle)))), ["spawn 3", "start 3"]);
}

#[test]
fn the_versions_of_a_pod_share_their_room() {
    let mut routes = two_cores();
    let [first, second] = ["1", "2"].map(|uid| [asking(uid, "a", "1"), asking(&format!("{uid}b"), "b", "1")]);
    routes.source(delta(file(), Operation::Add, &first));
    routes.source(delta(file(), Operation::Remove, &first));
    assert_eq!(told(&routes.source(delta(file(), Operation::Add, &second))), ["spawn 2", "spawn 2b"]);

    // Neither its old nor its new port is available to others in the meantime.
    let mut routes = with_room_for(&[("cpu", "9")]);
    let [one, moved] = [80, 81].map(|port| [with_port("1", "web", port)]);
    routes.source(delta(file(), Operation::Add, &one));
    routes.source(delta(file(), Operation::Remove, &one));
    routes.source(delta(file(), Operation::Add, &moved));
    let others = [with_port("2", "c", 80), with_port("3", "d", 81)];
    let commands = routes.source(delta(file(), Operation::Add, &others));
    assert_eq!(told(&commands), ["refuse 2 NodePorts", "start 2", "refuse 3 NodePorts", "start 3"]);
    assert_eq!(told(&routes.ended(&"1".into())), ["spawn 1", "start 1", "end 2"]);
}

#[test]
fn a_refused_pod_whose_manifest_changes_is_asked_again() {
    let mut routes = two_cores();
    let commands = routes.source(delta(file(), Operation::Add, &[asking("1", "a", "3")]));
    assert_eq!(told(&commands), ["refuse 1 OutOfcpu", "start 1"]);
    let smaller = asking("1", "a", "1");
    assert_eq!(told(&routes.source(delta(file(), Operation::Update, &[smaller]))), ["end 1"]);
    assert_eq!(told(&routes.ended(&"1".into())), ["spawn 1", "start 1"]);
}

#[test]
fn who_is_stopped_while_it_waits_for_room_does_not_come_when_there_is_some() {
    let mut routes = two_cores();
    let (one, two) = (asking("1", "a", "2"), asking("2", "b", "1"));
    routes.source(delta(file(), Operation::Add, &[one, two.clone()]));
    for uid in ["1", "2"] {
        routes.note_order(&uid.into(), End { grace: None, forget: false });
    }
    assert_eq!(routes.outlook(), Outlook { wanted: 2, waiting_for_room: 0, beginning_anew: 0 });
    routes.facts.over = ["1".into(), "2".into()].into();
    assert!(routes.reconsider().is_empty(), "it was stopped");
    assert_eq!(told(&routes.source(delta(file(), Operation::Update, &[two]))), ["end 2"]);
    assert_eq!(told(&routes.ended(&"2".into())), ["spawn 2", "start 2"], "its manifest has changed");
}

fn pending(routes: &Known, uid: &str) -> Option<&'static str> {
    routes.records[&PodUid::from(uid)].growth.as_ref().map(|growth| growth.pending.reason())
}

fn cores(routes: &Known, uid: &str) -> i64 {
    crate::pod::requests(&routes.records[&PodUid::from(uid)].pod)["cpu"].millis()
}

#[test]
fn a_pod_that_wants_more_gets_it_when_there_is_room_and_keeps_what_it_has_until_then() {
    let mut routes = two_cores();
    let (one, two) = (asking("1", "a", "1"), asking("2", "b", "500m"));
    routes.source(delta(file(), Operation::Add, &[one, two.clone()]));
    let update = |routes: &mut Known, cores: &str| {
        let changed = delta(file(), Operation::Update, &[asking("1", "a", cores)]);
        assert_eq!(told(&routes.source(changed)), ["wish 1"], "{cores}");
    };
    update(&mut routes, "1500m");
    assert_eq!((pending(&routes, "1"), cores(&routes, "1")), (None, 1500));
    update(&mut routes, "1800m");
    assert_eq!((pending(&routes, "1"), cores(&routes, "1")), (Some("Deferred"), 1500));
    update(&mut routes, "3");
    assert_eq!((pending(&routes, "1"), cores(&routes, "1")), (Some("Infeasible"), 1500));
    // A smaller size always fits.
    update(&mut routes, "1");
    assert_eq!((pending(&routes, "1"), cores(&routes, "1")), (None, 1000));
    update(&mut routes, "2");
    assert_eq!(pending(&routes, "1"), Some("Deferred"));
    assert!(routes.reconsider().is_empty(), "nothing has changed");
    // A pending resize takes no room from others.
    let third = routes.source(delta(file(), Operation::Add, &[asking("3", "c", "250m")]));
    assert_eq!(told(&third), ["spawn 3", "start 3"]);
    routes.source(delta(file(), Operation::Remove, &[two]));
    assert_eq!(told(&routes.ended(&"2".into())), ["wish 1"], "it says what is still in the way");
    assert_eq!(pending(&routes, "1"), Some("Deferred"));
    routes.facts.over = [PodUid::from("3")].into();
    assert_eq!(told(&routes.reconsider()), ["wish 1"]);
    assert_eq!((pending(&routes, "1"), cores(&routes, "1")), (None, 2000));
}

#[test]
fn what_cannot_change_while_a_pod_runs_is_neither_given_nor_counted() {
    let with_pages = |cores: &str, pages: &str| {
        let mut pod = (*asking("1", "a", cores)).clone();
        let resources = pod.spec.as_mut().unwrap().containers[0].resources.as_mut().unwrap();
        let pages = ("hugepages-2Mi".to_owned(), WireQuantity(pages.to_owned()));
        resources.requests.get_or_insert_default().extend([pages]);
        Arc::new(pod)
    };
    let mut routes = two_cores();
    routes.node.allocatable.insert("hugepages-2Mi".to_owned(), "8Mi".parse().unwrap());
    let has = |routes: &Routes| {
        let asked = crate::pod::requests(&routes.records[&PodUid::from("1")].pod);
        (asked["cpu"].millis(), asked["hugepages-2Mi"].units() >> 20)
    };
    routes.source(delta(file(), Operation::Add, &[with_pages("1", "4Mi")]));
    for (cores, pages) in [("1", "8Mi"), ("500m", "2Mi"), ("1", "16Mi")] {
        routes.source(delta(file(), Operation::Update, &[with_pages(cores, pages)]));
        assert_eq!((pending(&routes, "1"), has(&routes)), (Some("Infeasible"), (1000, 4)), "{cores} {pages}");
    }
    routes.source(delta(file(), Operation::Update, &[with_pages("500m", "4096Ki")]));
    assert_eq!((pending(&routes, "1"), has(&routes)), (None, (500, 4)));
}

#[test]
fn a_pod_that_wants_too_much_since_before_this_agent_goes_on_with_what_it_has() {
    let mut routes = two_cores();
    let given = asking("1", "a", "1").spec.clone().unwrap().containers[0].resources.clone().unwrap();
    let given = Sizes { containers: [(String::new(), given)].into(), pod: None };
    routes.note_given([("1".into(), given)].into());
    let commands = routes.source(delta(file(), Operation::Add, &[asking("1", "a", "3")]));
    assert_eq!(told(&commands), ["spawn 1", "wish 1", "start 1"]);
    assert_eq!((pending(&routes, "1"), cores(&routes, "1")), (Some("Infeasible"), 1000));
    let commands = routes.source(delta(file(), Operation::Add, &[asking("2", "b", "3")]));
    assert_eq!(told(&commands), ["refuse 2 OutOfcpu", "start 2"], "of this one nothing was here");
    routes.source(delta(file(), Operation::Remove, &[asking("1", "a", "3")]));
    routes.ended(&"1".into());
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
    routes.note_given([("1".into(), given)].into());
    routes.source(delta(file(), Operation::Add, &[as_a_whole("3")]));
    assert_eq!(pending(&routes, "1"), Some("Infeasible"));
    assert_eq!(cores(&routes, "1"), 1000);
}

/// Ends every pod that was told to end, including those told so as a consequence. Returns how many ended until all was
/// quiet.
fn settle(routes: &mut Known, commands: &[Command]) -> usize {
    const FOR_EVER: usize = 1000;
    let mut told_to_end = VecDeque::new();
    let note = |commands: &[Command], told_to_end: &mut VecDeque<PodUid>| {
        for command in commands {
            if let Command::Post { uid, mail: Mail { end: Some(_), .. } } = command {
                told_to_end.push_back(uid.clone());
            }
        }
    };
    note(commands, &mut told_to_end);
    let mut ended = 0;
    while let Some(uid) = told_to_end.pop_front() {
        ended += 1;
        assert!(ended < FOR_EVER, "pods are asked again and again");
        let commands = routes.ended(&uid);
        note(&commands, &mut told_to_end);
    }
    ended
}

#[test]
fn two_that_do_not_fit_for_one_reason_or_another_do_not_ask_each_other_again() {
    let mut routes = with_room_for(&[("cpu", "4"), ("memory", "4")]);
    let asking = |uid, cpu, memory| asking_for(uid, uid, &[("cpu", cpu), ("memory", memory)]);
    let leaves = asking("y", "2", "0");
    let pods = [asking("x", "2", "3"), leaves.clone(), asking("a", "2", "2"), asking("b", "1", "2")];
    routes.source(delta(file(), Operation::Add, &pods));
    let removed = routes.source(delta(file(), Operation::Remove, &[leaves]));
    assert_eq!(settle(&mut routes, &removed), 1, "there is no memory for either of them");
}

#[test]
fn who_is_still_refused_but_for_another_reason_says_so_and_keeps_its_turn() {
    let mut routes = with_room_for(&[("cpu", "2"), ("memory", "4")]);
    let asking = |uid, cpu, memory| asking_for(uid, uid, &[("cpu", cpu), ("memory", memory)]);
    let leaves = asking("y", "2", "1");
    let pods = [leaves.clone(), asking("x", "1", "5"), asking("z", "1", "5")];
    routes.source(delta(file(), Operation::Add, &pods));
    let removed = routes.source(delta(file(), Operation::Remove, &[leaves]));
    assert_eq!(told(&removed), ["end y"]);
    assert_eq!(told(&routes.ended(&"y".into())), ["still x OutOfmemory", "still z OutOfmemory"]);
    assert!(routes.reconsider().is_empty(), "once");
    assert!(routes.records["x"].number < routes.records["z"].number);
}

proptest! {
    #[test]
    fn who_is_refused_is_asked_again_until_nobody_fits_any_more_and_then_there_is_rest(
        sizes in prop::collection::vec((0_u8..5, 0_u8..5), 1..9),
        leave in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut routes = with_room_for(&[("cpu", "4"), ("memory", "4")]);
        let pod = |(number, (cpu, memory)): (usize, &(u8, u8))| {
            let name = number.to_string();
            asking_for(&name, &name, &[("cpu", &cpu.to_string()), ("memory", &memory.to_string())])
        };
        let mut pods: Vec<Arc<Pod>> = sizes.iter().enumerate().map(pod).collect();
        let added = routes.source(delta(file(), Operation::Add, &pods));
        settle(&mut routes, &added);
        for leaves in leave {
            if pods.is_empty() {
                break;
            }
            let leaves = pods.swap_remove(leaves.index(pods.len()));
            let removed = routes.source(delta(file(), Operation::Remove, &[leaves]));
            settle(&mut routes, &removed);
            prop_assert!(routes.reconsider().is_empty(), "all is quiet");
            for (uid, record) in &routes.records {
                let now = routes.refusal(&record.pod, &routes.facts);
                let reason = |refusal: Option<&Refusal>| refusal.map(Refusal::reason);
                prop_assert_eq!(reason(record.refusal.as_ref()), reason(now.as_ref()), "{}", uid);
            }
        }
    }
}
