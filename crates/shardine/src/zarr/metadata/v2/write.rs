//! Version 2 documents of metadata in terms of version 3.
//!
//! What is written is parsed again, and that is the array: so its chunks are stored as readers of
//! version 2 expect them, or it is refused.

use serde_json::{Map, Value, json};
use shardine_codec::{Codec, CodecSpec, DataType, FillValue, Kind, from_spec};

use super::data_type::{NumpyType, StoredType};
use super::fill;
use crate::zarr::metadata::array::{DIMENSIONS, FILL_VALUE};
use crate::zarr::metadata::document::Document;
use crate::zarr::metadata::{ArrayMetadata, GroupMetadata, MetadataError, Separator};

/// Ids of codecs that may be the compressor; all others are filters.
const COMPRESSORS: [&str; 7] = ["blosc", "zstd", "gzip", "zlib", "bz2", "lz4", "lzma"];

/// An array of version 2, and its documents.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct V2Array {
    /// What the documents say.
    pub metadata: ArrayMetadata,
    pub zarray: Vec<u8>,
    /// `None` if there are no attributes.
    pub zattrs: Option<Vec<u8>>,
}

/// What has no equivalent in version 2.
fn refused(member: &str, name: impl Into<String>, reason: impl Into<String>) -> MetadataError {
    MetadataError::NotInV2 { member: member.into(), name: name.into(), reason: reason.into() }
}

impl ArrayMetadata {
    /// The same array in version 2, with a chunk in each object.
    ///
    /// With `named`, the names of all dimensions become the attribute `_ARRAY_DIMENSIONS`, as xarray
    /// has it in version 2; then the attribute `_FillValue` is left out where the fill value says
    /// the same. Shards, most other codecs than those of numcodecs, and types that numpy does not
    /// have are refused.
    pub(crate) fn to_v2(
        &self,
        separator: Separator,
        named: bool,
    ) -> Result<V2Array, MetadataError> {
        if let Some((member, _)) = self.unknown().iter().next() {
            return Err(refused("member", member, "it is not known here"));
        }
        let (dtype, big_endian) = self.v2_type()?;
        let chain = Chain::of(self, dtype, big_endian)?;
        let mut zarray = Map::new();
        let mut set = |name: &str, value: Value| drop(zarray.insert(name.to_owned(), value));
        set("zarr_format", json!(2));
        set("shape", json!(self.shape()));
        set("chunks", json!(self.chunk_shape()));
        set("dtype", json!(chain.dtype));
        set("compressor", chain.compressor.unwrap_or(Value::Null));
        set("fill_value", fill_json(self.data_type(), self.fill()));
        set("order", json!(if chain.is_fortran { "F" } else { "C" }));
        set("filters", if chain.filters.is_empty() { Value::Null } else { json!(chain.filters) });
        set("dimension_separator", json!(separator.as_char().to_string()));
        let zarray = Document::new(zarray).to_bytes();
        let attributes = self.v2_attributes(named);
        let zattrs = (!attributes.members().is_empty()).then(|| attributes.to_bytes());
        let metadata = Self::parse_v2(&zarray, zattrs.as_deref())?;
        if metadata.data_type() != self.data_type() {
            return Err(refused("data_type", self.data_type().name(), "numpy has no such type"));
        }
        Ok(V2Array { metadata, zarray, zattrs })
    }

    /// numpy's type of the elements, in the byte order in which they are stored; `None` for objects.
    fn v2_type(&self) -> Result<(Option<NumpyType>, bool), MetadataError> {
        let is_bytes = |codec: &&CodecSpec| matches!(&*codec.name, "bytes" | "endian");
        let bytes = self.codecs().iter().find(is_bytes);
        let endian = bytes.and_then(|codec| codec.configuration.get("endian"));
        let big_endian = endian == Some(&json!("big"));
        let data_type = self.data_type();
        if matches!(data_type.kind(), Kind::Text | Kind::Bytes) {
            return Ok((None, big_endian));
        }
        let unknown = || refused("data_type", data_type.name(), "numpy has no such type");
        let text = data_type.numpy_descr().ok_or_else(unknown)?;
        let stored = StoredType::from_json(&json!(text), &[]).map_err(|_| unknown())?;
        let numpy = stored.numpy.ok_or_else(unknown)?;
        Ok((Some(NumpyType { big_endian: big_endian && numpy.has_order(), ..numpy }), big_endian))
    }

    /// The attributes, with the names of dimensions where version 2 has them.
    fn v2_attributes(&self, named: bool) -> Document {
        let mut attributes = self.document().part("attributes");
        let names: Option<Vec<&String>> =
            self.dimension_names().and_then(|names| names.iter().map(Option::as_ref).collect());
        let Some(names) = names.filter(|names| named && !names.is_empty()) else {
            return attributes;
        };
        attributes.set(DIMENSIONS, Some(json!(names)));
        let mask = fill::missing(self.data_type(), self.fill());
        if mask.is_some() && attributes.get(FILL_VALUE) == mask.as_ref() {
            attributes.set(FILL_VALUE, None);
        }
        attributes
    }
}

impl GroupMetadata {
    /// The `.zgroup` and, if there are attributes, the `.zattrs` of the same group.
    pub(crate) fn to_v2(&self) -> Result<(Vec<u8>, Option<Vec<u8>>), MetadataError> {
        if let Some((member, _)) = self.unknown().iter().next() {
            return Err(refused("member", member, "it is not known here"));
        }
        let members = Map::from_iter([("zarr_format".to_owned(), json!(2))]);
        let attributes = self.document().part("attributes");
        let zattrs = (!attributes.members().is_empty()).then(|| attributes.to_bytes());
        Ok((Document::new(members).to_bytes(), zattrs))
    }
}

/// A fill value in the form that readers of version 2 have always understood.
fn fill_json(data_type: &DataType, fill: &FillValue) -> Value {
    // Only version 3 tells one NaN from another.
    let plain = |json: Value| match &json {
        Value::String(text) if text.starts_with("0x") => json!("NaN"),
        _ => json,
    };
    let json = data_type.fill_to_json(fill);
    match (data_type.kind(), json) {
        (Kind::Float, json) => plain(json),
        (Kind::Complex, Value::Array(parts)) => parts.into_iter().map(plain).collect(),
        (Kind::DateTime | Kind::TimeDelta, Value::String(_)) => json!(i64::MIN),
        (_, json) => json,
    }
}

/// The codecs of an array, as version 2 has them.
struct Chain {
    dtype: String,
    is_fortran: bool,
    filters: Vec<Value>,
    compressor: Option<Value>,
}

impl Chain {
    fn of(
        array: &ArrayMetadata,
        dtype: Option<NumpyType>,
        big_endian: bool,
    ) -> Result<Self, MetadataError> {
        let descr = array.data_type().numpy_descr();
        let mut made = Self {
            dtype: match dtype {
                Some(numpy) => with_order(descr.as_deref().unwrap_or_default(), numpy),
                None => "|O".to_owned(),
            },
            is_fortran: false,
            filters: Vec::new(),
            compressor: None,
        };
        let mut order: Vec<usize> = (0..array.shape().len()).collect();
        let mut elements = dtype;
        for (index, codec) in array.codecs().iter().enumerate() {
            let member = format!("codecs[{index}]");
            let refuse = |reason: &str| refused(&member, &codec.name, reason);
            let id = id_of(&codec.name);
            match id {
                "transpose" if made.filters.is_empty() => {
                    let unknown = || refuse("its order is not a permutation");
                    let permutation = match from_spec(codec) {
                        Ok(Codec::ArrayToArray(codec)) => codec.permutation().map(<[_]>::to_vec),
                        _ => None,
                    };
                    let next = permutation.ok_or_else(unknown)?;
                    let next: Option<Vec<usize>> =
                        next.iter().map(|&k| order.get(k).copied()).collect();
                    order = next.ok_or_else(unknown)?;
                }
                "transpose" => return Err(refuse("it comes after a filter")),
                "delta" | "fixedscaleoffset" => {
                    let Some(input) = elements else {
                        return Err(refuse("it cannot work on elements of variable length"));
                    };
                    let output = output_type(codec, input, big_endian);
                    let output = output.ok_or_else(|| refuse("its types are not numpy's"))?;
                    let mut filter = with_id(id, codec);
                    // Times are stored as integers in their unit.
                    let kind = if "Mm".contains(input.kind) { 'i' } else { input.kind };
                    filter["dtype"] = json!(name_of(NumpyType { kind, ..input }));
                    if filter.get("astype").is_some_and(|astype| !astype.is_null()) {
                        filter["astype"] = json!(name_of(output));
                    }
                    made.filters.push(filter);
                    elements = Some(output);
                }
                "bitround" => made.filters.push(with_id(id, codec)),
                "packbits" if codec.name.starts_with("numcodecs.") => {
                    made.filters.push(with_id(id, codec));
                    elements = Some(NumpyType { kind: 'u', size: 1, big_endian: false });
                }
                "vlen-utf8" | "vlen-bytes" => made.filters.push(json!({ "id": id })),
                "bytes" | "endian" => {}
                "sharding_indexed" => return Err(refuse("version 2 has no shards")),
                _ => {
                    let size = elements.map_or(1, |numpy| numpy.size);
                    let made_of = of_bytes(id, codec, size);
                    made.filters.push(made_of.ok_or_else(|| {
                        refuse("it is not one of those that readers of version 2 know")
                    })?);
                }
            }
        }
        made.set_order(array, &order)?;
        let last = made.filters.last().and_then(|last| last["id"].as_str());
        if last.is_some_and(|id| COMPRESSORS.contains(&id)) {
            made.compressor = made.filters.pop();
        }
        Ok(made)
    }

    /// Sets in which order elements are stored; axes along which chunks have one element may be
    /// anywhere.
    fn set_order(&mut self, array: &ArrayMetadata, order: &[usize]) -> Result<(), MetadataError> {
        let is_long = |axis: &&usize| array.chunk_shape().get(**axis).is_some_and(|&n| n > 1);
        let long: Vec<usize> = order.iter().filter(is_long).copied().collect();
        self.is_fortran = !long.is_sorted();
        if self.is_fortran && !long.iter().rev().is_sorted() {
            let reason = "version 2 has elements in C or in Fortran order only";
            return Err(refused("codecs", "transpose", reason));
        }
        Ok(())
    }
}

/// The id that numcodecs has for a codec.
fn id_of(name: &str) -> &str {
    let name = name.strip_prefix("numcodecs.").unwrap_or(name);
    name.strip_prefix("https://codec.zarrs.dev/")
        .and_then(|name| name.split_once('/'))
        .map_or(name, |(_, name)| name)
}

/// The configuration of a codec with its id.
fn with_id(id: &str, codec: &CodecSpec) -> Value {
    let mut members = Map::from_iter([("id".to_owned(), json!(id))]);
    members.extend(codec.configuration.clone());
    Value::Object(members)
}

/// A codec whose input are bytes, of elements of this size.
fn of_bytes(id: &str, codec: &CodecSpec, element: u64) -> Option<Value> {
    let get = |name: &str| codec.configuration.get(name);
    Some(match id {
        // Older readers do not know that there may be a checksum.
        "zstd" => {
            let mut made = json!({ "id": id, "level": get("level").cloned().unwrap_or(json!(0)) });
            if get("checksum") == Some(&json!(true)) {
                made["checksum"] = json!(true);
            }
            made
        }
        "blosc" => {
            let shuffle = match get("shuffle") {
                Some(Value::String(word)) => match word.as_str() {
                    "noshuffle" => json!(0),
                    "shuffle" => json!(1),
                    "bitshuffle" => json!(2),
                    _ => return None,
                },
                Some(number) => number.clone(),
                None => json!(1),
            };
            // The size of elements is in each chunk, and numcodecs knows it when it encodes.
            json!({
                "id": id,
                "cname": get("cname").cloned().unwrap_or(json!("lz4")),
                "clevel": get("clevel").cloned().unwrap_or(json!(5)),
                "shuffle": shuffle,
                "blocksize": get("blocksize").cloned().unwrap_or(json!(0)),
            })
        }
        // Version 2 takes it for 4 unless it is given.
        "shuffle" => {
            json!({ "id": id, "elementsize": get("elementsize").cloned().unwrap_or(json!(element)) })
        }
        "gzip" | "zlib" | "bz2" | "lz4" | "lzma" | "crc32c" | "crc32" | "adler32"
        | "fletcher32" => with_id(id, codec),
        _ => return None,
    })
}

/// What a filter makes of elements, in the byte order in which all are stored.
fn output_type(codec: &CodecSpec, input: NumpyType, big_endian: bool) -> Option<NumpyType> {
    match codec.configuration.get("astype").filter(|astype| !astype.is_null()) {
        None => Some(input),
        Some(astype) => {
            let output = NumpyType::of_numbers(astype.as_str()?)?;
            Some(NumpyType { big_endian: big_endian && output.has_order(), ..output })
        }
    }
}

/// numpy's name of a number.
fn name_of(numpy: NumpyType) -> String {
    format!("{}{}{}", order_of(numpy), numpy.kind, numpy.size)
}

fn order_of(numpy: NumpyType) -> char {
    match (numpy.has_order(), numpy.big_endian) {
        (false, _) => '|',
        (true, false) => '<',
        (true, true) => '>',
    }
}

/// A name of numpy's with the byte order in which elements are stored.
fn with_order(descr: &str, numpy: NumpyType) -> String {
    let name = descr.trim_start_matches(['<', '>', '|', '=']);
    format!("{}{name}", order_of(numpy))
}
