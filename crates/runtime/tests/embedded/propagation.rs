//! Volumes of which mounts are seen on both sides.

use std::path::PathBuf;

use rubelet_cri::v1::{self, MountPropagation};

use crate::cri::Cri;
use crate::mounted::{Mounted, is_mounted};
use crate::with_runtime;

fn with_volume(cri: &Cri, volume: &Mounted, wanted: MountPropagation) -> v1::ContainerConfig {
    let mut config = cri.container_config(
        "mkdir /v/in && mount -t tmpfs none /v/in && echo done > /v/done && exec sleep 3600",
    );
    let context = config.linux.get_or_insert_default().security_context.get_or_insert_default();
    context.privileged = true;
    config.mounts.push(v1::Mount {
        host_path: volume.0.to_string_lossy().into_owned(),
        container_path: "/v".to_owned(),
        propagation: wanted as i32,
        ..Default::default()
    });
    config
}

#[test]
fn mounts_spread_to_the_host_and_leave_nothing_behind() {
    with_runtime("spread", None, async |runtime, cri| {
        let shared = Mounted::new(cri.folder("shared"), "--make-shared");
        let mut pod = cri.pod_config();
        pod.linux.get_or_insert_default().security_context.get_or_insert_default().privileged = true;
        let sandbox = cri.run_pod(&pod).await.expect("runs");
        let config = with_volume(&cri, &shared, MountPropagation::PropagationBidirectional);
        let id = cri.create(&sandbox, &pod, &config).await.expect("a container");
        cri.start(&id).await.expect("starts");
        cri.told(&shared.0.join("done")).await;
        assert!(is_mounted(&shared.0.join("in")));
        cri.clear().await.expect("is removed");
        let left: Vec<_> = runtime.mounts().into_iter().filter(|path| !path.starts_with(&shared.0)).collect();
        assert_eq!(left, Vec::<PathBuf>::new());
    });
}

#[test]
fn what_the_host_does_not_share_is_refused() {
    with_runtime("private", None, async |_, cri| {
        let private = Mounted::new(cri.folder("private"), "--make-private");
        let pod = cri.pod_config();
        let sandbox = cri.run_pod(&pod).await.expect("runs");
        for (wanted, problem) in [
            (MountPropagation::PropagationBidirectional, "is not a shared mount"),
            (MountPropagation::PropagationHostToContainer, "is not a shared or slave mount"),
        ] {
            let refused = cri.create(&sandbox, &pod, &with_volume(&cri, &private, wanted)).await.unwrap_err();
            assert!(refused.to_string().contains(problem), "{refused}");
        }
    });
}
