use std::sync::Arc;

use crate::{Array, Engine, Error, Group, Location, Node};

/// Deeper than any hierarchy that is not a loop of links.
pub(super) const MAX_DEPTH: usize = 64;

/// Visits the array at a place, or all arrays below the group there, in the order of their names.
///
/// What cannot be opened below a group is handed over as an error; only the first place has to be a node.
pub(super) fn each_array(
    engine: &Arc<Engine>,
    location: &Location,
    visit: &mut dyn FnMut(Result<Array, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    match Node::open(engine, location)? {
        Node::Array(array) => visit(Ok(array)),
        Node::Group(group) => children(&group, 0, visit),
    }
}

fn children(
    group: &Group,
    depth: usize,
    visit: &mut dyn FnMut(Result<Array, Error>) -> Result<(), Error>,
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
