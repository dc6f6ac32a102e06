//! Walks from a location to all nodes below it.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::Value;
use shardine_codec::{CodecError, DataTypeError, ExtensionError};
use shardine_store::{FolderHold, Key, Listing, StoreError, StoreExt, Unlisted, UnlistedKind};

use crate::engine::{in_order, tuning};
use crate::jobs::check::keyed::last_part;
use crate::jobs::check::{Finding, FindingKind, Run};
use crate::layout::LayoutError;
use crate::precomputed::INFO;
use crate::zarr::MAX_DEPTH;
use crate::zarr::metadata::{GroupMetadata, MetadataError, NodeMetadata};
use crate::zarr::{DOCUMENT, consolidated_name, read_document};
use crate::{ArrayNode, Error, Location};

/// How long a writer may take that overwrites a document instead of replacing it.
const SETTLE: Duration = Duration::from_millis(20);

/// What a group further up says about the nodes below it.
struct Consolidated {
    /// The group's document.
    object: Key,
    /// The length of the group's own path, which prefixes its nodes' paths.
    skip: usize,
    /// By path below the group; `None` for what was refused.
    nodes: BTreeMap<String, Option<Value>>,
    seen: HashSet<String>,
}

struct Walk<'a, 'r> {
    run: &'a Run<'r>,
    outer: Vec<Consolidated>,
}

impl Run<'_> {
    /// Checks the node at a location and everything below it.
    pub(super) fn hierarchy(&self, location: &Location) -> Result<(), Error> {
        self.left_out(location);
        let mut walk = Walk { run: self, outer: Vec::new() };
        let result = match settled_document(location) {
            Err(error @ Error::NoNode { .. }) => {
                let found = self.data_set(location).and_then(|found| match found {
                    true => Ok(true),
                    false => self.other_set(location),
                });
                match found {
                    Ok(true) => return Ok(()),
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
                _ => return Err(error),
            }
        }
        Ok(())
    }

    /// Keeps the data set at a location in place until dropped, unless the caller does already.
    pub(super) fn hold(&self, location: &Location) -> Result<Option<FolderHold>, Error> {
        if self.scope.is_held { Ok(None) } else { location.hold() }
    }

    /// Reports an `info` beside a Zarr document.
    pub(super) fn two_documents(&self, info: &Key) {
        let message = "is beside a Zarr document, which was checked; this one was not".to_owned();
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
            let message = format!("holds {more} more things that are left out");
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
        match metadata {
            NodeMetadata::Array(metadata) => {
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
                let result = self.children(location, depth);
                if let Some(done) = self.outer.pop_if(|_| own) {
                    self.missing(&done);
                }
                result?;
            }
        }
        Ok(())
    }

    fn children(&mut self, location: &Location, depth: usize) -> Result<(), Error> {
        let folder = location.path.as_ref();
        let listed = self.run.leftovers(location, folder).and_then(|()| {
            let listing = location.store.list(folder)?;
            self.run.left_out_of(location, &listing);
            let info = listing.objects.iter().find(|(key, _)| last_part(key) == INFO);
            info.into_iter().for_each(|(key, _)| self.run.two_documents(key));
            Ok(listing.folders)
        });
        let folders = match listed {
            Ok(folders) => folders,
            Err(Error::Store(StoreError::Unsupported { .. })) => self.named_children(location)?,
            Err(error) => {
                self.run.unreadable(folder, &error);
                return Ok(());
            }
        };
        if depth >= MAX_DEPTH {
            for folder in folders {
                let message = format!("lies more than {MAX_DEPTH} groups deep");
                let kind = FindingKind::NotChecked;
                self.run.note(Finding::new(kind, Some(folder), message));
            }
            return Ok(());
        }
        let child = |folder: &Key| location.at(Some(folder.clone()));
        let most = self.run.engine.at_once(&*location.store, tuning::DOCUMENT);
        let read = |i: usize| settled_document(&child(&folders[i]));
        let mut cancelled = Ok(());
        in_order(most, folders.len(), &read, &mut |i, document| {
            let (folder, child) = (&folders[i], child(&folders[i]));
            match document.and_then(|node| self.node(&child, node, depth + 1)) {
                Ok(()) => {}
                Err(error @ Error::Cancelled) => {
                    cancelled = Err(error);
                    return ControlFlow::Break(());
                }
                Err(Error::NoNode { .. }) => self.not_a_node(&child, folder.clone()),
                Err(error) if refusal(&error).is_some() => {
                    self.run.note(refused(&child, &error));
                }
                Err(error) => self.run.unreadable(Some(folder), &error),
            }
            ControlFlow::Continue(())
        });
        cancelled
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
                    "there is no {DOCUMENT} in this folder of a group, nor a document of version 2"
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
                Some(None) => "cannot be read where it describes the node",
                Some(Some(copy)) if *copy != comparable(metadata) => "is not that of the node",
                Some(Some(_)) => continue,
            };
            let message = format!("the consolidated metadata {what} \"{}\"", name.escape_debug());
            let kind = FindingKind::ConsolidatedMetadata;
            self.run.note(Finding::new(kind, Some(outer.object.clone()), message));
        }
    }

    /// Reports nodes that are described but do not exist.
    fn missing(&self, outer: &Consolidated) {
        for name in outer.nodes.keys().filter(|name| !outer.seen.contains(*name)) {
            let name = name.escape_debug();
            let message =
                format!("the consolidated metadata names the node \"{name}\", which is not there");
            let kind = FindingKind::ConsolidatedMetadata;
            self.run.note(Finding::new(kind, Some(outer.object.clone()), message));
        }
    }
}

/// Reads a document; one that is refused is read again, since other programs overwrite documents in
/// place.
fn settled_document(location: &Location) -> Result<NodeMetadata, Error> {
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
    let nodes = entries
        .iter()
        .map(|(path, node)| (path.clone(), node.as_ref().ok().map(comparable)))
        .collect();
    Ok(Some(Consolidated {
        object: location.key(consolidated_name(metadata.zarr_format()))?,
        skip: location.path.as_ref().map_or(0, |path| path.as_str().len() + 1),
        nodes,
        seen: HashSet::new(),
    }))
}

/// What must be equal in a document and its copy. For a group, that excludes its own consolidated
/// metadata.
fn comparable(metadata: &NodeMetadata) -> Value {
    let mut json = metadata.to_json();
    if let (NodeMetadata::Group(_), Value::Object(members)) = (metadata, &mut json) {
        members.remove("consolidated_metadata");
    }
    json
}

/// Whether an error means that a document is damaged, or unsupported; `None` if neither.
pub(in crate::jobs) fn refusal(error: &Error) -> Option<FindingKind> {
    let known = match error {
        Error::Metadata { source, .. } => !matches!(
            **source,
            MetadataError::ZarrV2
                | MetadataError::UnknownFormat { .. }
                | MetadataError::Member(ExtensionError::UnknownMember { .. })
                | MetadataError::Unsupported { .. }
                | MetadataError::DataType { reason: DataTypeError::Unknown { .. }, .. }
        ),
        Error::Layout { source, .. } => !matches!(
            **source,
            LayoutError::Codec {
                source: CodecError::Unknown { .. } | CodecError::Unsupported { .. },
                ..
            }
        ),
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
