//! Cells that are blocks of webknossos-wrap files.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use quick_cache::Weighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};
use shardine_store::{Key, Object, ReadRange, Store, StoreError, Version};
use smallvec::SmallVec;

use super::wkw_cubes::{place_in, wkw_cubes};
use super::{
    GridKey, ObjectCells, Packing, ShardEntries, SharedObject, SharedPacking, StoredObject,
};
use crate::keyed::{Change, ChangeReport, side_by_side};
use crate::shard::wkw::{WkwError, WkwHeader, WkwTable, wkw_block_number, wkw_block_place};
use crate::tuning::{KEPT_JUMP_TABLES, REREADS, STREAM};
use crate::{Cells, Engine, Error};

/// Blocks in cubes: files `z{Z}/y{Y}/x{X}.wkw`, each with the same number of blocks along each
/// axis. A missing file reads as zeros. Read-only.
pub struct WkwPacking {
    store: Arc<dyn Store>,
    folder: Option<Key>,
    header: WkwHeader,
    /// Blocks along x, y and z.
    grid: [u64; 3],
    /// Files along x, y and z.
    cubes: [u64; 3],
    opened: Mutex<Cache<u64, Arc<OpenCube>, ByMemory, RandomState>>,
}

impl fmt::Debug for WkwPacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = f.debug_struct("WkwPacking");
        name.field("folder", &self.folder).field("header", &self.header).finish_non_exhaustive()
    }
}

/// An open file.
#[derive(Debug)]
struct OpenCube {
    object: Arc<dyn Object>,
    /// The version being read, for objects that learn their own only by reading.
    expected: Option<Version>,
    len: u64,
    table: Arc<WkwTable>,
}

impl OpenCube {
    fn version(&self) -> Option<Version> {
        self.object.version().or_else(|| self.expected.clone())
    }
}

#[derive(Clone)]
struct ByMemory;

impl Weighter<u64, Arc<OpenCube>> for ByMemory {
    fn weight(&self, _: &u64, cube: &Arc<OpenCube>) -> u64 {
        // An open file has a price too: only a few hundred are kept.
        cube.table.memory() as u64 + (64 << 10)
    }
}

fn damaged(key: &Key, error: &WkwError) -> StoreError {
    StoreError::Damaged { key: key.clone(), reason: error.to_string() }
}

impl WkwPacking {
    /// The files of a folder whose blocks are as `header` describes, for an array of this many
    /// voxels along x, y and z; `None` if it has 2^64 blocks or more. Makes no request.
    pub fn new(
        store: Arc<dyn Store>,
        folder: Option<Key>,
        header: WkwHeader,
        size: [u64; 3],
    ) -> Option<Self> {
        let grid = size.map(|voxels| voxels.div_ceil(header.block_edge()));
        grid.iter().try_fold(1u64, |count, &n| count.checked_mul(n))?;
        let cubes = grid.map(|blocks| blocks.div_ceil(header.file_edge()));
        let (hash, lifecycle) = (RandomState::default(), DefaultLifecycle::default());
        let opened = Mutex::new(Cache::with(64, KEPT_JUMP_TABLES, ByMemory, hash, lifecycle));
        Some(Self { store, folder, header, grid, cubes, opened })
    }

    /// Files along x, y and z.
    pub fn cubes(&self) -> [u64; 3] {
        self.cubes
    }

    fn cube_key(&self, [x, y, z]: [u64; 3]) -> Result<Key, StoreError> {
        let name = format!("z{z}/y{y}/x{x}.wkw");
        match &self.folder {
            Some(folder) => folder.join(&name),
            None => Key::new(&name),
        }
    }

    /// The number of a cell's block in its file.
    fn block(&self, cell: &[u64]) -> u64 {
        wkw_block_number(first_three(cell).map(|at| at % self.header.file_edge()))
    }

    /// The range of a cell in a file.
    fn range(&self, key: &Key, cube: &OpenCube, cell: &[u64]) -> Result<Range<u64>, StoreError> {
        cube.table.block(self.block(cell), cube.len).map_err(|error| damaged(key, &error))
    }

    /// Reads everything before the blocks of a file; `None` if there is no such file after all. One
    /// request.
    fn read_table(
        &self,
        key: &Key,
        object: &dyn Object,
    ) -> Result<Option<(WkwTable, u64)>, StoreError> {
        let need = self.header.head_len();
        let read = match object.len() {
            Some(len) => object.read(ReadRange::Bounded(0..need.min(len))),
            None => object.read(ReadRange::Head { need, most: need.max(128 << 10) }),
        };
        let bytes = match read {
            // A store whose opens are free finds out now.
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(StoreError::OutOfRange { len, .. }) if object.len().is_none_or(|n| n == len) => {
                let error = WkwError::Truncated { actual: len, needed: need };
                return Err(damaged(key, &error));
            }
            read => read?,
        };
        let table = WkwHeader::parse(&bytes)
            .and_then(|header| header.check_same(&self.header))
            .and_then(|()| WkwTable::parse(&bytes))
            .map_err(|error| damaged(key, &error))?;
        Ok(Some((table, object.len().unwrap_or(u64::MAX))))
    }

    /// The open file, and whether it was open before; `None` if there is none. With `trust`, one
    /// that was open is not checked for being current.
    fn cube(&self, number: u64, trust: bool) -> Result<Option<(Arc<OpenCube>, bool)>, StoreError> {
        let key = self.object_key(number)?;
        let known = {
            let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            opened.get(&number).cloned()
        };
        if let Some(known) = known {
            if known.object.can_be_kept() {
                if trust || known.object.is_current()? {
                    return Ok(Some((known, true)));
                }
            } else if let Some(again) = self.reopen(&key, &known)? {
                return Ok(Some((Arc::new(again), true)));
            }
            self.forget(number);
        }
        let object = match self.store.open(&key, None) {
            Ok(object) => object,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some((table, len)) = self.read_table(&key, &*object)? else { return Ok(None) };
        let cube = Arc::new(OpenCube { object, expected: None, len, table: Arc::new(table) });
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.insert(number, Arc::clone(&cube));
        Ok(Some((cube, false)))
    }

    /// Reopens a file in the version whose table is known: an object that has been open for long
    /// may not notice that it was replaced. `None` if it was replaced, or if that cannot be
    /// determined.
    fn reopen(&self, key: &Key, known: &OpenCube) -> Result<Option<OpenCube>, StoreError> {
        let Some(version) = known.version() else { return Ok(None) };
        let object = match self.store.open(key, Some(&version)) {
            Ok(object) => object,
            Err(StoreError::NotFound { .. } | StoreError::Changed { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if object.version().is_some_and(|now| now != version) {
            return Ok(None);
        }
        let (len, table) = (known.len, Arc::clone(&known.table));
        Ok(Some(OpenCube { object, expected: Some(version), len, table }))
    }

    /// The numbers of the cells of a file, in the order of its blocks.
    fn cells_of(&self, place: [u64; 3]) -> Vec<u64> {
        let edge = self.header.file_edge();
        let cell = |block: u64| {
            let inside = wkw_block_place(block);
            let cell: [u64; 3] = std::array::from_fn(|k| place[k] * edge + inside[k]);
            let known = cell.iter().zip(&self.grid).all(|(at, n)| at < n);
            known.then(|| self.number(&cell))
        };
        (0..self.header.count()).filter_map(cell).collect()
    }

    /// The position of the file with this number.
    fn place_of(&self, object: u64) -> [u64; 3] {
        let [x, y, _] = self.cubes.map(|n| n.max(1));
        [object % x, object / x % y, object / x / y]
    }
}

/// The number of a position in a grid, x fastest. A grid has fewer than 2^64 positions.
fn numbered(place: [u64; 3], counts: [u64; 3]) -> u64 {
    let row = place[2].wrapping_mul(counts[1]).wrapping_add(place[1]);
    row.wrapping_mul(counts[0]).wrapping_add(place[0])
}

fn first_three(cell: &[u64]) -> [u64; 3] {
    std::array::from_fn(|axis| cell.get(axis).copied().unwrap_or(0))
}

impl Packing for WkwPacking {
    fn key(&self, cell: &[u64]) -> Result<Key, StoreError> {
        self.cube_key(first_three(cell).map(|at| at / self.header.file_edge()))
    }

    fn named(&self, key: &Key) -> GridKey {
        let name = match &self.folder {
            Some(folder) => {
                key.as_str().strip_prefix(folder.as_str()).and_then(|n| n.strip_prefix('/'))
            }
            None => Some(key.as_str()),
        };
        name.map_or(GridKey::Other, place_in)
    }

    fn list(&self, engine: &Engine, store: &dyn Store) -> Result<Vec<StoredObject>, Error> {
        Ok(wkw_cubes(engine, store, self.folder.as_ref())?)
    }

    fn shared(&self) -> Option<&dyn SharedPacking> {
        Some(self)
    }
}

impl SharedPacking for WkwPacking {
    fn number(&self, cell: &[u64]) -> u64 {
        numbered(first_three(cell), self.grid)
    }

    fn cell(&self, number: u64) -> Option<SmallVec<[u64; 4]>> {
        let [x, y, z] = self.grid;
        let (column, rest) = (number.checked_rem(x)?, number.checked_div(x)?);
        let (row, slice) = (rest.checked_rem(y)?, rest.checked_div(y)?);
        (slice < z).then(|| SmallVec::from_slice(&[column, row, slice, 0]))
    }

    fn object_of(&self, number: u64) -> u64 {
        let cell = self.cell(number).unwrap_or_default();
        numbered(first_three(&cell).map(|at| at / self.header.file_edge()), self.cubes)
    }

    fn object_shape(&self) -> Option<SmallVec<[u64; 4]>> {
        let edge = self.header.file_edge();
        Some(SmallVec::from_slice(&[edge, edge, edge, 1]))
    }

    fn object_key(&self, object: u64) -> Result<Key, StoreError> {
        self.cube_key(self.place_of(object))
    }

    fn object_at(&self, place: &[u64]) -> Option<u64> {
        let place = first_three(place);
        let inside = place.iter().zip(&self.cubes).all(|(at, n)| at < n);
        inside.then(|| numbered(place, self.cubes))
    }

    fn places(&self) -> Box<dyn Iterator<Item = Vec<u64>> + '_> {
        let [x, y, z] = self.cubes;
        Box::new(Cells::new(vec![x, y, z, 1]))
    }

    fn all_objects(&self) -> Box<dyn Iterator<Item = ObjectCells> + Send + '_> {
        let objects = Cells::new(self.cubes.to_vec()).map(|place| {
            let place = first_three(&place);
            ObjectCells { object: numbered(place, self.cubes), cells: self.cells_of(place) }
        });
        Box::new(objects)
    }

    fn is_small(&self, cell_bytes: u64) -> bool {
        self.header.count().saturating_mul(cell_bytes) <= STREAM
    }

    fn index_bytes(&self) -> u64 {
        // The table as stored, and as reported.
        self.header.head_len().saturating_add(self.header.count().saturating_mul(24))
    }

    fn entries(&self, _: &Engine, place: &[u64]) -> Result<Option<ShardEntries>, Error> {
        let Some(number) = self.object_at(place) else { return Ok(None) };
        let key = self.object_key(number)?;
        let object = match self.store.open(&key, None) {
            Ok(object) => object,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some((table, len)) = self.read_table(&key, &*object)? else { return Ok(None) };
        object.check_unchanged()?;
        let edge = self.header.file_edge();
        let grid = vec![edge, edge, edge, 1];
        // Blocks beyond the end of the array are stored too, but never read.
        let inside = |cell: &[u64; 3]| {
            let at = |axis: usize| place.get(axis).map_or(0, |&n| n * edge) + cell[axis];
            (0..3).all(|axis| at(axis) < self.grid[axis])
        };
        let entry = |cell: Vec<u64>| {
            let Some(cell) = Some(first_three(&cell)).filter(inside) else { return Ok(None) };
            let range = table.block(wkw_block_number(cell), len);
            range.map(Some).map_err(|error| damaged(&key, &error))
        };
        let entries = Cells::new(grid.clone()).map(entry).collect::<Result<Vec<_>, _>>()?;
        let (index_range, gap_bytes) =
            (0..self.header.head_len(), len.saturating_sub(table.data_end()));
        Ok(Some(ShardEntries { key, len, index_range, grid, entries, gap_bytes }))
    }

    fn stored_cells(&self, _: &Engine, place: &[u64]) -> Result<Vec<u64>, Error> {
        let Some(object) = self.object_at(place) else { return Ok(Vec::new()) };
        // A file has all its blocks.
        match self.cube(object, false)? {
            Some(_) => Ok(self.cells_of(first_three(place))),
            None => Ok(Vec::new()),
        }
    }

    fn open(
        &self,
        object: u64,
        cells: &[&[u64]],
        trust: bool,
    ) -> Result<Option<SharedObject>, StoreError> {
        let key = self.object_key(object)?;
        for _ in 0..REREADS {
            let (cube, known) = match self.cube(object, trust) {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(None),
                Err(StoreError::Changed { .. }) => {
                    self.forget(object);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let ranges: Result<Vec<_>, _> =
                cells.iter().map(|cell| self.range(&key, &cube, cell).map(Some)).collect();
            match ranges {
                Ok(ranges) => {
                    let kept = known && cube.object.can_be_kept();
                    return Ok(Some(SharedObject {
                        object: Arc::clone(&cube.object),
                        ranges,
                        kept,
                    }));
                }
                Err(_) if known && trust && !cube.object.is_current()? => self.forget(object),
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Changed { key })
    }

    fn prepare(&self, cells: &[&[u64]], at_once: usize) {
        let objects: BTreeSet<u64> =
            cells.iter().map(|cell| self.object_of(self.number(cell))).collect();
        let objects: Vec<u64> = objects.into_iter().collect();
        // Errors are ignored here; they occur again, and are reported, when a cell is looked up.
        side_by_side(at_once, &objects, |&object| drop(self.cube(object, false)));
    }

    fn forget(&self, object: u64) {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).remove(&object);
    }

    fn in_place_refusal(&self) -> &'static str {
        "webknossos-wrap files are read-only"
    }

    fn change(&self, _: &Engine, _: &Change<'_>) -> Result<ChangeReport, Error> {
        let (store, operation) = (self.store.name(), "change webknossos-wrap files");
        Err(StoreError::Unsupported { store, operation }.into())
    }
}

#[cfg(test)]
mod tests {
    use shardine_store::MemoryStore;

    use super::*;

    fn packing(size: [u64; 3]) -> WkwPacking {
        // Blocks of 4 voxels along an edge, files of 2 blocks.
        let header =
            WkwHeader::parse(&[b'W', b'K', b'W', 1, 0x12, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0])
                .unwrap();
        let folder = Some(Key::new("color/1").unwrap());
        WkwPacking::new(Arc::new(MemoryStore::new()), folder, header, size).unwrap()
    }

    #[test]
    fn every_cell_is_in_one_file_and_has_its_number() {
        let packing = packing([20, 9, 8]);
        let mut seen = BTreeSet::new();
        for object in packing.all_objects() {
            let place = packing.place_of(object.object);
            assert_eq!(packing.object_at(&place), Some(object.object));
            for number in object.cells {
                let cell = packing.cell(number).unwrap();
                assert_eq!(
                    (packing.number(&cell), packing.object_of(number)),
                    (number, object.object)
                );
                let key = packing.object_key(object.object).unwrap();
                assert_eq!(packing.key(&cell).unwrap(), key);
                assert!(seen.insert(number));
            }
        }
        assert_eq!(seen.len(), 5 * 3 * 2);
        assert_eq!(packing.places().count(), 3 * 2);
        assert_eq!(packing.cell(30), None);
        assert_eq!(packing.object_at(&[3, 0, 0, 0]), None);
    }

    #[test]
    fn names_tell_files_folders_and_what_is_neither() {
        let packing = packing([20, 9, 8]);
        let named = |name: &str| packing.named(&Key::new(name).unwrap());
        assert_eq!(named("color/1/z3/y2/x1.wkw"), GridKey::Object(vec![1, 2, 3, 0]));
        assert_eq!(named("color/1/z3"), GridKey::Folder(vec![]));
        assert_eq!(named("color/1/z3/y2"), GridKey::Folder(vec![]));
        for other in [
            "color/1/header.wkw",
            "color/1/z3/x1.wkw",
            "color/1/z03/y2/x1.wkw",
            "color/1/z3/y2/x1.wkw_tmp",
            "color/1/z3/y2/x1.wkw/0",
            "color/z3/y2/x1.wkw",
            "color/10/z3",
        ] {
            assert_eq!(named(other), GridKey::Other, "{other}");
        }
        assert_eq!(packing.key(&[2, 1, 5, 0]).unwrap().as_str(), "color/1/z2/y0/x1.wkw");
    }
}
