//! What is mounted in a container, and who sees what is mounted in it later.

use std::os::unix::net::UnixListener;
use std::path::Path;

use rubelet_cri::v1::{self, MountPropagation};

use crate::cri::Cri;
use crate::mounted::{Mounted, is_mounted};

fn volume(host: &Path, inside: &str) -> v1::Mount {
    v1::Mount {
        host_path: host.to_string_lossy().into_owned(),
        container_path: inside.to_owned(),
        ..Default::default()
    }
}

fn spreading(host: &Path, inside: &str, propagation: MountPropagation) -> v1::Mount {
    v1::Mount { propagation: propagation as i32, ..volume(host, inside) }
}

pub(crate) async fn volumes_are_mounted(cri: Cri) {
    let (read, write) = (cri.folder("ro"), cri.folder("rw"));
    std::fs::write(read.join("word"), "given\n").expect("a word");
    let mut config = cri.container_config(
        "cat /some/where/new/word; echo back > /some/where/else/word; echo x > /some/where/new/x || echo refused",
    );
    config.mounts.push(v1::Mount { readonly: true, ..volume(&read, "/some/where/new") });
    config.mounts.push(volume(&write, "/some/where/else"));
    assert_eq!(cri.output(config).await, ["given", "refused"]);
    assert_eq!(std::fs::read_to_string(write.join("word")).expect("an answer"), "back\n");
    assert!(!read.join("x").exists());
}

pub(crate) async fn a_volume_can_be_more_than_a_folder(cri: Cri) {
    let folder = cri.folder("kinds");
    std::fs::write(folder.join("file"), "").expect("a file");
    let _listener = UnixListener::bind(folder.join("socket")).expect("a socket");
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("pipe"), rustix::fs::Mode::RWXU).expect("a pipe");
    let mut config = cri.container_config(
        "test -f /mnt/v/file && test -S /mnt/v/socket && test -p /mnt/v/pipe && test -c /mnt/v/null && echo all",
    );
    for kind in ["file", "socket", "pipe"] {
        config.mounts.push(volume(&folder.join(kind), &format!("/mnt/v/{kind}")));
    }
    config.mounts.push(volume(Path::new("/dev/null"), "/mnt/v/null"));
    assert_eq!(cri.output(config).await, ["all"]);
}

pub(crate) async fn a_volume_hides_no_file_of_the_pod(cri: Cri) {
    let (etc, srv) = (cri.folder("etc"), cri.folder("srv"));
    std::fs::write(srv.join("word"), "given\n").expect("a word");
    let mut pod = cri.pod_config();
    pod.dns_config = Some(v1::DnsConfig { servers: vec!["192.0.2.7".to_owned()], ..Default::default() });
    let sandbox = cri.run_pod(&pod).await.expect("a pod");
    let mut config = cri.container_config(
        "cat /etc/resolv.conf; test -s /etc/hostname && test -s /etc/hosts && cat /srv/inner/word; echo x > /etc/new",
    );
    config.mounts =
        vec![volume(&srv, "/srv/inner"), volume(&cri.folder("outer"), "/srv/./"), volume(&etc, "/etc")];
    let id = cri.create(&sandbox, &pod, &config).await.expect("a container");
    cri.start(&id).await.expect("starts");
    let lines = cri.log(&cri.exited(&id).await).await;
    let said = |words: &str| lines.iter().any(|line| line.ends_with(words));
    assert!(said(" nameserver 192.0.2.7") && said(" given"), "{lines:?}");
    assert!(etc.join("new").exists());
}

pub(crate) async fn the_volumes_of_an_image_are_folders_of_the_containers_own(cri: Cri) {
    if cri.image == "host" {
        return; // It has none.
    }
    let given = cri.folder("given");
    let script = "cat /www/index.html; ls /data /given; stat -c '%u %g %a' /www /data; \
        for folder in / /www /data /given; do echo x > $folder/x && echo $folder; done";
    // Each has its own.
    for name in ["one", "two"] {
        std::fs::write(given.join(name), "").expect("a file");
        let mut config = cri.container_config(script);
        config.image =
            Some(v1::ImageSpec { image: rubelet_testbed::VOLUMES.to_owned(), ..Default::default() });
        config.linux.get_or_insert_default().security_context.get_or_insert_default().readonly_rootfs = true;
        config.mounts.push(volume(&given, "/given"));
        let lines = cri.output(config).await;
        let wanted = ["here", "/data:", "", "/given:", name, "0 0 755", "0 0 755", "/www", "/data", "/given"];
        assert_eq!(lines, wanted);
        for name in [name, "x"] {
            std::fs::remove_file(given.join(name)).expect("it is there");
        }
    }
}

/// Runs a privileged container with these volumes.
async fn privileged(cri: &Cri, mounts: Vec<v1::Mount>) -> String {
    let mut pod = cri.pod_config();
    pod.linux.get_or_insert_default().security_context.get_or_insert_default().privileged = true;
    let sandbox = cri.run_pod(&pod).await.expect("a pod");
    let mut config = cri.container_config("exec sleep 3600");
    config.linux.get_or_insert_default().security_context.get_or_insert_default().privileged = true;
    config.mounts = mounts;
    let id = cri.create(&sandbox, &pod, &config).await.expect("a container");
    cri.start(&id).await.expect("starts");
    id
}

async fn said(cri: &Cri, id: &str, script: &str) -> String {
    let answer = cri.exec(id, script, 0).await.expect("an answer");
    String::from_utf8_lossy(&answer.stdout).into_owned()
}

pub(crate) async fn mounts_are_seen_on_both_sides_only_where_that_was_asked(cri: Cri) {
    let shared = Mounted::new(cri.folder("shared"), "--make-shared");
    let one_way = [
        spreading(&shared.0, "/mnt/none", MountPropagation::PropagationPrivate),
        spreading(&shared.0, "/mnt/slave", MountPropagation::PropagationHostToContainer),
    ];
    let both_ways = spreading(&shared.0, "/mnt/both", MountPropagation::PropagationBidirectional);
    let alone = privileged(&cri, one_way.to_vec()).await;
    let beside = privileged(&cri, [one_way.to_vec(), vec![both_ways]].concat()).await;
    shared.mount_inside("late");
    let look = "cd /mnt; ls -d */late/f";
    assert_eq!(said(&cri, &alone, look).await, "slave/late/f\n");
    assert_eq!(said(&cri, &beside, look).await, "both/late/f\nslave/late/f\n");
    let mount = "for name in none slave both; do mkdir -p /mnt/$name/$name && mount -t tmpfs none /mnt/$name/$name; done; echo done";
    assert_eq!(said(&cri, &beside, mount).await, "done\n");
    let seen = ["none", "slave", "both"].map(|name| is_mounted(&shared.0.join(name)));
    assert_eq!(seen, [false, false, true]);
}

pub(crate) async fn a_recursively_read_only_volume_stays_so(cri: Cri) {
    let shared = Mounted::new(cri.folder("shared"), "--make-shared");
    shared.mount_inside("early");
    let all = v1::Mount { readonly: true, recursive_read_only: true, ..volume(&shared.0, "/mnt/v") };
    let id = privileged(&cri, vec![all]).await;
    shared.mount_inside("late");
    let write = "cd /mnt/v; for name in . early late; do touch $name/x && echo $name; done; test -e early/f && echo seen";
    assert_eq!(said(&cri, &id, write).await, "seen\n");
}
