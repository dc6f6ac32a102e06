//! What one of several processes makes of a level.
//!
//! Means need all vertices, so each process makes all of them. Of what follows from them it keeps
//! what belongs to its own chunks and objects; of the rest it knows which cells there are.

use std::collections::HashSet;

use super::cells::CellPlaces;
use super::finish::{Links, offset};
use super::level::ArrayCells;
use crate::GeometryError;
use crate::zarr_vectors::Anchor;
use crate::zarr_vectors::build::space::Space;

/// Whether a chunk belongs to this process.
type OwnChunk<'a> = dyn Fn(&[i64]) -> bool + 'a;

/// Whether an object belongs to this process, by its row.
type OwnObject<'a> = dyn Fn(u64) -> bool + 'a;

/// Which cells and manifests of a level are made.
pub struct CoarseShare<'a> {
    /// Cells of chunks of the new level.
    pub coarse: Box<OwnChunk<'a>>,
    /// Links from chunks of the finer level.
    pub fine: Box<OwnChunk<'a>>,
    /// Manifests of objects, by row.
    pub object: Box<OwnObject<'a>>,
}

/// What is known of cells and objects that are made elsewhere.
pub(super) struct Shared<'a> {
    share: Option<&'a CoarseShare<'a>>,
    ends: &'a [u64],
    /// Chunks that are joined by links: of the new level and of the finer one.
    pairs: HashSet<(u128, u128)>,
    /// Links that are made elsewhere.
    pub links: u64,
    /// Objects that have vertices and are made elsewhere, by row.
    present: HashSet<u64>,
    last_coarse: Option<(u128, bool)>,
    last_fine: Option<(u128, bool)>,
}

impl<'a> Shared<'a> {
    pub fn new(share: Option<&'a CoarseShare<'a>>, ends: Option<&'a [u64]>) -> Self {
        let (pairs, present) = (HashSet::new(), HashSet::new());
        let (last_coarse, last_fine) = (None, None);
        let ends = ends.unwrap_or_default();
        Self { share, ends, pairs, links: 0, present, last_coarse, last_fine }
    }

    /// Whether a chunk of the new level is made here.
    pub fn has_coarse(&mut self, space: &Space, key: u128) -> bool {
        let Some(share) = self.share else { return true };
        owned(&mut self.last_coarse, key, || (share.coarse)(&space.chunk(key)))
    }

    /// Whether the links of a chunk of the finer level are made here.
    pub fn has_fine(&mut self, space: &Space, key: u128) -> bool {
        let Some(share) = self.share else { return true };
        owned(&mut self.last_fine, key, || (share.fine)(&space.chunk(key)))
    }

    /// Notes a link between chunks of the new and of the finer level of which not both are made
    /// here; whether neither is.
    pub fn link(&mut self, coarse: (u128, bool), fine: (u128, bool)) -> bool {
        let (own_coarse, own_fine) = (coarse.1, fine.1);
        if !own_coarse || !own_fine {
            self.pairs.insert((coarse.0, fine.0));
        }
        let elsewhere = !own_coarse && !own_fine;
        self.links += u64::from(elsewhere);
        elsewhere
    }

    /// Whether the manifest that has a fragment, counted through all of them, is made here; notes the
    /// object if not.
    pub fn has_use(&mut self, reference: u64) -> bool {
        let Some(share) = self.share else { return true };
        let row = self.ends.partition_point(|end| *end <= reference) as u64;
        let own = (share.object)(row);
        if !own {
            self.present.insert(row);
        }
        own
    }

    /// How many objects that are made elsewhere have vertices.
    pub fn present(&self) -> u64 {
        self.present.len() as u64
    }

    /// Adds cells of links that are made elsewhere, which are empty here.
    pub fn list(
        &mut self,
        [fine, coarse]: [&Space; 2],
        [up, down]: [&Anchor; 2],
        cells: &mut ArrayCells,
    ) -> Result<(), GeometryError> {
        for (of_coarse, of_fine) in std::mem::take(&mut self.pairs) {
            let (own_coarse, own_fine) =
                (self.has_coarse(coarse, of_coarse), self.has_fine(fine, of_fine));
            let (at, other) = (coarse.chunk(of_coarse), fine.chunk(of_fine));
            if !own_coarse {
                let offset = offset(&other, down.chunk(&at).as_ref())?;
                cells.down.entry(offset).or_default().list(of_coarse);
            }
            if !own_fine {
                let offset = offset(&at, up.chunk(&other).as_ref())?;
                cells.up.entry(offset).or_default().list(of_fine);
            }
        }
        let sort = |links: &mut Links| links.values_mut().for_each(CellPlaces::sort);
        sort(&mut cells.down);
        sort(&mut cells.up);
        Ok(())
    }
}

fn owned(last: &mut Option<(u128, bool)>, key: u128, own: impl FnOnce() -> bool) -> bool {
    match last {
        Some((known, own)) if *known == key => *own,
        last => last.insert((key, own())).1,
    }
}
