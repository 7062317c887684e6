//! What to do with the rotated parts of a log. Pure: takes names, returns names.

/// When a log is rotated, and how many parts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPolicy {
    /// The size, in bytes, above which a log is rotated.
    pub max_size: u64,
    /// The maximum number of log files per container, including the current one.
    pub max_files: usize,
}

impl Default for LogPolicy {
    fn default() -> Self {
        Self { max_size: 10 << 20, max_files: 5 }
    }
}

/// What to do before a log is rotated again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogPlan {
    /// Half-written leftovers, and parts that are too old.
    pub(super) remove: Vec<String>,
    /// Parts that nothing writes to any more.
    pub(super) compress: Vec<String>,
}

/// The suffix of a part that is being compressed.
pub(super) const UNFINISHED: &str = ".tmp";
/// The suffix of a compressed part.
pub(super) const COMPRESSED: &str = ".gz";

/// Plans for the files beside a log. Parts from `first_unread` on stay as they are, because they have yet to be read.
pub(super) fn plan(log: &str, names: &[String], policy: LogPolicy, first_unread: Option<&str>) -> LogPlan {
    let prefix = format!("{log}.");
    let of_log = || names.iter().filter(|name| name.starts_with(&prefix));
    let mut plan = LogPlan {
        remove: of_log().filter(|name| name.ends_with(UNFINISHED)).cloned().collect(),
        ..LogPlan::default()
    };
    // Their names are timestamps, so the oldest comes first.
    let mut parts: Vec<&String> = of_log().filter(|name| !name.ends_with(UNFINISHED)).collect();
    parts.sort();
    // The coming rotation creates one part, and the log itself is one file.
    let keep = policy.max_files.saturating_sub(2);
    let too_many = parts.len().saturating_sub(keep);
    let was_read = |name: &String| first_unread.is_none_or(|first| name.as_str() < first);
    plan.remove.extend(parts.drain(..too_many).filter(|name| was_read(name)).cloned());
    let is_plain = |name: &&String| !name.ends_with(COMPRESSED);
    plan.compress = parts.into_iter().filter(is_plain).filter(|name| was_read(name)).cloned().collect();
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(names: &[&str], max_files: usize) -> (Vec<String>, Vec<String>) {
        planned_for(names, max_files, None)
    }

    fn planned_for(
        names: &[&str],
        max_files: usize,
        first_unread: Option<&str>,
    ) -> (Vec<String>, Vec<String>) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let policy = LogPolicy { max_size: 1, max_files };
        let LogPlan { remove, compress } = plan("0.log", &names, policy, first_unread);
        (remove, compress)
    }

    #[test]
    fn what_is_still_to_be_read_is_neither_removed_nor_compressed() {
        let names = ["0.log", "0.log.1.gz", "0.log.2", "0.log.3", "0.log.4"];
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (max_files, first_unread, remove, compress) in [
            (9, Some("0.log.3"), &[][..], &["0.log.2"][..]),
            (2, Some("0.log.3"), &["0.log.1.gz", "0.log.2"], &[]),
            (2, Some("0.log.1.gz"), &[], &[]),
            (4, Some("0.log.4"), &["0.log.1.gz", "0.log.2"], &["0.log.3"]),
            (4, None, &["0.log.1.gz", "0.log.2"], &["0.log.3", "0.log.4"]),
        ] {
            let wanted = (owned(remove), owned(compress));
            assert_eq!(planned_for(&names, max_files, first_unread), wanted, "{max_files} {first_unread:?}");
        }
    }

    #[test]
    fn the_newest_parts_stay_compressed_and_leftovers_go() {
        let names = ["0.log", "0.log.1.gz", "0.log.2.gz", "0.log.3", "0.log.2.tmp", "1.log", "1.log.1"];
        assert_eq!(planned(&names, 5), (vec!["0.log.2.tmp".to_owned()], vec!["0.log.3".to_owned()]));
        assert_eq!(
            planned(&names, 3),
            (
                ["0.log.2.tmp", "0.log.1.gz", "0.log.2.gz"].map(str::to_owned).to_vec(),
                vec!["0.log.3".to_owned()]
            )
        );
        let all = ["0.log.2.tmp", "0.log.1.gz", "0.log.2.gz", "0.log.3"].map(str::to_owned).to_vec();
        assert_eq!(planned(&names, 2), (all.clone(), vec![]));
        assert_eq!(planned(&names, 0), (all, vec![]));
    }
}
