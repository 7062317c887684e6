use notify::event::{CreateKind, DataChange, Flag, MetadataKind, RemoveKind, RenameMode};

use super::*;

fn hints() -> Hints {
    Hints::new(PathBuf::from("/m"))
}

fn event(kind: EventKind, path: &str) -> Event {
    Event::new(kind).add_path(PathBuf::from(path))
}

fn create(path: &str) -> Event {
    event(EventKind::Create(CreateKind::File), path)
}

fn write(path: &str) -> Event {
    event(EventKind::Modify(ModifyKind::Data(DataChange::Any)), path)
}

fn close(path: &str) -> Event {
    event(EventKind::Access(AccessKind::Close(AccessMode::Write)), path)
}

/// Returns how long it takes until a scan is due, and what it leaves alone.
async fn due_after(hints: &Hints) -> (Duration, Vec<String>) {
    let start = Instant::now();
    let due = hints.due().await;
    (start.elapsed(), due.writing.iter().map(|path| path.display().to_string()).collect())
}

#[tokio::test(start_paused = true)]
async fn a_closed_file_is_looked_at_at_once() {
    let hints = hints();
    for event in [create("/m/a.yaml"), write("/m/a.yaml"), close("/m/a.yaml")] {
        hints.note(&event, Instant::now());
    }
    assert_eq!(due_after(&hints).await, (Duration::ZERO, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_never_closed_is_looked_at_when_it_is_quiet() {
    let hints = hints();
    hints.note(&write("/m/a.yaml"), Instant::now());
    tokio::time::advance(QUIET / 2).await;
    hints.note(&write("/m/a.yaml"), Instant::now());
    let (waited, writing) = due_after(&hints).await;
    assert!(waited >= QUIET && waited < QUIET * 2, "{waited:?}");
    assert_eq!(writing, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn one_file_does_not_wait_for_another_and_the_other_is_left_alone() {
    let hints = hints();
    hints.note(&write("/m/slow.yaml"), Instant::now());
    hints.note(&close("/m/a.yaml"), Instant::now());
    assert_eq!(due_after(&hints).await, (Duration::ZERO, vec!["/m/slow.yaml".to_owned()]));
    assert_eq!(due_after(&hints).await.1, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn renames_removals_and_new_permissions_are_looked_at() {
    for event in [
        event(EventKind::Modify(ModifyKind::Name(RenameMode::To)), "/m/a.yaml"),
        event(EventKind::Modify(ModifyKind::Name(RenameMode::To)), "/m/..data"),
        event(EventKind::Remove(RemoveKind::File), "/m/a.yaml"),
        event(EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)), "/m/a.yaml"),
    ] {
        let hints = hints();
        hints.note(&event, Instant::now());
        assert_eq!(due_after(&hints).await.0, Duration::ZERO, "{event:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn writing_to_files_that_are_no_manifests_is_nobodys_business() {
    let hints = hints();
    for path in ["/m/.a.swp", "/m/a.yaml~"] {
        for event in [create(path), write(path), close(path)] {
            hints.note(&event, Instant::now());
        }
    }
    let nothing = tokio::time::timeout(Duration::from_secs(60), hints.due()).await;
    assert!(nothing.is_err(), "{nothing:?}");
}

#[tokio::test(start_paused = true)]
async fn lost_events_mean_look_and_watch_again() {
    let hints = hints();
    hints.note(&Event::new(EventKind::Other).set_flag(Flag::Rescan), Instant::now());
    assert!(hints.due().await.watch_ended);
}

#[tokio::test(start_paused = true)]
async fn that_somebody_reads_is_no_news() {
    let hints = hints();
    hints.note(&event(EventKind::Access(AccessKind::Open(AccessMode::Any)), "/m/a.yaml"), Instant::now());
    hints.note(&event(EventKind::Access(AccessKind::Close(AccessMode::Read)), "/m/a.yaml"), Instant::now());
    assert_eq!(hints.take(Instant::now()), Due::default());
}

#[tokio::test(start_paused = true)]
async fn files_that_were_touched_are_named_once_they_are_complete() {
    let hints = hints();
    hints.note(&write("/m/a.yaml"), Instant::now());
    assert_eq!(hints.take(Instant::now()).touched, BTreeSet::new());
    hints.note(&close("/m/a.yaml"), Instant::now());
    assert_eq!(hints.due().await.touched, BTreeSet::from([PathBuf::from("/m/a.yaml")]));
    assert_eq!(hints.take(Instant::now()).touched, BTreeSet::new());
}
