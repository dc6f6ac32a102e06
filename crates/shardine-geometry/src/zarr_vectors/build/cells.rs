//! The vertices of each chunk, in the order in which they are stored.

use super::columns::FinishedColumn;
use super::invalid;
use super::space::Space;
use super::store::ByteStore;
use crate::GeometryError;
use crate::sort::Spool;
use crate::zarr_vectors::{ChunkCoords, FragmentRows, Scalar, encode_fragments};

/// Where things lie in a gathered row.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowForm {
    /// The number of the row among all.
    pub row: Option<usize>,
    /// The id of its object.
    pub object: Option<usize>,
    /// The number of the piece of a path that it belongs to.
    pub segment: Option<usize>,
    /// Its coordinates.
    pub coordinates: usize,
    pub scalar: Scalar,
    pub width: usize,
}

impl RowForm {
    pub fn row(&self, bytes: &[u8]) -> u64 {
        self.row.map_or(0, |at| number(bytes, at))
    }

    pub fn object(&self, bytes: &[u8]) -> i64 {
        self.object.map_or(0, |at| number(bytes, at) as i64)
    }

    pub fn segment(&self, bytes: &[u8]) -> u64 {
        self.segment.map_or(0, |at| number(bytes, at))
    }

    pub fn set_segment(&self, bytes: &mut [u8], segment: u64) {
        if let Some(place) = self.segment.and_then(|at| bytes.get_mut(at..at + 8)) {
            place.copy_from_slice(&segment.to_le_bytes());
        }
    }

    /// The form of rows without coordinates and attributes, which come last.
    pub fn without_values(self) -> Self {
        Self { width: self.coordinates, ..self }
    }

    /// A coordinate as a float.
    fn coordinate(&self, bytes: &[u8], axis: usize) -> f64 {
        let size = self.scalar.size();
        let at = self.coordinates + axis * size;
        bytes.get(at..at + size).map_or(0.0, |value| self.scalar.number(value))
    }
}

/// A number of 64 bits in a row.
fn number(bytes: &[u8], at: usize) -> u64 {
    let number = bytes.get(at..).and_then(|bytes| bytes.first_chunk::<8>());
    number.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// How the rows of a chunk are ordered and cut into fragments.
#[derive(Debug)]
pub(super) enum Arrangement {
    /// As they came, in one fragment.
    Whole,
    /// A fragment for each bin, also for empty ones.
    Bins(Bins),
    /// A fragment for each object, by id.
    Objects,
    /// The same, each tree from its root down; by the number of a row, its place in that order.
    Trees(Vec<u32>),
    /// A fragment for each piece of a path, in the order in which pieces began.
    Paths,
}

/// Bins that chunks are divided into.
#[derive(Debug)]
pub(super) struct Bins {
    edges: Vec<f64>,
    counts: Vec<i64>,
    total: usize,
}

/// The most bins of a chunk: each one is listed, also where it is empty.
const MOST_BINS: usize = 1 << 16;

impl Bins {
    /// Bins of these edges, a whole number of which are a chunk.
    pub fn new(edges: &[f64], space: &Space) -> Result<Self, GeometryError> {
        let wrong = |reason: String| invalid("the shape of a bin", reason);
        if edges.len() != space.rank() || edges.iter().any(|edge| !edge.is_finite() || *edge <= 0.0)
        {
            let reason = format!("must be {} lengths above 0, one for each axis", space.rank());
            return Err(wrong(reason));
        }
        let mut counts = Vec::with_capacity(edges.len());
        for (edge, chunk) in edges.iter().zip(space.edges()) {
            let count = (chunk / edge).round();
            let whole = count >= 1.0 && (count * edge - chunk).abs() <= 1e-6 * chunk;
            if !whole || count > MOST_BINS as f64 {
                let reason = format!("a chunk of {chunk} is no whole number of bins of {edge}");
                return Err(wrong(reason));
            }
            counts.push(count as i64);
        }
        let total = counts.iter().try_fold(1usize, |all, &count| all.checked_mul(count as usize));
        let total = total.filter(|total| *total <= MOST_BINS).ok_or_else(|| {
            wrong(format!("a chunk may have {MOST_BINS} bins, and these would be more"))
        })?;
        Ok(Self { edges: edges.to_vec(), counts, total })
    }

    /// The bin of a row, of those of its chunk.
    fn of(&self, form: &RowForm, row: &[u8], chunk: &[i64]) -> usize {
        let axes = self.edges.iter().zip(&self.counts).zip(chunk).enumerate();
        axes.fold(0, |bin, (axis, ((edge, &count), &chunk))| {
            let place = (form.coordinate(row, axis) / edge).floor() as i64;
            // A division may round to the other side of a border of a chunk.
            let place = place.saturating_sub(chunk.saturating_mul(count)).clamp(0, count - 1);
            bin * count as usize + place as usize
        })
    }
}

/// A fragment of a chunk that has been put together.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacedFragment {
    pub object: i64,
    pub segment: u64,
    pub start: u32,
    pub count: u32,
}

/// The stored bytes of all chunks, by the order of their keys.
pub(super) struct VertexCells {
    space: Space,
    keys: Vec<u128>,
    /// All chunks of the store, if others are put together elsewhere.
    listed: Option<Vec<u128>>,
    starts: Vec<u64>,
    rows: Vec<u32>,
    /// Bytes of a row that waits to be written, in each array: `vertices`, then attributes.
    sizes: Vec<usize>,
    store: ByteStore,
}

impl VertexCells {
    pub fn new(space: &Space, sizes: Vec<usize>, memory: u64) -> Self {
        let (keys, starts, rows) = (Vec::new(), Vec::new(), Vec::new());
        let (space, store) = (space.clone(), ByteStore::new(memory));
        Self { space, keys, listed: None, starts, rows, sizes, store }
    }

    /// Sets all chunks of the store, in ascending order, also those put together elsewhere.
    pub fn list(&mut self, keys: Vec<u128>) {
        self.listed = Some(keys);
    }

    fn listed(&self) -> &[u128] {
        self.listed.as_deref().unwrap_or(&self.keys)
    }

    /// How many chunks the store has.
    pub fn len(&self) -> usize {
        self.listed().len()
    }

    /// All chunks of the store, in order.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkCoords> + '_ {
        self.listed().iter().map(|key| self.space.chunk(*key))
    }

    pub fn find(&self, chunk: &[i64]) -> Option<usize> {
        self.keys.binary_search(&self.space.key(chunk)?).ok()
    }

    /// Bytes of a cell in one of the arrays; the last one is that of fragments.
    fn part(&self, cell: usize, array: usize) -> Option<(u64, u64)> {
        let start = *self.starts.get(cell)?;
        let end = self.starts.get(cell + 1).copied().unwrap_or(self.store.len());
        let rows = u64::from(*self.rows.get(cell)?);
        let bytes = |sizes: &[usize]| sizes.iter().map(|size| *size as u64 * rows).sum::<u64>();
        let from = start + bytes(self.sizes.get(..array)?);
        match self.sizes.get(array) {
            Some(size) => Some((from, *size as u64 * rows)),
            None => Some((from, end - from)),
        }
    }

    pub fn part_len(&self, cell: usize, array: usize) -> u64 {
        self.part(cell, array).map_or(0, |(_, len)| len)
    }

    /// How many rows a cell has.
    pub fn rows(&self, cell: usize) -> u64 {
        self.rows.get(cell).map_or(0, |rows| u64::from(*rows))
    }

    /// Replaces the contents of `out` with a cell of an array, as it waits to be written.
    pub fn read(&self, cell: usize, array: usize, out: &mut Vec<u8>) -> Result<(), GeometryError> {
        out.clear();
        match self.part(cell, array) {
            Some((start, len)) => self.store.read(start, len, out),
            None => Ok(()),
        }
    }
}

/// Puts chunks together, one after the other.
pub(super) struct Assembly<'a> {
    pub form: RowForm,
    pub arrangement: &'a Arrangement,
    pub columns: &'a [FinishedColumn],
    pub spool: &'a dyn Spool,
    order: Vec<u32>,
    fragments: Vec<PlacedFragment>,
    encoded: Vec<u8>,
}

impl<'a> Assembly<'a> {
    pub fn new(
        form: RowForm,
        arrangement: &'a Arrangement,
        columns: &'a [FinishedColumn],
        spool: &'a dyn Spool,
    ) -> Self {
        let (order, fragments, encoded) = (Vec::new(), Vec::new(), Vec::new());
        Self { form, arrangement, columns, spool, order, fragments, encoded }
    }

    /// Adds the next chunk, whose rows are as they came.
    pub fn add(
        &mut self,
        cells: &mut VertexCells,
        key: u128,
        rows: &[u8],
    ) -> Result<(), GeometryError> {
        let chunk = cells.space.chunk(key);
        let form = self.form;
        let count = self.place(&form, &chunk, rows)?;
        self.encoded.clear();
        let rank = cells.space.rank();
        let (at, size) = (self.form.coordinates, rank * self.form.scalar.size());
        let encoded = &mut self.encoded;
        let row = |number: u32| &rows[number as usize * self.form.width..][..self.form.width];
        for &number in &self.order {
            encoded.extend_from_slice(&row(number)[at..at + size]);
        }
        for column in self.columns {
            self.order.iter().for_each(|&number| column.copy(row(number), encoded));
        }
        let ranges: Vec<FragmentRows> = self
            .fragments
            .iter()
            .map(|f| FragmentRows::Range { start: f.start.into(), count: f.count.into() })
            .collect();
        encode_fragments(&ranges, encoded)
            .map_err(|error| invalid(format!("chunk {chunk:?}"), error.to_string()))?;
        cells.keys.push(key);
        cells.starts.push(cells.store.len());
        cells.rows.push(count);
        cells.store.append(&self.encoded, self.spool)
    }

    /// Finds the order of the rows of a chunk, and its fragments, as if it were added. How many rows
    /// it has.
    pub fn place(
        &mut self,
        form: &RowForm,
        chunk: &[i64],
        rows: &[u8],
    ) -> Result<u32, GeometryError> {
        let count = u32::try_from(rows.len() / form.width.max(1)).map_err(|_| {
            invalid(format!("chunk {chunk:?}"), "has more rows than 32 bits count".to_owned())
        })?;
        self.arrange(form, rows, count, chunk);
        Ok(count)
    }

    /// The rows of the chunk that was added last, as they are stored, by their numbers as they
    /// came.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Its fragments.
    pub fn fragments(&self) -> &[PlacedFragment] {
        &self.fragments
    }

    fn arrange(&mut self, form: &RowForm, rows: &[u8], count: u32, chunk: &[i64]) {
        let row = |number: u32| &rows[number as usize * form.width..][..form.width];
        self.order.clear();
        self.order.extend(0..count);
        self.fragments.clear();
        let fragments = &mut self.fragments;
        match self.arrangement {
            Arrangement::Whole => {
                fragments.push(PlacedFragment { object: 0, segment: 0, start: 0, count });
            }
            Arrangement::Bins(bins) => {
                let of: Vec<usize> = (0..count).map(|r| bins.of(form, row(r), chunk)).collect();
                // Stable, so that rows of a bin stay in order.
                self.order.sort_by_key(|&number| of[number as usize]);
                let mut counts = vec![0u32; bins.total];
                of.iter().for_each(|&bin| counts[bin] += 1);
                let mut start = 0;
                for count in counts {
                    fragments.push(PlacedFragment { object: 0, segment: 0, start, count });
                    start += count;
                }
            }
            Arrangement::Objects => {
                self.order.sort_by_key(|&number| form.object(row(number)));
                cut(fragments, &self.order, &|number| (form.object(row(number)), 0));
            }
            Arrangement::Trees(places) => {
                let place = |number: u32| {
                    let of_all = usize::try_from(form.row(row(number))).unwrap_or(usize::MAX);
                    places.get(of_all).copied().unwrap_or(u32::MAX)
                };
                self.order.sort_by_key(|&number| (form.object(row(number)), place(number)));
                cut(fragments, &self.order, &|number| (form.object(row(number)), 0));
            }
            Arrangement::Paths => {
                // In order already, unless rows of several objects came in turns.
                self.order.sort_by_key(|&number| form.segment(row(number)));
                cut(fragments, &self.order, &|number| {
                    (form.object(row(number)), form.segment(row(number)))
                });
            }
        }
    }
}

/// A fragment for each run of rows with the same object and segment.
fn cut(fragments: &mut Vec<PlacedFragment>, order: &[u32], of: &dyn Fn(u32) -> (i64, u64)) {
    for (at, &number) in (0u32..).zip(order) {
        let (object, segment) = of(number);
        match fragments.last_mut() {
            Some(last) if (last.object, last.segment) == (object, segment) => last.count += 1,
            _ => fragments.push(PlacedFragment { object, segment, start: at, count: 1 }),
        }
    }
}
