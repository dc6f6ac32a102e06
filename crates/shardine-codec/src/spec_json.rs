//! Lists of codecs, in a document and inside a codec's configuration.

use serde_json::{Map, Value};

use crate::CodecSpec;
use crate::error::ExtensionError;
use crate::extension::Extension;

/// The codecs that a list in a document names, each by a string or an object.
///
/// This does not check whether they are known or fit together. An empty list is refused: every list
/// has the codec that turns elements into bytes.
pub fn codec_specs_from_json(json: &Value) -> Result<Vec<CodecSpec>, ExtensionError> {
    let listed = json
        .as_array()
        .filter(|listed| !listed.is_empty())
        .ok_or_else(|| ExtensionError::invalid("codecs", "must be a list of at least one codec"))?;
    listed
        .iter()
        .enumerate()
        .map(|(index, codec)| codec_from_json(codec, &format!("codecs[{index}]")))
        .collect()
}

fn codec_from_json(json: &Value, member: &str) -> Result<CodecSpec, ExtensionError> {
    let extension = Extension::from_json(json, member)?;
    Ok(CodecSpec {
        name: extension.name.into(),
        configuration: extension.configuration.cloned().unwrap_or_default(),
        must_understand: extension.must_understand,
    })
}

impl TryFrom<Value> for CodecSpec {
    type Error = ExtensionError;

    fn try_from(json: Value) -> Result<Self, ExtensionError> {
        codec_from_json(&json, "codec")
    }
}

/// The list for a document: objects with `name`, with `configuration` unless it is empty and may be
/// omitted, and with `must_understand` only if it is false, so that readers of version 3.0
/// understand it.
pub fn codec_specs_to_json(codecs: &[CodecSpec]) -> Value {
    codecs.iter().cloned().map(Value::from).collect()
}

impl From<CodecSpec> for Value {
    fn from(codec: CodecSpec) -> Self {
        let CodecSpec { name, configuration, must_understand } = codec;
        // zarr-python requires a configuration for numcodecs codecs.
        let configured = !configuration.is_empty() || name.starts_with("numcodecs.");
        let mut members = Map::new();
        members.insert("name".into(), name.into());
        if configured {
            members.insert("configuration".into(), configuration.into());
        }
        if !must_understand {
            members.insert("must_understand".into(), false.into());
        }
        Self::Object(members)
    }
}
