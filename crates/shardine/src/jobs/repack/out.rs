//! Packs the chunks of a data set anew in another place.

use std::cell::RefCell;

use shardine_store::{
    Condition, CreateOptions, Key, ObjectWriter, ReadRange, StoreError, StoreExt,
};

use super::error::is_stale;
use super::in_place::{describe, transfer_options};
use super::{
    Packing, RepackCheck, RepackError, RepackOptions, RepackOutcome, RepackedArray, target,
};
use crate::jobs::copy::clear::clear;
use crate::jobs::copy::keys::is_document;
use crate::jobs::copy::marker::{COPY_MARKER, JobKind, Marker, Start};
use crate::jobs::copy::place::check_apart;
use crate::jobs::frame::JobContext;
use crate::jobs::losses::refuse_array;
use crate::jobs::rebuild::{AxisMap, Sides, Transfer, moves};
use crate::jobs::whole::{check_whole, refuse};
use crate::zarr::MAX_DEPTH;
use crate::zarr::metadata::{ChunkKeyEncoding, NodeMetadata, ZarrFormat};
use crate::zarr::{APPEND_MARKER, CONVERT_MARKER, DOCUMENT, grid_folder};
use crate::{Array, ArrayNode, Error, Group, Location, Node};

/// The object at the root of a target that says what is being made there, or was when the program was killed.
pub const REPACK_MARKER: &str = ".shardine-repack.json";

const REPACK: JobKind = JobKind { marker: REPACK_MARKER, member: "shardine_repack" };

/// Bytes of other objects that are held at once.
const PIECE: u64 = 1 << 20;

/// One job.
struct Out<'a> {
    context: &'a JobContext,
    source: &'a Location,
    target: &'a Location,
    options: &'a RepackOptions,
    check: RepackCheck,
    resumed: bool,
    marker: RefCell<Marker>,
}

/// Makes the new data set; `tell` hears of each array.
pub(super) fn repack(
    context: &JobContext,
    source: &Location,
    target: &Location,
    options: &RepackOptions,
    tell: &mut dyn FnMut(RepackedArray),
) -> Result<(), Error> {
    check_apart(source, target)?;
    check_whole(source, Some(target))?;
    let engine = context.engine();
    let node = Node::open(engine, source)?;
    rehearse(context, source, target, options, &node)?;
    let mut marker = Marker::new(&REPACK, source, options.request())?;
    let mut resumed = false;
    if !options.dry_run {
        let overwrite = options.overwrite || options.restart && marker.is_at(target)?;
        let start = marker.begin(source, target, overwrite)?;
        if start == Start::Clear {
            clear(target, engine.threads(), REPACK_MARKER)?;
            marker.cleared(target)?;
        }
        resumed = start == Start::Resumed;
    }
    let local = target.store.read_cost().local;
    let default = if local { RepackCheck::Bytes } else { RepackCheck::None };
    let check = options.check.unwrap_or(default);
    let marker = RefCell::new(marker);
    let out = Out { context, source, target, options, check, resumed, marker };
    if resumed {
        out.remove_leftovers(target.path.clone(), 0)?;
    }
    out.node(&node, tell)?;
    if !options.dry_run {
        out.marker.borrow().end(target)?;
    }
    Ok(())
}

/// Refuses what does not fit an array before anything is written or removed.
fn rehearse(
    context: &JobContext,
    source: &Location,
    target: &Location,
    options: &RepackOptions,
    node: &Node,
) -> Result<(), Error> {
    if options.dry_run {
        return Ok(());
    }
    let mut options = options.clone().dry_run(true);
    if matches!(options.packing, Packing::TargetSize(_)) {
        // A size always leads to shards that fit, and to learn them takes reading.
        options.packing = Packing::Unsharded;
    }
    let marker = RefCell::new(Marker::new(&REPACK, source, options.request())?);
    let (options, check, resumed) = (&options, RepackCheck::None, false);
    let out = Out { context, source, target, options, check, resumed, marker };
    out.node(node, &mut |_| ())
}

impl Out<'_> {
    fn node(&self, node: &Node, tell: &mut dyn FnMut(RepackedArray)) -> Result<(), Error> {
        match node {
            Node::Array(array) => drop(self.array(array, "", tell)?),
            Node::Group(group) => drop(self.group(group, "", 0, tell)?),
        }
        Ok(())
    }

    /// The same place in source or target.
    fn place(location: &Location, path: &str) -> Result<Location, Error> {
        if path.is_empty() { Ok(location.clone()) } else { location.join(path) }
    }

    /// Temporary files of a run that was killed.
    fn remove_leftovers(&self, folder: Option<Key>, depth: usize) -> Result<(), Error> {
        let store = &self.target.store;
        if depth > MAX_DEPTH || !store.has_folders() {
            return Ok(());
        }
        for leftover in store.leftovers(folder.as_ref())? {
            if leftover.kind == shardine_store::LeftoverKind::Temporary {
                store.remove_leftover(folder.as_ref(), &leftover.name)?;
            }
        }
        for inside in store.list(folder.as_ref())?.folders {
            self.remove_leftovers(Some(inside), depth + 1)?;
        }
        Ok(())
    }

    /// The metadata of all nodes below a group, by their paths below it, once they are made.
    fn group(
        &self,
        group: &Group,
        path: &str,
        depth: usize,
        tell: &mut dyn FnMut(RepackedArray),
    ) -> Result<Vec<(String, NodeMetadata)>, Error> {
        if depth > MAX_DEPTH {
            let reason = "groups lie too deep in each other".to_owned();
            return Err(RepackError::Layout { at: group.location().to_string(), reason }.into());
        }
        let mut below = Vec::new();
        let mut nodes = Vec::new();
        for child in group.children()? {
            let inside = match path {
                "" => child.name.clone(),
                _ => format!("{path}/{}", child.name),
            };
            match child.node? {
                Node::Array(array) => {
                    let metadata = self.array(&array, &inside, tell)?;
                    below.push((child.name.clone(), NodeMetadata::Array(metadata)));
                }
                Node::Group(group) => {
                    let nested = self.group(&group, &inside, depth + 1, tell)?;
                    let mut metadata = group.metadata().clone().into_v3();
                    metadata.remove_consolidated();
                    below.push((child.name.clone(), NodeMetadata::Group(metadata)));
                    below.extend(
                        nested
                            .into_iter()
                            .map(|(path, node)| (format!("{}/{path}", child.name), node)),
                    );
                }
            }
            nodes.push(child.name);
        }
        if self.options.dry_run {
            return Ok(below);
        }
        let source = group.location();
        self.copy_others(source.path.as_ref(), &|name, is_folder| match is_folder {
            true => !nodes.iter().any(|node| node == name),
            false => true,
        })?;
        let mut metadata = group.metadata().clone().into_v3();
        if group.metadata().consolidated().is_some() {
            let object = source.key(DOCUMENT)?;
            metadata
                .set_consolidated(&below)
                .map_err(|source| Error::Metadata { object, source: Box::new(source) })?;
        }
        let key = Self::place(self.target, path)?.key(DOCUMENT)?;
        self.target.store.put(&key, &metadata.to_bytes(), Condition::None)?;
        Ok(below)
    }

    fn array(
        &self,
        old: &ArrayNode,
        path: &str,
        tell: &mut dyn FnMut(RepackedArray),
    ) -> Result<crate::zarr::metadata::ArrayMetadata, Error> {
        let _hold = old.hold_same()?;
        refuse_array(old)?;
        let mut report = RepackedArray { path: path.to_owned(), ..RepackedArray::default() };
        let wanted = target::wanted(old, self.options, key_encoding(old))?;
        describe(&mut report, &wanted.metadata);
        let place = Self::place(self.target, path)?;
        let new = ArrayNode::from_metadata(self.context.engine(), &place, wanted.metadata.clone())?;
        report.moves = moves(old, &new);
        if self.options.dry_run {
            tell(report);
            return Ok(wanted.metadata);
        }
        if self.resumed {
            report.outcome = RepackOutcome::Resumed;
        }
        let document = place.key(DOCUMENT)?;
        let text = wanted.metadata.to_bytes();
        let before = fingerprint(old)?;
        if let Some(state) = before
            && !self.marker.borrow().is_begun(path, state)
        {
            if self.resumed {
                self.remove_stale(&new, &document)?;
            }
            self.marker.borrow_mut().begin_part(self.target, path, state)?;
        }
        if self.resumed && place.store.get(&document)?.is_some_and(|found| *found == *text) {
            // Its document comes last: it was finished by an earlier run.
            report.check = self.check;
            tell(report);
            return Ok(wanted.metadata);
        }
        let axes = AxisMap::identity(old.shape().len());
        let sides = Sides { old, axes: &axes, new: &new };
        let options = transfer_options(self.options, self.check);
        let transfer = Transfer::new(self.context, sides, options, self.resumed, path);
        let changed = || RepackError::Changed { at: old.location().to_string() };
        if let Err(error) = transfer.run() {
            let stale = is_stale(&error) && fingerprint(old)? != before;
            return Err(if stale { changed().into() } else { error });
        }
        report.count(&transfer.counts(), self.check);
        let (encoding, rank) = (*old.metadata().key_encoding(), old.shape().len());
        let above = old.location().path.as_ref();
        self.copy_others(above, &|name, is_folder| match is_folder {
            true => grid_folder(&encoding, name, rank).is_none(),
            false => encoding.parse(name, rank).is_none(),
        })?;
        if fingerprint(old)? != before {
            return Err(changed().into());
        }
        place.store.put(&document, &text, Condition::None)?;
        tell(report);
        Ok(wanted.metadata)
    }

    /// Removes what an earlier run has made of an array that was another one then.
    fn remove_stale(&self, new: &Array, document: &Key) -> Result<(), Error> {
        let store = &self.target.store;
        if store.get(document)?.is_some() {
            store.delete(document, &Condition::None)?;
        }
        for object in new.possible_objects()? {
            store.delete(&object.key, &Condition::None)?;
        }
        Ok(())
    }

    /// Copies what lies in a folder of the source and belongs to no node: whatever people keep with their data.
    ///
    /// `is_other` tells by name whether something directly in the folder is that.
    fn copy_others(
        &self,
        folder: Option<&Key>,
        is_other: &dyn Fn(&str, bool) -> bool,
    ) -> Result<(), Error> {
        let listing = match self.source.store.list(folder) {
            // Then nobody knows of anything else.
            Err(StoreError::Unsupported { .. }) => return Ok(()),
            listing => listing?,
        };
        refuse(self.source, &listing.unlisted, listing.more_unlisted)?;
        let name = |key: &Key| key.as_str().rsplit('/').next().unwrap_or_default().to_owned();
        for (key, _) in &listing.objects {
            let name = name(key);
            let is_marker = [REPACK_MARKER, COPY_MARKER, CONVERT_MARKER, APPEND_MARKER];
            let is_marker = is_marker.contains(&name.as_str());
            if !is_document(key) && !is_marker && is_other(&name, false) {
                self.copy_object(key)?;
            }
        }
        for key in &listing.folders {
            if is_other(&name(key), true) {
                self.copy_folder(key, 0)?;
            }
        }
        Ok(())
    }

    fn copy_folder(&self, folder: &Key, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            let reason = format!("\"{folder}\" lies too deep");
            return Err(RepackError::Layout { at: self.source.to_string(), reason }.into());
        }
        let listing = self.source.store.list(Some(folder))?;
        refuse(self.source, &listing.unlisted, listing.more_unlisted)?;
        listing.objects.iter().try_for_each(|(key, _)| self.copy_object(key))?;
        listing.folders.iter().try_for_each(|folder| self.copy_folder(folder, depth + 1))
    }

    fn copy_object(&self, key: &Key) -> Result<(), Error> {
        let below = match &self.source.path {
            None => Some(key.as_str()),
            Some(path) => {
                key.as_str().strip_prefix(path.as_str()).and_then(|k| k.strip_prefix('/'))
            }
        };
        let Some(below) = below else { return Ok(()) };
        let object = self.source.store.open(key, None)?;
        let options = CreateOptions { head: 0, condition: Condition::None };
        let writer = self.target.store.create(&self.target.key(below)?, options)?;
        match object.len() {
            None => drop(writer.append(&object.read(ReadRange::All)?)?),
            Some(len) => append_pieces(&*writer, &*object, len)?,
        }
        self.target.store.publish(vec![writer.finish(&[])?])?;
        Ok(())
    }
}

fn append_pieces(
    writer: &dyn ObjectWriter,
    object: &dyn shardine_store::Object,
    len: u64,
) -> Result<(), StoreError> {
    let mut at = 0;
    while at < len {
        let end = len.min(at + PIECE);
        writer.append_from(object, at..end)?;
        at = end;
    }
    Ok(())
}

/// How the objects of the new array are named: as before, unless that is the way of Zarr v2.
fn key_encoding(old: &ArrayNode) -> ChunkKeyEncoding {
    match old.zarr_format() {
        ZarrFormat::V2 => ChunkKeyEncoding::default(),
        ZarrFormat::V3 => *old.metadata().key_encoding(),
    }
}

/// What changes when somebody writes to the array, where that can be told.
fn fingerprint(array: &Array) -> Result<Option<u64>, Error> {
    let location = array.location();
    let Some(exchange) = location.store.exchange() else { return Ok(None) };
    Ok(Some(exchange.fingerprint(location.path.as_ref())?))
}
