//! Which bytes a read needs: nodes are wanted, indexes lead to more nodes, and fetches are what is left.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use shardine_codec::strided::Placement;
use shardine_store::ReadRange;

use super::{CachedIndex, Opened, Path, Reading};
use crate::Error;
use crate::layout::{Layout, ShardLayout, advance};
use crate::selection::Selection;
use crate::shard::{IndexLocation, ShardIndex};

/// Something encoded that is wanted: all or part of the bytes `range` of an object.
#[derive(Clone)]
pub(super) struct Node<'a> {
    /// Which of the opened objects.
    pub object: usize,
    /// Its bytes; unknown for an object whose length is not.
    pub range: Option<Range<u64>>,
    pub layout: &'a Layout,
    /// What is wanted of it.
    pub selection: Selection,
    /// Where that goes.
    pub place: Placement,
    pub path: Path,
    /// Whether all of it that lies inside the array is wanted.
    pub whole: bool,
    /// If `range` is but a part of a chunk that is stored as it lies in memory: the bytes of it before.
    pub skipped: Option<usize>,
}

/// One read and what is in it.
pub(super) struct Fetch<'a> {
    pub object: usize,
    pub range: Option<Range<u64>>,
    pub nodes: Vec<Node<'a>>,
}

/// Chunks that are planned before any of them is read: memory for plans is bounded, however small chunks are.
const MANY: usize = 8192;

/// Where what an index leads to is put.
struct Found<'b, 'a> {
    next: &'b mut Vec<Node<'a>>,
    fetches: &'b mut Vec<Fetch<'a>>,
    inline: bool,
}

impl<'a> Reading<'a> {
    /// What is wanted of an object.
    pub(super) fn root(&self, object: usize, opened: &Opened) -> Node<'a> {
        let cell = &opened.cell;
        Node {
            object,
            range: opened.object.len().map(|len| 0..len),
            layout: &self.grid.layout,
            whole: cell.selection.covers(&self.grid.bounds(&cell.index)),
            selection: cell.selection.clone(),
            place: self.place_of(cell),
            path: Path::new(),
            skipped: None,
        }
    }

    /// Turns nodes into fetches, reading the indexes that lie on the way, one level of shards after the other.
    pub(super) fn follow(
        &self,
        opened: &[Opened],
        mut nodes: Vec<Node<'a>>,
        fetches: &mut Vec<Fetch<'a>>,
        inline: bool,
    ) -> Result<(), Error> {
        while !nodes.is_empty() {
            nodes = self.descend(opened, nodes, fetches, inline)?;
            self.check()?;
        }
        Ok(())
    }

    /// Turns nodes into fetches where it is known what to fetch; reads the indexes of the others and returns
    /// the nodes that these lead to.
    fn descend(
        &self,
        opened: &[Opened],
        nodes: Vec<Node<'a>>,
        fetches: &mut Vec<Fetch<'a>>,
        inline: bool,
    ) -> Result<Vec<Node<'a>>, Error> {
        let mut next = Vec::new();
        let mut unknown: Vec<(Node<'a>, &'a ShardLayout)> = Vec::new();
        for node in nodes {
            let Some(shard) = node.layout.addressable() else {
                self.fetch_chunk(node, fetches);
                continue;
            };
            let key = self.index_key(&opened[node.object].key, &node.path);
            let version = opened[node.object].version();
            match self.engine.indexes.get(&key) {
                Some(cached) if version.as_ref() == Some(&cached.version) => {
                    let found = Found { next: &mut next, fetches, inline };
                    self.expand(opened, &node, shard, &cached.index, found)?;
                }
                _ if self.worth_whole(&node, shard) => fetches.push(Fetch::of(node)),
                _ => unknown.push((node, shard)),
            }
        }
        let reads = unknown.iter().map(|(node, shard)| {
            self.index_range(opened, node, shard)
                .map(|range| (node.object, range, shard.index.len()))
        });
        let reads: Vec<_> = reads.collect::<Result<_, _>>()?;
        let indexes: Vec<Mutex<Option<Arc<CachedIndex>>>> =
            unknown.iter().map(|_| Mutex::new(None)).collect();
        let inline = inline || reads.len() == 1;
        self.batch(opened, reads, inline, &|i, bytes| {
            let (node, shard) = &unknown[i];
            let object = &opened[node.object];
            let len = match (&node.range, object.object.len()) {
                (Some(range), _) => range.end - range.start,
                (None, Some(len)) => len,
                // With the index at the start of an object of unknown length any entry may be right;
                // a read past the end fails then.
                (None, None) => u64::MAX,
            };
            let decoded = self
                .engine
                .with_context(|context| shard.index.decode(context, bytes, len))
                .map_err(|source| self.shard_error(object, source))?;
            let version = object.version();
            let key = self.index_key(&object.key, &node.path);
            let index = self.remember(key, version, decoded);
            *indexes[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(index);
            Ok(())
        });
        for ((node, shard), index) in unknown.iter().zip(indexes) {
            // An index that is not there failed, or its object changed or vanished.
            if let Some(cached) = index.into_inner().unwrap_or_else(PoisonError::into_inner) {
                let found = Found { next: &mut next, fetches, inline };
                self.expand(opened, node, shard, &cached.index, found)?;
            }
        }
        Ok(next)
    }

    /// Fetches a chunk: whole, or the wanted runs of it if it is stored as it lies in memory.
    fn fetch_chunk(&self, node: Node<'a>, fetches: &mut Vec<Fetch<'a>>) {
        let most = self.engine.max_merged_read();
        if let Layout::Chunk(leaf) = node.layout
            && let Some(range) = &node.range
            && (!node.selection.covers(&leaf.codec.spec().shape) || range.end - range.start > most)
            // A chunk of the wrong length is fetched whole, so that decoding it tells what is wrong.
            && leaf.codec.spec().byte_len().is_some_and(|len| len as u64 == range.end - range.start)
        {
            let gap = self.grid.store.read_cost().request_in_bytes as usize;
            if let Some(runs) = leaf.plain_runs(&node.selection, gap, most as usize) {
                fetches.extend(runs.into_iter().map(|run| {
                    let (start, end) = (run.bytes.start as u64, run.bytes.end as u64);
                    Fetch::of(Node {
                        range: Some(range.start + start..range.start + end),
                        place: advance(&node.place, &run.at),
                        selection: run.selection,
                        skipped: Some(run.bytes.start),
                        path: node.path.clone(),
                        ..node
                    })
                }));
                return;
            }
        }
        fetches.push(Fetch::of(node));
    }

    /// Whether to fetch all of a shard in one read, index included, instead of the index first.
    fn worth_whole(&self, node: &Node<'a>, shard: &ShardLayout) -> bool {
        let Some(range) = &node.range else { return false };
        let len = range.end - range.start;
        if node.whole && len <= self.engine.budget.total() {
            return true;
        }
        // One request more costs as much as this many bytes.
        len <= self.grid.store.read_cost().request_in_bytes.saturating_add(shard.index.len())
    }

    fn index_range(
        &self,
        opened: &[Opened],
        node: &Node<'a>,
        shard: &ShardLayout,
    ) -> Result<ReadRange, Error> {
        let Some(range) = &node.range else {
            return Ok(match shard.index.location() {
                IndexLocation::Start => ReadRange::Bounded(0..shard.index.len()),
                IndexLocation::End => ReadRange::Suffix(shard.index.len()),
            });
        };
        let local = shard
            .index
            .range(range.end - range.start)
            .map_err(|source| self.shard_error(&opened[node.object], source))?;
        Ok(ReadRange::Bounded(range.start + local.start..range.start + local.end))
    }

    /// The chunks of a shard whose index is known: those that are there become nodes, the others are filled.
    fn expand(
        &self,
        opened: &[Opened],
        node: &Node<'a>,
        shard: &'a ShardLayout,
        index: &ShardIndex,
        found: Found<'_, 'a>,
    ) -> Result<(), Error> {
        let Found { next, fetches, inline } = found;
        let base = node.range.as_ref().map_or(0, |r| r.start);
        let place = shard.placement_to_stored(&node.place);
        for cell in shard.selection_to_stored(&node.selection).cells(&shard.chunk_shape) {
            let entry = shard.entry(&cell.index);
            let place = advance(&place, &cell.at);
            let range = match index.get(entry) {
                Ok(Some(range)) => range,
                Ok(None) => {
                    self.fill(&cell.selection, &place)?;
                    continue;
                }
                Err(source) => {
                    let error = self.shard_error(&opened[node.object], source);
                    return self.settle(opened, node.object, error);
                }
            };
            let mut path = node.path.clone();
            path.push(entry as u32);
            let chunk = Node {
                object: node.object,
                range: Some(base + range.start..base + range.end),
                layout: &shard.inner,
                // Chunks at the edge of the array count as partly wanted; that costs at most
                // one read of an inner index.
                whole: node.whole || cell.selection.covers(&shard.chunk_shape),
                selection: cell.selection,
                place,
                path,
                skipped: None,
            };
            if chunk.layout.addressable().is_some() {
                next.push(chunk);
                if next.len() >= MANY {
                    self.follow(opened, std::mem::take(next), fetches, inline)?;
                }
            } else {
                self.fetch_chunk(chunk, fetches);
            }
            if fetches.len() >= MANY {
                self.fetch(opened, fetches, inline)?;
            }
        }
        Ok(())
    }

    /// Merges neighbouring ranges of an object where reading the gap costs less than another request.
    pub(super) fn merge(&self, mut fetches: Vec<Fetch<'a>>) -> Vec<Fetch<'a>> {
        let gap = self.grid.store.read_cost().request_in_bytes;
        let most = self.engine.max_merged_read();
        fetches.sort_by_key(|f| (f.object, f.range.as_ref().map_or(0, |r| r.start)));
        let mut merged: Vec<Fetch<'a>> = Vec::new();
        for fetch in fetches {
            if let Some(last) = merged.last_mut()
                && last.object == fetch.object
                && let (Some(a), Some(b)) = (&mut last.range, &fetch.range)
                && b.start <= a.end.saturating_add(gap)
                && b.end.max(a.end) - a.start <= most.max(a.end - a.start)
            {
                a.end = a.end.max(b.end);
                last.nodes.extend(fetch.nodes);
            } else {
                merged.push(fetch);
            }
        }
        merged
    }
}

impl<'a> Fetch<'a> {
    fn of(node: Node<'a>) -> Self {
        Self { object: node.object, range: node.range.clone(), nodes: vec![node] }
    }
}

impl Node<'_> {
    /// Bytes of decoded elements that are wanted.
    pub(super) fn decoded_len(&self) -> u64 {
        let element = self.layout.element_size() as u64;
        self.selection.axes.iter().fold(element, |n, a| n.saturating_mul(a.count))
    }
}
