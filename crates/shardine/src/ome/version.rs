use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A version of OME-Zarr, as a document spells it.
///
/// ```
/// use shardine::ome::{OmeRelease, OmeVersion};
///
/// let version: OmeVersion = "0.6rc0".parse().map_err(|_| "not a version")?;
/// assert_eq!(version.release(), OmeRelease::V0_6);
/// assert_eq!(version.to_string(), "0.6rc0");
/// assert!(OmeVersion::from(OmeRelease::V0_5) < version);
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OmeVersion {
    release: OmeRelease,
    spelling: String,
}

/// The versions of OME-Zarr, the oldest first. Their rules differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OmeRelease {
    /// 0.1: axes are always t, c, z, y, x.
    V0_1,
    /// 0.2: the same, with nested chunk keys.
    V0_2,
    /// 0.3: axes have names.
    V0_3,
    /// 0.4: axes have types and units, levels have transformations. Zarr version 2.
    V0_4,
    /// 0.5: the same in Zarr version 3, in the attribute `ome`.
    V0_5,
    /// 0.6: coordinate systems, more transformations, scenes.
    V0_6,
}

impl OmeRelease {
    /// All of them, the oldest first.
    pub const ALL: [Self; 6] =
        [Self::V0_1, Self::V0_2, Self::V0_3, Self::V0_4, Self::V0_5, Self::V0_6];

    /// Its number.
    pub fn number(self) -> &'static str {
        match self {
            Self::V0_1 => "0.1",
            Self::V0_2 => "0.2",
            Self::V0_3 => "0.3",
            Self::V0_4 => "0.4",
            Self::V0_5 => "0.5",
            Self::V0_6 => "0.6",
        }
    }

    /// Whether its hierarchies are Zarr version 3, with its metadata in the attribute `ome`.
    pub fn is_zarr3(self) -> bool {
        self >= Self::V0_5
    }
}

impl fmt::Display for OmeRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.number())
    }
}

impl OmeVersion {
    /// Whose rules apply.
    pub fn release(&self) -> OmeRelease {
        self.release
    }
}

impl From<OmeRelease> for OmeVersion {
    fn from(release: OmeRelease) -> Self {
        Self { release, spelling: release.number().to_owned() }
    }
}

impl From<OmeVersion> for String {
    fn from(version: OmeVersion) -> Self {
        version.spelling
    }
}

impl TryFrom<String> for OmeVersion {
    type Error = UnknownVersion;

    fn try_from(text: String) -> Result<Self, UnknownVersion> {
        text.parse()
    }
}

/// A text that is no version of OME-Zarr known here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is not an OME-Zarr version that is known: 0.1 to 0.6", .text.escape_debug())]
pub struct UnknownVersion {
    /// The text.
    pub text: String,
}

impl FromStr for OmeVersion {
    type Err = UnknownVersion;

    /// A number, and for 0.6 also that of a draft such as `0.6rc0` or `0.6.dev3`. Patch releases
    /// such as `0.5.2` follow the rules of their version.
    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let is_of = |release: &OmeRelease| {
            text.strip_prefix(release.number()).is_some_and(|rest| {
                let digits = |text: &str| {
                    !text.is_empty() && text.len() < 8 && text.bytes().all(|b| b.is_ascii_digit())
                };
                rest.is_empty()
                    || rest.strip_prefix('.').is_some_and(digits)
                    || *release == OmeRelease::V0_6
                        && ["rc", ".rc", "-rc", ".dev", "dev", "-dev"]
                            .iter()
                            .any(|draft| rest.strip_prefix(draft).is_some_and(digits))
            })
        };
        match OmeRelease::ALL.into_iter().find(is_of) {
            Some(release) => Ok(Self { release, spelling: text.to_owned() }),
            None => Err(UnknownVersion { text: text.chars().take(64).collect() }),
        }
    }
}

impl fmt::Display for OmeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_and_patches_follow_their_release() {
        for (text, release) in [
            ("0.1", OmeRelease::V0_1),
            ("0.4", OmeRelease::V0_4),
            ("0.5.2", OmeRelease::V0_5),
            ("0.6", OmeRelease::V0_6),
            ("0.6rc0", OmeRelease::V0_6),
            ("0.6.dev3", OmeRelease::V0_6),
        ] {
            let version: OmeVersion = text.parse().unwrap();
            assert_eq!((version.release(), version.to_string().as_str()), (release, text));
            let json = serde_json::to_string(&version).unwrap();
            assert_eq!(
                (json.as_str(), serde_json::from_str(&json).ok()),
                (&*format!("\"{text}\""), Some(version))
            );
        }
        for text in ["", "0.7", "0.40", "0.4rc1", "0.6rc", "0.6.devx", "1.0", "0.6rc00000000000"] {
            assert!(text.parse::<OmeVersion>().is_err(), "{text}");
        }
    }
}
