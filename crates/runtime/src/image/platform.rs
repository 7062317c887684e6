//! The choice of the variant of an image that runs on this machine.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An operating system and a processor architecture, in the terms of image indexes: `linux/arm64/v8`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The operating system; nearly always `linux`.
    pub os: String,
    /// The processor architecture: `amd64`, `arm64`, …
    pub architecture: String,
    /// The version of the architecture, if there are several: `v7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl Platform {
    /// The platform of this machine.
    #[must_use]
    pub fn host() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", None),
            "x86" => ("386", None),
            "aarch64" => ("arm64", Some("v8")),
            "arm" => ("arm", Some("v7")),
            "powerpc64" if cfg!(target_endian = "little") => ("ppc64le", None),
            "powerpc64" => ("ppc64", None),
            "loongarch64" => ("loong64", None),
            other => (other, None),
        };
        Self {
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
            variant: variant.map(str::to_owned),
        }
    }

    /// Rates how well something built for `built` runs here: `None` if it does not; higher is better.
    fn rank(&self, built: &Self) -> Option<u32> {
        if self.os != built.os || self.architecture != built.architecture {
            return None;
        }
        let generation = |variant: &Option<String>| match (variant.as_deref(), self.architecture.as_str()) {
            (None | Some(""), "arm") => 7,
            (None | Some(""), "arm64") => 8,
            (None | Some(""), _) => 1,
            (Some(variant), _) => variant.trim_start_matches('v').parse().unwrap_or(u32::MAX),
        };
        let (ours, theirs) = (generation(&self.variant), generation(&built.variant));
        (theirs <= ours).then_some(theirs)
    }

    /// Chooses the best candidate for this platform. One without a platform is chosen only if no other fits.
    pub(crate) fn choose<'a, T>(
        &self,
        candidates: &'a [T],
        built: impl Fn(&T) -> Option<&Self>,
    ) -> Option<&'a T> {
        let ranked =
            candidates.iter().filter_map(|candidate| Some((self.rank(built(candidate)?)?, candidate)));
        // The first of equals wins: builders list the plain image before variants of it.
        let best = ranked.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, candidate)| candidate)
            .or_else(|| candidates.iter().find(|candidate| built(candidate).is_none()))
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match self.variant.as_deref() {
            None | Some("") => Ok(()),
            Some(variant) => write!(f, "/{variant}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platform {
        let mut parts = text.split('/').map(str::to_owned);
        Platform { os: parts.next().unwrap(), architecture: parts.next().unwrap(), variant: parts.next() }
    }

    #[test]
    fn the_best_fitting_variant_is_chosen() {
        for (machine, offered, chosen) in [
            ("linux/amd64", "linux/arm64 linux/amd64 unknown/unknown", Some("linux/amd64")),
            ("linux/amd64", "windows/amd64 linux/amd64", Some("linux/amd64")),
            ("linux/amd64", "linux/amd64/v3 linux/amd64", Some("linux/amd64")),
            ("linux/amd64/v3", "linux/amd64 linux/amd64/v3 linux/amd64/v4", Some("linux/amd64/v3")),
            ("linux/arm64/v8", "linux/arm64", Some("linux/arm64")),
            ("linux/arm64/v8", "linux/arm/v7 linux/arm64/v8", Some("linux/arm64/v8")),
            ("linux/arm/v7", "linux/arm/v5 linux/arm/v6 linux/arm64/v8", Some("linux/arm/v6")),
            ("linux/arm/v6", "linux/arm/v7", None),
            ("linux/riscv64", "linux/amd64", None),
            ("linux/amd64", "", None),
        ] {
            let offered: Vec<Platform> = offered.split_whitespace().map(platform).collect();
            let found = platform(machine).choose(&offered, |offer| Some(offer));
            assert_eq!(found.map(ToString::to_string).as_deref(), chosen, "{machine} of {offered:?}");
        }
    }

    #[test]
    fn one_that_does_not_say_is_the_last_resort() {
        let offered = [None, Some(platform("linux/amd64"))];
        let choose = |machine| platform(machine).choose(&offered, Option::as_ref).unwrap();
        assert_eq!(choose("linux/amd64"), &offered[1]);
        assert_eq!(choose("linux/arm64"), &offered[0]);
    }
}
