//! The table that `rubelet run` shows on a terminal: one line per pod, the problems of manifests, and the latest
//! events. It is redrawn when something has changed, and only then.

mod frame;
mod render;
mod screen;
mod view;

use std::time::Duration;

use rubelet_agent::sync_loop::AgentHandle;
use tokio::signal::unix::{SignalKind, signal};

use frame::Frame;
use render::render;
use view::View;

pub(crate) use screen::Screen;

use super::report::ProblemTeller;

/// Changes that follow each other faster than this are shown together.
const CALM: Duration = Duration::from_millis(100);

/// Keeps the table up to date, for as long as it is polled.
pub(super) async fn show(screen: &Screen, agent: &AgentHandle, hint: String) {
    let (Ok(mut resized), Ok(mut resumed)) = (
        signal(SignalKind::window_change()),
        signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw())),
    ) else {
        screen.print("cannot show the table: its signals cannot be received");
        return;
    };
    let board = agent.board().clone();
    let (mut changes, mut problems) = (board.changes(), agent.problems());
    let mut view = View { hint, ..View::default() };
    let mut teller = ProblemTeller::default();
    screen.begin();
    loop {
        changes.mark_unchanged();
        view.update_pods(&board.all());
        let all = problems.borrow_and_update().clone();
        for line in teller.news(&all) {
            screen.print(&line);
        }
        view.update_problems(&all);
        let buffer = render(&view, screen.size());
        screen.draw(Frame::new(&buffer, screen.has_colour()));
        tokio::time::sleep(CALM).await;
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            changed = problems.changed() => if changed.is_err() { return },
            _ = resized.recv() => {}
            _ = resumed.recv() => screen.lost_its_place(),
        }
    }
}
