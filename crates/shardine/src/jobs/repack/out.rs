//! Plans a repacked Zarr hierarchy at another location.

use super::in_place::describe;
use super::{PartOutcome, RepackError, RepackOptions, RepackOutcome, RepackedArray, target};
use crate::jobs::frame::place::check_apart;
use crate::jobs::frame::{JobContext, JobKind};
use crate::jobs::losses::refuse_array;
use crate::jobs::rebuild::{
    AxisMap, Document, NodeKeys, OutPlan, SourceRef, Step, StepDone, TargetRef, Work, make, moves,
};
use crate::jobs::walk::{ArrayRole, Scope};
use crate::jobs::whole::check_whole;
use crate::zarr::metadata::{ArrayMetadata, ChunkKeyEncoding, NodeMetadata, ZarrFormat};
use crate::zarr::{DOCUMENT, MAX_DEPTH};
use crate::{ArrayNode, Error, Group, Location, Node};

/// The object at the root of a target that marks it as unfinished, while a job writes it or after
/// one was killed.
pub const REPACK_MARKER: &str = ".shardine-repack.json";

pub(in crate::jobs) const REPACK: JobKind =
    JobKind { marker: REPACK_MARKER, member: "shardine_repack" };

/// What is to be made.
struct Planner<'a> {
    context: &'a JobContext,
    target: &'a Location,
    options: &'a RepackOptions,
    steps: Vec<Step>,
    reports: Vec<RepackedArray>,
    documents: Vec<Document>,
    nodes: NodeKeys,
}

/// Plans the new data set, with a report of each step as far as known.
pub(in crate::jobs) fn plan_repack(
    context: &JobContext,
    source: &Location,
    target: &Location,
    options: &RepackOptions,
) -> Result<(OutPlan<'static>, Vec<RepackedArray>), Error> {
    check_apart(source, target)?;
    check_whole(source, Some(target))?;
    let mut planner = Planner {
        context,
        target,
        options,
        steps: Vec::new(),
        reports: Vec::new(),
        documents: Vec::new(),
        nodes: NodeKeys::default(),
    };
    match Node::open(context.engine(), source)? {
        Node::Array(array) => {
            let metadata = planner.array(array, ArrayRole::Free, "")?;
            planner.document("", metadata.to_bytes())?;
        }
        Node::Group(group) => {
            let scope = Scope::default().within(&group, "");
            drop(planner.group(&group, &scope, "", 0)?);
        }
    }
    let Planner { steps, reports, documents, nodes, .. } = planner;
    let plan = OutPlan {
        kind: &REPACK,
        source_name: None,
        request: options.request(),
        steps,
        documents,
        others: Some(Box::new(move |path, is_folder| nodes.part(path, is_folder))),
        others_required: false,
        last_check: Box::new(|| Ok(())),
    };
    Ok((plan, reports))
}

/// Makes the new data set; `tell` is called with each array.
pub(super) fn repack(
    context: &JobContext,
    source: &Location,
    target: &Location,
    options: &RepackOptions,
    tell: &mut dyn FnMut(RepackedArray),
) -> Result<PartOutcome, Error> {
    let (plan, mut reports) = plan_repack(context, source, target, options)?;
    if options.dry_run {
        reports.into_iter().for_each(tell);
        return Ok(PartOutcome::Complete);
    }
    make(context, source, target, plan, &options.out(), &mut |i, done| {
        let StepDone { counts, resumed, check, .. } = done;
        if let Some(report) = reports.get_mut(i) {
            let mut report = std::mem::take(report);
            report.count(&counts, check);
            if resumed {
                report.outcome = RepackOutcome::Resumed;
            }
            tell(report);
        }
    })
}

impl Planner<'_> {
    /// The same path in the target.
    fn place(&self, path: &str) -> Result<Location, Error> {
        if path.is_empty() { Ok(self.target.clone()) } else { self.target.join(path) }
    }

    /// Adds a document that comes after all arrays.
    fn document(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), Error> {
        let key = self.place(path)?.key(DOCUMENT)?;
        self.documents.push(Document { key, bytes });
        Ok(())
    }

    /// The metadata of all nodes below a group, by their paths below it.
    fn group(
        &mut self,
        group: &Group,
        scope: &Scope,
        path: &str,
        depth: usize,
    ) -> Result<Vec<(String, NodeMetadata)>, Error> {
        if depth > MAX_DEPTH {
            let reason = "groups are nested too deeply".to_owned();
            return Err(RepackError::Layout { at: group.location().to_string(), reason }.into());
        }
        let mut below = Vec::new();
        for child in group.children()? {
            let inside = match path {
                "" => child.name.clone(),
                _ => format!("{path}/{}", child.name),
            };
            match child.node? {
                Node::Array(array) => {
                    let metadata = self.array(array, scope.role(&child.name), &inside)?;
                    let key = self.place(&inside)?.key(DOCUMENT)?;
                    if let Some(step) = self.steps.last_mut() {
                        step.documents.push(Document { key, bytes: metadata.to_bytes() });
                    }
                    below.push((child.name, NodeMetadata::Array(metadata)));
                }
                Node::Group(group) => {
                    let inner = scope.within(&group, &child.name);
                    let nested = self.group(&group, &inner, &inside, depth + 1)?;
                    let mut metadata = group.metadata().clone().into_v3();
                    metadata.remove_consolidated();
                    let inner = |(path, node)| (format!("{}/{path}", child.name), node);
                    let inner: Vec<_> = nested.into_iter().map(inner).collect();
                    below.push((child.name, NodeMetadata::Group(metadata)));
                    below.extend(inner);
                }
            }
        }
        let mut metadata = group.metadata().clone().into_v3();
        if group.metadata().consolidated().is_some() {
            let object = group.location().key(DOCUMENT)?;
            metadata
                .set_consolidated(&below)
                .map_err(|source| Error::Metadata { object, source: Box::new(source) })?;
        }
        self.nodes.add_group(path);
        self.document(path, metadata.to_bytes())?;
        Ok(below)
    }

    fn array(
        &mut self,
        old: ArrayNode,
        role: ArrayRole,
        path: &str,
    ) -> Result<ArrayMetadata, Error> {
        refuse_array(&old)?;
        let mut report = RepackedArray { path: path.to_owned(), ..RepackedArray::default() };
        let options = target::for_role(self.options, role, &old)?;
        let wanted = target::wanted(&old, old.metadata(), &options, key_encoding(&old))?;
        describe(&mut report, &wanted.metadata);
        let place = self.place(path)?;
        let metadata = wanted.metadata;
        let new = ArrayNode::from_metadata(self.context.engine(), &place, metadata.clone())?;
        report.moves = moves(&old, &new);
        self.reports.push(report);
        let rank = old.shape().len();
        let encodings = [*old.metadata().key_encoding(), *metadata.key_encoding()];
        self.nodes.add_array(path, encodings, rank);
        let folder = old.location().clone();
        let document = serde_json::from_slice(&metadata.to_bytes()).unwrap_or_default();
        let target = TargetRef::Zarr { path: path.to_owned(), document };
        let (old, new) = (old.into_array(), new.into_array());
        let work = Work::Array { old, axes: AxisMap::identity(rank), new };
        let (name, source) = (path.to_owned(), SourceRef::new(path, 0));
        self.steps.push(Step { name, folder, work, source, target, documents: Vec::new() });
        Ok(metadata)
    }
}

/// How the objects of the new array are named: as before, unless that is the Zarr v2 way.
fn key_encoding(old: &ArrayNode) -> ChunkKeyEncoding {
    match old.zarr_format() {
        ZarrFormat::V2 => ChunkKeyEncoding::default(),
        ZarrFormat::V3 => *old.metadata().key_encoding(),
    }
}
