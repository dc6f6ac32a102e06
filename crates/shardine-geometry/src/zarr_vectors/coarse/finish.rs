//! Sorts what was gathered, and makes the cells of a level of it.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::cells::{CellPlaces, Growing};
use super::level::{ArrayCells, CoarseLevel, ManifestPlaces};
use super::share::{CoarseShare, Shared};
use super::{BOTH, CoarseBuilder, Fields, HEAD, USE, VERTEX, f32s, key_of, place};
use crate::GeometryError;
use crate::sort::{Merge, Sorter};
use crate::zarr_vectors::build::space::Space;
use crate::zarr_vectors::{
    Anchor, Block, ChunkCoords, FragmentRef, FragmentRows, LinkOffsets, encode_fragments,
    encode_manifest, encode_ragged,
};

/// A row of the second sort that is the mean of a bin.
const MEAN: u8 = 3;

/// Fragments whose uses are sorted together.
const TOGETHER: u32 = 6;

/// Asked between steps whether to stop.
type Check<'c> = dyn Fn() -> Result<(), GeometryError> + 'c;

/// The sorts that the second one feeds.
struct Following<'s> {
    by_fine: Sorter<'s>,
    by_use: Sorter<'s>,
}

/// A mean: the place of its bin in the order of vertices, its bin, its position.
type Mean<'r> = (SmallVec<[u64; 4]>, u128, &'r [u8]);

/// The cells that links of a family become, by their offsets.
pub(super) type Links = BTreeMap<LinkOffsets, CellPlaces>;

impl CoarseBuilder<'_> {
    /// How many vertices and uses were added.
    pub fn len(&self) -> u64 {
        self.by_bin.len()
    }

    /// Whether none were.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes the level. `ends` has, for each object, how many fragments its manifest and all before
    /// it refer to; an object that is dropped refers to none. With a `share`, other cells and
    /// manifests than its own are empty, and counts and lists are those of all. `check` is asked now
    /// and then.
    pub fn finish(
        self,
        ends: Option<&[u64]>,
        share: Option<&CoarseShare<'_>>,
        check: &Check<'_>,
    ) -> Result<CoarseLevel, GeometryError> {
        let Self { spool, options, bins, fine, coarse, memory, by_bin, .. } = self;
        let rank = coarse.rank();
        let (wide, most) = ((4 * rank).max(24), options.memory.max(memory));
        let scale = options.chunk_scale.iter();
        let up = Anchor::of_scales(scale.clone().map(|scale| (1, *scale)));
        let down = Anchor::of_scales(scale.map(|scale| (*scale, 1)));
        let making = Making { rank, most, bins, fine, coarse, up, down };
        let mut by_chunk = Sorter::new(spool, 16 + 1 + wide, memory);
        let shared = &mut Shared::new(share, ends);
        making.means(by_bin.merge(), &mut by_chunk, wide, shared, check)?;
        let mut next = Following {
            by_fine: Sorter::new(spool, 8 + 16 + 8, memory),
            by_use: Sorter::new(spool, 8 + 8 + 16 + 8, memory),
        };
        let mut file = Growing::new(spool)?;
        let mut cells = ArrayCells::default();
        making.chunks(by_chunk.merge(), &mut next, &mut file, &mut cells, shared, check)?;
        cells.links += shared.links;
        making.up_links(next.by_fine.merge(), &mut file, &mut cells, check)?;
        let mut manifests = match ends {
            Some(ends) => Some(making.manifests(next.by_use.merge(), ends, &mut file, check)?),
            None => None,
        };
        if let Some(manifests) = &mut manifests {
            manifests.present += shared.present();
        }
        if share.is_some() {
            shared.list([&making.fine, &making.coarse], [&making.up, &making.down], &mut cells)?;
        }
        let Making { fine, coarse, .. } = making;
        Ok(CoarseLevel::new(file.finish()?, cells, manifests, fine, coarse))
    }
}

struct Making {
    rank: usize,
    most: u64,
    bins: Space,
    fine: Space,
    coarse: Space,
    /// From chunks of the finer level to those of the new one, and back.
    up: Anchor,
    down: Anchor,
}

impl Making {
    /// Makes a mean of each bin that is used, and sorts it by its chunk, with what is part of it.
    fn means(
        &self,
        mut bins: Merge,
        by_chunk: &mut Sorter<'_>,
        wide: usize,
        shared: &mut Shared<'_>,
        check: &Check<'_>,
    ) -> Result<(), GeometryError> {
        let width = HEAD + 4 * self.rank;
        let (mut rows, mut row) = (Vec::new(), Vec::with_capacity(17 + wide));
        let mut sums = vec![0f64; self.rank];
        while let Some(bin) = bins.next_group(&mut rows, self.most)? {
            check()?;
            // Uses are summed up in the order of objects, whatever chunk each was found in.
            let mut used: Vec<(u128, u64, &[u8])> = Vec::new();
            for bytes in rows.chunks_exact(width) {
                let mut fields = Fields(bytes);
                let (kind, wide, number) = (fields.u8(), fields.u128(), fields.u64());
                match kind {
                    USE => used.push((wide, number, fields.position(self.rank))),
                    BOTH => used.push((0, 0, fields.position(self.rank))),
                    _ => {}
                }
            }
            if used.is_empty() {
                continue;
            }
            used.sort_by_key(|(reference, at, _)| (*reference, *at));
            sums.fill(0.0);
            for (.., position) in &used {
                for (sum, value) in sums.iter_mut().zip(f32s(position)) {
                    *sum += f64::from(value);
                }
            }
            let count = used.len() as f64;
            let mean = sums.iter().map(|sum| (sum / count) as f32);
            let chunk = key_of(&self.coarse, mean.clone())?;
            let mut push = |kind: u8, payload: &[u8]| {
                row.clear();
                row.extend(bin.to_le_bytes());
                row.push(kind);
                row.extend_from_slice(payload);
                row.resize(17 + wide, 0);
                by_chunk.push(chunk, &row)
            };
            let mean: SmallVec<[u8; 16]> = mean.flat_map(f32::to_le_bytes).collect();
            push(MEAN, &mean)?;
            let own = shared.has_coarse(&self.coarse, chunk);
            for bytes in rows.chunks_exact(width) {
                let mut fields = Fields(bytes);
                let (kind, wide) = (fields.u8(), fields.u128());
                let wanted = match kind {
                    // References are counted in 64 bits.
                    USE => shared.has_use(wide as u64),
                    _ => {
                        let own_fine = shared.has_fine(&self.fine, wide);
                        !shared.link((chunk, own), (wide, own_fine))
                    }
                };
                if wanted {
                    let numbers = bytes.get(1..25).unwrap_or_default();
                    push(if kind == BOTH { VERTEX } else { kind }, numbers)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the cells of each new chunk: its vertices, their fragments, the links down.
    fn chunks(
        &self,
        mut chunks: Merge,
        next: &mut Following<'_>,
        file: &mut Growing,
        cells: &mut ArrayCells,
        shared: &mut Shared<'_>,
        check: &Check<'_>,
    ) -> Result<(), GeometryError> {
        let width = 17 + (4 * self.rank).max(24);
        let (mut rows, mut cell) = (Vec::new(), Vec::new());
        let mut row: Vec<u8> = Vec::new();
        while let Some(chunk) = chunks.next_group(&mut rows, self.most)? {
            check()?;
            // zarr-vectors orders vertices by the bytes of their bins.
            let mut means: Vec<Mean<'_>> = Vec::new();
            for bytes in rows.chunks_exact(width) {
                let mut fields = Fields(bytes);
                let (bin, kind) = (fields.u128(), fields.u8());
                if kind == MEAN {
                    let order = self.bins.chunk(bin).into_iter();
                    let order = order.map(|at| (at as u64).swap_bytes()).collect();
                    means.push((order, bin, fields.position(self.rank)));
                }
            }
            means.sort_unstable();
            let own_coarse = shared.has_coarse(&self.coarse, chunk);
            if own_coarse {
                cell.clear();
                means.iter().for_each(|(.., position)| cell.extend_from_slice(position));
                cells.vertices.push(chunk, file.add(&cell)?);
                let single = |start| FragmentRows::Range { start, count: 1 };
                let singles: Vec<FragmentRows> = (0..means.len() as u64).map(single).collect();
                cell.clear();
                encode_fragments(&singles, &mut cell).map_err(side)?;
                cells.fragments.push(chunk, file.add(&cell)?);
            } else {
                cells.vertices.list(chunk);
                cells.fragments.list(chunk);
            }
            cells.count += means.len() as u64;
            let mut numbers: Vec<(u128, u64)> =
                means.iter().zip(0..).map(|((_, bin, _), number)| (*bin, number)).collect();
            numbers.sort_unstable();
            let number_of = |bin: u128| {
                let found = numbers.binary_search_by_key(&bin, |(bin, _)| *bin).ok();
                found.and_then(|at| numbers.get(at)).map_or(0, |(_, number)| *number)
            };
            let mut joined: Vec<(u128, u64, u64)> = Vec::new();
            for bytes in rows.chunks_exact(width) {
                let mut fields = Fields(bytes);
                let (bin, kind) = (fields.u128(), fields.u8());
                if kind == MEAN {
                    continue;
                }
                let (wide, number, mine) = (fields.u128(), fields.u64(), number_of(bin));
                row.clear();
                if kind == VERTEX {
                    cells.links += 1;
                    if own_coarse {
                        joined.push((wide, number, mine));
                    }
                    if shared.has_fine(&self.fine, wide) {
                        row.extend(number.to_le_bytes());
                        row.extend(chunk.to_le_bytes());
                        row.extend(mine.to_le_bytes());
                        next.by_fine.push(wide, &row)?;
                    }
                } else {
                    // References are counted in 64 bits.
                    row.extend((wide as u64).to_le_bytes());
                    row.extend(number.to_le_bytes());
                    row.extend(chunk.to_le_bytes());
                    row.extend(mine.to_le_bytes());
                    next.by_use.push(wide >> TOGETHER, &row)?;
                }
            }
            joined.sort_unstable();
            let anchor = self.down.chunk(&self.coarse.chunk(chunk));
            for of_chunk in joined.chunk_by(|a, b| a.0 == b.0) {
                let Some((other, ..)) = of_chunk.first() else { continue };
                let offset = offset(&self.fine.chunk(*other), anchor.as_ref())?;
                let pairs = of_chunk.iter().map(|(_, fine, coarse)| [*coarse, *fine]);
                add_links(&mut cells.down, offset, chunk, pairs, file, &mut cell)?;
            }
        }
        Ok(())
    }

    /// Makes the links from finer vertices to those that they became part of.
    fn up_links(
        &self,
        mut chunks: Merge,
        file: &mut Growing,
        cells: &mut ArrayCells,
        check: &Check<'_>,
    ) -> Result<(), GeometryError> {
        let (mut rows, mut cell) = (Vec::new(), Vec::new());
        while let Some(chunk) = chunks.next_group(&mut rows, self.most)? {
            check()?;
            let mut joined: Vec<(u128, u64, u64)> = rows
                .chunks_exact(32)
                .map(|bytes| {
                    let mut fields = Fields(bytes);
                    let (fine, other, coarse) = (fields.u64(), fields.u128(), fields.u64());
                    (other, fine, coarse)
                })
                .collect();
            joined.sort_unstable();
            let anchor = self.up.chunk(&self.fine.chunk(chunk));
            for of_chunk in joined.chunk_by(|a, b| a.0 == b.0) {
                let Some((other, ..)) = of_chunk.first() else { continue };
                let offset = offset(&self.coarse.chunk(*other), anchor.as_ref())?;
                let pairs = of_chunk.iter().map(|(_, fine, coarse)| [*fine, *coarse]);
                add_links(&mut cells.up, offset, chunk, pairs, file, &mut cell)?;
            }
        }
        Ok(())
    }

    /// Makes the manifest of each object: its new vertices in the order of the old ones.
    fn manifests(
        &self,
        mut uses: Merge,
        ends: &[u64],
        file: &mut Growing,
        check: &Check<'_>,
    ) -> Result<ManifestPlaces, GeometryError> {
        let mut manifests = ManifestPlaces::default();
        let (mut rows, mut bytes) = (Vec::new(), Vec::new());
        let mut blocks: Vec<Block<'static>> = Vec::new();
        let mut last = None;
        let mut ends = ends.iter();
        let mut end = ends.next();
        let mut flush = |blocks: &mut Vec<Block<'static>>| -> Result<(), GeometryError> {
            bytes.clear();
            encode_manifest(blocks, &mut bytes).map_err(side)?;
            manifests.present += u64::from(!blocks.is_empty());
            manifests.places.push(file.add(&bytes)?);
            blocks.clear();
            Ok(())
        };
        while uses.next_group(&mut rows, self.most)?.is_some() {
            check()?;
            let mut sorted: Vec<(u64, u64, u128, u64)> = rows
                .chunks_exact(40)
                .map(|bytes| {
                    let mut fields = Fields(bytes);
                    (fields.u64(), fields.u64(), fields.u128(), fields.u64())
                })
                .collect();
            sorted.sort_unstable();
            for (reference, _, chunk, vertex) in sorted {
                while end.is_some_and(|end| reference >= *end) {
                    flush(&mut blocks)?;
                    (end, last) = (ends.next(), None);
                }
                if end.is_none() {
                    return Err(place("object", format!("none has fragment {reference}")));
                }
                if last != Some((chunk, vertex)) {
                    let fragments = FragmentRef::Single(vertex);
                    blocks.push(Block { chunk: self.coarse.chunk(chunk), fragments });
                    last = Some((chunk, vertex));
                }
            }
        }
        while end.is_some() {
            flush(&mut blocks)?;
            end = ends.next();
        }
        Ok(manifests)
    }
}

pub(super) fn offset(
    other: &ChunkCoords,
    anchor: Option<&ChunkCoords>,
) -> Result<LinkOffsets, GeometryError> {
    let far = || place("links", "a chunk is too far away".to_owned());
    let anchor = anchor.ok_or_else(far)?;
    let axes = other.iter().zip(anchor);
    let offset: Option<ChunkCoords> = axes.map(|(to, from)| to.checked_sub(*from)).collect();
    Ok(LinkOffsets::new([offset.ok_or_else(far)?]))
}

/// Adds the links of a chunk with these offsets.
fn add_links(
    links: &mut Links,
    offset: LinkOffsets,
    chunk: u128,
    pairs: impl Iterator<Item = [u64; 2]>,
    file: &mut Growing,
    cell: &mut Vec<u8>,
) -> Result<(), GeometryError> {
    let rows: Vec<u8> = pairs.flatten().flat_map(u64::to_le_bytes).collect();
    cell.clear();
    encode_ragged(&[&rows], cell).map_err(side)?;
    links.entry(offset).or_default().push(chunk, file.add(cell)?);
    Ok(())
}

fn side(error: impl std::error::Error + Send + Sync + 'static) -> GeometryError {
    GeometryError::Side(Box::new(error))
}
