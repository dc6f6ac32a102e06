//! A short notation for codecs: `zstd:3`, `blosc:lz4:5:shuffle`. It is both accepted and displayed.
//!
//! ```
//! use shardine::{DataType, codec_words};
//! let words = ["transpose:1,0", "blosc:lz4:5:shuffle"].map(str::to_owned);
//! let codecs = codec_words::chain(&words, &DataType::parse_name("uint16")?)?;
//! assert_eq!(codec_words::show_chain(&codecs), "transpose:1,0 -> bytes -> blosc:lz4:5:shuffle");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shardine_codec::{CodecSpec, DataType, ElementSize, Kind};

/// The codecs of chunks, as requested.
///
/// ```
/// use shardine::{CodecChoice, DataType};
/// let choice: CodecChoice = serde_json::from_str(r#"{"words":["zstd:5"]}"#)?;
/// assert_eq!(choice, CodecChoice::Words(vec!["zstd:5".to_owned()]));
/// let codecs = choice.codecs(&DataType::parse_name("uint8")?)?;
/// assert_eq!(codecs[1].configuration["level"], 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CodecChoice {
    /// In the notation of [`codec_words`](self), which does not say how elements become bytes.
    Words(Vec<String>),
    /// The whole chain, in the form that metadata has.
    Codecs(Vec<CodecSpec>),
}

impl CodecChoice {
    /// The whole chain for elements of this type; an error if a word names no codec.
    pub fn codecs(&self, data_type: &DataType) -> Result<Vec<CodecSpec>, String> {
        match self {
            Self::Words(words) => chain(words, data_type),
            Self::Codecs(codecs) => Ok(codecs.clone()),
        }
    }
}

/// A codec that a word names, and where in the chain it belongs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Word {
    /// Before elements become bytes.
    OnElements(CodecSpec),
    /// After that.
    OnBytes(CodecSpec),
    /// No codec at all.
    None,
}

/// The codec used if none is requested.
pub const DEFAULT: &str = "zstd:3";

fn spec(name: &str, configuration: Value) -> CodecSpec {
    let configuration = match configuration {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    CodecSpec { name: name.to_owned(), configuration, must_understand: true }
}

/// The codec that a word such as `zstd:3` stands for, in an array of this type.
pub fn parse(word: &str, data_type: &DataType) -> Result<Word, String> {
    let mut parts = word.split(':');
    let name = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    let most = |n: usize, form: &str| {
        if rest.len() <= n { Ok(()) } else { Err(format!("\"{word}\" is not {form}")) }
    };
    let level = |at: usize, default: i64| match rest.get(at) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| format!("\"{text}\" in \"{word}\" is not a level")),
    };
    Ok(match name {
        "zstd" => {
            most(1, "zstd:LEVEL")?;
            Word::OnBytes(spec("zstd", json!({ "level": level(0, 3)?, "checksum": false })))
        }
        "gzip" => {
            most(1, "gzip:LEVEL")?;
            Word::OnBytes(spec("gzip", json!({ "level": level(0, 6)? })))
        }
        "blosc" => {
            most(3, "blosc:CNAME:LEVEL:SHUFFLE")?;
            let size = match data_type.size() {
                ElementSize::Fixed(size) => size,
                ElementSize::Variable => 1,
            };
            // Single bytes have nothing to shuffle but their bits.
            let shuffle = if size == 1 { "bitshuffle" } else { "shuffle" };
            Word::OnBytes(spec(
                "blosc",
                json!({
                    "cname": rest.first().unwrap_or(&"zstd"),
                    "clevel": level(1, 5)?,
                    "shuffle": rest.get(2).unwrap_or(&shuffle),
                    "typesize": size,
                    "blocksize": 0,
                }),
            ))
        }
        "lz4" => {
            most(1, "lz4:ACCELERATION")?;
            Word::OnBytes(spec("numcodecs.lz4", json!({ "acceleration": level(0, 1)? })))
        }
        "crc32c" => {
            most(0, "crc32c")?;
            Word::OnBytes(spec("crc32c", Value::Null))
        }
        "transpose" => {
            most(1, "transpose:ORDER")?;
            let order = rest.first().ok_or("transpose needs its order, such as transpose:2,1,0")?;
            let order: Vec<u64> = order
                .split(',')
                .map(|axis| axis.trim().parse())
                .collect::<Result<_, _>>()
                .map_err(|_| format!("\"{word}\" is not transpose:2,1,0 or the like"))?;
            Word::OnElements(spec("transpose", json!({ "order": order })))
        }
        "none" => {
            most(0, "none")?;
            Word::None
        }
        _ => {
            return Err(format!(
                "\"{word}\" is not zstd:LEVEL, gzip:LEVEL, blosc:CNAME:LEVEL:SHUFFLE, lz4, crc32c, \
                 transpose:ORDER or none; any other codec is given in its JSON form"
            ));
        }
    })
}

/// The codec that turns elements of this type into bytes.
pub fn to_bytes(data_type: &DataType) -> CodecSpec {
    match data_type.kind() {
        Kind::Text => spec("vlen-utf8", Value::Null),
        Kind::Bytes => spec("vlen-bytes", Value::Null),
        _ if data_type.swap_units().is_empty() => spec("bytes", Value::Null),
        _ => spec("bytes", json!({ "endian": "little" })),
    }
}

/// The whole chain of a chunk from its words, in order.
pub fn chain(words: &[String], data_type: &DataType) -> Result<Vec<CodecSpec>, String> {
    let mut codecs = Vec::new();
    let mut on_bytes = Vec::new();
    for word in words {
        match parse(word, data_type)? {
            Word::OnElements(_) if !on_bytes.is_empty() => {
                return Err(format!(
                    "{word} works on elements and must come before the other codecs"
                ));
            }
            Word::OnElements(codec) => codecs.push(codec),
            Word::OnBytes(codec) => on_bytes.push(codec),
            Word::None if words.len() > 1 => {
                return Err("none cannot be combined with other codecs".to_owned());
            }
            Word::None => {}
        }
    }
    codecs.push(to_bytes(data_type));
    codecs.append(&mut on_bytes);
    Ok(codecs)
}

/// The sharding codec for such chunks.
pub fn sharding(
    chunk: &[u64],
    codecs: &Value,
    index_codecs: Option<Value>,
    location: &str,
) -> CodecSpec {
    let index_codecs = index_codecs.unwrap_or_else(|| {
        json!([{ "name": "bytes", "configuration": { "endian": "little" } }, { "name": "crc32c" }])
    });
    let configuration = json!({
        "chunk_shape": chunk,
        "codecs": codecs,
        "index_codecs": index_codecs,
        "index_location": location,
    });
    spec("sharding_indexed", configuration)
}

/// A codec in the notation of [`parse`], where it can express it.
pub fn show(codec: &CodecSpec) -> String {
    let member = |name: &str| match codec.configuration.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(items)) => {
            Some(items.iter().map(Value::to_string).collect::<Vec<_>>().join(","))
        }
        Some(value) => Some(value.to_string()),
    };
    let words: &[&str] = match codec.name.as_str() {
        "zstd" | "gzip" => &["level"],
        "blosc" => &["cname", "clevel", "shuffle"],
        "numcodecs.lz4" => &["acceleration"],
        "transpose" => &["order"],
        "bytes" => &["endian"],
        "sharding_indexed" => &["chunk_shape"],
        _ if codec.configuration.is_empty() => &[],
        _ => return format!("{}{}", codec.name, Value::Object(codec.configuration.clone())),
    };
    let mut text = codec.name.strip_prefix("numcodecs.").unwrap_or(&codec.name).to_owned();
    for word in words {
        if let Some(value) = member(word)
            && (codec.name != "bytes" || value != "little")
        {
            text.push(':');
            text.push_str(&value);
        }
    }
    text
}

/// A chain on one line.
pub fn show_chain(codecs: &[CodecSpec]) -> String {
    codecs.iter().map(show).collect::<Vec<_>>().join(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chained(words: &[&str], name: &str) -> Result<Vec<CodecSpec>, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        chain(&words, &DataType::parse_name(name).unwrap())
    }

    #[test]
    fn what_is_shown_can_be_typed_again() {
        let words =
            ["transpose:2,1,0", "blosc:lz4:5:shuffle", "gzip:6", "lz4:1", "zstd:-3", "crc32c"];
        let codecs = chained(&words, "uint16").unwrap();
        let shown = show_chain(&codecs);
        assert_eq!(
            shown,
            "transpose:2,1,0 -> bytes -> blosc:lz4:5:shuffle -> gzip:6 -> lz4:1 -> zstd:-3 -> crc32c"
        );
        let shown: Vec<&str> = shown.split(" -> ").filter(|word| *word != "bytes").collect();
        assert_eq!(chained(&shown, "uint16").unwrap(), codecs);
    }

    #[test]
    fn a_choice_survives_its_journey_as_json() {
        let codecs = chained(&["transpose:1,0", "gzip:2", "crc32c"], "uint16").unwrap();
        for choice in [CodecChoice::Words(vec!["zstd:3".to_owned()]), CodecChoice::Codecs(codecs)] {
            let text = serde_json::to_string(&choice).unwrap();
            assert_eq!(serde_json::from_str::<CodecChoice>(&text).unwrap(), choice, "{text}");
        }
    }

    #[test]
    fn the_byte_order_is_written_only_where_there_is_one() {
        let bytes = |name: &str| chained(&["none"], name).unwrap().remove(0);
        assert_eq!(bytes("uint8").configuration.len(), 0);
        assert_eq!(bytes("uint16").configuration["endian"], "little");
        assert_eq!(bytes("string").name, "vlen-utf8");
        assert_eq!(bytes("bytes").name, "vlen-bytes");
    }

    #[test]
    fn blosc_knows_the_size_of_elements() {
        let codec = chained(&["blosc"], "uint32").unwrap().remove(1);
        assert_eq!(codec.configuration["typesize"], 4);
        assert_eq!(show(&codec), "blosc:zstd:5:shuffle");
        assert_eq!(show(&chained(&["blosc"], "uint8").unwrap()[1]), "blosc:zstd:5:bitshuffle");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for words in [
            &["zstd:x"][..],
            &["zstd:3:4"],
            &["transpose"],
            &["transpose:a"],
            &["lzma"],
            &["none", "zstd:3"],
            &["zstd:3", "transpose:0"],
            &[""],
        ] {
            assert!(chained(words, "uint8").is_err(), "{words:?}");
        }
    }
}
