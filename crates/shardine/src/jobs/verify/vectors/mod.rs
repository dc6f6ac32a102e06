//! The rules of Zarr Vectors, judged when the walk leaves the root of a store: by then every array
//! of it has been checked as an array.
//!
//! The cells of each level are streamed chunk by chunk: first positions, fragments and attributes,
//! then links, then objects. What is kept is a table of the chunks of all levels
//! ([`ChunkTable`](shardine_geometry::zarr_vectors::rules::ChunkTable)), as links may lead
//! anywhere. All parts read positions and fragments; the other cells are divided.

mod cells;
mod groups;
mod level;
mod links;
mod objects;
mod parametric;

use std::sync::Arc;

use shardine_geometry::zarr_vectors::rules::{self, RuleKind, Violation};
use shardine_geometry::zarr_vectors::{ChunkCoords, Root};
use shardine_store::{Key, StoreError};

use crate::jobs::check::vectors::{CellArray, unread};
use crate::jobs::check::{DocumentCorrection, Finding, FindingKind, Mend, Run};
use crate::jobs::frame::JobProgress;
use crate::vectors::{VectorStore, VectorsError};
use crate::zarr::metadata::GroupMetadata;
use crate::zarr::{Child, DOCUMENT, Group, Node};
use crate::{ArrayNode, Error, ErrorKind, Location};

use super::hierarchy::refusal;
use level::LevelCheck;

/// A store that is judged.
struct StoreCheck<'a, 'r> {
    run: &'a Run<'r>,
    store: VectorStore,
    /// Where the store is.
    location: &'a Location,
}

/// What is in a group.
#[derive(Default)]
struct Nodes {
    opened: Vec<(String, Node)>,
    /// Those that cannot be opened: they are there, all the same.
    unopened: Unopened,
}

/// The nodes of a group that cannot be opened.
#[derive(Default)]
struct Unopened {
    names: Vec<String>,
    /// Whether there may be others, as the group could not be listed.
    unlisted: bool,
}

impl Unopened {
    fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.unlisted
    }

    /// Whether there may be one of this name.
    fn may_have(&self, name: &str) -> bool {
        self.unlisted || self.names.iter().any(|unopened| unopened == name)
    }
}

impl Run<'_> {
    /// Judges a group that is a store of Zarr Vectors, with all below it. An error is that of a
    /// check that was stopped.
    pub(super) fn vectors(
        &self,
        location: &Location,
        metadata: &GroupMetadata,
    ) -> Result<(), Error> {
        if !Root::is_in(metadata.attributes()) || self.scope.level.is_some() {
            return Ok(());
        }
        if rules::is_other_version(metadata.attributes()) {
            let message = "is of another version of Zarr Vectors than 0.9, whose rules are unknown";
            self.note_at(location, FindingKind::NotChecked, message.to_owned());
            return Ok(());
        }
        match self.vector_store(location) {
            Err(error @ Error::Cancelled) => Err(error),
            Err(error) => {
                self.vectors_refused(location, &error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn vector_store(&self, location: &Location) -> Result<(), Error> {
        let Node::Group(group) = Node::open(self.engine, location)? else { return Ok(()) };
        let store = VectorStore::of_group(&group)?;
        let check = StoreCheck { run: self, store, location };
        let mut found = Vec::new();
        rules::judge_root(check.store.root(), &mut found);
        check.note_document(location, found);
        let mut levels: Vec<LevelCheck> = Vec::new();
        for Child { name, node, .. } in group.children()? {
            if name == parametric::GROUP {
                let node = check.opened(&location.join(&name)?, node);
                if let Some(group) = node.and_then(|node| check.group(node)) {
                    check.parametric(&group)?;
                }
                continue;
            }
            let number = name.parse::<u64>().ok().filter(|number| number.to_string() == name);
            let Some(number) = number.filter(|number| check.store.levels().contains(number)) else {
                continue;
            };
            let Some(Node::Group(group)) = check.opened(&location.join(&name)?, node) else {
                continue;
            };
            levels.extend(check.level(number, group)?);
        }
        if self.scope.metadata_only {
            return Ok(());
        }
        for at in 0..levels.len() {
            check.links(&mut levels, at)?;
        }
        for level in &mut levels {
            check.objects(level)?;
        }
        Ok(())
    }

    /// Reports that a store, or a part of it, could not be judged.
    fn vectors_refused(&self, location: &Location, error: &Error) {
        match error {
            Error::Vectors { source, .. } if error.kind() != ErrorKind::Storage => {
                let kind = match **source {
                    VectorsError::Unsupported { .. } => FindingKind::NotChecked,
                    _ => FindingKind::VectorsMetadata,
                };
                self.note_at(location, kind, source.to_string());
            }
            // The walk has reported the document, or the link.
            error
                if refusal(error).is_some()
                    || matches!(error, Error::Store(StoreError::LinkedFolder { .. })) =>
            {
                let message = format!("the rules of Zarr Vectors were not checked: {error}");
                self.note_at(location, FindingKind::NotChecked, message);
            }
            error => self.unreadable(location.path.as_ref(), error),
        }
    }

    /// Reports what is wrong with the document of a node.
    fn note_at(&self, location: &Location, kind: FindingKind, message: String) {
        let document = location.key(DOCUMENT).ok();
        self.note(Finding::new(kind, document, message));
    }
}

impl StoreCheck<'_, '_> {
    /// A node, if it could be opened; else it is reported, unless the walk has done that.
    fn opened(&self, location: &Location, node: Result<Node, Error>) -> Option<Node> {
        node.map_err(|error| match &error {
            Error::NoNode { .. } => {}
            error if refusal(error).is_some() => {}
            error => self.run.unreadable(location.path.as_ref(), error),
        })
        .ok()
    }

    /// The nodes in a group, by name. Those that cannot be opened are reported.
    fn nodes(&self, group: &Group) -> Nodes {
        let mut nodes = Nodes::default();
        let children = match group.children() {
            Ok(children) => children,
            Err(error) => {
                self.run.unreadable(group.location().path.as_ref(), &error);
                nodes.unopened.unlisted = true;
                return nodes;
            }
        };
        for Child { name, node, .. } in children {
            let location = group.location().join(&name);
            match location.ok().and_then(|location| self.opened(&location, node)) {
                Some(node) => nodes.opened.push((name, node)),
                None => nodes.unopened.names.push(name),
            }
        }
        nodes
    }

    /// An array of cells; reported if it is none.
    fn cell_array(&self, node: Node, rank: usize) -> Option<CellArray> {
        let array = self.array(node)?;
        let location = array.location().clone();
        match CellArray::new(array, rank) {
            Ok(mut array) => {
                if !self.run.scope.metadata_only {
                    self.look(&mut array)?;
                }
                Some(array)
            }
            Err(reason) => {
                self.run.note_at(&location, FindingKind::VectorsMetadata, reason);
                None
            }
        }
    }

    /// Finds out what is stored in an array; `None` if that is not possible, which is reported.
    fn look(&self, array: &mut CellArray) -> Option<()> {
        match array.look() {
            Ok(()) => Some(()),
            Err(Error::UnlistedObjects { .. }) => {
                let message = "its cells were not checked: the store cannot list them".to_owned();
                self.run.note_at(array.location(), FindingKind::NotChecked, message);
                None
            }
            Err(error) => {
                self.run.unreadable(array.location().path.as_ref(), &error);
                None
            }
        }
    }

    fn array(&self, node: Node) -> Option<ArrayNode> {
        match node {
            Node::Array(array) => Some(array),
            Node::Group(group) => {
                let (location, kind) = (group.location(), FindingKind::VectorsMetadata);
                self.run.note_at(location, kind, "is a group, but must be an array".to_owned());
                None
            }
        }
    }

    fn group(&self, node: Node) -> Option<Group> {
        match node {
            Node::Group(group) => Some(group),
            Node::Array(array) => {
                let (location, kind) = (array.location(), FindingKind::VectorsMetadata);
                self.run.note_at(location, kind, "is an array, but must be a group".to_owned());
                None
            }
        }
    }

    /// Reports what is wrong with the document of a node; only the first part does.
    fn note_document(&self, location: &Location, found: Vec<Violation>) {
        self.note_mended(location, found, None);
    }

    /// The same, if `repair` can correct it.
    fn note_mended(
        &self,
        location: &Location,
        found: Vec<Violation>,
        correction: Option<rules::Correction>,
    ) {
        let Ok(document) = location.key(DOCUMENT) else { return };
        // What cannot be listed is not known well enough, and cannot be written.
        let correction = correction.filter(|_| self.run.is_listed());
        let mend = correction.map(|correction| {
            Arc::new(Mend {
                node: location.path.clone(),
                document: document.clone(),
                group: self.location.path.clone(),
                witness: None,
                correction: DocumentCorrection::Vectors(correction),
            })
        });
        for Violation { kind, message, .. } in found {
            let kind = FindingKind::of_vectors_rule(kind);
            let finding = Finding::new(kind, Some(document.clone()), message);
            self.run.note(finding.mended_by(mend.as_ref()));
        }
    }

    /// Reports counts that are not what is stored. `repair` corrects them if none is too high: that
    /// may be the only trace of what is lost.
    fn note_counts(
        &self,
        location: &Location,
        counts: &[(&str, Option<u64>, u64)],
        correction: Option<rules::Correction>,
    ) {
        let wrong = |(what, said, stored): &(&str, Option<u64>, u64)| {
            said.and_then(|said| Violation::of_count(what, said, *stored))
        };
        let found: Vec<Violation> = counts.iter().filter_map(wrong).collect();
        let too_high = found.iter().any(|found| found.kind == RuleKind::Missing);
        self.note_mended(location, found, correction.filter(|_| !too_high));
    }

    /// Reports what is wrong with a cell that belongs to this part.
    fn tell_cell(&self, array: &CellArray, chunk: &[i64], found: Vec<Violation>) {
        let finding = |Violation { kind, message, .. }: Violation| {
            array.finding(FindingKind::of_vectors_rule(kind), chunk, &message)
        };
        self.run.tell(found.into_iter().map(finding));
    }

    /// Reports a cell that could not be read, and belongs to this part.
    fn tell_unread(&self, array: &CellArray, chunk: &[i64], error: &Error) {
        self.run.tell(unread(array, chunk, error, self.run.scope.decode));
    }

    /// Whether the cell of a chunk belongs to this part.
    fn takes(&self, array: &CellArray, chunk: &[i64]) -> bool {
        match array.object(chunk) {
            Some(key) => self.run.takes(&key),
            None => self.run.is_first(),
        }
    }

    /// Asks whether to stop, and reports progress: `done` of `total` cells at a place.
    fn step(&self, location: &Location, done: usize, total: usize) -> Result<(), Error> {
        let context = self.run.context;
        if context.is_watched() {
            let path = location.path.as_ref().map_or("", Key::as_str);
            context.report(JobProgress::steps(path, done as u64, total as u64));
        }
        context.check()
    }

    /// Judges the list of chunks of an array. `is_lost` says of a chunk that is listed and absent
    /// whether there is a trace of it elsewhere; without one, `repair` takes it off the list.
    fn list(&self, array: &CellArray, is_lost: &dyn Fn(&[i64]) -> bool) {
        if !self.run.is_first() {
            return;
        }
        let (mut found, mut absent) = (Vec::new(), Vec::new());
        if self.run.scope.metadata_only {
            let named = array.list.chunks.clone().unwrap_or_default();
            rules::judge_list(&array.list, &named, &|_| true, &mut absent, &mut found);
            self.note_document(array.location(), found);
            return;
        }
        let stored = array.stored.sorted();
        let unknown = |chunk: &ChunkCoords| array.is_unknown(chunk);
        rules::judge_list(&array.list, &stored, &unknown, &mut absent, &mut found);
        if found.is_empty() {
            return;
        }
        let lost = absent.iter().any(|chunk| is_lost(chunk));
        let correction = (!lost && array.stored.is_complete()).then(|| {
            let added = stored.iter().filter(|chunk| !array.list.names(chunk)).count();
            let removed = absent.len() as u64;
            rules::Correction::ChunkList { chunks: stored.clone(), added: added as u64, removed }
        });
        self.note_mended(array.location(), found, correction);
    }
}
