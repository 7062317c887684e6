use insta::assert_snapshot;

use super::*;

fn pod(name: &str, status: &str, ready: usize, restarts: i64, detail: Option<&str>) -> Summary {
    Summary {
        name: format!("default/{name}"),
        status: status.to_owned(),
        ready,
        containers: 1,
        restarts,
        detail: detail.map(str::to_owned),
        mood: Mood::of(status),
    }
}

fn event(time: &str, pod: &str, is_warning: bool, reason: &str, message: &str, count: u64) -> Event {
    Event {
        time: time.to_owned(),
        pod: format!("default/{pod}"),
        is_warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
        count,
        at: 0,
    }
}

/// A few pods, one of them in trouble, and a broken manifest.
fn view() -> View {
    View {
        pods: vec![
            pod(
                "crash-looper-node1",
                "CrashLoopBackOff",
                0,
                3,
                Some("main: back-off 40s restarting failed container"),
            ),
            pod("job-node1", "Succeeded", 0, 0, Some("work: last exit 0 (Completed)")),
            pod("new-node1", "ContainerCreating", 0, 0, None),
            pod("web-node1", "Running", 1, 0, None),
        ],
        problems: vec!["/etc/pods/web.yaml:7: spec.containers[0].image: Required value".to_owned()],
        events: vec![
            event("12:03:01", "web-node1", false, "Started", "Started container server", 1),
            event(
                "12:03:04",
                "crash-looper-node1",
                true,
                "BackOff",
                "Back-off restarting failed container main",
                4,
            ),
        ],
        hint: "Ctrl-C stops the agent, not the pods".to_owned(),
    }
}

/// The rows as they appear, without colours.
fn text(view: &View, columns: u16, rows: u16) -> String {
    let size = Size { columns, rows };
    let buffer = render(view, size);
    assert!(buffer.area.width < columns.max(2) && buffer.area.height < rows.max(2), "it fits");
    let rows = buffer.content.chunks(usize::from(buffer.area.width));
    rows.map(|row| {
        row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned() + "\n"
    })
    .collect()
}

#[test]
fn on_a_usual_terminal() {
    assert_snapshot!(text(&view(), 100, 24));
}

#[test]
fn where_there_is_less_room_there_is_less_to_see() {
    assert_snapshot!("narrow", text(&view(), 60, 24));
    assert_snapshot!("very_narrow", text(&view(), 30, 24));
    assert_snapshot!("low", text(&view(), 100, 8));
    assert_snapshot!("tiny", text(&view(), 40, 3));
}

#[test]
fn before_there_are_pods() {
    assert_snapshot!(text(
        &View { hint: "Ctrl-C stops the agent, not the pods".to_owned(), ..View::default() },
        80,
        24
    ));
}

#[test]
fn of_more_pods_than_fit_those_in_trouble_are_seen() {
    let mut view = view();
    view.pods.extend((0..40).map(|number| pod(&format!("many-{number}"), "Running", 1, 0, None)));
    view.pods.push(pod("zulu", "ImagePullBackOff", 0, 0, Some("main: Back-off pulling image \"nothing\"")));
    assert_snapshot!(text(&view, 80, 20));
}

#[test]
fn what_a_container_says_cannot_upset_the_terminal() {
    let rude = "a\u{1b}[2J\u{9b}\nb";
    let mut view = view();
    view.pods.push(pod(rude, rude, 0, 0, Some(rude)));
    view.problems.push(rude.to_owned());
    view.events.push(event("12:03:05", rude, true, rude, rude, 1));
    let text = text(&view, 200, 24);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
}

/// Whatever the size, it is drawn and fits.
#[test]
fn at_every_size() {
    let mut many = view();
    many.pods.extend((0..30).map(|number| pod(&format!("ポッド-{number}"), "Running", 1, 0, None)));
    many.problems.extend((0..9).map(|number| format!("problem {number}")));
    for view in [View::default(), view(), many] {
        for columns in [1, 2, 5, 10, 20, 33, 63, 64, 71, 72, 73, 90] {
            for rows in [1, 2, 3, 4, 5, 8, 12, 13, 20, 50] {
                text(&view, columns, rows);
            }
        }
    }
}
