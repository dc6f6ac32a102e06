//! What is asked of a store, and the rows that answer.

use std::cmp::Ordering;
use std::str::FromStr;
use std::sync::Arc;

use shardine_geometry::zarr_vectors::{ChunkCoords, Convention, Scalar, chunk_of};
use shardine_geometry::{
    GeometryBatch, GeometryError, GeometryKind, GeometrySchema, GeometrySource,
};

use super::attributes::{BinColumn, ObjectColumn, passes};
use super::batch::Batches;
use super::by_cell::ByCell;
use super::by_object::ByObject;
use super::cells::{CellView, Wanted};
use super::error::VectorsError;
use super::groups::Members;
use super::level::{ValueType, VectorLevel, find_width};
use super::links::LinkReader;
use super::parametric::Parametric;
use super::store::VectorStore;
use super::told::{AbsentChunk, Told};
use crate::Error;

/// What is asked of a store. By default all of level 0.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct VectorQuery {
    /// The level; 0 is the finest.
    pub level: u64,
    /// The smallest and the largest coordinates, both included.
    pub bounds: Option<(Vec<f64>, Vec<f64>)>,
    /// The ids of the objects.
    pub ids: Option<Vec<i64>>,
    /// The groups whose objects are wanted.
    pub groups: Option<Vec<u64>>,
    /// What attributes must be, all of them.
    pub filters: Vec<AttributeFilter>,
    /// Whether only vertices within the bounds are wanted, and not objects whole.
    pub clip: bool,
    /// Whether shapes given by numbers are wanted that a store has beside its vertices.
    pub parametric: bool,
    /// Whether it is an error if parts of the store contradict each other.
    pub strict: bool,
}

impl VectorQuery {
    /// All of level 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes another level.
    pub fn level(mut self, level: u64) -> Self {
        self.level = level;
        self
    }

    /// Takes only what lies between two corners, both included: points, or objects that have a
    /// vertex there.
    pub fn bounds(mut self, low: impl Into<Vec<f64>>, high: impl Into<Vec<f64>>) -> Self {
        self.bounds = Some((low.into(), high.into()));
        self
    }

    /// Takes only objects with these ids. It is an error if one does not exist.
    pub fn ids(mut self, ids: impl Into<Vec<i64>>) -> Self {
        self.ids = Some(ids.into());
        self
    }

    /// Takes only objects of these groups.
    pub fn groups(mut self, groups: impl Into<Vec<u64>>) -> Self {
        self.groups = Some(groups.into());
        self
    }

    /// Takes only points whose attribute passes, or objects that have such a vertex; a filter by an
    /// attribute of objects takes objects.
    pub fn filter(mut self, filter: AttributeFilter) -> Self {
        self.filters.push(filter);
        self
    }

    /// Takes only the vertices of objects that themselves lie within the bounds and pass all
    /// filters.
    pub fn clip(mut self, clip: bool) -> Self {
        self.clip = clip;
        self
    }

    /// Takes the shapes given by numbers that a store has beside its vertices. Of a store without
    /// vertices they are what any query takes.
    pub fn parametric(mut self, parametric: bool) -> Self {
        self.parametric = parametric;
        self
    }

    /// Makes it an error if parts of the store contradict each other although there is an answer:
    /// lists of chunks are compared with what is stored, and numbers of vertices and links with
    /// what is found. Costs a listing, or reading all indexes of shards, of each array with a cell
    /// for each chunk. Otherwise [`notes`](VectorRows::notes) say what was seen on the way.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }
}

/// What an attribute must be: `name>=3`, `kind=soma`.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeFilter {
    pub(super) name: String,
    pub(super) comparison: Comparison,
    pub(super) value: FilterValue,
    pub(super) text: String,
}

/// How an attribute is compared with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum FilterValue {
    Number(f64),
    Text(String),
}

const COMPARISONS: [(&str, Comparison); 6] = [
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("=", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl Comparison {
    pub(super) fn holds(self, order: Option<Ordering>) -> bool {
        let Some(order) = order else { return self == Self::NotEqual };
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

impl FromStr for AttributeFilter {
    type Err = VectorsError;

    fn from_str(text: &str) -> Result<Self, VectorsError> {
        let place = |sign: &&(&str, Comparison)| text.find(sign.0).unwrap_or(usize::MAX);
        // The leftmost sign; of two at one place the longer, which comes first.
        let found = COMPARISONS.iter().filter(|sign| text.contains(sign.0)).min_by_key(place);
        let split = found.and_then(|(sign, comparison)| {
            let (name, value) = text.split_once(sign)?;
            Some((name.trim(), *comparison, value.trim()))
        });
        let Some((name, comparison, value)) = split.filter(|(name, ..)| !name.is_empty()) else {
            let reason = format!("{text:?} is no condition such as \"size>=3\" or \"kind=soma\"");
            return Err(VectorsError::Question(reason));
        };
        let number = match value {
            "true" => Some(1.0),
            "false" => Some(0.0),
            value => value.parse().ok(),
        };
        Ok(Self {
            name: name.to_owned(),
            comparison,
            value: number.map_or_else(|| FilterValue::Text(value.to_owned()), FilterValue::Number),
            text: value.to_owned(),
        })
    }
}

/// The rows that answer a query, batch by batch.
#[derive(Debug)]
pub struct VectorRows {
    schema: GeometrySchema,
    rows: Rows,
}

#[derive(Debug)]
enum Rows {
    ByCell(ByCell),
    ByObject(ByObject),
    Parametric(Parametric),
}

impl VectorRows {
    pub(super) fn new(store: &VectorStore, query: &VectorQuery) -> Result<Self, Error> {
        if store.kind == GeometryKind::Parametric || query.parametric {
            let rows = Parametric::open(store, query)?;
            return Ok(Self { schema: rows.schema().clone(), rows: Rows::Parametric(rows) });
        }
        let level = store.level(query.level)?;
        let rank = store.root.axes.len();
        if let Some((low, high)) = &query.bounds
            && (low.len() != rank || high.len() != rank)
        {
            let reason = format!("the bounds must have {rank} axes, as the store has");
            return Err(store.wrong(VectorsError::Question(reason)));
        }
        if level.objects.is_none() && (query.ids.is_some() || query.groups.is_some()) {
            let reason = "the store has no objects that could be asked for".to_owned();
            return Err(store.wrong(VectorsError::Question(reason)));
        }
        let mut told = Told::new(&store.location, query.strict);
        store.notes.iter().chain(&level.notes).for_each(|note| told.note(note.as_str()));
        let memory = store.engine.memory_in_flight();
        let wanted = wanted(store, &level, rank, memory)?;
        let objects = match level.objects {
            Some(_) => ObjectColumn::read_all(store, query.level, &mut told)?,
            None => Vec::new(),
        };
        let bin = level.document.chunk_attribute.as_ref();
        let bin = bin.map(|(name, values)| BinColumn::new(name, values));
        let test = RowTest::new(store, &level, query, bin, &objects)?;
        let members = query.groups.as_ref();
        let members =
            members.map(|groups| Members::read(store, query.level, groups)).transpose()?;
        let selected = match &level.objects {
            None => None,
            Some(table) => {
                let mut rows = table.select(query.ids.as_deref(), members.as_ref(), memory)?;
                let filters = &test.object_filters;
                rows.retain(|(row, _)| {
                    filters.iter().all(|(at, filter)| objects[*at].passes(filter, *row))
                });
                Some(rows)
            }
        };
        let by_object = selected.is_some() && store.kind != GeometryKind::Points;
        if by_object && query.strict {
            // Objects say which chunks they have, so nothing else looks at the list.
            let doubt = level.doubts(&mut told)?;
            level.vertices.stored(doubt, &mut told)?;
        }
        let links = match store.kind.link_width() {
            0 => None,
            _ => LinkReader::open(store, query.level, wanted.rank, &level, &mut told)?,
        };
        let fields = links.as_ref().map(LinkReader::fields).unwrap_or_default();
        let bin = level.document.chunk_attribute.as_ref();
        let bin = bin.map(|(name, values)| BinColumn::new(name, values));
        let mut batches = Batches::new(store, &level, &wanted, bin, objects, fields);
        let in_pieces = query.clip && by_object && store.kind.link_width() == 0;
        if in_pieces {
            // Rows that follow each other need no longer be neighbours, so links say which are.
            batches.schema.kind = GeometryKind::Graph;
        }
        let schema = batches.schema.clone();
        let plan = Plan { level, wanted, test, batches, told, memory, links, kind: store.kind };
        let sequential =
            store.root.convention != Convention::Explicit && store.kind == GeometryKind::Skeletons;
        let whole = query.ids.is_none() && query.groups.is_none();
        let rows = match selected {
            Some(selected) if by_object => {
                Rows::ByObject(ByObject::new(plan, selected, query.clip, sequential, whole))
            }
            selected => Rows::ByCell(ByCell::new(plan, selected, whole)?),
        };
        Ok(Self { schema, rows })
    }

    /// What is worth knowing about how the rows were found, so far.
    pub fn notes(&self) -> &[String] {
        match &self.rows {
            Rows::ByCell(rows) => &rows.plan.told.notes,
            Rows::ByObject(rows) => &rows.plan.told.notes,
            Rows::Parametric(_) => &[],
        }
    }

    /// The chunks that were passed over so far because nothing is stored for them, although they
    /// are listed (`nonempty_chunks`).
    pub fn absent_chunks(&self) -> &[AbsentChunk] {
        match &self.rows {
            Rows::ByCell(rows) => &rows.plan.told.absent,
            Rows::ByObject(rows) => &rows.plan.told.absent,
            Rows::Parametric(_) => &[],
        }
    }

    /// Reads the next batch; `None` after the last. The same as
    /// [`next_batch`](GeometrySource::next_batch), with errors of this crate.
    pub fn read_batch(&mut self) -> Result<Option<GeometryBatch>, Error> {
        match &mut self.rows {
            Rows::ByCell(rows) => rows.next(),
            Rows::ByObject(rows) => rows.next(),
            Rows::Parametric(rows) => Ok(rows.next()),
        }
    }
}

impl GeometrySource for VectorRows {
    fn schema(&self) -> &GeometrySchema {
        &self.schema
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        self.read_batch().map_err(|error| GeometryError::Side(Box::new(error)))
    }
}

/// What both ways to read have in common.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) level: Arc<VectorLevel>,
    pub(super) wanted: Wanted,
    pub(super) test: RowTest,
    pub(super) batches: Batches,
    pub(super) told: Told,
    /// How much memory there is.
    pub(super) memory: u64,
    pub(super) links: Option<LinkReader>,
    pub(super) kind: GeometryKind,
}

impl Plan {
    /// How many bytes a vertex takes, with its attributes.
    pub(super) fn vertex_bytes(&self) -> u64 {
        let attributes = self.level.attributes.iter().zip(&self.wanted.widths);
        let attributes: usize =
            attributes.map(|(one, width)| one.values.stored.scalar.size() * width).sum();
        (self.level.row_size(self.wanted.rank) + attributes) as u64
    }
}

fn wanted(
    store: &VectorStore,
    level: &VectorLevel,
    rank: usize,
    memory: u64,
) -> Result<Wanted, Error> {
    let row = level.row_size(rank);
    // zarr-vectors says how many columns there are for points and lines only.
    let told = matches!(store.kind, GeometryKind::Points | GeometryKind::Lines);
    let width = |attribute: &super::level::VertexAttribute| {
        if told {
            return Ok(attribute.values.document.width.unwrap_or(attribute.values.stored.unit));
        }
        find_width(store, level, attribute, row)
    };
    let widths = level.attributes.iter().map(width).collect::<Result<_, Error>>()?;
    let tiles = level.document.fragments_tile && level.objects.is_none();
    Ok(Wanted { rank, fragments: level.fragments.is_some() && !tiles, widths, memory })
}

/// Which vertices a query takes.
#[derive(Debug)]
pub(super) struct RowTest {
    rank: usize,
    coordinate: Scalar,
    bounds: Option<(Vec<f64>, Vec<f64>)>,
    offset: Vec<f64>,
    /// The chunks of the two corners, in space.
    chunks: Option<(ChunkCoords, ChunkCoords)>,
    /// By attributes of vertices, and their numbers.
    vertex_filters: Vec<(usize, AttributeFilter)>,
    kinds: Vec<ValueType>,
    pub(super) object_filters: Vec<(usize, AttributeFilter)>,
    bin: Option<BinColumn>,
    bin_filters: Vec<AttributeFilter>,
}

impl RowTest {
    fn new(
        store: &VectorStore,
        level: &VectorLevel,
        query: &VectorQuery,
        bin: Option<BinColumn>,
        objects: &[ObjectColumn],
    ) -> Result<Self, Error> {
        let rank = store.root.axes.len();
        let offset = store.root.coordinate_offset.clone().unwrap_or_else(|| vec![0.0; rank]);
        let chunks = match &query.bounds {
            None => None,
            Some((low, high)) => {
                let chunk = |corner: &[f64]| {
                    let stored = corner.iter().zip(&offset).map(|(value, add)| value - add);
                    // A corner that is too far away to be numbered is beyond all chunks.
                    let clamped = stored
                        .zip(&level.chunk_shape)
                        .map(|(value, edge)| value.clamp(-8e15 * edge, 8e15 * edge));
                    chunk_of(clamped, &level.chunk_shape)
                };
                let wrong = || {
                    let reason = "the bounds must be numbers".to_owned();
                    store.wrong(VectorsError::Question(reason))
                };
                Some((chunk(low).ok_or_else(wrong)?, chunk(high).ok_or_else(wrong)?))
            }
        };
        let mut test = Self {
            rank,
            coordinate: level.coordinate,
            bounds: query.bounds.clone(),
            offset,
            chunks,
            vertex_filters: Vec::new(),
            kinds: level.attributes.iter().map(|one| one.values.clone()).collect(),
            object_filters: Vec::new(),
            bin,
            bin_filters: Vec::new(),
        };
        for filter in &query.filters {
            let name = filter.name.as_str();
            if let Some(at) = level.attributes.iter().position(|one| one.name == name) {
                test.vertex_filters.push((at, filter.clone()));
            } else if test.bin.as_ref().is_some_and(|bin| bin.name() == name) {
                test.bin_filters.push(filter.clone());
            } else if let Some(at) = objects.iter().position(|one| one.name() == name) {
                test.object_filters.push((at, filter.clone()));
            } else {
                let reason = format!("the level has no attribute {name:?}");
                return Err(store.wrong(VectorsError::Question(reason)));
            }
        }
        Ok(test)
    }

    /// Whether vertices are taken one by one.
    pub(super) fn tests_rows(&self) -> bool {
        self.bounds.is_some() || !self.vertex_filters.is_empty() || !self.bin_filters.is_empty()
    }

    /// Whether a chunk may have a vertex that is taken.
    pub(super) fn takes_chunk(&self, chunk: &[i64]) -> bool {
        let space = chunk.get(chunk.len().saturating_sub(self.rank)..).unwrap_or_default();
        let inside = self.chunks.as_ref().is_none_or(|(low, high)| {
            let axes = space.iter().zip(low.iter().zip(high));
            axes.clone().all(|(at, (low, high))| (low..=high).contains(&at))
        });
        inside && self.takes_bin(chunk)
    }

    fn takes_bin(&self, chunk: &[i64]) -> bool {
        let (Some(bin), Some(first)) = (&self.bin, chunk.first()) else { return true };
        self.bin_filters.iter().all(|filter| bin.passes(filter, *first))
    }

    /// Whether the bin of a chunk has a value.
    pub(super) fn knows_bin(&self, chunk: &[i64]) -> bool {
        let Some(bin) = &self.bin else { return true };
        chunk.first().is_some_and(|first| bin.has(*first))
    }

    /// Says for each vertex of a chunk whether it is taken.
    pub(super) fn mask(&self, cell: &CellView<'_>, mask: &mut Vec<bool>) {
        mask.clear();
        mask.resize(cell.rows, self.takes_bin(cell.chunk));
        if let Some((low, high)) = &self.bounds {
            let rows = cell.vertices.rows(0, cell.rows);
            match self.coordinate {
                Scalar::Float32 => self.inside::<4>(rows, low, high, mask),
                _ => self.inside::<0>(rows, low, high, mask),
            }
        }
        for (at, filter) in &self.vertex_filters {
            let (Some(values), Some(kind)) = (cell.attributes.get(*at), self.kinds.get(*at)) else {
                continue;
            };
            for (row, taken) in mask.iter_mut().enumerate() {
                *taken = *taken && passes(kind, filter, values.rows(row, 1));
            }
        }
    }

    /// `N` is 4 for floats of 32 bits, so that the compiler sees what is read.
    fn inside<const N: usize>(&self, rows: &[u8], low: &[f64], high: &[f64], mask: &mut [bool]) {
        let size = self.coordinate.size();
        let value = |bytes: &[u8]| match bytes.first_chunk::<4>() {
            Some(bytes) if N == 4 => f64::from(f32::from_le_bytes(*bytes)),
            _ => self.coordinate.number(bytes),
        };
        for (row, taken) in rows.chunks_exact(size * self.rank).zip(mask) {
            let axes = row.chunks_exact(size).zip(low.iter().zip(high)).zip(&self.offset);
            for ((bytes, (low, high)), offset) in axes {
                let at = value(bytes) + offset;
                *taken &= at >= *low && at <= *high;
            }
        }
    }
}
