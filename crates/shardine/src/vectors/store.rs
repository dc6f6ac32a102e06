//! A store, opened.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use shardine_geometry::GeometryKind;
use shardine_geometry::zarr_vectors::{Level, Root, kind_from_name};
use shardine_store::StoreError;

use super::error::VectorsError;
use super::level::VectorLevel;
use super::parametric;
use super::probe;
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
    /// The paths of all nodes that the consolidated metadata of the root names, if it has any.
    consolidated: Option<BTreeSet<String>>,
    /// Whether it cannot list.
    unlisted: bool,
    /// Levels that were opened: with their arrays open, what the engine knows of shards is kept.
    open: Mutex<Vec<Arc<VectorLevel>>>,
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
            consolidated: group
                .metadata()
                .consolidated()
                .map(|known| known.iter().map(|(path, _)| path.clone()).collect()),
            unlisted: false,
            open: Mutex::default(),
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
                    "the store cannot list: only attributes that its documents name were looked for"
                        .to_owned(),
                );
                self.unlisted = true;
                let mut children = probe::levels(self, group.metadata().attributes())?;
                children.extend(probe::named(self, "", [parametric::GROUP.to_owned()])?);
                children
            }
            children => children?,
        };
        if self.notes.is_empty() && children.iter().any(|child| !child.listed) {
            self.unlisted = true;
            let note = "the store cannot list: it has what its consolidated metadata names";
            self.notes.push(note.to_owned());
        }
        let mut parametric = false;
        for child in children {
            if child.name == parametric::GROUP {
                child.node?;
                parametric = true;
                continue;
            }
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
            let objects = match parametric::count(self)? {
                1 => "1 parametric object".to_owned(),
                count => format!("{count} parametric objects"),
            };
            self.notes.push(format!("it also has {objects}, which are asked for by themselves"));
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

    /// The node at `path`.
    ///
    /// Where the store cannot list, it has what consolidated metadata of the root names, and is not
    /// asked for anything else. Without such metadata it has to be asked, and one that refuses has
    /// not said that there is none.
    pub(super) fn node(&self, path: &str) -> Result<Node, Error> {
        let location = self.location.join(path)?;
        let known = self.consolidated.as_ref().filter(|_| self.unlisted);
        if known.is_some_and(|known| !known.contains(path)) {
            return Err(Error::NoNode { at: location.to_string() });
        }
        Node::open(&self.engine, &location).map_err(|error| match error {
            Error::Store(source) if self.unlisted && known.is_none() && is_denied(&source) => {
                self.wrong(VectorsError::Undecided { node: path.to_owned(), source })
            }
            error => error,
        })
    }

    /// The nodes in the group at `path` that consolidated metadata of the root names; `None` if it
    /// has none.
    pub(super) fn known_below(&self, path: &str) -> Option<Vec<String>> {
        let below = |known: &String| {
            let name = known.strip_prefix(path)?.strip_prefix('/')?;
            (!name.contains('/')).then(|| name.to_owned())
        };
        Some(self.consolidated.as_ref()?.iter().filter_map(below).collect())
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

    /// Begins to read what a query asks for. Reads documents, those of a level once, and of the
    /// index of objects what the query needs; cells are read as batches are taken.
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

    /// A level, opened once: its documents are those of the first query.
    pub(super) fn level(&self, level: u64) -> Result<Arc<VectorLevel>, Error> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = open.iter().find(|one| one.document.level == level) {
            return Ok(Arc::clone(found));
        }
        let opened = Arc::new(VectorLevel::open(self, level)?);
        open.push(Arc::clone(&opened));
        Ok(opened)
    }

    pub(super) fn wrong(&self, source: VectorsError) -> Error {
        wrong(&self.location, source)
    }
}

/// Whether a store refuses to answer. Some servers do so for everything that they do not have.
fn is_denied(error: &StoreError) -> bool {
    let denied = io::ErrorKind::PermissionDenied;
    matches!(error, StoreError::Io { source, .. } if source.kind() == denied)
}

pub(super) fn wrong(location: &Location, source: VectorsError) -> Error {
    Error::Vectors { at: location.to_string(), source: Box::new(source) }
}
