//! The first process of a container, and the processes that join it later.

use rubelet_cri::v1;
use serde_json::{Value, json};

use super::{Input, Namespace, capabilities, resources};
use crate::embedded::error::{Error, Result};

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the OCI process of a container.
pub(super) fn init(input: &Input<'_>) -> Result<Value> {
    let config = input.config;
    let args = args(&config.command, &config.args, &input.image.entrypoint, &input.image.cmd);
    if args.is_empty() {
        return Err(Error::invalid("command", "neither the request nor the image has a command"));
    }
    if let Some(bad) = args.iter().find(|arg| arg.contains('\0')) {
        return Err(Error::invalid("command", format!("{bad:?} contains a NUL byte")));
    }
    let cwd = [&config.working_dir, &input.image.working_dir].into_iter().find(|dir| !dir.is_empty());
    let cwd = cwd.map_or("/", String::as_str);
    if !cwd.starts_with('/') {
        return Err(Error::invalid("working_dir", format!("{cwd:?} is not an absolute path")));
    }
    let context = input.security();
    let score =
        config.linux.as_ref().and_then(|linux| linux.resources.as_ref()).map_or(0, |r| r.oom_score_adj);
    let mut process = json!({
        "terminal": false,
        "user": {
            "uid": input.user.uid,
            "gid": input.user.gid,
            "additionalGids": input.user.groups,
        },
        "args": args,
        "env": env(input)?,
        "cwd": cwd,
        "capabilities": capabilities::sets(input)?,
        "noNewPrivileges": context.is_some_and(|context| context.no_new_privs),
        "oomScoreAdj": resources::oom_score(score, input.facts),
    });
    if let Some(profile) = super::security::apparmor_profile(input) {
        process["apparmorProfile"] = json!(profile);
    }
    Ok(process)
}

/// Returns the argument list. A request's command replaces both the image's entrypoint and its arguments; a request's
/// arguments replace only the arguments.
fn args(command: &[String], args: &[String], entrypoint: &[String], cmd: &[String]) -> Vec<String> {
    let (first, rest) = match (command.is_empty(), args.is_empty()) {
        (true, true) => (entrypoint, cmd),
        (true, false) => (entrypoint, args),
        (false, _) => (command, args),
    };
    first.iter().chain(rest).cloned().collect()
}

fn env(input: &Input<'_>) -> Result<Vec<String>> {
    let mut env: Vec<String> = Vec::new();
    let mut set = |name: &str, value: &str| {
        let prefix = format!("{name}=");
        env.retain(|entry| !entry.starts_with(&prefix));
        env.push(format!("{prefix}{value}"));
    };
    if let Some((name, value)) = PATH.split_once('=') {
        set(name, value);
    }
    let is_named = input.namespaces.uts != Namespace::Host && !input.sandbox.hostname.is_empty();
    set("HOSTNAME", if is_named { &input.sandbox.hostname } else { &input.facts.host_name });
    for entry in &input.image.env {
        let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
        set(name, value);
    }
    for v1::KeyValue { key, value } in &input.config.envs {
        let field = format!("envs[{key:?}]");
        // The value is bytes on the wire; only valid UTF-8 can be written to a spec.
        let value =
            std::str::from_utf8(value).map_err(|_| Error::unsupported(&field, "the value is not UTF-8"))?;
        if key.is_empty() || key.contains('=') || key.contains('\0') || value.contains('\0') {
            return Err(Error::invalid(field, "is not a valid environment variable"));
        }
        set(key, value);
    }
    Ok(env)
}

/// Returns the signal that asks a container to stop: the request's, else the image's, else SIGTERM.
pub(crate) fn stop_signal(requested: v1::Signal, image: Option<&str>) -> Result<i32> {
    if requested != v1::Signal::RuntimeDefault {
        return signal_number(requested.as_str_name()).ok_or_else(|| {
            Error::unsupported("stop_signal", format!("{} is not supported", requested.as_str_name()))
        });
    }
    match image {
        None | Some("") => Ok(15),
        Some(text) => signal_number(text)
            .ok_or_else(|| Error::invalid("image.config.stop_signal", format!("{text:?} is not a signal"))),
    }
}

/// Returns the protocol's name for a signal.
pub(crate) fn signal_name(number: i32) -> v1::Signal {
    let all = (1..).map_while(|value| v1::Signal::try_from(value).ok());
    let mut same = all.filter(|signal| signal_number(signal.as_str_name()) == Some(number));
    same.next().unwrap_or(v1::Signal::RuntimeDefault)
}

const SIGNALS: [(&str, i32); 35] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("IOT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("POLL", 29),
    ("PWR", 30),
    ("SYS", 31),
    ("UNUSED", 31),
];

/// Parses a number, or a name with or without `SIG`, including real-time signals in every usual spelling.
fn signal_number(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return (1..=64).contains(&number).then_some(number);
    }
    let upper = text.to_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some((_, number)) = SIGNALS.iter().find(|(known, _)| *known == name) {
        return Some(*number);
    }
    // The C library reserves 32 and 33.
    let offset = |digits: &str| digits.parse::<i32>().ok();
    let number = if let Some(rest) = name.strip_prefix("RTMIN") {
        34 + match rest {
            "" => 0,
            _ => offset(rest.strip_prefix("PLUS").or_else(|| rest.strip_prefix('+'))?)?,
        }
    } else {
        let rest = name.strip_prefix("RTMAX")?;
        64 - match rest {
            "" => 0,
            _ => offset(rest.strip_prefix("MINUS").or_else(|| rest.strip_prefix('-'))?)?,
        }
    };
    (34..=64).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn command_args_entrypoint_and_cmd() {
        // command, args, entrypoint, cmd, result
        let table = [
            ("", "", "e", "c", "e c"),
            ("", "a", "e", "c", "e a"),
            ("x", "", "e", "c", "x"),
            ("x", "a", "e", "c", "x a"),
            ("", "", "", "c d", "c d"),
            ("", "", "", "", ""),
        ];
        for (command, arguments, entrypoint, cmd, result) in table {
            let got = args(&words(command), &words(arguments), &words(entrypoint), &words(cmd));
            assert_eq!(got, words(result), "{command:?} {arguments:?}");
        }
    }

    #[test]
    fn signals_in_every_spelling() {
        let table = [
            ("SIGTERM", Some(15)),
            ("term", Some(15)),
            ("9", Some(9)),
            ("SIGRTMIN+3", Some(37)),
            ("RTMIN", Some(34)),
            ("SIGRTMAX-1", Some(63)),
            ("SIGRTMINPLUS3", Some(37)),
            ("SIGRTMAXMINUS14", Some(50)),
            ("0", None),
            ("65", None),
            ("SIGNOPE", None),
            ("RTMIN+99", None),
        ];
        for (text, number) in table {
            assert_eq!(signal_number(text), number, "{text}");
        }
        assert_eq!(stop_signal(v1::Signal::RuntimeDefault, None).unwrap(), 15);
        assert_eq!(stop_signal(v1::Signal::RuntimeDefault, Some("SIGQUIT")).unwrap(), 3);
        assert_eq!(stop_signal(v1::Signal::Sigusr1, Some("SIGQUIT")).unwrap(), 10);
        assert!(stop_signal(v1::Signal::RuntimeDefault, Some("loud")).is_err());
    }

    #[test]
    fn every_signal_of_the_protocol_has_a_number() {
        for value in 1..=65 {
            let signal = v1::Signal::try_from(value).unwrap();
            let number = stop_signal(signal, None).unwrap();
            assert_eq!(stop_signal(signal_name(number), None).unwrap(), number, "{}", signal.as_str_name());
        }
    }
}
