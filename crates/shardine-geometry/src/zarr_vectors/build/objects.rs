//! Which fragments each object consists of.

use super::cells::PlacedFragment;
use super::invalid;
use super::links::{LinkEnd, LinkSorter};
use super::space::Space;
use super::store::ByteStore;
use crate::GeometryError;
use crate::sort::{Sorter, Spool};
use crate::zarr_vectors::{Block, FragmentRef, encode_manifest};

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
        // Ids in the order of signed numbers.
        let key = (fragment.object as u64 ^ 1 << 63).into();
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
        trees: bool,
        links: Option<&mut LinkSorter<'_>>,
        limits: &Limits<'_>,
    ) -> Result<ObjectRows, GeometryError> {
        let (width, paths) = (if self.paths { OF_PATH } else { OF_OBJECT }, self.paths);
        let mut links = links.filter(|_| paths);
        let mut merge = self.sorter.merge();
        let (mut rows, mut encoded) = (Vec::new(), Vec::new());
        let mut objects = ObjectRows::new(limits.memory);
        while let Some(key) = merge.next_group(&mut rows, limits.most)? {
            (limits.check)()?;
            let id = (key as u64 ^ 1 << 63) as i64;
            let mut pieces: Vec<Piece> = rows.chunks_exact(width).map(Piece::read).collect();
            if paths {
                pieces.sort_by_key(|piece| piece.segment);
            }
            let roots: u64 = pieces.iter().map(|piece| u64::from(piece.roots)).sum();
            if trees && roots != 1 {
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

/// The ids and manifests of objects, by id.
pub(super) struct ObjectRows {
    count: u64,
    first: i64,
    last: i64,
    ids: ByteStore,
    /// The length of each manifest, then its bytes.
    manifests: ByteStore,
    /// Where each block of [`MANIFESTS`] begins.
    starts: Vec<u64>,
}

impl ObjectRows {
    fn new(memory: u64) -> Self {
        let (ids, manifests) = (ByteStore::new(memory / 4), ByteStore::new(memory / 2));
        Self { count: 0, first: 0, last: 0, ids, manifests, starts: Vec::new() }
    }

    fn push(&mut self, id: i64, manifest: &[u8], spool: &dyn Spool) -> Result<(), GeometryError> {
        if self.count == 0 {
            self.first = id;
        }
        self.last = id;
        if self.count.is_multiple_of(MANIFESTS) {
            self.starts.push(self.manifests.len());
        }
        let len = u32::try_from(manifest.len()).map_err(|_| {
            invalid(format!("object {id}"), "is in more fragments than can be listed".to_owned())
        })?;
        self.count += 1;
        self.ids.append(&id.to_le_bytes(), spool)?;
        self.manifests.append(&len.to_le_bytes(), spool)?;
        self.manifests.append(manifest, spool)
    }

    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether ids are 0, 1, 2 and so on.
    pub fn is_counted(&self) -> bool {
        // They ascend.
        self.first == 0 && u64::try_from(self.last).is_ok_and(|last| last + 1 == self.count)
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
        let at = usize::try_from(block).unwrap_or(usize::MAX);
        let Some(&start) = self.starts.get(at) else { return Ok(()) };
        let end = self.starts.get(at + 1).copied().unwrap_or(self.manifests.len());
        let mut bytes = Vec::new();
        self.manifests.read(start, end - start, &mut bytes)?;
        let mut rest = &bytes[..];
        while let Some((len, more)) = rest.split_first_chunk::<4>() {
            let len = u32::from_le_bytes(*len) as usize;
            let Some((manifest, more)) = more.split_at_checked(len) else { break };
            each(manifest);
            rest = more;
        }
        Ok(())
    }
}
