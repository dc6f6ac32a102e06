//! Data sets, whatever their format.
//!
//! A format implements [`DataSet`], and the list in `dataset.rs` names its opener. What works on
//! any data set goes through the trait; what is specific to a format downcasts with `downcast_ref`.

use std::any::Any;
use std::fmt::Debug;

use serde_json::{Map, Value};
use shardine_store::Key;

use crate::engine::GridKey;
use crate::physical::{PhysicalAxis, PhysicalBox};
use crate::{Array, Error, Location, Region, RegionAxes, RegionText};

/// How deep data sets may be nested: deeper than any hierarchy that is not a loop of links.
pub const MAX_DEPTH: usize = 64;

/// A data set: what the documents at a location describe.
///
/// ```
/// use shardine::store::{Condition, Key, StoreExt};
/// use shardine::{Error, Group, Location, SetKind, open};
///
/// let place = Location::memory();
/// assert!(matches!(open(&place), Err(Error::NoNode { .. })));
/// let document = br#"{"zarr_format": 3, "node_type": "group", "attributes": {}}"#;
/// place.store.put(&Key::new("zarr.json")?, document, Condition::None)?;
/// let set = open(&place)?;
/// assert_eq!((set.format(), set.kind()), ("zarr3", SetKind::Group));
/// assert!(set.parts()?.is_empty());
/// assert!(set.is::<Group>());
/// # Ok::<(), Error>(())
/// ```
pub trait DataSet: Any + Debug + Send + Sync {
    /// The format that it is stored in, in one word: `zarr3`, `zarr2`, `precomputed`, `wkw`.
    fn format(&self) -> &'static str;

    /// What it consists of.
    fn kind(&self) -> SetKind;

    /// Where its documents are.
    fn location(&self) -> &Location;

    /// The keys that its own documents have or may have; the last is the one without which there is
    /// no data set. Nested sets have their own.
    fn documents(&self) -> Result<Vec<Key>, Error>;

    /// Its parts: for an array the array itself, for levels the finest first.
    ///
    /// A part that cannot be opened does not hide the others: its name comes with the error. Costs
    /// what the format needs to open all of them: for a Zarr group a listing and a read for each
    /// folder, for the levels of a volume nothing.
    fn parts(&self) -> Result<Vec<SetPart>, Error>;

    /// The names of its levels, the finest first; none if it has no levels. An OME-Zarr image has
    /// levels, and is a group: other things may be beside them.
    fn levels(&self) -> Result<Vec<String>, Error> {
        match self.kind() {
            SetKind::Levels => Ok(self.parts()?.into_iter().map(|part| part.name).collect()),
            SetKind::Array | SetKind::Group | SetKind::KeyValues => Ok(Vec::new()),
        }
    }

    /// A new handle to its array, or to one of its levels; 0 is the finest. [`Error::NoLevel`] if
    /// there is no such level, [`Error::NotAnArray`] if it is a group without levels.
    fn array(&self, level: usize) -> Result<Array, Error> {
        let at = || self.location().to_string();
        match self.kind() {
            SetKind::Array | SetKind::Levels => {}
            SetKind::Group | SetKind::KeyValues => return Err(Error::NotAnArray { at: at() }),
        }
        let parts = self.parts()?;
        let levels = parts.len();
        match parts.into_iter().nth(level).map(|part| part.content) {
            Some(Ok(PartContent::Array(array))) => Ok(array),
            Some(Err(error)) => Err(error),
            Some(Ok(_)) => Err(Error::NotAnArray { at: at() }),
            None => Err(Error::NoLevel { at: at(), level, levels }),
        }
    }

    /// The name of its format, if that is read-only here: nothing writes to its data sets, and no
    /// job repairs them. `None` for all others.
    fn only_read(&self) -> Option<&'static str> {
        None
    }

    /// The attributes to keep in a Zarr group made from it, or with `level` in the array of that
    /// level, so that nothing in its documents is lost.
    fn attributes(&self, _level: Option<usize>) -> Map<String, Value> {
        Map::new()
    }

    /// The coordinates of the first element of its array, or of that of a level: the `voxel_offset` of
    /// a precomputed volume. `None` if elements of its format have no coordinates.
    fn origin(&self, _level: usize) -> Option<Vec<i64>> {
        None
    }

    /// Where the elements of its array are, or of that of a level: an axis for each of the array's.
    /// `None` if its documents do not say. Reads nothing.
    fn physical(&self, _level: usize) -> Result<Option<Vec<PhysicalAxis>>, Error> {
        Ok(None)
    }

    /// Other facts from its documents that are worth showing, by name.
    fn facts(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
}

/// What a data set consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetKind {
    /// A single array.
    Array,
    /// The same data at different resolutions, the finest first.
    Levels,
    /// Arrays and data sets, by name.
    Group,
    /// Folders of values by 64-bit key.
    KeyValues,
}

/// A part of a data set.
#[derive(Debug)]
#[non_exhaustive]
pub struct SetPart {
    /// Its name in the data set; empty if it is the whole data set.
    pub name: String,
    /// What it is, or why it cannot be opened.
    pub content: Result<PartContent, Error>,
    /// Whether it was found in the store. If not, the store cannot list, and a document says that
    /// the part exists.
    pub listed: bool,
}

/// What a part of a data set is.
#[derive(Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "parts are opened by the handful")]
pub enum PartContent {
    /// An array.
    Array(Array),
    /// A data set of its own.
    Set(Box<dyn DataSet>),
    /// A folder of values by 64-bit key.
    Keys(Location),
}

impl SetPart {
    pub(crate) fn new(name: impl Into<String>, content: Result<PartContent, Error>) -> Self {
        Self { name: name.into(), content, listed: true }
    }
}

/// What a key is to a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyRole {
    /// One of its documents, or of a nested set.
    Document,
    /// An object of the array with this name, which may lie outside its grid; or a folder in the
    /// path of such objects.
    Chunks(String),
    /// Not part of the data set.
    Other,
}

impl dyn DataSet {
    /// Whether it is of this type.
    pub fn is<T: DataSet>(&self) -> bool {
        (self as &dyn Any).is::<T>()
    }

    /// The data set as its concrete type, for what only its format has; `None` if it is not of this
    /// type.
    pub fn downcast_ref<T: DataSet>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// The data set as its concrete type; `None` if it is not of this type.
    pub fn downcast<T: DataSet>(self: Box<Self>) -> Option<Box<T>> {
        let any: Box<dyn Any> = self;
        any.downcast().ok()
    }

    /// Visits all its arrays in order of their names, including those of nested sets.
    ///
    /// What cannot be opened is passed on as an error. Costs what [`parts`](DataSet::parts) costs
    /// for each set.
    pub fn each_array(
        &self,
        visit: &mut dyn FnMut(Result<Array, Error>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self.kind() {
            SetKind::Array => visit(Ok(self.array(0)?)),
            SetKind::KeyValues => self.array(0).map(drop),
            SetKind::Levels | SetKind::Group => arrays_below(self, 0, visit),
        }
    }

    /// Resolves the text of a region for its array, or for that of a level: by dimension names, and
    /// with `in_coordinates` in coordinates that begin at [`origin`](DataSet::origin).
    /// [`Error::NoOrigin`] if the format has none.
    ///
    /// ```
    /// use shardine::{Array, Location, open};
    ///
    /// let place = Location::memory();
    /// Array::builder([4, 6], "uint8").dimension_names(["y", "x"]).create(&place)?;
    /// let set = open(&place)?;
    /// let region = set.region(0, &"x=2:4".parse()?, false)?;
    /// assert_eq!(set.array(0)?.read::<u8>(&region)?, [0; 8]);
    /// # Ok::<(), shardine::Error>(())
    /// ```
    pub fn region(
        &self,
        level: usize,
        text: &RegionText,
        in_coordinates: bool,
    ) -> Result<Region, Error> {
        let array = self.array(level)?;
        let origin = match in_coordinates {
            false => None,
            true => Some(self.origin(level).ok_or_else(|| Error::NoOrigin {
                at: self.location().to_string(),
                format: self.format(),
            })?),
        };
        let (shape, names) = (array.shape(), array.axis_names());
        Ok(text.region(&RegionAxes { shape, names, origin: origin.as_deref() })?)
    }

    /// The elements of its array, or of that of a level, that lie in a box of physical coordinates.
    /// [`Error::NoPositions`] if its documents do not say where elements are.
    pub fn region_in_box(&self, level: usize, text: &PhysicalBox) -> Result<Region, Error> {
        let array = self.array(level)?;
        let at = || self.location().to_string();
        let axes = self.physical(level)?.ok_or_else(|| Error::NoPositions { at: at() })?;
        let wrong = |source| Error::Box { at: at(), source: Box::new(source) };
        text.region(&axes, array.shape()).map_err(wrong)
    }

    /// The role of an object or a folder below its location, by key alone.
    ///
    /// Costs what [`parts`](DataSet::parts) costs for each set.
    pub fn role(&self, key: &Key) -> Result<KeyRole, Error> {
        role_below(self, key, "", 0)
    }
}

fn arrays_below(
    set: &dyn DataSet,
    depth: usize,
    visit: &mut dyn FnMut(Result<Array, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    for part in set.parts()? {
        match part.content {
            Ok(PartContent::Array(array)) => visit(Ok(array))?,
            Ok(PartContent::Set(set)) if depth < MAX_DEPTH => {
                arrays_below(&*set, depth + 1, visit)?;
            }
            Ok(PartContent::Set(set)) => {
                let at = set.location().to_string();
                visit(Err(Error::TooDeep { at, most: MAX_DEPTH }))?;
            }
            Ok(PartContent::Keys(_)) => {}
            Err(error) => visit(Err(error))?,
        }
    }
    Ok(())
}

fn role_below(set: &dyn DataSet, key: &Key, path: &str, depth: usize) -> Result<KeyRole, Error> {
    if set.documents()?.contains(key) {
        return Ok(KeyRole::Document);
    }
    for part in set.parts()? {
        let name = match (path, part.name.as_str()) {
            ("", name) | (name, "") => name.to_owned(),
            (path, name) => format!("{path}/{name}"),
        };
        let role = match part.content? {
            PartContent::Array(array) => match array.chunks.packing.named(key) {
                GridKey::Object(_) | GridKey::Folder(_) => KeyRole::Chunks(name),
                GridKey::Other => KeyRole::Other,
            },
            PartContent::Set(set) if depth < MAX_DEPTH => role_below(&*set, key, &name, depth + 1)?,
            PartContent::Set(_) | PartContent::Keys(_) => KeyRole::Other,
        };
        if role != KeyRole::Other {
            return Ok(role);
        }
    }
    Ok(KeyRole::Other)
}
