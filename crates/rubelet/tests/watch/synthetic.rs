//! On a synthetic runtime: what is shown, what is left out, and that nothing is changed.

use std::process::Stdio;
use std::time::Duration;

use rubelet_runtime::synthetic::{ContainerSpec, Exit, Op, PodSpec, Profile, Restart, SyntheticRuntime};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use crate::program::{PATIENCE, Watching, rubelet};

#[tokio::test]
async fn pods_that_are_there_come_first_then_every_event() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd16).serve(dir.path().join("s")).await.expect("served");
    let web = runtime.world(|world| {
        world.add_pod(PodSpec::new("shop", "web").container(ContainerSpec::new("init").exited(0)))
    });
    let nginx = runtime.world(|world| world.run(&web.sandbox, "nginx"));

    let mut watching = Watching::start(&runtime.endpoint(), &[]);
    let pod = watching.pod("web").await;
    let states: Vec<(&str, &str)> = pod["containers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|container| {
            (container["name"].as_str().expect("a name"), container["state"].as_str().expect("a state"))
        })
        .collect();
    assert!(states.contains(&("init", "exited")) && states.contains(&("nginx", "running")), "{states:?}");
    assert!(
        watching.seen().iter().all(|object| object["type"] != "event"),
        "what was there before is not news: {:#?}",
        watching.seen()
    );

    runtime.world(|world| world.exit(&nginx, Exit::code(7)));
    let died = watching.event("ContainerDied", "web", "nginx").await;
    assert_eq!((&died["exitCode"], &died["reason"]), (&7.into(), &"Error".into()));
    let hungry = runtime.world(|world| world.run(&web.sandbox, "hungry"));
    watching.event("ContainerStarted", "web", "hungry").await;
    runtime.world(|world| world.oom(&hungry));
    let killed = watching.event("ContainerDied", "web", "hungry").await;
    assert_eq!((&killed["exitCode"], &killed["oomKilled"]), (&137.into(), &true.into()));
    runtime.world(|world| world.remove(&nginx));
    watching.event("ContainerRemoved", "web", "nginx").await;
    runtime.world(|world| world.stop_sandbox(&web.sandbox));
    watching.event("ContainerDied", "web", "").await;
    runtime.world(|world| world.remove_sandbox(&web.sandbox));
    watching.event("ContainerRemoved", "web", "").await;

    assert_eq!(watching.end().await.code(), Some(0));
    runtime.calls().assert_read_only();
}

#[tokio::test]
async fn filters_leave_out_the_rest() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd16).serve(dir.path().join("s")).await.expect("served");
    let pods = runtime.world(|world| {
        [("shop", "web"), ("shop", "db"), ("lab", "web")]
            .map(|(namespace, name)| world.add_pod(PodSpec::new(namespace, name)))
    });
    let filters = ["-n", "shop", "--pod", "web", "--type", "died"];
    let mut watching = Watching::start(&runtime.endpoint(), &filters);
    watching.pod("web").await;
    for pod in &pods {
        let container = runtime.world(|world| world.run(&pod.sandbox, "c"));
        runtime.world(|world| world.exit(&container, Exit::code(0)));
    }
    // The wanted event is caused last.
    let last = runtime.world(|world| world.run(&pods[0].sandbox, "last"));
    runtime.world(|world| world.exit(&last, Exit::code(0)));
    watching.event("ContainerDied", "web", "last").await;
    for object in watching.seen().iter().filter(|object| object["type"] != "watching") {
        assert_eq!((&object["namespace"], &object["pod"]), (&"shop".into(), &"web".into()), "{object}");
        assert!(object["type"] == "pod" || object["event"] == "ContainerDied", "{object}");
    }
}

#[tokio::test]
async fn a_restart_of_the_runtime_is_survived_and_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd16).serve(dir.path().join("s")).await.expect("served");
    let web = runtime.world(|world| world.add_pod(PodSpec::new("shop", "web").container("nginx")));
    let mut watching = Watching::start(&runtime.endpoint(), &[]);
    watching.pod("web").await;
    runtime.restart(Restart::default()).await.expect("restarted");
    watching.wait_for("word of the restart", |object| object["type"] == "runtimeBack").await;
    runtime.world(|world| world.run(&web.sandbox, "after"));
    watching.event("ContainerStarted", "web", "after").await;
    assert!(
        watching.seen().iter().all(|object| object["event"] != "ContainerRemoved"),
        "a restart removes nothing: {:#?}",
        watching.seen()
    );
}

#[tokio::test]
async fn a_pod_whose_status_hangs_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd16).serve(dir.path().join("s")).await.expect("served");
    let web = runtime.world(|world| world.add_pod(PodSpec::new("shop", "web")));
    let mut watching = Watching::start(&runtime.endpoint(), &[]);
    watching.pod("web").await;
    let stuck = runtime.world(|world| world.create(&web.sandbox, "stuck"));
    let fault = runtime.faults().on(Op::ContainerStatus).container(&stuck).hang();
    runtime.world(|world| world.start(&stuck));
    let named = watching.wait_for("the stuck pod", |object| object["type"] == "podStuck").await;
    assert_eq!((&named["pod"], &named["call"]), (&"web".into(), &"container_status".into()));
    fault.release();
    watching.event("ContainerStarted", "web", "stuck").await;
}

/// Lists of all pods are answered, but lists of a single pod are not.
#[tokio::test]
async fn a_pod_that_cannot_be_looked_at_alone_is_named_and_seen_all_the_same() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(dir.path().join("s")).await.expect("served");
    let web = runtime.world(|world| world.add_pod(PodSpec::new("shop", "web")));
    let mut watching = Watching::start(&runtime.endpoint(), &[]);
    watching.pod("web").await;
    let _fault = runtime.faults().on(Op::ListContainers).pod(&web.uid).hang();
    let hangs = |object: &&serde_json::Value| object["type"] == "lookHangs";
    let mut names = (0..100).map(|number| format!("c{number}"));
    // A list that is due anyway may complete before the look counts as hung.
    while !watching.seen().iter().any(|object| hangs(&object)) {
        let name = names.next().expect("the look that hangs is never named");
        runtime.world(|world| world.run(&web.sandbox, name.as_str()));
        watching.event("ContainerStarted", "web", &name).await;
    }
    let named = watching.seen().iter().find(hangs).expect("it was said");
    assert_eq!((&named["namespace"], &named["pod"]), (&"shop".into(), &"web".into()), "{named}");
}

#[tokio::test]
async fn a_list_that_hangs_is_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd16).serve(dir.path().join("s")).await.expect("served");
    runtime.world(|world| world.add_pod(PodSpec::new("shop", "web")));
    let mut watching = Watching::start(&runtime.endpoint(), &[]);
    watching.pod("web").await;
    let fault = runtime.faults().on(Op::ListContainers).hang();
    let hangs = watching.wait_for("the list that hangs", |object| object["type"] == "listHangs").await;
    assert_eq!(hangs["call"], "list_containers");
    fault.release();
    watching.wait_for("its end", |object| object["type"] == "listAnswers").await;
}

#[tokio::test]
async fn ctrl_c_ends_it_even_when_nobody_reads_its_output() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd16).serve(dir.path().join("s")).await.expect("served");
    for number in 0..2_000 {
        runtime.world(|world| world.add_pod(PodSpec::new("shop", format!("pod-{number}"))));
    }
    let mut child = rubelet(&["watch", "-o", "json", "-r", &runtime.endpoint()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    // The first byte shows that it prints; then the pipe fills up.
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut [0]).await.expect("it prints");
    let pid = child.id().expect("it runs").to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    let ended = tokio::time::timeout(std::time::Duration::from_secs(60), child.wait()).await;
    assert_eq!(ended.expect("it ends").expect("ours").code(), Some(0));
}

/// Remarks are for the person at the terminal, who must not wait for the reader of the output.
#[tokio::test]
async fn remarks_are_made_while_nobody_reads_the_output() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd16).serve(dir.path().join("s")).await.expect("served");
    runtime.world(|world| {
        for number in 0..200 {
            world.add_pod(PodSpec::new("shop", format!("web-{number}")).container("main"));
        }
    });
    // The pipe is full from the beginning, so none of the output can be printed.
    let (_unread, output) = std::io::pipe().expect("a pipe");
    let room = rustix::pipe::fcntl_getpipe_size(&output).expect("its size");
    std::io::Write::write_all(&mut &output, &vec![b'\n'; room]).expect("it takes that much");
    let mut child = rubelet(&["watch", "-r", &runtime.endpoint()])
        .stdout(output)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut remarks = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut remark = async |part: &str| {
        let reading = async {
            while !remarks.next_line().await.expect("readable").expect("it goes on").contains(part) {}
        };
        tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("it never says {part:?}"));
    };
    remark("watching ").await;
    // These lists were answered, so by now it has shown the pods, or would have.
    runtime.faults().on(Op::ListContainers).times(2).delay(Duration::ZERO).until_hits(2).await;
    let fault = runtime.faults().on(Op::ListContainers).hang();
    remark("has not answered list_containers").await;
    fault.release();
    remark("answers again").await;
}

#[tokio::test]
async fn it_ends_when_its_reader_goes_away() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd16).serve(dir.path().join("s")).await.expect("served");
    runtime.world(|world| world.add_pod(PodSpec::new("shop", "web")));
    let mut child = rubelet(&["watch", "-r", &runtime.endpoint()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    // Nothing happens that would have to be printed.
    child.stdout.take().expect("a pipe").read_exact(&mut [0]).await.expect("it prints");
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends");
    assert_eq!(ended.expect("ours").code(), Some(0));
}

/// This holds even while it waits for its first list, before which nothing is printed.
#[tokio::test]
async fn it_ends_when_its_reader_goes_away_from_a_runtime_that_hangs() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd16).serve(dir.path().join("s")).await.expect("served");
    let fault = runtime.faults().on(Op::ListPodSandbox).hang();
    let mut child = rubelet(&["watch", "-r", &runtime.endpoint()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    tokio::time::timeout(PATIENCE, fault.until_hits(1)).await.expect("it asks");
    drop(child.stdout.take());
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends");
    assert_eq!(ended.expect("ours").code(), Some(0));
}
