//! Whether a target was met.

use anyhow::bail;

pub(super) struct Verdict {
    met: bool,
    text: String,
}

impl Verdict {
    /// `what` is to be at most so much.
    pub(super) fn at_most(what: &str, is: f64, limit: f64) -> Self {
        Self { met: is <= limit, text: format!("{what}: {is:.2}, at most {limit}") }
    }
}

/// Prints verdicts; with `check`, a target that was missed is an error.
pub(super) fn announce(verdicts: impl IntoIterator<Item = Verdict>, check: bool) -> anyhow::Result<()> {
    let mut missed = 0;
    for Verdict { met, text } in verdicts {
        println!("{} {text}", if met { "PASS" } else { "FAIL" });
        missed += usize::from(!met);
    }
    if check && missed > 0 {
        bail!("{missed} targets missed");
    }
    Ok(())
}
