//! Targets, and whether they were met.

use anyhow::bail;

/// The result for one target.
#[derive(Debug)]
pub(super) struct Verdict {
    met: bool,
    text: String,
}

impl Verdict {
    pub(super) fn at_most(what: &str, is: f64, limit: f64) -> Self {
        Self { met: is <= limit, text: format!("{what}: {is:.2}, at most {limit}") }
    }

    pub(super) fn at_least(what: &str, is: f64, limit: f64) -> Self {
        Self { met: is >= limit, text: format!("{what}: {is:.2}, at least {limit}") }
    }
}

/// Prints the results; returns an error if a target was missed and `check` is set.
pub(super) fn conclude(verdicts: &[Verdict], check: bool) -> anyhow::Result<()> {
    println!();
    for verdict in verdicts {
        println!("{} {}", if verdict.met { "PASS" } else { "FAIL" }, verdict.text);
    }
    let missed = verdicts.iter().filter(|verdict| !verdict.met).count();
    if check && missed > 0 {
        bail!("{missed} targets missed");
    }
    Ok(())
}
