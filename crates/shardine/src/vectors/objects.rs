//! The objects of a level: their ids, and the fragments that they consist of.

use std::ops::Range;

use shardine_geometry::zarr_vectors::{Block, Manifest, ManifestRows, ObjectIndex, PayloadError};

use super::error::VectorsError;
use super::groups::Members;
use super::manifests::{Manifests, NotManifests};
use super::store::{VectorStore, wrong};
use crate::zarr::{ArrayNode, Node};
use crate::{Error, Location, Region};

/// How many rows of the index are read at once.
const AT_ONCE: u64 = 1 << 16;

/// The index of the objects of a level.
#[derive(Debug)]
pub(super) struct ObjectTable {
    pub(super) document: ObjectIndex,
    path: String,
    store: Location,
    ids: Option<ArrayNode>,
    manifests: Manifests,
}

/// Takes the blocks of objects: the number of the row among those asked for, and the block.
pub(super) type EachBlock<'a> = dyn FnMut(usize, Block<'_>) -> Result<(), Error> + 'a;

impl ObjectTable {
    /// Opens the group at `path`; `None` if there is none.
    pub(super) fn open(
        store: &VectorStore,
        path: &str,
        rank: usize,
    ) -> Result<Option<Self>, Error> {
        let group = match store.node(path) {
            Ok(Node::Group(group)) => group,
            Ok(Node::Array(_)) => {
                let node = path.to_owned();
                return Err(store.wrong(VectorsError::Node { node, expected: "a group" }));
            }
            Err(Error::NoNode { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let document = ObjectIndex::read(group.metadata().attributes(), rank);
        let document = document.map_err(|source| {
            store.wrong(VectorsError::Document { node: path.to_owned(), source })
        })?;
        let array = |name: &str| open_array(store, &format!("{path}/{name}"));
        // The arrays decide, not what the document says of them.
        let manifests = match array("manifests")? {
            Some(bytes) => Manifests::Bytes(bytes),
            None => match (array("manifest_spans")?, array("manifest_blocks")?) {
                (Some(spans), Some(blocks)) => Manifests::Dense { spans, blocks },
                _ => {
                    let node = format!("{path}/manifests");
                    return Err(store.wrong(VectorsError::Missing { node }));
                }
            },
        };
        let ids = array("object_ids")?;
        let table =
            Self { document, path: path.to_owned(), store: store.location.clone(), ids, manifests };
        table.check()?;
        Ok(Some(table))
    }

    fn check(&self) -> Result<(), Error> {
        let wrong_array = |name: &str, expected| {
            let node = format!("{}/{name}", self.path);
            Err(wrong(&self.store, VectorsError::Node { node, expected }))
        };
        let is_int64 = |array: &ArrayNode| array.data_type().name() == "int64";
        if let Err(NotManifests { name, expected, .. }) = self.manifests.check(self.document.rank) {
            return wrong_array(name, expected);
        }
        if let Some(ids) = &self.ids
            && (!is_int64(ids) || ids.shape() != [self.rows()])
        {
            return wrong_array("object_ids", "int64, an id for each manifest");
        }
        Ok(())
    }

    /// How many objects it has rows for.
    pub(super) fn rows(&self) -> u64 {
        self.manifests.rows()
    }

    /// The ids of rows.
    pub(super) fn ids(&self, rows: Range<u64>) -> Result<Vec<i64>, Error> {
        match &self.ids {
            Some(ids) if !rows.is_empty() => ids.read::<i64>(rows),
            Some(_) => Ok(Vec::new()),
            // As many rows as an array has: below 2^63.
            None => Ok(rows.map(|row| row as i64).collect()),
        }
    }

    /// The rows of objects, in ascending order, with their ids: all, or those with the given ids
    /// that are also members of the given groups.
    ///
    /// Reads all ids, if they are stored. An id that does not exist is an error; a member of a
    /// group that does not exist is none.
    pub(super) fn select(
        &self,
        wanted: Option<&[i64]>,
        members: Option<&Members>,
        memory: u64,
    ) -> Result<Vec<(u64, i64)>, Error> {
        let needs = self.rows().saturating_mul(size_of::<(u64, i64)>() as u64);
        if wanted.is_none() && needs > memory {
            return Err(wrong(&self.store, VectorsError::TooLarge { needs, most: memory }));
        }
        let mut sorted = wanted.map(<[i64]>::to_vec);
        if let Some(sorted) = &mut sorted {
            sorted.sort_unstable();
            sorted.dedup();
        }
        let takes = |id: i64| members.is_none_or(|members| members.has(id));
        let mut found = Vec::new();
        match (&sorted, &self.ids) {
            // Without stored ids a row is its own.
            (Some(sorted), None) => {
                let row = |id: i64| u64::try_from(id).ok().filter(|row| *row < self.rows());
                found.extend(sorted.iter().filter_map(|id| Some((row(*id)?, *id))));
            }
            _ => {
                for rows in slices(0..self.rows(), AT_ONCE) {
                    let ids = self.ids(rows.clone())?;
                    let known = |id: &i64| {
                        sorted.as_ref().is_none_or(|sorted| sorted.binary_search(id).is_ok())
                    };
                    found.extend(rows.zip(ids).filter(|(_, id)| known(id)));
                }
            }
        }
        if let Some(sorted) = sorted {
            let mut known: Vec<i64> = found.iter().map(|(_, id)| *id).collect();
            known.sort_unstable();
            if let Some(id) = sorted.into_iter().find(|id| known.binary_search(id).is_err()) {
                return Err(wrong(&self.store, VectorsError::NoSuch { what: "object", id }));
            }
        }
        found.retain(|(_, id)| takes(*id));
        Ok(found)
    }

    /// Hands the blocks of objects to `each`, in order. `rows` ascend.
    pub(super) fn each_block(
        &self,
        rows: &[(u64, i64)],
        each: &mut EachBlock<'_>,
    ) -> Result<(), Error> {
        let mut done = 0;
        for part in rows.chunks(AT_ONCE as usize) {
            match &self.manifests {
                Manifests::Bytes(bytes) => self.each_of_bytes(bytes, part, done, each)?,
                Manifests::Dense { spans, blocks } => {
                    self.each_of_dense(spans, blocks, part, done, each)?;
                }
            }
            done += part.len();
        }
        Ok(())
    }

    fn each_of_bytes(
        &self,
        bytes: &ArrayNode,
        rows: &[(u64, i64)],
        done: usize,
        each: &mut EachBlock<'_>,
    ) -> Result<(), Error> {
        let regions: Vec<Region> = runs(rows.iter().map(|(row, _)| (*row, 1)))
            .map(|(start, count)| Region::of_box(&[start], &[count]))
            .collect();
        let read = bytes.read_many_variable(&regions)?;
        for (at, (manifest, (_, id))) in read.iter().zip(rows).enumerate() {
            let wrong = |source| self.wrong(*id, source);
            let mut manifest = Manifest::parse(manifest, self.document.rank).map_err(wrong)?;
            while let Some(block) = manifest.next_block().map_err(wrong)? {
                each(done + at, block)?;
            }
        }
        Ok(())
    }

    fn each_of_dense(
        &self,
        spans: &ArrayNode,
        blocks: &ArrayNode,
        rows: &[(u64, i64)],
        done: usize,
        each: &mut EachBlock<'_>,
    ) -> Result<(), Error> {
        let total = blocks.shape().first().copied().unwrap_or(0);
        let regions: Vec<Region> = runs(rows.iter().map(|(row, _)| (*row, 1)))
            .map(|(start, count)| Region::of_box(&[start, 0], &[count, 2]))
            .collect();
        let found = spans.read_many::<i64>(&regions)?.concat();
        let mut wanted = Vec::with_capacity(rows.len());
        for (span, (_, id)) in found.as_chunks::<2>().0.iter().zip(rows) {
            let span = ManifestRows::parse(*span, total).map_err(|error| self.wrong(*id, error))?;
            wanted.push(span);
        }
        let columns = self.document.rank as u64 + 1;
        let mut at = 0;
        while at < wanted.len() {
            // Objects may share blocks, so that all of them together can be more than are stored.
            let mut blocks_left = AT_ONCE;
            let fits = wanted[at..].iter().take_while(|span| {
                let fits = span.count <= blocks_left;
                blocks_left = blocks_left.saturating_sub(span.count);
                fits
            });
            let count = fits.count().max(1);
            let part = &wanted[at..at + count];
            let present = part.iter().filter(|span| span.count > 0);
            let regions: Vec<Region> = runs(present.map(|span| (span.start, span.count)))
                .map(|(start, count)| Region::of_box(&[start, 0], &[count, columns]))
                .collect();
            let found = blocks.read_many::<i64>(&regions)?.concat();
            let mut found = found.chunks_exact(columns as usize);
            for (at, (span, (_, id))) in (at..).zip(part.iter().zip(&rows[at..])) {
                for block in found.by_ref().take(span.count as usize) {
                    let block = Block::of_row(block).map_err(|error| self.wrong(*id, error))?;
                    each(done + at, block)?;
                }
            }
            at += count;
        }
        Ok(())
    }

    fn wrong(&self, object: i64, source: PayloadError) -> Error {
        let reason = format!("its manifest in {}: {source}", self.path);
        wrong(&self.store, VectorsError::Object { object, reason })
    }
}

pub(super) fn open_array(store: &VectorStore, path: &str) -> Result<Option<ArrayNode>, Error> {
    match store.node(path) {
        Ok(Node::Array(array)) => Ok(Some(array)),
        Ok(Node::Group(_)) => {
            let node = path.to_owned();
            Err(store.wrong(VectorsError::Node { node, expected: "an array" }))
        }
        Err(Error::NoNode { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// `range` in pieces of `len`.
pub(super) fn slices(range: Range<u64>, len: u64) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    range.step_by(len as usize).map(move |start| start..(start + len).min(end))
}

/// Spans of rows that follow each other, joined.
fn runs(spans: impl Iterator<Item = (u64, u64)>) -> impl Iterator<Item = (u64, u64)> {
    let mut spans = spans.peekable();
    std::iter::from_fn(move || {
        let (start, mut count) = spans.next()?;
        while let Some((_, more)) = spans.next_if(|(next, _)| *next == start + count) {
            count += more;
        }
        Some((start, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_follow_each_other_are_one_request() {
        let joined: Vec<_> = runs([(0, 1), (1, 2), (3, 1), (7, 1), (9, 3)].into_iter()).collect();
        assert_eq!(joined, [(0, 4), (7, 1), (9, 3)]);
        assert_eq!(slices(0..5, 2).collect::<Vec<_>>(), [0..2, 2..4, 4..5]);
    }
}
