use k8s_openapi::api::core::v1::Pod;

use super::*;
use crate::merge::Operation;
use crate::source::SourceKind;

fn id() -> SourceId {
    SourceId::new(SourceKind::File, "/manifests")
}

fn pod(uid: &str, name: &str) -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.uid = Some(uid.to_owned());
    pod.metadata.name = Some(name.to_owned());
    Arc::new(pod)
}

fn objects(name: &str) -> Arc<Objects> {
    let key = crate::manifest::ObjectKey::new("ns", name);
    Arc::new(Objects { config_maps: [(key, Arc::default())].into(), ..Objects::default() })
}

fn problem(text: &str) -> Problem {
    Problem::error("/manifests/a.yaml", Issue::Unreadable(text.to_owned()))
}

fn set(pods: Vec<Arc<Pod>>, objects: Arc<Objects>, problems: Vec<Problem>) -> SourceSet {
    SourceSet { pods, objects, problems }
}

/// Summarises the updates that were sent.
async fn told(updates: &mut mpsc::Receiver<SourceUpdate>) -> String {
    match updates.recv().await.expect("an update") {
        SourceUpdate::Objects { objects, .. } => format!("objects {}", objects.config_maps.len()),
        SourceUpdate::Problems { problems, .. } => format!("problems {}", problems.len()),
        SourceUpdate::Pods(delta) => format!("{:?} {}", delta.operation, delta.pods.len()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_is_told_in_order_and_only_what_changed() {
    let inbox = Inbox::default();
    let sets = inbox.sender(id());
    let (feed, mut updates) = Feed::new(inbox);
    let task = tokio::spawn(feed.run());

    sets.send(set(vec![pod("1", "a")], objects("x"), vec![problem("odd")]));
    assert_eq!(told(&mut updates).await, "objects 1");
    assert_eq!(told(&mut updates).await, "problems 1");
    assert_eq!(told(&mut updates).await, "Add 1");

    sets.send(set(vec![pod("1", "a")], objects("x"), vec![problem("odd")]));
    sets.send(set(vec![pod("1", "a")], objects("y"), vec![problem("odd")]));
    assert_eq!(told(&mut updates).await, "objects 1", "the same set says nothing");

    sets.cannot_tell(vec![problem("away")]);
    assert_eq!(told(&mut updates).await, "problems 1", "and the pods stay");
    sets.cannot_tell(vec![problem("away")]);
    sets.send(set(vec![pod("1", "a"), pod("2", "a")], objects("y"), vec![]));
    let SourceUpdate::Problems { problems, .. } = updates.recv().await.expect("an update") else {
        panic!("problems")
    };
    assert_eq!(
        problems.iter().map(Problem::to_string).collect::<Vec<_>>(),
        ["/manifests (Pod default/a): FailedValidation: another object has this name; this one is ignored"]
    );
    sets.send(set(vec![], objects("y"), vec![]));
    assert_eq!(told(&mut updates).await, "problems 0", "repaired is told, too");
    assert_eq!(told(&mut updates).await, "Remove 1");

    drop(updates);
    sets.send(set(vec![pod("3", "c")], objects("y"), vec![]));
    task.await.expect("the feed ends with its reader");
}

#[test]
fn objects_that_no_pod_can_use_are_remarked_on() {
    let (mut feed, _updates) = Feed::new(Inbox::default());
    let mut remarked = |source: &str, pods: &[&str], objects: &Arc<Objects>, problems: Vec<Problem>| {
        let pods = pods.iter().map(|name| pod(name, name)).collect();
        let source = SourceId::new(SourceKind::File, source);
        feed.updates_of(source.clone(), set(pods, objects.clone(), problems));
        feed.told[&source].problems.iter().any(|problem| problem.issue == Issue::ServesNobody)
    };
    let (none, some) = (Arc::default(), objects("x"));
    assert!(remarked("/alone", &[], &some, vec![]), "as it is heard first");
    assert!(remarked("/alone", &[], &objects("y"), vec![]), "and for as long as it is so");
    assert!(!remarked("/alone", &["a"], &some, vec![]));
    assert!(!remarked("/alone", &[], &some, vec![]), "a pod has gone");
    assert!(!remarked("/both", &["b"], &some, vec![]));
    assert!(!remarked("/nothing", &[], &none, vec![]));
    assert!(!remarked("/nothing", &[], &some, vec![]), "its pods may be on their way");
    assert!(!remarked("/spoilt", &[], &some, vec![problem("odd")]), "its pods are not known");
}

#[tokio::test(start_paused = true)]
async fn sources_do_not_wait_for_a_slow_reader() {
    let inbox = Inbox::default();
    let sets = inbox.sender(id());
    let (feed, mut updates) = Feed::new(inbox);
    let task = tokio::spawn(feed.run());
    for number in 0..10 * UPDATES_IN_FLIGHT {
        sets.send(set(vec![pod(&number.to_string(), "a")], Arc::default(), vec![]));
        tokio::task::yield_now().await;
    }
    drop(sets);
    let mut known = std::collections::BTreeSet::new();
    while known.iter().next_back().map(String::as_str) != Some("639") || known.len() != 1 {
        let SourceUpdate::Pods(delta) = updates.recv().await.expect("an update") else { continue };
        for pod in &delta.pods {
            let uid = pod.metadata.uid.clone().expect("a UID");
            match delta.operation {
                Operation::Add => assert!(known.insert(uid)),
                Operation::Remove => assert!(known.remove(&uid)),
                other => panic!("{other:?}"),
            }
        }
    }
    drop(updates);
    task.abort();
}
