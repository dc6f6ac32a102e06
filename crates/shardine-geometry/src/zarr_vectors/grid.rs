//! Chunks of space, the cells that hold them, and the list of those that are stored.

use serde_json::{Map, Value};
use smallvec::SmallVec;

use super::error::DocumentError;

/// The place of a chunk among all, along each axis; may be negative.
///
/// On a level that is also cut by an attribute, the first number is the bin of that attribute.
pub type ChunkCoords = SmallVec<[i64; 4]>;

const NONEMPTY: &str = "nonempty_chunks";
const ORIGIN: &str = "chunk_grid_origin";

/// The chunk that a position lies in; `None` if a coordinate is not finite, or too far away to be
/// numbered.
///
/// As zarr-vectors does, it divides in 64 bits whatever the type of the coordinates is.
pub fn chunk_of(
    position: impl IntoIterator<Item = f64>,
    chunk_shape: &[f64],
) -> Option<ChunkCoords> {
    position
        .into_iter()
        .zip(chunk_shape)
        .map(|(value, edge)| {
            let chunk = (value / edge).floor();
            // Whole numbers below 2^53 are exact.
            (chunk.abs() < 9e15).then_some(chunk as i64)
        })
        .collect()
}

/// The name of a chunk in `nonempty_chunks`: `-1.0.3`.
pub fn chunk_key(chunk: &[i64]) -> String {
    chunk.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
}

/// Reads the name of a chunk with `rank` coordinates.
pub fn parse_chunk_key(key: &str, rank: usize) -> Option<ChunkCoords> {
    let mut coords = ChunkCoords::new();
    for part in key.split('.') {
        let digits = part.strip_prefix('-').unwrap_or(part);
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        coords.push(part.parse().ok()?);
    }
    (coords.len() == rank).then_some(coords)
}

/// What the attributes of an array say of its cells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GridDocument {
    /// The chunk that the first cell holds.
    pub origin: ChunkCoords,
    /// The chunks that are stored, in ascending order; `None` if the array does not list them.
    pub nonempty: Option<Vec<ChunkCoords>>,
}

impl GridDocument {
    /// Reads the attributes of an array with `rank` axes.
    pub fn read(attributes: &Map<String, Value>, rank: usize) -> Result<Self, DocumentError> {
        let origin = match attributes.get(ORIGIN) {
            None | Some(Value::Null) => Some(ChunkCoords::from_elem(0, rank)),
            Some(Value::Array(list)) if list.len() == rank => {
                list.iter().map(Value::as_i64).collect()
            }
            Some(_) => None,
        };
        let reason = || format!("must be {rank} whole numbers");
        let origin = origin.ok_or_else(|| DocumentError::new(ORIGIN, reason()))?;
        let nonempty = match attributes.get(NONEMPTY) {
            None | Some(Value::Null) => None,
            Some(Value::Array(keys)) => Some(read_keys(keys, rank)?),
            Some(_) => return Err(DocumentError::new(NONEMPTY, "must be a list of chunks")),
        };
        Ok(Self { origin, nonempty })
    }

    /// Adds what it says to the attributes of an array.
    ///
    /// Chunks are listed in the order of their names, as zarr-vectors has them.
    pub fn write(&self, attributes: &mut Map<String, Value>) {
        if let Some(nonempty) = &self.nonempty {
            let mut keys: Vec<String> = nonempty.iter().map(|chunk| chunk_key(chunk)).collect();
            keys.sort_unstable();
            let keys = keys.into_iter().map(Value::String).collect();
            attributes.insert(NONEMPTY.to_owned(), Value::Array(keys));
        }
        if self.origin.iter().any(|coord| *coord != 0) {
            attributes.insert(ORIGIN.to_owned(), self.origin.to_vec().into());
        }
    }

    /// The cell that holds `chunk`, in a grid of `shape`; `None` if it lies outside.
    pub fn cell(&self, chunk: &[i64], shape: &[u64]) -> Option<SmallVec<[u64; 4]>> {
        if chunk.len() != shape.len() || self.origin.len() != shape.len() {
            return None;
        }
        chunk
            .iter()
            .zip(&self.origin)
            .zip(shape)
            .map(|((coord, origin), len)| {
                let at = u64::try_from(coord.checked_sub(*origin)?).ok()?;
                (at < *len).then_some(at)
            })
            .collect()
    }

    /// The chunk that a cell holds; `None` if its number is too large.
    pub fn chunk(&self, cell: &[u64]) -> Option<ChunkCoords> {
        cell.iter()
            .zip(&self.origin)
            .map(|(at, origin)| origin.checked_add(i64::try_from(*at).ok()?))
            .collect()
    }
}

fn read_keys(keys: &[Value], rank: usize) -> Result<Vec<ChunkCoords>, DocumentError> {
    let mut chunks = Vec::with_capacity(keys.len());
    for (at, key) in keys.iter().enumerate() {
        let chunk = key.as_str().and_then(|key| parse_chunk_key(key, rank));
        chunks.push(chunk.ok_or_else(|| {
            DocumentError::new(
                format!("{NONEMPTY}[{at}]"),
                format!("{key} is no chunk with {rank} coordinates"),
            )
        })?);
    }
    // They are stored in the order of their names.
    chunks.sort_unstable();
    if chunks.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(DocumentError::new(NONEMPTY, "names a chunk twice"));
    }
    Ok(chunks)
}
