//! A store, opened.

use std::sync::Arc;

use shardine_geometry::GeometryKind;
use shardine_geometry::zarr_vectors::{Level, Root, kind_from_name};

use super::error::VectorsError;
use super::level::VectorLevel;
use super::parametric;
use super::query::{VectorQuery, VectorRows};
use crate::zarr::{Group, Node};
use crate::{Engine, Error, IntoLocation, Location};

/// What a reader may be required to know, and this one does.
///
/// `fragment_link_groups` promises an order of links, which nothing here relies on.
const KNOWN_CAPABILITIES: [&str; 6] = [
    "dense_manifests",
    "fragment_index",
    "fragment_link_groups",
    "multiscale_links",
    "preserved_object_ids",
    "shared_fragments",
];

/// A store of Zarr Vectors.
#[derive(Debug)]
pub struct VectorStore {
    pub(super) engine: Arc<Engine>,
    pub(super) location: Location,
    pub(super) root: Root,
    /// The numbers of its levels, in ascending order.
    pub(super) levels: Vec<u64>,
    pub(super) kind: GeometryKind,
    pub(super) notes: Vec<String>,
}

impl VectorStore {
    /// Opens the store at a URL, a path or a [`Location`], on the shared engine.
    ///
    /// Costs a read for the root, a listing, and a read for each level.
    pub fn open(at: impl IntoLocation) -> Result<Self, Error> {
        Self::open_in(&Engine::shared()?, at)
    }

    /// Opens a store on the caller's engine. See [`open`](Self::open).
    pub fn open_in(engine: &Arc<Engine>, at: impl IntoLocation) -> Result<Self, Error> {
        let location = at.into_location()?;
        match Node::open(engine, &location)? {
            Node::Group(group) => Self::of_group(&group),
            Node::Array(_) => Err(wrong(&location, VectorsError::NotAStore)),
        }
    }

    /// Whether a group is a store, of whatever version. Reads nothing.
    pub fn is_store(group: &Group) -> bool {
        Root::is_in(group.metadata().attributes())
    }

    /// The store that a group is.
    pub fn of_group(group: &Group) -> Result<Self, Error> {
        let (engine, location) = (group.engine(), group.location());
        if !Self::is_store(group) {
            return Err(wrong(location, VectorsError::NotAStore));
        }
        let root = Root::read(group.metadata().attributes()).map_err(|source| {
            wrong(location, VectorsError::Document { node: "zarr.json".to_owned(), source })
        })?;
        let unknown = |token: &&String| !KNOWN_CAPABILITIES.contains(&token.as_str());
        let tokens: Vec<String> = root.required.iter().filter(unknown).cloned().collect();
        if !tokens.is_empty() {
            return Err(wrong(location, VectorsError::Unsupported { tokens }));
        }
        let mut store = Self {
            engine: Arc::clone(engine),
            location: location.clone(),
            root,
            levels: Vec::new(),
            kind: GeometryKind::Points,
            notes: Vec::new(),
        };
        let parametric = store.find_levels(group)?;
        store.kind = store.find_kind(parametric)?;
        Ok(store)
    }

    /// Finds the levels; returns whether there are parametric objects.
    fn find_levels(&mut self, group: &Group) -> Result<bool, Error> {
        let children = match group.children() {
            Err(Error::UnlistedGroup { .. }) => {
                self.notes.push(
                    "the store cannot list: only level 0 was looked for, and only attributes that \
                     its documents name"
                        .to_owned(),
                );
                self.levels = vec![0];
                return Ok(false);
            }
            children => children?,
        };
        let mut parametric = false;
        for child in children {
            parametric |= child.name == parametric::GROUP;
            let Ok(number) = child.name.parse::<u64>() else { continue };
            if number.to_string() == child.name
                && let Node::Group(level) = child.node?
                && Level::is_in(level.metadata().attributes())
            {
                self.levels.push(number);
            }
        }
        self.levels.sort_unstable();
        Ok(parametric)
    }

    fn find_kind(&mut self, parametric: bool) -> Result<GeometryKind, Error> {
        if parametric {
            let empty = match self.levels.first() {
                None => true,
                Some(level) => self.level_document(*level)?.vertices == 0,
            };
            if empty {
                return Ok(GeometryKind::Parametric);
            }
            self.notes.push("it also has parametric objects, which are not shown".to_owned());
        }
        let mut kinds = self.root.kinds.iter();
        let Some(name) = kinds.next() else { return Ok(GeometryKind::Points) };
        if kinds.next().is_some() {
            let tokens =
                vec![format!("geometry of several kinds ({})", self.root.kinds.join(", "))];
            return Err(self.wrong(VectorsError::Unsupported { tokens }));
        }
        let unknown = || VectorsError::Unsupported { tokens: vec![format!("geometry {name:?}")] };
        kind_from_name(name).ok_or_else(|| self.wrong(unknown()))
    }

    /// What its vertices form.
    pub fn kind(&self) -> GeometryKind {
        self.kind
    }

    /// Its document.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The numbers of its levels; 0 is the finest.
    pub fn levels(&self) -> &[u64] {
        &self.levels
    }

    /// What is worth knowing about how it was read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Begins to read what a query asks for. Reads documents, and of the index of objects what the
    /// query needs; cells are read as batches are taken.
    pub fn query(&self, query: &VectorQuery) -> Result<VectorRows, Error> {
        VectorRows::new(self, query)
    }

    pub(super) fn level_document(&self, level: u64) -> Result<Level, Error> {
        let known = || self.levels.clone();
        if !self.levels.contains(&level) {
            return Err(self.wrong(VectorsError::NoLevel { level, known: known() }));
        }
        let location = self.location.join(&level.to_string())?;
        let group = match Node::open(&self.engine, &location) {
            Ok(Node::Group(group)) => group,
            Ok(Node::Array(_)) | Err(Error::NoNode { .. }) => {
                return Err(self.wrong(VectorsError::NoLevel { level, known: known() }));
            }
            Err(error) => return Err(error),
        };
        let rank = self.root.axes.len();
        Level::read(group.metadata().attributes(), level, rank).map_err(|source| {
            self.wrong(VectorsError::Document { node: level.to_string(), source })
        })
    }

    pub(super) fn level(&self, level: u64) -> Result<VectorLevel, Error> {
        VectorLevel::open(self, level)
    }

    pub(super) fn wrong(&self, source: VectorsError) -> Error {
        wrong(&self.location, source)
    }
}

pub(super) fn wrong(location: &Location, source: VectorsError) -> Error {
    Error::Vectors { at: location.to_string(), source: Box::new(source) }
}
