//! Lists: completeness, filters, order, size.

use std::collections::{BTreeSet, HashMap};

use prost::Message;
use rubelet_cri::v1;
use rubelet_runtime::synthetic::{ContainerSpec, ContainerState, PodSpec, Profile, SyntheticRuntime};
use tonic::Code;

use crate::client::{Client, Served, serve, serve_as};

async fn containers(client: &mut Client, filter: v1::ContainerFilter) -> Vec<v1::Container> {
    let request = v1::ListContainersRequest { filter: Some(filter) };
    client.list_containers(request).await.unwrap().into_inner().containers
}

async fn sandboxes(client: &mut Client, filter: v1::PodSandboxFilter) -> Vec<v1::PodSandbox> {
    let request = v1::ListPodSandboxRequest { filter: Some(filter) };
    client.list_pod_sandbox(request).await.unwrap().into_inner().items
}

fn by_uid(uid: &str) -> HashMap<String, String> {
    [("io.kubernetes.pod.uid".to_owned(), uid.to_owned())].into()
}

#[tokio::test]
async fn lists_are_complete_and_say_what_a_kubelet_wrote() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let pod = runtime.world(|world| {
        world.add_pod("default/other");
        world.add_pod(
            PodSpec::new("kube-system", "dns")
                .uid("0123")
                .label("app", "dns")
                .container("a")
                .container(ContainerSpec::new("b").exited(3)),
        )
    });
    let listed = sandboxes(&mut client, v1::PodSandboxFilter::default()).await;
    assert_eq!(listed.len(), 2);
    let sandbox = listed.iter().find(|sandbox| sandbox.id == pod.sandbox.as_str()).unwrap();
    let metadata = sandbox.metadata.as_ref().unwrap();
    assert_eq!((&*metadata.name, &*metadata.namespace, &*metadata.uid), ("dns", "kube-system", "0123"));
    assert_eq!(sandbox.labels["io.kubernetes.pod.uid"], "0123");
    assert_eq!(sandbox.labels["app"], "dns");
    assert_eq!(sandbox.state(), v1::PodSandboxState::SandboxReady);

    let listed = containers(&mut client, v1::ContainerFilter::default()).await;
    let states: HashMap<&str, v1::ContainerState> = listed
        .iter()
        .map(|container| (container.labels["io.kubernetes.container.name"].as_str(), container.state()))
        .collect();
    assert_eq!(states["a"], v1::ContainerState::ContainerRunning);
    assert_eq!(states["b"], v1::ContainerState::ContainerExited);
    assert!(listed.iter().all(|container| container.pod_sandbox_id == pod.sandbox.as_str()));
    let annotations = &listed[0].annotations;
    for key in ["hash", "restartCount", "terminationMessagePath", "terminationMessagePolicy", "ports"] {
        assert!(annotations.contains_key(&format!("io.kubernetes.container.{key}")), "{key}");
    }
}

#[tokio::test]
async fn filters_work_as_on_real_runtimes() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let (one, two) = runtime.world(|world| {
        let one = world.add_pod(PodSpec::from("ns/one").uid("u1").container("a").container("b"));
        let two = world.add_pod(PodSpec::from("ns/two").uid("u2").container("a"));
        world.exit(&one.containers[1], 0);
        world.sandbox_dies(&two.sandbox);
        (one, two)
    });
    let id = one.containers[0].as_str();

    let by_id = |id: &str| v1::ContainerFilter { id: id.to_owned(), ..Default::default() };
    assert_eq!(containers(&mut client, by_id(id)).await.len(), 1);
    assert_eq!(containers(&mut client, by_id(&id[..12])).await[0].id, id, "a short id");
    assert_eq!(containers(&mut client, by_id("nothing")).await, []);

    let by_sandbox = |id: &str| v1::ContainerFilter { pod_sandbox_id: id.to_owned(), ..Default::default() };
    assert_eq!(containers(&mut client, by_sandbox(one.sandbox.as_str())).await.len(), 2);
    assert_eq!(containers(&mut client, by_sandbox(&one.sandbox.as_str()[..13])).await.len(), 2);
    assert_eq!(containers(&mut client, by_sandbox("gone")).await, []);
    let both = v1::ContainerFilter { id: id.to_owned(), ..by_sandbox(two.sandbox.as_str()) };
    assert_eq!(containers(&mut client, both).await, [], "all parts of a filter must hold");

    let running = v1::ContainerFilter {
        state: Some(v1::ContainerStateValue { state: v1::ContainerState::ContainerRunning.into() }),
        label_selector: by_uid("u1"),
        ..Default::default()
    };
    let found = containers(&mut client, running).await;
    assert_eq!(found.iter().map(|container| container.id.as_str()).collect::<Vec<_>>(), [id]);
    let mut labels = by_uid("u1");
    labels.insert("io.kubernetes.container.name".to_owned(), "b".to_owned());
    let named = v1::ContainerFilter { label_selector: labels, ..Default::default() };
    assert_eq!(containers(&mut client, named).await[0].id, one.containers[1].as_str());

    let not_ready = v1::PodSandboxFilter {
        state: Some(v1::PodSandboxStateValue { state: v1::PodSandboxState::SandboxNotready.into() }),
        ..Default::default()
    };
    assert_eq!(sandboxes(&mut client, not_ready).await[0].id, two.sandbox.as_str());
    let labelled = v1::PodSandboxFilter { label_selector: by_uid("u1"), ..Default::default() };
    assert_eq!(sandboxes(&mut client, labelled).await[0].id, one.sandbox.as_str());
}

#[tokio::test]
async fn a_pod_made_by_hand_has_a_name_and_nothing_else() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let pod = runtime.world(|world| world.add_pod(PodSpec::by_hand("manual").container("shell")));
    assert_eq!(pod.uid.as_str(), pod.sandbox.as_str());
    let sandbox = &sandboxes(&mut client, v1::PodSandboxFilter::default()).await[0];
    assert!(sandbox.labels.is_empty() && sandbox.annotations.is_empty());
    assert_eq!(sandbox.metadata.as_ref().unwrap().name, "manual");
    let container = &containers(&mut client, v1::ContainerFilter::default()).await[0];
    assert!(container.labels.is_empty());
    assert_eq!(container.metadata.as_ref().unwrap().name, "shell");
}

#[tokio::test]
async fn each_list_has_a_random_order_that_the_seed_repeats() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let Served { runtime, mut client } = serve(Profile::Ctd2).await;
        runtime.world(|world| {
            for n in 0..50 {
                world.add_pod(PodSpec::new("ns", format!("p{n}")).container("c"));
            }
        });
        let mut lists = Vec::new();
        for _ in 0..3 {
            let list = containers(&mut client, v1::ContainerFilter::default()).await;
            lists.push(list.into_iter().map(|container| container.id).collect::<Vec<_>>());
        }
        let first: BTreeSet<_> = lists[0].iter().collect();
        assert_eq!(first, lists[1].iter().collect(), "the same containers");
        assert_ne!(lists[0], lists[1], "in another order");
        runs.push(lists);
    }
    assert_eq!(runs[0], runs[1], "the same seed gives the same run");
}

#[tokio::test]
async fn an_entry_weighs_what_it_weighs_on_a_real_node() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    runtime.world(|world| {
        world.add_pod(
            PodSpec::new("kube-system", "coredns-7db6d8ff4d-x2x9q")
                .label("k8s-app", "kube-dns")
                .container("coredns"),
        )
    });
    let container = &containers(&mut client, v1::ContainerFilter::default()).await[0];
    assert!((850..=1000).contains(&container.encoded_len()), "{}", container.encoded_len());
    let sandbox = &sandboxes(&mut client, v1::PodSandboxFilter::default()).await[0];
    assert!((400..=700).contains(&sandbox.encoded_len()), "{}", sandbox.encoded_len());
}

#[tokio::test]
async fn a_list_over_the_message_limit_is_refused_and_can_be_had_in_parts() {
    let runtime = SyntheticRuntime::new(Profile::Ctd2).quirks(|quirks| quirks.max_message_bytes = 20_000);
    let Served { runtime, mut client } = serve_as(runtime).await;
    runtime.world(|world| {
        for n in 0..30 {
            let container = ContainerSpec::new("c");
            let container = if n < 10 { container } else { container.exited(0) };
            world.add_pod(PodSpec::new("ns", format!("p{n}")).container(container));
        }
    });
    let error = client.list_containers(v1::ListContainersRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(error.message().starts_with("grpc: trying to send message larger than max ("), "{error}");
    let running = v1::ContainerFilter {
        state: Some(v1::ContainerStateValue { state: v1::ContainerState::ContainerRunning.into() }),
        ..Default::default()
    };
    assert_eq!(containers(&mut client, running).await.len(), 10);
}

#[tokio::test]
async fn streaming_lists_come_in_batches_where_the_runtime_has_them() {
    let Served { runtime: _runtime, mut client } = serve(Profile::Ctd2).await;
    let error = client.stream_containers(v1::StreamContainersRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);

    let Served { runtime, mut client } =
        serve_as(SyntheticRuntime::new(Profile::Ctd2).streaming_lists(4)).await;
    let mut stream =
        client.stream_containers(v1::StreamContainersRequest::default()).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap(), None, "no entries, no message");
    runtime.world(|world| {
        for n in 0..10 {
            world.add_pod(PodSpec::new("ns", format!("p{n}")).container("c"));
        }
    });
    let mut stream =
        client.stream_containers(v1::StreamContainersRequest::default()).await.unwrap().into_inner();
    let mut batches = Vec::new();
    while let Some(message) = stream.message().await.unwrap() {
        batches.push(message.containers.len());
    }
    assert_eq!(batches, [4, 4, 2]);
    let mut stream =
        client.stream_pod_sandboxes(v1::StreamPodSandboxesRequest::default()).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().pod_sandboxes.len(), 4);
}

#[tokio::test]
async fn a_change_is_in_the_next_list() {
    let Served { runtime, mut client } = serve(Profile::Ctd2).await;
    let pod = runtime.world(|world| world.add_pod(PodSpec::from("p").container("c")));
    for state in [ContainerState::Unknown, ContainerState::Exited, ContainerState::Running] {
        runtime.world(|world| world.force_state(&pod.containers[0], state));
        let listed = &containers(&mut client, v1::ContainerFilter::default()).await[0];
        let expected = match state {
            ContainerState::Unknown => v1::ContainerState::ContainerUnknown,
            ContainerState::Exited => v1::ContainerState::ContainerExited,
            _ => v1::ContainerState::ContainerRunning,
        };
        assert_eq!(listed.state(), expected);
    }
}
