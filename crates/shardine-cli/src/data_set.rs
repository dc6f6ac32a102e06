//! Describes data sets of any format by what all of them have.

use std::io::Write;

use serde_json::{Map, Value, json};
use shardine::zarr::metadata::codec_specs_to_json;
use shardine::{Array, DataSet, PartContent, SetKind, SetPart, codec_words};

use crate::dataset::no_array;
use crate::failure::Failure;
use crate::info::{self, Stored, chunks_in, describe_stored, line, raw_bytes, type_line};
use crate::{ome, units};

/// Looks at the stored objects of an array, if requested.
type Scan<'a> = &'a dyn Fn(&Array) -> Result<Option<Stored>, Failure>;

/// What a data set consists of, in one word.
pub fn kind_word(kind: SetKind) -> &'static str {
    match kind {
        SetKind::Array => "array",
        SetKind::Levels => "levels",
        SetKind::KeyValues => "values",
        _ => "group",
    }
}

/// A part on one line.
pub fn part_line(part: &SetPart) -> String {
    match &part.content {
        Ok(PartContent::Array(array)) => info::one_line(array),
        Ok(PartContent::Set(set)) => set_words(&**set),
        Ok(_) => "values by key".to_owned(),
        Err(error) => format!("cannot be read: {error}"),
    }
}

/// A data set in a few words.
pub fn set_words(set: &dyn DataSet) -> String {
    match ome::metadata_of(set) {
        Some(metadata) => ome::words(&metadata),
        None => kind_word(set.kind()).to_owned(),
    }
}

/// A part in JSON, of the set at a path below the URL.
pub fn describe_part(part: &SetPart, above: &str) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("name".to_owned(), json!(part.name));
    members.insert("path".to_owned(), json!(path_below(above, &part.name)));
    let kind = match &part.content {
        Ok(PartContent::Array(array)) => {
            members.insert("shape".to_owned(), json!(array.shape()));
            members.insert("dtype".to_owned(), array.data_type().to_json());
            members.insert("chunk_shape".to_owned(), json!(array.chunk_shape()));
            members.insert("shard_shape".to_owned(), json!(array.shard_shape()));
            "array"
        }
        Ok(PartContent::Set(set)) => {
            if let Some(metadata) = ome::metadata_of(&**set) {
                members.insert("ome".to_owned(), ome::describe_node(&metadata));
            }
            kind_word(set.kind())
        }
        Ok(_) => "values",
        Err(error) => {
            members.insert("message".to_owned(), json!(error.to_string()));
            "error"
        }
    };
    members.insert("kind".to_owned(), json!(kind));
    members
}

/// The path of a part below the URL.
pub fn path_below(above: &str, name: &str) -> String {
    if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") }
}

/// Describes a data set in JSON.
pub fn describe(set: &dyn DataSet, scan: Scan<'_>) -> Result<Value, Failure> {
    let mut members = Map::new();
    let mut say = |name: &str, value: Value| members.insert(name.to_owned(), value);
    say("kind", json!(kind_word(set.kind())));
    say("format", json!(set.format()));
    say("formats", json!([set.format()]));
    say("url", json!(set.location().to_string()));
    for (name, value) in set.facts() {
        say(&name.replace(' ', "_"), value);
    }
    match set.kind() {
        SetKind::KeyValues => return Err(no_array(set, set.location())),
        SetKind::Array => {
            let array = set.array(0)?;
            say("shape", json!(array.shape()));
            say("dtype", array.data_type().to_json());
            say("dimension_names", json!(array.axis_names()));
            say("fill_value", array.data_type().fill_to_json(array.fill()));
            say("chunk_shape", json!(array.chunk_shape()));
            say("shard_shape", json!(array.shard_shape()));
            let per_shard = array.shard_shape().map(|shard| chunks_in(&array, shard));
            say("chunks_per_shard", json!(per_shard));
            say("codecs", codec_specs_to_json(array.codecs()));
            if let Some(stored) = scan(&array)? {
                say("stored", describe_stored(&array, &stored));
            }
        }
        _ => {
            let parts: Vec<Value> =
                set.parts()?.iter().map(|part| Value::Object(describe_part(part, ""))).collect();
            say("parts", Value::Array(parts));
        }
    }
    Ok(Value::Object(members))
}

/// Describes a data set for display.
pub fn write(
    out: &mut dyn Write,
    url: &str,
    set: &dyn DataSet,
    scan: Scan<'_>,
) -> Result<(), Failure> {
    if set.kind() == SetKind::KeyValues {
        return Err(no_array(set, set.location()));
    }
    line(out, kind_word(set.kind()), url)?;
    line(out, "format", set.format())?;
    if set.kind() == SetKind::Array {
        write_array(out, &set.array(0)?, scan)?;
    }
    for (name, value) in set.facts() {
        line(out, name, words(&value))?;
    }
    if set.kind() == SetKind::Array {
        return Ok(());
    }
    let parts = set.parts()?;
    line(out, "parts", parts.len())?;
    let width = parts.iter().map(|part| part.name.chars().count()).max().unwrap_or(0);
    for part in &parts {
        writeln!(out, "  {:<width$}  {}", part.name, part_line(part))?;
    }
    Ok(())
}

fn write_array(out: &mut dyn Write, array: &Array, scan: Scan<'_>) -> Result<(), Failure> {
    let names = array.axis_names().map(|names| {
        let names: Vec<&str> = names.iter().map(|name| name.as_deref().unwrap_or("-")).collect();
        format!(" ({})", names.join(", "))
    });
    line(out, "shape", format!("{}{}", units::shape(array.shape()), names.unwrap_or_default()))?;
    line(out, "type", type_line(array.data_type()))?;
    line(out, "fill value", array.data_type().format_element(&array.fill().0))?;
    let size = |shape: &[u64]| match raw_bytes(shape, array.data_type()) {
        Some(bytes) => format!("{}, {}", units::shape(shape), units::size(bytes)),
        None => units::shape(shape),
    };
    line(out, "chunk", size(array.chunk_shape()))?;
    if let Some(shard) = array.shard_shape() {
        let chunks = chunks_in(array, shard);
        let count = units::count(units::elements(&chunks), "chunk");
        line(out, "shard", format!("{}, {count} ({})", size(shard), units::shape(&chunks)))?;
    }
    line(out, "codecs", codec_words::show_chain(array.codecs()))?;
    if let Some(stored) = scan(array)? {
        info::write_stored(out, array, &stored)?;
    }
    Ok(())
}

/// A value of a document in words.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(words).collect::<Vec<_>>().join(" x "),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| format!("{} {}", name.replace('_', " "), words(value)));
            members.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}
