//! Which fragments each object consists of.

use super::cells::PlacedFragment;
use super::columns::FinishedColumn;
use super::invalid;
use super::links::{LinkEnd, LinkSorter};
use super::space::Space;
use super::store::ByteStore;
use crate::GeometryError;
use crate::sort::{Merge, Sorter, Spool};
use crate::zarr_vectors::{Block, FragmentRef, encode_manifest};

/// The key of an id: keys are in the order of signed numbers.
pub(super) fn key_of(id: i64) -> u128 {
    (id as u64 ^ 1 << 63).into()
}

/// The id that a key stands for.
pub(super) fn id_of(key: u128) -> i64 {
    (key as u64 ^ 1 << 63) as i64
}

/// An error about the pieces of one object.
pub(super) fn too_many_pieces(error: GeometryError) -> GeometryError {
    match error {
        GeometryError::GroupTooLarge { key, bytes, most } => {
            let reason = format!(
                "has {bytes} bytes of pieces in chunks, and there is room for {most}; choose \
                 larger chunks, or give more memory"
            );
            invalid(format!("object {}", id_of(key)), reason)
        }
        error => error,
    }
}

/// Manifests that are stored together.
pub(super) const MANIFESTS: u64 = 16_384;

/// Bytes of a record: the chunk, the fragment, and either the roots in it or the piece of the path
/// with its first and last row.
const OF_OBJECT: usize = 24;
const OF_PATH: usize = 36;

/// Gathers fragments by their objects.
pub(super) struct FragmentSorter<'a> {
    sorter: Sorter<'a>,
    paths: bool,
}

impl<'a> FragmentSorter<'a> {
    pub fn new(spool: &'a dyn Spool, paths: bool, memory: u64) -> Self {
        let width = if paths { OF_PATH } else { OF_OBJECT };
        Self { sorter: Sorter::new(spool, width, memory), paths }
    }

    /// Adds fragment `number` of a chunk, which holds `roots` roots of trees.
    pub fn push(
        &mut self,
        chunk: u128,
        number: u32,
        fragment: &PlacedFragment,
        roots: u32,
    ) -> Result<(), GeometryError> {
        let mut record = [0; OF_PATH];
        record[..16].copy_from_slice(&chunk.to_le_bytes());
        record[16..20].copy_from_slice(&number.to_le_bytes());
        let key = key_of(fragment.object);
        if self.paths {
            record[20..28].copy_from_slice(&fragment.segment.to_le_bytes());
            record[28..32].copy_from_slice(&fragment.start.to_le_bytes());
            let last = fragment.start + fragment.count.saturating_sub(1);
            record[32..36].copy_from_slice(&last.to_le_bytes());
            self.sorter.push(key, &record)
        } else {
            record[20..24].copy_from_slice(&roots.to_le_bytes());
            self.sorter.push(key, &record[..OF_OBJECT])
        }
    }

    /// The manifests of all objects, by id. Where pieces of a path are in two chunks, the link
    /// between them goes to `links`.
    pub fn finish(
        self,
        space: &Space,
        shape: ObjectShape,
        links: Option<&mut LinkSorter<'_>>,
        limits: &Limits<'_>,
    ) -> Result<ObjectRows, GeometryError> {
        let (width, paths) = (if self.paths { OF_PATH } else { OF_OBJECT }, self.paths);
        let mut links = links.filter(|_| paths);
        let mut merge = self.sorter.merge();
        let (mut rows, mut encoded) = (Vec::new(), Vec::new());
        let mut objects = ObjectRows::new(limits.memory);
        while let Some(key) = merge.next_group(&mut rows, limits.most).map_err(too_many_pieces)? {
            (limits.check)()?;
            let id = id_of(key);
            let mut pieces: Vec<Piece> = rows.chunks_exact(width).map(Piece::read).collect();
            if paths {
                pieces.sort_by_key(|piece| piece.segment);
            }
            let roots: u64 = pieces.iter().map(|piece| u64::from(piece.roots)).sum();
            let vertices: u64 = pieces.iter().map(Piece::vertices).sum();
            if shape == ObjectShape::Line && vertices != 2 {
                let reason = format!("a line has 2 vertices, and this one has {vertices}");
                return Err(invalid(format!("object {id}"), reason));
            }
            if shape == ObjectShape::Tree && roots != 1 {
                let reason = format!(
                    "has {roots} roots, and each skeleton must have one; give each tree an id of its \
                     own, or write a graph"
                );
                return Err(invalid(format!("object {id}"), reason));
            }
            let blocks: Vec<Block<'_>> = pieces
                .iter()
                .map(|piece| Block {
                    chunk: space.chunk(piece.chunk),
                    fragments: FragmentRef::Single(piece.fragment.into()),
                })
                .collect();
            encoded.clear();
            encode_manifest(&blocks, &mut encoded)
                .map_err(|error| invalid(format!("object {id}"), error.to_string()))?;
            objects.push(id, &encoded, limits.spool)?;
            let Some(links) = &mut links else { continue };
            for pair in pieces.windows(2) {
                let [from, to] = pair else { continue };
                if from.chunk != to.chunk {
                    let end = |chunk, row: u32| LinkEnd { chunk, row };
                    links.push(&[end(from.chunk, from.last), end(to.chunk, to.first)], &[])?;
                }
            }
        }
        Ok(objects)
    }
}

/// What each object has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectShape {
    Any,
    /// Two vertices.
    Line,
    /// Joined to one root.
    Tree,
}

/// What the steps after sorting have to respect.
#[derive(Clone, Copy)]
pub(super) struct Limits<'a> {
    pub spool: &'a dyn Spool,
    /// Bytes of what is kept in memory for each purpose.
    pub memory: u64,
    /// Bytes of rows that belong together.
    pub most: u64,
    /// Fails if the work should end.
    pub check: &'a dyn Fn() -> Result<(), GeometryError>,
}

impl Limits<'_> {
    /// Fails if the cell of an attribute with as many rows does not fit. Strings take more room
    /// there than in the rows that were gathered.
    pub fn fits(
        &self,
        column: &FinishedColumn,
        rows: u64,
        chunk: &[i64],
    ) -> Result<(), GeometryError> {
        let (bytes, most) = (column.stored_len(rows), self.most);
        if bytes <= most {
            return Ok(());
        }
        let reason = format!(
            "its {rows} values of {} take {bytes} bytes, each as much as the longest, and there is \
             room for {most}; choose smaller chunks, shorten the longest, or give more memory",
            column.name
        );
        Err(invalid(format!("chunk {chunk:?}"), reason))
    }
}

/// A fragment of an object.
struct Piece {
    chunk: u128,
    fragment: u32,
    segment: u64,
    first: u32,
    last: u32,
    roots: u32,
}

impl Piece {
    /// How many vertices a piece of a path has.
    fn vertices(&self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    fn read(record: &[u8]) -> Self {
        let small = |at: usize| {
            let bytes = record.get(at..).and_then(|bytes| bytes.first_chunk::<4>());
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let paths = record.len() == OF_PATH;
        Self {
            chunk: record.first_chunk::<16>().map_or(0, |bytes| u128::from_le_bytes(*bytes)),
            fragment: small(16),
            segment: if paths { u64::from(small(24)) << 32 | u64::from(small(20)) } else { 0 },
            first: small(28),
            last: small(32),
            roots: if paths { 0 } else { small(20) },
        }
    }
}

/// Rows of any length, which are read in blocks.
pub(super) struct RowBlocks {
    count: u64,
    /// The length of each row, then its bytes.
    rows: ByteStore,
    /// Where each block begins.
    starts: Vec<u64>,
    block: u64,
}

impl RowBlocks {
    /// Blocks of `block` rows.
    pub fn new(memory: u64, block: u64) -> Self {
        Self { count: 0, rows: ByteStore::new(memory), starts: Vec::new(), block }
    }

    pub fn len(&self) -> u64 {
        self.count
    }

    pub fn push(&mut self, row: &[u8], spool: &dyn Spool) -> Result<(), GeometryError> {
        if self.count.is_multiple_of(self.block) {
            self.starts.push(self.rows.len());
        }
        let len = u32::try_from(row.len()).map_err(|_| {
            let number = self.count;
            invalid(format!("row {number}"), format!("of {} bytes is too long", row.len()))
        })?;
        self.count += 1;
        self.rows.append(&len.to_le_bytes(), spool)?;
        self.rows.append(row, spool)
    }

    /// Hands each row of a block to `each`.
    pub fn read(&self, block: u64, each: &mut dyn FnMut(&[u8])) -> Result<(), GeometryError> {
        let at = usize::try_from(block).unwrap_or(usize::MAX);
        let Some(&start) = self.starts.get(at) else { return Ok(()) };
        let end = self.starts.get(at + 1).copied().unwrap_or(self.rows.len());
        let mut bytes = Vec::new();
        self.rows.read(start, end - start, &mut bytes)?;
        let mut rest = &bytes[..];
        while let Some((len, more)) = rest.split_first_chunk::<4>() {
            let len = u32::from_le_bytes(*len) as usize;
            let Some((row, more)) = more.split_at_checked(len) else { break };
            each(row);
            rest = more;
        }
        Ok(())
    }
}

/// The ids and manifests of objects, by id.
pub(super) struct ObjectRows {
    first: i64,
    last: i64,
    ids: ByteStore,
    manifests: RowBlocks,
}

impl ObjectRows {
    fn new(memory: u64) -> Self {
        let (ids, manifests) = (ByteStore::new(memory / 4), RowBlocks::new(memory / 2, MANIFESTS));
        Self { first: 0, last: 0, ids, manifests }
    }

    fn push(&mut self, id: i64, manifest: &[u8], spool: &dyn Spool) -> Result<(), GeometryError> {
        if self.len() == 0 {
            self.first = id;
        }
        self.last = id;
        if u32::try_from(manifest.len()).is_err() {
            let reason = "is in more fragments than can be listed";
            return Err(invalid(format!("object {id}"), reason));
        }
        self.ids.append(&id.to_le_bytes(), spool)?;
        self.manifests.push(manifest, spool)
    }

    pub fn len(&self) -> u64 {
        self.manifests.len()
    }

    /// Whether ids are 0, 1, 2 and so on.
    pub fn is_counted(&self) -> bool {
        // They ascend.
        self.first == 0 && u64::try_from(self.last).is_ok_and(|last| last + 1 == self.len())
    }

    /// Replaces the contents of `out` with ids from `start` on, of 64 bits each.
    pub fn read_ids(&self, start: u64, count: u64, out: &mut Vec<u8>) -> Result<(), GeometryError> {
        self.ids.read(start.saturating_mul(8), count.saturating_mul(8), out)
    }

    /// Hands each manifest of a block to `each`.
    pub fn read_manifests(
        &self,
        block: u64,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), GeometryError> {
        self.manifests.read(block, each)
    }
}

/// Takes the rows of an object.
pub(super) type EachObject<'a> = dyn FnMut(i64, &[u8]) -> Result<(), GeometryError> + 'a;

/// Ids that are named in an error.
const NAMED: usize = 5;

/// Hands the rows of each object to `each`, in the order of ids: none where there are none. Rows
/// whose key is that of no object are an error, which calls them `what`.
pub(super) fn join(
    objects: &ObjectRows,
    mut merge: Merge,
    what: &str,
    limits: &Limits<'_>,
    each: &mut EachObject<'_>,
) -> Result<(), GeometryError> {
    let (mut ids, mut rows) = (Vec::new(), Vec::new());
    let (mut unknown, mut named) = (0u64, Vec::new());
    let mut next = merge.next_group(&mut rows, limits.most)?;
    let mut start = 0;
    while start < objects.len() {
        (limits.check)()?;
        let count = (objects.len() - start).min(MANIFESTS);
        objects.read_ids(start, count, &mut ids)?;
        for id in ids.as_chunks::<8>().0 {
            let id = i64::from_le_bytes(*id);
            while let Some(key) = next.filter(|key| *key < key_of(id)) {
                unknown += 1;
                named.push(id_of(key));
                named.truncate(NAMED);
                next = merge.next_group(&mut rows, limits.most)?;
            }
            if next == Some(key_of(id)) {
                each(id, &rows)?;
                next = merge.next_group(&mut rows, limits.most)?;
            } else {
                each(id, &[])?;
            }
        }
        start += count;
    }
    while let Some(key) = next {
        unknown += 1;
        named.push(id_of(key));
        named.truncate(NAMED);
        next = merge.next_group(&mut rows, limits.most)?;
    }
    if unknown == 0 {
        return Ok(());
    }
    let named: Vec<String> = named.iter().map(i64::to_string).collect();
    let more = if unknown > NAMED as u64 { ", .." } else { "" };
    let reason = match unknown {
        1 => format!("no object has the id {}", named.join("")),
        _ => format!("no objects have the {unknown} ids {}{more}", named.join(", ")),
    };
    Err(invalid(what, reason))
}
