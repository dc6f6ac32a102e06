//! The metadata of an array whose elements cannot be read here.

use std::fmt;

use serde_json::{Map, Value, json};
use shardine_codec::{CodecError, DataType, DataTypeError, from_spec};

use super::document::Document;
use super::node::check_node;
use super::{
    ArrayMetadata, ChunkKeyEncoding, MetadataError, ZarrFormat, codec_specs_from_json,
    codec_specs_to_json,
};

/// How deep shards may lie in shards, as in a layout.
const MAX_DEPTH: usize = 16;

/// What an array's metadata names that is not supported here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsupported {
    /// Its place in the document, such as `codecs[0]`.
    pub member: String,
    /// What it is: `codec`, `data type`, `chunk grid`, `chunk key encoding` or
    /// `storage transformer`.
    pub kind: &'static str,
    /// What it is called.
    pub name: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} \"{}\"", self.kind, self.name.escape_debug())
    }
}

/// The metadata of an array that names something which is not supported here.
///
/// All of the document is kept, and as much of it understood as does not depend on that.
#[derive(Debug, Clone)]
pub struct OpaqueMetadata {
    document: Document,
    attributes: Map<String, Value>,
    format: ZarrFormat,
    unsupported: Vec<Unsupported>,
    /// Metadata of arrays with the same grid and keys whose elements are texts of any length: the
    /// first also has the same shards, if some can be looked into.
    stand_ins: Vec<ArrayMetadata>,
}

impl OpaqueMetadata {
    /// The array that a `zarr.json` describes; `None` if it names nothing that is not supported, or
    /// describes no array.
    pub(crate) fn parse(zarr: &[u8]) -> Option<Self> {
        let document = Document::parse(zarr).ok()?;
        check_node(&document, "array").ok()?;
        let unsupported = unsupported(&document);
        if unsupported.is_empty() {
            return None;
        }
        let codecs = document.get("codecs").and_then(Value::as_array);
        let chains =
            [codecs.and_then(|codecs| opaque_chain(codecs, 0)), Some(vec![opaque_codec()])];
        let stand_ins = chains.into_iter().flatten().filter_map(|chain| {
            let mut document = document.clone();
            document.set("data_type", Some(json!("string")));
            document.set("fill_value", Some(json!("")));
            document.set("codecs", Some(Value::Array(chain)));
            ArrayMetadata::from_document(document).ok()
        });
        let stand_ins = stand_ins.collect();
        let attributes = document.attributes().clone();
        Some(Self { document, attributes, format: ZarrFormat::V3, unsupported, stand_ins })
    }

    /// The array that a `.zarray` describes, with the attributes of its `.zattrs`, and what is not
    /// supported of it; `None` if it is no JSON object.
    pub(crate) fn parse_v2(
        zarray: &[u8],
        zattrs: Option<&[u8]>,
        unsupported: Unsupported,
    ) -> Option<Self> {
        let document = Document::parse(zarray).ok()?;
        let mut opaque = document.clone();
        opaque.set("dtype", Some(json!("|O")));
        opaque.set("fill_value", Some(json!("")));
        opaque.set("filters", Some(json!([{ "id": "vlen-utf8" }])));
        opaque.set("compressor", None);
        let stand_in = ArrayMetadata::parse_v2(&opaque.to_bytes(), zattrs).ok();
        let attributes = stand_in.as_ref().map(|array| array.attributes().clone());
        Some(Self {
            document,
            attributes: attributes.unwrap_or_default(),
            format: ZarrFormat::V2,
            unsupported: vec![unsupported],
            stand_ins: stand_in.into_iter().collect(),
        })
    }

    /// The version of the documents.
    pub fn zarr_format(&self) -> ZarrFormat {
        self.format
    }

    /// What is not supported; at least one thing.
    pub fn unsupported(&self) -> &[Unsupported] {
        &self.unsupported
    }

    /// Why elements cannot be read, in one line.
    pub fn reason(&self) -> String {
        let named: Vec<String> = self.unsupported.iter().map(ToString::to_string).collect();
        let verb = if named.len() == 1 { "is" } else { "are" };
        format!(
            "{} {verb} not supported: the array can be copied and its metadata read, but not its elements",
            named.join(" and ")
        )
    }

    /// A member of the `zarr.json` or `.zarray`, as it stands there.
    pub fn get(&self, member: &str) -> Option<&Value> {
        self.document.get(member)
    }

    /// Whatever the user keeps with the array; empty if there are none.
    pub fn attributes(&self) -> &Map<String, Value> {
        &self.attributes
    }

    /// The whole document.
    pub fn to_json(&self) -> Value {
        self.document.to_json()
    }

    /// Arrays with the same grid and keys; see the field.
    pub(crate) fn stand_ins(&self) -> &[ArrayMetadata] {
        &self.stand_ins
    }
}

/// What a `zarr.json` names that is not supported.
fn unsupported(document: &Document) -> Vec<Unsupported> {
    let mut found = Vec::new();
    let mut note = |member: &str, kind, name: &str| {
        found.push(Unsupported { member: member.to_owned(), kind, name: name.to_owned() });
    };
    if let Some(json) = document.get("data_type")
        && let Err(DataTypeError::Unknown { .. }) = DataType::from_json(json)
    {
        note("data_type", "data type", &name_of(json));
    }
    if let Some(json) = document.get("chunk_grid")
        && name_of(json) != "regular"
    {
        note("chunk_grid", "chunk grid", &name_of(json));
    }
    if let Some(json) = document.get("chunk_key_encoding")
        && let Err(MetadataError::Unsupported { name, .. }) = ChunkKeyEncoding::from_json(json)
    {
        note("chunk_key_encoding", "chunk key encoding", &name);
    }
    let transformers = document.get("storage_transformers").and_then(Value::as_array);
    for (i, json) in transformers.into_iter().flatten().enumerate() {
        note(&format!("storage_transformers[{i}]"), "storage transformer", &name_of(json));
    }
    if let Some(json) = document.get("codecs") {
        unsupported_codecs(json, "codecs", 0, &mut found);
    }
    found
}

/// The name of an extension: a text, or the member `name` of an object.
fn name_of(json: &Value) -> String {
    let name = json.as_str().or_else(|| json.get("name")?.as_str());
    name.map_or_else(|| shardine_codec::shown(json), str::to_owned)
}

fn unsupported_codecs(json: &Value, at: &str, depth: usize, found: &mut Vec<Unsupported>) {
    let Ok(specs) = codec_specs_from_json(json) else { return };
    for (i, spec) in specs.iter().enumerate() {
        let member = format!("{at}[{i}]");
        if spec.name == "sharding_indexed" {
            for list in ["codecs", "index_codecs"] {
                if let (Some(inner), true) = (spec.configuration.get(list), depth < MAX_DEPTH) {
                    let at = format!("{member}.configuration.{list}");
                    unsupported_codecs(inner, &at, depth + 1, found);
                }
            }
        } else if is_unknown(spec) {
            found.push(Unsupported { member, kind: "codec", name: spec.name.clone() });
        }
    }
}

fn is_unknown(spec: &shardine_codec::CodecSpec) -> bool {
    spec.must_understand && matches!(from_spec(spec), Err(CodecError::Unknown { .. }))
}

/// A codec whose encoded bytes may have any length.
fn opaque_codec() -> Value {
    json!({ "name": "vlen-utf8" })
}

/// The same shards with chunks that are opaque; `None` if their indexes cannot be read, or there
/// are no shards.
fn opaque_chain(codecs: &[Value], depth: usize) -> Option<Vec<Value>> {
    let mut specs = codec_specs_from_json(&Value::Array(codecs.to_vec())).ok()?;
    let shard = specs.iter().position(|spec| spec.name == "sharding_indexed")?;
    let around = |(i, spec)| i == shard || !is_unknown(spec);
    if depth >= MAX_DEPTH || !specs.iter().enumerate().all(around) {
        return None;
    }
    let configuration = &mut specs.get_mut(shard)?.configuration;
    let mut unknown = Vec::new();
    unsupported_codecs(configuration.get("index_codecs")?, "", depth, &mut unknown);
    if !unknown.is_empty() {
        return None;
    }
    let inner = configuration.get("codecs").and_then(Value::as_array)?;
    let inner = opaque_chain(inner, depth + 1).unwrap_or_else(|| vec![opaque_codec()]);
    configuration.insert("codecs".to_owned(), Value::Array(inner));
    match codec_specs_to_json(&specs) {
        Value::Array(chain) => Some(chain),
        _ => None,
    }
}
