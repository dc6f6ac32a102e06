//! `nonempty_chunks` against what is stored.

use serde_json::{Map, Value};

use super::{Places, RuleKind, Violation};
use crate::zarr_vectors::{ChunkCoords, GridDocument, chunk_key, parse_chunk_key};

/// The list of chunks of an array, as far as it can be read.
#[derive(Debug, Clone, Default)]
pub struct ChunkList {
    /// Where the first cell lies.
    pub origin: ChunkCoords,
    /// The chunks that it names, in ascending order; `None` if there is no list.
    pub chunks: Option<Vec<ChunkCoords>>,
    /// Names that are none, or occur twice: how many, and the first.
    wrong: Option<(u64, String)>,
}

impl ChunkList {
    /// Reads the attributes of an array with `rank` axes. An origin that cannot be read is an
    /// error in words: then no cell has a place.
    pub fn read(attributes: &Map<String, Value>, rank: usize) -> Result<Self, String> {
        let mut without = attributes.clone();
        let named = without.shift_remove("nonempty_chunks").filter(|list| !list.is_null());
        let grid = GridDocument::read(&without, rank).map_err(|error| error.to_string())?;
        let mut list = Self { origin: grid.origin, chunks: None, wrong: None };
        let names = match named {
            None => return Ok(list),
            Some(Value::Array(names)) => names,
            Some(_) => {
                list.wrong = Some((1, "nonempty_chunks is not a list".to_owned()));
                return Ok(list);
            }
        };
        let mut wrong = Places::default();
        let mut chunks: Vec<ChunkCoords> = Vec::with_capacity(names.len());
        for name in &names {
            match name.as_str().and_then(|name| parse_chunk_key(name, rank)) {
                Some(chunk) => chunks.push(chunk),
                None => wrong.add(|| format!("{name} is no chunk with {rank} coordinates")),
            }
        }
        chunks.sort_unstable();
        for pair in chunks.windows(2).filter(|pair| pair[0] == pair[1]) {
            wrong.add(|| format!("chunk {} is listed twice", chunk_key(&pair[0])));
        }
        chunks.dedup();
        list.chunks = Some(chunks);
        list.wrong = (wrong.count > 0).then_some((wrong.count, wrong.first));
        Ok(list)
    }

    /// Where cells lie.
    pub fn grid(&self) -> GridDocument {
        GridDocument { origin: self.origin.clone(), nonempty: None }
    }

    /// Whether the list names a chunk.
    pub fn names(&self, chunk: &ChunkCoords) -> bool {
        self.chunks.as_ref().is_some_and(|chunks| chunks.binary_search(chunk).is_ok())
    }
}

/// Judges a list against the chunks that are stored, which ascend. `unknown` says of a chunk that
/// whether it is stored could not be found out. Appends the chunks that are listed and absent to
/// `absent`.
pub fn judge_list(
    list: &ChunkList,
    stored: &[ChunkCoords],
    unknown: &dyn Fn(&ChunkCoords) -> bool,
    absent: &mut Vec<ChunkCoords>,
    out: &mut Vec<Violation>,
) {
    if let Some((count, first)) = &list.wrong {
        let places = Places { count: *count, first: format!("nonempty_chunks: {first}") };
        places.tell(RuleKind::ChunkList, out);
    }
    let Some(chunks) = &list.chunks else {
        if list.wrong.is_none() && !stored.is_empty() {
            let count = stored.len();
            let message = format!(
                "has no list of its chunks (nonempty_chunks), of which {count} are stored: \
                 zarr-vectors 0.9.2 sees none of them"
            );
            out.push(Violation::new(RuleKind::NoList, message));
        }
        return;
    };
    let mut unlisted = Places::default();
    for chunk in stored.iter().filter(|chunk| chunks.binary_search(chunk).is_err()) {
        unlisted.add(|| {
            let chunk = chunk_key(chunk);
            format!("chunk {chunk} is stored, but not listed in nonempty_chunks: readers miss it")
        });
    }
    unlisted.tell(RuleKind::ChunkList, out);
    let mut gone = Places::default();
    for chunk in chunks.iter().filter(|chunk| stored.binary_search(chunk).is_err()) {
        if !unknown(chunk) {
            gone.add(|| {
                let chunk = chunk_key(chunk);
                format!("chunk {chunk} is listed in nonempty_chunks, but nothing is stored")
            });
            absent.push(chunk.clone());
        }
    }
    gone.tell(RuleKind::ChunkList, out);
}
