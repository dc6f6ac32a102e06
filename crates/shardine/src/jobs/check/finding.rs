use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use shardine_geometry::zarr_vectors::rules as vectors;
use shardine_store::Key;

use super::Mend;
use crate::ome::rules::{RuleKind, RuleLevel, Violation};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Stored data cannot be read, or reads as something else.
    Damage,
    /// Nothing is lost, but it may be worth knowing.
    Notice,
}

impl Severity {
    /// `damage` or `notice`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Damage => "damage",
            Self::Notice => "notice",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal $severity:ident $hint:expr,)*) => {
        /// What was found. The names are fixed: programs may rely on them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum FindingKind {
            $($(#[$doc])* $kind,)*
        }

        impl FindingKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Its name, such as `entry-outside-array`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// Its severity: the same for all findings of a kind.
            pub fn severity(self) -> Severity {
                match self {
                    $(Self::$kind => Severity::$severity,)*
                }
            }

            fn hint(self) -> &'static str {
                match self {
                    $(Self::$kind => $hint,)*
                }
            }
        }
    };
}

/// No action is needed.
const NOTHING: &str = "";
const REPAIR: &str = "run `shardine repair`";
const OBJECT: &str = "restore the object from a copy, or rewrite its region; `shardine repair` \
                      saves what it can";
const CHUNK: &str = "rewrite the whole chunk, or restore the object from a copy; `shardine \
                     repair` sets it aside";
const MESH: &str = "rewrite the mesh with its fragments; `shardine repair` sets the manifest aside";
const COMPARE: &str =
    "if it should be complete, compare it with its source: absent chunks are legal";
const LOST: &str = "rewrite all of it, or accept the loss with `shardine repair --accept-loss`";
const UNPROVED: &str = "compare it with its source, then rewrite it or accept it with `shardine \
                        repair --accept-loss`";
const RESTORE: &str = "restore the object from a copy, or copy it again from its source";
const CORRECT: &str =
    "correct the metadata as the message says, for example with `shardine attrs set`";
const NAME_DIMENSIONS: &str = "name the dimensions in the zarr.json of the array like the axes";
const RESTORE_CELLS: &str =
    "restore the object from a copy, or write the store again from its source";
const LEFT_OUT: &str = "move it elsewhere, or replace a link with its target; see docs/links.md";

kinds! {
    /// A `zarr.json` or `info` that violates the specification.
    Metadata = "metadata" Damage "restore the document from a copy",
    /// The storage does not return the bytes of an object, or the names in a folder.
    Unreadable = "unreadable" Damage "check the permissions and the disk, then verify again",
    /// A folder where an object belongs, or an object where a folder does.
    BlockedKey = "blocked-key" Damage "move it out of the array, then rewrite its region",
    /// A broken link: what it pointed to reads as if it had never been written.
    BrokenLink = "broken-link" Damage "restore its target, or remove the link",
    /// An object of zero bytes.
    EmptyObject = "empty-object" Damage OBJECT,
    /// A shard shorter than its own index.
    Truncated = "truncated" Damage OBJECT,
    /// An index that has a wrong checksum or cannot be decoded.
    Index = "index" Damage OBJECT,
    /// An entry whose offset and length disagree on whether there is a chunk.
    HalfEmptyEntry = "half-empty-entry" Damage CHUNK,
    /// An entry that reaches past the end of its shard.
    EntryOutOfBounds = "entry-out-of-bounds" Damage CHUNK,
    /// An entry of zero bytes, where every chunk has some.
    ZeroLengthEntry = "zero-length-entry" Damage CHUNK,
    /// An entry that reaches into the index.
    EntryInIndex = "entry-in-index" Damage CHUNK,
    /// Two entries that share some of their bytes, but not all.
    Overlap = "overlap" Damage CHUNK,
    /// A chunk whose encoded size cannot be right.
    ChunkSize = "chunk-size" Damage CHUNK,
    /// A chunk that cannot be decoded.
    Chunk = "chunk" Damage CHUNK,
    /// A key that is not in the shard and minishard where readers look for it.
    MisplacedKey = "misplaced-key" Damage REPAIR,
    /// A key with several values in its minishard.
    DuplicateKey = "duplicate-key" Damage REPAIR,
    /// Values or indexes that are not stored as `info` says.
    DataEncoding = "data-encoding" Damage REPAIR,
    /// Values or indexes compressed with zlib where gzip belongs.
    Zlib = "zlib" Damage REPAIR,
    /// A shard that was compressed as a file.
    WrappedShard = "wrapped-shard" Damage REPAIR,
    /// An object with the name of a shard that this sharding does not have.
    MisnamedShard = "misnamed-shard" Damage REPAIR,
    /// A value among meshes that is not a mesh manifest.
    MeshManifest = "mesh-manifest" Damage MESH,
    /// A mesh manifest whose fragments are not before it.
    MeshFragments = "mesh-fragments" Damage MESH,
    /// A chunk that `repair` could not save, and that has not been written since.
    LostChunk = "lost-chunk" Damage LOST,
    /// Chunks that `repair` restored from an older index: they may be outdated.
    UnprovedChunk = "unproved-chunk" Damage UNPROVED,
    /// OME-Zarr metadata of an unknown version, of none, or of another one than the rest.
    OmeVersion = "ome-version" Damage CORRECT,
    /// Axes or coordinate systems of an image that its version of OME-Zarr does not allow.
    OmeAxes = "ome-axes" Damage CORRECT,
    /// Levels of an image that are missing, or not from the largest to the smallest.
    OmeLevels = "ome-levels" Damage CORRECT,
    /// Coordinate transformations that OME-Zarr does not allow.
    OmeTransformations = "ome-transformations" Damage CORRECT,
    /// The array of a level whose dimensions are not named like the axes.
    OmeDimensionNames = "ome-dimension-names" Damage NAME_DIMENSIONS,
    /// How channels are shown is not as OME-Zarr has it.
    OmeChannels = "ome-channels" Damage CORRECT,
    /// Label images that are missing, do not fit their image, or are described wrongly.
    OmeLabels = "ome-labels" Damage CORRECT,
    /// A plate that is described wrongly, or names a well that is not there.
    OmePlate = "ome-plate" Damage CORRECT,
    /// A well that is described wrongly, or names an image that is not there.
    OmeWell = "ome-well" Damage CORRECT,
    /// Images that the layout of bioformats2raw promises and that are not there.
    OmeLayout = "ome-layout" Damage CORRECT,
    /// A scene that is described wrongly, or names an image that is not there.
    OmeScene = "ome-scene" Damage CORRECT,
    /// Any other violation of a rule of OME-Zarr.
    OmeMetadata = "ome-metadata" Damage CORRECT,
    /// A document of Zarr Vectors that contradicts the format, or an array that is missing.
    VectorsMetadata = "vectors-metadata" Damage CORRECT,
    /// A list of chunks that is not what is stored.
    VectorsChunkList = "vectors-chunk-list" Damage RESTORE_CELLS,
    /// Positions that are cut off, or lie in another chunk.
    VectorsVertices = "vectors-vertices" Damage RESTORE_CELLS,
    /// Fragments of rows that do not exist, or rows in no fragment.
    VectorsFragments = "vectors-fragments" Damage RESTORE_CELLS,
    /// Attributes with another number of rows than what they describe, or with unknown codes.
    VectorsAttributes = "vectors-attributes" Damage RESTORE_CELLS,
    /// Links that are cut off, or lead to nothing.
    VectorsLinks = "vectors-links" Damage RESTORE_CELLS,
    /// Ids and manifests that contradict each other or the fragments.
    VectorsObjects = "vectors-objects" Damage RESTORE_CELLS,
    /// A count of vertices, objects or links that is higher than what is stored: some may be lost.
    VectorsMissing = "vectors-missing" Damage "compare it with its source; restore what is lost, or write the store again",
    /// Two entries that refer to exactly the same bytes.
    SharedBytes = "shared-bytes" Notice NOTHING,
    /// An entry for a chunk that lies outside the array.
    EntryOutsideArray = "entry-outside-array" Notice NOTHING,
    /// Bytes of a shard that neither the index nor an entry refers to.
    Gap = "gap" Notice NOTHING,
    /// An object of the grid that lies outside the array.
    ObjectOutsideArray = "object-outside-array" Notice "remove it if the array was shrunk on purpose",
    /// An object below an array that is not part of it.
    StrayObject = "stray-object" Notice "move it elsewhere if the array does not need it",
    /// An append of a file that is under way or was interrupted.
    UnfinishedAppend = "unfinished-append" Notice "run the same `shardine append` again, unless it is still running",
    /// A file is being converted to this array, or was when the program was killed: parts are
    /// missing.
    UnfinishedConvert = "unfinished-convert" Notice "run the same `shardine convert` again, unless it is still running",
    /// A link to a folder, or something else that no job treats as part of the data set; it was not
    /// checked.
    LeftOut = "left-out" Notice LEFT_OUT,
    /// A folder in a group that is not a node.
    NoMetadata = "no-metadata" Notice "restore its zarr.json if it was a node",
    /// Consolidated metadata that disagrees with the nodes themselves.
    ConsolidatedMetadata = "consolidated-metadata" Notice "consolidate the metadata again",
    /// Metadata that can only mean one thing, but is not spelled as the specification has it.
    MetadataForm = "metadata-form" Notice "write it as the message says: other readers may reject it",
    /// A temporary file of a killed writer.
    LeftoverTemporary = "leftover-temporary" Notice REPAIR,
    /// The journal of an interrupted in-place update.
    LeftoverJournal = "leftover-journal" Notice REPAIR,
    /// A job such as `reshard` was interrupted; the array beside its folder is complete.
    UnfinishedJob = "unfinished-job" Notice "rerun the command that started it, or run `shardine repair` to undo it",
    /// A journal that belonged to another version of its object, and was set aside.
    SetAside = "set-aside" Notice "it is kept for reference and may be removed",
    /// Keys, or their values, that are not in order.
    UnsortedKeys = "unsorted-keys" Notice REPAIR,
    /// A shard in the older form of two objects.
    OlderForm = "older-form" Notice REPAIR,
    /// Chunks of a scale that are compressed as files, which not all readers find.
    WrappedChunks = "wrapped-chunks" Notice "decompress the files and remove the extension, or pack the scale into shards",
    /// A chunk that is stored both as a compressed file and as an uncompressed one.
    TwoForms = "two-forms" Notice "keep the newer of the two",
    /// A shard with far fewer chunks than the others.
    SparseShard = "sparse-shard" Notice COMPARE,
    /// A scale that seems to have lost chunks.
    MissingChunks = "missing-chunks" Notice COMPARE,
    /// A record of lost chunks that have all been written again.
    SettledLoss = "settled-loss" Notice "run `shardine repair`, which removes the record",
    /// An `info` beside a Zarr document; the latter takes precedence.
    TwoDocuments = "two-documents" Notice "move one of the two elsewhere",
    /// Something that OME-Zarr recommends and that is not so.
    OmeRecommended = "ome-recommended" Notice NOTHING,
    /// OME-Zarr metadata that is not forbidden, but may be misread.
    OmeDoubtful = "ome-doubtful" Notice NOTHING,
    /// An array of Zarr Vectors without a list of its chunks.
    VectorsNoList = "vectors-no-list" Notice REPAIR,
    /// A count of vertices, objects or links that is lower than what is stored.
    VectorsCounts = "vectors-counts" Notice NOTHING,
    /// Bounds that leave vertices out.
    VectorsBounds = "vectors-bounds" Notice NOTHING,
    /// Metadata of Zarr Vectors that is not forbidden, but looks wrong.
    VectorsDoubtful = "vectors-doubtful" Notice NOTHING,
    /// Something that this version cannot check, or that kept changing.
    NotChecked = "not-checked" Notice NOTHING,
}

impl FindingKind {
    /// The kind of a broken rule of OME-Zarr: what it is about if the specification says that it
    /// must be kept, else how bad that is.
    pub(in crate::jobs) fn of_rule(level: RuleLevel, rule: RuleKind) -> Self {
        match (level, rule) {
            (RuleLevel::Should, _) => Self::OmeRecommended,
            (RuleLevel::Doubtful, _) => Self::OmeDoubtful,
            (RuleLevel::Must, RuleKind::Version) => Self::OmeVersion,
            (RuleLevel::Must, RuleKind::Axes) => Self::OmeAxes,
            (RuleLevel::Must, RuleKind::Levels) => Self::OmeLevels,
            (RuleLevel::Must, RuleKind::Transformations) => Self::OmeTransformations,
            (RuleLevel::Must, RuleKind::DimensionNames) => Self::OmeDimensionNames,
            (RuleLevel::Must, RuleKind::Channels) => Self::OmeChannels,
            (RuleLevel::Must, RuleKind::Labels) => Self::OmeLabels,
            (RuleLevel::Must, RuleKind::Plate) => Self::OmePlate,
            (RuleLevel::Must, RuleKind::Well) => Self::OmeWell,
            (RuleLevel::Must, RuleKind::Layout) => Self::OmeLayout,
            (RuleLevel::Must, RuleKind::Scene) => Self::OmeScene,
            (RuleLevel::Must, RuleKind::Metadata) => Self::OmeMetadata,
        }
    }
}

impl FindingKind {
    /// The kind of a broken rule of Zarr Vectors.
    pub(in crate::jobs) fn of_vectors_rule(rule: vectors::RuleKind) -> Self {
        match rule {
            vectors::RuleKind::Metadata => Self::VectorsMetadata,
            vectors::RuleKind::ChunkList => Self::VectorsChunkList,
            vectors::RuleKind::Vertices => Self::VectorsVertices,
            vectors::RuleKind::Fragments => Self::VectorsFragments,
            vectors::RuleKind::Attributes => Self::VectorsAttributes,
            vectors::RuleKind::Links => Self::VectorsLinks,
            vectors::RuleKind::Objects => Self::VectorsObjects,
            vectors::RuleKind::NoList => Self::VectorsNoList,
            vectors::RuleKind::Counts => Self::VectorsCounts,
            vectors::RuleKind::Missing => Self::VectorsMissing,
            vectors::RuleKind::Bounds => Self::VectorsBounds,
            vectors::RuleKind::Doubtful => Self::VectorsDoubtful,
        }
    }
}

/// The number of findings of each kind beyond those reported one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untold([u64; FindingKind::ALL.len()]);

impl Default for Untold {
    fn default() -> Self {
        Self([0; FindingKind::ALL.len()])
    }
}

impl Untold {
    /// The kinds that have more, and how many.
    pub fn kinds(&self) -> impl Iterator<Item = (FindingKind, u64)> {
        let all = FindingKind::ALL.iter().zip(self.0);
        all.filter(|(_, count)| *count > 0).map(|(kind, count)| (*kind, count))
    }

    /// The total number.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn get(&self, kind: FindingKind) -> u64 {
        self.0.get(kind as usize).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, kind: FindingKind, count: u64) {
        if let Some(of) = self.0.get_mut(kind as usize) {
            *of = of.saturating_add(count);
        }
    }
}

/// Admits a limited number of findings of each kind in one object, and counts the others.
#[derive(Debug)]
pub(in crate::jobs) struct Limit {
    most: u64,
    found: Untold,
    /// Those that are only counted.
    pub untold: Untold,
}

impl Limit {
    pub fn new(most: u64) -> Self {
        Self { most, found: Untold::default(), untold: Untold::default() }
    }

    /// Whether one more of this kind is reported.
    pub fn admits(&mut self, kind: FindingKind) -> bool {
        self.found.add(kind, 1);
        let admits = self.found.get(kind) <= self.most;
        if !admits {
            self.untold.add(kind, 1);
        }
        admits
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A problem that `verify` has found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub kind: FindingKind,
    /// The object concerned, or its folder where there is no object.
    pub object: Option<Key>,
    /// The object's position in the array's grid of objects.
    pub shard: Option<Vec<u64>>,
    /// The chunk's position in the array's grid of innermost chunks. `None` if the finding concerns
    /// a whole object or a whole inner shard.
    pub chunk: Option<Vec<u64>>,
    /// The bytes of the object that are concerned. They may reach past its end.
    pub range: Option<Range<u64>>,
    /// What was found, in one sentence without the object's name.
    pub message: String,
    /// Where it is, for `repair`.
    pub(crate) origin: Option<Origin>,
    /// What an `info` should say instead.
    pub(crate) correction: Option<Correction>,
    /// The record of the loss.
    pub(crate) record: Option<Key>,
    /// The rule of OME-Zarr that is broken.
    pub(crate) rule: Option<RuleKind>,
    /// How `repair` corrects a document.
    pub(crate) mend: Option<Arc<Mend>>,
    /// The node that consolidated metadata is wrong about, if `repair` can renew it.
    pub(crate) node: Option<Key>,
    /// Whether it concerns a data set in a format that Shardine only reads.
    pub(crate) only_read: bool,
}

/// A correction of one member of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Correction {
    /// The location of the member in the document.
    pub pointer: String,
    pub member: &'static str,
    pub value: &'static str,
}

/// An object of an array, and the entries that lead to a place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The array's location in the store; `None` for the root.
    pub array: Option<Key>,
    pub cell: Vec<u64>,
    pub path: Vec<u32>,
}

impl Finding {
    pub(in crate::jobs) fn new(kind: FindingKind, object: Option<Key>, message: String) -> Self {
        let severity = kind.severity();
        Self {
            severity,
            kind,
            object,
            shard: None,
            chunk: None,
            range: None,
            message,
            origin: None,
            correction: None,
            record: None,
            rule: None,
            mend: None,
            node: None,
            only_read: false,
        }
    }

    /// A rule of OME-Zarr that the document of a group breaks.
    pub(in crate::jobs) fn of_rule(object: &Key, violation: &Violation) -> Self {
        let kind = FindingKind::of_rule(violation.level, violation.kind);
        let finding = Self::new(kind, Some(object.clone()), violation.to_string());
        Self { rule: Some(violation.kind), ..finding }
    }

    /// The same if `repair` can correct the document so that the rule is kept.
    pub(in crate::jobs) fn mended_by(mut self, mend: Option<&Arc<Mend>>) -> Self {
        self.mend = mend.cloned();
        self
    }

    pub(in crate::jobs) fn shard(mut self, cell: &[u64]) -> Self {
        self.shard = Some(cell.to_vec());
        self
    }

    pub(in crate::jobs) fn chunk(mut self, chunk: Option<Vec<u64>>) -> Self {
        self.chunk = chunk;
        self
    }

    pub(in crate::jobs) fn range(mut self, range: Range<u64>) -> Self {
        self.range = Some(range);
        self
    }

    /// What to do next; `None` if no action is needed.
    pub fn hint(&self) -> Option<&'static str> {
        match self.kind.hint() {
            _ if self.mend.is_some() || self.node.is_some() => Some(REPAIR),
            NOTHING => None,
            // `repair` would change nothing there.
            hint if self.only_read && hint.contains("`shardine repair") => Some(RESTORE),
            hint => Some(hint),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_names_of_kinds_are_distinct_and_in_kebab_case() {
        let names: BTreeSet<&str> = FindingKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), FindingKind::ALL.len());
        let kebab = |c: char| c.is_ascii_lowercase() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(kebab)));
    }

    #[test]
    fn a_data_set_that_is_only_read_is_not_sent_to_repair() {
        for &kind in FindingKind::ALL {
            let finding = Finding::new(kind, None, String::new());
            let only_read = Finding { only_read: true, ..finding.clone() };
            let names_repair =
                |hint: Option<&str>| hint.is_some_and(|hint| hint.contains("repair"));
            assert!(!names_repair(only_read.hint()), "{kind}");
            if !names_repair(finding.hint()) {
                assert_eq!(only_read.hint(), finding.hint(), "{kind}");
            }
        }
        assert!(Finding::new(FindingKind::Index, None, String::new()).hint() == Some(OBJECT));
    }

    #[test]
    fn the_documentation_has_every_kind_and_its_severity() {
        let document = include_str!("../../../../../docs/verify.md");
        for kind in FindingKind::ALL {
            let row = format!("| `{kind}` | {} |", kind.severity());
            assert!(document.contains(&row), "docs/verify.md has no row {row:?}");
        }
    }
}
