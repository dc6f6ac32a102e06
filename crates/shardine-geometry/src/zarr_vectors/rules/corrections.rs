//! What of a document follows from what is stored.

use std::fmt;

use serde_json::{Map, Value, json};

use super::Extent;
use crate::zarr_vectors::{ChunkCoords, LEVEL_ATTRIBUTE, STORE_ATTRIBUTE, chunk_key};

/// A change of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Correction {
    /// An array lists the chunks that are stored.
    ChunkList {
        /// Those that are listed then.
        chunks: Vec<ChunkCoords>,
        /// How many of them were not.
        added: u64,
        /// How many others were.
        removed: u64,
    },
    /// A level counts its vertices.
    Vertices {
        /// How many there are.
        count: u64,
    },
    /// The index of objects counts them.
    Objects {
        /// How many there are.
        objects: u64,
        /// How many of them have a fragment.
        present: u64,
    },
    /// The group of links to one level counts them.
    Links {
        /// How many are stored.
        records: u64,
        /// How many there are, each counted once; `None` to leave that as it is.
        links: Option<u64>,
    },
    /// The root has the bounds of the vertices of the finest level.
    Bounds {
        /// Two corners, as the document has them.
        bounds: Value,
    },
}

impl Correction {
    /// The bounds that follow from where vertices lie; `None` if there are none.
    pub fn bounds(extent: &Extent) -> Option<Self> {
        let bounds = || json!([extent.low, extent.high]);
        (!extent.is_empty()).then(|| Self::Bounds { bounds: bounds() })
    }

    /// Whether something that the document says is replaced or removed, not only added to.
    pub fn removes(&self) -> bool {
        !matches!(self, Self::ChunkList { removed: 0, .. })
    }

    /// Changes attributes; `false`, and nothing is changed, if they are of another node.
    pub fn apply(&self, attributes: &mut Map<String, Value>) -> bool {
        fn block<'a>(
            attributes: &'a mut Map<String, Value>,
            name: &str,
        ) -> Option<&'a mut Map<String, Value>> {
            attributes.get_mut(name)?.as_object_mut()
        }
        match self {
            Self::ChunkList { chunks, .. } => {
                // In the order of their names, as zarr-vectors has them.
                let mut keys: Vec<String> = chunks.iter().map(|chunk| chunk_key(chunk)).collect();
                keys.sort_unstable();
                attributes.insert("nonempty_chunks".to_owned(), keys.into());
                true
            }
            Self::Vertices { count } => match block(attributes, LEVEL_ATTRIBUTE) {
                None => false,
                Some(level) => {
                    level.insert("vertex_count".to_owned(), (*count).into());
                    true
                }
            },
            Self::Objects { objects, present } => {
                attributes.insert("num_objects".to_owned(), (*objects).into());
                attributes.insert("num_present".to_owned(), (*present).into());
                true
            }
            Self::Links { records, links } => {
                attributes.insert("num_physical_records".to_owned(), (*records).into());
                if let Some(links) = links {
                    attributes.insert("num_links".to_owned(), (*links).into());
                }
                true
            }
            Self::Bounds { bounds } => match block(attributes, STORE_ATTRIBUTE) {
                None => false,
                Some(root) => {
                    root.insert("bounds".to_owned(), bounds.clone());
                    true
                }
            },
        }
    }
}

impl fmt::Display for Correction {
    /// What changes, for a message that follows the name of the document.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChunkList { chunks, added, removed } => {
                let all = chunks.len();
                write!(f, "nonempty_chunks: {all} chunks, {added} added and {removed} removed")
            }
            Self::Vertices { count } => write!(f, "vertex_count: {count}, as many as are stored"),
            Self::Objects { objects, present } => {
                write!(f, "num_objects: {objects}, num_present: {present}, as many as are stored")
            }
            Self::Links { records, links: Some(links) } => {
                write!(f, "num_links: {links}, num_physical_records: {records}, as are stored")
            }
            Self::Links { records, links: None } => {
                write!(f, "num_physical_records: {records}, as many as are stored")
            }
            Self::Bounds { bounds } => write!(f, "bounds: {bounds}, where vertices lie"),
        }
    }
}
