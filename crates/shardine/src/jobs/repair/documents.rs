//! Corrects documents: OME-Zarr metadata that follows from other documents, lists and counts of
//! Zarr Vectors that follow from what is stored, and consolidated metadata that does not match the
//! nodes.
//!
//! Each correction is worked out again from what is stored while its document is held, and the
//! document is replaced only if it is still the one that was read. What changed meanwhile is left
//! to the next look.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_store::{Key, MAX_SMALL_OBJECT, ReadRange, StoreError, StoreExt};

use super::{Repair, RepairKind, Repairing};
use crate::jobs::check::vectors::follows;
use crate::jobs::check::{DocumentCorrection, Finding, FindingKind, Mend, Scope};
use crate::jobs::verify::{array_facts, node_facts, verify_in};
use crate::ome::rules::NodeFacts;
use crate::ome::rules::corrections::{
    Correction, dimension_names, level_orders, places, stated_versions,
};
use crate::zarr::metadata::{
    NodeMetadata, ZarrFormat, attributes_in, has_kept_numbers_in, with_attributes,
    with_dimension_names,
};
use crate::zarr::{DOCUMENT, renew_copies_of};
use crate::{Error, Location};

/// How often documents are looked at again because others change them, or because one correction
/// leads to another.
const ROUNDS: usize = 8;

/// What can be corrected in documents.
#[derive(Default)]
pub(super) struct ToCorrect {
    /// Corrections by document.
    mends: BTreeMap<Key, Vec<Arc<Mend>>>,
    /// Nodes that consolidated metadata is wrong about, with what is wrong.
    copies: Vec<(Key, Finding)>,
    /// Consolidated metadata of nodes that do not exist.
    last_copies: BTreeSet<Key>,
}

/// What became of a document.
enum Corrected {
    /// It has been replaced.
    Done,
    /// It is no longer the one that the corrections were made for.
    Changed,
    /// It cannot be corrected.
    Refused(String),
}

impl ToCorrect {
    /// Takes a finding that is about a document and can be corrected; whether it is one.
    pub fn take(&mut self, finding: &Finding) -> bool {
        if let Some(mend) = &finding.mend {
            let known = self.mends.entry(mend.document.clone()).or_default();
            if !known.contains(mend) {
                known.push(Arc::clone(mend));
            }
            return true;
        }
        match (finding.kind, &finding.node, &finding.object) {
            (FindingKind::ConsolidatedMetadata, Some(node), _) => {
                self.copies.push((node.clone(), finding.clone()));
                true
            }
            (FindingKind::ConsolidatedMetadata, None, Some(object)) => {
                self.last_copies.insert(object.clone());
                false
            }
            _ => false,
        }
    }
}

impl Repairing<'_> {
    /// Corrects documents, until there is nothing left to correct.
    pub(super) fn documents(&mut self, mut found: ToCorrect) -> Result<(), Error> {
        if self.options.dry_run {
            for mend in found.mends.values().flatten() {
                self.tell(corrected(mend));
            }
            for (_, finding) in &found.copies {
                self.tell(Repair::of(RepairKind::ConsolidatedRenewed, finding));
            }
            return Ok(());
        }
        let (copies, last_copies) = (found.copies, found.last_copies);
        let mut changed: BTreeSet<(Option<Key>, bool)> = BTreeSet::new();
        let mut refused = BTreeSet::new();
        for round in 0.. {
            found.mends.retain(|document, _| !refused.contains(document));
            if found.mends.is_empty() {
                break;
            }
            let mut again = BTreeMap::new();
            for (document, mends) in std::mem::take(&mut found.mends) {
                self.context.check()?;
                let reason = match self.correct_document(&document, &mends)? {
                    Corrected::Done => {
                        let node = mends.first().and_then(|mend| mend.node.clone());
                        changed.insert((node, is_v3(&document)));
                        continue;
                    }
                    Corrected::Changed if round < ROUNDS => {
                        // Documents alone do not show what follows from cells.
                        if mends.iter().any(|mend| mend.correction.follows_from_cells()) {
                            again.insert(document, mends);
                        }
                        continue;
                    }
                    Corrected::Changed => "kept changing while it was corrected".to_owned(),
                    Corrected::Refused(reason) => reason,
                };
                self.tell(Repair::new(RepairKind::Left, &document, reason));
                refused.insert(document);
            }
            found = self.look_at_documents()?;
            found.mends.extend(again);
        }
        changed.extend(copies.iter().filter_map(|(node, finding)| {
            Some((Some(node.clone()), is_v3(finding.object.as_ref()?)))
        }));
        self.renew_copies(changed, &copies, &last_copies);
        Ok(())
    }

    /// Looks for documents to correct, and at nothing else.
    fn look_at_documents(&self) -> Result<ToCorrect, Error> {
        let mut found = ToCorrect::default();
        let scope = Scope { metadata_only: true, decode: false, ..self.scope(0, self.is_held) };
        verify_in(self.context, self.location, scope, &mut |finding| {
            found.take(&finding);
        })?;
        Ok(found)
    }

    /// Corrects one document.
    fn correct_document(&mut self, key: &Key, mends: &[Arc<Mend>]) -> Result<Corrected, Error> {
        let store = Arc::clone(&self.location.store);
        let node = mends.first().and_then(|mend| mend.node.clone());
        let _hold = self.location.at(node).hold()?;
        let edit = match store.edit(key) {
            Err(StoreError::NotFound { .. }) => return Ok(Corrected::Changed),
            edit => edit?,
        };
        let mut text = edit.object.read(ReadRange::AtMost(MAX_SMALL_OBJECT))?.to_vec();
        let mut repairs = Vec::new();
        for mend in mends {
            if !self.still_follows(mend, &text)? {
                continue;
            }
            let is_order =
                matches!(mend.correction, DocumentCorrection::Ome(Correction::Order { .. }));
            if is_order && has_kept_numbers_in(&text, "datasets").unwrap_or(false) {
                let reason =
                    "has levels with numbers of many digits, which cannot be moved exactly";
                return Ok(Corrected::Refused(reason.to_owned()));
            }
            let Some(changed) = with_correction(&text, is_v3(key), &mend.correction) else {
                continue;
            };
            let mut repair = corrected(mend);
            if mend.correction.removes() {
                self.keep_whole(&edit, &mut repair)?;
            }
            text = changed;
            repairs.push(repair);
        }
        if repairs.is_empty() {
            return Ok(Corrected::Changed);
        }
        match store.put(key, &text, edit.condition()) {
            Ok(_) => {}
            Err(StoreError::Conflict { .. } | StoreError::Changed { .. }) => {
                return Ok(Corrected::Changed);
            }
            Err(error) => return Err(error.into()),
        }
        drop(edit);
        repairs.into_iter().for_each(|repair| self.tell(repair));
        Ok(Corrected::Done)
    }

    /// Whether a correction still follows from what is stored, for a document that holds `text`.
    fn still_follows(&self, mend: &Mend, text: &[u8]) -> Result<bool, Error> {
        let group = self.location.at(mend.group.clone());
        let attributes = || attributes_in(text, is_v3(&mend.document)).ok();
        let correction = match &mend.correction {
            DocumentCorrection::Ome(correction) => correction,
            DocumentCorrection::Vectors(correction) => {
                let node = self.location.at(mend.node.clone());
                return match follows(self.context, &group, &node, correction) {
                    // It has changed meanwhile.
                    Err(Error::NoNode { .. } | Error::NotAnArray { .. }) => Ok(false),
                    follows => follows,
                };
            }
        };
        Ok(match correction {
            Correction::Version { version, .. } => {
                let Some(witness) = &mend.witness else { return Ok(false) };
                let stored = match *witness == mend.document {
                    true => attributes(),
                    false => self.attributes_at(witness)?,
                };
                let stated = stored.as_ref().map(stated_versions).unwrap_or_default();
                !stated.is_empty() && stated.iter().all(|stated| *stated == version.to_string())
            }
            Correction::Order { .. } => {
                let Some(attributes) = attributes() else { return Ok(false) };
                let mut failed = Ok(());
                let found = level_orders(&attributes, &mut |path| found(&group, path, &mut failed));
                failed?;
                found.contains(correction)
            }
            Correction::Places { .. } => {
                attributes().as_ref().and_then(places).as_ref() == Some(correction)
            }
            Correction::Labels { added, removed } => {
                let list = attributes();
                self.are_label_images(&group, added)?
                    && self.can_be_removed(&group, list.as_ref(), removed)?
            }
            Correction::DimensionNames { .. } => {
                let Ok(NodeMetadata::Array(array)) = NodeMetadata::parse(text) else {
                    return Ok(false);
                };
                let attributes = self.attributes_at(&group.key(DOCUMENT)?)?;
                let below = |path: &str| group.join(path).is_ok_and(|at| at.path == mend.node);
                let mut find = |path: &str| match below(path) {
                    true => NodeFacts::Array(Arc::new(array_facts(&array))),
                    false => NodeFacts::Unknown,
                };
                let found = attributes.map(|attributes| dimension_names(&attributes, &mut find));
                found.is_some_and(|found| found.values().any(|found| found == correction))
            }
        })
    }

    /// The attributes in a document; `None` if it is not there, or damaged.
    fn attributes_at(&self, document: &Key) -> Result<Option<Map<String, Value>>, Error> {
        let text = self.location.store.get(document)?;
        Ok(text.and_then(|text| attributes_in(&text, is_v3(document)).ok()))
    }

    fn are_label_images(&self, group: &Location, paths: &[String]) -> Result<bool, Error> {
        let mut failed = Ok(());
        let is_image = |path: &String| match found(group, path, &mut failed) {
            NodeFacts::Group(group) => group.image.is_some(),
            _ => false,
        };
        let are_images = paths.iter().all(is_image);
        failed.map(|()| are_images)
    }

    /// Whether each of these items of a list of labels is there before, or nothing is at its path.
    fn can_be_removed(
        &self,
        group: &Location,
        attributes: Option<&Map<String, Value>>,
        removed: &[(usize, String)],
    ) -> Result<bool, Error> {
        if removed.is_empty() {
            return Ok(true);
        }
        let members = attributes.and_then(crate::ome::rules::metadata_members);
        let list = members.and_then(|members| members.get("labels")).and_then(Value::as_array);
        let Some(list) = list else { return Ok(false) };
        let listing = self.location.store.list(group.path.as_ref())?;
        let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
        let mut names: BTreeSet<String> =
            listing.objects.iter().map(|(key, _)| last(key.as_str())).collect();
        names.extend(listing.folders.iter().map(|key| last(key.as_str())));
        names.extend(listing.unlisted.iter().map(|unlisted| last(&unlisted.name)));
        let is_free = |path: &str| {
            listing.more_unlisted == 0
                && path.split('/').next().is_some_and(|name| !names.contains(name))
        };
        let is_before = |number: usize, path: &str| {
            list.iter().take(number).any(|item| item.as_str() == Some(path))
        };
        Ok(removed.iter().all(|(number, path)| is_before(*number, path) || is_free(path)))
    }

    /// Updates the consolidated metadata above nodes, and tells what could not be updated.
    fn renew_copies(
        &mut self,
        nodes: BTreeSet<(Option<Key>, bool)>,
        copies: &[(Key, Finding)],
        last_copies: &BTreeSet<Key>,
    ) {
        let nodes: Vec<(Location, ZarrFormat)> = nodes
            .into_iter()
            .map(|(node, is_v3)| {
                let format = if is_v3 { ZarrFormat::V3 } else { ZarrFormat::V2 };
                (self.location.at(node), format)
            })
            .collect();
        let stale = renew_copies_of(&nodes, &|copy| !last_copies.contains(copy));
        for (_, finding) in copies {
            let of = finding.object.as_ref().map(|copy| copy.as_str().rsplit_once('/'));
            let group = of.flatten().and_then(|(group, _)| Key::new(group).ok());
            let group = self.location.at(group).to_string();
            if !stale.iter().any(|stale| stale.at == group) {
                self.tell(Repair::of(RepairKind::ConsolidatedRenewed, finding));
            }
        }
        for stale in stale {
            let message = format!(
                "the consolidated metadata of {} could not be updated: {}",
                stale.at, stale.reason
            );
            let finding = Finding::new(FindingKind::ConsolidatedMetadata, None, message);
            self.tell(Repair::of(RepairKind::Left, &finding));
        }
    }
}

fn corrected(mend: &Mend) -> Repair {
    let message = mend.correction.to_string();
    Repair::new(RepairKind::MetadataCorrected, &mend.document, message)
}

/// Whether a document is one of version 3.
fn is_v3(document: &Key) -> bool {
    document.as_str().rsplit('/').next() == Some(DOCUMENT)
}

/// What is stored at a path below a group now.
fn found(group: &Location, path: &str, failed: &mut Result<(), Error>) -> NodeFacts {
    group.join(path).map_or(NodeFacts::Missing, |place| {
        node_facts(&place).unwrap_or_else(|error| {
            *failed = Err(error);
            NodeFacts::Unknown
        })
    })
}

/// The text of a document with a correction; `None` if it is not one that the correction is for.
fn with_correction(text: &[u8], is_v3: bool, correction: &DocumentCorrection) -> Option<Vec<u8>> {
    if let DocumentCorrection::Ome(Correction::DimensionNames { names, .. }) = correction {
        return with_dimension_names(text, names).ok().flatten();
    }
    let is_for = Cell::new(false);
    let change = |attributes: &mut Map<String, Value>| is_for.set(correction.apply(attributes));
    with_attributes(text, is_v3, &change).ok().flatten().filter(|_| is_for.get())
}
