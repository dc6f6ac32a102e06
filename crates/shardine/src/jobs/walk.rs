use std::sync::Arc;

use crate::zarr::MAX_DEPTH;
use crate::{Array, ArrayNode, Engine, Error, Group, Location, Node, open_in};

/// Visits the Zarr array at a location, or all arrays below the group there, in order of their
/// names.
///
/// What cannot be opened below a group is passed on as an error; only the location itself has to be
/// a node.
pub(super) fn each_array(
    engine: &Arc<Engine>,
    location: &Location,
    visit: &mut dyn FnMut(Result<ArrayNode, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    in_node(Node::open(engine, location)?, visit)
}

/// The same for the arrays of a data set of any format.
pub(super) fn each_array_or_scale(
    engine: &Arc<Engine>,
    location: &Location,
    visit: &mut dyn FnMut(Result<Array, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    open_in(engine, location)?.each_array(visit)
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
