//! Whether the runtime's event stream is followed, and what difference that makes.

use rubelet_runtime::synthetic::{Exit, Handle, NewPod, Op, PodSpec, Profile, SyntheticRuntime};
use serde_json::Value;

use crate::program::Watching;

struct Scene {
    runtime: Handle,
    web: NewPod,
    watching: Watching,
    _folder: tempfile::TempDir,
}

impl Scene {
    async fn on(profile: Profile, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = SyntheticRuntime::new(profile).serve(folder.path().join("s")).await.expect("served");
        let web = runtime.world(|world| world.add_pod(PodSpec::new("shop", "web").container("nginx")));
        let mut watching = Watching::start(&runtime.endpoint(), args);
        watching.pod("web").await;
        Self { runtime, web, watching, _folder: folder }
    }

    fn streams_opened(&self) -> u64 {
        self.runtime.calls().of(Op::GetContainerEvents).total
    }

    /// Returns an announced event for the end of a container. Now and then a list is quicker, hence the loop.
    async fn announced_end(&mut self) -> Value {
        for number in 0..100 {
            let name = format!("web-{number}");
            let pod =
                self.runtime.world(|world| world.add_pod(PodSpec::new("shop", &name).container("nginx")));
            self.watching.event("ContainerStarted", &name, "nginx").await;
            self.runtime.world(|world| world.exit(&pod.containers[0], Exit::code(7)));
            let died = self.watching.event("ContainerDied", &name, "nginx").await;
            if died["trigger"] == "event" {
                return died;
            }
        }
        panic!("no end was announced");
    }

    /// Returns the event for the end of a container.
    async fn end(&mut self) -> Value {
        self.runtime.world(|world| world.exit(&self.web.containers[0], Exit::code(7)));
        self.watching.event("ContainerDied", "web", "nginx").await
    }
}

#[tokio::test]
async fn with_the_stream_changes_are_seen_as_they_are_announced() {
    let mut scene = Scene::on(Profile::Ctd2, &[]).await;
    scene.runtime.events().until(|counts| counts.readers == 1).await;
    let died = scene.announced_end().await;
    assert_eq!(died["exitCode"], 7, "{died}");
}

#[tokio::test]
async fn a_runtime_that_hands_each_event_to_one_reader_keeps_them_for_the_kubelet() {
    let mut scene = Scene::on(Profile::Ctd17, &[]).await;
    let died = scene.end().await;
    assert_eq!(died["trigger"], "relist");
    assert_eq!(scene.streams_opened(), 0);
    let said = scene.watching.seen().iter().filter(|object| object["type"] == "eventsLeftAlone");
    let said: Vec<&Value> = said.collect();
    assert_eq!(said.len(), 1, "it is said, and once");
    assert_eq!(said[0]["runtime"], "containerd v1.7.34");
}

#[tokio::test]
async fn whoever_says_so_gets_events_or_none() {
    let mut scene = Scene::on(Profile::Ctd17, &["--events", "on"]).await;
    scene.runtime.events().until(|counts| counts.readers == 1).await;
    scene.announced_end().await;
    assert!(scene.watching.seen().iter().all(|object| object["type"] != "eventsLeftAlone"));

    let mut scene = Scene::on(Profile::Ctd2, &["--events", "off"]).await;
    assert_eq!(scene.end().await["trigger"], "relist");
    assert_eq!(scene.streams_opened(), 0);
}
