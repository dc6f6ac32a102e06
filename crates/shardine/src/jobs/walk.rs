use std::sync::Arc;

use shardine_geometry::zarr_vectors::{LEVEL_ATTRIBUTE, STORE_ATTRIBUTE, holds_cells};

use crate::zarr::MAX_DEPTH;
use crate::{Array, ArrayNode, Engine, Error, Group, Location, Node, open_in};

/// What an array is to the data set around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ArrayRole {
    /// Nothing is known of it but its own metadata.
    #[default]
    Free,
    /// Its elements are the chunks of space of vector data: they stay chunks.
    Cells,
    /// A table beside such arrays, with a row for each object: it has axes of its own, and is not
    /// packed with them unless that is requested.
    Table,
}

/// What the groups around an array say about its role.
#[derive(Debug, Clone, Default)]
pub(super) enum Scope {
    #[default]
    Plain,
    /// In vector data, above its levels.
    Store,
    /// In a level of vector data, at this path below it; with a slash at the end unless it is the
    /// level itself.
    Level(String),
}

impl Scope {
    /// The scope of what is in a group, which is itself in this one under a name.
    pub fn within(&self, group: &Group, name: &str) -> Self {
        let attributes = group.metadata().attributes();
        if attributes.contains_key(LEVEL_ATTRIBUTE) {
            return Self::Level(String::new());
        }
        if attributes.contains_key(STORE_ATTRIBUTE) {
            return Self::Store;
        }
        match self {
            Self::Level(path) => Self::Level(format!("{path}{name}/")),
            other => other.clone(),
        }
    }

    /// The role of an array in it.
    pub fn role(&self, name: &str) -> ArrayRole {
        match self {
            Self::Plain => ArrayRole::Free,
            Self::Level(path) if holds_cells(&format!("{path}{name}")) => ArrayRole::Cells,
            Self::Store | Self::Level(_) => ArrayRole::Table,
        }
    }
}

/// Visits the Zarr array at a location, or all arrays below the group there, in order of their
/// names, each with its role in the group.
///
/// What cannot be opened below a group is passed on as an error; only the location itself has to be
/// a node.
pub(super) fn each_array(
    engine: &Arc<Engine>,
    location: &Location,
    visit: &mut dyn FnMut(Result<ArrayNode, Error>, ArrayRole) -> Result<(), Error>,
) -> Result<(), Error> {
    match Node::open(engine, location)? {
        Node::Array(array) => visit(Ok(array), ArrayRole::Free),
        Node::Group(group) => {
            let scope = Scope::default().within(&group, "");
            children(&group, &scope, 0, visit)
        }
    }
}

/// The same for the arrays of a data set of any format.
pub(super) fn each_array_or_scale(
    engine: &Arc<Engine>,
    location: &Location,
    visit: &mut dyn FnMut(Result<Array, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    open_in(engine, location)?.each_array(visit)
}

fn children(
    group: &Group,
    scope: &Scope,
    depth: usize,
    visit: &mut dyn FnMut(Result<ArrayNode, Error>, ArrayRole) -> Result<(), Error>,
) -> Result<(), Error> {
    for child in group.children()? {
        let role = scope.role(&child.name);
        match child.node {
            Ok(Node::Array(array)) => visit(Ok(array), role)?,
            Ok(Node::Group(group)) if depth < MAX_DEPTH => {
                let inner = scope.within(&group, &child.name);
                children(&group, &inner, depth + 1, visit)?;
            }
            Ok(Node::Group(group)) => {
                let at = group.location().to_string();
                visit(Err(Error::TooDeep { at, most: MAX_DEPTH }), role)?;
            }
            Err(error) => visit(Err(error), role)?,
        }
    }
    Ok(())
}
