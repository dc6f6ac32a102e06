//! Whether a correction of a document still follows from what is stored.

use shardine_geometry::zarr_vectors::rules::{Correction, Extent, VertexRules};
use shardine_geometry::zarr_vectors::{
    Level, LinkArray, LinkFamily, LinkOffsets, ObjectIndex, Ragged, Root, StoredType, Values,
    parse_delta_segment,
};

use super::{CellArray, each_block};
use crate::jobs::check::keyed::last_part;
use crate::jobs::frame::JobContext;
use crate::zarr::{Group, Node};
use crate::{ArrayNode, Error, Location, Region};

/// Looks at what is stored again, and says whether the document of `node`, in the store at
/// `store`, would be corrected in the same way. Costs reading what the correction counts.
pub(in crate::jobs) fn follows(
    context: &JobContext,
    store: &Location,
    node: &Location,
    correction: &Correction,
) -> Result<bool, Error> {
    let engine = context.engine();
    match correction {
        Correction::ChunkList { chunks, .. } => {
            let array = ArrayNode::open(engine, node)?;
            let rank = array.shape().len();
            let Ok(mut array) = CellArray::new(array, rank) else { return Ok(false) };
            array.look()?;
            Ok(array.stored.is_complete() && array.stored.sorted() == *chunks)
        }
        Correction::Vertices { count } => {
            Ok(vertices(context, store, node)?.is_some_and(|(rows, _)| rows == *count))
        }
        Correction::Bounds { .. } => {
            let finest = node.join("0")?;
            let found = vertices(context, store, &finest)?;
            Ok(found.is_some_and(|(_, extent)| {
                Correction::bounds(&extent).as_ref() == Some(correction)
            }))
        }
        Correction::Objects { objects, present } => {
            Ok(objects_of(context, store, node)? == Some((*objects, *present)))
        }
        Correction::Links { records, .. } => {
            Ok(links(context, node)?.is_some_and(|found| found == *records))
        }
    }
}

fn group(context: &JobContext, at: &Location) -> Result<Option<Group>, Error> {
    match Node::open(context.engine(), at) {
        Ok(Node::Group(group)) => Ok(Some(group)),
        Ok(Node::Array(_)) | Err(Error::NoNode { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The documents of a store and of a level of it; `None` if they cannot be understood.
fn documents(
    context: &JobContext,
    store: &Location,
    level: &Location,
) -> Result<Option<(Root, Level)>, Error> {
    let Some(root) = group(context, store)? else { return Ok(None) };
    let Ok(root) = Root::read(root.metadata().attributes()) else { return Ok(None) };
    let Some(group) = group(context, level)? else { return Ok(None) };
    let number = level.path.as_ref().and_then(|path| last_part(path).parse().ok()).unwrap_or(0);
    let document = Level::read(group.metadata().attributes(), number, root.axes.len());
    Ok(document.ok().map(|document| (root, document)))
}

/// The vertices of a level: how many, and where. `None` if not all can be counted.
fn vertices(
    context: &JobContext,
    store: &Location,
    level: &Location,
) -> Result<Option<(u64, Extent)>, Error> {
    let Some((root, document)) = documents(context, store, level)? else { return Ok(None) };
    let rank = root.axes.len();
    let array = ArrayNode::open(context.engine(), &level.join("vertices")?)?;
    let Ok(mut array) = CellArray::new(array, document.grid_rank(rank)) else { return Ok(None) };
    let dtype = array.attributes().get("dtype").and_then(|dtype| dtype.as_str());
    let stored = StoredType::of_coordinates(dtype.unwrap_or("float32"));
    let Some(stored) = stored else { return Ok(None) };
    array.look()?;
    let rules = VertexRules {
        scalar: stored.scalar,
        swapped: stored.swapped,
        chunk_shape: document.chunk_shape.clone().unwrap_or(root.chunk_shape),
        offset: root.coordinate_offset,
    };
    let skip = usize::from(document.chunk_attribute.is_some());
    let (mut count, mut extent) = (Some(0u64), Extent::new(rank));
    count_cells(context, &array, &mut |chunk, bytes| {
        let space = chunk.get(skip..).unwrap_or_default();
        let rows = rules.judge(bytes, space, &mut extent, &mut Vec::new());
        count = count.zip(rows).map(|(count, rows)| count + rows);
    })?;
    Ok(count.filter(|_| array.stored.is_complete()).map(|count| (count, extent)))
}

/// Hands the stored cells of an array to `each`; an error if one cannot be read.
fn count_cells(
    context: &JobContext,
    array: &CellArray,
    each: &mut dyn FnMut(&[i64], &[u8]),
) -> Result<(), Error> {
    let chunks = array.chunks();
    let mut done = 0;
    let mut failed = Ok(());
    while let Some(rest) = chunks.get(done..).filter(|rest| !rest.is_empty()) {
        context.check()?;
        let now = &rest[..array.at_once(context.engine(), rest)];
        array.each(context.engine(), now, &mut |at, bytes| match bytes {
            Ok(bytes) => each(&now[at], bytes),
            Err(error) => failed = Err(error),
        });
        done += now.len();
        std::mem::replace(&mut failed, Ok(()))?;
    }
    Ok(())
}

/// How many rows the index of objects has, and how many of them have a fragment; `None` if not all
/// can be counted.
fn objects_of(
    context: &JobContext,
    store: &Location,
    index: &Location,
) -> Result<Option<(u64, u64)>, Error> {
    let Some((level, _)) = index.parent()? else { return Ok(None) };
    let Some((root, document)) = documents(context, store, &level)? else { return Ok(None) };
    let Some(group) = group(context, index)? else { return Ok(None) };
    let manifests = match ArrayNode::open(context.engine(), &index.join("manifests")?) {
        Ok(manifests) => manifests,
        Err(Error::NoNode { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let rank = document.grid_rank(root.axes.len());
    let document = ObjectIndex::read(group.metadata().attributes(), rank);
    let ([rows], Ok(document)) = (manifests.shape(), document) else { return Ok(None) };
    let (rows, mut present) = (*rows, 0);
    let step = manifests.chunk_shape().first().copied().unwrap_or(1).max(1);
    let mut start = 0;
    while start < rows {
        context.check()?;
        let count = step.min(rows - start);
        let read = manifests.read_many_variable(&[Region::of_box(&[start], &[count])])?;
        for manifest in read.iter() {
            match each_block(manifest, document.rank, |_| Ok(())) {
                Ok(is_present) => present += u64::from(is_present),
                Err(_) => return Ok(None),
            }
        }
        start += count;
    }
    Ok(Some((rows, present)))
}

/// How many links the group of links to one level has stored; `None` if not all can be counted.
fn links(context: &JobContext, family: &Location) -> Result<Option<u64>, Error> {
    let Some(group) = group(context, family)? else { return Ok(None) };
    let delta = family.path.as_ref().and_then(|path| parse_delta_segment(last_part(path)));
    let Some(delta) = delta else { return Ok(None) };
    let mut records = 0;
    for child in group.children()? {
        let Node::Array(array) = child.node? else { return Ok(None) };
        let rank = array.shape().len();
        let attributes = group.metadata().attributes();
        let document = LinkFamily::read(attributes, delta, rank);
        let offsets = LinkOffsets::parse(&child.name, rank, document.width);
        let (Ok(offsets), Ok(mut array)) = (offsets, CellArray::new(array, rank)) else {
            return Ok(None);
        };
        let rows = LinkArray::read(array.attributes(), &document, offsets.is_within());
        let Ok(rows) = rows else { return Ok(None) };
        array.look()?;
        let row = rows.row_size();
        let mut whole = array.stored.is_complete();
        count_cells(context, &array, &mut |_, bytes| {
            let links = match offsets.is_within() && delta == 0 {
                true => Values::new(bytes, row).map(|_| bytes.len()),
                false => Ragged::parse(bytes, row).map(|ragged| ragged.rows().len()),
            };
            match links {
                Ok(links) => records += (links / row.max(1)) as u64,
                Err(_) => whole = false,
            }
        })?;
        if !whole {
            return Ok(None);
        }
    }
    Ok(Some(records))
}
