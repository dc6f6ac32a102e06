//! From two data sets to the pairs of arrays in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::axes::matched;
use super::elements::Pair;
use super::images::{alike, level_axes};
use super::operand::{ElementFile, Operand};
use super::report::{AttributeDiffers, CompareSide, CompareSummary, Difference, DifferenceKind};
use super::{CompareError, CompareOptions};
use crate::jobs::frame::{JobContext, JobProgress};
use crate::precomputed::Volume;
use crate::set::MAX_DEPTH;
use crate::zarr::metadata::{DIMENSIONS, FILL_VALUE};
use crate::zarr::{ZarrFormat, attributes, formats_at, node_names};
use crate::{
    Array, ArrayNode, DataSet, Engine, Error, HeldArray, PartContent, SetKind, SetPart, open_in,
};

/// What is at a path of one data set.
pub(super) enum Content {
    Array {
        array: Box<Array>,
        /// The data set that the array is, or is a level of.
        of: ArrayOf,
    },
    Set(Box<dyn DataSet>),
    File(ElementFile),
    Keys {
        at: String,
    },
}

/// What tells more of an array than the array itself.
pub(super) enum ArrayOf {
    /// Its Zarr documents.
    Zarr,
    /// What its data set keeps of it.
    Other { format: &'static str, attributes: Map<String, Value> },
}

/// What is compared, and where it is.
struct Node {
    path: String,
    content: Content,
    /// Whether it is a level of an OME-Zarr image, which says what its axes are.
    is_level: bool,
}

impl Node {
    fn new(path: String, content: Content) -> Self {
        Self { path, content, is_level: false }
    }

    /// The same array as a level whose image names its axes.
    fn with_axes(self, names: &[Option<String>]) -> Self {
        let Content::Array { array, of } = self.content else { return self };
        let fits = array.axis_names().is_none() && names.len() == array.shape().len();
        let array = match fits {
            true => Box::new((*array).with_axis_names(Some(names.to_vec()))),
            false => array,
        };
        Self { content: Content::Array { array, of }, is_level: true, ..self }
    }
}

/// What elements are read from, kept where it is.
enum Held<'a> {
    Array(HeldArray<'a>),
    File(&'a ElementFile),
    Nothing,
}

impl<'a> Held<'a> {
    fn of(content: &'a Content) -> Result<Self, Error> {
        Ok(match content {
            Content::Array { array, .. } => Self::Array(array.hold()?),
            Content::File(file) => Self::File(file),
            Content::Set(_) | Content::Keys { .. } => Self::Nothing,
        })
    }

    fn operand(&self) -> Option<Operand<'_>> {
        match self {
            Self::Array(held) => Some(Operand::Array(held.array())),
            Self::File(file) => Some(Operand::File(file)),
            Self::Nothing => None,
        }
    }
}

pub(super) struct Run<'a> {
    context: &'a JobContext,
    options: &'a CompareOptions,
    tell: &'a mut dyn FnMut(Difference),
    summary: CompareSummary,
    /// The axes of the levels of images in A and in B, by their paths.
    axes: [LevelAxes; 2],
}

type LevelAxes = BTreeMap<String, Vec<Option<String>>>;

fn is_zarr(format: &str) -> bool {
    format.starts_with("zarr")
}

fn array_of(set: &dyn DataSet, level: Option<usize>) -> ArrayOf {
    match set.format() {
        format if is_zarr(format) => ArrayOf::Zarr,
        format => ArrayOf::Other { format, attributes: set.attributes(level) },
    }
}

impl Content {
    pub fn of_set(set: Box<dyn DataSet>) -> Result<Self, Error> {
        Ok(match set.kind() {
            SetKind::Array => {
                Self::Array { array: Box::new(set.array(0)?), of: array_of(&*set, None) }
            }
            SetKind::KeyValues => Self::Keys { at: set.location().to_string() },
            SetKind::Levels | SetKind::Group => Self::Set(set),
        })
    }

    /// A part of a data set; `level` is its number if it is a level.
    fn of_part(
        set: &dyn DataSet,
        content: PartContent,
        level: Option<usize>,
    ) -> Result<Self, Error> {
        match content {
            PartContent::Array(array) => {
                Ok(Self::Array { array: Box::new(array), of: array_of(set, level) })
            }
            PartContent::Set(set) => Self::of_set(set),
            PartContent::Keys(location) => Ok(Self::Keys { at: location.to_string() }),
        }
    }

    /// What it is, in one word.
    fn word(&self) -> &'static str {
        match self {
            Self::Array { .. } | Self::File(_) => "array",
            Self::Set(set) if set.kind() == SetKind::Levels => "levels",
            Self::Set(_) => "group",
            Self::Keys { .. } => "values",
        }
    }

    fn at(&self) -> String {
        match self {
            Self::Array { array, .. } => array.location().to_string(),
            Self::Set(set) => set.location().to_string(),
            Self::File(file) => file.name.clone(),
            Self::Keys { at } => at.clone(),
        }
    }

    /// One of its levels, with its name; `None` if it has no levels.
    fn level(&self, engine: &Arc<Engine>, level: usize) -> Result<Option<Node>, Error> {
        let Self::Set(set) = self else { return Ok(None) };
        let mut levels = match set.kind() {
            SetKind::Levels => parts(&**set, "")?,
            _ => match named_levels(&**set)? {
                Some(paths) => open_levels(engine, (&**set, ""), &paths)?,
                None => return Ok(None),
            },
        };
        let count = levels.len();
        if level >= count {
            let at = set.location().to_string();
            return Err(Error::NoLevel { at, level, levels: count });
        }
        Ok(Some(levels.swap_remove(level)))
    }
}

impl<'a> Run<'a> {
    pub fn new(
        context: &'a JobContext,
        options: &'a CompareOptions,
        tell: &'a mut dyn FnMut(Difference),
    ) -> Self {
        let (summary, axes) = (CompareSummary::default(), Default::default());
        Self { context, options, tell, summary, axes }
    }

    pub fn summary(&self) -> CompareSummary {
        self.summary
    }

    fn differ(&mut self, path: &str, path_b: &str, kind: DifferenceKind) {
        self.summary.differences += 1;
        (self.tell)(Difference { path: path.to_owned(), path_b: path_b.to_owned(), kind });
    }

    /// Compares two data sets as a whole.
    pub fn data_sets(&mut self, a: Content, b: Content) -> Result<(), Error> {
        let is_array =
            |content: &Content| matches!(content, Content::Array { .. } | Content::File(_));
        let wanted = match self.options.level {
            Some(level) => Some(level),
            // An array is compared with the finest level.
            None if is_array(&a) != is_array(&b) => Some(0),
            None => None,
        };
        let whole = |content| Node::new(String::new(), content);
        let Some(wanted) = wanted else { return self.nodes(whole(a), whole(b), 0) };
        let engine = self.context.engine();
        let (in_a, in_b) = (a.level(engine, wanted)?, b.level(engine, wanted)?);
        if self.options.level.is_some() && in_a.is_none() && in_b.is_none() {
            return Err(CompareError::NoLevels { a: a.at(), b: b.at() }.into());
        }
        self.nodes(in_a.unwrap_or_else(|| whole(a)), in_b.unwrap_or_else(|| whole(b)), 0)
    }

    fn nodes(&mut self, a: Node, b: Node, depth: usize) -> Result<(), Error> {
        self.context.check()?;
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep { at: a.content.at(), most: MAX_DEPTH });
        }
        for node in [&a, &b] {
            if let Content::Keys { at } = &node.content {
                return Err(CompareError::KeyValues { at: at.clone() }.into());
            }
        }
        match (&a.content, &b.content) {
            (Content::Set(in_a), Content::Set(in_b)) => {
                self.set_attributes((&a.path, &**in_a), (&b.path, &**in_b))?;
                for (axes, (path, set)) in
                    self.axes.iter_mut().zip([(&a.path, in_a), (&b.path, in_b)])
                {
                    axes.extend(axes_of_levels(&**set, path)?);
                }
                let engine = self.context.engine();
                for (of_a, of_b) in pairs(engine, (&a.path, &**in_a), (&b.path, &**in_b))? {
                    let (of_a, of_b) = (self.known(of_a, 0), self.known(of_b, 1));
                    self.pair(of_a, of_b, depth + 1)?;
                }
                Ok(())
            }
            (Content::Set(_), _) | (_, Content::Set(_)) => {
                let (in_a, in_b) = (a.content.word(), b.content.word());
                self.differ(&a.path, &b.path, DifferenceKind::Node { a: in_a, b: in_b });
                Ok(())
            }
            _ => self.arrays(&a, &b),
        }
    }

    /// A node of A or B, with the names of its axes if an image says them.
    fn known(&self, node: Option<Node>, side: usize) -> Option<Node> {
        let node = node?;
        match self.axes.get(side).and_then(|axes| axes.get(&node.path)) {
            Some(names) => Some(node.with_axes(names)),
            None => Some(node),
        }
    }

    fn pair(&mut self, a: Option<Node>, b: Option<Node>, depth: usize) -> Result<(), Error> {
        let only = |side, node: &Node| DifferenceKind::OnlyIn { side, node: node.content.word() };
        match (a, b) {
            (Some(a), Some(b)) => self.nodes(a, b, depth)?,
            (Some(a), None) => self.differ(&a.path, "", only(CompareSide::A, &a)),
            (None, Some(b)) => self.differ(&b.path, &b.path, only(CompareSide::B, &b)),
            (None, None) => {}
        }
        Ok(())
    }

    fn arrays(&mut self, a: &Node, b: &Node) -> Result<(), Error> {
        // What is listed of an array must not be looked for in another one.
        let (held_a, held_b) = (Held::of(&a.content)?, Held::of(&b.content)?);
        let (Some(of_a), Some(of_b)) = (held_a.operand(), held_b.operand()) else { return Ok(()) };
        self.summary.arrays += 1;
        if !self.options.data_only {
            self.array_metadata(a, of_a, b, of_b)?;
        }
        let is_same_type = of_a.data_type() == of_b.data_type();
        if !is_same_type {
            let (a_type, b_type) = (of_a.data_type().clone(), of_b.data_type().clone());
            let kind = DifferenceKind::DataType { a: a_type, b: b_type };
            self.differ(&a.path, &b.path, kind);
        }
        let Some(axes) = matched(of_a.axes(), of_b.axes()) else {
            let (a_shape, b_shape) = (of_a.shape().to_vec(), of_b.shape().to_vec());
            self.differ(&a.path, &b.path, DifferenceKind::Shape { a: a_shape, b: b_shape });
            return Ok(());
        };
        if !is_same_type {
            return Ok(());
        }
        let context = self.context;
        let step = |done: u64, total: u64| {
            if context.is_watched() {
                context.report(JobProgress::steps(&a.path, done, total));
            }
        };
        let outcome = Pair::new(context, of_a, of_b, &axes).compare(&step)?;
        self.summary.elements = self.summary.elements.saturating_add(outcome.elements);
        self.summary.chunks_not_decoded += outcome.chunks_not_decoded;
        if let Some(found) = outcome.differ {
            self.summary.differing = self.summary.differing.saturating_add(found.count);
            self.differ(&a.path, &b.path, DifferenceKind::Elements(Box::new(found)));
        }
        Ok(())
    }

    /// Compares what is said of two arrays of one format.
    fn array_metadata(
        &mut self,
        a: &Node,
        of_a: Operand<'_>,
        b: &Node,
        of_b: Operand<'_>,
    ) -> Result<(), Error> {
        let (Content::Array { of: in_a, .. }, Content::Array { of: in_b, .. }) =
            (&a.content, &b.content)
        else {
            return Ok(());
        };
        let (Some(first), Some(second)) = (of_a.array(), of_b.array()) else { return Ok(()) };
        match (in_a, in_b) {
            (ArrayOf::Zarr, ArrayOf::Zarr) => {
                let fill = |array: &Array| array.data_type().fill_to_json(array.fill());
                let (fill_a, fill_b) = (fill(first), fill(second));
                if fill_a != fill_b && first.data_type() == second.data_type() {
                    let kind = DifferenceKind::FillValue { a: fill_a, b: fill_b };
                    self.differ(&a.path, &b.path, kind);
                }
                let (names_a, names_b) = (axis_names(first), axis_names(second));
                // An image says what axes are, even if its arrays do not.
                let is_said = names_a.is_null() && b.is_level || names_b.is_null() && a.is_level;
                if names_a != names_b && !is_said {
                    let kind = DifferenceKind::DimensionNames { a: names_a, b: names_b };
                    self.differ(&a.path, &b.path, kind);
                }
                let engine = self.context.engine();
                let of = |array: &Array, in_v3: bool| -> Result<Map<String, Value>, Error> {
                    let mut found = match in_v3 {
                        true => {
                            let node = ArrayNode::open(engine, array.location())?;
                            node.metadata().clone().into_v3().attributes().clone()
                        }
                        false => attributes(array.location())?,
                    };
                    // These are the names of the axes.
                    found.remove(DIMENSIONS);
                    Ok(found)
                };
                // To xarray the fill value of version 2 means what `_FillValue` means in version 3.
                let versions = (is_v2(first)?, is_v2(second)?);
                let (mut of_a, mut of_b) = (of(first, false)?, of(second, false)?);
                if versions == (true, false) && of_b.contains_key(FILL_VALUE) {
                    of_a = of(first, true)?;
                }
                if versions == (false, true) && of_a.contains_key(FILL_VALUE) {
                    of_b = of(second, true)?;
                }
                self.attributes(&a.path, &b.path, of_a, of_b);
            }
            (
                ArrayOf::Other { format: format_a, attributes: in_a },
                ArrayOf::Other { format: format_b, attributes: in_b },
            ) if format_a == format_b => {
                self.attributes(&a.path, &b.path, in_a.clone(), in_b.clone());
            }
            _ => {}
        }
        Ok(())
    }

    fn set_attributes(
        &mut self,
        (path_a, a): (&str, &dyn DataSet),
        (path_b, b): (&str, &dyn DataSet),
    ) -> Result<(), Error> {
        let comparable = a.format() == b.format() || is_zarr(a.format()) && is_zarr(b.format());
        if self.options.data_only || !comparable {
            return Ok(());
        }
        let (in_a, in_b) = alike(attributes_of_set(a)?, attributes_of_set(b)?);
        self.attributes(path_a, path_b, in_a, in_b);
        Ok(())
    }

    fn attributes(
        &mut self,
        path: &str,
        path_b: &str,
        a: Map<String, Value>,
        mut b: Map<String, Value>,
    ) {
        let mut found: BTreeMap<String, (Option<Value>, Option<Value>)> = BTreeMap::new();
        for (name, value) in a {
            let other = b.remove(&name);
            if other.as_ref() != Some(&value) {
                found.insert(name, (Some(value), other));
            }
        }
        found.extend(b.into_iter().map(|(name, value)| (name, (None, Some(value)))));
        if !found.is_empty() {
            let differs = |(name, (a, b))| AttributeDiffers { name, a, b };
            let found = found.into_iter().map(differs).collect();
            self.differ(path, path_b, DifferenceKind::Attributes(found));
        }
    }
}

/// Whether an array has metadata of Zarr version 2 alone.
fn is_v2(array: &Array) -> Result<bool, Error> {
    Ok(formats_at(array.location())? == [ZarrFormat::V2])
}

/// The names of an array's axes; null if none has one.
fn axis_names(array: &Array) -> Value {
    match array.axis_names() {
        Some(names) if names.iter().any(Option::is_some) => json!(names),
        _ => Value::Null,
    }
}

/// What the documents of a set say that is no packing of it, and not said of its arrays.
fn attributes_of_set(set: &dyn DataSet) -> Result<Map<String, Value>, Error> {
    if is_zarr(set.format()) {
        return attributes(set.location());
    }
    let Some(volume) = set.downcast_ref::<Volume>() else { return Ok(set.attributes(None)) };
    let mut info = volume.info().document().clone();
    for said_elsewhere in ["scales", "data_type", "num_channels"] {
        info.remove(said_elsewhere);
    }
    Ok(info)
}

fn below(path: &str, name: &str) -> String {
    match (path, name) {
        ("", name) => name.to_owned(),
        (path, "") => path.to_owned(),
        (path, name) => format!("{path}/{name}"),
    }
}

/// The parts of a set. One that cannot be opened is an error: nothing is known of it.
fn parts(set: &dyn DataSet, path: &str) -> Result<Vec<Node>, Error> {
    let levels = set.kind() == SetKind::Levels;
    let node = |(number, part): (usize, SetPart)| {
        let content = Content::of_part(set, part.content?, levels.then_some(number))?;
        Ok(Node::new(below(path, &part.name), content))
    };
    set.parts()?.into_iter().enumerate().map(node).collect()
}

/// The paths of the levels that the attributes of a group name, below it; `None` if they name none.
fn named_levels(set: &dyn DataSet) -> Result<Option<Vec<String>>, Error> {
    if !is_zarr(set.format()) {
        return Ok(None);
    }
    Ok(Some(set.levels()?).filter(|levels| !levels.is_empty()))
}

/// The names of the axes of levels, by path, as the attributes of a group say them.
fn axes_of_levels(set: &dyn DataSet, path: &str) -> Result<LevelAxes, Error> {
    if !is_zarr(set.format()) {
        return Ok(LevelAxes::new());
    }
    let found = level_axes(&attributes(set.location())?).into_iter();
    Ok(found.map(|(level, names)| (below(path, &level), names)).collect())
}

/// The levels of a group by their paths below it, in their order.
fn open_levels(
    engine: &Arc<Engine>,
    (group, path): (&dyn DataSet, &str),
    names: &[String],
) -> Result<Vec<Node>, Error> {
    let axes = axes_of_levels(group, path)?;
    let level = |name: &String| {
        let content = Content::of_set(open_in(engine, group.location().join(name)?)?)?;
        let node = Node::new(below(path, name), content);
        Ok(match axes.get(&node.path) {
            Some(names) => node.with_axes(names),
            None => node,
        })
    };
    names.iter().map(level).collect()
}

type NodePair = (Option<Node>, Option<Node>);

/// Which parts of two sets are to be compared with each other.
fn pairs(
    engine: &Arc<Engine>,
    (path_a, a): (&str, &dyn DataSet),
    (path_b, b): (&str, &dyn DataSet),
) -> Result<Vec<NodePair>, Error> {
    let (in_a, in_b) = (parts(a, path_a)?, parts(b, path_b)?);
    let levels = |set: &dyn DataSet| set.kind() == SetKind::Levels;
    Ok(match (levels(a), levels(b)) {
        (true, true) => in_order(in_a, in_b),
        (true, false) => by_level(engine, (a, in_a), (path_b, b, in_b))?,
        (false, true) => {
            let pairs = by_level(engine, (b, in_b), (path_a, a, in_a))?;
            pairs.into_iter().map(|(b, a)| (a, b)).collect()
        }
        (false, false) => by_name((path_a, in_a), (path_b, in_b)),
    })
}

fn in_order(a: Vec<Node>, b: Vec<Node>) -> Vec<NodePair> {
    let (mut a, mut b) = (a.into_iter(), b.into_iter());
    let next = || match (a.next(), b.next()) {
        (None, None) => None,
        pair => Some(pair),
    };
    std::iter::from_fn(next).collect()
}

fn by_name((path_a, a): (&str, Vec<Node>), (path_b, b): (&str, Vec<Node>)) -> Vec<NodePair> {
    let name = |path: &str, node: &Node| {
        node.path.strip_prefix(path).unwrap_or(&node.path).trim_start_matches('/').to_owned()
    };
    let mut nodes: BTreeMap<String, NodePair> = BTreeMap::new();
    for node in a {
        let name = name(path_a, &node);
        nodes.entry(name).or_default().0 = Some(node);
    }
    for node in b {
        let name = name(path_b, &node);
        nodes.entry(name).or_default().1 = Some(node);
    }
    nodes.into_values().collect()
}

/// The levels of a data set against the arrays of a group.
fn by_level(
    engine: &Arc<Engine>,
    (set, levels): (&dyn DataSet, Vec<Node>),
    (path, group, nodes): (&str, &dyn DataSet, Vec<Node>),
) -> Result<Vec<NodePair>, Error> {
    let named = match named_levels(group)? {
        Some(paths) => Some(paths),
        None => {
            let parts = set.parts()?;
            let keys: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
            let names = node_names(&keys);
            let is_there = |name: &String| nodes.iter().any(|node| node.path == below(path, name));
            names.iter().all(is_there).then_some(names)
        }
    };
    let (arrays, others) = match named {
        Some(names) => {
            // A level may lie in a group of its own.
            let first = |name: &String| below(path, name.split('/').next().unwrap_or_default());
            let paths: Vec<String> = names.iter().map(first).collect();
            let others = nodes.into_iter().filter(|node| !paths.contains(&node.path)).collect();
            (open_levels(engine, (group, path), &names)?, others)
        }
        None => {
            let (mut arrays, others): (Vec<Node>, Vec<Node>) =
                nodes.into_iter().partition(|node| matches!(node.content, Content::Array { .. }));
            // Stable: those of one size stay in the order of their names.
            arrays.sort_by_key(|node| std::cmp::Reverse(elements(&node.content)));
            (arrays, others)
        }
    };
    let mut pairs = in_order(levels, arrays);
    pairs.extend(others.into_iter().map(|other| (None, Some(other))));
    Ok(pairs)
}

fn elements(content: &Content) -> u128 {
    match content {
        Content::Array { array, .. } => {
            array.shape().iter().fold(1u128, |n, &len| n.saturating_mul(u128::from(len)))
        }
        _ => 0,
    }
}
