//! From rows in any order to the cells of a store.
//!
//! A [`Builder`] takes batches, sorts their rows by the chunk of space that they lie in, and makes
//! of them what zarr-vectors 0.9.2 would store: the cells of every array, and all documents. Rows
//! that memory has no room for wait in a [`Spool`]; of a store that does not fit into memory only
//! the list of its chunks has to.

mod built;
mod cells;
mod columns;
mod groups;
mod links;
#[cfg(test)]
mod object_tests;
mod objects;
mod options;
mod paths;
mod share;
pub(super) mod space;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod trees;

pub use built::{BuiltGroups, BuiltObjects, BuiltStore, GridArray};
pub use options::BuildOptions;
pub use tables::ObjectArray;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::Fields;

use crate::sort::{Sorter, Spool};
use crate::zarr_vectors::{ChunkCoords, Scalar};
use crate::{GeometryBatch, GeometryError, GeometryKind, GeometrySchema, OBJECT_ID};
use cells::{Arrangement, Assembly, Bins, RowForm, VertexCells};
use columns::{AttributeColumn, attribute_columns, each_coordinate, find, put};
use groups::GroupTable;
use links::{LinkEnd, LinkInput, LinkSorter, PlaceSorter, Stored};
use objects::{FragmentSorter, Limits, ObjectRows, ObjectShape};
use paths::PathRuns;
use share::{ChunkRows, EachChunk, Share};
use space::Space;
use tables::{ObjectTable, Repeats, id_column};
use trees::Trees;

/// The name of the format in messages.
const FORMAT: &str = "Zarr Vectors";

fn invalid(place: impl Into<String>, reason: impl Into<String>) -> GeometryError {
    GeometryError::Invalid { format: FORMAT, place: place.into(), reason: reason.into() }
}

/// The least memory: with less, a chunk of common size would be refused.
const LEAST_MEMORY: u64 = 8 << 20;

/// Gathers batches of a set.
pub struct Builder<'a> {
    spool: &'a dyn Spool,
    options: BuildOptions,
    schema: GeometrySchema,
    space: Space,
    bins: Option<Bins>,
    form: RowForm,
    columns: Vec<AttributeColumn>,
    vertices: Sorter<'a>,
    share: Option<Share<'a>>,
    links: Option<LinkInput<'a>>,
    trees: Option<Trees>,
    low: Vec<f64>,
    high: Vec<f64>,
    count: u64,
    paths: Option<PathRuns<'a>>,
    /// Of columns of vertices, and of a table of objects.
    object_columns: Option<ObjectTable<'a>>,
    object_table: Option<ObjectTable<'a>>,
    groups: Option<GroupTable<'a>>,
    rows: Vec<u8>,
    keys: Vec<u128>,
}

impl<'a> Builder<'a> {
    /// Builds a store of a set with these columns.
    pub fn new(
        schema: &GeometrySchema,
        options: &BuildOptions,
        spool: &'a dyn Spool,
    ) -> Result<Self, GeometryError> {
        let kind = schema.kind;
        if kind == GeometryKind::Parametric {
            let what = "shapes without vertices".to_owned();
            return Err(GeometryError::CannotHold { format: FORMAT, what });
        }
        let memory = options.memory.max(LEAST_MEMORY);
        let options = &BuildOptions { memory, ..options.clone() };
        let space = Space::new(&options.chunk, schema.axes.len())?;
        let is_of_objects = |name: &String| options.object_columns.contains(name);
        let attributes = schema.vertex_attributes.iter().cloned();
        let (of_objects, of_vertices): (Vec<_>, Vec<_>) =
            attributes.partition(|field| is_of_objects(field.name()));
        let schema = &GeometrySchema { vertex_attributes: of_vertices.into(), ..schema.clone() };
        let bins = options.bin.as_deref().map(|bin| Bins::new(bin, &space)).transpose()?;
        if bins.is_some() && kind == GeometryKind::Points && schema.objects {
            let reason = "cannot be combined with object ids: zarr-vectors takes the fragments of \
                          objects for bins and loses points";
            return Err(invalid("bins of points", reason));
        }
        let scalar = Scalar::from_arrow(&schema.coordinate);
        let scalar = scalar.filter(|scalar| !matches!(scalar, Scalar::Bool | Scalar::Float16));
        let scalar = scalar.ok_or_else(|| GeometryError::CannotHold {
            format: FORMAT,
            what: format!("coordinates of type {}", schema.coordinate),
        })?;
        let mut at = 0;
        let mut field = |wanted: bool| {
            let here = wanted.then_some(at);
            at += if wanted { 8 } else { 0 };
            here
        };
        let row = field(kind.link_width() > 0);
        let object = field(kind != GeometryKind::Points || schema.objects);
        let segment = field(is_path(kind));
        let coordinates = at;
        let after = coordinates + schema.axes.len() * scalar.size();
        let (columns, width) = attribute_columns(&schema.vertex_attributes, after)?;
        let form = RowForm { row, object, segment, coordinates, scalar, width };
        let links = match kind.link_width() {
            0 => None,
            ends => {
                let (columns, row) = attribute_columns(&schema.link_attributes, 0)?;
                Some(LinkInput::new(spool, ends, columns, row, memory / 8))
            }
        };
        let object_columns = match of_objects.is_empty() {
            true => None,
            false if object.is_none() => return Err(no_objects()),
            false => {
                let fields = of_objects.into();
                Some(ObjectTable::new(spool, &fields, Repeats::Equal, memory / 16)?)
            }
        };
        let rank = schema.axes.len();
        Ok(Self {
            spool,
            options: options.clone(),
            schema: schema.clone(),
            space,
            bins,
            form,
            columns,
            vertices: Sorter::new(spool, width, memory / 2),
            share: None,
            links,
            trees: (kind == GeometryKind::Skeletons).then(Trees::default),
            low: vec![f64::INFINITY; rank],
            high: vec![f64::NEG_INFINITY; rank],
            count: 0,
            paths: is_path(kind).then(|| PathRuns::new(spool, memory / 16)),
            object_columns,
            object_table: None,
            groups: None,
            rows: Vec::new(),
            keys: Vec::new(),
        })
    }

    /// Puts together only the chunks for which `own` is true; other processes do the others. All rows
    /// are pushed in any case, and the documents are those of the whole store.
    ///
    /// Of rows in other chunks nothing is kept but what objects and links need: up to 24 bytes of a
    /// row. Must be called before the first batch.
    pub fn keep(&mut self, own: impl Fn(&[i64]) -> bool + 'a) {
        let memory = self.options.memory / 4;
        self.vertices = Sorter::new(self.spool, self.form.width, memory);
        self.share = Some(Share::new(Box::new(own), &self.form, self.spool, memory));
    }

    /// The first chunk of the grid, if these are the smallest coordinates.
    pub fn grid_origin(&self, low: &[f64]) -> ChunkCoords {
        self.space.grid(low, low).0
    }

    /// How many vertices there are so far.
    pub fn vertices(&self) -> u64 {
        self.count
    }

    /// Adds a batch, which follows the one before.
    pub fn push(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError> {
        if batch.first_row != self.count {
            let reason = format!("begins with row {}, not {}", batch.first_row, self.count);
            return Err(invalid("a batch", reason));
        }
        let count = batch.vertices.num_rows();
        let width = self.form.width;
        self.rows.clear();
        self.rows.resize(count * width, 0);
        self.keys.clear();
        self.keys.resize(count, 0);
        self.place(batch)?;
        for column in &mut self.columns {
            column.fill(&batch.vertices, &mut self.rows, width)?;
        }
        self.number(batch)?;
        if let Some(table) = &mut self.object_columns {
            let form = &self.form;
            let ids = self.rows.chunks_exact(width.max(1)).map(|row| form.object(row));
            table.push(&batch.vertices, ids)?;
        }
        for (key, row) in self.keys.iter().zip(self.rows.chunks_exact(width.max(1))) {
            let own = self.share.as_mut().is_none_or(|share| share.takes(*key, &self.space));
            match &mut self.share {
                Some(share) if !own => share.push_other(*key, row)?,
                _ => self.vertices.push(*key, row)?,
            }
        }
        self.count += count as u64;
        if let Some(trees) = &mut self.trees {
            trees.grow(self.count, self.options.memory / 4)?;
            for edge in batch.links.rows.chunks_exact(2) {
                trees.add(edge[0], edge[1])?;
            }
        }
        match &mut self.links {
            Some(links) => links.push(&batch.links),
            None if batch.links.is_empty() => Ok(()),
            None => Err(invalid(self.schema.kind.name(), "have no links")),
        }
    }

    /// Copies coordinates, and finds the chunk of each row.
    fn place(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError> {
        let RowForm { scalar, width, coordinates, .. } = self.form;
        for (number, axis) in self.schema.axes.iter().enumerate() {
            let column = find(&batch.vertices, &axis.name)?;
            columns::check_nulls(column, &axis.name)?;
            let at = coordinates + number * scalar.size();
            put(column, &axis.name, scalar, 1, &mut self.rows, width, at)?;
            let (mut low, mut high) = (self.low[number], self.high[number]);
            let (space, keys) = (&self.space, &mut self.keys);
            each_coordinate(column, |row, value| {
                let part = space.part(number, value).ok_or_else(|| {
                    let reason = match value.is_finite() {
                        true => format!("{} is too far away for chunks this small", value),
                        false => format!("{value} is no place"),
                    };
                    let row = self.count + row as u64;
                    invalid(format!("row {row}, column {}", axis.name), reason)
                })?;
                low = low.min(value);
                high = high.max(value);
                keys[row] = space.join(keys[row], part);
                Ok(())
            })?;
            (self.low[number], self.high[number]) = (low, high);
        }
        Ok(())
    }

    /// Writes the numbers of rows, objects and pieces of paths into rows.
    fn number(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError> {
        let RowForm { row, object, segment, width, .. } = self.form;
        if row.is_none() && object.is_none() {
            return Ok(());
        }
        let ids = match self.schema.objects {
            true => {
                Some(id_column(&batch.vertices, OBJECT_ID)?.as_primitive::<Int64Type>().values())
            }
            false => None,
        };
        let lines = self.schema.kind == GeometryKind::Lines;
        for (at, bytes) in self.rows.chunks_exact_mut(width).enumerate() {
            let number = self.count + at as u64;
            let id = match ids {
                Some(ids) => ids[at],
                // Two rows are a line.
                None if lines => (number / 2) as i64,
                None => 0,
            };
            let mut put = |place: Option<usize>, value: u64| {
                if let Some(place) = place {
                    bytes[place..place + 8].copy_from_slice(&value.to_le_bytes());
                }
            };
            put(row, number);
            put(object, id as u64);
            if let Some(paths) = &mut self.paths {
                put(segment, paths.next(id, self.keys[at])?);
            }
        }
        Ok(())
    }

    /// Announces a table with these attributes of objects, whose rows follow with
    /// [`push_objects`](Self::push_objects).
    pub fn object_attributes(&mut self, attributes: &Fields) -> Result<(), GeometryError> {
        if self.form.object.is_none() {
            return Err(no_objects());
        }
        if attributes.is_empty() {
            return Err(invalid("attributes of objects", "there are none: no column has any"));
        }
        let known = self.object_columns.iter().flat_map(|table| table.names());
        if let Some(twice) = known.into_iter().find(|name| attributes.find(name).is_some()) {
            let reason = "is an attribute of objects in two tables";
            return Err(invalid(format!("column {twice}"), reason));
        }
        let memory = self.options.memory / 16;
        let table = ObjectTable::new(self.spool, attributes, Repeats::Refused, memory)?;
        self.object_table = Some(table);
        Ok(())
    }

    /// Adds the attributes of some objects, each in the row of its [`OBJECT_ID`], in any order. An
    /// object may have no row, and not several.
    pub fn push_objects(&mut self, rows: &RecordBatch) -> Result<(), GeometryError> {
        match &mut self.object_table {
            Some(table) => table.push_table(rows),
            None => Err(invalid("attributes of objects", "have not been announced")),
        }
    }

    /// Adds members of groups, in any order: rows with the columns [`GROUP`](crate::GROUP), which
    /// is a number from 0 on, and [`OBJECT_ID`].
    pub fn push_groups(&mut self, rows: &RecordBatch) -> Result<(), GeometryError> {
        if self.form.object.is_none() {
            return Err(no_objects());
        }
        let (spool, memory) = (self.spool, self.options.memory / 32);
        self.groups.get_or_insert_with(|| GroupTable::new(spool, memory)).push(rows)
    }

    /// Puts the store together.
    ///
    /// `check` is called often, and ends the work with its error. `progress` gets the vertices that
    /// are done.
    pub fn finish(
        self,
        check: &dyn Fn() -> Result<(), GeometryError>,
        progress: &dyn Fn(u64),
    ) -> Result<BuiltStore, GeometryError> {
        if self.count == 0 {
            return Err(invalid("the input", "has no rows, and a store must have some"));
        }
        let Self { spool, options, schema, space, bins, form, columns, links, trees, .. } = self;
        let Self { paths, object_columns, object_table, groups, .. } = self;
        let memory = options.memory;
        let limits = Limits { spool, memory: memory / 8, most: memory / 4, check };
        let arrangement = match (schema.kind, bins, &trees) {
            (_, _, Some(trees)) => Arrangement::Trees(trees.places()?),
            (kind, ..) if is_path(kind) => Arrangement::Paths,
            (GeometryKind::Points, Some(bins), _) => Arrangement::Bins(bins),
            (GeometryKind::Points, ..) if !schema.objects => Arrangement::Whole,
            _ => Arrangement::Objects,
        };
        let dictionaries = schema.kind == GeometryKind::Points;
        let columns = columns.into_iter().map(|column| column.finish(dictionaries));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let mut sizes = vec![schema.axes.len() * form.scalar.size()];
        sizes.extend(columns.iter().map(|column| column.size));
        let mut cells = VertexCells::new(&space, sizes, memory / 8);
        let mut fragments =
            form.object.map(|_| FragmentSorter::new(spool, is_path(schema.kind), memory / 16));
        let mut places = links.as_ref().map(|_| PlaceSorter::new(spool, memory / 16));
        let mut joined = match paths {
            Some(paths) => paths.join(&limits)?,
            None => None,
        };
        let mut assembly = Assembly::new(form, &arrangement, &columns, spool);
        let rows_kept = self.vertices.len();
        let (others, all) = match self.share.map(Share::finish) {
            Some((others, all)) => (others, Some(all)),
            None => (None, None),
        };
        let next = |merge: &mut crate::sort::Merge, rows: &mut Vec<u8>, limits: &Limits<'_>| {
            next_chunk(merge, rows, limits, &space)
        };
        let mut each = EachChunk::new(self.vertices.merge(), others, &limits, &next)?;
        let mut chunk = ChunkRows { key: 0, rows: Vec::new(), own: true };
        let mut done = 0;
        while each.next(&mut chunk, &limits, &next)? {
            check()?;
            let ChunkRows { key, rows, own } = &mut chunk;
            let (key, form) = (*key, if *own { form } else { form.without_values() });
            if let Some(joined) = &mut joined {
                joined.apply(key, rows, &form, &limits)?;
            }
            let count = (rows.len() / form.width.max(1)) as u64;
            if *own {
                columns.iter().try_for_each(|one| limits.fits(one, count, &space.chunk(key)))?;
                assembly.add(&mut cells, key, rows)?;
            } else {
                assembly.place(&form, &space.chunk(key), rows)?;
            }
            let row = |number: u32| &rows[number as usize * form.width..][..form.width];
            if let Some(places) = &mut places {
                for (at, &number) in (0u32..).zip(assembly.order()) {
                    let (row, end) = (row(number), LinkEnd { chunk: key, row: at });
                    places.push(form.row(row), end, form.object(row))?;
                }
            }
            if let Some(sorter) = &mut fragments {
                for (number, fragment) in (0u32..).zip(assembly.fragments()) {
                    let of = fragment.start as usize..(fragment.start + fragment.count) as usize;
                    let is_root = |number: &&u32| {
                        trees.as_ref().is_some_and(|trees| trees.is_root(form.row(row(**number))))
                    };
                    let roots = assembly.order()[of].iter().filter(is_root).count();
                    // No more than the rows of a chunk, which 32 bits count.
                    sorter.push(key, number, fragment, roots as u32)?;
                }
            }
            done += count;
            progress(done);
        }
        drop((each, chunk, joined));
        if let Some(all) = &all {
            cells.list(all.keys());
        }
        let width = if is_path(schema.kind) { 2 } else { schema.kind.link_width() };
        let (mut links, link_columns) = match links {
            Some(mut links) => {
                let columns = links.columns()?;
                (Some(links), columns)
            }
            None => (None, Vec::new()),
        };
        let (_, row) = attribute_columns(&schema.link_attributes, 0)?;
        let mut link_sorter = (width > 0).then(|| {
            let within = schema.kind.link_width() > 0;
            LinkSorter::new(spool, &space, width, row, within, memory / 8).sharing(all.as_ref())
        });
        let shape = match schema.kind {
            GeometryKind::Lines => ObjectShape::Line,
            GeometryKind::Skeletons => ObjectShape::Tree,
            _ => ObjectShape::Any,
        };
        let objects = match fragments {
            Some(sorter) => Some(sorter.finish(&space, shape, link_sorter.as_mut(), &limits)?),
            None => None,
        };
        let with_objects = |objects: &Option<ObjectRows>| match objects {
            Some(objects) => {
                let tables = object_columns.into_iter().chain(object_table);
                let tables = tables.map(|table| table.finish(objects, &limits));
                let groups = groups.map(|groups| groups.finish(objects, &limits));
                Ok((tables.collect::<Result<Vec<_>, _>>()?, groups.transpose()?))
            }
            None => Ok::<_, GeometryError>((Vec::new(), None)),
        };
        let (object_values, groups) = with_objects(&objects)?;
        let stored = if trees.is_some() { Stored::Branches } else { Stored::All };
        drop((trees, arrangement));
        if let (Some(links), Some(places), Some(sorter)) = (links.take(), places, &mut link_sorter)
        {
            links.join(places, stored, sorter, &limits)?;
        }
        let links = match link_sorter {
            Some(sorter) => Some(sorter.finish(&link_columns, &limits)?),
            None => None,
        };
        let (origin, shape) = space.grid(&self.low, &self.high);
        Ok(BuiltStore {
            schema,
            scalar: form.scalar,
            options,
            vertices: self.count,
            rows_kept,
            bounds: [self.low, self.high],
            origin,
            shape,
            cells,
            columns,
            links: links.filter(|links| links.arrays() > 0),
            link_columns,
            objects,
            object_values,
            groups: groups.filter(|groups| groups.len() > 0),
        })
    }
}

fn no_objects() -> GeometryError {
    let reason = "there are none: points without the column object_id have no objects";
    invalid("objects", reason)
}

/// The rows of the next chunk.
fn next_chunk(
    merge: &mut crate::sort::Merge,
    rows: &mut Vec<u8>,
    limits: &Limits<'_>,
    space: &Space,
) -> Result<Option<u128>, GeometryError> {
    merge.next_group(rows, limits.most).map_err(|error| match error {
        GeometryError::GroupTooLarge { key, bytes, most } => {
            let reason = format!(
                "has {bytes} bytes of rows, and there is room for {most}; choose smaller chunks, or \
                 give more memory"
            );
            invalid(format!("chunk {:?}", space.chunk(key)), reason)
        }
        error => error,
    })
}

fn is_path(kind: GeometryKind) -> bool {
    matches!(kind, GeometryKind::Lines | GeometryKind::Polylines | GeometryKind::Streamlines)
}
