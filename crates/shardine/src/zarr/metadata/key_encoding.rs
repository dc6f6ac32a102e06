//! Converts between the cell of a chunk in the grid and the key of its object.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::MetadataError;
use shardine_codec::{Extension, shown};

/// The separator between the numbers of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Separator {
    /// `/`: on a file system, a folder for every dimension but the last.
    #[serde(rename = "/")]
    Slash,
    /// `.`: all in one folder.
    #[serde(rename = ".")]
    Dot,
}

impl Separator {
    /// The character itself.
    pub fn as_char(self) -> char {
        match self {
            Self::Slash => '/',
            Self::Dot => '.',
        }
    }
}

/// How the keys of chunks are formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkKeyEncoding {
    /// `c/1/23/45`
    Default {
        /// `/` unless the metadata says otherwise.
        separator: Separator,
    },
    /// `1.23.45`, as in Zarr version 2
    V2 {
        /// `.` unless the metadata says otherwise.
        separator: Separator,
    },
}

impl Default for ChunkKeyEncoding {
    /// `c/1/23/45`
    fn default() -> Self {
        Self::Default { separator: Separator::Slash }
    }
}

impl ChunkKeyEncoding {
    /// Whether the numbers of a key are separated by slashes.
    pub fn is_nested(&self) -> bool {
        let (Self::Default { separator } | Self::V2 { separator }) = self;
        *separator == Separator::Slash
    }

    /// The encoding that the `chunk_key_encoding` member names.
    pub fn from_json(json: &Value) -> Result<Self, MetadataError> {
        const MEMBER: &str = "chunk_key_encoding";
        let extension = Extension::needed(json, MEMBER)?;
        let default = match extension.name {
            "default" => Separator::Slash,
            "v2" => Separator::Dot,
            name => {
                return Err(MetadataError::Unsupported {
                    member: MEMBER.into(),
                    name: name.into(),
                    reason: "only \"default\" and \"v2\" are".into(),
                });
            }
        };
        extension.check_configuration(MEMBER, &["separator"])?;
        let separator = match extension.configuration.and_then(|members| members.get("separator")) {
            None => default,
            Some(Value::String(text)) if text == "/" => Separator::Slash,
            Some(Value::String(text)) if text == "." => Separator::Dot,
            Some(other) => {
                return Err(MetadataError::invalid(
                    format!("{MEMBER}.configuration.separator"),
                    format!("is {}, but must be \"/\" or \".\"", shown(other)),
                ));
            }
        };
        Ok(match extension.name {
            "v2" => Self::V2 { separator },
            _ => Self::Default { separator },
        })
    }

    /// The member for a document, with the separator spelled out.
    pub fn to_json(&self) -> Value {
        let (name, separator) = match self {
            Self::Default { separator } => ("default", separator),
            Self::V2 { separator } => ("v2", separator),
        };
        json!({ "name": name, "configuration": { "separator": separator.as_char().to_string() } })
    }

    /// The key of the chunk at `cell`, relative to the array.
    ///
    /// An array without dimensions has one chunk, `c` or, as in version 2, `0`. One allocation.
    pub fn key(&self, cell: &[u64]) -> String {
        let (prefix, separator) = match self {
            Self::Default { separator } => ("c", separator),
            Self::V2 { separator: _ } if cell.is_empty() => return "0".into(),
            Self::V2 { separator } => ("", separator),
        };
        let mut key = String::with_capacity(prefix.len() + 21 * cell.len());
        key.push_str(prefix);
        for &index in cell {
            if !key.is_empty() {
                key.push(separator.as_char());
            }
            push_decimal(&mut key, index);
        }
        key
    }

    /// The cell with this key: `None` unless [`Self::key`] returns exactly `key` for a cell of
    /// `rank` numbers.
    pub fn parse(&self, key: &str, rank: usize) -> Option<Vec<u64>> {
        let (numbers, separator) = match self {
            Self::Default { separator } => {
                let rest = key.strip_prefix('c')?;
                if rank == 0 {
                    return rest.is_empty().then(Vec::new);
                }
                (rest.strip_prefix(separator.as_char())?, separator)
            }
            Self::V2 { separator: _ } if rank == 0 => return (key == "0").then(Vec::new),
            Self::V2 { separator } => (key, separator),
        };
        let mut cell = Vec::new();
        for number in numbers.split(separator.as_char()) {
            if cell.len() == rank {
                return None;
            }
            cell.push(canonical_decimal(number)?);
        }
        (cell.len() == rank).then_some(cell)
    }
}

fn push_decimal(text: &mut String, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        start -= 1;
        if number == 0 {
            break;
        }
    }
    text.extend(digits.iter().skip(start).map(|&digit| char::from(digit)));
}

fn canonical_decimal(text: &str) -> Option<u64> {
    let canonical =
        text.bytes().all(|digit| digit.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if canonical { text.parse().ok() } else { None }
}
