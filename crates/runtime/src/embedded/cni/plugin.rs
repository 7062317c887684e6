//! A single run of a single plugin.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use crate::embedded::error::{Error, Result};

/// A plugin that takes longer than this is considered hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// The environment of a plugin.
pub(super) struct Call<'a> {
    pub(super) verb: &'a str,
    pub(super) container: &'a str,
    pub(super) namespace: &'a Path,
    pub(super) interface: &'a str,
    pub(super) args: &'a str,
    pub(super) path: &'a [PathBuf],
}

pub(super) async fn run(kind: &str, call: &Call<'_>, input: &Value) -> Result<Value> {
    let program =
        call.path.iter().map(|dir| dir.join(kind)).find(|path| path.is_file()).ok_or_else(|| {
            let places: Vec<String> = call.path.iter().map(|dir| dir.display().to_string()).collect();
            Error::Network(format!("the CNI plugin {kind:?} is not in {}", places.join(":")))
        })?;
    let failed =
        |error: std::io::Error| Error::io(format!("run the CNI plugin {}", program.display()), error);
    let path = std::env::join_paths(call.path).map_err(|error| Error::Network(error.to_string()))?;
    let mut command = tokio::process::Command::new(&program);
    command
        .env("CNI_COMMAND", call.verb)
        .env("CNI_CONTAINERID", call.container)
        .env("CNI_NETNS", call.namespace)
        .env("CNI_IFNAME", call.interface)
        .env("CNI_ARGS", call.args)
        .env("CNI_PATH", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    let text = serde_json::to_vec(input).map_err(|error| Error::Network(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A plugin that does not read its input reports the reason when it ends.
        let _ = stdin.write_all(&text).await;
    }
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output())
        .await
        .map_err(|_| Error::Network(format!("{kind} {}: no answer in {} s", call.verb, PATIENCE.as_secs())))?
        .map_err(failed)?;
    if !output.status.success() {
        return Err(Error::Network(format!(
            "{kind} {}: {}",
            call.verb,
            complaint(&output.stdout, &output.stderr)
        )));
    }
    if output.stdout.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::Network(format!("{kind} {}: the answer is not JSON: {error}", call.verb)))
}

/// Extracts the error message: plugins write errors as JSON to standard output, and unexpected ones to standard error.
fn complaint(stdout: &[u8], stderr: &[u8]) -> String {
    let value: Value = serde_json::from_slice(stdout).unwrap_or_default();
    let mut parts: Vec<String> =
        ["msg", "details"].iter().filter_map(|key| value[key].as_str()).map(str::to_owned).collect();
    let text = String::from_utf8_lossy(stderr);
    if parts.is_empty() {
        parts.push(text.trim().to_owned());
    }
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() { "failed without an error message".to_owned() } else { parts.join(": ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_found_wherever_it_is() {
        assert_eq!(complaint(br#"{"code":7,"msg":"no","details":"net"}"#, b"noise"), "no: net");
        assert_eq!(complaint(b"", b" panic: x \n"), "panic: x");
        assert_eq!(complaint(b"", b""), "failed without an error message");
    }
}
