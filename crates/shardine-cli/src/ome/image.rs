//! An image for display: its axes, levels, channels and labels.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use shardine::ome::{AxisRole, Channel, Image, LevelPlacement, OmeMetadata};
use shardine::{Array, DataType, codec_words};

use super::table::{along_axes, number, sign, write_table};
use crate::failure::Failure;
use crate::info::{Stored, describe_stored, line, type_line};
use crate::units;

/// Looks at the stored objects of an array, if requested.
pub type Scan<'a> = &'a dyn Fn(&Array) -> Result<Option<Stored>, Failure>;

/// A level, as far as it is known.
#[derive(Debug)]
pub struct LevelFacts {
    path: String,
    placement: Option<LevelPlacement>,
    /// Its array, or why it cannot be opened.
    array: Result<ArrayFacts, String>,
}

/// An array, without its handle.
#[derive(Debug)]
pub struct ArrayFacts {
    pub shape: Vec<u64>,
    pub data_type: DataType,
    chunk: Vec<u64>,
    shard: Option<Vec<u64>>,
    codecs: String,
    /// What is stored of it, in JSON.
    stored: Option<Value>,
}

impl ArrayFacts {
    pub fn of(array: &Array, scan: Scan<'_>) -> Result<Self, Failure> {
        let stored = scan(array)?.map(|stored| describe_stored(array, &stored));
        Ok(Self {
            shape: array.shape().to_vec(),
            data_type: array.data_type().clone(),
            chunk: array.chunk_shape().to_vec(),
            shard: array.shard_shape().map(<[u64]>::to_vec),
            codecs: codec_words::show_chain(array.codecs()),
            stored,
        })
    }
}

impl LevelFacts {
    pub fn new(image: &Image, level: usize, array: Result<ArrayFacts, String>) -> Self {
        let path = image.levels.get(level).map(|level| level.path.clone()).unwrap_or_default();
        // A document that places nothing says nothing of the scale.
        let own = image.levels.get(level).is_some_and(|level| !level.transformations.is_empty());
        let says = own || !image.transformations.is_empty();
        let placement = image.placement(level).ok().filter(|_| says);
        Self { path, placement, array }
    }

    fn describe(&self) -> Value {
        let mut members = Map::new();
        let mut say = |name: &str, value: Value| members.insert(name.to_owned(), value);
        let array = self.array.as_ref().ok();
        say("path", json!(self.path));
        say("shape", json!(array.map(|array| &array.shape)));
        say("scale", json!(self.placement.as_ref().map(|placement| &placement.scale)));
        say("translation", json!(self.placement.as_ref().map(|placement| &placement.translation)));
        say("dtype", json!(array.map(|array| array.data_type.to_json())));
        say("chunk_shape", json!(array.map(|array| &array.chunk)));
        say("shard_shape", json!(array.and_then(|array| array.shard.as_ref())));
        match &self.array {
            Ok(ArrayFacts { stored: Some(stored), .. }) => {
                say("stored", stored.clone());
            }
            Ok(_) => {}
            Err(message) => {
                say("message", json!(message));
            }
        }
        Value::Object(members)
    }
}

/// An image and its levels in JSON.
pub fn describe(members: &mut Map<String, Value>, metadata: &OmeMetadata, levels: &[LevelFacts]) {
    let Some(image) = metadata.image() else { return };
    let axes: Vec<Value> = image
        .axes
        .iter()
        .map(|axis| json!({ "name": axis.name, "type": axis.kind, "unit": axis.unit }))
        .collect();
    let channels = metadata.omero.iter().flat_map(|omero| &omero.channels);
    let channels: Vec<Value> = channels
        .map(|channel| {
            let Channel { label, color, window, .. } = channel;
            json!({ "label": label, "color": color, "window": window })
        })
        .collect();
    for (name, value) in [
        ("name", json!(image.name)),
        ("axes", Value::Array(axes)),
        ("levels", levels.iter().map(LevelFacts::describe).collect()),
        ("channels", Value::Array(channels)),
    ] {
        members.insert(name.to_owned(), value);
    }
    if let Some(label) = &metadata.image_label {
        let source = label.source.as_ref().and_then(|source| source.image.as_ref());
        let label = json!({
            "colors": label.colors.as_ref().map_or(0, Vec::len),
            "properties": label.properties.as_ref().map_or(0, Vec::len),
            "source": source,
        });
        members.insert("image_label".to_owned(), label);
    }
}

/// An image and its levels for display.
pub fn write(out: &mut dyn Write, metadata: &OmeMetadata, levels: &[LevelFacts]) -> io::Result<()> {
    let Some(image) = metadata.image() else { return Ok(()) };
    if let Some(name) = &image.name {
        line(out, "name", name)?;
    }
    if metadata.images.len() > 1 {
        let others = metadata.images.len() - 1;
        line(out, "images", format!("{} in this group; the first is shown", others + 1))?;
    }
    let finest = levels.first().and_then(|level| level.array.as_ref().ok());
    if let Some(finest) = finest {
        line(out, "type", type_line(&finest.data_type))?;
    }
    line(out, "axes", axes_words(image))?;
    if let (Some(finest), Some(placement)) =
        (finest, levels.first().and_then(|level| level.placement.as_ref()))
    {
        write_extent(out, image, finest, placement)?;
    }
    if let Some(finest) = finest {
        line(out, "codecs", &finest.codecs)?;
    }
    write_label(out, metadata)?;
    write_levels(out, image, levels)?;
    write_channels(out, metadata)
}

/// The axes, those of one type and unit together: `c (channel), z, y, x (space, micrometer)`.
fn axes_words(image: &Image) -> String {
    let mut words = Vec::new();
    let mut axes = image.axes.iter().peekable();
    while let Some(axis) = axes.next() {
        let what: Vec<&str> =
            [&axis.kind, &axis.unit].into_iter().flatten().map(String::as_str).collect();
        let goes_on =
            axes.peek().is_some_and(|next| (&next.kind, &next.unit) == (&axis.kind, &axis.unit));
        words.push(match what.is_empty() || goes_on {
            true => axis.name.clone(),
            false => format!("{} ({})", axis.name, what.join(", ")),
        });
    }
    words.join(", ")
}

/// How much space the image covers, and where it begins.
fn write_extent(
    out: &mut dyn Write,
    image: &Image,
    finest: &ArrayFacts,
    placement: &LevelPlacement,
) -> io::Result<()> {
    let space: Vec<usize> = image
        .axes
        .iter()
        .enumerate()
        .filter(|(_, axis)| axis.role() == AxisRole::Space)
        .map(|(at, _)| at)
        .collect();
    let unit = space.first().and_then(|&at| image.axes[at].unit.as_deref());
    let alike = space.iter().all(|&at| image.axes[at].unit.as_deref() == unit);
    if let (Some(unit), true, true) = (unit, alike, finest.shape.len() == image.axes.len()) {
        let length = |at: usize| number(finest.shape[at] as f64 * placement.scale[at].abs());
        let lengths: Vec<String> = space.iter().map(|&at| length(at)).collect();
        let names: Vec<&str> = space.iter().map(|&at| image.axes[at].name.as_str()).collect();
        let text = format!("{} {} ({})", lengths.join(" x "), sign(unit), names.join(", "));
        line(out, "extent", text)?;
    }
    if placement.is_translated() {
        let text = along_axes(&placement.translation, &axis_units(image));
        line(out, "first voxel", format!("at {text}"))?;
    }
    Ok(())
}

fn axis_units(image: &Image) -> Vec<Option<&str>> {
    image.axes.iter().map(|axis| axis.unit.as_deref()).collect()
}

fn write_label(out: &mut dyn Write, metadata: &OmeMetadata) -> io::Result<()> {
    let Some(label) = &metadata.image_label else { return Ok(()) };
    let source = label.source.as_ref().and_then(|source| source.image.as_deref());
    let count = |n: usize, what: &str| match n {
        0 => format!("no {what}s"),
        n => units::count(n as u64, what),
    };
    let colors = count(label.colors.as_ref().map_or(0, Vec::len), "colour");
    // One for each value that is described.
    let described = match label.properties.as_ref().map_or(0, Vec::len) {
        0 => "no properties".to_owned(),
        n => format!("properties of {}", units::count(n as u64, "value")),
    };
    line(out, "labels of", source.unwrap_or("../../"))?;
    line(out, "values", format!("{colors}, {described}"))
}

fn write_levels(out: &mut dyn Write, image: &Image, levels: &[LevelFacts]) -> io::Result<()> {
    line(out, "levels", levels.len())?;
    let arrays = || levels.iter().filter_map(|level| level.array.as_ref().ok());
    let placed = levels.iter().any(|level| level.placement.is_some());
    let sharded = arrays().any(|array| array.shard.is_some());
    let counted = arrays().any(|array| array.stored.is_some());
    let mut head = vec!["path", "shape"];
    head.extend(placed.then_some("scale"));
    head.push("chunk");
    head.extend(sharded.then_some("shard"));
    if counted {
        head.extend(["stored", "ratio"]);
    }
    let axes = axis_units(image);
    let mut rows = Vec::new();
    for level in levels {
        let Ok(array) = &level.array else { continue };
        let mut row = vec![level.path.clone(), units::shape(&array.shape)];
        if placed {
            let scale = level.placement.as_ref().map(|placed| along_axes(&placed.scale, &axes));
            row.push(scale.unwrap_or_else(|| "-".to_owned()));
        }
        row.push(units::shape(&array.chunk));
        if sharded {
            row.push(array.shard.as_ref().map_or("-".to_owned(), |shard| units::shape(shard)));
        }
        if counted {
            let stored = array.stored.as_ref();
            let member = |name: &str| stored.and_then(|stored| stored.get(name));
            let bytes = member("bytes").and_then(Value::as_u64);
            row.push(bytes.map_or("-".to_owned(), units::size));
            let ratio = member("ratio").and_then(Value::as_f64);
            row.push(ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")));
        }
        rows.push(row);
    }
    if !rows.is_empty() {
        write_table(out, &head, &rows)?;
    }
    for level in levels {
        if let Err(message) = &level.array {
            writeln!(out, "  {}  cannot be read: {message}", level.path)?;
        }
    }
    let damaged = |array: &ArrayFacts| {
        array.stored.as_ref().and_then(|stored| stored.get("damaged_shards")?.as_u64()).unwrap_or(0)
    };
    match arrays().map(damaged).sum::<u64>() {
        0 => Ok(()),
        n => {
            let shards = units::count(n, "shard");
            line(out, "damaged", format!("{shards} with a damaged index; run `shardine verify`"))
        }
    }
}

fn write_channels(out: &mut dyn Write, metadata: &OmeMetadata) -> io::Result<()> {
    let channels = metadata.omero.as_ref().map_or(&[][..], |omero| &omero.channels);
    if channels.is_empty() {
        return Ok(());
    }
    line(out, "channels", channels.len())?;
    let width = |text: &dyn Fn(&Channel) -> usize| channels.iter().map(text).max().unwrap_or(0);
    let name = |channel: &Channel| channel.label.clone().unwrap_or_else(|| "-".to_owned());
    let names = width(&|channel| name(channel).chars().count());
    let numbers = (channels.len() - 1).to_string().len();
    for (at, channel) in channels.iter().enumerate() {
        let color = channel.color.as_ref().map_or("-".to_owned(), |color| format!("#{color}"));
        let mut text = format!("  {at:>numbers$}  {:<names$}  {color:<7}", name(channel));
        if let Some(window) = &channel.window {
            let range = |from: &Option<serde_json::Number>, to: &Option<serde_json::Number>| {
                Some(format!("{} to {}", from.as_ref()?, to.as_ref()?))
            };
            if let Some(shown) = range(&window.start, &window.end) {
                text.push_str(&format!("  shown from {shown}"));
            }
            if let Some(all) = range(&window.min, &window.max) {
                text.push_str(&format!(", values from {all}"));
            }
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}
