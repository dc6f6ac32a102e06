//! Which rows of the answer the vertices of chunks are.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use shardine_geometry::Links;
use shardine_geometry::zarr_vectors::Fragment;
use smallvec::SmallVec;

/// In place of the number of a row that is not given out.
const NO_ROW: u64 = u64::MAX;

/// How many links a batch has, at most.
pub(super) const BATCH_LINKS: usize = 1 << 16;

/// An end of a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// The chunk among those that were read; `None` if it was not.
    pub(super) chunk: Option<u32>,
    pub(super) vertex: u64,
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
    pub(super) fn each_link(&self, ends: &[End], mut each: impl FnMut(&[u64])) {
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
    pub(super) fn set_parent(&mut self, ends: &[End], parent_first: bool) {
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
