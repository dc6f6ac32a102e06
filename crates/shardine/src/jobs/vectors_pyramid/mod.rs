//! Makes the coarser levels of a Zarr Vectors store.

mod attributes;
mod error;
mod gather;
mod level;
mod options;
mod plan;
mod to;

use serde_json::Value;
use shardine_geometry::zarr_vectors::{Level, parse_delta_segment};
use shardine_store::{Condition, StoreError, StoreExt};

use super::copy::clear::clear;
use super::frame::marker::is_report;
use super::frame::{
    Beginning, Marker, PartEnd, Start, remove_leftovers, remove_leftovers_below, source_state,
};
use super::pyramid::{PYRAMID, PYRAMID_MARKER, remove_all};
use super::rebuild::PartOutcome;
use super::span::job_span;
use super::vectors_write::{Counter, FolderSpool};
use super::whole::check_walked;
use super::{JobContext, JobError};
use crate::vectors::{GeometryKind, VectorStore, WholeLevel};
use crate::zarr::{DOCUMENT, Group, Node, change_attributes, renew_consolidated_above};
use crate::{Error, Location};
use gather::Objects;
use level::LevelJob;
use plan::{LevelPlan, MOST_LEVELS, Plan};

pub use error::PyramidVectorsError;
pub use options::{PyramidVectorsLevel, PyramidVectorsOptions, PyramidVectorsReport};
pub use to::pyramid_vectors_to;

/// The finest level, by its path.
const FINEST: &str = "0";

/// What the marker calls the highest level that was there before.
const HIGHEST: &str = "levels";

/// Makes the coarser levels of a Zarr Vectors store, as `build_pyramid` of zarr-vectors 0.9.2 does.
///
/// Each level is made from the one before it. Vertices that lie in the same *bin*, a box of equal
/// size, become one: their mean. Of objects some may be dropped, drawn by
/// [`seed`](PyramidVectorsOptions::seed) as NumPy does; ids stay, and a dropped object has an empty
/// manifest. Links join each vertex to what it became part of, and back. Attributes of vertices, and
/// the edges and faces between them, are not carried over; those of objects are. Cells are packed
/// and compressed as in the finest level.
///
/// Vertices are sorted within [`memory`](PyramidVectorsOptions::memory) bytes, and what does not fit
/// waits in unnamed files; the vertices of a bin, and those that became part of a chunk, have to
/// fit. A list of the ids of all objects, and of the chunks of a level, is in memory too.
///
/// A level can be seen when it is complete, and the root names levels in the end, when all of them
/// are. The same call resumes a run that was killed: levels that are complete stay, provided that
/// the finest level can be shown to be the same, and the others are made again. A different call is
/// refused. Levels that exist are replaced only with [`PyramidVectorsOptions::overwrite`]; until new
/// ones are made, the store has the finest level alone.
///
/// Processes can share the work by [`part`](PyramidVectorsOptions::part). A mean needs all vertices
/// of its bin, and a manifest all means of its object, so each of them reads the finest level and
/// sorts it; what they share is compressing and writing the level above it, most of which are links
/// between levels. The last one makes the coarser ones, which are small.
pub fn pyramid_vectors(
    context: impl Into<JobContext>,
    location: &Location,
    options: &PyramidVectorsOptions,
) -> Result<PyramidVectorsReport, Error> {
    let _span = job_span("pyramid_vectors", location);
    let context = &context.into();
    crate::jobs::recover(location)?;
    let store = VectorStore::open_in(context.engine(), location)?;
    let at = location.to_string();
    if let Some(reason) = unfit(&store) {
        return Err(PyramidVectorsError::Unfit { at, reason }.into());
    }
    let plan = Plan::new(store.root(), &at, options)?;
    Job { context, source: location, location, options, plan: &plan }.run(&store)
}

/// Why a store can have no coarser levels.
fn unfit(store: &VectorStore) -> Option<String> {
    if store.kind() == GeometryKind::Parametric {
        return Some("parametric objects have no vertices".to_owned());
    }
    (store.levels().first() != Some(&0)).then(|| "it has no level 0".to_owned())
}

/// Why no coarser level can be made of the finest.
fn unfit_level(finest: &Level, store: &VectorStore) -> Option<String> {
    if finest.chunk_attribute.is_some() {
        let reason = "its chunks are also cut by an attribute, which zarr-vectors cannot coarsen \
                      either";
        return Some(reason.to_owned());
    }
    // Levels are planned from the chunks of the store.
    let own = finest.chunk_shape.as_ref().filter(|own| **own != store.root().chunk_shape)?;
    Some(format!("level 0 has chunks of {own:?}, other than the store says"))
}

struct Job<'a> {
    context: &'a JobContext,
    /// The store that levels are made from.
    source: &'a Location,
    /// The store that gets the levels: the same, or another that gets the finest level too.
    location: &'a Location,
    options: &'a PyramidVectorsOptions,
    plan: &'a Plan,
}

impl Job<'_> {
    fn run(&self, store: &VectorStore) -> Result<PyramidVectorsReport, Error> {
        let Self { context, location, options, plan, .. } = self;
        let part = options.part;
        let mut report = PyramidVectorsReport {
            levels: plan.levels.iter().map(planned).collect(),
            left_out: self.left_out(store)?,
            ..PyramidVectorsReport::default()
        };
        let finest = self.level_document(0)?;
        if let Some(reason) = finest.and_then(|finest| unfit_level(&finest, store)) {
            let at = location.to_string();
            return Err(PyramidVectorsError::Unfit { at, reason }.into());
        }
        if options.dry_run {
            return Ok(report);
        }
        self.check_parts()?;
        let mut marker =
            Marker::new(&PYRAMID, self.source, plan.request())?.begun_by(context.begun_by());
        let begun = marker.is_at(location)?;
        if !begun {
            if !options.overwrite && self.is_complete(store, &mut report)? {
                // A run that was killed at its very end has left the file of its lock.
                remove_leftovers(location, location.path.as_ref())?;
                report.unchanged = true;
                if part.is_some() {
                    report.outcome = PartOutcome::AlreadyThere;
                }
                return Ok(report);
            }
            self.check_free(store)?;
        }
        // What is behind a link may change without anyone seeing it.
        check_walked(self.source)?;
        let state = self.state()?;
        if (part.is_some() || self.is_elsewhere())
            && let Some(state) = state
        {
            marker.expect_source(FINEST, state);
        }
        let how = Beginning {
            overwrite: options.restart && begun || options.overwrite && self.is_elsewhere(),
            take_over: options.take_over,
            part,
            within: !self.is_elsewhere(),
        };
        let abandoned = self.begun_levels()?;
        let start = marker.begin(self.is_elsewhere().then_some(self.source), location, how)?;
        if start == Start::Exists {
            // It is not what this job makes, which was looked at.
            return Err(Error::Exists { at: location.to_string() });
        }
        if marker.is_finishing() {
            marker.end(location)?;
            return Ok(report);
        }
        report.resumed = start == Start::Resumed;
        // Recorded when nothing of other levels was left, so what is there now was made since.
        let same = marker.begun(FINEST) == state;
        let kept = report.resumed && state.is_some() && same;
        if part.is_some() {
            if !same {
                return Err(self.changed()?);
            }
        } else if !kept {
            self.begin_anew(store, &mut marker, start, state, abandoned)?;
        }
        if report.resumed && part.is_none() {
            remove_leftovers_below(location)?;
        }
        if let Some(part) = part {
            // This part runs again, and until it is done the job must not be finished.
            marker.remove_report(location, part)?;
        }
        if self.is_elsewhere() {
            self.carry(store)?;
            if part.is_none() {
                self.put_root()?;
            }
        }
        let counter = Counter::default();
        let kept = kept || part.is_some();
        let done =
            self.levels(&marker, state, kept, start != Start::Fresh, &counter, &mut report)?;
        report.written = counter.written();
        if !done {
            return Ok(report);
        }
        if state.is_some() && self.state()? != state {
            return Err(self.changed()?);
        }
        let objects = report.levels.iter().any(|level| level.objects.is_some());
        self.declare(&plan.levels, objects)?;
        if self.is_elsewhere() {
            self.consolidate()?;
        }
        marker.end(location)?;
        Ok(report)
    }

    /// Makes all levels, or those of this part; `false` if others have to finish the job, or have
    /// done so. With `kept`, levels that are complete stay; with `resumed`, objects that exist.
    fn levels(
        &self,
        marker: &Marker,
        state: Option<u64>,
        kept: bool,
        resumed: bool,
        counter: &Counter,
        report: &mut PyramidVectorsReport,
    ) -> Result<bool, Error> {
        let Self { context, location, options, plan, .. } = self;
        let spool = &FolderSpool::new(options.spool.clone(), location)?;
        for (place, level) in plan.levels.iter().enumerate() {
            context.check()?;
            let (first, shared) = (place == 0, options.part.is_some());
            let finer = if first { self.source } else { *location };
            let store = &VectorStore::open_in(context.engine(), finer)?;
            // Who finishes a job of parts may not be the only one, and what is there is the same.
            let (part, resumed) = match first {
                true => (options.part, resumed && shared),
                false => (None, shared),
            };
            let job = LevelJob { job: self, store, plan: level, spool, part, resumed };
            let there = kept && self.level_document(level.level)?.is_some();
            let made = match there {
                true => None,
                false => {
                    if !shared {
                        self.remove_level(level.level)?;
                    }
                    Some(job.make(counter)?)
                }
            };
            if let (Some(told), Some(made)) = (report.levels.get_mut(place), &made) {
                *told = job.told(made);
            }
            if let Some(part) = part {
                if state.is_some() && self.state()? != state {
                    return Err(self.changed()?);
                }
                match marker.end_part(location, part, &Value::Null)? {
                    PartEnd::Last(_) => {}
                    PartEnd::Finished => return Ok(false),
                    PartEnd::Waiting(missing) => {
                        report.outcome = PartOutcome::Waiting { missing };
                        return Ok(false);
                    }
                }
                if self.is_elsewhere() {
                    self.put_root()?;
                }
            }
            if let Some(made) = made {
                job.document(made)?;
            } else if let Some(told) = report.levels.get_mut(place) {
                *told = job.kept(&VectorStore::open_in(context.engine(), *location)?)?;
            }
        }
        Ok(true)
    }

    /// Whether levels are made in another store than the one they are made from.
    fn is_elsewhere(&self) -> bool {
        !std::ptr::eq(self.source, self.location)
    }

    fn changed(&self) -> Result<Error, Error> {
        Ok(JobError::SourceChanged { at: self.source.join(FINEST)?.to_string() }.into())
    }

    /// Refuses what processes cannot share.
    fn check_parts(&self) -> Result<(), JobError> {
        if self.options.part.is_none() {
            return Ok(());
        }
        let reason = "each part would remove what the others have made";
        let refused =
            [("--overwrite", self.options.overwrite), ("--restart", self.options.restart)];
        match refused.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(JobError::NotInParts { option, reason }),
            None => Ok(()),
        }
    }

    /// Removes what is there of levels, before the first one is made.
    fn begin_anew(
        &self,
        store: &VectorStore,
        marker: &mut Marker,
        start: Start,
        state: Option<u64>,
        abandoned: u64,
    ) -> Result<(), Error> {
        let location = self.location;
        if self.is_elsewhere() {
            if start != Start::Fresh {
                clear(location, self.context.engine().threads(), PYRAMID_MARKER)?;
            }
        } else {
            let highest = store.levels().last().copied().unwrap_or(0).max(abandoned);
            // A level loses its document first, and is then known by this alone.
            marker.record_sources(location, [(HIGHEST, highest)])?;
            self.clear(store, highest)?;
        }
        if start == Start::Clear {
            marker.cleared(location)?;
        }
        if let Some(state) = state {
            marker.record_sources(location, [(FINEST, state)])?;
        }
        Ok(())
    }

    /// What of the finest level the others do not have.
    fn left_out(&self, store: &VectorStore) -> Result<Vec<String>, Error> {
        let mut left = Vec::new();
        for (name, shown) in [
            ("vertex_attributes", "the attributes of vertices"),
            ("fragment_attributes", "the attributes of fragments"),
            ("groups", "groups"),
        ] {
            if self.node_in(self.source, &format!("{FINEST}/{name}"))?.is_some() {
                left.push(shown.to_owned());
            }
        }
        let finest = WholeLevel::open(store, 0)?;
        if finest.objects_present().is_some() {
            let attributes = finest.object_attributes()?.into_iter();
            let lost = attributes.filter(|(_, array)| !attributes::is_carried(array));
            left.extend(lost.map(|(name, _)| {
                format!("the attribute {name} of objects, whose values are of any length")
            }));
        }
        if matches!(
            store.kind(),
            GeometryKind::Graph | GeometryKind::Skeletons | GeometryKind::Mesh
        ) {
            let shown = if store.kind() == GeometryKind::Mesh { "faces" } else { "edges" };
            left.push(format!("{shown} between vertices"));
        }
        Ok(left)
    }

    /// A node of the store that gets the levels.
    fn node(&self, path: &str) -> Result<Option<Node>, Error> {
        self.node_in(self.location, path)
    }

    fn node_in(&self, store: &Location, path: &str) -> Result<Option<Node>, Error> {
        match Node::open(self.context.engine(), &store.join(path)?) {
            Ok(node) => Ok(Some(node)),
            Err(Error::NoNode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The root of a store.
    fn root(&self, store: &Location) -> Result<Group, Error> {
        match Node::open(self.context.engine(), store)? {
            Node::Group(group) => Ok(group),
            Node::Array(_) => Err(Error::NoNode { at: store.to_string() }),
        }
    }

    /// The document of a level that is complete.
    fn level_document(&self, level: u64) -> Result<Option<Level>, Error> {
        let rank = self.plan.levels.first().map_or(0, |level| level.bin.len());
        let store = if level == 0 { self.source } else { self.location };
        match self.node_in(store, &level.to_string())? {
            Some(Node::Group(group)) if Level::is_in(group.metadata().attributes()) => {
                Ok(Level::read(group.metadata().attributes(), level, rank).ok())
            }
            _ => Ok(None),
        }
    }

    /// Whether the store has these levels and no others; tells of them.
    fn is_complete(
        &self,
        store: &VectorStore,
        report: &mut PyramidVectorsReport,
    ) -> Result<bool, Error> {
        let there;
        let store = match self.is_elsewhere() {
            true if !self.is_declared_elsewhere()? => return Ok(false),
            true => {
                there = VectorStore::open_in(self.context.engine(), self.location)?;
                &there
            }
            false => store,
        };
        let root = self.root(self.location)?;
        if !self.plan.is_declared(root.metadata().attributes())
            || store.levels().len() != self.plan.levels.len() + 1
        {
            return Ok(false);
        }
        let spool = FolderSpool::new(self.options.spool.clone(), self.location)?;
        let mut told = Vec::new();
        for level in &self.plan.levels {
            let Some(document) = self.level_document(level.level)? else { return Ok(false) };
            let chunk = document.chunk_shape.as_deref().unwrap_or(&store.root().chunk_shape);
            if document.object_sparsity != 1.0 / level.sparsity || chunk != level.chunk {
                return Ok(false);
            }
            if level.sparsity > 1.0 && !self.is_drawn(store, level)? {
                return Ok(false);
            }
            let (part, resumed) = (None, false);
            let job = LevelJob { job: self, store, plan: level, spool: &spool, part, resumed };
            told.push(job.kept(store)?);
        }
        report.levels = told;
        Ok(true)
    }

    /// Whether a level has the objects that are drawn for it: no document says by which seed that
    /// was done.
    fn is_drawn(&self, store: &VectorStore, level: &LevelPlan) -> Result<bool, Error> {
        let finer = WholeLevel::open(store, level.level.saturating_sub(1))?;
        let coarser = WholeLevel::open(store, level.level)?;
        match Objects::choose(&finer, level.sparsity, self.plan.seed)? {
            Some(objects) => objects.are_in(&finer, &coarser),
            None => Ok(true),
        }
    }

    /// Refuses to begin where levels, or other things, are already.
    fn check_free(&self, store: &VectorStore) -> Result<(), Error> {
        let at = self.source;
        if store.levels().len() > 1 && !self.options.overwrite && !self.is_elsewhere() {
            let (at, levels) = (at.to_string(), store.levels().len());
            return Err(PyramidVectorsError::Exists { at, levels }.into());
        }
        let highest = store.levels().last().copied().unwrap_or(0).min(MOST_LEVELS);
        for level in 1..=highest.max(self.plan.levels.len() as u64) {
            let place = at.join(&level.to_string())?;
            let taken = !at.store.list(place.path.as_ref())?.is_empty();
            if taken && !store.levels().contains(&level) {
                return Err(PyramidVectorsError::InTheWay { at: place.to_string() }.into());
            }
        }
        Ok(())
    }

    /// The state of what levels are made from; `None` where that cannot be told.
    fn state(&self) -> Result<Option<u64>, Error> {
        if self.is_elsewhere() {
            return source_state::of_tree(&self.source.join(FINEST)?);
        }
        let mut sum = 0u64;
        for name in ["vertices", "vertex_fragments", "object_index", "object_attributes"] {
            let path = format!("{FINEST}/{name}");
            if self.node(&path)?.is_some() {
                match source_state::of_tree(&self.location.join(&path)?)? {
                    Some(state) => sum = sum.wrapping_add(state),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(sum))
    }

    /// The highest level that an earlier, maybe different run has begun or was to remove; 0 if there
    /// was none.
    fn begun_levels(&self) -> Result<u64, Error> {
        let Some(bytes) = self.location.store.get(&self.location.key(PYRAMID_MARKER)?)? else {
            return Ok(0);
        };
        let marker: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let planned = marker["request"]["vectors"].as_array().map_or(0, Vec::len) as u64;
        let removed = marker["begun"][HIGHEST].as_u64().unwrap_or(0);
        Ok(planned.max(removed))
    }

    /// Removes all levels but the finest: those of the store, and what is left of others up to
    /// `highest`. The root names them no longer before they go.
    fn clear(&self, store: &VectorStore, highest: u64) -> Result<(), Error> {
        if store.levels().len() > 1 {
            self.declare(&[], false)?;
        }
        for (key, _) in self.location.store.list(self.location.path.as_ref())?.objects {
            if is_report(key.as_str().rsplit('/').next().unwrap_or_default()) {
                self.location.store.delete(&key, &Condition::None)?;
            }
        }
        let beyond = store.levels().iter().copied().filter(|level| *level > MOST_LEVELS);
        let planned = self.plan.levels.len() as u64;
        let near = 1..=highest.max(planned).min(MOST_LEVELS);
        let mut levels: Vec<u64> = near.chain(beyond).collect();
        levels.sort_unstable();
        for level in levels.into_iter().rev() {
            self.remove_level(level)?;
        }
        Ok(())
    }

    /// Removes a level, and the links to it in the level before.
    fn remove_level(&self, level: u64) -> Result<(), Error> {
        self.context.check()?;
        self.remove_tree(&level.to_string())?;
        let links = self.location.join(&format!("{}/links", level.saturating_sub(1)))?;
        for folder in self.location.store.list(links.path.as_ref())?.folders {
            let name = folder.as_str().rsplit('/').next().unwrap_or_default();
            if parse_delta_segment(name).is_some_and(|delta| delta > 0) {
                self.remove_tree(&format!("{}/links/{name}", level.saturating_sub(1)))?;
            }
        }
        Ok(())
    }

    /// Removes everything below a path, the document of the node first, so that no one takes a part
    /// of it for all.
    fn remove_tree(&self, path: &str) -> Result<(), Error> {
        let place = self.location.join(path)?;
        let listing = place.store.list(place.path.as_ref())?;
        if listing.is_empty() {
            return Ok(());
        }
        let document = place.key(DOCUMENT)?;
        if listing.objects.iter().any(|(key, _)| *key == document) {
            place.store.delete(&document, &Condition::None)?;
        }
        remove_all(&place)?;
        // What cannot be renewed is out of date, and `verify` says so.
        let _ = renew_consolidated_above(&place);
        Ok(())
    }

    /// Lets the root name levels.
    fn declare(&self, levels: &[LevelPlan], objects: bool) -> Result<(), Error> {
        change_attributes(self.location, &|attributes| {
            Plan::declare(levels, objects, attributes);
        })?;
        for level in ["0".to_owned()].into_iter().chain(levels.iter().map(|l| l.level.to_string()))
        {
            let _ = renew_consolidated_above(&self.location.join(&level)?);
        }
        Ok(())
    }

    /// Writes a document, unless another process that finishes the job has done so.
    fn put(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        self.context.check()?;
        let key = self.location.key(path)?.join(DOCUMENT)?;
        match self.location.store.put(&key, bytes, Condition::Absent) {
            Err(StoreError::Conflict { .. }) => Ok(()),
            put => Ok(put.map(drop)?),
        }
    }
}

fn planned(level: &LevelPlan) -> PyramidVectorsLevel {
    PyramidVectorsLevel {
        level: level.level,
        bin: level.bin.clone(),
        chunk: level.chunk.clone(),
        sparsity: level.sparsity,
        ..PyramidVectorsLevel::default()
    }
}

/// The members of a JSON object.
fn members(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
