//! The metadata of an array.

use serde_json::{Map, Value, json};
use shardine_codec::{CodecSpec, DataType, FillValue, Kind};

use super::deviations::correct_array;
use super::document::Document;
use super::integers::integers;
use super::node::check_node;
use super::{
    ChunkKeyEncoding, MetadataError, ZarrFormat, codec_specs_from_json, codec_specs_to_json,
};
use shardine_codec::Extension;

const KNOWN: [&str; 11] = [
    "zarr_format",
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "attributes",
    "storage_transformers",
    "dimension_names",
];

/// An array's `zarr.json`, or its equivalent where the documents are those of version 2.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayMetadata {
    document: Document,
    format: ZarrFormat,
    shape: Vec<u64>,
    chunk_shape: Vec<u64>,
    data_type: DataType,
    fill: FillValue,
    codecs: Vec<CodecSpec>,
    key_encoding: ChunkKeyEncoding,
    dimension_names: Option<Vec<Option<String>>>,
    /// For version 2: the attribute with which xarray marks the missing value in version 3.
    mask: Option<Value>,
    /// Deviations from the specification.
    deviations: Vec<String>,
}

/// The parameters of a new array.
#[derive(Debug, Clone, PartialEq)]
pub struct NewArray {
    /// The length of each dimension.
    pub shape: Vec<u64>,
    /// The shape of the chunks that are objects: of the shards, if there are shards.
    pub chunk_shape: Vec<u64>,
    /// The type of the elements.
    pub data_type: DataType,
    /// The value of elements that were never written; zero if absent.
    pub fill: Option<FillValue>,
    /// The codecs, in encoding order.
    pub codecs: Vec<CodecSpec>,
    /// How the keys of chunks are formed.
    pub key_encoding: ChunkKeyEncoding,
    /// A name, or none, for each dimension.
    pub dimension_names: Option<Vec<Option<String>>>,
    /// The user's attributes.
    pub attributes: Map<String, Value>,
}

/// The attribute in which xarray keeps the names of dimensions in version 2.
pub(crate) const DIMENSIONS: &str = "_ARRAY_DIMENSIONS";

/// The attribute in which xarray keeps the missing value in version 3.
pub(crate) const FILL_VALUE: &str = "_FillValue";

impl ArrayMetadata {
    /// The most dimensions that an array may have.
    pub const MAX_RANK: usize = 64;

    /// The metadata of a new array, checked like one that is read.
    pub fn new(array: NewArray) -> Result<Self, MetadataError> {
        let NewArray { data_type, fill, codecs, .. } = array;
        let mut fill = fill.unwrap_or_else(|| data_type.default_fill());
        data_type.check_fill(&fill).map_err(fill_error)?;
        let mut fill_json = data_type.fill_to_json(&fill);
        if is_big_endian_fill(&data_type, &fill_json, &codecs) {
            turn_round(&data_type, &mut fill);
            fill_json = data_type.fill_to_json(&fill);
        }
        let document = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": array.shape,
            "data_type": data_type.to_json(),
            "chunk_grid": {
                "name": "regular", "configuration": { "chunk_shape": array.chunk_shape },
            },
            "chunk_key_encoding": array.key_encoding.to_json(),
            "fill_value": fill_json,
            "codecs": codec_specs_to_json(&codecs),
            "attributes": array.attributes,
        });
        let Value::Object(mut members) = document else {
            return Err(MetadataError::NotJson { reason: "it is another JSON value".into() });
        };
        if let Some(names) = array.dimension_names {
            members.insert("dimension_names".into(), json!(names));
        }
        Self::from_document(Document::new(members))
    }

    /// The array that a document describes; the document is untrusted until all of it is checked.
    pub(super) fn from_document(mut document: Document) -> Result<Self, MetadataError> {
        check_node(&document, "array")?;
        let deviations = correct_array(&mut document);
        document.check_members(&KNOWN)?;
        let shape = integers(document.required("shape")?, "shape", 0)?;
        if shape.len() > Self::MAX_RANK {
            let reason =
                format!("has {} dimensions; at most {} are supported", shape.len(), Self::MAX_RANK);
            return Err(MetadataError::invalid("shape", reason));
        }
        let data_type = DataType::from_json(document.required("data_type")?)
            .map_err(|reason| MetadataError::DataType { member: "data_type".into(), reason })?;
        let chunk_shape = chunk_shape(document.required("chunk_grid")?, shape.len())?;
        let key_encoding = ChunkKeyEncoding::from_json(document.required("chunk_key_encoding")?)?;
        let codecs = codec_specs_from_json(document.required("codecs")?)?;
        let fill_json = document.required("fill_value")?;
        let mut fill = data_type.fill_from_json(fill_json).map_err(fill_error)?;
        if is_big_endian_fill(&data_type, fill_json, &codecs) {
            turn_round(&data_type, &mut fill);
        }
        check_storage_transformers(document.get("storage_transformers"))?;
        let dimension_names = dimension_names(document.get("dimension_names"), shape.len())?;
        Ok(Self {
            document,
            format: ZarrFormat::V3,
            shape,
            chunk_shape,
            data_type,
            fill,
            codecs,
            key_encoding,
            dimension_names,
            mask: None,
            deviations,
        })
    }

    /// Harmless deviations of the document from the specification, one sentence each. They are
    /// written correctly.
    pub fn deviations(&self) -> &[String] {
        &self.deviations
    }

    /// The metadata of an array whose documents are those of version 2, with their attributes.
    /// `mask` is how xarray marks the missing value in version 3, if it treats the fill value as
    /// missing.
    pub(super) fn new_v2(
        array: NewArray,
        attributes: Option<&Document>,
        mask: Option<Value>,
    ) -> Result<Self, MetadataError> {
        let mut metadata = Self::new(array)?;
        if let Some(attributes) = attributes {
            metadata.document.embed(&["attributes"], attributes)?;
        }
        metadata.format = ZarrFormat::V2;
        metadata.mask = mask;
        Ok(metadata)
    }

    /// The version of the documents that it was read from. Everything else here is in terms of
    /// version 3, whatever the version.
    pub fn zarr_format(&self) -> ZarrFormat {
        self.format
    }

    /// The equivalent in version 3: [`to_bytes`](Self::to_bytes) is its `zarr.json`.
    ///
    /// Follows xarray's conventions for version 3: the names of dimensions are in the metadata and
    /// no longer in the attribute `_ARRAY_DIMENSIONS`, and the missing value, which in version 2 is
    /// the fill value, is the attribute `_FillValue`.
    pub fn into_v3(self) -> Self {
        let document = self.v3_document();
        Self { document, format: ZarrFormat::V3, mask: None, ..self }
    }

    /// The version 3 document.
    fn v3_document(&self) -> Document {
        let mut document = self.document.clone();
        if self.format == ZarrFormat::V2 && self.dimension_names.is_some() {
            let mut attributes = document.attributes().clone();
            attributes.shift_remove(DIMENSIONS);
            if let Some(mask) = &self.mask {
                attributes.insert(FILL_VALUE.into(), mask.clone());
            }
            document.set("attributes", Some(Value::Object(attributes)));
        }
        document
    }

    pub(super) fn document(&self) -> &Document {
        &self.document
    }

    /// Members that are not understood and may be ignored.
    pub(super) fn unknown(&self) -> Map<String, Value> {
        self.document.without(&KNOWN)
    }

    /// The length of each dimension; any of them may be 0.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The shape of the chunks that are objects: of the shards, if there are shards. No length is
    /// 0, and the number of elements fits 64 bits.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.chunk_shape
    }

    /// The type of the elements.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The value of elements that were never written.
    pub fn fill(&self) -> &FillValue {
        &self.fill
    }

    /// The codecs, in encoding order; at least one. Only their form is checked.
    pub fn codecs(&self) -> &[CodecSpec] {
        &self.codecs
    }

    /// How the keys of chunks are formed.
    pub fn key_encoding(&self) -> &ChunkKeyEncoding {
        &self.key_encoding
    }

    /// The user's attributes; empty if there are none.
    pub fn attributes(&self) -> &Map<String, Value> {
        self.document.attributes()
    }

    /// A name, or none, for each dimension; `None` if the document has no such list.
    pub fn dimension_names(&self) -> Option<&[Option<String>]> {
        self.dimension_names.as_deref()
    }

    /// The whole document in its order, including members that are not understood.
    pub fn to_json(&self) -> Value {
        self.document.to_json()
    }

    /// The document's text, indented.
    ///
    /// Parsing it returns the same metadata, and everything that was read is in it unchanged,
    /// except [`deviations`](Self::deviations).
    pub fn to_bytes(&self) -> Vec<u8> {
        self.document.to_bytes()
    }

    /// Changes the shape, not the number of dimensions.
    pub fn set_shape(&mut self, shape: &[u64]) -> Result<(), MetadataError> {
        if shape.len() != self.shape.len() {
            let reason = format!(
                "has {} dimensions, but the array has {}, which cannot change",
                shape.len(),
                self.shape.len(),
            );
            return Err(MetadataError::invalid("shape", reason));
        }
        self.document.set("shape", Some(json!(shape)));
        self.shape = shape.to_vec();
        Ok(())
    }

    /// The same array stored in another way: everything else in the document stays, understood or
    /// not.
    pub fn with_layout(
        &self,
        chunk_shape: &[u64],
        codecs: &[CodecSpec],
        key_encoding: ChunkKeyEncoding,
    ) -> Result<Self, MetadataError> {
        let mut document = self.v3_document();
        let grid = json!({ "name": "regular", "configuration": { "chunk_shape": chunk_shape } });
        for (member, value) in [
            ("chunk_grid", grid),
            ("chunk_key_encoding", key_encoding.to_json()),
            ("codecs", codec_specs_to_json(codecs)),
        ] {
            // A member that means the same keeps its spelling.
            if member != "chunk_key_encoding" || key_encoding != self.key_encoding {
                document.set(member, Some(value));
            }
        }
        let mut fill = self.fill.clone();
        let fill_json = document.required("fill_value")?;
        if is_big_endian_fill(&self.data_type, fill_json, codecs)
            != is_big_endian_fill(&self.data_type, fill_json, &self.codecs)
        {
            turn_round(&self.data_type, &mut fill);
            document.set("fill_value", Some(self.data_type.fill_to_json(&fill)));
        }
        Self::from_document(document)
    }

    /// Names the dimensions; there is a name, or none, for each.
    pub fn set_dimension_names(
        &mut self,
        names: Option<Vec<Option<String>>>,
    ) -> Result<(), MetadataError> {
        let json = names.as_ref().map(|names| json!(names));
        dimension_names(json.as_ref(), self.shape.len())?;
        self.document.set("dimension_names", json);
        self.dimension_names = names;
        Ok(())
    }

    /// Replaces all attributes.
    pub fn set_attributes(&mut self, attributes: Map<String, Value>) {
        self.document.set("attributes", Some(Value::Object(attributes)));
    }
}

fn fill_error(reason: shardine_codec::DataTypeError) -> MetadataError {
    MetadataError::DataType { member: "fill_value".into(), reason }
}

fn chunk_shape(json: &Value, rank: usize) -> Result<Vec<u64>, MetadataError> {
    const GRID: &str = "chunk_grid";
    const SHAPE: &str = "chunk_grid.configuration.chunk_shape";
    let grid = Extension::needed(json, GRID)?;
    if grid.name != "regular" {
        return Err(MetadataError::Unsupported {
            member: GRID.into(),
            name: grid.name.into(),
            reason: "only \"regular\" is".into(),
        });
    }
    grid.check_configuration(GRID, &["chunk_shape"])?;
    let shape = grid
        .configuration
        .and_then(|members| members.get("chunk_shape"))
        .ok_or_else(|| MetadataError::missing(SHAPE))?;
    let shape = integers(shape, SHAPE, 1)?;
    if shape.len() != rank {
        let reason = format!("has {} lengths, but shape has {rank}", shape.len());
        return Err(MetadataError::invalid(SHAPE, reason));
    }
    if shape.iter().try_fold(1_u64, |count, &length| count.checked_mul(length)).is_none() {
        return Err(MetadataError::invalid(SHAPE, "a chunk would have 2^64 elements or more"));
    }
    Ok(shape)
}

fn check_storage_transformers(json: Option<&Value>) -> Result<(), MetadataError> {
    const MEMBER: &str = "storage_transformers";
    let Some(json) = json else { return Ok(()) };
    let listed = json.as_array().ok_or_else(|| MetadataError::invalid(MEMBER, "must be a list"))?;
    match listed.first() {
        None => Ok(()),
        Some(first) => {
            let member = format!("{MEMBER}[0]");
            let name = Extension::from_json(first, &member)?.name.into();
            let reason = "no storage transformer is; rewrite the array without them".into();
            Err(MetadataError::Unsupported { member, name, reason })
        }
    }
}

fn dimension_names(
    json: Option<&Value>,
    rank: usize,
) -> Result<Option<Vec<Option<String>>>, MetadataError> {
    const MEMBER: &str = "dimension_names";
    let listed = match json {
        // Not in the specification, but it has only one possible meaning, and some writers produce
        // it.
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(listed)) => listed,
        Some(_) => return Err(MetadataError::invalid(MEMBER, "must be a list")),
    };
    if listed.len() != rank {
        let reason = format!("has {} names, but shape has {rank} dimensions", listed.len());
        return Err(MetadataError::invalid(MEMBER, reason));
    }
    let name = |(index, name): (usize, &Value)| match name {
        Value::Null => Ok(None),
        Value::String(name) => Ok(Some(name.clone())),
        _ => Err(MetadataError::invalid(format!("{MEMBER}[{index}]"), "must be a string or null")),
    };
    listed.iter().enumerate().map(name).collect::<Result<_, _>>().map(Some)
}

/// Whether the fill value is base64 of a struct's encoded bytes, and the codecs encode big-endian.
fn is_big_endian_fill(data_type: &DataType, fill: &Value, codecs: &[CodecSpec]) -> bool {
    data_type.kind() == Kind::Struct
        && fill.is_string()
        && codecs.iter().any(|codec| encodes_big_endian(&codec.name, &codec.configuration))
}

/// Recurses as deep as shards are nested in the document, which its parser bounds.
fn encodes_big_endian(name: &str, configuration: &Map<String, Value>) -> bool {
    match name {
        "bytes" => configuration.get("endian") == Some(&Value::from("big")),
        "sharding_indexed" => configuration
            .get("codecs")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .any(|codec| match (codec.get("name"), codec.get("configuration")) {
                (Some(Value::String(name)), Some(Value::Object(inner))) => {
                    encodes_big_endian(name, inner)
                }
                _ => false,
            }),
        _ => false,
    }
}

fn turn_round(data_type: &DataType, fill: &mut FillValue) {
    for unit in data_type.swap_units() {
        if let Some(bytes) = fill.0.get_mut(unit.offset..unit.offset + unit.len) {
            bytes.reverse();
        }
    }
}
