use std::sync::Arc;

use crate::precomputed::Volume;
use crate::zarr::MAX_DEPTH;
use crate::{Array, ArrayNode, DataSet, Engine, Error, Group, Location, Node, open};

/// Visits the Zarr array at a place, or all arrays below the group there, in the order of their names.
///
/// What cannot be opened below a group is handed over as an error; only the first place has to be a node.
pub(super) fn each_array(
    engine: &Arc<Engine>,
    location: &Location,
    visit: &mut dyn FnMut(Result<ArrayNode, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    in_node(Node::open(engine, location)?, visit)
}

/// The same, or where there is a volume, its scales.
pub(super) fn each_array_or_scale(
    engine: &Arc<Engine>,
    location: &Location,
    visit: &mut dyn FnMut(Result<Array, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut array = |array: Result<ArrayNode, Error>| visit(array.map(ArrayNode::into_array));
    match open(engine, location)? {
        DataSet::Array(node) => in_node(Node::Array(node), &mut array),
        DataSet::Group(group) => in_node(Node::Group(group), &mut array),
        DataSet::Volume(volume) => levels(&volume, visit),
        DataSet::KeyValues(folders) => Err(folders.not_a_volume()),
    }
}

fn in_node(
    node: Node,
    visit: &mut dyn FnMut(Result<ArrayNode, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    match node {
        Node::Array(array) => visit(Ok(array)),
        Node::Group(group) => children(&group, 0, visit),
    }
}

fn levels(
    volume: &Volume,
    visit: &mut dyn FnMut(Result<Array, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    (0..volume.info().scales().len()).try_for_each(|level| visit(volume.array(level)))
}

fn children(
    group: &Group,
    depth: usize,
    visit: &mut dyn FnMut(Result<ArrayNode, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    for child in group.children()? {
        match child.node {
            Ok(Node::Array(array)) => visit(Ok(array))?,
            Ok(Node::Group(group)) if depth < MAX_DEPTH => children(&group, depth + 1, visit)?,
            Ok(Node::Group(group)) => {
                let at = group.location().to_string();
                visit(Err(Error::TooDeep { at, most: MAX_DEPTH }))?;
            }
            Err(error) => visit(Err(error))?,
        }
    }
    Ok(())
}
