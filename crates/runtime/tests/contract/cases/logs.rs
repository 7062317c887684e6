//! The log format.

use std::time::Duration;

use rubelet_cri::v1;

use crate::cri::Cri;

pub(crate) async fn lines_have_time_stream_and_tag(cri: Cri) {
    let (_, lines) = cri.run(cri.container_config("echo one; echo; echo two >&2; printf end")).await;
    let parsed: Vec<(&str, &str, &str)> = lines
        .iter()
        .map(|line| {
            let mut words = line.splitn(4, ' ');
            let time = words.next().expect("a time");
            assert!(time.len() >= 20 && time.as_bytes()[10] == b'T', "{time} is a time");
            (words.next().expect("a stream"), words.next().expect("a tag"), words.next().unwrap_or_default())
        })
        .collect();
    let of = |stream: &str| -> Vec<(&str, &str)> {
        parsed.iter().filter(|line| line.0 == stream).map(|line| (line.1, line.2)).collect()
    };
    assert_eq!(of("stdout"), [("F", "one"), ("F", ""), ("P", "end")]);
    assert_eq!(of("stderr"), [("F", "two")]);
}

pub(crate) async fn long_lines_are_cut(cri: Cri) {
    let script = "head -c 16384 /dev/zero | tr '\\0' a; echo; head -c 40000 /dev/zero | tr '\\0' b; echo";
    let (_, lines) = cri.run(cri.container_config(script)).await;
    let parts: Vec<(String, usize)> = lines
        .iter()
        .map(|line| {
            let mut words = line.splitn(4, ' ').skip(2);
            (words.next().expect("a tag").to_owned(), words.next().expect("text").len())
        })
        .collect();
    let whole = |letter: &str| -> usize {
        lines
            .iter()
            .filter_map(|line| line.splitn(4, ' ').nth(3))
            .filter(|text| text.starts_with(letter))
            .map(str::len)
            .sum()
    };
    assert_eq!((whole("a"), whole("b")), (16384, 40000), "{parts:?}");
    assert!(parts.iter().all(|part| part.1 <= 16384), "{parts:?}");
    assert_eq!(parts.iter().filter(|part| part.0 == "F").count(), 2, "{parts:?}");
}

pub(crate) async fn a_rotated_log_is_reopened(cri: Cri) {
    let script = "echo before; while [ ! -e /in/go ]; do sleep 0.02; done; echo after; exec sleep 3600";
    let folder = cri.folder("in");
    let mut config = cri.container_config(script);
    config.mounts.push(v1::Mount {
        host_path: folder.to_string_lossy().into_owned(),
        container_path: "/in".to_owned(),
        ..Default::default()
    });
    let (_, id, _) = cri.pod_with_config(config).await;
    cri.start(&id).await.expect("starts");
    let status = cri.status(&id).await.expect("a status");
    let path = std::path::PathBuf::from(&status.log_path);
    cri.told(&path).await;
    let moved = path.with_extension("old");
    std::fs::rename(&path, &moved).expect("is moved");
    let request = v1::ReopenContainerLogRequest { container_id: id.clone() };
    cri.runtime().await.reopen_container_log(request.clone()).await.expect("is reopened");
    std::fs::write(folder.join("go"), "").expect("a word");
    assert!(cri.told(&path).await.contains(" stdout F after"));
    assert!(std::fs::read_to_string(&moved).expect("the old log").contains(" stdout F before"));
    cri.stop(&id, 0).await.expect("stops");
    tokio::time::sleep(Duration::ZERO).await;
    cri.runtime().await.reopen_container_log(request).await.expect_err("nobody writes any more");
}
