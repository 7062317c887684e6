//! Images from a registry that requires a secret.

use base64::Engine as _;

use crate::image_fixture::registry::{Guard, Registry};
use crate::image_fixture::{Layer, TestImage};
use crate::node::{Node, text};

fn pod(name: &str, image: &str, secret: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  hostNetwork: true\n  \
         imagePullSecrets: [{{name: {secret}}}]\n  restartPolicy: Never\n  containers:\n  - name: c\n    \
         image: {image}\n    imagePullPolicy: Always\n"
    )
}

fn secret(name: &str, registry: &str, password: &str) -> String {
    let auth = base64::engine::general_purpose::STANDARD.encode(format!("ann:{password}"));
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\ntype: kubernetes.io/dockerconfigjson\nstringData:\n  \
         .dockerconfigjson: '{{\"auths\":{{\"{registry}\":{{\"auth\":\"{auth}\"}}}}}}'\n"
    )
}

#[test]
fn a_secret_beside_the_pod_opens_the_registry() {
    let Some(mut node) = Node::new() else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("one");
    let registry = runtime.block_on(Registry::start(Guard::Basic("ann:hunter2")));
    registry.offer("team/app", "1", &TestImage::new(vec![Layer::default().file("app", "text")]));
    let (image, host) = (registry.name("team/app:1"), registry.name(""));
    let host = host.trim_end_matches('/');
    node.start_agent();
    node.write("wrong.yaml", &(secret("wrong", host, "guessed") + "---\n" + &pod("wrong", &image, "wrong")));
    node.write("none.yaml", &pod("none", &image, "nowhere"));
    for name in ["wrong", "none"] {
        node.until_pod(name, "ErrImagePull", |pod| {
            let reason = &crate::node::state(pod)["waiting"]["reason"];
            reason == "ErrImagePull" || reason == "ImagePullBackOff"
        });
    }
    let described = |name: &str| text(&node.ask(&["describe", &format!("{name}-n")])).1;
    node.until("the missing secret", || described("none").contains("FailedToRetrieveImagePullSecret"));

    node.write("right.yaml", &(secret("right", host, "hunter2") + "---\n" + &pod("right", &image, "right")));
    node.until("the image", || {
        described("right").contains(&format!("Successfully pulled image \"{image}\""))
    });

    // The node's own credentials serve pods that have no better ones.
    let config = format!("{{\"auths\":{{\"{host}\":{{\"username\":\"ann\",\"password\":\"hunter2\"}}}}}}");
    std::fs::write(node.path("data/config.json"), config).expect("writable");
    node.write("node.yaml", &pod("node", &image, "nowhere"));
    node.until("the image", || described("node").contains("Successfully pulled image"));

    let everything = node.said() + &["wrong", "none", "right", "node"].map(described).join("\n");
    assert!(!everything.contains("hunter2") && !everything.contains("guessed"), "{everything}");
}
