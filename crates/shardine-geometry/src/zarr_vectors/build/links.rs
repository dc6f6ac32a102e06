//! Links between vertices, by where their ends lie.

use arrow_array::RecordBatch;
use foldhash::{HashMap, HashSet};
use smallvec::SmallVec;

use super::columns::{AttributeColumn, FinishedColumn};
use super::invalid;
use super::objects::Limits;
use super::share::AllChunks;
use super::space::Space;
use super::store::ByteStore;
use crate::sort::{Merge, Sorter, Spool};
use crate::zarr_vectors::{
    ChunkCoords, FragmentRows, LinkOffsets, encode_fragments, encode_ragged, permutation_code,
};
use crate::{GeometryError, Links};

/// The most arrays of links: a graph that joins everything with everything has one for each pair
/// of distances, and no store has room for millions of arrays.
const MOST_ARRAYS: usize = 1 << 20;

/// A vertex by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkEnd {
    /// The key of its chunk.
    pub chunk: u128,
    /// Its row in the chunk.
    pub row: u32,
}

/// Links as they come, by rows of the whole set.
pub(super) struct LinkInput<'a> {
    width: usize,
    /// By the row of the end: the link, and which end it is.
    ends: Sorter<'a>,
    /// By the link: its attributes.
    attributes: Option<Sorter<'a>>,
    columns: Vec<AttributeColumn>,
    row: usize,
    count: u64,
}

impl<'a> LinkInput<'a> {
    /// Links of `width` ends, whose attributes take `row` bytes.
    pub fn new(
        spool: &'a dyn Spool,
        width: usize,
        columns: Vec<AttributeColumn>,
        row: usize,
        memory: u64,
    ) -> Self {
        let attributes = (row > 0).then(|| Sorter::new(spool, row, memory / 2));
        Self { width, ends: Sorter::new(spool, 9, memory / 2), attributes, columns, row, count: 0 }
    }

    pub fn push(&mut self, links: &Links) -> Result<(), GeometryError> {
        if links.is_empty() {
            return Ok(());
        }
        if links.width != self.width || !links.rows.len().is_multiple_of(links.width) {
            let reason = format!("join {} vertices, not {}", links.width, self.width);
            return Err(invalid("links", reason));
        }
        if let Some(sorter) = &mut self.attributes {
            let missing = || invalid("links", "have no attributes".to_owned());
            let batch = links.attributes.as_ref().ok_or_else(missing)?;
            let rows = attribute_rows(&mut self.columns, batch, links.len(), self.row)?;
            for (number, row) in (self.count..).zip(rows.chunks_exact(self.row)) {
                sorter.push(number.into(), row)?;
            }
        }
        for link in links.rows.chunks_exact(self.width) {
            for (end, row) in (0u8..).zip(link) {
                let mut record = [0; 9];
                record[..8].copy_from_slice(&self.count.to_le_bytes());
                record[8] = end;
                self.ends.push((*row).into(), &record)?;
            }
            self.count += 1;
        }
        Ok(())
    }
}

fn attribute_rows(
    columns: &mut [AttributeColumn],
    batch: &RecordBatch,
    links: usize,
    row: usize,
) -> Result<Vec<u8>, GeometryError> {
    if batch.num_rows() != links {
        let reason = format!("{links} of them have {} rows of attributes", batch.num_rows());
        return Err(invalid("links", reason));
    }
    let mut rows = vec![0; links.saturating_mul(row)];
    columns.iter_mut().try_for_each(|column| column.fill(batch, &mut rows, row))?;
    Ok(rows)
}

/// Where each vertex is stored, by its row in the whole set.
pub(super) struct PlaceSorter<'a>(Sorter<'a>);

/// Bytes of a place: the chunk, the row in it, and the object.
const PLACE: usize = 28;

impl<'a> PlaceSorter<'a> {
    pub fn new(spool: &'a dyn Spool, memory: u64) -> Self {
        Self(Sorter::new(spool, PLACE, memory))
    }

    pub fn push(&mut self, row: u64, end: LinkEnd, object: i64) -> Result<(), GeometryError> {
        let mut record = [0; PLACE];
        record[..16].copy_from_slice(&end.chunk.to_le_bytes());
        record[16..20].copy_from_slice(&end.row.to_le_bytes());
        record[20..].copy_from_slice(&object.to_le_bytes());
        self.0.push(row.into(), &record)
    }
}

/// How links are told from those that follow from the order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    /// All are stored.
    All,
    /// Edges from a child to a parent that is not the row before it.
    Branches,
}

impl LinkInput<'_> {
    /// Finds where the ends of all links are stored, and hands the links on.
    pub fn join(
        self,
        places: PlaceSorter<'_>,
        stored: Stored,
        links: &mut LinkSorter<'_>,
        limits: &Limits<'_>,
    ) -> Result<(), GeometryError> {
        let Self { width, ends, attributes, row, .. } = self;
        let mut resolved = Sorter::new(limits.spool, 1 + PLACE, limits.memory);
        let (mut ends, mut places) = (ends.merge(), places.0.merge());
        let (mut of_end, mut of_place) = (Vec::new(), Vec::new());
        let mut place = places.next_group(&mut of_place, limits.most)?;
        while let Some(key) = ends.next_group(&mut of_end, limits.most)? {
            (limits.check)()?;
            while place.is_some_and(|place| place < key) {
                place = places.next_group(&mut of_place, limits.most)?;
            }
            if place != Some(key) {
                let link = of_end.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                let reason = format!("refers to row {key}, and there is none");
                return Err(invalid(format!("link {link}"), reason));
            }
            let mut record = [0; 1 + PLACE];
            record[1..].copy_from_slice(&of_place[..PLACE]);
            for end in of_end.chunks_exact(9) {
                record[0] = end[8];
                let link = end.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                resolved.push(link.into(), &record)?;
            }
        }
        drop((ends, places));
        let (mut resolved, mut attributes) = (resolved.merge(), attributes.map(Sorter::merge));
        let (mut of_link, mut values) = (Vec::new(), Vec::new());
        let mut objects = vec![0i64; width];
        let mut ends = vec![LinkEnd { chunk: 0, row: 0 }; width];
        while let Some(link) = resolved.next_group(&mut of_link, limits.most)? {
            (limits.check)()?;
            for record in of_link.chunks_exact(1 + PLACE) {
                let at = usize::from(record[0]);
                (ends[at], objects[at]) = read_place(&record[1..]);
            }
            next_values(&mut attributes, &mut values, limits.most)?;
            if stored == Stored::Branches {
                let ([child, parent], [of_child, of_parent]) = (&ends[..], &objects[..]) else {
                    continue;
                };
                if of_child != of_parent {
                    let reason = format!("joins objects {of_child} and {of_parent}");
                    return Err(invalid(format!("edge {link} of a skeleton"), reason));
                }
                if child.chunk == parent.chunk && child.row.checked_sub(1) == Some(parent.row) {
                    continue;
                }
            }
            links.push(&ends, &values[..row])?;
        }
        Ok(())
    }

    /// The attributes of links, now that all are known.
    pub fn columns(&mut self) -> Result<Vec<FinishedColumn>, GeometryError> {
        let columns = std::mem::take(&mut self.columns).into_iter();
        columns.map(|column| column.finish(false)).collect()
    }
}

fn next_values(
    attributes: &mut Option<Merge>,
    values: &mut Vec<u8>,
    most: u64,
) -> Result<(), GeometryError> {
    if let Some(attributes) = attributes {
        // A row for each link, in the same order.
        attributes.next_group(values, most)?;
    }
    Ok(())
}

fn read_place(record: &[u8]) -> (LinkEnd, i64) {
    let chunk = record.first_chunk::<16>().map_or(0, |bytes| u128::from_le_bytes(*bytes));
    let row = record[16..].first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let object = record[20..].first_chunk::<8>().map_or(0, |bytes| i64::from_le_bytes(*bytes));
    (LinkEnd { chunk, row }, object)
}

/// Gathers links by the chunk of their first end.
pub(super) struct LinkSorter<'a> {
    space: Space,
    width: usize,
    row: usize,
    sorter: Sorter<'a>,
    arrays: Vec<LinkOffsets>,
    numbers: HashMap<LinkOffsets, u32>,
    record: Vec<u8>,
    records: u64,
    /// Which chunks are put together here, if not all.
    share: Option<&'a AllChunks>,
    /// The other chunks of each array.
    others: HashSet<(u32, u128)>,
}

impl<'a> LinkSorter<'a> {
    /// Links of `width` ends, whose attributes take `row` bytes. Those within chunks have an array
    /// even if it is empty, if `within`.
    pub fn new(
        spool: &'a dyn Spool,
        space: &Space,
        width: usize,
        row: usize,
        within: bool,
        memory: u64,
    ) -> Self {
        let mut arrays = Vec::new();
        let mut numbers = HashMap::default();
        if within {
            let offsets = LinkOffsets::within(space.rank(), width);
            numbers.insert(offsets.clone(), 0);
            arrays.push(offsets);
        }
        let sorter = Sorter::new(spool, 4 + 8 + 8 * width + row, memory);
        let (space, record, others) = (space.clone(), Vec::new(), HashSet::default());
        let (records, share) = (0, None);
        Self { space, width, row, sorter, arrays, numbers, record, records, share, others }
    }

    /// Keeps only the links of chunks that are put together here; of the others it counts.
    pub fn sharing(self, share: Option<&'a AllChunks>) -> Self {
        Self { share, ..self }
    }

    /// Adds a link.
    ///
    /// Its ends are stored in the order of chunks and rows, with the permutation that restores
    /// their own order; within a chunk they stay as they are.
    pub fn push(&mut self, ends: &[LinkEnd], attributes: &[u8]) -> Result<(), GeometryError> {
        let mut order: SmallVec<[u8; 4]> = (0..ends.len() as u8).collect();
        let first = ends.first().map_or(0, |end| end.chunk);
        let within = ends.iter().all(|end| end.chunk == first);
        if !within {
            order.sort_by_key(|&end| ends[usize::from(end)]);
        }
        let stored: SmallVec<[LinkEnd; 4]> =
            order.iter().map(|&end| ends[usize::from(end)]).collect();
        let source = stored.first().map_or(0, |end| end.chunk);
        let from = self.space.chunk(source);
        let offset = |end: &LinkEnd| -> ChunkCoords {
            self.space.chunk(end.chunk).iter().zip(&from).map(|(to, from)| to - from).collect()
        };
        let offsets = LinkOffsets::new(stored.iter().skip(1).map(offset));
        let next = self.arrays.len() as u32;
        let number = match self.numbers.get(&offsets) {
            Some(&number) => number,
            None if self.arrays.len() >= MOST_ARRAYS => {
                let reason = format!(
                    "join chunks at more than {MOST_ARRAYS} different distances, each of which is an \
                     array; choose larger chunks"
                );
                return Err(invalid("links", reason));
            }
            None => {
                self.numbers.insert(offsets.clone(), next);
                self.arrays.push(offsets);
                next
            }
        };
        self.records += 1;
        if self.share.is_some_and(|share| !share.is_own(source)) {
            self.others.insert((number, source));
            return Ok(());
        }
        let code = permutation_code(&order).unwrap_or(0);
        self.record.clear();
        self.record.extend(number.to_le_bytes());
        self.record.extend(code.to_le_bytes());
        for end in &stored {
            self.record.extend(i64::from(end.row).to_le_bytes());
        }
        self.record.extend_from_slice(attributes);
        self.sorter.push(source, &self.record)
    }

    /// The cells of all arrays of links.
    pub fn finish(
        self,
        columns: &[FinishedColumn],
        limits: &Limits<'_>,
    ) -> Result<LinkCells, GeometryError> {
        let Self { space, width, row, sorter, arrays, records, others, .. } = self;
        let arrays = arrays.into_iter().map(|offsets| LinkCellArray {
            within: offsets.is_within(),
            offsets,
            cells: Vec::new(),
            others: Vec::new(),
        });
        let sizes = columns.iter().map(|column| column.size).collect();
        let mut cells = LinkCells {
            space,
            width,
            records,
            arrays: arrays.collect(),
            sizes,
            store: ByteStore::new(limits.memory),
        };
        for (number, key) in others {
            if let Some(array) = cells.arrays.get_mut(number as usize) {
                array.others.push(key);
            }
        }
        let size = 4 + 8 + 8 * width + row;
        let mut merge = sorter.merge();
        let (mut rows, mut order, mut encoded) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(key) = merge.next_group(&mut rows, limits.most)? {
            (limits.check)()?;
            let record = |number: &usize| &rows[number * size..][..size];
            let array_of = |number: &usize| {
                record(number).first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes))
            };
            order.clear();
            order.extend(0..rows.len() / size);
            order.sort_by_key(array_of);
            for of_array in order.chunk_by(|a, b| array_of(a) == array_of(b)) {
                let number = of_array.first().map_or(0, array_of) as usize;
                let records = of_array.iter().map(record);
                let start = cells.store.len();
                encoded.clear();
                let Some(array) = cells.arrays.get_mut(number) else { continue };
                encode(&mut encoded, array.within, width, records.clone())?;
                for column in columns {
                    records.clone().for_each(|record| {
                        column.copy(&record[12 + 8 * width..], &mut encoded);
                    });
                    limits.fits(column, of_array.len() as u64, &cells.space.chunk(key))?;
                }
                array.cells.push(LinkCell { key, start, links: of_array.len() as u64 });
                cells.store.append(&encoded, limits.spool)?;
            }
        }
        Ok(cells)
    }
}

/// Appends the links of a cell.
fn encode<'r>(
    out: &mut Vec<u8>,
    within: bool,
    width: usize,
    records: impl Iterator<Item = &'r [u8]>,
) -> Result<(), GeometryError> {
    if within {
        records.for_each(|record| out.extend_from_slice(&record[12..12 + 8 * width]));
        return Ok(());
    }
    let mut group = Vec::new();
    records.for_each(|record| group.extend_from_slice(&record[4..12 + 8 * width]));
    encode_ragged(&[&group], out).map_err(|error| invalid("links of a chunk", error.to_string()))
}

/// The links of a chunk whose other ends lie in the same places.
#[derive(Debug, Clone, Copy)]
struct LinkCell {
    key: u128,
    start: u64,
    links: u64,
}

/// An array of links.
#[derive(Debug)]
struct LinkCellArray {
    offsets: LinkOffsets,
    within: bool,
    cells: Vec<LinkCell>,
    /// Chunks that are put together elsewhere.
    others: Vec<u128>,
}

/// The stored bytes of all arrays of links.
pub(super) struct LinkCells {
    space: Space,
    width: usize,
    records: u64,
    arrays: Vec<LinkCellArray>,
    sizes: Vec<usize>,
    store: ByteStore,
}

/// What is stored of the links of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkPart {
    /// The links.
    Rows,
    /// The index that says that they are one fragment.
    Fragments,
    /// An attribute, by its number.
    Attribute(usize),
}

impl LinkCells {
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many links are stored.
    pub fn records(&self) -> u64 {
        self.records
    }

    pub fn arrays(&self) -> usize {
        self.arrays.len()
    }

    pub fn offsets(&self, array: usize) -> Option<&LinkOffsets> {
        self.arrays.get(array).map(|array| &array.offsets)
    }

    /// The chunks of the cells of an array, in order.
    pub fn chunks(&self, array: usize) -> impl Iterator<Item = ChunkCoords> + '_ {
        let array = self.arrays.get(array);
        let own = array.into_iter().flat_map(|array| &array.cells).map(|cell| cell.key);
        let others = array.into_iter().flat_map(|array| &array.others).copied();
        let mut keys: Vec<u128> = own.chain(others).collect();
        keys.sort_unstable();
        keys.into_iter().map(|key| self.space.chunk(key))
    }

    fn find(&self, array: usize, chunk: &[i64]) -> Option<(&LinkCellArray, &LinkCell)> {
        let array = self.arrays.get(array)?;
        let key = self.space.key(chunk)?;
        let at = array.cells.binary_search_by_key(&key, |cell| cell.key).ok()?;
        Some((array, array.cells.get(at)?))
    }

    /// Bytes of the links themselves.
    fn rows_len(&self, array: &LinkCellArray, cell: &LinkCell) -> u64 {
        match array.within {
            true => cell.links * self.width as u64 * 8,
            false => 16 + cell.links * (1 + self.width as u64) * 8,
        }
    }

    /// Replaces the contents of `out` with a part of a cell; `false` if there are no links.
    pub fn read(
        &self,
        array: usize,
        chunk: &[i64],
        part: LinkPart,
        out: &mut Vec<u8>,
    ) -> Result<bool, GeometryError> {
        out.clear();
        let Some((array, cell)) = self.find(array, chunk) else { return Ok(false) };
        let rows = self.rows_len(array, cell);
        match part {
            LinkPart::Rows => self.store.read(cell.start, rows, out)?,
            LinkPart::Fragments => {
                let all = FragmentRows::Range { start: 0, count: cell.links };
                encode_fragments(&[all], out)
                    .map_err(|error| invalid(format!("chunk {chunk:?}"), error.to_string()))?;
            }
            LinkPart::Attribute(number) => {
                let before = self.sizes.iter().take(number).map(|size| *size as u64).sum::<u64>();
                let size = self.sizes.get(number).copied().unwrap_or(0) as u64;
                let start = cell.start + rows + before * cell.links;
                self.store.read(start, size * cell.links, out)?;
            }
        }
        Ok(true)
    }

    /// Bytes of a part of a cell, as it is stored.
    pub fn part_len(
        &self,
        array: usize,
        chunk: &[i64],
        part: LinkPart,
        columns: &[FinishedColumn],
    ) -> u64 {
        self.find(array, chunk).map_or(0, |(array, cell)| match part {
            LinkPart::Rows => self.rows_len(array, cell),
            LinkPart::Fragments => 44,
            LinkPart::Attribute(number) => {
                columns.get(number).map_or(0, |column| column.stored_len(cell.links))
            }
        })
    }
}
