//! Everything at once, in an order that a seed decides.

use super::*;

/// Things that happen to pods, runtimes and agents, in an order that a seed decides.
async fn upheaval(seed: u64) {
    const CALLS: [&str; 5] =
        ["run_sandbox", "create_container", "start_container", "stop_container", "stop_sandbox"];
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = folder();
    let runtime = FakeRuntime::default();
    let mut stage = Scene::start(runtime.clone(), folder.path());
    let version = |number: u32| {
        let mut pod = testkit::pod("Always", &["setup", "proxy*"], &["web", "db"]);
        pod.metadata.uid = Some(format!("uid-{number}"));
        Arc::new(pod)
    };
    let mut number = 0;
    stage.send(Operation::Add, &[version(number)]).await;
    for _ in 0..40 {
        let call = CALLS[random.usize(..CALLS.len())];
        match random.u8(..10) {
            0 => runtime.exit("setup", i32::from(random.bool())),
            1 => runtime.exit("web", 1),
            2 => runtime.exit("proxy", 0),
            3 => runtime.break_sandboxes(),
            4 => runtime.fail(call, Some("no")),
            5 => runtime.fail(call, None),
            6 => runtime.lose_answers(call, random.bool()),
            7 => {
                stage.send(Operation::Remove, &[version(number)]).await;
                number += 1;
                stage.send(Operation::Add, &[version(number)]).await;
            }
            8 => {
                stage.task.abort();
                drop(stage);
                stage = Scene::start(runtime.clone(), folder.path());
                stage.send(Operation::Add, &[version(number)]).await;
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(random.u64(..15_000))).await;
    }
    for call in CALLS {
        runtime.fail(call, None);
        runtime.lose_answers(call, false);
    }
    let last = format!("uid-{number}");
    let is_well = |all: &[Arc<PodView>]| {
        all.len() == 1
            && all[0].pod.metadata.uid.as_deref() == Some(last.as_str())
            && all[0].status.phase.as_deref() == Some("Running")
    };
    // Init containers end by themselves sooner or later.
    let waiting = async {
        while !(is_well(&stage.handle.board().all()) && runtime.running().len() == 3) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            runtime.exit("setup", 0);
        }
    };
    let ended = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(ended.is_ok(), "seed {seed}: {:?} {:#?}", runtime.running(), stage.handle.board().all());
    assert_eq!(runtime.broken_rules(), Vec::<String>::new(), "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn never_two_of_a_name_and_never_a_lost_pod_whatever_happens() {
    // As for the other random histories, the variable raises their number; each of these takes as long as many of the
    // others.
    let cases: u64 = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(600);
    let histories = (cases / 25).max(1);
    for seed in 0..histories {
        upheaval(seed).await;
    }
}
