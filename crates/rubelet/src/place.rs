//! The data folder of an agent and its embedded runtime: all other paths follow from it.

mod lock;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::Instant;

pub(crate) use lock::{Holder, Lock};

/// How often to check whether a folder is free.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// How long an agent may hold the folder without answering before waiting for it fails.
const PATIENCE: Duration = Duration::from_secs(15);
/// An agent that still answers this long after it was found is not about to end.
const ENDING: Duration = Duration::from_secs(2);
/// If a command holds the folder for this long, the wait for it is reported.
const QUIET: Duration = Duration::from_secs(1);

/// The folder of an agent.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    /// Folder for the data and sockets of the agent and the embedded runtime; also `$RUBELET_DATA_DIR`
    #[arg(long, value_name = "DIR", default_value_os_t = usual_folder())]
    data_dir: PathBuf,
}

/// The default folder.
pub(crate) const USUAL_FOLDER: &str = "/var/lib/rubelet";

fn usual_folder() -> PathBuf {
    folder_of_environment().unwrap_or_else(|| USUAL_FOLDER.into())
}

/// The name of the embedded runtime's socket in the folder.
pub(crate) const EMBEDDED_SOCKET: &str = "runtime.sock";

/// Returns the folder that the environment names. An empty value counts as unset.
pub(crate) fn folder_of_environment() -> Option<PathBuf> {
    std::env::var_os("RUBELET_DATA_DIR").filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// Why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error("cannot use {}: {source}; {}choose another folder with --data-dir", path.display(), help(source))]
    Unusable { path: PathBuf, source: io::Error },
    #[error("another agent is already running with {}; stop it, or choose another folder with --data-dir", path.display())]
    Taken { path: PathBuf },
    #[error(
        "{} is in use by an agent that does not answer ({}); try again later, or stop it",
        path.display(),
        pid.map_or_else(|| format!("`fuser -v {}` shows its process", lock.display()), |pid| format!("process {pid}"))
    )]
    Busy { path: PathBuf, lock: PathBuf, pid: Option<u32> },
}

/// Returns what may help besides another folder.
fn help(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied { "run as root, or " } else { "" }
}

impl Place {
    /// Returns the absolute path of the folder.
    pub(crate) fn path(&self) -> io::Result<PathBuf> {
        std::path::absolute(&self.data_dir)
    }

    /// Returns the folder as it was given.
    pub(crate) fn given(&self) -> &Path {
        &self.data_dir
    }

    /// Returns the option that makes other commands use this folder.
    pub(crate) fn option(&self) -> String {
        if self.data_dir == usual_folder() {
            String::new()
        } else {
            format!(" --data-dir {}", self.data_dir.display())
        }
    }

    /// Returns the socket of the embedded runtime.
    pub(crate) fn runtime_socket(&self) -> io::Result<PathBuf> {
        Ok(self.path()?.join(EMBEDDED_SOCKET))
    }

    /// Returns the socket on which the agent listens for commands.
    pub(crate) fn agent_socket(&self) -> io::Result<PathBuf> {
        Ok(self.path()?.join("agent.sock"))
    }

    /// Creates the folder and takes it for an agent, for as long as the lock lives. Waits for commands that hold it,
    /// and for an agent that is ending; a long wait is reported through `tell`.
    pub(crate) async fn take(&self, tell: impl Fn(&str)) -> Result<Lock, PlaceError> {
        let socket = self.agent_socket().map_err(|source| self.unusable(source))?;
        let mut turn = Turn::new(self);
        let mut answers_since = None;
        loop {
            if let Some(lock) = self.try_take(Holder::Agent)? {
                return Ok(lock);
            }
            if UnixStream::connect(&socket).await.is_ok() {
                let since: Instant = *answers_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= ENDING {
                    return Err(PlaceError::Taken { path: self.data_dir.clone() });
                }
            } else {
                answers_since = None;
            }
            turn.wait(&tell).await?;
        }
    }

    /// Takes the folder if it is free.
    pub(crate) fn try_take(&self, who: Holder) -> Result<Option<Lock>, PlaceError> {
        let unusable = |source| self.unusable(source);
        let path = self.path().map_err(unusable)?;
        DirBuilder::new().recursive(true).mode(0o750).create(&path).map_err(unusable)?;
        Lock::try_take(&path, who).map_err(unusable)
    }

    /// Whether something holds the folder. Only checks: nothing is created, and the folder is not blocked beyond the
    /// check.
    pub(crate) fn is_taken(&self) -> bool {
        self.path().is_ok_and(|path| Lock::is_taken(&path))
    }

    /// Whether a command, and no agent, holds the folder.
    pub(crate) fn has_command(&self) -> bool {
        self.is_taken() && self.is_of_command()
    }

    /// Whether an agent holds the folder, or something that cannot be identified.
    pub(crate) fn has_agent(&self) -> bool {
        self.is_taken() && !self.is_of_command()
    }

    fn is_of_command(&self) -> bool {
        matches!(self.holder(), Some((Holder::Command, _)))
    }

    /// Returns the last holder of the folder, which is also the current one if the folder is taken.
    fn holder(&self) -> Option<(Holder, u32)> {
        Lock::holder(&self.path().ok()?)
    }

    fn unusable(&self, source: io::Error) -> PlaceError {
        PlaceError::Unusable { path: self.data_dir.clone(), source }
    }
}

/// Waits for a folder that is taken: for a command as long as it takes, since it does what it was asked to, but for an
/// agent only for a limited time.
pub(crate) struct Turn<'a> {
    place: &'a Place,
    begun: Instant,
    /// Since when no command has held it.
    since: Instant,
    was_told: bool,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(place: &'a Place) -> Self {
        let now = Instant::now();
        Self { place, begun: now, since: now, was_told: false }
    }

    /// Waits a little. Fails if the wait has become too long.
    pub(crate) async fn wait(&mut self, tell: impl Fn(&str)) -> Result<(), PlaceError> {
        let path = self.place.given();
        match self.place.holder() {
            Some((Holder::Command, pid)) => {
                self.since = Instant::now();
                if !self.was_told && self.begun.elapsed() >= QUIET {
                    self.was_told = true;
                    tell(&format!(
                        "waiting for process {pid}, another rubelet command that is using {}",
                        path.display()
                    ));
                }
            }
            other if self.since.elapsed() >= PATIENCE => {
                let (path, lock) = (path.to_owned(), Lock::path(path));
                return Err(PlaceError::Busy { path, lock, pid: other.map(|(_, pid)| pid) });
            }
            _ => {}
        }
        tokio::time::sleep(LOOK).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn place(folder: &tempfile::TempDir) -> Place {
        Place { data_dir: folder.path().join("data") }
    }

    fn taken(place: &Place, who: Holder) -> Lock {
        place.try_take(who).expect("usable").expect("nobody has it")
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_is_waited_for_but_not_for_ever() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(&folder);
        let lock = taken(&place, Holder::Agent);
        let begun = Instant::now();
        let waited = place.take(|_| ()).await.expect_err("somebody has it");
        let own = std::process::id();
        assert!(matches!(waited, PlaceError::Busy { pid: Some(pid), .. } if pid == own), "{waited}");
        assert!(begun.elapsed() >= PATIENCE);

        let begun = Instant::now();
        let soon_gone = async {
            tokio::time::sleep(ENDING / 2).await;
            drop(lock);
        };
        // The agent is ending, but still accepts connections.
        let _agent = std::os::unix::net::UnixListener::bind(place.given().join("agent.sock")).expect("bound");
        let (second, ()) = tokio::join!(place.take(|_| ()), soon_gone);
        assert!(second.is_ok() && begun.elapsed() < ENDING);

        let refused = place.take(|_| ()).await.expect_err("an agent has it");
        assert!(matches!(refused, PlaceError::Taken { .. }), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_is_waited_for_however_long_it_takes_and_that_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(&folder);
        let lock = taken(&place, Holder::Command);
        assert!(place.has_command());
        let said = RefCell::new(Vec::new());
        let done_at_last = async {
            tokio::time::sleep(PATIENCE * 10).await;
            drop(lock);
        };
        let (taken, ()) =
            tokio::join!(place.take(|word| said.borrow_mut().push(word.to_owned())), done_at_last);
        assert!(taken.is_ok() && !place.has_command());
        let [word] = &said.borrow()[..] else { panic!("{said:?}") };
        assert!(word.contains(&format!("process {}, another rubelet command", std::process::id())), "{word}");
    }

    #[test]
    fn nobody_else_can_have_the_folder_or_see_into_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(&folder);
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let lock = place.given().join("agent.lock");
        drop(taken(&place, Holder::Agent));
        assert_eq!((mode(place.given()), mode(&lock)), (0o750, 0o600));
        // Earlier versions created it with this mode.
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).expect("ours");
        drop(taken(&place, Holder::Agent));
        assert_eq!(mode(&lock), 0o600);
    }

    #[test]
    fn who_may_not_use_the_folder_is_told_who_may() {
        for (kind, wanted) in [
            (
                io::ErrorKind::PermissionDenied,
                "permission denied; run as root, or choose another folder with --data-dir",
            ),
            (io::ErrorKind::StorageFull, "no storage space; choose another folder with --data-dir"),
        ] {
            let error = PlaceError::Unusable { path: "/x".into(), source: kind.into() };
            assert_eq!(error.to_string(), format!("cannot use /x: {wanted}"));
        }
    }

    #[test]
    fn to_look_whether_somebody_has_a_folder_leaves_it_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(&folder);
        assert!(!place.is_taken() && !place.given().exists());
        let lock = taken(&place, Holder::Agent);
        assert!(place.is_taken());
        drop(lock);
        assert!(!place.is_taken());
        taken(&place, Holder::Agent);
    }
}
