//! Runs a command in the container: success if it exits with 0.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ExecAction};
use rubelet_model::ContainerId;

use super::{Answer, AskError};
use crate::environment::expand;
use crate::runtime::{CallFailure, Runtime, output};

/// How much longer a runtime gets to kill a timed-out command and report that.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn ask<R: Runtime>(
    runtime: &R,
    id: &ContainerId,
    container: &Container,
    action: &ExecAction,
    timeout: Duration,
) -> Result<Answer, AskError> {
    let command = command(container, action);
    let timed_out = || Ok(Answer::Bad(format!("command {:?} timed out", command.join(" "))));
    // A runtime that never answers must not hold up the commands of others.
    let ran = runtime.exec(id, &command, Some(timeout));
    let Ok(ran) = tokio::time::timeout(timeout + PATIENCE, ran).await else { return timed_out() };
    match ran {
        Ok(answer) if answer.exit_code == 0 => Ok(Answer::Good),
        Ok(answer) => Ok(Answer::Bad(output(&answer))),
        Err(error) if error.failure == CallFailure::Timeout => timed_out(),
        Err(error) => Err(AskError::Call(error)),
    }
}

/// Returns the command, with `$(NAME)` replaced by the container's own variables. As under a kubelet, variables with
/// values from elsewhere are empty here. References to unknown names stay.
fn command(container: &Container, action: &ExecAction) -> Vec<String> {
    let lookup = |name: &str| {
        let variable = container.env.iter().flatten().rev().find(|variable| variable.name == name)?;
        Some(variable.value.as_deref().unwrap_or_default())
    };
    // A word that would become longer than a program can be given stays as it is.
    let expanded = |word: &String| expand(word, lookup).unwrap_or_else(|| word.clone());
    action.command.iter().flatten().map(expanded).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::EnvVar;

    use super::*;
    use crate::testkit::FakeRuntime;

    fn asks(command: &[&str]) -> ExecAction {
        ExecAction { command: Some(command.iter().map(|word| (*word).to_owned()).collect()) }
    }

    async fn answer(runtime: &FakeRuntime) -> Result<Answer, AskError> {
        let (container, action) = (Container::default(), asks(&["test", "-f", "/ok"]));
        ask(runtime, &"c".into(), &container, &action, Duration::from_secs(2)).await
    }

    #[test]
    fn variables_are_expanded_and_other_names_left() {
        let variable = |name: &str, value: Option<&str>| EnvVar {
            name: name.to_owned(),
            value: value.map(str::to_owned),
            ..EnvVar::default()
        };
        let env = vec![variable("PORT", Some("80")), variable("FROM", None), variable("PORT", Some("81"))];
        let container = Container { env: Some(env), ..Container::default() };
        let words = command(&container, &asks(&["nc", "$(PORT)", "<$(FROM)>", "$(NONE)", "$$(PORT)"]));
        assert_eq!(words, ["nc", "81", "<>", "$(NONE)", "$(PORT)"]);
    }

    #[tokio::test(start_paused = true)]
    async fn exit_codes_timeouts_and_failures_are_three_things() {
        let runtime = FakeRuntime::default();
        assert_eq!(answer(&runtime).await.unwrap(), Answer::Good);
        runtime.exec_answers("test -f /ok", 3, "no such file");
        assert_eq!(answer(&runtime).await.unwrap(), Answer::Bad("no such file".to_owned()));
        runtime.exec_answers("test -f /ok", 1, &"x".repeat(20_000));
        let Answer::Bad(said) = answer(&runtime).await.unwrap() else { panic!("it failed") };
        assert_eq!(said.len(), 10 << 10);
        runtime.fail("exec", Some("no such container"));
        assert_eq!(answer(&runtime).await.unwrap_err().to_string(), "no such container");
        runtime.fail("exec", None);
        runtime.lose_answers("exec", true);
        let timed_out = Answer::Bad("command \"test -f /ok\" timed out".to_owned());
        assert_eq!(answer(&runtime).await.unwrap(), timed_out, "the runtime killed it");
        runtime.hang("exec");
        assert_eq!(answer(&runtime).await.unwrap(), timed_out, "the runtime never answers");
    }
}
