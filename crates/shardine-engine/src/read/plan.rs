//! Which bytes a read needs: it starts with nodes, indexes lead to more nodes, and fetches are what
//! remains.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use shardine_codec::strided::Placement;
use shardine_store::{ReadCost, ReadRange};

use super::{CachedIndex, Opened, Part, Path, Reading};
use crate::Error;
use crate::layout::{Layout, ShardLayout, advance};
use crate::selection::Selection;
use crate::shard::{IndexLocation, ShardIndex};
use crate::tuning::{INDEX_GUESS, MANY_RANGES, REQUESTS_WORK, SMALL_OBJECT};
use crate::tuning::{MAX_LOCAL_READ, MAX_REMOTE_READ};

/// Something encoded that is needed: all or part of the bytes `range` of an object.
#[derive(Clone)]
pub(super) struct Node<'a> {
    /// Which of the opened objects.
    pub object: usize,
    /// Which of its parts.
    pub part: usize,
    /// Its bytes; unknown for an object of unknown length.
    pub range: Option<Range<u64>>,
    pub layout: &'a Layout,
    /// What is needed from it.
    pub selection: Selection,
    /// Where that goes.
    pub place: Placement,
    pub path: Path,
    /// Whether everything in it that lies inside the array is needed.
    pub whole: bool,
    /// If `range` is only part of a chunk that is stored as it lies in memory: the number of the
    /// chunk's bytes before it.
    pub skipped: Option<usize>,
}

/// One read and the nodes in it.
pub(super) struct Fetch {
    pub object: usize,
    pub range: Option<Range<u64>>,
    /// Which of the plan's nodes.
    nodes: Range<usize>,
}

/// What is read in one step, merged where one read is cheaper than two.
pub(super) struct Plan<'a> {
    nodes: Vec<Node<'a>>,
    /// The nodes by object and offset.
    order: Vec<u32>,
    pub fetches: Vec<Fetch>,
    /// Bytes that have to be decoded to get what is needed.
    pub work: u64,
}

/// Receives what an index leads to.
struct Leads<'b, 'a> {
    next: &'b mut Vec<Node<'a>>,
    wanted: &'b mut Vec<Node<'a>>,
    inline: bool,
}

impl<'a> Reading<'a> {
    /// What is needed from an object.
    pub(super) fn roots<'b>(
        &'b self,
        object: usize,
        opened: &'b Opened,
    ) -> impl Iterator<Item = Node<'a>> + 'b {
        opened.parts.iter().enumerate().map(move |(part, Part { cell, place })| Node {
            object,
            part,
            range: opened.range_of(part),
            layout: self.grid.layout_of(&cell.index),
            whole: cell.selection.covers(&self.grid.bounds(&cell.index)),
            selection: cell.selection.clone(),
            place: place.clone(),
            path: Path::new(),
            skipped: None,
        })
    }

    /// Turns nodes into fetches, reading the indexes on the way, one level of shards after another.
    pub(super) fn follow(
        &self,
        opened: &[Opened],
        mut nodes: Vec<Node<'a>>,
        wanted: &mut Vec<Node<'a>>,
        inline: bool,
    ) -> Result<(), Error> {
        while !nodes.is_empty() {
            nodes = self.descend(opened, nodes, wanted, inline)?;
            self.check()?;
        }
        Ok(())
    }

    /// Turns nodes into fetches where the range is known; reads the indexes of the others and
    /// returns the nodes they lead to.
    fn descend(
        &self,
        opened: &[Opened],
        nodes: Vec<Node<'a>>,
        wanted: &mut Vec<Node<'a>>,
        inline: bool,
    ) -> Result<Vec<Node<'a>>, Error> {
        let mut next = Vec::new();
        let mut unknown: Vec<(Node<'a>, &'a ShardLayout)> = Vec::new();
        for node in nodes {
            let Some(shard) = node.layout.addressable() else {
                self.want_chunk(node, wanted);
                continue;
            };
            let key = self.index_key(&opened[node.object], &node.path);
            let version = opened[node.object].version();
            match self.engine.indexes.get(&key) {
                Some(cached) if version.as_ref() == Some(&cached.version) => {
                    let found = Leads { next: &mut next, wanted, inline };
                    self.expand(opened, &node, shard, &cached.index, found)?;
                }
                _ if self.worth_whole(&node, shard) => wanted.push(node),
                _ => unknown.push((node, shard)),
            }
        }
        if unknown.is_empty() {
            return Ok(next);
        }
        // A small object is fetched together with its index. For many large ones, fetching bytes
        // that are not needed would save only one round trip in all, as they are in flight
        // together. Several parts of one shard need its index only once.
        unknown.sort_by(|(a, _), (b, _)| (a.object, &a.path).cmp(&(b.object, &b.path)));
        let groups: Vec<_> = unknown
            .chunk_by(|(a, _), (b, _)| (a.object, &a.path) == (b.object, &b.path))
            .filter_map(|group| group.split_first())
            .collect();
        let guess =
            (self.cost.request_in_bytes / INDEX_GUESS).max(SMALL_OBJECT) / groups.len() as u64;
        let reads = groups.iter().map(|((node, shard), _)| {
            let len = shard.index.len();
            self.index_range(opened, node, shard, guess)
                .map(|range| (node.object, range, len.max(guess)))
        });
        let reads: Vec<_> = reads.collect::<Result<_, _>>()?;
        let indexes: Vec<Mutex<Option<Arc<CachedIndex>>>> =
            groups.iter().map(|_| Mutex::new(None)).collect();
        let inline = inline || reads.len() == 1;
        self.batch(opened, reads, inline, &|i, bytes| {
            let (node, shard) = groups[i].0;
            let object = &opened[node.object];
            let len = match (&node.range, object.object.len()) {
                (Some(range), _) => range.end - range.start,
                (None, Some(len)) => len,
                // With the index at the start of an object of unknown length any entry may be
                // valid; a read past the end then fails.
                (None, None) => u64::MAX,
            };
            let decoded = self
                .engine
                .with_context(|context| shard.index.decode(context, bytes, len))
                .map_err(|source| self.shard_error(object, source))?;
            let version = object.version();
            let key = self.index_key(object, &node.path);
            let index = self.remember(key, version, decoded);
            *indexes[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(index);
            Ok(())
        });
        for ((first, others), index) in groups.into_iter().zip(indexes) {
            // A missing index means that reading it failed, or that its object changed or vanished.
            if let Some(cached) = index.into_inner().unwrap_or_else(PoisonError::into_inner) {
                for (node, shard) in std::iter::once(first).chain(others) {
                    let found = Leads { next: &mut next, wanted, inline };
                    self.expand(opened, node, shard, &cached.index, found)?;
                }
            }
        }
        Ok(next)
    }

    /// Fetches a chunk: whole, or only the needed runs if it is stored as it lies in memory.
    fn want_chunk(&self, node: Node<'a>, wanted: &mut Vec<Node<'a>>) {
        let most = self.engine.max_merged_read();
        if let Layout::Chunk(leaf) = node.layout
            && let Some(range) = &node.range
            && (!node.selection.covers(&leaf.codec.spec().shape) || range.end - range.start > most)
            // A chunk of the wrong length is fetched whole, so that decoding it reports what is
            // wrong.
            && leaf.codec.spec().byte_len().is_some_and(|len| len as u64 == range.end - range.start)
        {
            let gap = self.cost.request_in_bytes as usize;
            if let Some(runs) = leaf.plain_runs(&node.selection, gap, most as usize) {
                wanted.extend(runs.into_iter().map(|run| {
                    let (start, end) = (run.bytes.start as u64, run.bytes.end as u64);
                    Node {
                        range: Some(range.start + start..range.start + end),
                        place: advance(&node.place, &run.at),
                        selection: run.selection,
                        skipped: Some(run.bytes.start),
                        path: node.path.clone(),
                        ..node
                    }
                }));
                return;
            }
        }
        wanted.push(node);
    }

    /// Whether to fetch a whole shard in one read, including its index, instead of the index first.
    fn worth_whole(&self, node: &Node<'a>, shard: &ShardLayout) -> bool {
        let cost = self.cost;
        let Some(range) = &node.range else {
            // Its stored size hardly exceeds its decoded size by much.
            return node.whole && node.layout.decoded_len() <= self.engine.max_merged_read();
        };
        let len = range.end - range.start;
        let most =
            if cost.local { self.engine.max_merged_read() } else { self.engine.budget.total() };
        if node.whole && len <= most {
            return true;
        }
        // Another request costs as much as this many bytes.
        len <= cost.request_in_bytes.saturating_add(shard.index.len())
    }

    fn index_range(
        &self,
        opened: &[Opened],
        node: &Node<'a>,
        shard: &ShardLayout,
        most: u64,
    ) -> Result<ReadRange, Error> {
        let Some(range) = &node.range else {
            let need = shard.index.len();
            let most = most.max(need);
            return Ok(match shard.index.location() {
                IndexLocation::Start => ReadRange::Head { need, most },
                IndexLocation::End => ReadRange::Tail { need, most },
            });
        };
        let local = shard
            .index
            .range(range.end - range.start)
            .map_err(|source| self.shard_error(&opened[node.object], source))?;
        Ok(ReadRange::Bounded(range.start + local.start..range.start + local.end))
    }

    /// The chunks of a shard whose index is known: those that exist become nodes, the others are
    /// filled.
    fn expand(
        &self,
        opened: &[Opened],
        node: &Node<'a>,
        shard: &'a ShardLayout,
        index: &ShardIndex,
        found: Leads<'_, 'a>,
    ) -> Result<(), Error> {
        let Leads { next, wanted, inline } = found;
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
                part: node.part,
                range: Some(base + range.start..base + range.end),
                layout: &shard.inner,
                // Chunks at the edge of the array count as partly needed; that costs at most one
                // read of an inner index.
                whole: node.whole || cell.selection.covers(&shard.chunk_shape),
                selection: cell.selection,
                place,
                path,
                skipped: None,
            };
            if chunk.layout.addressable().is_some() {
                next.push(chunk);
                if next.len() >= MANY_RANGES {
                    self.follow(opened, std::mem::take(next), wanted, inline)?;
                }
            } else {
                self.want_chunk(chunk, wanted);
            }
            if wanted.len() >= MANY_RANGES {
                self.fetch(opened, wanted, inline)?;
            }
        }
        Ok(())
    }

    /// Merges neighbouring ranges of an object if reading the gap costs less than another request.
    pub(super) fn merge(&self, nodes: Vec<Node<'a>>) -> Plan<'a> {
        let cost = self.cost;
        let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
        let place = |&i: &u32| {
            let node = &nodes[i as usize];
            (node.object, node.range.as_ref().map_or(0, |r| r.start))
        };
        order.sort_by_key(place);
        let stored = nodes.iter().map(Node::stored_len).fold(0, u64::saturating_add);
        let mut most = self.engine.max_merged_read();
        if cost.local && stored > most {
            most = most.min(MAX_LOCAL_READ);
        }
        // For small amounts, fewer requests are better.
        if !cost.local && stored > 3 * MAX_REMOTE_READ {
            most = most.min(MAX_REMOTE_READ);
        }
        let gap = if cost.local {
            cost.request_in_bytes
        } else {
            worthwhile_gap(gaps(&nodes, &order), cost)
        };
        let mut fetches: Vec<Fetch> = Vec::new();
        for (i, &number) in order.iter().enumerate() {
            let node = &nodes[number as usize];
            if let Some(last) = fetches.last_mut()
                && last.object == node.object
                && last.range.is_none()
                && node.range.is_none()
            {
                last.nodes.end = i + 1;
            } else if let Some(last) = fetches.last_mut()
                && last.object == node.object
                && let (Some(a), Some(b)) = (&mut last.range, &node.range)
                && b.start <= a.end.saturating_add(gap)
                && b.end.max(a.end) - a.start <= most.max(a.end - a.start)
            {
                a.end = a.end.max(b.end);
                last.nodes.end = i + 1;
            } else {
                let (object, range) = (node.object, node.range.clone());
                fetches.push(Fetch { object, range, nodes: i..i + 1 });
            }
        }
        let work = nodes.iter().map(Node::work).fold(0, u64::saturating_add);
        Plan { nodes, order, fetches, work }
    }
}

/// The gaps between neighbouring ranges of the same object.
fn gaps<'b>(nodes: &'b [Node<'_>], order: &'b [u32]) -> impl Iterator<Item = u64> + 'b {
    let mut last: Option<(usize, u64)> = None;
    order.iter().filter_map(move |&i| {
        let node = &nodes[i as usize];
        let range = node.range.as_ref()?;
        let before = last.filter(|(object, _)| *object == node.object).map(|(_, end)| end);
        last = Some((node.object, before.map_or(range.end, |end| end.max(range.end))));
        before.map(|end| range.start.saturating_sub(end))
    })
}

/// The widest gap that is read rather than skipped.
///
/// Reading a gap takes time; skipping it takes another request, and requests take time once there
/// are more of them than can be in flight. While they all fit, merging them would only mean reading
/// more, so a request then counts only for the work it causes at both ends, a small part of its
/// duration.
fn worthwhile_gap(gaps: impl Iterator<Item = u64>, cost: ReadCost) -> u64 {
    let mut gaps: Vec<u64> = gaps.filter(|&gap| gap > 0).collect();
    gaps.sort_unstable();
    let (at_once, request) = (cost.in_flight.max(1) as u64, cost.request_in_bytes);
    let time = |requests: u64, read: u64| {
        let rounds = requests.div_ceil(at_once);
        let waiting = rounds.saturating_mul(request);
        let work = requests.saturating_mul(request / REQUESTS_WORK);
        read.saturating_add(waiting).saturating_add(work)
    };
    let count = gaps.len() as u64 + 1;
    let (mut best, mut widest, mut read) = (time(count, 0), 0, 0u64);
    for (joined, &gap) in (1..).zip(&gaps) {
        read = read.saturating_add(gap);
        let now = time(count - joined, read);
        if now <= best {
            (best, widest) = (now, gap);
        }
    }
    widest
}

impl<'a> Plan<'a> {
    /// Whether everything needed is in one chunk.
    pub(super) fn is_one_chunk(&self) -> bool {
        matches!(self.nodes.as_slice(), [node] if node.layout.addressable().is_none())
    }

    /// Whether there are fewer than `pieces` fetches, some with many chunks, so that distributing
    /// the fetches would leave workers idle.
    pub(super) fn is_coarse(&self, pieces: usize) -> bool {
        let holds_many = |fetch: &Fetch| {
            let mut nodes = self.nodes(fetch);
            (nodes.len() > 1 && fetch.len() > MAX_LOCAL_READ)
                || nodes.any(|node| node.layout.addressable().is_some())
        };
        self.fetches.len() < pieces && self.fetches.iter().any(holds_many)
    }

    /// Bytes of the longest fetch.
    pub(super) fn longest(&self) -> u64 {
        self.fetches.iter().map(Fetch::len).max().unwrap_or(0)
    }

    /// Bytes of memory for a fetch: its stored size or, if that is unknown, an estimate.
    pub(super) fn memory(&self, fetch: &Fetch) -> u64 {
        match &fetch.range {
            Some(range) => range.end - range.start,
            None => self.nodes(fetch).map(|node| node.layout.decoded_len()).max().unwrap_or(0),
        }
    }

    /// The nodes in a fetch, by offset.
    pub(super) fn nodes(&self, fetch: &Fetch) -> impl ExactSizeIterator<Item = &Node<'a>> {
        self.order[fetch.nodes.clone()].iter().map(|&i| &self.nodes[i as usize])
    }
}

impl Fetch {
    /// Bytes that are read, as far as known.
    pub(super) fn len(&self) -> u64 {
        self.range.as_ref().map_or(0, |r| r.end - r.start)
    }
}

impl Node<'_> {
    /// Bytes that are stored, as far as known.
    fn stored_len(&self) -> u64 {
        self.range.as_ref().map_or(0, |r| r.end - r.start)
    }

    /// Bytes that have to be decoded to get what is needed: all of a chunk, unless it is plain.
    fn work(&self) -> u64 {
        match self.layout.addressable() {
            None if self.skipped.is_none() => self.layout.decoded_len(),
            _ => self.selection.bytes(self.layout.element_size()),
        }
    }
}
