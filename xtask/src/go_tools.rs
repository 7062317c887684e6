//! Builds of test tools written in Go, into a cache in which a failed build never looks finished.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use rubelet_testbed::go_cache::{self, GoTool};

use crate::run::run;

pub(crate) fn build(go: &Path, tool: &GoTool) -> anyhow::Result<()> {
    let root = go_cache::root();
    create(&root)?;
    let _building = lock(&root.join("build.lock"))?;
    if tool.is_built() {
        return Ok(());
    }
    let bin_dir = tool.bin_dir();
    let scratch = root.join("unfinished");
    let built = scratch.join("bin");
    clear(&scratch)?;
    create(&built)?;
    // A module of our own rather than `go install`, which also requests the list of all versions, and a mirror that has
    // this version need not have that list.
    let mut go_mod = format!("module testbed\n\ngo 1.24\n\nrequire {} v{}\n", tool.module, tool.version);
    if tool.is_staged {
        go_mod.push_str(&published_parts(go, tool, &scratch)?);
    }
    fs::write(scratch.join("go.mod"), go_mod)
        .with_context(|| format!("cannot write in {}", scratch.display()))?;
    eprintln!("building {} {} with Go; the first time this takes some minutes", tool.name, tool.version);
    let mut command = Command::new(go);
    if tool.is_test {
        // One package at a time, by its full name, since a test program is not named after its package.
        command.args(["test", "-c", "-o"]).arg(built.join(tool.programs().next().unwrap_or(tool.name)));
    } else {
        command.args(["build", "-o"]).arg(&built);
    }
    command.args(["-mod=mod", "-trimpath", "-ldflags=-s -w", "-tags=no_btrfs,no_devmapper,no_zfs,seccomp"]);
    run(command
        .args(tool.packages)
        .current_dir(&scratch)
        // Without cgo where it is not needed, so that nothing depends on the machine's C library.
        .env("CGO_ENABLED", if tool.c_library.is_some() { "1" } else { "0" })
        .env("GOWORK", "off"))?;
    create(bin_dir.parent().context("the cache has no folder for this tool")?)?;
    clear(&bin_dir)?;
    fs::rename(&built, &bin_dir)
        .with_context(|| format!("cannot move {} to {}", built.display(), bin_dir.display()))?;
    clear(&scratch)
}

/// Returns lines for a `go.mod` that say where to find the parts of a module that its own `go.mod` refers to as
/// folders.
fn published_parts(go: &Path, tool: &GoTool, scratch: &Path) -> anyhow::Result<String> {
    let mut download = Command::new(go);
    download.args(["mod", "download", "-json", &format!("{}@v{}", tool.module, tool.version)]);
    let answer = download.current_dir(scratch).env("GOWORK", "off").output().context("Go does not run")?;
    anyhow::ensure!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stdout));
    let answer: serde_json::Value = serde_json::from_slice(&answer.stdout)?;
    let path = answer["GoMod"].as_str().context("Go does not tell where the go.mod is")?;
    let go_mod = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let (_, version) = tool.version.split_once('.').context("a version has a dot")?;
    Ok(parts(&go_mod).map(|part| format!("replace {part} => {part} v0.{version}\n")).collect())
}

/// Finds what a `go.mod` requires in a version that does not exist.
fn parts(go_mod: &str) -> impl Iterator<Item = &str> {
    go_mod.lines().filter_map(|line| {
        let line = line.split("//").next()?.trim();
        line.strip_prefix("require ").unwrap_or(line).strip_suffix(" v0.0.0")
    })
}

/// Makes two concurrent runs build one after the other. Dropping the returned file releases the lock.
fn lock(path: &Path) -> anyhow::Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

fn create(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

fn clear(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn a_part_is_what_is_required_in_no_version() {
        let go_mod = "module k8s.io/kubernetes\nrequire (\n\tk8s.io/api v0.0.0\n\tk8s.io/klog/v2 v2.130.1\n\tk8s.io/x v0.0.0 // indirect\n\tk8s.io/utils v0.0.0-20260319190234-28399d86e0b5\n)\nrequire k8s.io/y v0.0.0\n";
        assert_eq!(parts(go_mod).collect::<Vec<_>>(), ["k8s.io/api", "k8s.io/x", "k8s.io/y"]);
    }
}
