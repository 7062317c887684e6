//! A device rule, as in OCI specs.

use serde::Deserialize;

/// A rule that allows or forbids access to some devices. If several match, the last one decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Rule {
    pub(super) allow: bool,
    /// Both kinds, if absent.
    #[serde(rename = "type")]
    pub(super) kind: Option<Kind>,
    /// Any number, if absent; the same holds for the minor number.
    pub(super) major: Option<u32>,
    pub(super) minor: Option<u32>,
    pub(super) access: Access,
}

impl Rule {
    /// Whether it makes all rules before it irrelevant.
    pub(super) fn is_for_everything(&self) -> bool {
        (self.kind, self.major, self.minor, self.access) == (None, None, None, Access::ALL)
    }
}

/// The kind of a device, with the kernel's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Kind {
    #[serde(rename = "b")]
    Block = 1,
    #[serde(rename = "c")]
    Character = 2,
}

/// The kinds of access to a device, as the kernel's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Access(pub(super) i32);

impl Access {
    pub(super) const MAKE: Self = Self(1);
    pub(super) const ALL: Self = Self(7);
}

impl TryFrom<String> for Access {
    type Error = String;

    fn try_from(letters: String) -> Result<Self, String> {
        letters.chars().try_fold(Self(0), |Self(bits), letter| match letter {
            'm' => Ok(Self(bits | Self::MAKE.0)),
            'r' => Ok(Self(bits | 2)),
            'w' => Ok(Self(bits | 4)),
            _ => Err(format!("{letters:?} is not made of r, w and m")),
        })
    }
}
