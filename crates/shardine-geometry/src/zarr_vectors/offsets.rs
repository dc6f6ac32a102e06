//! Names of arrays of links, and the order of the ends of a link.
//!
//! An array holds the links whose ends lie in chunks with the same offsets from the chunk of the
//! first stored end, which is the cell that holds the link. Its name is made of these offsets:
//! `0.0.+1` for edges to the next chunk along the third axis, `0.0.+1_0.+1.0` for faces. Where links
//! lead to another level, offsets are those from the [`Anchor`](super::Anchor) of the cell.

use smallvec::SmallVec;

use super::error::DocumentError;
use super::grid::ChunkCoords;

const SELF: &str = "self";

/// The most vertices that a link may join.
///
/// The format sets no limit; polygons of more sides than this have no numbered order of vertices
/// that fits into 64 bits.
pub(super) const MAX_WIDTH: usize = 20;

/// Where the ends of a link lie, from the second on, relative to the chunk of the first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkOffsets(SmallVec<[ChunkCoords; 2]>);

impl LinkOffsets {
    /// The offsets of all ends but the first.
    pub fn new(offsets: impl IntoIterator<Item = ChunkCoords>) -> Self {
        Self(offsets.into_iter().collect())
    }

    /// Those of links within a chunk.
    pub fn within(rank: usize, width: usize) -> Self {
        Self::new((1..width).map(|_| ChunkCoords::from_elem(0, rank)))
    }

    /// Reads the name of an array, of links that join `width` vertices, in a grid of `rank` axes.
    pub fn parse(name: &str, rank: usize, width: usize) -> Result<Self, DocumentError> {
        let wrong = |reason: String| DocumentError::new(format!("array {name:?}"), reason);
        if width == 0 || width > MAX_WIDTH {
            return Err(wrong(format!("links of {width} vertices are not supported")));
        }
        if name == SELF {
            let offsets = Self(SmallVec::new());
            let reason = || wrong(format!("links of {width} vertices have offsets"));
            return if width == 1 { Ok(offsets) } else { Err(reason()) };
        }
        let offsets: SmallVec<[ChunkCoords; 2]> = name
            .split('_')
            .map(|tuple| {
                let coords = tuple.split('.').map(signed).collect::<Option<ChunkCoords>>();
                coords
                    .filter(|coords| coords.len() == rank)
                    .ok_or_else(|| wrong(format!("{tuple:?} is no offset along {rank} axes")))
            })
            .collect::<Result<_, _>>()?;
        if offsets.len() + 1 != width {
            let reason = format!("links of {width} vertices have {} offsets", width - 1);
            return Err(wrong(reason));
        }
        Ok(Self(offsets))
    }

    /// The name of the array.
    pub fn name(&self) -> String {
        if self.0.is_empty() {
            return SELF.to_owned();
        }
        let tuple = |coords: &ChunkCoords| {
            coords.iter().map(|coord| delta_segment(*coord)).collect::<Vec<_>>().join(".")
        };
        self.0.iter().map(tuple).collect::<Vec<_>>().join("_")
    }

    /// Whether all ends lie in one chunk.
    pub fn is_within(&self) -> bool {
        self.0.iter().flatten().all(|coord| *coord == 0)
    }

    /// How many vertices a link joins.
    pub fn width(&self) -> usize {
        self.0.len() + 1
    }

    /// The offsets, from that of the second end on.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ChunkCoords> {
        self.0.iter()
    }

    /// The chunk of end `at` of a link in the cell `source`, or, in another level, in a cell with the
    /// anchor `source`; `None` if it is past the largest number.
    pub fn chunk(&self, source: &[i64], at: usize) -> Option<ChunkCoords> {
        let Some(at) = at.checked_sub(1) else {
            return Some(ChunkCoords::from_slice(source));
        };
        let offset = self.0.get(at)?;
        source.iter().zip(offset).map(|(coord, offset)| coord.checked_add(*offset)).collect()
    }
}

/// A number as names of arrays and groups have it: `0`, `+1`, `-1`.
pub fn delta_segment(delta: i64) -> String {
    if delta == 0 { "0".to_owned() } else { format!("{delta:+}") }
}

/// Reads the name of a group of links: how many levels away their other ends are.
pub fn parse_delta_segment(name: &str) -> Option<i64> {
    signed(name)
}

fn signed(text: &str) -> Option<i64> {
    match text.as_bytes() {
        b"0" => Some(0),
        [b'+' | b'-', b'1'..=b'9', ..] => text.parse().ok(),
        _ => None,
    }
}

/// The permutation of `width` places that `code` numbers; `None` if there are fewer.
///
/// Permutations are numbered in lexicographic order. Place `k` of a stored link holds end
/// `permutation[k]` of the original.
pub fn permutation(code: i64, width: usize) -> Option<SmallVec<[u8; 4]>> {
    let mut code = u64::try_from(code).ok()?;
    let mut factor = factorial(width)?;
    if code >= factor {
        return None;
    }
    let mut left: SmallVec<[u8; MAX_WIDTH]> = (0..width as u8).collect();
    let mut places = SmallVec::with_capacity(width);
    while !left.is_empty() {
        factor /= left.len() as u64;
        places.push(left.remove((code / factor) as usize));
        code %= factor;
    }
    Some(places)
}

/// The number of a permutation; `None` if `places` is none, or of too many places.
pub fn permutation_code(places: &[u8]) -> Option<i64> {
    let mut factor = factorial(places.len())?;
    let mut left: SmallVec<[u8; MAX_WIDTH]> = (0..places.len() as u8).collect();
    let mut code = 0;
    for place in places {
        factor /= left.len() as u64;
        let at = left.iter().position(|one| one == place)?;
        left.remove(at);
        code += at as u64 * factor;
    }
    i64::try_from(code).ok()
}

fn factorial(width: usize) -> Option<u64> {
    // 20! is the largest that fits.
    (width <= MAX_WIDTH).then(|| (1..=width as u64).product())
}

/// Puts the ends of a stored link into their original order; `false` if `code` is no permutation
/// of as many places.
pub fn original_order<T: Copy>(stored: &mut [T], code: i64) -> bool {
    let Some(places) = permutation(code, stored.len()) else { return false };
    let copy: SmallVec<[T; 4]> = SmallVec::from_slice(stored);
    for (end, place) in copy.iter().zip(&places) {
        if let Some(original) = stored.get_mut(usize::from(*place)) {
            *original = *end;
        }
    }
    true
}
