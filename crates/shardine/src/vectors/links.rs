//! Links between the vertices of a level.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use foldhash::fast::FixedState;
use shardine_geometry::Links;
use shardine_geometry::zarr_vectors::{
    AttributeDocument, ChunkCoords, Column, Fragment, LinkArray, LinkFamily, LinkOffsets, Ragged,
    Values, original_order,
};
use smallvec::SmallVec;

use super::by_object::Places;
use super::cells::CellView;
use super::error::VectorsError;
use super::grid_array::GridArray;
use super::level::{VectorLevel, attribute_document, named_children};
use super::store::VectorStore;
use crate::Error;
use crate::zarr::{Child, Group, Node};

/// In place of the number of a row that is not given out.
const NO_ROW: u64 = u64::MAX;

/// How many links a batch has, at most.
const BATCH_LINKS: usize = 1 << 16;

/// The links of a level to itself.
#[derive(Debug)]
pub(super) struct LinkReader {
    family: LinkFamily,
    arrays: Vec<OffsetArray>,
    attributes: Vec<LinkAttribute>,
}

/// The links with the same offsets.
#[derive(Debug)]
struct OffsetArray {
    offsets: LinkOffsets,
    array: GridArray,
    document: LinkArray,
    /// The chunks with links.
    chunks: Vec<ChunkCoords>,
    /// The attributes of its links, in the order of the reader's; `None` if one has none here.
    attributes: Vec<Option<GridArray>>,
}

#[derive(Debug)]
struct LinkAttribute {
    name: String,
    document: AttributeDocument,
    width: usize,
}

impl LinkReader {
    /// Opens the links of a level; `None` if it has none.
    pub(super) fn open(
        store: &VectorStore,
        level: u64,
        rank: usize,
        opened: &VectorLevel,
        notes: &mut Vec<String>,
    ) -> Result<Option<Self>, Error> {
        let rank = opened.document.grid_rank(rank);
        let path = format!("{level}/links/0");
        let Some((group, children)) = group_at(store, &path)? else { return Ok(None) };
        let family = LinkFamily::read(group.metadata().attributes(), 0, rank);
        let mut reader = Self { family, arrays: Vec::new(), attributes: Vec::new() };
        for Child { name, node, .. } in children {
            let path = format!("{path}/{name}");
            let wrong = |source| store.wrong(VectorsError::Document { node: path.clone(), source });
            let offsets = LinkOffsets::parse(&name, rank, reader.family.width).map_err(wrong)?;
            let array = GridArray::of_node(store, &path, node?, rank)?;
            let document = LinkArray::read(array.attributes(), &reader.family, offsets.is_within());
            let document = document.map_err(wrong)?;
            let chunks = array.stored(notes)?;
            let attributes = Vec::new();
            reader.arrays.push(OffsetArray { offsets, array, document, chunks, attributes });
        }
        let group = format!("{level}/link_attributes");
        for Child { name, .. } in named_children(store, &group, "link")? {
            reader.open_attribute(store, &group, name, rank)?;
        }
        Ok(Some(reader))
    }

    fn open_attribute(
        &mut self,
        store: &VectorStore,
        group: &str,
        name: String,
        rank: usize,
    ) -> Result<(), Error> {
        let mut documents: Vec<(AttributeDocument, usize)> = Vec::new();
        let mut arrays = Vec::new();
        for links in &self.arrays {
            let path = format!("{group}/{name}/0/{}", links.offsets.name());
            let array = GridArray::open(store, &path, rank)?;
            if let Some(array) = &array {
                let document = attribute_document(store, array)?;
                let width = links.find_width(&document, array)?;
                documents.extend(width.map(|width| (document, width)));
            }
            arrays.push(array);
        }
        let mut documents = documents.into_iter();
        let Some((document, width)) = documents.next() else { return Ok(()) };
        if let Some(other) =
            documents.find(|other| (&other.0.scalar, other.1) != (&document.scalar, width))
        {
            let reason = format!(
                "link_attributes/{name} has {} values of type {} in one array, {} of {} in another",
                width,
                document.scalar.name(),
                other.1,
                other.0.scalar.name()
            );
            return Err(store.wrong(VectorsError::Question(reason)));
        }
        for (links, array) in self.arrays.iter_mut().zip(arrays) {
            links.attributes.push(array);
        }
        self.attributes.push(LinkAttribute { name, document, width });
        Ok(())
    }

    /// The columns of links.
    pub(super) fn fields(&self) -> Vec<Field> {
        let field =
            |one: &LinkAttribute| Field::new(&one.name, one.document.column_type(one.width), true);
        self.attributes.iter().map(field).collect()
    }

    /// The links between the rows in `map`.
    ///
    /// With `sequential`, a row is a child of the one before it in its fragment, unless a stored
    /// link says otherwise, and links are pairs of a child and its parent.
    pub(super) fn read(
        &self,
        views: &[CellView<'_>],
        places: &Places,
        mut map: RowMap,
        sequential: bool,
    ) -> Result<Vec<Links>, Error> {
        let mut out = LinkBatches::new(self);
        for links in &self.arrays {
            self.read_array(links, views, places, &mut map, sequential, &mut out)?;
        }
        if sequential {
            return Ok(map.into_sequential_links());
        }
        out.finish().map_err(|error| self.wrong(error))
    }

    fn wrong(&self, error: shardine_geometry::GeometryError) -> Error {
        match self.arrays.first() {
            Some(links) => links.array.wrong(error.into()),
            None => Error::Vectors { at: String::new(), source: Box::new(error.into()) },
        }
    }

    fn read_array(
        &self,
        links: &OffsetArray,
        views: &[CellView<'_>],
        places: &Places,
        map: &mut RowMap,
        sequential: bool,
        out: &mut LinkBatches<'_>,
    ) -> Result<(), Error> {
        // Of links that are stored with each of their chunks, those with the first are taken.
        let is_first = |offset: &ChunkCoords| offset.iter().find(|at| **at != 0) >= Some(&0);
        let is_first = |offset: &ChunkCoords| offset.iter().all(|at| *at == 0) || is_first(offset);
        if self.family.duplicate && !links.offsets.iter().all(is_first) {
            return Ok(());
        }
        let chunks: Vec<&ChunkCoords> =
            links.chunks.iter().filter(|chunk| places.contains_key(*chunk)).collect();
        let cells = links.array.read(chunks.iter().copied())?;
        let attributes: Vec<_> = links
            .attributes
            .iter()
            .map(|array| array.as_ref().map(|array| array.read(chunks.iter().copied())).transpose())
            .collect::<Result<_, _>>()?;
        let (row, size) = (links.document.row_size(), links.document.scalar.size());
        for (at, (chunk, bytes)) in chunks.into_iter().zip(cells.iter()).enumerate() {
            let rows = links.rows(chunk, bytes)?;
            let values = self.values(links, chunk, at, &attributes, rows.len() / row.max(1))?;
            // Of each end: which chunk that was read it is in.
            let mut ends_in: SmallVec<[Option<u32>; 4]> = SmallVec::new();
            for end in 0..links.document.width {
                let target = links.offsets.chunk(chunk, end);
                ends_in.push(target.and_then(|target| places.get(&target).copied()));
            }
            for (number, link) in rows.chunks_exact(row).enumerate() {
                let numbers = link.chunks_exact(size).map(|one| links.document.scalar.integer(one));
                let numbers: Option<SmallVec<[i64; 4]>> = numbers.collect();
                let wrong = |reason: String| links.array.contradicts(chunk, reason);
                let numbers =
                    numbers.ok_or_else(|| wrong(format!("link {number} is too large")))?;
                let (code, stored) = match links.document.permuted {
                    true => (numbers.first().copied().unwrap_or(0), &numbers[1..]),
                    false => (0, &numbers[..]),
                };
                let mut ends: SmallVec<[End; 4]> = SmallVec::new();
                for (place, vertex) in ends_in.iter().zip(stored) {
                    let rows =
                        place.and_then(|place| views.get(place as usize)).map(|view| view.rows);
                    let vertex = u64::try_from(*vertex).unwrap_or(u64::MAX);
                    if let Some(rows) = rows.filter(|rows| vertex >= *rows as u64) {
                        let reason = format!("link {number} has vertex {vertex} of {rows}");
                        return Err(wrong(reason));
                    }
                    ends.push(End { chunk: *place, vertex });
                }
                if !original_order(&mut ends, code) {
                    let reason = format!("link {number} has {code}, which is no permutation");
                    return Err(wrong(reason));
                }
                if sequential {
                    map.set_parent(&ends, self.family.directed && !links.offsets.is_within());
                } else {
                    map.each_link(&ends, |rows| out.push(rows, number, &values));
                }
            }
        }
        Ok(())
    }

    /// The attributes of the links of a chunk.
    fn values<'a>(
        &self,
        links: &OffsetArray,
        chunk: &ChunkCoords,
        at: usize,
        cells: &'a [Option<shardine_codec::VariableElements>],
        rows: usize,
    ) -> Result<Vec<Option<Values<'a>>>, Error> {
        let mut all = Vec::with_capacity(cells.len());
        for ((cells, array), attribute) in cells.iter().zip(&links.attributes).zip(&self.attributes)
        {
            let (Some(cells), Some(array)) = (cells, array) else {
                all.push(None);
                continue;
            };
            let row = attribute.width * attribute.document.scalar.size();
            let values = Values::new(cells.get(at).unwrap_or_default(), row);
            let values = values.map_err(|error| array.damaged(chunk, error))?;
            if values.len() != rows {
                let reason = format!("it has {} rows for {rows} links", values.len());
                return Err(array.contradicts(chunk, reason));
            }
            all.push(Some(values));
        }
        Ok(all)
    }
}

impl OffsetArray {
    /// The rows of a cell. Links within a chunk are stored as they are, others in groups.
    fn rows<'a>(&self, chunk: &ChunkCoords, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
        let row = self.document.row_size();
        let damaged = |error| self.array.damaged(chunk, error);
        if self.offsets.is_within() {
            return Values::new(bytes, row).map(|_| bytes).map_err(damaged);
        }
        Ragged::parse(bytes, row).map(|ragged| ragged.rows()).map_err(damaged)
    }

    /// How many values a link has, in an attribute; `None` if there is no link.
    fn find_width(
        &self,
        document: &AttributeDocument,
        array: &GridArray,
    ) -> Result<Option<usize>, Error> {
        if document.width.is_some() {
            return Ok(document.width);
        }
        let Some(chunk) = self.chunks.first() else { return Ok(None) };
        let links = self.array.read([chunk])?;
        let links = self.rows(chunk, links.get(0).unwrap_or_default())?.len();
        let links = links.checked_div(self.document.row_size()).unwrap_or(0);
        let bytes = array.read([chunk])?.byte_len();
        let width = bytes.checked_div(links * document.scalar.size()).unwrap_or(0);
        if width == 0 || width * links * document.scalar.size() != bytes {
            let reason = format!("{bytes} bytes are no rows for {links} links");
            return Err(array.contradicts(chunk, reason));
        }
        Ok(Some(width))
    }
}

/// An end of a link.
#[derive(Debug, Clone, Copy)]
struct End {
    /// The chunk among those that were read; `None` if it was not.
    chunk: Option<u32>,
    vertex: u64,
}

/// Which number each vertex has among the rows that are given out.
#[derive(Debug)]
pub(super) struct RowMap {
    /// Where the vertices of each chunk begin in `rows`.
    starts: Vec<usize>,
    rows: Vec<u64>,
    /// Vertices that are given out more than once: the other rows.
    shared: HashMap<usize, SmallVec<[u64; 2]>, FixedState>,
    /// The parent of each row, where rows are joined in order.
    parents: Vec<u64>,
}

impl RowMap {
    /// A map of chunks with these numbers of vertices.
    pub(super) fn new(rows: impl Iterator<Item = usize>) -> Self {
        let mut total = 0;
        let mut starts = vec![0];
        for rows in rows {
            total += rows;
            starts.push(total);
        }
        let rows = vec![NO_ROW; total];
        Self { starts, rows, shared: HashMap::default(), parents: Vec::new() }
    }

    fn place(&self, chunk: u32, vertex: u64) -> Option<usize> {
        let start = self.starts.get(chunk as usize)?;
        let end = self.starts.get(chunk as usize + 1)?;
        let place = start.checked_add(usize::try_from(vertex).ok()?)?;
        (place < *end).then_some(place)
    }

    /// Adds the vertices of a fragment that are taken; the first gets the number `first`.
    pub(super) fn add(
        &mut self,
        chunk: u32,
        fragment: Fragment<'_>,
        mask: Option<&[bool]>,
        first: u64,
        sequential: bool,
    ) {
        let mut next = first;
        let mut before = NO_ROW;
        fragment.for_each(|vertex| {
            if mask.is_some_and(|mask| mask.get(vertex as usize) == Some(&false)) {
                before = NO_ROW;
                return;
            }
            let Some(place) = self.place(chunk, vertex) else { return };
            match self.rows.get_mut(place) {
                Some(row) if *row == NO_ROW => *row = next,
                _ => self.shared.entry(place).or_default().push(next),
            }
            self.parents.push(if sequential { before } else { NO_ROW });
            before = next;
            next += 1;
        });
    }

    /// Hands the rows that a link joins to `each`: once, or as often as its vertices are given out.
    fn each_link(&self, ends: &[End], mut each: impl FnMut(&[u64])) {
        let mut rows: SmallVec<[u64; 4]> = SmallVec::new();
        let mut copies = 0;
        let mut places: SmallVec<[usize; 4]> = SmallVec::new();
        for end in ends {
            let place = end.chunk.and_then(|chunk| self.place(chunk, end.vertex));
            let Some(place) = place else { return };
            match self.rows.get(place) {
                Some(row) if *row != NO_ROW => rows.push(*row),
                _ => return,
            }
            let more = self.shared.get(&place).map_or(0, |more| more.len());
            copies = copies.max(more);
            places.push(place);
        }
        each(&rows);
        // The copies of vertices that several fragments share are in the same order.
        for copy in 0..copies {
            rows.clear();
            let again = places.iter().map(|place| self.shared.get(place)?.get(copy).copied());
            rows.extend(again.flatten());
            if rows.len() == places.len() {
                each(&rows);
            }
        }
    }

    /// Notes the parent of a child, given as child and parent, or the other way round.
    fn set_parent(&mut self, ends: &[End], parent_first: bool) {
        let mut pair = None;
        self.each_link(ends, |rows| {
            if let ([child, parent], None) = (rows, pair) {
                pair = Some((*child, *parent));
            }
        });
        let Some((child, parent)) = pair else {
            // A child whose parent is not given out is not joined to the row before it either.
            let child = ends.get(usize::from(parent_first));
            let place = child.and_then(|end| self.place(end.chunk?, end.vertex));
            let row = place.and_then(|place| self.rows.get(place)).copied();
            if let Some(known) = row.and_then(|row| self.parents.get_mut(row as usize)) {
                *known = NO_ROW;
            }
            return;
        };
        let (child, parent) = if parent_first { (parent, child) } else { (child, parent) };
        if let Some(known) = self.parents.get_mut(child as usize) {
            *known = parent;
        }
    }

    /// The links between rows and their parents.
    pub(super) fn into_sequential_links(self) -> Vec<Links> {
        let mut batches = Vec::new();
        let mut rows = Vec::new();
        for (child, parent) in (0..).zip(self.parents) {
            if parent != NO_ROW {
                rows.extend([child, parent]);
            }
            if rows.len() >= 2 * BATCH_LINKS {
                let rows = std::mem::take(&mut rows);
                batches.push(Links { width: 2, rows, attributes: None });
            }
        }
        if !rows.is_empty() {
            batches.push(Links { width: 2, rows, attributes: None });
        }
        batches
    }
}

/// Links in the making.
struct LinkBatches<'a> {
    reader: &'a LinkReader,
    rows: Vec<u64>,
    columns: Vec<(Column, Vec<bool>)>,
}

impl<'a> LinkBatches<'a> {
    fn new(reader: &'a LinkReader) -> Self {
        let column =
            |one: &LinkAttribute| (Column::new(one.document.scalar, one.width), Vec::new());
        Self { reader, rows: Vec::new(), columns: reader.attributes.iter().map(column).collect() }
    }

    fn push(&mut self, rows: &[u64], number: usize, values: &[Option<Values<'_>>]) {
        self.rows.extend_from_slice(rows);
        for ((column, present), values) in self.columns.iter_mut().zip(values) {
            let value = values.map(|values| values.rows(number, 1)).unwrap_or_default();
            present.push(!value.is_empty());
            if value.is_empty() {
                column.push(&vec![0; column.row_size()]);
            } else {
                column.push(value);
            }
        }
    }

    fn finish(self) -> Result<Vec<Links>, shardine_geometry::GeometryError> {
        let width = self.reader.family.width;
        let attributes = if self.columns.is_empty() {
            None
        } else {
            let mut columns = Vec::new();
            for ((mut column, present), one) in
                self.columns.into_iter().zip(&self.reader.attributes)
            {
                let nulls = arrow_buffer::NullBuffer::from(present);
                let nulls = (nulls.null_count() > 0).then_some(nulls);
                columns.push(column.finish_with(one.document.categories.as_ref(), nulls)?);
            }
            let schema = Schema::new(self.reader.fields());
            Some(RecordBatch::try_new(schema.into(), columns)?)
        };
        let piece = |(at, rows): (usize, &[u64])| {
            let count = rows.len() / width.max(1);
            let own = attributes.as_ref().map(|all| all.slice(at * BATCH_LINKS, count));
            Links { width, rows: rows.to_vec(), attributes: own }
        };
        let pieces = self.rows.chunks((BATCH_LINKS * width).max(1));
        Ok(pieces.enumerate().map(piece).collect())
    }
}

/// The group at `path` and what is in it; `None` if there is none.
fn group_at(store: &VectorStore, path: &str) -> Result<Option<(Group, Vec<Child>)>, Error> {
    match Node::open(&store.engine, &store.location.join(path)?) {
        Ok(Node::Group(group)) => {
            let children = group.children()?;
            Ok(Some((group, children)))
        }
        Ok(Node::Array(_)) => {
            let node = path.to_owned();
            Err(store.wrong(VectorsError::Node { node, expected: "a group" }))
        }
        Err(Error::NoNode { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
