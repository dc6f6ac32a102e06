//! Positions, fragments and attributes, chunk by chunk.

use shardine_geometry::zarr_vectors::ChunkCoords;
use shardine_geometry::zarr_vectors::rules::{
    self, AttributeRules, ChunkFragments, Extent, RuleKind, Violation,
};

use super::StoreCheck;
use super::level::{LevelCheck, VertexArrays};
use crate::Error;
use crate::jobs::check::FindingKind;
use crate::jobs::check::vectors::CellArray;

/// What was counted in the chunks of a level.
struct Counted {
    vertices: u64,
    extent: Extent,
    /// Whether every cell could be read.
    whole: bool,
}

impl StoreCheck<'_, '_> {
    /// Judges the chunks of a level, and fills its table.
    pub(super) fn vertices(
        &self,
        level: &mut LevelCheck,
        arrays: &mut VertexArrays,
    ) -> Result<(), Error> {
        let mut chunks = arrays.vertices.chunks();
        if let Some(fragments) = &arrays.fragments {
            let of_no_vertices = |chunk: &&ChunkCoords| !arrays.vertices.stored.has(chunk);
            chunks.extend(fragments.chunks().into_iter().filter(|chunk| of_no_vertices(&chunk)));
        }
        let rank = self.store.root().axes.len();
        let is_read = |array: &CellArray| array.stored.is_complete();
        let whole = is_read(&arrays.vertices);
        if !whole || !arrays.fragments.as_ref().is_none_or(is_read) {
            level.table.set_partial();
        }
        let mut counted = Counted { vertices: 0, extent: Extent::new(rank), whole };
        let mut done = 0;
        while let Some(rest) = chunks.get(done..).filter(|rest| !rest.is_empty()) {
            self.step(arrays.vertices.location(), done, chunks.len())?;
            let now = &rest[..arrays.vertices.at_once(self.run.engine, rest)];
            self.chunks(level, arrays, now, &mut counted);
            done += now.len();
        }
        for (array, _) in arrays.attributes.iter().chain(&arrays.fragment_attributes) {
            let fragments = arrays.fragments.as_ref();
            self.left_over(array, "there are no vertices in this chunk", &|chunk| {
                let is_known = |array: &CellArray| array.stored.has(chunk);
                is_known(&arrays.vertices)
                    || fragments.is_some_and(is_known)
                    || arrays.vertices.is_unknown(chunk)
            });
        }
        if !self.fits_owners(&level.table) {
            let message = "whether every fragment belongs to an object was not checked: there are \
                           too many for the memory";
            self.run.note_at(&level.location, FindingKind::NotChecked, message.to_owned());
            level.table.forget_owners();
        }
        let agrees = level.document.vertices == counted.vertices;
        self.vertex_lists(arrays, agrees && counted.whole);
        if let Some(rules) = arrays.rules.as_ref().filter(|_| counted.whole) {
            // What is lost counts too.
            let is_all = !arrays.vertices.lacks_listed() && !arrays.has_lone_fragments();
            self.vertex_count(level, counted.vertices, is_all);
            if level.number == 0 {
                let is_all = is_all && level.document.vertices <= counted.vertices;
                self.bounds(rules, &counted.extent, is_all);
            }
        }
        Ok(())
    }

    /// Reports cells of an array of attributes for chunks in which there is nothing to describe.
    pub(super) fn left_over(
        &self,
        array: &CellArray,
        message: &str,
        is_described: &dyn Fn(&ChunkCoords) -> bool,
    ) {
        for chunk in array.stored.sorted() {
            if !is_described(&chunk) && self.takes(array, &chunk) {
                let found = vec![Violation::new(RuleKind::Attributes, message)];
                self.tell_cell(array, &chunk, found);
            }
        }
    }

    /// Judges the lists of chunks of the arrays of a level. If `agrees`, the level has as many
    /// vertices as it says, so that none can be lost.
    pub(super) fn vertex_lists(&self, arrays: &VertexArrays, agrees: bool) {
        let has = |array: &CellArray, chunk: &[i64]| array.stored.has(&chunk.into());
        self.list(&arrays.vertices, &|chunk| {
            let fragments = arrays.fragments.as_ref();
            !agrees || fragments.is_some_and(|fragments| has(fragments, chunk))
        });
        let others = arrays.attributes.iter().chain(&arrays.fragment_attributes);
        let others = others.map(|(array, _)| array).chain(&arrays.fragments);
        for array in others {
            self.list(array, &|chunk| has(&arrays.vertices, chunk));
        }
    }

    fn chunks(
        &self,
        level: &mut LevelCheck,
        arrays: &mut VertexArrays,
        chunks: &[ChunkCoords],
        counted: &mut Counted,
    ) {
        let engine = self.run.engine;
        let own: Vec<bool> =
            chunks.iter().map(|chunk| self.takes(&arrays.vertices, chunk)).collect();
        let mut rows: Vec<Option<u64>> = vec![None; chunks.len()];
        let skip = usize::from(level.document.chunk_attribute.is_some());
        let vertices = &arrays.vertices;
        if let Some(rules) = &arrays.rules {
            vertices.each(engine, chunks, &mut |at, bytes| {
                let (chunk, mut found) = (&chunks[at], Vec::new());
                match bytes {
                    // Its shard is damaged, which the check of the array says.
                    Ok([]) if vertices.is_unknown(chunk) => {}
                    Ok(bytes) => {
                        let space = chunk.get(skip..).unwrap_or_default();
                        rows[at] = rules.judge(bytes, space, &mut counted.extent, &mut found);
                        bin(level, chunk, &mut found);
                    }
                    Err(error) if own[at] => self.tell_unread(vertices, chunk, &error),
                    Err(_) => {}
                }
                match rows[at] {
                    Some(rows) => counted.vertices += rows,
                    None => counted.whole = false,
                }
                if own[at] {
                    self.tell_cell(vertices, chunk, found);
                }
            });
        }
        let fragments = self.fragments(level, arrays, chunks, &rows, &own);
        for (array, rules) in &mut arrays.attributes {
            self.rows(array, rules, chunks, &rows, &own);
        }
        for (array, rules) in &mut arrays.fragment_attributes {
            self.rows(array, rules, chunks, &fragments, &own);
        }
    }

    /// Judges the fragments of chunks with as many rows, and enters them into the table. How many
    /// there are in each chunk; `None` if that is not known.
    fn fragments(
        &self,
        level: &mut LevelCheck,
        arrays: &VertexArrays,
        chunks: &[ChunkCoords],
        rows: &[Option<u64>],
        own: &[bool],
    ) -> Vec<Option<u64>> {
        let Some(array) = &arrays.fragments else {
            for (chunk, rows) in chunks.iter().zip(rows) {
                level.table.add(chunk.clone(), *rows, ChunkFragments::Missing);
            }
            return vec![None; chunks.len()];
        };
        let mut counts = vec![None; chunks.len()];
        let tile = level.document.fragments_tile;
        let table = &mut level.table;
        array.each(self.run.engine, chunks, &mut |at, bytes| {
            let (chunk, mut found) = (&chunks[at], Vec::new());
            match bytes {
                Ok([]) if array.is_unknown(chunk) => {
                    table.add(chunk.clone(), rows[at], ChunkFragments::Unknown);
                }
                Ok(bytes) => {
                    let index = rules::judge_fragments(bytes, rows[at], tile, &mut found);
                    counts[at] = index.as_ref().map(|index| index.len() as u64);
                    let known = match &index {
                        Some(index) => ChunkFragments::Known(index),
                        None if bytes.is_empty() => ChunkFragments::Missing,
                        None => ChunkFragments::Unknown,
                    };
                    table.add(chunk.clone(), rows[at], known);
                }
                Err(error) => {
                    table.add(chunk.clone(), rows[at], ChunkFragments::Unknown);
                    if own[at] {
                        self.tell_unread(array, chunk, &error);
                    }
                }
            }
            if own[at] {
                self.tell_cell(array, chunk, found);
            }
        });
        counts
    }

    /// Judges an attribute of chunks, of which this part has those that are its `own`, with as many
    /// rows each.
    pub(super) fn rows(
        &self,
        array: &CellArray,
        rules: &mut AttributeRules,
        chunks: &[ChunkCoords],
        rows: &[Option<u64>],
        own: &[bool],
    ) {
        let is_judged = |at: &usize| own[*at] && rows[*at].is_some();
        let judged: Vec<usize> = (0..chunks.len()).filter(is_judged).collect();
        let wanted: Vec<ChunkCoords> = judged.iter().map(|at| chunks[*at].clone()).collect();
        array.each(self.run.engine, &wanted, &mut |at, bytes| {
            let (chunk, rows) = (&wanted[at], rows[judged[at]].unwrap_or(0));
            match bytes {
                Ok([]) if array.is_unknown(chunk) => {}
                Ok(bytes) => {
                    let mut found = Vec::new();
                    rules::attribute(bytes, rules, rows, &mut found);
                    self.tell_cell(array, chunk, found);
                }
                Err(error) => self.tell_unread(array, chunk, &error),
            }
        });
    }
}

/// Judges the bin of a chunk, where chunks are also cut by an attribute.
fn bin(level: &LevelCheck, chunk: &[i64], found: &mut Vec<Violation>) {
    let (Some((name, values)), Some(bin)) = (&level.document.chunk_attribute, chunk.first()) else {
        return;
    };
    if !values.is_empty() && !usize::try_from(*bin).is_ok_and(|bin| bin < values.len()) {
        let known = values.len();
        let message = format!("it is bin {bin} of {name}, which has {known} values");
        found.push(Violation::new(RuleKind::Vertices, message));
    }
}
