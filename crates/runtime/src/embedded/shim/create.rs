//! The helper that builds a container and starts it, then exits and frees all the memory that this took.
//!
//! The container is created as a sibling of the helper, so it is the shim's child from its first moment.

use std::io::Write as _;
use std::path::Path;

use libcontainer::container::builder::ContainerBuilder;
use libcontainer::error::LibcontainerError;
use libcontainer::syscall::syscall::SyscallType;
use serde_json::Value;

use super::diary::Diary;
use super::mount_ns::{self, ROOTFS};
use super::payload::Launch;
use super::places::Places;
use super::protocol::Progress;
use super::settings::Settings;
use super::{volumes, working_dir};
use crate::embedded::cgroup::Cgroups;
use crate::embedded::container::SPEC;
use crate::embedded::device_filter::DeviceRules;
use crate::embedded::error::{Error, Result};
use crate::embedded::{image_volumes, process, store};

/// The subfolder of the container's folder with the container library's own state.
pub(crate) const STATE: &str = "state";

/// Entry point: `shim-create <fd>`, in the container's folder.
pub(super) fn main(fd: Option<&str>) -> Result<()> {
    let number =
        fd.and_then(|text| text.parse().ok()).ok_or_else(|| Error::invalid("fd", "expected a number"))?;
    let report = process::adopt_fd(number)?;
    let mut report = std::fs::File::from(report);
    let mut tell = |progress: &Progress| {
        let _ = report.write_all(progress.line().as_bytes());
    };
    match create_and_start(&mut tell) {
        Ok(()) => tell(&Progress::Started),
        Err(error) => tell(&Progress::Failed(error.to_string())),
    }
    Ok(())
}

fn create_and_start(tell: &mut dyn FnMut(&Progress)) -> Result<()> {
    let folder = std::env::current_dir().map_err(|error| Error::io("find the container's folder", error))?;
    let settings = Settings::read()?;
    forget_groups();
    mount_ns::enter(&settings)?;
    image_volumes::fill(&folder, &settings.image_volumes, Path::new(ROOTFS))?;
    let lost = || Error::Internal("the container's spec is missing".to_owned());
    let spec: Value = store::read_json(Path::new(SPEC))?.ok_or_else(lost)?;
    if let Some(user) = spec["process"]["user"]["uid"].as_u64().and_then(|uid| u32::try_from(uid).ok()) {
        process::give_streams_to(user)?;
    }
    let places = Places::of(&spec, Path::new(ROOTFS))?;
    working_dir::make(&spec, &places, &settings.rootfs)?;
    let devices = DeviceRules::of(&spec)?;
    let staged = volumes::stage(spec, &folder)?;

    let diary = Diary::begin()?;
    let library = library(&diary);
    let (verdict, failure) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| Error::io("make a pipe", errno))?;
    let launch = Launch::new(settings.payload, Some(failure))?;
    let mut container = ContainerBuilder::new(settings.id.clone(), SyscallType::Linux)
        .with_executor(launch)
        .with_root_path(folder.join(STATE))
        .map_err(&library)?
        .as_init(&staged)
        .with_systemd(false)
        .with_detach(true)
        .as_sibling(true)
        .build()
        .map_err(&library)?;
    let pid = container.pid().ok_or_else(|| Error::Internal("the container has no process".to_owned()))?;
    tell(&Progress::Created(pid.as_raw()));
    // No code of the container has run yet.
    devices.enforce(&Cgroups::detect(), &settings.cgroup)?;
    container.start().map_err(&library)?;

    // The pipe closes when the program replaces this code, or else carries the reason why it did not.
    let mut message = String::new();
    let _ = std::io::Read::read_to_string(&mut std::fs::File::from(verdict), &mut message);
    if message.is_empty() { Ok(()) } else { Err(Error::State(message)) }
}

/// Drops our supplementary groups: the library leaves them to a container that asks for none. Where the kernel does not
/// allow this (a user namespace of one user), they are that user's and stay.
fn forget_groups() {
    let _ = rustix::thread::set_thread_groups(&[]);
}

/// Formats an error of the container library. It nests errors, and does not return some of them at all; people need the
/// innermost ones as well.
fn library(diary: &Diary) -> impl Fn(LibcontainerError) -> Error {
    move |error| {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            let inner_text = inner.to_string();
            if !text.ends_with(&inner_text) {
                text = format!("{text}: {inner_text}");
            }
            source = inner.source();
        }
        // Messages that cross a fork end with the NUL of a C string.
        let text = text.trim_end_matches('\0');
        match diary.read() {
            more if more.is_empty() => Error::State(text.to_owned()),
            more => Error::State(format!("{text} ({more})")),
        }
    }
}
