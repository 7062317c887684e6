//! Users and groups inside and outside of a user namespace. Pure.

/// Consecutive ids that an administrator assigned to a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u32,
    pub(super) count: u32,
}

/// Finds the name of a user in the text of `/etc/passwd`.
pub(super) fn user_name(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// Finds the first range of a user, by name or number, in the text of `/etc/subuid` or `/etc/subgid`.
pub(super) fn subordinate(text: &str, name: Option<&str>, uid: u32) -> Option<Range> {
    let number = uid.to_string();
    text.lines().find_map(|line| {
        let mut fields = line.trim().split(':');
        let whose = fields.next()?;
        if Some(whose) != name && whose != number {
            return None;
        }
        let range = Range { first: fields.next()?.parse().ok()?, count: fields.next()?.parse().ok()? };
        (range.count > 0).then_some(range)
    })
}

/// The ids that exist in this process's user namespace, from `/proc/self/uid_map` or `gid_map`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdMap {
    /// The first id inside, and the number of ids.
    ranges: Vec<(u32, u32)>,
}

impl IdMap {
    pub(crate) fn parse(text: &str) -> Self {
        let ranges = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, words.nth(1)?.parse().ok()?))
        });
        Self { ranges: ranges.collect() }
    }

    pub(crate) fn has(&self, id: u32) -> bool {
        self.ranges.iter().any(|(first, count)| id >= *first && id - first < *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_by_name_and_by_number() {
        let text = "ann:100000:65536\n# x\n1001:200000:10\nbob:x:y\nbob:300000:0\nbob:400000:7\n";
        let table = [
            (Some("ann"), 1000, Some(Range { first: 100_000, count: 65536 })),
            (None, 1001, Some(Range { first: 200_000, count: 10 })),
            (Some("bob"), 1002, Some(Range { first: 400_000, count: 7 })),
            (Some("eve"), 1003, None),
            (None, 1003, None),
        ];
        for (name, uid, range) in table {
            assert_eq!(subordinate(text, name, uid), range, "{name:?} {uid}");
        }
        assert_eq!(subordinate("", Some("ann"), 1), None);
    }

    #[test]
    fn names_come_from_the_third_field() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbroken\n";
        assert_eq!(user_name(passwd, 1000).as_deref(), Some("ann"));
        assert_eq!(user_name(passwd, 7), None);
    }

    #[test]
    fn a_map_has_what_its_ranges_cover() {
        let single = IdMap::parse("         0      65534          1\n");
        assert!(single.has(0) && !single.has(1));
        let wide = IdMap::parse("0 1000 1\n1 100000 65536\n");
        assert!(wide.has(0) && wide.has(65536) && !wide.has(65537));
        let whole = IdMap::parse("0 0 4294967295\n");
        assert!(whole.has(4_294_967_294) && !whole.has(u32::MAX));
    }
}
