//! `rubelet image`: manages the images of the embedded runtime.

mod progress;
mod table;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rubelet_runtime::image::{
    Auth, AuthError, Image, ImageName, ImageStore, ImportError, ImportOptions, ImportReason, IngestError,
    PullError, PullOptions, PullReason, StoreError,
};

use crate::clean::clean;
use crate::count::count;
use crate::exit::Failure;
use crate::home::{DataDir, Home};
use crate::log::remark;

/// The arguments of `rubelet image`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes:\n  \
0  success\n  \
1  the image store or the disk failed\n  \
2  wrong usage\n  \
4  an image does not exist, cannot be obtained or is refused")]
pub(super) struct Args {
    #[command(flatten)]
    data: DataDir,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Import the images of an OCI or docker archive, compressed or not
    Import {
        /// The archive; `-` reads it from standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Name for the image, instead of those in the archive
        #[arg(long, short, value_name = "NAME")]
        tag: Option<ImageName>,
    },
    /// List the images
    #[command(visible_alias = "list")]
    Ls {
        /// Output format
        #[arg(long, short, value_enum, default_value_t = Format::Table)]
        output: Format,
    },
    /// Remove names; an image goes with its last name, or when removed by id
    #[command(visible_alias = "remove")]
    Rm {
        /// Names, ids or id prefixes
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        /// Remove images even if containers use them: those keep running, but cannot be recreated
        #[arg(long, short)]
        force: bool,
    },
    /// Pull an image from a registry
    Pull {
        /// The image: `busybox`, `registry.example/team/app:1`, `…@sha256:…`
        #[arg(value_name = "NAME")]
        name: ImageName,
        /// Credentials file in the format of docker's config.json [default: that of docker or podman]
        #[arg(long, value_name = "FILE", env = "REGISTRY_AUTH_FILE")]
        authfile: Option<PathBuf>,
        /// Allow HTTP without TLS for this registry (always allowed for a registry on this machine)
        #[arg(long)]
        plain_http: bool,
    },
}

/// The format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Aligned columns
    Table,
    /// One JSON document
    Json,
}

/// Why a command failed. The messages are those of the underlying errors.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{source}{}", hint(source))]
    Store {
        #[from]
        source: StoreError,
    },
    #[error(transparent)]
    Import(#[from] Box<ImportError>),
    #[error(transparent)]
    Pull(#[from] Box<PullError>),
    #[error("{}: {source}", path.display())]
    AuthFile { path: PathBuf, source: AuthError },
    #[error("cannot read {}: {source}", path.display())]
    ReadAuthFile { path: PathBuf, source: io::Error },
    #[error("{name} is used by {}; remove those first, or use --force", count(*containers as u64, "container"))]
    InUse { name: String, containers: usize },
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Suggests what to do about a folder that this user must not access.
fn hint(error: &StoreError) -> &'static str {
    match error {
        StoreError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            "; run as root, or give a folder of your own with --data-dir"
        }
        _ => "",
    }
}

impl Error {
    fn failure(&self) -> Failure {
        let store = |error: &StoreError| match error {
            StoreError::Io { .. } | StoreError::Damaged { .. } | StoreError::Format { .. } => Failure::System,
            _ => Failure::Image,
        };
        let ingest = |error: &IngestError| match error {
            IngestError::Store(error) => store(error),
            _ => Failure::Image,
        };
        match self {
            Self::Store { source } => store(source),
            Self::Import(error) => match &error.reason {
                ImportReason::Ingest(error) => ingest(error),
                _ => Failure::Image,
            },
            Self::Pull(error) => match &error.reason {
                PullReason::Ingest(error) => ingest(error),
                PullReason::NoSpace { .. } | PullReason::Task(_) => Failure::System,
                _ => Failure::Image,
            },
            Self::AuthFile { .. } | Self::InUse { .. } => Failure::Image,
            Self::ReadAuthFile { .. } | Self::System(_) => Failure::System,
        }
    }
}

pub(super) fn run(args: &Args) -> ExitCode {
    let result = ImageStore::open(args.data.dir(&Home::of_this_user()).join("images"))
        .map_err(Error::from)
        .and_then(|store| {
            match &args.command {
                Command::Import { file, tag } => import(&store, file, tag.as_ref()),
                Command::Ls { output } => list(&store, *output),
                Command::Rm { names, force } => return Ok(remove(&store, names, *force)),
                Command::Pull { name, authfile, plain_http } => {
                    pull(&store, name, authfile.as_deref(), *plain_http)
                }
            }
            .map(|()| ExitCode::SUCCESS)
        });
    result.unwrap_or_else(|error| super::fail(error.failure(), &error))
}

fn import(store: &ImageStore, file: &Path, tag: Option<&ImageName>) -> Result<(), Error> {
    let file = if file == Path::new("-") { Path::new("/dev/stdin") } else { file };
    let options = ImportOptions { tag: tag.cloned(), ..ImportOptions::default() };
    let display = progress::Display::new("importing");
    let images = store.import(file, &options, &display.progress());
    display.finish();
    for image in images.map_err(Box::new)? {
        say(&format!("imported {}", describe(&image)))?;
        if image.repo_tags.is_empty() {
            remark("the image has no name; import it again with --tag NAME to give it one");
        }
    }
    Ok(())
}

fn list(store: &ImageStore, format: Format) -> Result<(), Error> {
    let (images, leases) = (store.list()?, store.leases()?);
    match format {
        Format::Table => say(table::table(&images, &leases).trim_end()),
        Format::Json => say(&table::json(&images, &leases)),
    }
}

/// Removes as many as possible, and fails if anything could not be removed.
fn remove(store: &ImageStore, names: &[String], force: bool) -> ExitCode {
    let mut end = ExitCode::SUCCESS;
    for name in names {
        if let Err(error) = remove_one(store, name, force) {
            end = super::fail(error.failure(), &error);
        }
    }
    end
}

fn remove_one(store: &ImageStore, name: &str, force: bool) -> Result<(), Error> {
    let image = store.resolve(name)?;
    // A built-in image can never be removed, whether or not it is in use.
    if !force && !image.is_built_in() {
        let containers = store.leases()?.iter().filter(|lease| lease.image == image.id).count();
        if containers > 0 {
            return Err(Error::InUse { name: name.to_owned(), containers });
        }
    }
    let removed = store.untag(name)?;
    if removed.image_gone {
        say(&format!("removed {}", describe(&image)))
    } else {
        say(&format!("untagged {name} of {}", image.short_id()))
    }
}

fn pull(
    store: &ImageStore,
    name: &ImageName,
    authfile: Option<&Path>,
    plain_http: bool,
) -> Result<(), Error> {
    if store.resolve(&name.to_string()).is_ok_and(|image| image.is_built_in()) {
        return say("host is built in; there is nothing to pull");
    }
    let mut options = PullOptions { auth: credentials(name, authfile)?, ..PullOptions::default() };
    if plain_http {
        options.http_registries.push(name.registry().to_owned());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let display = progress::Display::new("pulling");
    let image = runtime.block_on(store.pull(name, &options, &display.progress()));
    display.finish();
    let image = image.map_err(Box::new)?;
    say(&format!("pulled {name} ({}, {})", image.short_id(), table::size(image.size)))
}

/// Returns the credentials for an image: from the given file, else from the files that docker and podman leave behind.
/// A broken file that was not asked for must not prevent the pull of a public image.
fn credentials(name: &ImageName, authfile: Option<&Path>) -> Result<Auth, Error> {
    if let Some(path) = authfile {
        let json =
            std::fs::read(path).map_err(|source| Error::ReadAuthFile { path: path.to_owned(), source })?;
        return Auth::from_docker_config(&json, name)
            .map_err(|source| Error::AuthFile { path: path.to_owned(), source });
    }
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let places = [
        variable("XDG_RUNTIME_DIR").map(|dir| dir.join("containers/auth.json")),
        variable("DOCKER_CONFIG").map(|dir| dir.join("config.json")),
        variable("HOME").map(|dir| dir.join(".docker/config.json")),
    ];
    for path in places.into_iter().flatten() {
        let Ok(json) = std::fs::read(&path) else { continue };
        match Auth::from_docker_config(&json, name) {
            Ok(Auth::Anonymous) => {}
            Ok(auth) => return Ok(auth),
            Err(error) => remark(format_args!("not using {}: {error}", path.display())),
        }
    }
    Ok(Auth::Anonymous)
}

fn describe(image: &Image) -> String {
    let names =
        if image.repo_tags.is_empty() { image.display_name().to_owned() } else { image.repo_tags.join(", ") };
    format!("{} ({}, {})", clean(&names), image.short_id(), table::size(image.size))
}

/// Prints to standard output. A reader that is gone is not a failure.
fn say(text: &str) -> Result<(), Error> {
    match writeln!(anstream::stdout(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
