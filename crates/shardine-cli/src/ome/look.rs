//! What `info` shows of a group with OME-Zarr metadata.

use std::io::{self, Write};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use shardine::ome::{OmeMetadata, SystemRef};
use shardine::zarr::ZarrFormat;
use shardine::{Child, DataSet, Engine, Error, Group, Node};

use super::image::{self, ArrayFacts, LevelFacts, Scan};
use super::{kind, plate, words};
use crate::failure::Failure;
use crate::info::{child_words, consolidated_words, describe_group, format_name, line, summary};
use crate::units;

/// The group of the label images of an image.
const LABELS: &str = "labels";

/// The group beside the images that bioformats2raw made.
const OME: &str = "OME";

/// The most label images, series and fields that are listed for display.
const LISTED: usize = 50;

/// What the metadata of a group says.
pub enum Look {
    /// Nothing of OME-Zarr.
    Plain,
    /// Something that cannot be understood, and why.
    NotUnderstood(String),
    /// What it is.
    Ome(Box<OmeInfo>),
}

/// A group with OME-Zarr metadata.
pub struct OmeInfo {
    metadata: OmeMetadata,
    format: ZarrFormat,
    /// The nodes below it; `None` if the store cannot list.
    children: Option<Vec<Child>>,
    levels: Vec<LevelFacts>,
    labels: Vec<Below>,
    series: Vec<Below>,
}

/// An image below the group.
struct Below {
    path: String,
    /// What it is, or why it cannot be read.
    content: Result<BelowContent, String>,
}

struct BelowContent {
    metadata: OmeMetadata,
    /// Its finest level, if that was read.
    finest: Option<ArrayFacts>,
}

impl Look {
    /// Looks at a group: one listing, the documents of its children, levels and label images. For a
    /// plate nothing is read of its wells. `all` also looks at series past those that are shown.
    pub fn at(
        engine: &Arc<Engine>,
        group: &Group,
        scan: Scan<'_>,
        all: bool,
    ) -> Result<Self, Failure> {
        let metadata = match group.ome() {
            Ok(None) => return Ok(Self::Plain),
            Ok(Some(metadata)) => metadata,
            Err(Error::Ome { source, .. }) => return Ok(Self::NotUnderstood(source.to_string())),
            Err(error) => return Err(error.into()),
        };
        let children = match group.children() {
            // Its metadata names what matters.
            Err(Error::UnlistedGroup { .. }) => None,
            children => Some(children?),
        };
        let mut info = OmeInfo {
            metadata,
            format: group.zarr_format(),
            children,
            levels: Vec::new(),
            labels: Vec::new(),
            series: Vec::new(),
        };
        info.levels = info.look_at_levels(group, scan)?;
        info.labels = info.look_at_labels(engine, group)?;
        if info.metadata.bioformats2raw_layout.is_some() {
            info.series = info.look_at_series(engine, group, all)?;
        }
        Ok(Self::Ome(Box::new(info)))
    }
}

impl OmeInfo {
    /// A child that was opened already.
    fn child(&self, name: &str) -> Option<&Child> {
        self.children.iter().flatten().find(|child| child.name == name)
    }

    fn look_at_levels(&self, group: &Group, scan: Scan<'_>) -> Result<Vec<LevelFacts>, Failure> {
        let Some(image) = self.metadata.image() else { return Ok(Vec::new()) };
        let mut levels = Vec::new();
        for (number, level) in image.levels.iter().enumerate() {
            let facts = match self.child(&level.path).map(|child| &child.node) {
                Some(Ok(Node::Array(array))) => Ok(ArrayFacts::of(array, scan)?),
                Some(Err(error)) => Err(error.to_string()),
                _ => match group.array(number) {
                    Ok(array) => Ok(ArrayFacts::of(&array, scan)?),
                    Err(error) => Err(error.to_string()),
                },
            };
            levels.push(LevelFacts::new(image, number, facts));
        }
        Ok(levels)
    }

    /// The label images of an image, or of a group of labels: a read for each.
    fn look_at_labels(&self, engine: &Arc<Engine>, group: &Group) -> Result<Vec<Below>, Failure> {
        let opened;
        let labels = match (&self.metadata.labels, self.child(LABELS).map(|child| &child.node)) {
            (Some(_), _) => group,
            (None, Some(Ok(Node::Group(labels)))) => labels,
            (None, None) if self.children.is_none() && !self.metadata.images.is_empty() => {
                match Node::open(engine, &group.location().join(LABELS)?) {
                    Ok(Node::Group(labels)) => {
                        opened = labels;
                        &opened
                    }
                    Ok(Node::Array(_)) | Err(Error::NoNode { .. }) => return Ok(Vec::new()),
                    Err(error) => return Err(error.into()),
                }
            }
            _ => return Ok(Vec::new()),
        };
        let names = labels.ome().ok().flatten().and_then(|metadata| metadata.labels);
        let below =
            |path: String| Below { content: open_below(engine, labels, &path, false), path };
        Ok(names.unwrap_or_default().into_iter().map(below).collect())
    }

    /// The images that bioformats2raw made: two reads for each.
    fn look_at_series(
        &self,
        engine: &Arc<Engine>,
        group: &Group,
        all: bool,
    ) -> Result<Vec<Below>, Failure> {
        let opened;
        let listing = match self.child(OME).map(|child| &child.node) {
            Some(Ok(Node::Group(group))) => Some(group),
            None if self.children.is_none() => {
                match Node::open(engine, &group.location().join(OME)?) {
                    Ok(Node::Group(group)) => {
                        opened = group;
                        Some(&opened)
                    }
                    Ok(Node::Array(_)) | Err(Error::NoNode { .. }) => None,
                    Err(error) => return Err(error.into()),
                }
            }
            _ => None,
        };
        let listed = listing.and_then(|group| group.ome().ok().flatten()?.series);
        // Without a list they are numbered.
        let numbered = || (0..).map(|n: u64| n.to_string());
        let paths = listed
            .unwrap_or_else(|| numbered().take_while(|name| self.child(name).is_some()).collect());
        let most = if all { usize::MAX } else { LISTED };
        let look = |(number, path): (usize, String)| {
            let content = open_below(engine, group, &path, number < most);
            Below { path, content }
        };
        Ok(paths.into_iter().enumerate().map(look).collect())
    }

    /// Describes it in JSON, among the members of any group.
    pub fn describe(&self, group: &Group) -> Value {
        let mut description = describe_group(group, self.children.as_deref());
        let Value::Object(members) = &mut description else { return description };
        members.insert("format".to_owned(), json!("ome-zarr"));
        members.insert("ome".to_owned(), Value::Object(self.describe_ome()));
        description
    }

    fn describe_ome(&self) -> Map<String, Value> {
        let metadata = &self.metadata;
        let mut members = Map::new();
        members.insert("version".to_owned(), json!(metadata.version.to_string()));
        members.insert("kind".to_owned(), json!(kind(metadata)));
        image::describe(&mut members, metadata, &self.levels);
        let mut say = |name: &str, value: Value| members.insert(name.to_owned(), value);
        if metadata.image().is_some() || metadata.labels.is_some() {
            let names: Vec<&str> = self.labels.iter().map(|label| label.path.as_str()).collect();
            say("labels", json!(names));
            let prefix = if metadata.labels.is_some() { "" } else { "labels/" };
            let images = self.labels.iter().map(|label| label.describe(prefix));
            say("label_images", images.collect());
        }
        if let Some(plate) = &metadata.plate {
            say("plate", plate::describe(plate));
        }
        if let Some(well) = &metadata.well {
            let fields = well.images.iter();
            let fields =
                fields.map(|field| json!({ "path": field.path, "acquisition": field.acquisition }));
            say("well", json!({ "images": fields.collect::<Vec<_>>() }));
        }
        if let Some(layout) = &metadata.bioformats2raw_layout {
            let series: Vec<Value> = self.series.iter().map(|one| one.describe("")).collect();
            say("bioformats2raw", json!({ "layout": layout, "series": series }));
        }
        if let Some(series) = &metadata.series {
            say("series", json!(series));
        }
        if let Some(scene) = &metadata.scene {
            let transformations = scene.transformations.iter().map(|one| one.to_json());
            say(
                "scene",
                json!({
                    "coordinate_systems": scene.systems,
                    "transformations": transformations.collect::<Vec<_>>(),
                }),
            );
        }
        members
    }

    /// Describes it for display.
    pub fn write(&self, out: &mut dyn Write, url: &str, group: &Group) -> io::Result<()> {
        let metadata = &self.metadata;
        let what = match kind(metadata) {
            "label-image" => "label image",
            kind @ ("image" | "plate" | "well" | "scene" | "labels") => kind,
            "bioformats2raw" => "images",
            _ => "group",
        };
        line(out, what, url)?;
        // Other groups of 0.4 have no place for it.
        let states = matches!(what, "image" | "label image" | "plate" | "well" | "scene");
        let stated = match states && !metadata.states_version {
            true => ", which it does not state",
            false => "",
        };
        let layout = metadata.bioformats2raw_layout.as_ref();
        let layout = layout.map(|n| format!(", layout {n} of bioformats2raw")).unwrap_or_default();
        let zarr = format_name(self.format);
        line(out, "format", format!("OME-Zarr {}{stated} ({zarr}){layout}", metadata.version))?;
        image::write(out, metadata, &self.levels)?;
        if let Some(plate) = &metadata.plate {
            if let Some(name) = &plate.name {
                line(out, "name", name)?;
            }
            plate::write(out, plate)?;
        }
        self.write_well(out)?;
        let label = |label: &Below| label.words();
        write_below(out, "labels", &self.labels, &label)?;
        let series = |series: &Below| series.words();
        write_below(out, "series", &self.series, &series)?;
        if let Some(series) = metadata.series.as_ref().filter(|_| self.series.is_empty()) {
            line(out, "series", summary(series.iter()))?;
        }
        self.write_scene(out)?;
        self.write_others(out)?;
        if group.metadata().consolidated().is_some() {
            line(out, "consolidated", consolidated_words(group))?;
        }
        let attributes = group.metadata().attributes();
        let own = |name: &&String| !OmeMetadata::is_attribute(attributes, name);
        let own: Vec<&String> = attributes.keys().filter(own).collect();
        match own.is_empty() {
            true => Ok(()),
            false => line(
                out,
                "attributes",
                format!("{}, beside those of OME", summary(own.into_iter())),
            ),
        }
    }

    fn write_well(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(well) = &self.metadata.well else { return Ok(()) };
        line(out, "fields", well.images.len())?;
        let width = well.images.iter().map(|field| field.path.chars().count()).max().unwrap_or(0);
        for field in well.images.iter().take(LISTED) {
            let mut text = match self.child(&field.path) {
                Some(child) => child_words(child),
                None if self.children.is_some() => "is missing".to_owned(),
                None => "image".to_owned(),
            };
            if let Some(acquisition) = &field.acquisition {
                text.push_str(&format!(", acquisition {acquisition}"));
            }
            writeln!(out, "  {:<width$}  {text}", field.path)?;
        }
        write_more(out, well.images.len())
    }

    fn write_scene(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(scene) = &self.metadata.scene else { return Ok(()) };
        if !scene.systems.is_empty() {
            line(out, "systems", scene.systems.len())?;
            for system in scene.systems.iter().take(LISTED) {
                let axes: Vec<&str> = system.axes.iter().map(|axis| axis.name.as_str()).collect();
                writeln!(out, "  {}  {}", system.name, axes.join(", "))?;
            }
            write_more(out, scene.systems.len())?;
        }
        line(out, "transforms", scene.transformations.len())?;
        for one in scene.transformations.iter().take(LISTED) {
            let ends = format!("{} -> {}", system_words(&one.input), system_words(&one.output));
            let json = one.to_json();
            let kind = json.get("type").and_then(Value::as_str).unwrap_or_default();
            writeln!(out, "  {ends}  {kind}")?;
        }
        write_more(out, scene.transformations.len())
    }

    /// The nodes that the metadata does not tell of.
    fn write_others(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(children) = &self.children else {
            return line(out, "others", "unknown: this store cannot list");
        };
        let metadata = &self.metadata;
        let first = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
        let mut told: Vec<String> = Vec::new();
        told.extend(
            metadata.image().into_iter().flat_map(|image| &image.levels).map(|l| first(&l.path)),
        );
        told.extend(
            metadata.plate.iter().flat_map(|plate| &plate.wells).map(|well| first(&well.path)),
        );
        told.extend(
            metadata.plate.iter().flat_map(|plate| &plate.rows).map(|row| row.name.clone()),
        );
        told.extend(
            metadata.well.iter().flat_map(|well| &well.images).map(|field| first(&field.path)),
        );
        told.extend(self.series.iter().map(|one| first(&one.path)));
        if !self.series.is_empty() {
            told.push(OME.to_owned());
        }
        match metadata.labels.is_some() {
            true => told.extend(self.labels.iter().map(|label| first(&label.path))),
            false if !self.labels.is_empty() => told.push(LABELS.to_owned()),
            false => {}
        }
        let others: Vec<&Child> =
            children.iter().filter(|child| !told.contains(&child.name)).collect();
        if others.is_empty() {
            return Ok(());
        }
        line(out, "others", others.len())?;
        let width = others.iter().map(|child| child.name.chars().count()).max().unwrap_or(0);
        for child in others {
            writeln!(out, "  {:<width$}  {}", child.name, child_words(child))?;
        }
        Ok(())
    }
}

impl Below {
    fn words(&self) -> String {
        match &self.content {
            Err(message) => format!("cannot be read: {message}"),
            Ok(BelowContent { metadata, finest }) => {
                let mut text = words(metadata);
                if let Some(finest) = finest {
                    let shape = units::shape(&finest.shape);
                    text.push_str(&format!(", {shape} {}", finest.data_type.name()));
                }
                let name = metadata.image().and_then(|image| image.name.as_deref());
                if let Some(name) = name.filter(|name| *name != self.path && !name.is_empty()) {
                    text.push_str(&format!(", \"{name}\""));
                }
                text
            }
        }
    }

    fn describe(&self, prefix: &str) -> Value {
        let path = format!("{prefix}{}", self.path);
        match &self.content {
            Err(message) => json!({ "name": self.path, "path": path, "message": message }),
            Ok(BelowContent { metadata, finest }) => json!({
                "name": metadata.image().and_then(|image| image.name.as_ref()).unwrap_or(&self.path),
                "path": path,
                "levels": metadata.image().map_or(0, |image| image.levels.len()),
                "shape": finest.as_ref().map(|finest| &finest.shape),
                "dtype": finest.as_ref().map(|finest| finest.data_type.to_json()),
            }),
        }
    }
}

/// The metadata of an image below a group, and if wanted its finest level, as far as that can be
/// opened.
fn open_below(
    engine: &Arc<Engine>,
    group: &Group,
    path: &str,
    with_finest: bool,
) -> Result<BelowContent, String> {
    let open = || Node::open(engine, &group.location().join(path)?);
    match open().map_err(|error| error.to_string())? {
        Node::Array(_) => Err("it is an array, not an image".to_owned()),
        Node::Group(group) => match group.ome().map_err(|error| error.to_string())? {
            Some(metadata) => {
                let finest = if with_finest { group.array(0).ok() } else { None };
                let finest = finest.and_then(|array| ArrayFacts::of(&array, &|_| Ok(None)).ok());
                Ok(BelowContent { metadata, finest })
            }
            None => Err("it has no OME-Zarr metadata".to_owned()),
        },
    }
}

/// A list of images, of which the first are shown.
fn write_below(
    out: &mut dyn Write,
    name: &str,
    below: &[Below],
    words: &dyn Fn(&Below) -> String,
) -> io::Result<()> {
    if below.is_empty() {
        return Ok(());
    }
    line(out, name, below.len())?;
    let width = below.iter().map(|one| one.path.chars().count()).max().unwrap_or(0);
    for one in below.iter().take(LISTED) {
        writeln!(out, "  {:<width$}  {}", one.path, words(one))?;
    }
    write_more(out, below.len())
}

/// How many are not shown.
fn write_more(out: &mut dyn Write, count: usize) -> io::Result<()> {
    match count.saturating_sub(LISTED) {
        0 => Ok(()),
        more => writeln!(out, "  ... {more} more; --json lists all"),
    }
}

fn system_words(system: &Option<SystemRef>) -> String {
    match system {
        Some(SystemRef::Path { path: Some(path), name: Some(name) }) => format!("{path}: {name}"),
        Some(
            SystemRef::Path { path: Some(name), .. } | SystemRef::Path { name: Some(name), .. },
        ) => name.clone(),
        Some(SystemRef::Name(name)) => name.clone(),
        _ => "-".to_owned(),
    }
}
