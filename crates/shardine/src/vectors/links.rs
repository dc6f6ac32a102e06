//! Links between the vertices of a level.

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use shardine_geometry::Links;
use shardine_geometry::zarr_vectors::{
    ChunkCoords, Column, FragmentIndex, LinkArray, LinkFamily, LinkOffsets, Ragged, Values,
    chunk_key, original_order,
};
use smallvec::SmallVec;

use super::by_object::Places;
use super::cells::{CellView, in_order};
use super::error::VectorsError;
use super::grid_array::{GridArray, Stored};
use super::level::{ValueType, VectorLevel, left_out, named_children, value_type};
use super::probe;
use super::row_map::{BATCH_LINKS, End, RowMap};
use super::store::VectorStore;
use super::told::Told;
use crate::Error;
use crate::zarr::{Child, Group, Node};

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
    stored: Stored,
    /// The attributes of its links, in the order of the reader's; `None` if one has none here.
    attributes: Vec<Option<GridArray>>,
}

#[derive(Debug)]
struct LinkAttribute {
    name: String,
    values: ValueType,
    width: usize,
}

/// What links are read for: the chunks that were read, and how.
#[derive(Debug)]
pub(super) struct Read<'a> {
    pub(super) level: &'a VectorLevel,
    pub(super) views: &'a [CellView<'a>],
    pub(super) places: &'a Places,
    /// Whether all of the level is asked for.
    pub(super) whole: bool,
}

/// What has been read of links.
struct Found<'a> {
    map: RowMap,
    sequential: bool,
    out: LinkBatches<'a>,
    /// How many links were stored.
    links: u64,
    /// How many of them end at vertices whose order was not kept.
    unnumbered: u64,
}

impl LinkReader {
    /// Opens the links of a level; `None` if it has none.
    pub(super) fn open(
        store: &VectorStore,
        level: u64,
        rank: usize,
        opened: &VectorLevel,
        told: &mut Told,
    ) -> Result<Option<Self>, Error> {
        let rank = opened.document.grid_rank(rank);
        let path = format!("{level}/links/0");
        let (family, children) = match group_at(store, &path)? {
            Some(group) => {
                let family = LinkFamily::read(group.metadata().attributes(), 0, rank);
                let children = match group.children() {
                    Err(Error::UnlistedGroup { .. }) => probe::links(store, &path, &family, told)?,
                    children => children?,
                };
                (family, children)
            }
            // The faces of a chunk are then where its vertices are.
            None if opened.draco => {
                let width = store.kind.link_width();
                let family = LinkFamily::read(&serde_json::Map::new(), 0, rank);
                (LinkFamily { width, ..family }, Vec::new())
            }
            None => return Ok(None),
        };
        let mut reader = Self { family, arrays: Vec::new(), attributes: Vec::new() };
        for Child { name, node, .. } in children {
            let path = format!("{path}/{name}");
            let wrong = |source| store.wrong(VectorsError::Document { node: path.clone(), source });
            let offsets = LinkOffsets::parse(&name, rank, reader.family.width).map_err(wrong)?;
            let array = GridArray::of_node(store, &path, node?, rank)?;
            let document = LinkArray::read(array.attributes(), &reader.family, offsets.is_within());
            let document = document.map_err(wrong)?;
            let stored = array.stored(opened.doubts(told)?, told)?;
            let attributes = Vec::new();
            reader.arrays.push(OffsetArray { offsets, array, document, stored, attributes });
        }
        let group = format!("{level}/link_attributes");
        for Child { name, node, .. } in named_children(store, &group, "link")? {
            node?;
            reader.open_attribute(store, opened, &group, name, told)?;
        }
        Ok(Some(reader))
    }

    fn open_attribute(
        &mut self,
        store: &VectorStore,
        level: &VectorLevel,
        group: &str,
        name: String,
        told: &mut Told,
    ) -> Result<(), Error> {
        let rank = level.document.grid_rank(store.root.axes.len());
        let mut documents: Vec<(ValueType, usize)> = Vec::new();
        let mut arrays = Vec::new();
        for links in &self.arrays {
            let path = format!("{group}/{name}/0/{}", links.offsets.name());
            let array = GridArray::open(store, &path, rank)?;
            if let Some(array) = &array {
                compare(level, &links.array, array);
                let Some(values) = value_type(store, array)? else {
                    told.note(left_out(array));
                    return Ok(());
                };
                let width = links.find_width(&values, array)?;
                documents.extend(width.map(|width| (values, width)));
            }
            arrays.push(array);
        }
        let mut documents = documents.into_iter();
        let Some((values, width)) = documents.next() else { return Ok(()) };
        if let Some(other) =
            documents.find(|other| (other.0.stored, other.1) != (values.stored, width))
        {
            let reason = format!(
                "link_attributes/{name} has {} values of type {} in one array, {} of {} in another",
                width,
                values.stored.scalar.name(),
                other.1,
                other.0.stored.scalar.name()
            );
            return Err(store.wrong(VectorsError::Question(reason)));
        }
        for (links, array) in self.arrays.iter_mut().zip(arrays) {
            links.attributes.push(array);
        }
        self.attributes.push(LinkAttribute { name, values, width });
        Ok(())
    }

    /// The columns of links.
    pub(super) fn fields(&self) -> Vec<Field> {
        let field =
            |one: &LinkAttribute| Field::new(&one.name, one.values.column_type(one.width), true);
        self.attributes.iter().map(field).collect()
    }

    /// The links between the rows in `map`.
    ///
    /// With `sequential`, a row is a child of the one before it in its fragment, unless a stored
    /// link says otherwise, and links are pairs of a child and its parent.
    pub(super) fn read(
        &self,
        read: &Read<'_>,
        map: RowMap,
        sequential: bool,
        told: &mut Told,
    ) -> Result<Vec<Links>, Error> {
        let out = LinkBatches::new(self);
        let mut found = Found { map, sequential, out, links: 0, unnumbered: 0 };
        self.arrays.iter().try_for_each(|links| links.check_list(read))?;
        let doubt = read.level.doubts(told)?;
        for links in &self.arrays {
            // Lists may have turned out to be wrong since.
            match doubt && links.stored.listed {
                true => {
                    let stored = links.array.stored(true, told)?;
                    self.read_array(links, &stored, read, &mut found, told)?;
                }
                false => self.read_array(links, &links.stored, read, &mut found, told)?,
            }
        }
        self.read_faces(read, &mut found);
        if read.whole && !self.family.duplicate && found.links < self.family.records {
            if !doubt {
                self.read_unlisted(read, &mut found, told)?;
            }
            let (said, found) = (self.family.records, found.links);
            if found < said {
                let level = read.level.document.level;
                told.contradiction(format!(
                    "level {level} says that {said} links are stored; {found} were found"
                ))?;
            }
        }
        if found.unnumbered > 0 {
            let count = found.unnumbered;
            told.contradiction(format!(
                "{count} links between chunks are left out: Draco keeps no order of vertices that \
                 their ends could be matched with"
            ))?;
        }
        if sequential {
            return Ok(found.map.into_sequential_links());
        }
        found.out.finish().map_err(|error| self.wrong(error))
    }

    /// Reads links of chunks that are stored but not listed: there are fewer than the level says.
    fn read_unlisted(
        &self,
        read: &Read<'_>,
        found: &mut Found<'_>,
        told: &mut Told,
    ) -> Result<(), Error> {
        for links in self.arrays.iter().filter(|links| links.stored.listed) {
            let mut chunks = links.array.found()?;
            chunks.retain(|chunk| links.array.leaves_out(chunk));
            if chunks.is_empty() {
                continue;
            }
            let (array, count) = (&links.array.path, chunks.len());
            read.level.doubt(format!("{array} does not list {count} chunks that are stored"));
            if !read.level.doubts(told)? {
                continue;
            }
            self.read_array(links, &Stored { chunks, listed: false }, read, found, told)?;
        }
        Ok(())
    }

    /// Takes the faces that are stored with the vertices of a chunk.
    fn read_faces(&self, read: &Read<'_>, found: &mut Found<'_>) {
        if self.family.width != 3 {
            return;
        }
        let none: Vec<Option<Values<'_>>> = self.attributes.iter().map(|_| None).collect();
        for (chunk, view) in (0..).zip(read.views) {
            for face in view.faces.as_chunks::<3>().0 {
                let ends = face.map(|vertex| End { chunk: Some(chunk), vertex: vertex.into() });
                let Found { map, out, .. } = found;
                map.each_link(&ends, |rows| out.push(rows, 0, &none));
            }
        }
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
        stored: &Stored,
        read: &Read<'_>,
        found: &mut Found<'_>,
        told: &mut Told,
    ) -> Result<(), Error> {
        let Read { views, places, .. } = read;
        // Of links that are stored with each of their chunks, those with the first are taken.
        let is_first = |offset: &ChunkCoords| offset.iter().find(|at| **at != 0) >= Some(&0);
        let is_first = |offset: &ChunkCoords| offset.iter().all(|at| *at == 0) || is_first(offset);
        if self.family.duplicate && !links.offsets.iter().all(is_first) {
            return Ok(());
        }
        let chunks: Vec<&ChunkCoords> =
            stored.chunks.iter().filter(|chunk| places.contains_key(*chunk)).collect();
        let cells = links.array.read(chunks.iter().copied())?;
        let attributes: Vec<_> = links
            .attributes
            .iter()
            .zip(&self.attributes)
            .map(|(array, attribute)| {
                let read = array.as_ref().map(|array| array.read(chunks.iter().copied()));
                Ok(read.transpose()?.map(|cells| in_order(cells, attribute.values.stored)))
            })
            .collect::<Result<_, Error>>()?;
        let (row, size) = (links.document.row_size(), links.document.scalar.size());
        for (at, (chunk, bytes)) in chunks.into_iter().zip(cells.iter()).enumerate() {
            let rows = links.rows(chunk, bytes)?;
            let count = rows.len() / row.max(1);
            let values = self.values(links, chunk, at, &attributes, count)?;
            if bytes.is_empty() && stored.listed {
                links.check_absent(read.level, chunk)?;
                told.absent(&links.array.path, chunk_key(chunk))?;
            }
            found.links += count as u64;
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
                let (code, numbers) = match links.document.permuted {
                    true => (numbers.first().copied().unwrap_or(0), &numbers[1..]),
                    false => (0, &numbers[..]),
                };
                let mut ends: SmallVec<[End; 4]> = SmallVec::new();
                let mut numbered = true;
                for (place, vertex) in ends_in.iter().zip(numbers) {
                    let view = place.and_then(|place| views.get(place as usize));
                    numbered &= view.is_none_or(|view| view.numbered);
                    let rows = view.filter(|view| view.numbered).map(|view| view.rows);
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
                let Found { map, out, .. } = found;
                if !numbered {
                    found.unnumbered += 1;
                } else if found.sequential {
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
            let row = attribute.width * attribute.values.document.scalar.size();
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

    /// Looks for chunks whose fragments say that they have links, and that are not listed.
    ///
    /// Reads nothing unless fragments are listed for chunks that links are not listed for.
    fn check_list(&self, read: &Read<'_>) -> Result<(), Error> {
        let array = read.level.link_fragments.as_ref().filter(|_| self.offsets.is_within());
        let Some((array, list)) = array.and_then(|array| Some((array, array.list()?))) else {
            return Ok(());
        };
        let unlisted = |chunk: &&ChunkCoords| {
            self.stored.listed && self.array.leaves_out(chunk) && read.places.contains_key(*chunk)
        };
        let chunks: Vec<&ChunkCoords> = list.iter().filter(unlisted).collect();
        if chunks.is_empty() {
            return Ok(());
        }
        let cells = array.read(chunks.iter().copied())?;
        for (chunk, bytes) in chunks.into_iter().zip(cells.iter()) {
            if links_of(array, chunk, bytes)? > 0 {
                let (path, of, chunk) = (&self.array.path, &array.path, chunk_key(chunk));
                read.level.doubt(format!("{path} does not list chunk {chunk}, which {of} has"));
            }
        }
        Ok(())
    }

    /// Checks that a chunk for which nothing is stored has had no links, as far as that is known.
    fn check_absent(&self, level: &VectorLevel, chunk: &ChunkCoords) -> Result<(), Error> {
        let Some(array) = level.link_fragments.as_ref().filter(|_| self.offsets.is_within()) else {
            return Ok(());
        };
        let cell = array.read([chunk])?;
        let links = links_of(array, chunk, cell.get(0).unwrap_or_default())?;
        if links > 0 {
            let reason = format!("its {links} links are not stored, only their fragments");
            return Err(self.array.contradicts(chunk, reason));
        }
        Ok(())
    }

    /// How many numbers a link has, in an attribute; `None` if there is no link.
    fn find_width(&self, values: &ValueType, array: &GridArray) -> Result<Option<usize>, Error> {
        let document = &values.document;
        if document.width.is_some() {
            return Ok(document.width);
        }
        for chunk in &self.stored.chunks {
            let links = self.array.read([chunk])?;
            let links = self.rows(chunk, links.get(0).unwrap_or_default())?.len();
            let links = links.checked_div(self.document.row_size()).unwrap_or(0);
            let bytes = array.read([chunk])?.byte_len();
            if links == 0 && bytes == 0 {
                continue;
            }
            let width = bytes.checked_div(links * document.scalar.size()).unwrap_or(0);
            if width == 0 || width * links * document.scalar.size() != bytes {
                let reason = format!("{bytes} bytes are no rows for {links} links");
                return Err(array.contradicts(chunk, reason));
            }
            return Ok(Some(width));
        }
        Ok(None)
    }
}

/// How many links the fragments of a chunk are made of.
fn links_of(array: &GridArray, chunk: &ChunkCoords, bytes: &[u8]) -> Result<u64, Error> {
    if bytes.is_empty() {
        return Ok(0);
    }
    let index = FragmentIndex::parse(bytes).map_err(|error| array.damaged(chunk, error))?;
    Ok(index.extent())
}

/// Two arrays have the same chunks, so lists that differ are wrong.
fn compare(level: &VectorLevel, one: &GridArray, other: &GridArray) {
    if let (Some(own), Some(list)) = (one.list(), other.list())
        && own != list
    {
        level.doubt(format!("{} and {} list different chunks", one.path, other.path));
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
            |one: &LinkAttribute| (Column::new(one.values.stored.scalar, one.width), Vec::new());
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
                columns.push(one.values.finish(&mut column, nulls)?);
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

/// The group at `path`; `None` if there is none.
fn group_at(store: &VectorStore, path: &str) -> Result<Option<Group>, Error> {
    match store.node(path) {
        Ok(Node::Group(group)) => Ok(Some(group)),
        Ok(Node::Array(_)) => {
            let node = path.to_owned();
            Err(store.wrong(VectorsError::Node { node, expected: "a group" }))
        }
        Err(Error::NoNode { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
