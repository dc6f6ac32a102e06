//! The plan of a new Zarr hierarchy of either version: its arrays as steps, and all documents.

use serde_json::Value;

use super::super::frame::JobContext;
use super::super::frame::place::below;
use super::super::rebuild::{
    AxisMap, Document, NodeKeys, OutPlan, SourceRef, Step, TargetRef, Work, relates,
};
use super::nodes::OldArray;
use super::options::{ConvertSummary, ConvertedLevel};
use super::planned::Planned;
use super::{CONVERT, ConvertError};
use crate::zarr::metadata::{
    ArrayMetadata, ChunkKeyEncoding, GroupMetadata, MetadataError, NodeMetadata, Separator,
    V2Array, ZarrFormat, v2_consolidated,
};
use crate::zarr::{DOCUMENT, V2_ARRAY, V2_ATTRIBUTES, V2_CONSOLIDATED, V2_GROUP};
use crate::{ArrayNode, Error, Location};

/// A hierarchy under construction. Every node is added after those below it.
pub(super) struct Hierarchy<'a> {
    pub context: &'a JobContext,
    source: &'a Location,
    target: &'a Location,
    form: NodeForm,
    pub steps: Vec<Step>,
    /// The levels that each step makes.
    pub reports: Vec<Vec<ConvertedLevel>>,
    /// The documents of groups, and of an array that is the root.
    documents: Vec<Document>,
    /// What consolidated metadata of groups above says of the nodes.
    pub nodes: Vec<(String, NodeDocuments)>,
    /// What in the source's folder belongs to nodes.
    pub keys: NodeKeys,
}

/// Which documents are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeForm {
    V3,
    V2 { separator: Option<Separator> },
}

/// What a group above may repeat.
#[expect(clippy::large_enum_variant, reason = "there is one for each node")]
pub(super) enum NodeDocuments {
    V3(NodeMetadata),
    V2(Vec<(&'static str, Vec<u8>)>),
}

/// An array of the hierarchy.
pub(super) struct PlannedArray {
    pub old: OldArray,
    pub axes: AxisMap,
    /// In terms of version 3.
    pub metadata: ArrayMetadata,
    /// Whether version 2 gets the names of the dimensions as an attribute.
    pub named: bool,
    pub report: ConvertedLevel,
}

impl<'a> Hierarchy<'a> {
    pub fn new(
        context: &'a JobContext,
        source: &'a Location,
        target: &'a Location,
        form: NodeForm,
    ) -> Self {
        let (steps, reports, documents) = (Vec::new(), Vec::new(), Vec::new());
        let (nodes, keys) = (Vec::new(), NodeKeys::default());
        Self { context, source, target, form, steps, reports, documents, nodes, keys }
    }

    pub fn place(&self, path: &str) -> Result<Location, Error> {
        if path.is_empty() { Ok(self.target.clone()) } else { self.target.join(path) }
    }

    pub fn document(&self, path: &str, name: &str, bytes: Vec<u8>) -> Result<Document, Error> {
        Ok(Document { key: self.place(path)?.key(name)?, bytes })
    }

    /// Adds an array that is made from one of the source.
    pub fn array(&mut self, path: &str, planned: PlannedArray) -> Result<(), Error> {
        let PlannedArray { old, axes, metadata, named, mut report } = planned;
        let place = self.place(path)?;
        let at = old.at();
        let refuse = |source: MetadataError| {
            Error::from(ConvertError::Metadata { at: at.clone(), source: Box::new(source) })
        };
        let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let name = path.to_owned();
        let (metadata, target, texts) = match self.form {
            NodeForm::V3 => {
                let metadata = metadata.into_v3();
                let bytes = metadata.to_bytes();
                let target = TargetRef::Zarr { path: name.clone(), document: json(&bytes) };
                self.nodes.push((name, NodeDocuments::V3(NodeMetadata::Array(metadata.clone()))));
                (metadata, target, vec![(DOCUMENT, bytes)])
            }
            NodeForm::V2 { separator } => {
                let separator = separator.unwrap_or(own_separator(&old));
                let made = metadata.to_v2(separator, named).map_err(refuse)?;
                let V2Array { metadata, zarray, zattrs } = made;
                let attributes = zattrs.as_deref().map(json).unwrap_or_default();
                let target = TargetRef::ZarrV2 {
                    path: name.clone(),
                    zarray: json(&zarray),
                    zattrs: attributes,
                };
                let texts = texts_of((V2_ARRAY, zarray), zattrs);
                self.nodes.push((name, NodeDocuments::V2(texts.clone())));
                (metadata, target, texts)
            }
        };
        self.name_objects(&old, Some(*metadata.key_encoding()));
        let new = ArrayNode::from_metadata(self.context.engine(), &place, metadata)?;
        report.level = old.level;
        report.source.clone_from(&old.name);
        report.target = path.to_owned();
        report.shape = new.shape().to_vec();
        report.chunk_shape = new.chunk_shape().to_vec();
        report.shard_shape = new.shard_shape().map(<[u64]>::to_vec);
        report.moves = relates(&old.array, &axes, &new);
        self.reports.push(vec![report]);
        let mut documents = Vec::new();
        for (name, bytes) in texts {
            documents.push(self.document(path, name, bytes)?);
        }
        if path.is_empty() {
            self.documents.append(&mut documents);
        }
        let source = SourceRef::new(below(self.source, &old.folder), old.level);
        let work = Work::Array { old: old.array, axes, new: new.into_array() };
        let (name, folder) = (path.to_owned(), old.folder);
        self.steps.push(Step { name, folder, work, source, target, documents });
        Ok(())
    }

    /// Says how the objects of an array of the source are named, and how they will be.
    fn name_objects(&mut self, old: &OldArray, new: Option<ChunkKeyEncoding>) {
        let Some(own) = &old.metadata else { return };
        let own = *own.key_encoding();
        let place = below(self.source, &old.folder).to_owned();
        self.keys.add_array(&place, [own, new.unwrap_or(own)], old.array.shape().len());
    }

    /// Leaves an array of the source out, with its objects and documents.
    pub fn leave_out(&mut self, old: &OldArray) {
        self.name_objects(old, None);
    }

    /// Says which level of an image the last array is.
    pub fn number_level(&mut self, level: usize) {
        if let Some(report) = self.reports.last_mut().and_then(|reports| reports.first_mut()) {
            report.level = level;
        }
    }

    /// Adds a group, all of whose nodes were added.
    pub fn group(
        &mut self,
        path: &str,
        mut metadata: GroupMetadata,
        consolidated: bool,
    ) -> Result<(), Error> {
        let place = self.place(path)?;
        let refuse = |source: MetadataError| {
            Error::from(ConvertError::Metadata { at: place.to_string(), source: Box::new(source) })
        };
        self.keys.add_group(path);
        match self.form {
            NodeForm::V3 => {
                let own = NodeDocuments::V3(NodeMetadata::Group(metadata.clone()));
                if consolidated {
                    metadata.set_consolidated(&self.metadata_below(path)).map_err(refuse)?;
                }
                self.nodes.push((path.to_owned(), own));
                let document = self.document(path, DOCUMENT, metadata.to_bytes())?;
                self.documents.push(document);
            }
            NodeForm::V2 { .. } => {
                let (zgroup, zattrs) = metadata.to_v2().map_err(refuse)?;
                let texts = texts_of((V2_GROUP, zgroup), zattrs);
                self.nodes.push((path.to_owned(), NodeDocuments::V2(texts.clone())));
                for (name, bytes) in texts {
                    let document = self.document(path, name, bytes)?;
                    self.documents.push(document);
                }
                if consolidated {
                    let all = v2_consolidated(&self.documents_below(path)).map_err(refuse)?;
                    let document = self.document(path, V2_CONSOLIDATED, all)?;
                    self.documents.push(document);
                }
            }
        }
        Ok(())
    }

    /// The nodes below a group, by their paths below it, in their order.
    fn inside<'b>(&'b self, path: &str) -> Vec<(&'b str, &'b NodeDocuments)> {
        let inside = |(node, documents): &'b (String, NodeDocuments)| {
            let rest = match path {
                "" => Some(node.as_str()),
                path => match node.strip_prefix(path)? {
                    "" => Some(""),
                    rest => rest.strip_prefix('/'),
                },
            };
            Some((rest?, documents))
        };
        let mut found: Vec<_> = self.nodes.iter().filter_map(inside).collect();
        found.sort_by_key(|(path, _)| *path);
        found
    }

    fn metadata_below(&self, path: &str) -> Vec<(String, NodeMetadata)> {
        let node = |(path, documents): (&str, &NodeDocuments)| match documents {
            NodeDocuments::V3(node) => Some((path.to_owned(), node.clone())),
            NodeDocuments::V2(_) => None,
        };
        self.inside(path).into_iter().filter_map(node).collect()
    }

    /// The documents of a group and of all nodes below it, by key.
    fn documents_below(&self, path: &str) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        for (path, documents) in self.inside(path) {
            let NodeDocuments::V2(texts) = documents else { continue };
            let key = |name: &str| match path {
                "" => name.to_owned(),
                path => format!("{path}/{name}"),
            };
            all.extend(texts.iter().map(|(name, bytes)| (key(name), bytes.clone())));
        }
        all
    }

    /// The plan, with reports as far as known. `carries` says whether everything else in the
    /// source's folder goes along.
    pub fn plan(self, request: Value, carries: bool, summary: ConvertSummary) -> Planned {
        let keys = self.keys;
        let plan = OutPlan {
            kind: &CONVERT,
            source_name: None,
            request,
            steps: self.steps,
            documents: self.documents,
            others: match carries {
                true => Some(Box::new(move |path, is_folder| keys.part(path, is_folder))),
                false => None,
            },
            others_required: false,
            last_check: Box::new(|| Ok(())),
        };
        Planned { plan, reports: self.reports, summary }
    }
}

/// How an array of version 2 separates the numbers in keys; other formats have no say in it.
fn own_separator(old: &OldArray) -> Separator {
    match old.metadata.as_ref().filter(|own| own.zarr_format() == ZarrFormat::V2) {
        Some(own) => match own.key_encoding() {
            ChunkKeyEncoding::V2 { separator } | ChunkKeyEncoding::Default { separator } => {
                *separator
            }
        },
        None => Separator::Dot,
    }
}

/// The documents of a node of version 2, the one that makes it a node last.
fn texts_of(
    (name, making): (&'static str, Vec<u8>),
    zattrs: Option<Vec<u8>>,
) -> Vec<(&'static str, Vec<u8>)> {
    let zattrs = zattrs.map(|zattrs| (V2_ATTRIBUTES, zattrs));
    zattrs.into_iter().chain([(name, making)]).collect()
}
