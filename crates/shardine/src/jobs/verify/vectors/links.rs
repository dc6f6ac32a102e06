//! Links of every offset, within a level and between levels, with their attributes.

use std::collections::BTreeMap;

use serde_json::Value;
use shardine_geometry::zarr_vectors::rules::{self, AttributeRules, LinkRules, Violation};
use shardine_geometry::zarr_vectors::{
    Anchor, ChunkCoords, LinkArray, LinkFamily, LinkOffsets, parse_delta_segment,
};
use smallvec::SmallVec;

use super::level::LevelCheck;
use super::{Nodes, StoreCheck};
use crate::Error;
use crate::jobs::check::FindingKind;
use crate::jobs::check::vectors::CellArray;
use crate::zarr::{Group, Node};

/// The arrays of link attributes, by delta and offsets.
type LinkAttributes = BTreeMap<(String, String), Vec<Node>>;

impl StoreCheck<'_, '_> {
    /// Judges the links of level `at`.
    pub(super) fn links(&self, levels: &mut [LevelCheck], at: usize) -> Result<(), Error> {
        let Some(level) = levels.get_mut(at) else { return Ok(()) };
        let mut attributes = LinkAttributes::new();
        let group = level.nodes.remove("link_attributes").and_then(|node| self.group(node));
        for (_, node) in group.iter().flat_map(|group| self.nodes(group).opened) {
            let name = self.group(node);
            for (delta, node) in name.iter().flat_map(|group| self.nodes(group).opened) {
                let group = self.group(node);
                for (offsets, node) in group.iter().flat_map(|group| self.nodes(group).opened) {
                    attributes.entry((delta.clone(), offsets)).or_default().push(node);
                }
            }
        }
        let (rank, links) = (level.rank, level.nodes.remove("links"));
        let mut sidecar =
            level.nodes.remove("link_fragments").and_then(|node| self.cell_array(node, rank));
        // Whether there may be links within the level, which cannot be looked at.
        let mut hidden = level.unopened.may_have("links");
        let group = links.and_then(|node| self.group(node));
        let levels = &*levels;
        let Nodes { opened, unopened } = group.map(|group| self.nodes(&group)).unwrap_or_default();
        hidden |= unopened.may_have("0");
        for (name, node) in opened {
            let Some(family) = self.group(node) else {
                hidden |= name == "0";
                continue;
            };
            let Some(delta) = parse_delta_segment(&name) else {
                let message = format!("{name:?} is no number of levels");
                self.run.note_at(family.location(), FindingKind::VectorsMetadata, message);
                continue;
            };
            let sidecar = if delta == 0 { sidecar.take() } else { None };
            self.family(levels, at, delta, &family, sidecar, &mut attributes)?;
        }
        match sidecar.filter(|_| !hidden) {
            Some(sidecar) => self.lone_sidecar(&sidecar, None),
            None => Ok(()),
        }
    }

    fn family(
        &self,
        levels: &[LevelCheck],
        at: usize,
        delta: i64,
        group: &Group,
        mut sidecar: Option<CellArray>,
        attributes: &mut LinkAttributes,
    ) -> Result<(), Error> {
        let Some(level) = levels.get(at) else { return Ok(()) };
        let said = group.metadata().attributes();
        let document = LinkFamily::read(said, delta, level.rank);
        let number = i64::try_from(level.number).ok().and_then(|number| number.checked_add(delta));
        let other = levels.iter().find(|level| i64::try_from(level.number).ok() == number);
        // Without an anchor nothing can be said of ends in the other level. That is so only where
        // the chunks of a level are not made of the store's, which has been reported.
        let chunk_shape = &self.store.root().chunk_shape;
        let other = other.and_then(|other| {
            let anchor = Anchor::between(&level.document, &other.document, chunk_shape)?;
            Some(Target { level: other, anchor })
        });
        let is_there = number.and_then(|number| u64::try_from(number).ok());
        if !is_there.is_some_and(|number| self.store.levels().contains(&number)) {
            let message =
                format!("there is no level {} that these links lead to", number.unwrap_or(delta));
            let found = vec![Violation::new(rules::RuleKind::Doubtful, message)];
            self.note_document(group.location(), found);
        }
        let Nodes { opened, unopened } = self.nodes(group);
        let (mut records, mut whole, mut arrays) = (0, unopened.is_empty(), Vec::new());
        for (name, node) in opened {
            let Some(array) = self.cell_array(node, level.rank) else {
                whole = false;
                continue;
            };
            let offsets = LinkOffsets::parse(&name, level.rank, document.width);
            let rules = offsets.and_then(|offsets| {
                let within = offsets.is_within();
                let document = LinkArray::read(array.attributes(), &document, within)?;
                Ok(LinkRules { document, offsets, grouped: delta != 0 || !within })
            });
            let rules = match rules {
                Ok(rules) => rules,
                Err(error) => {
                    let kind = FindingKind::VectorsMetadata;
                    self.run.note_at(array.location(), kind, error.to_string());
                    whole = false;
                    continue;
                }
            };
            let segment = shardine_geometry::zarr_vectors::delta_segment(delta);
            let nodes = attributes.remove(&(segment, name)).unwrap_or_default();
            let of = |node| self.attribute(node, level.rank, "links");
            let mut judged = JudgedLinks {
                array,
                sidecar: if rules.grouped { None } else { sidecar.take() },
                rules,
                attributes: nodes.into_iter().filter_map(of).collect(),
            };
            let own = self.offset_array(level, other.as_ref(), &mut judged)?;
            whole &= own.is_some() && judged.array.stored.is_complete();
            records += own.unwrap_or(0);
            arrays.push(judged);
        }
        // Nothing was taken for links within chunks, of which these are the fragments.
        if let Some(sidecar) = sidecar.filter(|_| whole) {
            self.lone_sidecar(&sidecar, None)?;
        }
        let number = |name: &str| said.get(name).and_then(Value::as_u64);
        let said_records = number("num_physical_records").or_else(|| number("num_links"));
        let agrees = whole && said_records == Some(records);
        for judged in &arrays {
            self.list(&judged.array, &|_| !agrees);
            let others = judged.attributes.iter().map(|(array, _)| array).chain(&judged.sidecar);
            for array in others {
                self.list(array, &|chunk| judged.array.stored.has(&chunk.into()));
            }
        }
        if whole && self.run.is_first() {
            let links = (!document.duplicate).then_some(records);
            let said_links = number("num_links").filter(|_| links.is_some());
            let counts = [
                ("num_physical_records", number("num_physical_records"), records),
                ("num_links", said_links, records),
            ];
            // What is lost counts too.
            let is_all = !arrays.iter().any(|judged| judged.array.lacks_listed());
            let correction = is_all.then_some(rules::Correction::Links { records, links });
            self.note_counts(group.location(), &counts, correction);
        }
        Ok(())
    }

    /// Judges the cells of an array of links; how many links there are, or `None` if not all could
    /// be counted.
    fn offset_array(
        &self,
        level: &LevelCheck,
        other: Option<&Target<'_>>,
        judged: &mut JudgedLinks,
    ) -> Result<Option<u64>, Error> {
        let JudgedLinks { array, rules, sidecar, attributes } = judged;
        let chunks = array.chunks();
        let (mut records, mut done) = (Some(0), 0);
        while let Some(rest) = chunks.get(done..).filter(|rest| !rest.is_empty()) {
            self.step(array.location(), done, chunks.len())?;
            let now = &rest[..array.at_once(self.run.engine, rest)];
            done += now.len();
            let own: Vec<bool> = now.iter().map(|chunk| self.takes(array, chunk)).collect();
            if !self.run.is_first() && !own.contains(&true) {
                continue;
            }
            let mut counts = vec![None; now.len()];
            array.each(self.run.engine, now, &mut |at, bytes| {
                let chunk = &now[at];
                let bytes = match bytes {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        records = None;
                        if own[at] {
                            self.tell_unread(array, chunk, &error);
                        }
                        return;
                    }
                };
                let mut found = Vec::new();
                let rows = ends(level, other, rules, chunk);
                counts[at] = rules::judge_links(bytes, rules, &rows, &mut found);
                records = records.zip(counts[at]).map(|(all, own)| all + own);
                if own[at] {
                    self.tell_cell(array, chunk, found);
                }
            });
            for (array, rules) in attributes.iter_mut() {
                self.rows(array, rules, now, &counts, &own);
            }
            if let Some(sidecar) = sidecar {
                self.sidecar(sidecar, now, &counts, &own);
            }
        }
        if let Some(sidecar) = sidecar {
            self.lone_sidecar(sidecar, Some(array))?;
        }
        for (of, _) in attributes.iter() {
            let is_described =
                |chunk: &ChunkCoords| array.stored.has(chunk) || array.is_unknown(chunk);
            self.left_over(of, "there are no links in this chunk", &is_described);
        }
        Ok(records)
    }

    /// Judges the fragments of links in chunks without links: all, if there is no array of `links`.
    fn lone_sidecar(&self, sidecar: &CellArray, links: Option<&CellArray>) -> Result<(), Error> {
        let has_links = |chunk: &ChunkCoords| {
            links.is_some_and(|links| links.stored.has(chunk) || links.is_unknown(chunk))
        };
        let mut chunks = sidecar.chunks();
        chunks.retain(|chunk| !has_links(chunk) && self.takes(sidecar, chunk));
        let mut done = 0;
        while let Some(rest) = chunks.get(done..).filter(|rest| !rest.is_empty()) {
            self.step(sidecar.location(), done, chunks.len())?;
            let now = &rest[..sidecar.at_once(self.run.engine, rest)];
            self.sidecar(sidecar, now, &vec![Some(0); now.len()], &vec![true; now.len()]);
            done += now.len();
        }
        Ok(())
    }

    /// Judges the fragments of links within chunks.
    fn sidecar(
        &self,
        array: &CellArray,
        chunks: &[ChunkCoords],
        counts: &[Option<u64>],
        own: &[bool],
    ) {
        array.each(self.run.engine, chunks, &mut |at, bytes| {
            let (Some(links), true) = (counts[at], own[at]) else { return };
            match bytes {
                Ok(bytes) => {
                    let mut found = Vec::new();
                    rules::judge_sidecar(bytes, links, &mut found);
                    self.tell_cell(array, &chunks[at], found);
                }
                Err(error) => self.tell_unread(array, &chunks[at], &error),
            }
        });
    }
}

/// An array of links with what belongs to it.
struct JudgedLinks {
    array: CellArray,
    rules: LinkRules,
    /// The fragments of links within chunks.
    sidecar: Option<CellArray>,
    attributes: Vec<(CellArray, AttributeRules)>,
}

/// The level that links lead to.
struct Target<'a> {
    level: &'a LevelCheck,
    /// From the chunks of the level with the links to those of this one.
    anchor: Anchor,
}

/// How many vertices the chunks have in which the links of a chunk end: the first in the level
/// itself, the others in the one that links lead to.
fn ends(
    level: &LevelCheck,
    other: Option<&Target<'_>>,
    rules: &LinkRules,
    chunk: &ChunkCoords,
) -> SmallVec<[Option<u64>; 4]> {
    let anchor = other.and_then(|other| other.anchor.chunk(chunk));
    let end = |end: usize| {
        if end == 0 {
            return level.table.rows(chunk);
        }
        match anchor.as_ref().and_then(|anchor| rules.offsets.chunk(anchor, end)) {
            Some(chunk) => other?.level.table.rows(&chunk),
            // Its number would be too large, so there is none.
            None => other.map(|_| 0),
        }
    };
    (0..rules.document.width).map(end).collect()
}
