//! The user that a container runs as, from the request, the image, and the image's `/etc/passwd` and `/etc/group`.

use super::error::{Error, Result};
use super::facts::Facts;

/// A resolved user.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

/// The requested user.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted<'a> {
    pub(crate) run_as_user: Option<i64>,
    pub(crate) run_as_username: &'a str,
    pub(crate) run_as_group: Option<i64>,
    pub(crate) supplemental_groups: &'a [i64],
    /// Whether the groups of the image's `/etc/group` are added.
    pub(crate) merge_image_groups: bool,
    /// The image's user: `user`, `uid`, `user:group` or `uid:gid`.
    pub(crate) image_user: &'a str,
}

const CONTEXT: &str = "linux.security_context";

/// Finds the ids of the requested user. `passwd` and `group` are the image's files, empty if it has none.
pub(crate) fn resolve(wanted: &Wanted<'_>, passwd: &str, group: &str) -> Result<User> {
    let field = |name: &str| format!("{CONTEXT}.{name}");
    let (image_user, image_group) = wanted.image_user.split_once(':').unwrap_or((wanted.image_user, ""));
    let explicit = wanted.run_as_user.is_some() || !wanted.run_as_username.is_empty();

    let entry = if let Some(uid) = wanted.run_as_user {
        let uid = id(uid, &field("run_as_user"))?;
        passwd_by_uid(passwd, uid).unwrap_or(Entry { name: String::new(), uid, gid: 0 })
    } else if !wanted.run_as_username.is_empty() {
        passwd_by_name(passwd, wanted.run_as_username).ok_or_else(|| {
            Error::invalid(field("run_as_username"), not_in("user", wanted.run_as_username, "passwd"))
        })?
    } else if image_user.is_empty() {
        passwd_by_uid(passwd, 0).unwrap_or(Entry { name: String::new(), uid: 0, gid: 0 })
    } else if let Ok(uid) = image_user.parse::<u32>() {
        passwd_by_uid(passwd, uid).unwrap_or(Entry { name: String::new(), uid, gid: 0 })
    } else {
        passwd_by_name(passwd, image_user)
            .ok_or_else(|| Error::invalid("image.config.user", not_in("user", image_user, "passwd")))?
    };

    let gid = match wanted.run_as_group {
        Some(_) if !explicit && image_user.is_empty() => {
            return Err(Error::invalid(field("run_as_group"), "needs run_as_user or run_as_username"));
        }
        Some(gid) => id(gid, &field("run_as_group"))?,
        None if explicit || image_group.is_empty() => entry.gid,
        None => match image_group.parse::<u32>() {
            Ok(gid) => gid,
            Err(_) => group_by_name(group, image_group)
                .ok_or_else(|| Error::invalid("image.config.user", not_in("group", image_group, "group")))?,
        },
    };

    let mut groups = Vec::new();
    let mut add = |gid: u32| {
        if !groups.contains(&gid) {
            groups.push(gid);
        }
    };
    // A program that gives up its group must not escape the restrictions of that group.
    add(gid);
    for extra in wanted.supplemental_groups {
        add(id(*extra, &field("supplemental_groups"))?);
    }
    if wanted.merge_image_groups && !entry.name.is_empty() {
        memberships(group, &entry.name).for_each(&mut add);
    }
    Ok(User { uid: entry.uid, gid, groups })
}

/// Rejects ids that do not exist in this process's user namespace. Groups that only the image asks for are dropped
/// instead: most images list some for root, and no program depends on them.
pub(crate) fn admit(mut user: User, wanted: &Wanted<'_>, facts: &Facts) -> Result<User> {
    let unmapped = |name: &str, id: u32| {
        let problem = format!(
            "{id} does not exist in this user namespace: run as root, or add ranges for this user to /etc/subuid and \
             /etc/subgid"
        );
        Err(Error::unsupported(format!("{CONTEXT}.{name}"), problem))
    };
    if !facts.users.has(user.uid) {
        return unmapped("run_as_user", user.uid);
    }
    if !facts.groups.has(user.gid) {
        return unmapped("run_as_group", user.gid);
    }
    let usable = |gid: u32| facts.can_set_groups && facts.groups.has(gid);
    let asked = wanted.supplemental_groups.iter().filter_map(|gid| u32::try_from(*gid).ok());
    if let Some(gid) = asked.into_iter().find(|gid| !usable(*gid)) {
        return unmapped("supplemental_groups", gid);
    }
    user.groups.retain(|gid| usable(*gid));
    Ok(user)
}

fn id(value: i64, field: &str) -> Result<u32> {
    // The last number means "no id" to the kernel.
    u32::try_from(value)
        .ok()
        .filter(|id| *id != u32::MAX)
        .ok_or_else(|| Error::invalid(field, format!("{value} is not a user or group id")))
}

fn not_in(what: &str, name: &str, file: &str) -> String {
    format!("{what} {name:?} is not in the image's /etc/{file}")
}

#[derive(Debug)]
struct Entry {
    name: String,
    uid: u32,
    gid: u32,
}

fn passwd_entries(passwd: &str) -> impl Iterator<Item = Entry> + '_ {
    passwd.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let name = fields.next()?.to_owned();
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Entry { name, uid, gid })
    })
}

/// Returns the home of a user, according to the image's `/etc/passwd`.
pub(crate) fn home(passwd: &str, uid: u32) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.trim().split(':').skip(2);
        let is_theirs = fields.next()?.parse() == Ok(uid);
        fields.nth(2).filter(|home| is_theirs && !home.is_empty())
    })
}

fn passwd_by_uid(passwd: &str, uid: u32) -> Option<Entry> {
    passwd_entries(passwd).find(|entry| entry.uid == uid)
}

fn passwd_by_name(passwd: &str, name: &str) -> Option<Entry> {
    passwd_entries(passwd).find(|entry| entry.name == name)
}

fn group_by_name(group: &str, name: &str) -> Option<u32> {
    group.lines().find_map(|line| {
        let mut fields = line.trim().split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

fn memberships<'a>(group: &'a str, user: &'a str) -> impl Iterator<Item = u32> + 'a {
    group.lines().filter_map(move |line| {
        let mut fields = line.trim().split(':');
        let gid = fields.nth(2)?.parse().ok()?;
        fields.next()?.split(',').any(|member| member == user).then_some(gid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::cgroup::Cgroups;
    use crate::embedded::rootless::ids::IdMap;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:\napp:x:1000:100::/home/app:/bin/sh\nbad line\n";
    #[test]
    fn homes_by_table() {
        for (uid, expected) in [(0, Some("/root")), (65534, Some("/")), (1000, Some("/home/app")), (7, None)]
        {
            assert_eq!(home(PASSWD, uid), expected);
        }
        assert_eq!(home("x:x:1:1::", 1), None);
        assert_eq!(home("x:x:1:1:::", 1), None);
    }

    const GROUP: &str = "root:x:0:\nusers:x:100:\nextra:x:200:app,other\nmore:x:201:other,app\n";

    fn find(wanted: &Wanted<'_>) -> Result<User, String> {
        resolve(wanted, PASSWD, GROUP).map_err(|error| error.to_string())
    }

    fn user(uid: u32, gid: u32, groups: &[u32]) -> Result<User, String> {
        Ok(User { uid, gid, groups: groups.to_vec() })
    }

    #[test]
    fn who_it_runs_as() {
        let merge = Wanted { merge_image_groups: true, ..Wanted::default() };
        let table: Vec<(Wanted<'_>, Result<User, String>)> = vec![
            (merge.clone(), user(0, 0, &[0])),
            (Wanted { image_user: "app", ..merge.clone() }, user(1000, 100, &[100, 200, 201])),
            (Wanted { image_user: "app", ..Wanted::default() }, user(1000, 100, &[100])),
            (Wanted { image_user: "app:root", ..merge.clone() }, user(1000, 0, &[0, 200, 201])),
            (Wanted { image_user: "77:88", ..merge.clone() }, user(77, 88, &[88])),
            (Wanted { run_as_user: Some(1000), ..merge.clone() }, user(1000, 100, &[100, 200, 201])),
            (Wanted { run_as_user: Some(4242), ..merge.clone() }, user(4242, 0, &[0])),
            (Wanted { run_as_user: Some(0), image_user: "app:200", ..merge.clone() }, user(0, 0, &[0])),
            (Wanted { run_as_user: Some(5), run_as_group: Some(6), ..merge.clone() }, user(5, 6, &[6])),
            (Wanted { run_as_username: "app", ..merge.clone() }, user(1000, 100, &[100, 200, 201])),
            (
                Wanted { run_as_user: Some(1), supplemental_groups: &[9, 9, 8], ..merge.clone() },
                user(1, 0, &[0, 9, 8]),
            ),
        ];
        for (wanted, expected) in table {
            assert_eq!(find(&wanted), expected, "{wanted:?}");
        }
    }

    #[test]
    fn what_cannot_be_found_is_named() {
        let table = [
            (Wanted { run_as_username: "ghost", ..Wanted::default() }, "run_as_username: user \"ghost\""),
            (Wanted { image_user: "ghost", ..Wanted::default() }, "image.config.user: user \"ghost\""),
            (Wanted { image_user: "app:ghosts", ..Wanted::default() }, "image.config.user: group \"ghosts\""),
            (Wanted { run_as_user: Some(-1), ..Wanted::default() }, "run_as_user: -1"),
            (Wanted { run_as_group: Some(5), ..Wanted::default() }, "run_as_group: needs run_as_user"),
        ];
        for (wanted, part) in table {
            let error = find(&wanted).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn who_does_not_exist_here_is_refused_and_what_nobody_asked_for_is_left_out() {
        let facts = |map: &str, can_set_groups: bool| Facts {
            users: IdMap::parse(map),
            groups: IdMap::parse(map),
            can_set_groups,
            ..Facts::able(Cgroups::None)
        };
        let (one, many) = (facts("0 1000 1", false), facts("0 1000 1\n1 100000 10", true));
        let user = |uid: u32, gid: u32, groups: &[u32]| User { uid, gid, groups: groups.to_vec() };
        let nothing = Wanted::default();
        let asked = Wanted { supplemental_groups: &[5], ..Wanted::default() };
        // user, request, machine → remaining groups, or the field that is rejected
        type Outcome = std::result::Result<&'static [u32], &'static str>;
        let table: [(User, &Wanted<'_>, &Facts, Outcome); 7] = [
            (user(0, 0, &[]), &nothing, &one, Ok(&[])),
            (user(0, 0, &[1, 2]), &nothing, &one, Ok(&[])),
            (user(0, 0, &[1, 99]), &nothing, &many, Ok(&[1])),
            (user(7, 7, &[5]), &asked, &many, Ok(&[5])),
            (user(7, 0, &[]), &nothing, &one, Err("linux.security_context.run_as_user: ")),
            (user(0, 7, &[]), &nothing, &one, Err("linux.security_context.run_as_group: ")),
            (user(0, 0, &[5]), &asked, &one, Err("linux.security_context.supplemental_groups: ")),
        ];
        for (user, wanted, facts, expected) in table {
            let got = admit(user.clone(), wanted, facts).map_err(|error| error.to_string());
            match expected {
                Ok(groups) => assert_eq!(got.unwrap().groups, groups, "{user:?}"),
                Err(field) => assert!(got.as_ref().is_err_and(|text| text.starts_with(field)), "{got:?}"),
            }
        }
    }
}
