//! Rows object by object: lines, paths, skeletons, graphs and meshes.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::FixedState;
use shardine_geometry::zarr_vectors::{ChunkCoords, Fragment, FragmentRef, chunk_key};
use shardine_geometry::{GeometryBatch, Links};

use super::by_cell::push;
use super::cells::{CellView, Cells};
use super::error::VectorsError;
use super::grid_array::GridArray;
use super::links::Read;
use super::query::Plan;
use super::row_map::RowMap;
use crate::Error;

/// Chunks by their place in a part.
pub(super) type Places = HashMap<ChunkCoords, u32, FixedState>;

/// Reads the chunks of some objects at a time, as many as memory allows.
///
/// What has links is read at once: a link may join any two vertices.
#[derive(Debug)]
pub(super) struct ByObject {
    pub(super) plan: Plan,
    objects: Vec<(u64, i64)>,
    /// How many objects were taken.
    taken: usize,
    at_once: usize,
    clip: bool,
    /// Whether a row is joined to the one before it in its fragment.
    sequential: bool,
    /// Whether all of the level is asked for.
    whole: bool,
    /// Of paths that are clipped: the links between neighbours that are left.
    pieces: Option<Vec<u64>>,
    ready: VecDeque<GeometryBatch>,
    ended: bool,
    /// How many bytes `ready` may have.
    room: u64,
}

/// Fragments of a chunk that belong to an object.
#[derive(Debug, Clone)]
struct ObjectBlock {
    /// The number of the object in the part.
    object: u32,
    /// The number of the chunk in the part.
    chunk: u32,
    start: u64,
    count: u64,
}

impl ByObject {
    pub(super) fn new(
        plan: Plan,
        objects: Vec<(u64, i64)>,
        clip: bool,
        sequential: bool,
        whole: bool,
    ) -> Self {
        let whole = whole && !plan.test.tests_rows() && plan.test.object_filters.is_empty();
        let all = plan.level.objects.as_ref().map_or(0, |table| table.rows()).max(1);
        let bytes = plan.level.document.vertices.saturating_mul(plan.vertex_bytes());
        // As read and as columns, and its blocks.
        let each = (bytes / all).saturating_mul(2).saturating_add(128);
        let fits = (plan.memory / 4 / each).clamp(1024, 1 << 31) as usize;
        let at_once = if plan.kind.link_width() > 0 { objects.len().max(1) } else { fits };
        let (taken, ready, room) = (0, VecDeque::new(), plan.memory);
        let pieces = (clip && plan.kind.link_width() == 0).then(Vec::new);
        Self {
            plan,
            objects,
            taken,
            at_once,
            clip,
            sequential,
            whole,
            pieces,
            ready,
            ended: false,
            room,
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<GeometryBatch>, Error> {
        while self.ready.is_empty() && self.taken < self.objects.len() {
            self.read_part()?;
        }
        if self.ready.is_empty() && !std::mem::replace(&mut self.ended, true) {
            self.end()?;
        }
        Ok(self.ready.pop_front())
    }

    /// Makes batches of the next objects.
    fn read_part(&mut self) -> Result<(), Error> {
        let end = self.objects.len().min(self.taken.saturating_add(self.at_once));
        let objects = self.objects.get(self.taken..end).unwrap_or_default().to_vec();
        self.taken = end;
        self.room = self.plan.memory;
        let (blocks, chunks, places) = self.find_blocks(&objects)?;
        if let Some(chunk) = chunks.iter().find(|chunk| self.plan.level.vertices.leaves_out(chunk))
        {
            let (array, chunk) = (&self.plan.level.vertices.path, chunk_key(chunk));
            let why = format!("{array} does not list chunk {chunk}, which an object has");
            self.plan.level.doubt(why);
            self.plan.level.doubts(&mut self.plan.told)?;
        }
        let cells = Cells::read(&self.plan.level, &self.plan.wanted, chunks)?;
        let views: Vec<CellView<'_>> = (0..cells.len())
            .map(|at| cells.view(&self.plan.level, &self.plan.wanted, at))
            .collect::<Result<_, _>>()?;
        let masks = self.masks(&views)?;
        let mut map = (self.plan.kind.link_width() > 0)
            .then(|| RowMap::new(views.iter().map(|view| view.rows)));
        for own in blocks.chunk_by(|a, b| a.object == b.object) {
            let Some(first) = own.first() else { continue };
            let Some(object) = objects.get(first.object as usize) else { continue };
            self.take(*object, own, &views, &masks, map.as_mut())?;
            if self.plan.batches.is_full() {
                self.take_batch()?;
            }
        }
        if !self.plan.batches.is_empty() {
            self.take_batch()?;
        }
        if let Some(map) = map {
            self.add_links(&views, &places, map)?;
        }
        if let Some(rows) = self.pieces.as_mut().map(std::mem::take).filter(|rows| !rows.is_empty())
        {
            let links = Links { width: 2, rows, attributes: None };
            self.ready.push_back(self.plan.batches.only_links(links));
        }
        Ok(())
    }

    /// After the last object.
    fn end(&mut self) -> Result<(), Error> {
        let (said, given) = (self.plan.level.document.vertices, self.plan.batches.done);
        self.plan.told.sum_up();
        // Objects may share vertices, so there may be more.
        if self.whole && given < said {
            let level = self.plan.level.document.level;
            let note =
                format!("level {level} says that it has {said} vertices; {given} were found");
            self.plan.told.contradiction(note)?;
        }
        Ok(())
    }

    /// The blocks of objects that may be taken, and the chunks that these are in, in ascending
    /// order.
    fn find_blocks(
        &self,
        objects: &[(u64, i64)],
    ) -> Result<(Vec<ObjectBlock>, Vec<ChunkCoords>, Places), Error> {
        let Some(table) = &self.plan.level.objects else { return Ok(Default::default()) };
        let (test, vertices) = (&self.plan.test, &self.plan.level.vertices);
        let mut chunks: Vec<ChunkCoords> = Vec::new();
        let mut places = Places::default();
        let mut blocks: Vec<ObjectBlock> = Vec::new();
        let mut touched = vec![!test.tests_rows(); objects.len()];
        table.each_block(objects, &mut |at, block| {
            if vertices.cell(&block.chunk).is_none() {
                let object = objects.get(at).map_or(0, |(_, id)| *id);
                let reason = format!("chunk {} is outside of the grid", chunk_key(&block.chunk));
                return Err(vertices.wrong(VectorsError::Object { object, reason }));
            }
            if let Some(touched) = touched.get_mut(at) {
                *touched |= test.takes_chunk(&block.chunk);
            }
            let next = chunks.len() as u32;
            let chunk = *places.entry(block.chunk).or_insert_with_key(|chunk| {
                chunks.push(chunk.clone());
                next
            });
            let object = at as u32;
            if let FragmentRef::Range { start, count } = block.fragments {
                blocks.push(ObjectBlock { object, chunk, start, count });
            } else {
                let each: Result<(), Error> = block.fragments.try_for_each(|start| {
                    blocks.push(ObjectBlock { object, chunk, start, count: 1 });
                    Ok(())
                });
                each?;
            }
            let needs = (blocks.len() * size_of::<ObjectBlock>()) as u64;
            let most = self.plan.memory;
            if needs > most || objects.len().max(chunks.len()) >= u32::MAX as usize {
                return Err(vertices.wrong(VectorsError::TooLarge { needs, most }));
            }
            Ok(())
        })?;
        blocks.retain(|block| touched.get(block.object as usize).is_some_and(|touched| *touched));
        let mut used = vec![false; chunks.len()];
        for block in &blocks {
            used[block.chunk as usize] = true;
        }
        let mut order: Vec<usize> = (0..chunks.len()).filter(|at| used[*at]).collect();
        order.sort_unstable_by(|a, b| chunks[*a].cmp(&chunks[*b]));
        let mut renumbered = vec![0; chunks.len()];
        places.clear();
        let mut sorted = Vec::with_capacity(order.len());
        for (at, old) in (0..).zip(order) {
            renumbered[old] = at;
            places.insert(chunks[old].clone(), at);
            sorted.push(chunks[old].clone());
        }
        for block in &mut blocks {
            block.chunk = renumbered[block.chunk as usize];
        }
        Ok((blocks, sorted, places))
    }

    /// Which vertices of each chunk pass; empty if all do.
    fn masks(&self, views: &[CellView<'_>]) -> Result<Vec<Vec<bool>>, Error> {
        let test = &self.plan.test;
        let mut masks = Vec::new();
        for view in views {
            if !test.knows_bin(view.chunk) {
                let reason = "the level has no value for its bin";
                return Err(self.plan.level.vertices.contradicts(view.chunk, reason));
            }
            if test.tests_rows() {
                let mut mask = Vec::new();
                test.mask(view, &mut mask);
                masks.push(mask);
            }
        }
        Ok(masks)
    }

    fn take(
        &mut self,
        object: (u64, i64),
        blocks: &[ObjectBlock],
        views: &[CellView<'_>],
        masks: &[Vec<bool>],
        mut map: Option<&mut RowMap>,
    ) -> Result<(), Error> {
        let mask = |block: &ObjectBlock| masks.get(block.chunk as usize).map(Vec::as_slice);
        let mut any = masks.is_empty();
        for block in blocks.iter().filter(|_| !masks.is_empty()) {
            let vertices = &self.plan.level.vertices;
            for fragment in fragments(vertices, object.1, block, views) {
                let (fragment, mask) = (fragment?, mask(block));
                let passes =
                    |row: u64| mask.is_some_and(|mask| mask.get(row as usize) == Some(&true));
                fragment.for_each(|row| any |= passes(row));
            }
        }
        if !any {
            return Ok(());
        }
        // Whether the vertex before, in the order of the path, was taken.
        let mut follows = false;
        for block in blocks {
            let Some(view) = views.get(block.chunk as usize) else { continue };
            let mask = mask(block).filter(|_| self.clip);
            let Plan { level, batches, .. } = &mut self.plan;
            for fragment in fragments(&level.vertices, object.1, block, views) {
                let fragment = fragment?;
                if let Some(pieces) = &mut self.pieces {
                    let mut next = batches.next_row();
                    fragment.for_each(|row| {
                        let taken = mask.is_none_or(|mask| mask.get(row as usize) == Some(&true));
                        if taken && follows {
                            pieces.extend([next - 1, next]);
                        }
                        next += u64::from(taken);
                        follows = taken;
                    });
                }
                if let Some(map) = map.as_deref_mut() {
                    map.add(block.chunk, fragment, mask, batches.next_row(), self.sequential);
                }
                push(batches, view, fragment, mask, Some(object));
            }
            if batches.is_full() {
                self.take_batch()?;
            }
        }
        Ok(())
    }

    fn take_batch(&mut self) -> Result<(), Error> {
        let vertices = &self.plan.level.vertices;
        let batch = self.plan.batches.take(Links::default());
        let batch = batch.map_err(|error| vertices.wrong(error.into()))?;
        // Objects may share fragments, so that there are more rows than are stored.
        let needs = batch.vertices.num_rows() as u64 * (self.plan.vertex_bytes() + 8);
        let Some(room) = self.room.checked_sub(needs) else {
            let most = self.plan.memory;
            let needs = most.saturating_add(needs);
            return Err(vertices.wrong(VectorsError::TooLarge { needs, most }));
        };
        self.room = room;
        self.ready.push_back(batch);
        Ok(())
    }

    fn add_links(
        &mut self,
        views: &[CellView<'_>],
        places: &Places,
        map: RowMap,
    ) -> Result<(), Error> {
        let Plan { links, level, told, .. } = &mut self.plan;
        let batches = match links {
            Some(reader) => {
                let read = Read { level: level.as_ref(), views, places, whole: self.whole };
                reader.read(&read, map, self.sequential, told)?
            }
            None => map.into_sequential_links(),
        };
        for links in batches {
            let batch = self.plan.batches.only_links(links);
            self.ready.push_back(batch);
        }
        Ok(())
    }
}

/// The fragments of a block. One that does not exist is an error, and the last.
fn fragments<'a>(
    vertices: &'a GridArray,
    object: i64,
    block: &'a ObjectBlock,
    views: &'a [CellView<'a>],
) -> impl Iterator<Item = Result<Fragment<'a>, Error>> + 'a {
    let view = views.get(block.chunk as usize);
    let known = view.and_then(|view| view.fragments.as_ref());
    let len = known.map_or(0, |known| known.len() as u64);
    // However many the manifest claims, at most one that does not exist is looked at.
    let end = block.start.saturating_add(block.count).min(len.max(block.start) + 1);
    (block.start..end).map(move |at| {
        let found = known.and_then(|known| known.get(usize::try_from(at).ok()?));
        found.ok_or_else(|| {
            let chunk = view.map(|view| chunk_key(view.chunk)).unwrap_or_default();
            let reason = format!("it has fragment {at} of chunk {chunk}, which has {len}");
            vertices.wrong(VectorsError::Object { object, reason })
        })
    })
}
