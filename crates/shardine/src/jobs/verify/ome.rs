//! The rules of OME-Zarr in a hierarchy, judged as the walk enters and leaves its groups.
//!
//! A group is judged on its own when it is entered, and with what is below it when it is left: by
//! then the walk has read those documents anyway. What is known of them is kept only as long as a
//! group above can ask.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_store::{Key, Listing};

use super::hierarchy::{refusal, settled_document};
use super::ome_versions::HierarchyVersions;
use crate::jobs::check::keyed::last_part;
use crate::jobs::check::{DocumentCorrection, Finding, FindingKind, Mend, Run, Untold};
use crate::ome::rules::corrections::{
    Correction, LabelNodes, dimension_names, labels, level_orders, may_be_mended, places,
};
use crate::ome::rules::{
    self, ArrayFacts, GroupFacts, NodeFacts, Violations, between_labels, label_relations,
    label_source, relations, scene_relations, source_relations, unlisted_labels, version_relations,
    well_relations,
};
use crate::zarr::metadata::{ArrayMetadata, GroupMetadata, NodeMetadata};
use crate::zarr::{DOCUMENT, ZarrFormat, attribute_name};
use crate::{Error, Location};

/// The most nodes remembered. Beyond that they are looked up when they are asked for.
const REMEMBERED: usize = 1 << 18;

/// The most nodes that one document names and that are looked up because the walk has not met them.
const LOOKED_UP: usize = 256;

/// The group of bioformats2raw, and the document in it.
const XML: &str = "METADATA.ome.xml";

/// The groups between the root and where the walk is, with what is known below each.
pub(super) struct OmeWalk<'a, 'r> {
    run: &'a Run<'r>,
    open: Vec<OpenGroup>,
    remembered: usize,
    /// Of the hierarchy that the walk is in.
    versions: Option<HierarchyVersions>,
}

struct OpenGroup {
    location: Location,
    /// The document with its attributes.
    document: Key,
    format: ZarrFormat,
    /// If they have OME-Zarr metadata.
    attributes: Option<Map<String, Value>>,
    facts: GroupFacts,
    /// By path below the group.
    nodes: BTreeMap<String, NodeFacts>,
    /// Rules that it breaks on its own, if other nodes tell whether they can be mended.
    later: Violations,
    /// Everything in its folder, by name, if it lists label images.
    names: Option<HashSet<String>>,
}

impl OpenGroup {
    /// Whether its metadata has a member.
    fn has(&self, name: &str) -> bool {
        let members = self.attributes.as_ref().and_then(rules::metadata_members);
        members.is_some_and(|members| members.contains_key(name))
    }

    /// The document of a group below, which is taken to be of the same version of Zarr.
    fn document_below(&self, path: &str) -> Option<Key> {
        let group = self.location.join(path).ok()?;
        group.key(attribute_name(self.format)).ok()
    }
}

impl<'a, 'r> OmeWalk<'a, 'r> {
    pub fn new(run: &'a Run<'r>) -> Self {
        Self { run, open: Vec::new(), remembered: 0, versions: None }
    }

    /// Judges a group on its own. What is found about documents belongs to the first part.
    pub fn enter(&mut self, location: &Location, metadata: &GroupMetadata) -> Result<(), Error> {
        if !self.run.is_first() {
            return Ok(());
        }
        let attributes = metadata.attributes();
        let format = metadata.zarr_format();
        let document = location.key(attribute_name(format))?;
        let number = match format {
            ZarrFormat::V2 => 2,
            ZarrFormat::V3 => 3,
        };
        // Below an image, and in the layout of bioformats2raw, the name of a group tells what it is.
        let outer = self.open.last();
        let is_sure = match location.path.as_ref().map(last_part) {
            Some("labels") => outer.is_some_and(|outer| outer.facts.image.is_some()),
            Some("OME") => outer.is_some_and(|outer| outer.has("bioformats2raw.layout")),
            _ => false,
        };
        let mut found = match is_sure {
            true => rules::sure_violations(attributes, Some(number)),
            false => rules::violations(attributes, Some(number)),
        };
        let facts = GroupFacts::read(attributes);
        let mut later = Violations::default();
        if let Some(found) = &mut found {
            let depth = self.open.len();
            let versions = self.versions.get_or_insert_with(|| HierarchyVersions::new(depth));
            let (group, list) = (location.path.as_ref(), &mut found.list);
            versions.enter(group, &document, (attributes, number), list);
            (later.list, found.list) =
                std::mem::take(&mut found.list).into_iter().partition(may_be_mended);
        }
        if let Some(found) = &found {
            self.tell(&document, found);
        }
        if let Some(outer) = self.open.iter().rev().find(|outer| outer.attributes.is_some()) {
            self.tell(&document, &version_relations(&facts, &outer.facts));
            if outer.has("labels") {
                self.tell(&document, &between_labels(&facts));
            }
        }
        let (location, nodes) = (location.clone(), BTreeMap::new());
        let attributes = found.map(|_| attributes.clone());
        let names = None;
        let group =
            OpenGroup { location, document, format, attributes, facts, nodes, later, names };
        self.open.push(group);
        Ok(())
    }

    /// Remembers that something in the innermost group could not be looked at.
    pub fn pass_over(&mut self) {
        self.versions.iter_mut().for_each(HierarchyVersions::pass_over);
    }

    /// Remembers an array.
    pub fn array(&mut self, location: &Location, metadata: &ArrayMetadata) {
        self.remember(location, || NodeFacts::Array(Arc::new(array_facts(metadata))));
    }

    /// Remembers what is in the folder of the innermost group.
    pub fn listed(&mut self, listing: &Listing) {
        if let Some(group) = self.open.last_mut() {
            let has_xml = listing.objects.iter().any(|(key, _)| last_part(key) == XML);
            group.facts.has_xml = Some(has_xml);
            if group.has("labels") && listing.more_unlisted == 0 {
                let objects = listing.objects.iter().map(|(key, _)| last_part(key));
                let folders = listing.folders.iter().map(last_part);
                let others = listing.unlisted.iter().filter_map(|one| one.name.rsplit('/').next());
                let names = objects.chain(folders).chain(others).map(str::to_owned);
                group.names = Some(names.collect());
            }
        }
    }

    /// Judges a group with what is below it, if all of that was looked at.
    pub fn leave(&mut self, is_complete: bool) {
        if !self.run.is_first() {
            return;
        }
        let Some(mut group) = self.open.pop() else { return };
        if is_complete && let Some(attributes) = group.attributes.take() {
            self.judge(&mut group, &attributes);
            group.attributes = Some(attributes);
        } else {
            self.tell(&group.document, &group.later);
        }
        if !is_complete {
            self.pass_over();
        }
        if let Some(versions) = self.versions.take_if(|of| of.is_left(self.open.len())) {
            for (unstated, mend) in versions.finish(self.run.is_listed()) {
                let mends = mend.as_slice();
                tell_violations(self.run, &unstated.document, &unstated.violations, mends);
            }
        }
        let OpenGroup { location, facts, nodes, .. } = group;
        self.remembered = self.remembered.saturating_sub(nodes.len());
        let is_image = facts.image.is_some();
        self.remember(&location, || NodeFacts::Group(Arc::new(facts)));
        // The arrays of an image have been judged, and are among its facts.
        let kept = nodes
            .into_iter()
            .filter(|(_, node)| !(is_image && matches!(node, NodeFacts::Array(_))));
        let Some(name) = location.path.as_ref().map(last_part) else { return };
        for (path, node) in kept {
            self.remember_as(format!("{name}/{path}"), node);
        }
    }

    /// Remembers a node in the innermost group, if that or one above it can ask for it.
    fn remember(&mut self, location: &Location, node: impl FnOnce() -> NodeFacts) {
        let Some(path) = &location.path else { return };
        if self.open.iter().any(|group| group.attributes.is_some()) {
            self.remember_as(last_part(path).to_owned(), node());
        }
    }

    fn remember_as(&mut self, path: String, node: NodeFacts) {
        let can_ask = self.open.iter().any(|group| group.attributes.is_some());
        if let Some(group) = self.open.last_mut()
            && can_ask
            && self.remembered < REMEMBERED
        {
            self.remembered += usize::from(group.nodes.insert(path, node).is_none());
        }
    }

    fn judge(&self, group: &mut OpenGroup, attributes: &Map<String, Value>) {
        let mut looked_up: BTreeMap<String, NodeFacts> = BTreeMap::new();
        let (location, nodes) = (&group.location, &group.nodes);
        let mut find = |path: &str| {
            if let Some(known) = nodes.get(path).or_else(|| looked_up.get(path)) {
                return known.clone();
            }
            let may_read = looked_up.len() < LOOKED_UP;
            let node = self.look_up(location, path, may_read);
            if may_read {
                looked_up.insert(path.to_owned(), node.clone());
            }
            node
        };
        let above = self.open.iter().rev().find(|outer| outer.attributes.is_some());
        let is_label = above.is_some_and(|outer| outer.has("labels"));
        let mends = self.mends(group, attributes, is_label, &mut find);
        let tell = |violations: &Violations| {
            tell_violations(self.run, &group.document, violations, &mends);
        };
        tell(&group.later);
        let (found, image) = rules::levels(attributes, is_label, &mut find);
        tell(&found);
        tell(&relations(attributes, &mut find));
        tell(&scene_relations(attributes, &mut find));
        let plate = self.open.iter().rev().find(|outer| outer.has("plate"));
        if let Some(plate) = plate.and_then(|plate| plate.attributes.as_ref()) {
            tell(&well_relations(attributes, plate));
        }
        if let Some(source) = label_source(attributes)
            && let Some(found) = self.source(&group.location, source)
        {
            tell(&source_relations(attributes, &found));
        }
        if !is_label {
            let images = images(&group.nodes).map(|(path, _)| path);
            tell(&unlisted_labels(attributes, images));
        }
        if let Some(image) = &image {
            for (path, label) in images(&group.nodes) {
                if path.starts_with("labels/")
                    && let Some(document) = group.document_below(path)
                {
                    self.tell(&document, &label_relations(label, image));
                }
            }
        }
        group.facts.image = image;
    }

    /// What `repair` can correct in the document of a group, and in those of the arrays of its
    /// images.
    fn mends(
        &self,
        group: &OpenGroup,
        attributes: &Map<String, Value>,
        is_label: bool,
        find: &mut dyn FnMut(&str) -> NodeFacts,
    ) -> Vec<Arc<Mend>> {
        // What cannot be listed is not known well enough, and cannot be written.
        if !self.run.is_listed() {
            return Vec::new();
        }
        let of = group.location.path.as_ref();
        let own = |correction: Correction| Mend {
            node: of.cloned(),
            document: group.document.clone(),
            group: of.cloned(),
            witness: None,
            correction: DocumentCorrection::Ome(correction),
        };
        let mut mends: Vec<Mend> = level_orders(attributes, find).into_iter().map(own).collect();
        mends.extend(places(attributes).map(own));
        if let Some(names) = group.names.as_ref().filter(|_| !is_label) {
            let first = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
            let is_free = |path: &str| !names.contains(&first(path));
            let nodes = LabelNodes { images: images(&group.nodes).collect(), is_free: &is_free };
            mends.extend(labels(attributes, &nodes).map(own));
        }
        for (path, correction) in dimension_names(attributes, find) {
            let Ok(array) = group.location.join(&path) else { continue };
            let Ok(document) = array.key(DOCUMENT) else { continue };
            let node = array.path.clone();
            let correction = DocumentCorrection::Ome(correction);
            mends.push(Mend { node, document, group: of.cloned(), witness: None, correction });
        }
        mends.into_iter().map(Arc::new).collect()
    }

    /// What is known of the source of a label image; `None` if it is not part of what is checked.
    fn source(&self, label: &Location, path: &str) -> Option<NodeFacts> {
        let Ok(resolved) = label.resolved(path) else { return Some(NodeFacts::Missing) };
        let place = resolved.filter(|place| self.run.is_inside(place.path.as_ref()))?;
        let open = self.open.iter().find(|group| group.location.path == place.path);
        Some(match open {
            Some(group) => NodeFacts::Group(Arc::new(group.facts.clone())),
            None => self.read(&place),
        })
    }

    /// Looks at a node that the walk has not met: it may be new, or behind a link.
    fn look_up(&self, group: &Location, path: &str, may_read: bool) -> NodeFacts {
        match group.join(path) {
            Ok(place) if may_read => self.read(&place),
            Ok(_) if self.run.is_listed() => NodeFacts::Missing,
            Ok(_) => NodeFacts::Unknown,
            // Nothing can be there.
            Err(_) => NodeFacts::Missing,
        }
    }

    fn read(&self, place: &Location) -> NodeFacts {
        node_facts(place).unwrap_or_else(|error| {
            self.run.unreadable(place.path.as_ref(), &error);
            NodeFacts::Unknown
        })
    }

    fn tell(&self, document: &Key, violations: &Violations) {
        tell_violations(self.run, document, violations, &[]);
    }
}

/// Reports what is wrong with a document, and which of it `repair` can mend.
pub(super) fn tell_violations(
    run: &Run<'_>,
    document: &Key,
    violations: &Violations,
    mends: &[Arc<Mend>],
) {
    for violation in &violations.list {
        let mend = mends.iter().find(|mend| mend.correction.mends(violation));
        run.note(Finding::of_rule(document, violation).mended_by(mend));
    }
    let mut untold = Untold::default();
    for (level, rule, count) in &violations.more {
        untold.add(FindingKind::of_rule(*level, *rule), *count);
    }
    if run.is_first() {
        run.count(&untold);
    }
}

/// The images among nodes that are not part of another image.
fn images(nodes: &BTreeMap<String, NodeFacts>) -> impl Iterator<Item = (&str, &GroupFacts)> {
    let is_image = |path: &str| match nodes.get(path) {
        Some(NodeFacts::Group(group)) => group.image.is_some(),
        _ => false,
    };
    nodes.iter().filter_map(move |(path, node)| {
        let NodeFacts::Group(group) = node else { return None };
        let mut above = path.match_indices('/').filter_map(|(end, _)| path.get(..end));
        let is_outermost = group.image.is_some() && !above.any(is_image);
        is_outermost.then_some((path.as_str(), &**group))
    })
}

/// What is stored at a place; an error if it could not be read.
pub(in crate::jobs) fn node_facts(place: &Location) -> Result<NodeFacts, Error> {
    match settled_document(place) {
        Ok(NodeMetadata::Array(metadata)) => Ok(NodeFacts::Array(Arc::new(array_facts(&metadata)))),
        Ok(NodeMetadata::Group(metadata)) => {
            Ok(NodeFacts::Group(Arc::new(GroupFacts::read(metadata.attributes()))))
        }
        Err(Error::NoNode { .. }) => Ok(NodeFacts::Missing),
        // A document that is refused is reported where it is.
        Err(error) if refusal(&error).is_some() => Ok(NodeFacts::Unknown),
        Err(error) => Err(error),
    }
}

pub(in crate::jobs) fn array_facts(metadata: &ArrayMetadata) -> ArrayFacts {
    ArrayFacts {
        shape: metadata.shape().to_vec(),
        data_type: metadata.data_type().name().to_owned(),
        dimension_names: metadata.dimension_names().map(<[_]>::to_vec),
        has_nested_keys: metadata.key_encoding().is_nested(),
    }
}
