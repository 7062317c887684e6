//! Where things are kept: system folders for root, the user's own for others.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::place::{USUAL_FOLDER, folder_of_environment};

/// Whose folders to use.
#[derive(Debug)]
pub(crate) struct Home {
    is_root: bool,
    home: Option<PathBuf>,
    data_home: Option<PathBuf>,
    runtime_dir: Option<PathBuf>,
}

/// `--data-dir`, the same for every command that needs it.
#[derive(Debug, clap::Args)]
pub(crate) struct DataDir {
    /// Where the embedded runtime keeps sandboxes, containers and images
    ///
    /// Default: `$RUBELET_DATA_DIR`, else /var/lib/rubelet; for users other than root, rubelet in `$XDG_DATA_HOME` or `~/.local/share`.
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
}

impl DataDir {
    pub(crate) fn dir(&self, home: &Home) -> PathBuf {
        self.data_dir.clone().or_else(folder_of_environment).unwrap_or_else(|| home.data_dir())
    }
}

impl Home {
    pub(crate) fn of_this_user() -> Self {
        Self::new(rubelet_runtime::embedded::is_root(), |name| std::env::var_os(name))
    }

    fn new(is_root: bool, env: impl Fn(&str) -> Option<OsString>) -> Self {
        // The XDG specification, which defines these variables, says that relative paths are to be ignored.
        let path = |name| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
        Self {
            is_root,
            home: path("HOME"),
            data_home: path("XDG_DATA_HOME"),
            runtime_dir: path("XDG_RUNTIME_DIR"),
        }
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        let own = || self.data_home.clone().or_else(|| Some(self.home.as_ref()?.join(".local/share")));
        match own().filter(|_| !self.is_root) {
            Some(folder) => folder.join("rubelet"),
            None => USUAL_FOLDER.into(),
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        let folder = self.runtime_dir.clone().filter(|_| !self.is_root);
        folder.unwrap_or_else(|| PathBuf::from("/run")).join("rubelet/runtime.sock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_the_systems_places_and_others_their_own() {
        let full = |name: &str| match name {
            "HOME" => Some("/home/ann".into()),
            "XDG_RUNTIME_DIR" => Some("/run/user/1000".into()),
            _ => None,
        };
        let xdg = |name: &str| (name == "XDG_DATA_HOME").then(|| "/data".into());
        let relative = |name: &str| (name == "XDG_DATA_HOME").then(|| "data".into());
        let table = [
            (Home::new(true, full), "/var/lib/rubelet", "/run/rubelet/runtime.sock"),
            (Home::new(false, full), "/home/ann/.local/share/rubelet", "/run/user/1000/rubelet/runtime.sock"),
            (Home::new(false, xdg), "/data/rubelet", "/run/rubelet/runtime.sock"),
            (Home::new(false, relative), "/var/lib/rubelet", "/run/rubelet/runtime.sock"),
        ];
        for (home, data, socket) in table {
            assert_eq!((home.data_dir(), home.socket()), (data.into(), socket.into()), "{home:?}");
        }
    }
}
