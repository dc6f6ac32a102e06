//! The rules of OME-Zarr in a hierarchy, judged as the walk enters and leaves its groups.
//!
//! A group is judged on its own when it is entered, and with what is below it when it is left: by
//! then the walk has read those documents anyway. What is known of them is kept only as long as a
//! group above can ask.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_store::{Key, Listing};

use super::hierarchy::{refusal, settled_document};
use crate::jobs::check::keyed::last_part;
use crate::jobs::check::{Finding, FindingKind, Run, Untold};
use crate::ome::rules::{
    self, ArrayFacts, GroupFacts, NodeFacts, Violations, between_labels, label_relations,
    label_source, relations, scene_relations, source_relations, unlisted_labels, version_relations,
    well_relations,
};
use crate::zarr::metadata::{ArrayMetadata, GroupMetadata, NodeMetadata};
use crate::zarr::{ZarrFormat, attribute_name};
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
        Self { run, open: Vec::new(), remembered: 0 }
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
        let found = match is_sure {
            true => rules::sure_violations(attributes, Some(number)),
            false => rules::violations(attributes, Some(number)),
        };
        let facts = GroupFacts::read(attributes);
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
        self.open.push(OpenGroup { location, document, format, attributes, facts, nodes });
        Ok(())
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
        let mut looked_up = 0;
        let mut find = |path: &str| match group.nodes.get(path) {
            Some(node) => node.clone(),
            None => {
                looked_up += 1;
                self.look_up(&group.location, path, looked_up <= LOOKED_UP)
            }
        };
        let above = self.open.iter().rev().find(|outer| outer.attributes.is_some());
        let is_label = above.is_some_and(|outer| outer.has("labels"));
        let (found, image) = rules::levels(attributes, is_label, &mut find);
        self.tell(&group.document, &found);
        self.tell(&group.document, &relations(attributes, &mut find));
        self.tell(&group.document, &scene_relations(attributes, &mut find));
        let plate = self.open.iter().rev().find(|outer| outer.has("plate"));
        if let Some(plate) = plate.and_then(|plate| plate.attributes.as_ref()) {
            self.tell(&group.document, &well_relations(attributes, plate));
        }
        if let Some(source) = label_source(attributes)
            && let Some(found) = self.source(&group.location, source)
        {
            self.tell(&group.document, &source_relations(attributes, &found));
        }
        if !is_label {
            let images = images(&group.nodes).map(|(path, _)| path);
            self.tell(&group.document, &unlisted_labels(attributes, images));
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
        match settled_document(place) {
            Ok(NodeMetadata::Array(metadata)) => NodeFacts::Array(Arc::new(array_facts(&metadata))),
            Ok(NodeMetadata::Group(metadata)) => {
                NodeFacts::Group(Arc::new(GroupFacts::read(metadata.attributes())))
            }
            Err(Error::NoNode { .. }) => NodeFacts::Missing,
            // A document that is refused is reported where it is.
            Err(error) if refusal(&error).is_some() => NodeFacts::Unknown,
            Err(error) => {
                self.run.unreadable(place.path.as_ref(), &error);
                NodeFacts::Unknown
            }
        }
    }

    fn tell(&self, document: &Key, violations: &Violations) {
        tell_violations(self.run, document, violations);
    }
}

/// Reports what is wrong with a document.
pub(super) fn tell_violations(run: &Run<'_>, document: &Key, violations: &Violations) {
    for violation in &violations.list {
        run.note(Finding::of_rule(document, violation));
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

fn array_facts(metadata: &ArrayMetadata) -> ArrayFacts {
    ArrayFacts {
        shape: metadata.shape().to_vec(),
        data_type: metadata.data_type().name().to_owned(),
        dimension_names: metadata.dimension_names().map(<[_]>::to_vec),
        has_nested_keys: metadata.key_encoding().is_nested(),
    }
}
