//! A private containerd.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::daemon::{self, Daemon, STOP_LIMIT};
use crate::requirement::Tools;
use crate::slot::Slot;
use crate::{BUSYBOX, Error, Flavor, PAUSE, config, cri_probe, go_cache, image, network, program, teardown};

/// Generous, because a loaded machine may run several daemons and a compiler at once.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// The containerd namespace that CRI uses.
const NAMESPACE: &str = "k8s.io";
const CRICTL_CONFIG: &str = "crictl.yaml";

/// A running containerd in a private folder, on a private socket, with a network and images of its own.
///
/// Dropping it ends it with all its containers and removes every trace. If the test is panicking, the end of the
/// daemon's log is printed. A runtime in a static is never dropped: `cargo xtask test`, and the next start of any
/// runtime, take it down.
#[derive(Debug)]
pub struct Containerd {
    // First, because fields are dropped in order, and the slot's lock must outlive the daemon.
    daemon: Option<Daemon>,
    flavor: Flavor,
    tools: Tools,
    /// The runc that it runs containers with, unless that is the machine's own.
    runc: Option<PathBuf>,
    slot: Slot,
}

impl Containerd {
    /// Starts one. When this returns, CRI is ready, pods can have addresses, and [`PAUSE`] and [`BUSYBOX`] are present.
    pub fn start(flavor: Flavor) -> Result<Self, Error> {
        Self::start_on(flavor, None)
    }

    /// Starts a containerd 2.x whose runc supports user namespaces for pods, if Go has built that runc.
    pub fn start_with_own_users() -> Result<Self, Error> {
        Self::start_on(Flavor::V2, Some(go_cache::RUNC.bin_dir().join("runc")))
    }

    fn start_on(flavor: Flavor, runc: Option<PathBuf>) -> Result<Self, Error> {
        let tools = Tools::find(flavor).map_err(|missing| Error::Missing { flavor, missing })?;
        let mut containerd = Self { daemon: None, flavor, tools, runc, slot: Slot::claim()? };
        containerd.write_config()?;
        containerd.start_again()?;
        containerd.import_images()?;
        Ok(containerd)
    }

    /// Its flavour.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Its private folder, which is removed on drop.
    pub fn dir(&self) -> &Path {
        self.slot.dir()
    }

    /// The path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.dir().join(config::SOCKET)
    }

    /// The socket in the form that `--runtime-endpoint` accepts: `unix:///…`.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The subnet of its pods, e.g. `10.213.7.0/24`.
    pub fn subnet(&self) -> String {
        network::subnet(&self.slot)
    }

    /// The name of the bridge of its pods, which exists once the first pod has an address.
    pub fn bridge(&self) -> String {
        network::bridge(&self.slot)
    }

    /// The daemon's process id, if it is running.
    pub fn pid(&self) -> Option<u32> {
        self.daemon.as_ref().map(Daemon::pid)
    }

    /// Stops the daemon as a service manager would. Containers keep running.
    pub fn stop(&mut self) -> Result<(), Error> {
        let mut daemon = self.daemon.take().ok_or(Error::NotRunning)?;
        daemon.stop().map(drop).ok_or_else(|| Error::NotInTime {
            condition: "the daemon ended after SIGTERM",
            limit: STOP_LIMIT,
            log: self.log_tail(),
        })
    }

    /// Kills the daemon without warning. Containers keep running.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.daemon.take().map(drop).ok_or(Error::NotRunning)
    }

    /// Starts a stopped or killed daemon on the same socket, with the same containers.
    pub fn start_again(&mut self) -> Result<(), Error> {
        if let Some(pid) = self.pid() {
            return Err(Error::AlreadyRunning { pid });
        }
        let args = ["--config".into(), self.dir().join(config::CONFIG).into()];
        let log = self.dir().join(config::LOG);
        self.daemon = Some(Daemon::spawn(&self.tools.containerd, &args, Some(&self.tools.bin_dir), &log)?);
        self.wait_for("CRI and its network are ready", cri_probe::is_ready)
    }

    /// [`stop`](Self::stop), then [`start_again`](Self::start_again).
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        self.start_again()
    }

    /// Makes the daemon hang: it keeps its connections but answers nothing until [`thaw`](Self::thaw).
    pub fn freeze(&self) -> Result<(), Error> {
        self.daemon.as_ref().ok_or(Error::NotRunning)?.signal(Signal::STOP)
    }

    /// Undoes [`freeze`](Self::freeze).
    pub fn thaw(&self) -> Result<(), Error> {
        self.daemon.as_ref().ok_or(Error::NotRunning)?.signal(Signal::CONT)
    }

    /// Everything the daemon has logged since its first start.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.dir().join(config::LOG)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// containerd's own client, configured for this daemon and the namespace of CRI.
    pub fn ctr(&self) -> Command {
        let mut command = Command::new(&self.tools.ctr);
        command.arg("--address").arg(self.socket()).args(["--namespace", NAMESPACE]);
        command
    }

    /// `crictl`, configured for this daemon, if Go could build it.
    pub fn crictl(&self) -> Option<Command> {
        let mut command = Command::new(go_cache::crictl()?);
        command.arg("--config").arg(self.dir().join(CRICTL_CONFIG));
        Some(command)
    }

    /// Does what dropping it does, but returns an error if something is left behind.
    pub fn take_down(mut self) -> Result<(), Error> {
        self.end()
    }

    fn write_config(&self) -> Result<(), Error> {
        let dir = self.dir();
        let cni = dir.join(config::CNI_CONF_DIR);
        fs::create_dir(&cni).map_err(Error::io("create", &cni))?;
        let endpoint = self.endpoint();
        let crictl = format!("runtime-endpoint: {endpoint}\nimage-endpoint: {endpoint}\ntimeout: 60\n");
        for (path, text) in [
            (cni.join("10-testbed.conflist"), network::conflist(&self.slot)),
            (dir.join(config::CONFIG), config::toml(self.flavor, self.runc.as_deref(), dir)),
            (dir.join(CRICTL_CONFIG), crictl),
        ] {
            fs::write(&path, text).map_err(Error::io("write", &path))?;
        }
        Ok(())
    }

    fn import_images(&mut self) -> Result<(), Error> {
        let archive = self.dir().join("images.tar");
        fs::write(&archive, image::archive()?).map_err(Error::io("write", &archive))?;
        program::output(self.ctr().args(["images", "import"]).arg(&archive))?;
        fs::remove_file(&archive).map_err(Error::io("remove", &archive))?;
        // CRI learns of images from containerd's events, so it knows them slightly later.
        self.wait_for("CRI knows the imported images", |socket| {
            [PAUSE, BUSYBOX].iter().all(|image| cri_probe::has_image(socket, image))
        })
    }

    fn wait_for(&mut self, condition: &'static str, holds: impl Fn(&Path) -> bool) -> Result<(), Error> {
        let socket = self.socket();
        let daemon = self.daemon.as_mut().ok_or(Error::NotRunning)?;
        let outcome = crate::wait::until(READY_LIMIT, || match daemon.ended() {
            Some(status) => Some(Err(status)),
            None => holds(&socket).then_some(Ok(())),
        });
        match outcome {
            Some(Ok(())) => Ok(()),
            Some(Err(status)) => {
                self.daemon = None;
                Err(Error::EndedEarly { status, log: self.log_tail() })
            }
            None => Err(Error::NotInTime { condition, limit: READY_LIMIT, log: self.log_tail() }),
        }
    }

    fn log_tail(&self) -> String {
        daemon::log_tail(&self.dir().join(config::LOG))
    }

    fn end(&mut self) -> Result<(), Error> {
        self.daemon = None;
        if self.dir().exists() { teardown::take_down(&self.slot) } else { Ok(()) }
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the end of the log of {}:\n{}", self.flavor, self.log_tail());
        }
        if let Err(error) = self.end() {
            eprintln!("warning: {error}");
        }
    }
}
