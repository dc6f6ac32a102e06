//! The filters and the compressor of version 2, as a chain of version 3 codecs.
//!
//! Version 2 passes a chunk from codec to codec as numpy sees it: a filter that computes with
//! numbers names their type, byte order included, and interprets its input as that. Version 3
//! states the byte order once, where elements become bytes. So the byte order of the last type is
//! the one that is stored, and a filter whose type differs from that of its input has no
//! equivalent.

use serde_json::{Map, Value, json};
use shardine_codec::CodecSpec;

use super::array::codec;
use super::data_type::{NumpyType, StoredType};
use super::{named, unsupported};
use crate::zarr::metadata::MetadataError;
use shardine_codec::shown;

/// A filter, or the compressor, which comes last.
#[derive(Debug)]
pub(super) struct Step<'a> {
    /// Its place in the document.
    pub member: String,
    pub id: &'a str,
    members: &'a Map<String, Value>,
}

/// Everything that happens to a chunk, in encoding order.
pub(super) fn steps<'a>(
    filters: Option<&'a Value>,
    compressor: Option<&'a Value>,
) -> Result<Vec<Step<'a>>, MetadataError> {
    let mut steps = Vec::new();
    match filters {
        None | Some(Value::Null) => {}
        Some(Value::Array(listed)) => {
            for (index, filter) in listed.iter().enumerate() {
                steps.push(step(format!("filters[{index}]"), filter)?);
            }
        }
        Some(other) => {
            let reason = format!("is {}, but must be a list or null", shown(other));
            return Err(MetadataError::invalid("filters", reason));
        }
    }
    if let Some(compressor) = compressor.filter(|compressor| !compressor.is_null()) {
        steps.push(step("compressor".into(), compressor)?);
    }
    Ok(steps)
}

fn step(member: String, json: &Value) -> Result<Step<'_>, MetadataError> {
    let Value::Object(members) = json else {
        let reason = format!("is {}, but must be an object with \"id\"", shown(json));
        return Err(MetadataError::invalid(member, reason));
    };
    match members.get("id") {
        Some(Value::String(id)) => Ok(Step { member, id, members }),
        Some(_) => Err(MetadataError::invalid(format!("{member}.id"), "must be a string")),
        None => Err(MetadataError::missing(format!("{member}.id"))),
    }
}

impl Step<'_> {
    fn invalid(&self, name: &str, reason: &str) -> MetadataError {
        MetadataError::invalid(format!("{}.{name}", self.member), reason)
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    fn integer(&self, name: &str, default: i64) -> Result<i64, MetadataError> {
        match self.get(name) {
            None => Ok(default),
            Some(value) => value.as_i64().ok_or_else(|| self.invalid(name, "must be an integer")),
        }
    }

    /// A numeric type; `None` if the member does not exist.
    fn numbers(&self, name: &str) -> Result<Option<NumpyType>, MetadataError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.as_str().and_then(NumpyType::of_numbers) {
            Some(numbers) => Ok(Some(numbers)),
            None => {
                let reason = format!("is {}, but must be a numpy type of numbers", shown(value));
                Err(self.invalid(name, &reason))
            }
        }
    }

    /// The codec under zarr-python's name for it in version 3, with the same configuration.
    fn numcodecs(&self) -> CodecSpec {
        let members = self.members.iter().filter(|(name, _)| *name != "id");
        let members: Map<String, Value> = members.map(|(k, v)| (k.clone(), v.clone())).collect();
        codec(&format!("numcodecs.{}", self.id), Value::Object(members))
    }
}

/// The state of a chunk at some point of the chain.
#[derive(Debug, Clone, Copy)]
enum Chunk {
    /// Fixed-size elements.
    Elements(NumpyType),
    /// Strings, or runs of bytes.
    Variable,
    /// Bytes. Codecs that look at elements see elements of this many bytes.
    Bytes { element: u64 },
}

/// A chain under construction.
#[derive(Debug)]
pub(super) struct Codecs {
    chunk: Chunk,
    chain: Vec<CodecSpec>,
}

impl Codecs {
    pub fn new(stored: &StoredType) -> Self {
        let chunk = stored.numpy.map_or(Chunk::Variable, Chunk::Elements);
        Self { chunk, chain: Vec::new() }
    }

    /// The codecs equivalent to `steps`.
    pub fn all(mut self, steps: &[Step<'_>]) -> Result<Vec<CodecSpec>, MetadataError> {
        for step in steps {
            self.add(step)?;
        }
        self.end_elements("filters")?;
        Ok(self.chain)
    }

    fn add(&mut self, step: &Step<'_>) -> Result<(), MetadataError> {
        match step.id {
            "delta" | "fixedscaleoffset" => self.retyped(step),
            "bitround" | "packbits" => {
                let elements = self.elements(step)?;
                if step.id == "packbits" {
                    self.chunk =
                        Chunk::Elements(NumpyType { kind: 'u', size: 1, big_endian: false });
                } else if elements.kind != 'f' {
                    return Err(unsupported(
                        &step.member,
                        step.id,
                        "it is one for floating-point numbers",
                    ));
                }
                self.chain.push(step.numcodecs());
                Ok(())
            }
            "vlen-utf8" | "vlen-bytes" => match self.chunk {
                Chunk::Variable => {
                    self.chain.push(codec(step.id, Value::Null));
                    self.chunk = Chunk::Bytes { element: 1 };
                    Ok(())
                }
                _ => Err(unsupported(&step.member, step.id, "it is one for objects, \"|O\"")),
            },
            _ => self.bytes_to_bytes(step),
        }
    }

    fn bytes_to_bytes(&mut self, step: &Step<'_>) -> Result<(), MetadataError> {
        let level = |default| step.integer("level", default);
        let made = match step.id {
            "blosc" => {
                let element = self.end_elements(&step.member)?;
                blosc(step, element)?
            }
            // numcodecs clamps levels outside the range.
            "zstd" => codec(
                "zstd",
                json!({
                    "level": level(0)?.clamp(-131_072, 22),
                    "checksum": step.get("checksum") == Some(&Value::Bool(true)),
                }),
            ),
            "gzip" if (0..=9).contains(&level(1)?) => codec("gzip", json!({ "level": level(1)? })),
            "crc32c" if step.get("location").is_none_or(|at| *at == json!("end")) => {
                codec("crc32c", Value::Null)
            }
            // Without a size, version 3 would use that of the array's elements.
            "shuffle" => codec(
                "numcodecs.shuffle",
                json!({ "elementsize": step.integer("elementsize", 4)? }),
            ),
            "gzip" | "crc32c" | "zlib" | "bz2" | "lz4" | "lzma" | "crc32" | "adler32"
            | "fletcher32" => step.numcodecs(),
            _ => {
                let reason =
                    "it has no known equivalent in version 3; rewrite the array with another codec";
                return Err(unsupported(&step.member, named(&json!(step.id)), reason));
            }
        };
        self.end_elements(&step.member)?;
        self.chain.push(made);
        self.chunk = Chunk::Bytes { element: 1 };
        Ok(())
    }

    /// The elements that enter a filter that needs elements.
    fn elements(&self, step: &Step<'_>) -> Result<NumpyType, MetadataError> {
        match self.chunk {
            Chunk::Elements(elements) => Ok(elements),
            Chunk::Variable => {
                let reason = "it cannot work on elements of variable length";
                Err(unsupported(&step.member, step.id, reason))
            }
            Chunk::Bytes { .. } => {
                let reason =
                    "it comes after a codec that produces bytes, which version 3 does not allow";
                Err(unsupported(&step.member, step.id, reason))
            }
        }
    }

    /// Adds a filter that computes with elements of one type and stores them in another.
    fn retyped(&mut self, step: &Step<'_>) -> Result<(), MetadataError> {
        let elements = self.elements(step)?;
        let missing = || MetadataError::missing(format!("{}.dtype", step.member));
        let input = step.numbers("dtype")?.ok_or_else(missing)?;
        // Times are stored as integers in their unit.
        let kind = if "Mm".contains(elements.kind) { 'i' } else { elements.kind };
        if input != (NumpyType { kind, ..elements }) {
            let reason =
                "its type or byte order is not that of its input, which version 3 cannot express";
            return Err(unsupported(&format!("{}.dtype", step.member), step.id, reason));
        }
        self.chunk = Chunk::Elements(step.numbers("astype")?.unwrap_or(input));
        self.chain.push(step.numcodecs());
        Ok(())
    }

    /// Turns elements into bytes if they are not bytes yet; returns the size of an element.
    fn end_elements(&mut self, member: &str) -> Result<u64, MetadataError> {
        match self.chunk {
            Chunk::Bytes { element } => Ok(element),
            Chunk::Variable => {
                let reason = "objects must be encoded by the first filter";
                Err(MetadataError::invalid(member, reason))
            }
            Chunk::Elements(elements) => {
                let configuration = match elements.has_order() {
                    true if elements.big_endian => json!({ "endian": "big" }),
                    true => json!({ "endian": "little" }),
                    false => Value::Null,
                };
                self.chain.push(codec("bytes", configuration));
                self.chunk = Chunk::Bytes { element: elements.size };
                Ok(elements.size)
            }
        }
    }
}

/// The `blosc` codec, which in version 3 names its shuffle and the size of elements.
fn blosc(step: &Step<'_>, element: u64) -> Result<CodecSpec, MetadataError> {
    // blosc treats elements too large for its header as single bytes.
    let size = match step.get("typesize") {
        Some(_) => u64::try_from(step.integer("typesize", 1)?).unwrap_or(1),
        None => element,
    };
    let size = if (1..=255).contains(&size) { size } else { 1 };
    let shuffle = match step.integer("shuffle", 1)? {
        -1 if size == 1 => "bitshuffle",
        0 => "noshuffle",
        -1 | 1 => "shuffle",
        2 => "bitshuffle",
        _ => return Err(step.invalid("shuffle", "must be -1, 0, 1 or 2")),
    };
    let cname = step.get("cname").cloned().unwrap_or_else(|| json!("lz4"));
    Ok(codec(
        "blosc",
        json!({
            "typesize": size,
            "cname": cname,
            "clevel": step.integer("clevel", 5)?,
            "shuffle": shuffle,
            "blocksize": step.integer("blocksize", 0)?,
        }),
    ))
}
