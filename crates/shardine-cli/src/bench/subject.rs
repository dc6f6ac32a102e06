//! The array that is measured, and which parts of it each workload touches.

use std::collections::BTreeMap;
use std::sync::Arc;

use shardine::precomputed::Volume;
use shardine::store::{Key, StoreError};
use shardine::{Array, DataSet, ElementSize, Engine, Error, Location, SetKind, open_in};

use super::boxes::{Piece, Random, Tiles, grown, touched};
use super::measure;
use crate::dataset::Level;
use crate::failure::Failure;
use crate::units;

/// Bytes assumed for a variable-length element when planning how much to read.
const VARIABLE: u64 = 64;

/// The most calls in a run where each is for an object of its own.
const MOST_OBJECTS: u64 = 65_536;

/// The most shards that chunks are picked from: the index of each is read beforehand.
const MOST_SHARDS: u64 = 256;

/// Memory for the elements of one call where the system does not report how much there is.
const UNKNOWN_MEMORY: u64 = 1 << 30;

/// Elements of a region along each axis, and its maximum size in bytes.
const REGION: u64 = 100;
const REGION_BYTES: u64 = 64 << 20;

/// An array, and how much of it may be read at a time.
#[derive(Debug)]
pub struct Subject {
    pub set: Box<dyn DataSet>,
    /// Which level of it, where it has several.
    pub level: usize,
    pub array: Array,
    /// The object that holds each position.
    pub keys: BTreeMap<Vec<u64>, Key>,
    /// The positions of the stored objects, or where the chunks of a shard do not form a box, of
    /// the chunks.
    pub cells: Vec<Vec<u64>>,
    /// Bytes of elements that a run may decode.
    pub limit: u64,
    /// Bytes of elements that may be in memory at the same time.
    share: u64,
}

/// Boxes for the calls of a run, and whether they cover everything.
#[derive(Debug, Clone)]
pub struct Picked {
    pub pieces: Vec<Piece>,
    pub complete: bool,
}

impl Subject {
    /// Opens an array, or a level of an image or a volume, and finds its objects: one read, or two
    /// for an image and five for a volume, and a listing for each folder. For shards whose chunks do not form a box, the
    /// indexes are read too.
    pub fn open(
        engine: &Arc<Engine>,
        location: &Location,
        level: Level,
        name: &str,
        limit: u64,
    ) -> Result<Self, Failure> {
        let set = open_in(engine, location)?;
        let array = level.of(&*set, location, None)?;
        if array.shape().contains(&0) {
            return Err(Failure::new(format!(
                "{name}: an array of {} has no elements, so there is nothing to measure",
                units::shape(array.shape())
            )));
        }
        let objects = array.objects()?;
        let mut keys: BTreeMap<Vec<u64>, Key> =
            objects.into_iter().map(|object| (object.cell, object.key)).collect();
        if let Some(volume) = set.downcast_ref::<Volume>()
            && is_scattered(&array)
        {
            keys = chunks_in(volume, level.number(), keys.into_values())?;
        }
        let cells = keys.keys().cloned().collect();
        let level = level.number();
        let available = measure::available_memory().unwrap_or(UNKNOWN_MEMORY);
        let share = (available / 4).max(1);
        Ok(Self { set, level, array, keys, cells, limit: limit.max(1), share })
    }

    /// The number of the level, if the data set has levels.
    pub fn level_number(&self) -> Option<usize> {
        (self.set.kind() != SetKind::Array).then_some(self.level)
    }

    /// Whether it has shards whose chunks do not form a box, so that each chunk is treated as an
    /// object.
    pub fn is_scattered(&self) -> bool {
        is_scattered(&self.array)
    }

    /// The shape of what one object holds.
    pub fn object_shape(&self) -> &[u64] {
        self.array.shard_shape().unwrap_or(self.array.cell_shape())
    }

    /// The shape of what has to be decoded for one element.
    fn unit(&self) -> &[u64] {
        match (self.array.shard_shape(), self.array.entry_shape()) {
            (Some(shard), None) => shard,
            _ => self.array.chunk_shape(),
        }
    }

    /// Whether a chunk is found through an index that can be cached.
    pub fn has_indexes(&self) -> bool {
        self.array.entry_shape().is_some()
    }

    /// Bytes of this many elements, or an estimate.
    pub fn bytes(&self, elements: u64) -> u64 {
        let element = match self.array.data_type().size() {
            ElementSize::Fixed(size) => size as u64,
            ElementSize::Variable => VARIABLE,
        };
        elements.saturating_mul(element.max(1))
    }

    /// How many elements fit in this many bytes.
    fn elements(&self, bytes: u64) -> u64 {
        (bytes / self.bytes(1)).max(1)
    }

    fn objects(&self) -> Tiles {
        Tiles::new(self.array.shape(), self.object_shape())
    }

    /// Objects that the grid has room for.
    pub fn objects_possible(&self) -> u64 {
        self.objects().count()
    }

    /// The most bytes of the array that one object holds.
    fn object_bytes(&self) -> u64 {
        self.bytes(self.objects().at(0).elements())
    }

    /// The array as one box, or if that is too much, parts of it, cut between shards if possible.
    pub fn whole(&self) -> Picked {
        let shape = self.array.shape();
        let total = self.bytes(units::elements(shape));
        let budget = match total <= self.limit {
            true => self.share,
            false => self.share.min(self.limit / 8),
        };
        let budget = self.elements(budget);
        let cell = match self.objects().at(0).elements() <= budget {
            true => self.object_shape(),
            false => self.array.chunk_shape(),
        };
        let tile = grown(cell, shape, budget);
        let tiles = Tiles::new(shape, &tile);
        let most = (self.limit / self.bytes(units::elements(&tile))).clamp(1, MOST_OBJECTS);
        let picked = Random::new().spread(tiles.count(), most);
        let pieces = picked.into_iter().map(|i| tiles.at(i)).collect();
        Picked { pieces, complete: tiles.count() <= most }
    }

    /// Positions of stored objects all over the array, as many as the limit allows; any positions
    /// if nothing is stored.
    pub fn some_cells(&self, most: u64) -> Vec<Vec<u64>> {
        let most = most.min(self.limit / self.object_bytes().max(1)).max(1);
        let mut random = Random::new();
        if !self.cells.is_empty() {
            let picked = random.spread(self.cells.len() as u64, most);
            return picked.into_iter().map(|i| self.cells[i as usize].clone()).collect();
        }
        let places = self.array.shape().iter().zip(self.object_shape());
        let places: Vec<u64> = places.map(|(&n, &t)| n.div_ceil(t.max(1))).collect();
        let places = Tiles::new(&places, &vec![1; places.len()]);
        let picked = random.spread(places.count(), most);
        picked.into_iter().map(|i| places.at(i).start).collect()
    }

    /// The box of an object.
    pub fn object(&self, cell: &[u64]) -> Piece {
        self.objects().of_cell(cell)
    }

    /// Objects one by one, and whether one was too large and is cut between chunks.
    pub fn shards(&self) -> (Picked, bool) {
        let cells = self.some_cells(MOST_OBJECTS);
        let mut complete = match self.cells.is_empty() {
            true => cells.len() as u64 == self.objects_possible(),
            false => cells.len() == self.cells.len(),
        };
        let budget = self.elements(self.share.min(self.limit));
        let mut left = self.limit;
        let mut pieces = Vec::new();
        let mut cut = false;
        'cells: for cell in &cells {
            let object = self.object(cell);
            for piece in object.cut(self.array.chunk_shape(), budget) {
                cut |= piece != object;
                let bytes = self.bytes(piece.elements());
                if bytes > left && !pieces.is_empty() {
                    complete = false;
                    break 'cells;
                }
                left = left.saturating_sub(bytes);
                pieces.push(piece);
            }
        }
        (Picked { pieces, complete }, cut)
    }

    /// Memory that the index of a shard takes, including those of nested shards.
    fn index_bytes(&self) -> u64 {
        let axes = self.object_shape().iter().zip(self.array.chunk_shape());
        let counts: Vec<u64> = axes.map(|(&n, &c)| n.div_ceil(c.max(1))).collect();
        units::elements(&counts).saturating_mul(32).saturating_add(512)
    }

    /// How many shards to pick chunks from so that their indexes fit in this many bytes.
    pub fn shards_with_indexes_in(&self, bytes: u64) -> u64 {
        if self.is_scattered() {
            // They are chunks, whose indexes have been read.
            return MOST_OBJECTS;
        }
        (bytes / self.index_bytes()).clamp(1, MOST_SHARDS)
    }

    /// Memory in which the indexes of this many shards stay cached.
    pub fn memory_for_indexes(&self, shards: u64) -> u64 {
        self.index_bytes().saturating_mul(shards).saturating_mul(2)
    }

    /// Chunks of these objects, in random order: all different, and stored ones where an index says
    /// which are.
    ///
    /// One open and one read for each object.
    pub fn chunks(&self, cells: &[Vec<u64>], most: u64) -> Result<Picked, Failure> {
        let unit = self.bytes(units::elements(self.unit()));
        let most = most.min(self.limit / unit.max(1)).max(1);
        let mut random = Random::new();
        let each = most.div_ceil(cells.len().max(1) as u64);
        let mut pieces = Vec::new();
        for cell in cells {
            self.chunks_of(cell, each, &mut random, &mut pieces)?;
        }
        random.shuffle(&mut pieces);
        pieces.truncate(most as usize);
        Ok(Picked { pieces, complete: false })
    }

    fn chunks_of(
        &self,
        cell: &[u64],
        most: u64,
        random: &mut Random,
        out: &mut Vec<Piece>,
    ) -> Result<(), Failure> {
        let object = self.object(cell);
        let found = match self.is_scattered() {
            true => None,
            false => self.array.shard_entries(cell)?,
        };
        // For a very large shard the positions of its entries are not reported.
        let found = found.filter(|found| found.grid.len() == object.shape.len());
        let entries = match (self.array.entry_shape(), found) {
            (Some(shape), Some(entries)) => {
                let axes = entries.grid.iter().zip(shape);
                let extent: Vec<u64> = axes.map(|(&n, &len)| n.saturating_mul(len)).collect();
                let tiles = Tiles::new(&extent, shape);
                let stored = (0u64..).zip(&entries.entries).filter(|(_, entry)| entry.is_some());
                let stored = stored.map(|(i, _)| tiles.at(i).inside(&object));
                stored.filter(|entry| entry.elements() > 0).collect()
            }
            _ => vec![object.clone()],
        };
        // For a shard without chunks any one will do: it is filled.
        let entries = if entries.is_empty() { vec![object] } else { entries };
        let picked = random.spread(entries.len() as u64, most);
        let each = most.div_ceil(picked.len().max(1) as u64);
        for entry in picked {
            let entry = &entries[entry as usize];
            let chunks = Tiles::new(&entry.shape, self.array.chunk_shape());
            let picked = random.spread(chunks.count(), each);
            out.extend(picked.into_iter().map(|i| chunks.at(i).moved(&entry.start)));
        }
        Ok(())
    }

    /// Boxes that are not aligned with chunks.
    pub fn regions(&self, most: u64) -> Picked {
        let shape = self.array.shape();
        let mut region: Vec<u64> = shape.iter().map(|&n| n.min(REGION)).collect();
        let budget = self.limit.min(self.share).min(REGION_BYTES);
        halve(&mut region, |region| self.bytes(units::elements(region)) > budget);
        let cost = self.bytes(touched(&region, self.unit(), shape));
        let count = most.min(self.limit / cost.max(1)).max(1);
        let mut random = Random::new();
        let pieces = (0..count).map(|_| {
            let start = region.iter().zip(shape).map(|(&len, &n)| random.below(n - len + 1));
            Piece { start: start.collect(), shape: region.clone() }
        });
        Picked { pieces: pieces.collect(), complete: false }
    }

    /// One plane across the middle of the axis where that means the most decoding, or the middle of
    /// that plane; and which axis it is.
    pub fn plane(&self) -> (Picked, Option<usize>) {
        let (shape, unit) = (self.array.shape(), self.unit());
        let worst = |&k: &usize| {
            let others = (0..shape.len()).filter(|&j| j != k);
            let chunks: Vec<u64> = others.map(|j| shape[j].div_ceil(unit[j].max(1))).collect();
            // An axis of one element does not count.
            (shape[k] > 1, unit[k].min(shape[k]), units::elements(&chunks), k)
        };
        let axis = (0..shape.len()).max_by_key(worst);
        let mut plane = shape.to_vec();
        axis.iter().for_each(|&axis| plane[axis] = 1);
        let whole = plane.clone();
        halve(&mut plane, |plane| {
            self.bytes(touched(plane, unit, shape)) > self.limit
                || self.bytes(units::elements(plane)) > self.share
        });
        let start = plane.iter().zip(shape).map(|(&len, &n)| (n - len) / 2).collect();
        let complete = plane == whole;
        (Picked { pieces: vec![Piece { start, shape: plane }], complete }, axis)
    }

    /// Refuses objects whose elements would take too much memory at a time.
    pub fn check_object_fits(&self) -> Result<(), Failure> {
        if self.object_bytes() <= self.share {
            return Ok(());
        }
        Err(Failure::new(format!(
            "--write: a shard of {} has {} of elements, more than a quarter of the free memory",
            units::shape(self.object_shape()),
            units::size(self.object_bytes())
        ))
        .hint("omit --write to measure reads only"))
    }
}

/// Whether an array has shards whose chunks do not form a box.
fn is_scattered(array: &Array) -> bool {
    array.entry_shape().is_some() && array.shard_shape().is_none()
}

/// The chunks stored in shards, and which shard each is in; none if the store cannot list.
fn chunks_in(
    volume: &Volume,
    level: usize,
    shards: impl Iterator<Item = Key>,
) -> Result<BTreeMap<Vec<u64>, Key>, Failure> {
    // A shard in the older form goes by the name of its index.
    let stem = |name: &str| {
        let name = name.rsplit('/').next().unwrap_or_default();
        name.split('.').next().unwrap_or_default().to_owned()
    };
    let shards: BTreeMap<String, Key> = shards.map(|key| (stem(key.as_str()), key)).collect();
    let mut found = BTreeMap::new();
    let listed = volume.stored_chunks(level, |chunk| {
        if let (Some([x, y, z]), Some(key)) = (chunk.cell, shards.get(&stem(&chunk.object))) {
            found.insert(vec![x, y, z, 0], key.clone());
        }
    });
    match listed {
        Ok(()) | Err(Error::Store(StoreError::Unsupported { .. })) => Ok(found),
        Err(error) => Err(error.into()),
    }
}

/// Halves the longest axis as long as a box is too large.
fn halve(shape: &mut [u64], too_much: impl Fn(&[u64]) -> bool) {
    while too_much(shape) {
        match shape.iter_mut().max() {
            Some(longest) if *longest > 1 => *longest = longest.div_ceil(2),
            _ => return,
        }
    }
}
