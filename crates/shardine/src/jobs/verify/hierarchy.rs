//! Walks from a location to all nodes below it.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::time::Duration;

use shardine_store::{FolderHold, Key, Listing, StoreError, StoreExt, Unlisted, UnlistedKind};

use crate::engine::{in_order, tuning};
use crate::jobs::PYRAMID_MARKER;
use crate::jobs::check::keyed::last_part;
use crate::jobs::check::{Finding, FindingKind, Run};
use crate::jobs::unfinished::unfinished_rebuild;
use crate::jobs::verify::ome::OmeWalk;
use crate::precomputed::INFO;
use crate::zarr::MAX_DEPTH;
use crate::zarr::metadata::{GroupMetadata, NodeMetadata};
use crate::zarr::{DOCUMENT, OpaqueArray, ZarrFormat, consolidated_name, read_document, read_v2};
use crate::{ArrayNode, Error, Location};

/// How long a writer may take that overwrites a document instead of replacing it.
const SETTLE: Duration = Duration::from_millis(20);

/// What a group further up says about the nodes below it.
struct Consolidated {
    /// The group's document.
    object: Key,
    /// The version of the group's documents.
    format: ZarrFormat,
    /// The length of the group's own path, which prefixes its nodes' paths.
    skip: usize,
    /// By path below the group; `None` for what was refused.
    nodes: BTreeMap<String, Option<NodeMetadata>>,
    seen: HashSet<String>,
    /// Paths at which, and below which, nothing could be looked at.
    unseen: HashSet<String>,
}

impl Consolidated {
    /// Whether a node was found there, or may be there.
    fn has_met(&self, name: &str) -> bool {
        let ends = name.match_indices('/').map(|(end, _)| end).chain([0, name.len()]);
        let mut above = ends.filter_map(|end| name.get(..end));
        self.seen.contains(name) || above.any(|path| self.unseen.contains(path))
    }
}

struct Walk<'a, 'r> {
    run: &'a Run<'r>,
    outer: Vec<Consolidated>,
    ome: OmeWalk<'a, 'r>,
}

impl Run<'_> {
    /// Checks the node at a location and everything below it.
    pub(super) fn hierarchy(&self, location: &Location) -> Result<(), Error> {
        if !self.scope.metadata_only {
            self.left_out(location);
        }
        self.job_beside(location)?;
        let mut walk = Walk { run: self, outer: Vec::new(), ome: OmeWalk::new(self) };
        let result = match settled_document(location) {
            Err(error @ Error::NoNode { .. }) => {
                let found = self.data_set(location).and_then(|found| match found {
                    true => Ok(true),
                    false => self.other_set(location),
                });
                match found {
                    Ok(true) => return Ok(()),
                    Ok(false) if self.single_file(location)? => return Ok(()),
                    Ok(false) => Err(error),
                    Err(error) => Err(error),
                }
            }
            document => document.and_then(|node| walk.node(location, node, 0)),
        };
        if let Err(error) = result {
            // What is legal but unsupported leaves nothing to check, and so does what does not
            // exist.
            match refusal(&error) {
                Some(FindingKind::Metadata) => self.note(refused(location, &error)),
                Some(FindingKind::NotChecked) if self.opaque(location, &error)? => {}
                _ => return Err(error),
            }
        }
        Ok(())
    }

    /// Reports an interrupted job on the data set itself, whose folder is beside it.
    fn job_beside(&self, location: &Location) -> Result<(), Error> {
        if !self.is_first() {
            return Ok(());
        }
        let job = unfinished_rebuild(location)?.filter(|job| !job.in_use);
        let Some(job) = job else { return Ok(()) };
        let begun = job.command.map(|command| format!(", started by `{command}`"));
        let message = format!(
            "a job rebuilding it was interrupted{}; its folder is {}",
            begun.unwrap_or_default(),
            job.folder
        );
        let kind = FindingKind::UnfinishedJob;
        self.note(Finding::new(kind, location.path.clone(), message));
        Ok(())
    }

    /// Checks as much as can be checked of an array that was refused with `error`, without decoding
    /// its chunks; whether there is one.
    fn opaque(&self, location: &Location, error: &Error) -> Result<bool, Error> {
        let Some(opaque) = OpaqueArray::open(self.engine, location, error)? else {
            return Ok(false);
        };
        if let Ok(array) = opaque.listing() {
            let _hold = self.hold(location)?;
            self.sum(|summary| summary.arrays += 1);
            if self.checks_objects(location.path.as_ref()) {
                self.without_decoding(|run| run.array(array))?;
            }
        }
        let (object, reason) = (opaque.document_key()?, opaque.metadata().reason());
        self.note(Finding::new(FindingKind::NotChecked, Some(object), reason));
        Ok(true)
    }

    /// Keeps the data set at a location in place until dropped, unless the caller does already.
    pub(super) fn hold(&self, location: &Location) -> Result<Option<FolderHold>, Error> {
        if self.scope.is_held { Ok(None) } else { location.hold() }
    }

    /// Reports an `info` beside a Zarr document.
    pub(super) fn two_documents(&self, info: &Key) {
        let message = "is next to a Zarr document, which was checked; this one was not".to_owned();
        self.note(Finding::new(FindingKind::TwoDocuments, Some(info.clone()), message));
    }

    /// Reports what is in the folders of a data set but not part of it; on files, once for all
    /// folders.
    pub(super) fn left_out(&self, location: &Location) {
        let Some(folders) = location.store.folders().filter(|_| self.is_first()) else { return };
        match folders.survey(location.path.as_ref(), &HashSet::new()) {
            Ok(survey) => {
                self.tell_unlisted(location.path.as_ref(), survey.unlisted, survey.more_unlisted);
            }
            Err(error) => self.unreadable(location.path.as_ref(), &error.into()),
        }
    }

    /// The same for one folder of another store.
    pub(super) fn left_out_of(&self, location: &Location, listing: &Listing) {
        if !location.store.has_folders() {
            let unlisted = listing.unlisted.clone();
            self.tell_unlisted(location.path.as_ref(), unlisted, listing.more_unlisted);
        }
    }

    fn tell_unlisted(&self, folder: Option<&Key>, unlisted: Vec<Unlisted>, more: u64) {
        for Unlisted { name, key, kind } in unlisted {
            let finding = match kind {
                UnlistedKind::BrokenLink => FindingKind::BrokenLink,
                _ => FindingKind::LeftOut,
            };
            let message = match &key {
                Some(_) => format!("is {}", kind.reason()),
                None => format!("\"{name}\" is {}", kind.reason()),
            };
            self.note(Finding::new(finding, key.or_else(|| folder.cloned()), message));
        }
        if more > 0 {
            let message = format!("holds {more} more items that are left out");
            self.note(Finding::new(FindingKind::LeftOut, folder.cloned(), message));
        }
    }
}

impl Walk<'_, '_> {
    /// An error concerns this node; those of its children have been reported.
    fn node(
        &mut self,
        location: &Location,
        metadata: NodeMetadata,
        depth: usize,
    ) -> Result<(), Error> {
        self.compare(location, &metadata);
        for deviation in metadata.deviations() {
            let object = location.key(DOCUMENT)?;
            let kind = FindingKind::MetadataForm;
            self.run.note(Finding::new(kind, Some(object), deviation.clone()));
        }
        match metadata {
            NodeMetadata::Array(metadata) => {
                self.ome.array(location, &metadata);
                if !self.run.checks_objects(location.path.as_ref()) {
                    ArrayNode::from_metadata(self.run.engine, location, metadata)?;
                    self.run.sum(|summary| summary.arrays += 1);
                    return Ok(());
                }
                let hold = self.run.hold(location)?;
                // The held array may not be the one whose document was read.
                let metadata = match hold.is_some().then(|| read_document(location)) {
                    Some(Ok(NodeMetadata::Array(held))) => held,
                    _ => metadata,
                };
                let array = ArrayNode::from_metadata(self.run.engine, location, metadata)?;
                self.run.sum(|summary| summary.arrays += 1);
                self.run.array(&array)?;
            }
            NodeMetadata::Group(metadata) => {
                self.run.sum(|summary| summary.groups += 1);
                let consolidated = consolidated(location, &metadata)?;
                let own = consolidated.is_some();
                self.outer.extend(consolidated);
                self.ome.enter(location, &metadata)?;
                let result = self.children(location, metadata.zarr_format(), depth);
                if let Some(done) = self.outer.pop_if(|_| own) {
                    self.missing(&done);
                }
                self.ome.leave(result.is_ok());
                result?;
                self.run.vectors(location, &metadata)?;
            }
        }
        Ok(())
    }

    fn children(
        &mut self,
        location: &Location,
        format: ZarrFormat,
        depth: usize,
    ) -> Result<(), Error> {
        let folder = location.path.as_ref();
        let run = self.run;
        let listed = run.leftovers(location, folder).and_then(|()| {
            let listing = location.store.list(folder)?;
            self.run.left_out_of(location, &listing);
            for key in listing.unlisted.iter().filter_map(|unlisted| unlisted.key.as_ref()) {
                self.pass_over(Some(key));
            }
            if !listing.unlisted.is_empty() {
                self.ome.pass_over();
            }
            let info = listing.objects.iter().find(|(key, _)| last_part(key) == INFO);
            info.into_iter().for_each(|(key, _)| self.run.two_documents(key));
            self.ome.listed(&listing);
            let marker = listing.objects.iter().find(|(key, _)| last_part(key) == PYRAMID_MARKER);
            if let Some((key, _)) = marker {
                let message =
                    "records a pyramid that is being built, or was interrupted".to_owned();
                let kind = FindingKind::UnfinishedJob;
                self.run.note(Finding::new(kind, Some(key.clone()), message));
            }
            Ok(listing.folders)
        });
        let folders = match listed {
            Ok(folders) => folders,
            Err(Error::Store(StoreError::Unsupported { .. })) => self.named_children(location)?,
            Err(error) => {
                self.pass_over(folder);
                self.ome.pass_over();
                self.run.unreadable(folder, &error);
                return Ok(());
            }
        };
        if depth >= MAX_DEPTH {
            self.ome.pass_over();
            for folder in folders {
                let message = format!("is nested more than {MAX_DEPTH} groups deep");
                let kind = FindingKind::NotChecked;
                self.pass_over(Some(&folder));
                self.run.note(Finding::new(kind, Some(folder), message));
            }
            return Ok(());
        }
        let child = |folder: &Key| location.at(Some(folder.clone()));
        let most = self.run.engine.at_once(&*location.store, tuning::DOCUMENT);
        let read = |i: usize| document_below(&child(&folders[i]), format);
        let mut cancelled = Ok(());
        in_order(most, folders.len(), &read, &mut |i, document| {
            let (folder, child) = (&folders[i], child(&folders[i]));
            // A document that is refused is there.
            if let Err(error) = &document
                && !matches!(error, Error::NoNode { .. })
            {
                self.pass_over(Some(folder));
            }
            match document.and_then(|node| self.node(&child, node, depth + 1)) {
                Ok(()) => {}
                Err(error @ Error::Cancelled) => {
                    cancelled = Err(error);
                    return ControlFlow::Break(());
                }
                Err(Error::NoNode { .. }) => self.not_a_node(&child, folder.clone()),
                Err(error) => {
                    if let Err(error) = self.refused_child(&child, error) {
                        cancelled = Err(error);
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        });
        cancelled
    }

    /// Tells of a node that could not be checked, or not all of it. An error is that of a check that
    /// was stopped.
    fn refused_child(&mut self, child: &Location, error: Error) -> Result<(), Error> {
        let error = match refusal(&error) {
            Some(FindingKind::NotChecked) => match self.run.opaque(child, &error) {
                Ok(true) => return Ok(()),
                Ok(false) => error,
                Err(error @ Error::Cancelled) => return Err(error),
                Err(error) => error,
            },
            _ => error,
        };
        self.ome.pass_over();
        match refusal(&error) {
            Some(_) => self.run.note(refused(child, &error)),
            None => self.run.unreadable(child.path.as_ref(), &error),
        }
        Ok(())
    }

    /// The children of a group that consolidated metadata names, for a store that cannot list.
    fn named_children(&self, location: &Location) -> Result<Vec<Key>, Error> {
        self.run.sum(|summary| summary.unlisted = true);
        // The outermost one names all.
        let Some(outer) = self.outer.first() else {
            return Err(Error::UnlistedGroup { at: location.to_string() });
        };
        let own = location.path.as_ref().and_then(|path| path.as_str().get(outer.skip..));
        let names = outer.nodes.keys().filter_map(|path| match own {
            None | Some("") => Some(path.as_str()),
            Some(own) => path.strip_prefix(own)?.strip_prefix('/'),
        });
        let direct = names.filter(|name| !name.is_empty() && !name.contains('/'));
        // Names that cannot be part of a key have been reported with the metadata.
        Ok(direct.filter_map(|name| location.join(name).ok()?.path).collect())
    }

    /// Reports a folder without metadata, unless it is empty.
    fn not_a_node(&self, location: &Location, folder: Key) {
        match location.store.list(Some(&folder)) {
            Ok(listing) if listing.objects.is_empty() && listing.folders.is_empty() => {}
            // It was not listed, but named by consolidated metadata, which is reported.
            Err(StoreError::Unsupported { .. }) => {}
            Ok(_) => {
                let message = format!(
                    "this folder of a group has neither a {DOCUMENT} nor a Zarr v2 document"
                );
                self.run.note(Finding::new(FindingKind::NoMetadata, Some(folder), message));
            }
            Err(error) => self.run.unreadable(Some(&folder), &error.into()),
        }
    }

    /// Compares a node's metadata with what the groups above say about it.
    fn compare(&mut self, location: &Location, metadata: &NodeMetadata) {
        let Some(path) = &location.path else { return };
        for outer in &mut self.outer {
            let Some(name) = path.as_str().get(outer.skip..) else { continue };
            outer.seen.insert(name.to_owned());
            let what = match outer.nodes.get(name) {
                None => "does not name the node",
                Some(None) => "cannot be read for the node",
                Some(Some(copy)) if !copy.means_same(metadata) => "does not match the node",
                Some(Some(_)) => continue,
            };
            let message = format!("the consolidated metadata {what} \"{}\"", name.escape_debug());
            let kind = FindingKind::ConsolidatedMetadata;
            let finding = Finding::new(kind, Some(outer.object.clone()), message);
            // The copy of a group is of documents of its own version.
            let can_be_renewed = outer.format == metadata.zarr_format() && self.run.is_listed();
            let node = can_be_renewed.then(|| path.clone());
            self.run.note(Finding { node, ..finding });
        }
    }

    /// Records that a place, and everything below it, could not be checked: it is not missing.
    fn pass_over(&mut self, place: Option<&Key>) {
        for outer in &mut self.outer {
            // Of the group itself nothing is left.
            let own = place.map_or("", Key::as_str).get(outer.skip..).unwrap_or_default();
            outer.unseen.insert(own.to_owned());
        }
    }

    /// Reports nodes that are described but do not exist.
    fn missing(&self, outer: &Consolidated) {
        for name in outer.nodes.keys().filter(|name| !outer.has_met(name)) {
            let name = name.escape_debug();
            let message = format!(
                "the consolidated metadata names the node \"{name}\", which does not exist"
            );
            let kind = FindingKind::ConsolidatedMetadata;
            self.run.note(Finding::new(kind, Some(outer.object.clone()), message));
        }
    }
}

/// The document of a node in a group of this version. Below a group of version 2 that of version 2
/// counts where there are both: a migration gives the outermost group its document last, and until
/// then the others are not part of the hierarchy.
fn document_below(location: &Location, format: ZarrFormat) -> Result<NodeMetadata, Error> {
    let found = settled_document(location)?;
    if format == ZarrFormat::V2 && found.zarr_format() == ZarrFormat::V3 {
        match read_v2(location) {
            Ok(Some(old)) => return Ok(old),
            Err(error @ Error::Store(_)) => return Err(error),
            _ => {}
        }
    }
    Ok(found)
}

/// Reads a document; one that is refused is read again, since other programs overwrite documents in
/// place.
pub(super) fn settled_document(location: &Location) -> Result<NodeMetadata, Error> {
    let first = read_document(location);
    let again = match &first {
        Err(Error::Store(StoreError::Changed { .. })) => true,
        Err(error) => refusal(error) == Some(FindingKind::Metadata),
        Ok(_) => false,
    };
    if !again {
        return first;
    }
    std::thread::sleep(SETTLE);
    read_document(location)
}

fn consolidated(
    location: &Location,
    metadata: &GroupMetadata,
) -> Result<Option<Consolidated>, Error> {
    let Some(entries) = metadata.consolidated() else { return Ok(None) };
    let nodes =
        entries.iter().map(|(path, node)| (path.clone(), node.as_ref().ok().cloned())).collect();
    Ok(Some(Consolidated {
        object: location.key(consolidated_name(metadata.zarr_format()))?,
        format: metadata.zarr_format(),
        skip: location.path.as_ref().map_or(0, |path| path.as_str().len() + 1),
        nodes,
        seen: HashSet::new(),
        unseen: HashSet::new(),
    }))
}

/// Whether an error means that a document is damaged, or unsupported; `None` if neither.
pub(in crate::jobs) fn refusal(error: &Error) -> Option<FindingKind> {
    let known = match error {
        Error::Metadata { .. } | Error::Layout { .. } | Error::Unsupported { .. } => {
            !error.is_unsupported()
        }
        Error::Info { .. } | Error::Sharding { .. } => true,
        Error::WkwHeader { .. } | Error::WkwProperties { .. } => true,
        Error::Store(StoreError::TooLarge { .. }) => true,
        _ => return None,
    };
    Some(if known { FindingKind::Metadata } else { FindingKind::NotChecked })
}

/// The finding for a refused document.
pub(super) fn refused(location: &Location, error: &Error) -> Finding {
    let kind = refusal(error).unwrap_or(FindingKind::Unreadable);
    let (object, message) = match error {
        Error::Metadata { object, source } => (Some(object.clone()), source.to_string()),
        Error::Layout { object, source } => (Some(object.clone()), source.to_string()),
        Error::Info { object, source } => (Some(object.clone()), source.to_string()),
        Error::Sharding { object, source } => (Some(object.clone()), source.to_string()),
        error => (location.path.clone(), error.to_string()),
    };
    Finding::new(kind, object, message)
}
