//! Positions and the fragments that they form.

use smallvec::SmallVec;

use super::{Places, RuleKind, Violation};
use crate::zarr_vectors::{Fragment, FragmentIndex, Scalar, Values, chunk_key, chunk_of};

/// What is known of the positions of a level.
#[derive(Debug, Clone)]
pub struct VertexRules {
    /// The type of a coordinate.
    pub scalar: Scalar,
    /// Whether the highest byte of a coordinate comes first.
    pub swapped: bool,
    /// The edges of a chunk.
    pub chunk_shape: Vec<f64>,
    /// What has to be added to stored coordinates.
    pub offset: Option<Vec<f64>>,
}

/// The box that positions fill.
#[derive(Debug, Clone, PartialEq)]
pub struct Extent {
    /// The smallest coordinates; above the largest if there is no position.
    pub low: Vec<f64>,
    /// The largest.
    pub high: Vec<f64>,
}

impl Extent {
    /// That of no position.
    pub fn new(rank: usize) -> Self {
        Self { low: vec![f64::INFINITY; rank], high: vec![f64::NEG_INFINITY; rank] }
    }

    /// Whether there is no position.
    pub fn is_empty(&self) -> bool {
        self.low.iter().zip(&self.high).any(|(low, high)| low > high)
    }

    fn add(&mut self, axis: usize, value: f64) {
        if let (Some(low), Some(high)) = (self.low.get_mut(axis), self.high.get_mut(axis)) {
            *low = low.min(value);
            *high = high.max(value);
        }
    }

    /// What `bounds` leave out, in words; `None` if nothing. Coordinates of type `scalar` may have
    /// been rounded since the bounds were taken.
    pub fn outside(&self, bounds: &[Vec<f64>; 2], scalar: Scalar) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let [low, high] = bounds;
        let fits = |(value, bound, sign): (&f64, &f64, f64)| {
            (value - bound) * sign <= rounding(scalar, *value).max(rounding(scalar, *bound))
        };
        let lower = self.low.iter().zip(low).map(|(value, bound)| (value, bound, -1.0));
        let upper = self.high.iter().zip(high).map(|(value, bound)| (value, bound, 1.0));
        if lower.chain(upper).all(fits) {
            return None;
        }
        Some(format!(
            "bounds are {low:?} to {high:?}, but vertices lie from {:?} to {:?}",
            self.low, self.high
        ))
    }
}

/// How far a stored coordinate may be from the one that was given.
fn rounding(scalar: Scalar, value: f64) -> f64 {
    let relative = match scalar {
        Scalar::Float64 => f64::EPSILON,
        Scalar::Float32 => f64::from(f32::EPSILON),
        Scalar::Float16 => 1.0 / 1024.0,
        // A fraction is cut off.
        _ => return 1.0,
    };
    2.0 * relative * value.abs()
}

impl VertexRules {
    /// How many bytes a position has.
    pub fn row_size(&self) -> usize {
        self.chunk_shape.len() * self.scalar.size()
    }

    /// Judges the cell of `vertices` of `chunk`, whose coordinates are those of space alone, and
    /// adds its positions to `extent`; how many rows it has, or `None` if that cannot be said.
    ///
    /// A position is in its chunk also if it is only by rounding that it is not: zarr-vectors
    /// looks for the chunk first and stores fewer digits then.
    pub fn judge(
        &self,
        bytes: &[u8],
        chunk: &[i64],
        extent: &mut Extent,
        out: &mut Vec<Violation>,
    ) -> Option<u64> {
        let rows = match Values::new(bytes, self.row_size()) {
            Ok(rows) => rows.len() as u64,
            Err(error) => {
                out.push(Violation::new(RuleKind::Vertices, error.to_string()));
                return None;
            }
        };
        let mut elsewhere = Places::default();
        let rank = self.chunk_shape.len();
        let mut position = vec![0.0; rank];
        for (at, row) in bytes.chunks_exact(self.row_size()).enumerate() {
            let coordinates = row.chunks_exact(self.scalar.size());
            for ((axis, value), bytes) in position.iter_mut().enumerate().zip(coordinates) {
                *value = self.number(bytes);
                if value.is_finite() {
                    extent.add(axis, *value);
                }
            }
            if !self.is_in(&position, chunk) {
                elsewhere.add(|| {
                    let place = chunk_of(position.iter().copied(), &self.chunk_shape);
                    let place =
                        place.map(|chunk| format!(", which is in chunk {}", chunk_key(&chunk)));
                    format!("vertex {at} is at {position:?}{}", place.unwrap_or_default())
                });
            }
        }
        elsewhere.tell(RuleKind::Vertices, out);
        Some(rows)
    }

    fn number(&self, bytes: &[u8]) -> f64 {
        if !self.swapped {
            return self.scalar.number(bytes);
        }
        let mut turned = SmallVec::<[u8; 8]>::from_slice(bytes);
        turned.reverse();
        self.scalar.number(&turned)
    }

    fn is_in(&self, position: &[f64], chunk: &[i64]) -> bool {
        let inside = |add: Option<&Vec<f64>>| {
            position.iter().zip(chunk).zip(&self.chunk_shape).enumerate().all(
                |(axis, ((value, chunk), edge))| {
                    let value = value + add.and_then(|add| add.get(axis)).copied().unwrap_or(0.0);
                    let (low, high) = (*chunk as f64 * edge, (*chunk as f64 + 1.0) * edge);
                    let most = rounding(self.scalar, value).max(rounding(Scalar::Float64, high));
                    value >= low - most && value <= high + most
                },
            )
        };
        inside(None) || (self.offset.is_some() && inside(self.offset.as_ref()))
    }
}

/// Judges the fragments of a chunk with `rows` vertices, if that is known: they are of rows that
/// exist, every row is in one, and if they `tile`, they are ranges that follow each other.
pub fn judge_fragments<'a>(
    bytes: &'a [u8],
    rows: Option<u64>,
    tile: bool,
    out: &mut Vec<Violation>,
) -> Option<FragmentIndex<'a>> {
    let mut tell = |message: String| out.push(Violation::new(RuleKind::Fragments, message));
    if bytes.is_empty() {
        if let Some(rows) = rows.filter(|rows| *rows > 0) {
            tell(format!("there are no fragments for {rows} vertices"));
        }
        return None;
    }
    let index = match FragmentIndex::parse(bytes) {
        Ok(index) => index,
        Err(error) => {
            tell(error.to_string());
            return None;
        }
    };
    let Some(rows) = rows else { return Some(index) };
    if index.extent() > rows {
        tell(format!("a fragment has row {} of {rows} vertices", index.extent() - 1));
    } else if tile && !index.tiles(rows) {
        tell(format!(
            "the level says that fragments follow each other (fragments_tile), but these {} are \
             not all of the {rows} rows in order",
            index.len()
        ));
    } else if !index.tiles(rows) {
        let left = rows_left(&index, rows);
        if left > 0 {
            tell(format!("{left} of {rows} vertices are in no fragment"));
        }
    }
    Some(index)
}

/// How many rows are in no fragment. All fragments are of rows that exist.
///
/// Costs 8 bytes for each row, and the time of the rows and of what is stored of fragments: a range
/// costs the same however long it is, as many may have all rows.
fn rows_left(index: &FragmentIndex<'_>, rows: u64) -> u64 {
    let Ok(len) = usize::try_from(rows) else { return 0 };
    // By how many fragments more have a row than have the one before it.
    let mut more = vec![0i64; len];
    let mut add = |row: u64, change: i64| {
        if let Some(more) = usize::try_from(row).ok().and_then(|row| more.get_mut(row)) {
            *more += change;
        }
    };
    let mut take = |start: u64, count: u64| {
        add(start, 1);
        add(start.saturating_add(count), -1);
    };
    for fragment in index.iter() {
        match fragment {
            Fragment::Range { count: 0, .. } => {}
            Fragment::Range { start, count } => take(start, count),
            Fragment::List(list) => list.iter().for_each(|row| take(row, 1)),
        }
    }
    let mut fragments = 0;
    let is_left = |more: &&i64| {
        fragments += **more;
        fragments == 0
    };
    more.iter().filter(is_left).count() as u64
}
