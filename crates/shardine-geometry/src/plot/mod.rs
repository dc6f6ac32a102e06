//! A picture of geometry, as SVG or PNG.

mod drawing;
mod font;
mod raster;
mod svg;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;

use crate::files::float_columns;
use crate::{GeometryBatch, GeometryError, GeometryKind, GeometrySchema, GeometrySink, OBJECT_ID};

use drawing::Drawing;

/// More elements than this are thinned: a picture with more shows nothing else.
const MOST: usize = 20_000;

/// Collects geometry and draws it, seen along an axis: of the axes, the two along which it is
/// longest are shown.
///
/// Points, paths, edges and the sides of triangles are drawn. Of more than 20,000 only every nth
/// is, and the legend says so. Memory grows with the vertices of kinds that have links, as a link
/// may join any two; of others with what is drawn.
pub struct Plot {
    schema: GeometrySchema,
    /// The least and the largest coordinate along each axis.
    bounds: Vec<(f64, f64)>,
    /// Coordinates, vertex after vertex: of all if there are links, else of those in `marks`.
    positions: Vec<f64>,
    /// Elements: one vertex, or two, by number in `positions`.
    marks: Vec<[usize; 2]>,
    /// Only one of so many elements is kept.
    stride: u64,
    vertices: u64,
    elements: u64,
    objects: u64,
    last: Option<(i64, Vec<f64>)>,
}

impl Plot {
    /// An empty picture.
    pub fn new(schema: &GeometrySchema) -> Self {
        Self {
            bounds: vec![(f64::INFINITY, f64::NEG_INFINITY); schema.axes.len()],
            schema: schema.clone(),
            positions: Vec::new(),
            marks: Vec::new(),
            stride: 1,
            vertices: 0,
            elements: 0,
            objects: 0,
            last: None,
        }
    }

    /// Adds the vertices and links of a batch.
    pub fn push(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError> {
        let axes = float_columns(&batch.vertices, self.schema.axes.len())?;
        let ids = batch.vertices.column_by_name(OBJECT_ID);
        let ids = ids.and_then(|ids| ids.as_primitive_opt::<Int64Type>());
        let linked = self.schema.kind.link_width() > 0;
        let path = !linked && self.schema.kind.has_objects();
        for row in 0..batch.vertices.num_rows() {
            let position: Vec<f64> = axes.iter().map(|axis| axis[row]).collect();
            for (bounds, &x) in self.bounds.iter_mut().zip(&position) {
                if x.is_finite() {
                    *bounds = (bounds.0.min(x), bounds.1.max(x));
                }
            }
            let id = ids.map_or(0, |ids| ids.value(row));
            let goes_on = self.last.as_ref().is_some_and(|(last, _)| *last == id);
            self.objects += u64::from(ids.is_some() && !goes_on);
            if linked {
                self.positions.extend(&position);
            } else if path && goes_on {
                let before = self.last.take().map(|(_, before)| before).unwrap_or_default();
                self.add(&[&before, &position]);
            } else if !path {
                self.add(&[&position]);
            }
            self.last = Some((id, position));
        }
        self.vertices += batch.vertices.num_rows() as u64;
        for link in batch.links.rows.chunks_exact(batch.links.width.max(1)) {
            let [first, .., last] = link else { continue };
            link.windows(2).for_each(|side| self.link(side[0], side[1]));
            if link.len() > 2 {
                self.link(*last, *first);
            }
        }
        Ok(())
    }

    /// Counts an element; whether it is to be kept.
    fn counts(&mut self) -> bool {
        self.elements += 1;
        (self.elements - 1).is_multiple_of(self.stride)
    }

    fn add(&mut self, ends: &[&[f64]]) {
        if !self.counts() {
            return;
        }
        let width = self.bounds.len().max(1);
        let first = self.positions.len() / width;
        ends.iter().for_each(|end| self.positions.extend(*end));
        self.marks.push([first, first + ends.len() - 1]);
        if self.marks.len() > 2 * MOST {
            self.thin();
            // Only what is still shown is kept.
            let mut kept = Vec::with_capacity(self.positions.len() / 2);
            for mark in &mut self.marks {
                let start = kept.len() / width;
                kept.extend_from_slice(&self.positions[mark[0] * width..(mark[1] + 1) * width]);
                *mark = [start, start + mark[1] - mark[0]];
            }
            self.positions = kept;
        }
    }

    fn link(&mut self, a: u64, b: u64) {
        let known = |row: u64| usize::try_from(row).ok().filter(|_| row < self.vertices);
        let (Some(a), Some(b)) = (known(a), known(b)) else { return };
        if self.counts() {
            self.marks.push([a, b]);
            if self.marks.len() > 2 * MOST {
                self.thin();
            }
        }
    }

    /// Keeps every second element, and from now on half as many.
    fn thin(&mut self) {
        let mut keep = false;
        self.marks.retain(|_| {
            keep = !keep;
            keep
        });
        self.stride *= 2;
    }

    /// The picture as SVG.
    pub fn svg(mut self) -> String {
        svg::draw(&self.drawing())
    }

    /// The picture as PNG.
    pub fn png(mut self) -> Result<Vec<u8>, GeometryError> {
        raster::png(&self.drawing()).map_err(|error| GeometryError::Side(Box::new(error)))
    }

    fn drawing(&mut self) -> Drawing {
        let count = self.marks.len();
        if count > MOST {
            // As many as may be drawn, at even distances.
            self.marks = (0..MOST).map(|at| self.marks[at * count / MOST]).collect();
        }
        Drawing::new(self)
    }

    /// What there is, and how much of it is drawn.
    fn legend(&self) -> Vec<String> {
        let of = |count: u64, one: &str, more: &str| {
            format!("{} {}", grouped(count), if count == 1 { one } else { more })
        };
        let points = self.schema.kind == GeometryKind::Points;
        let mut lines = match points {
            true => vec![of(self.vertices, "point", "points")],
            false => vec![of(self.vertices, "vertex", "vertices")],
        };
        if self.objects > 0 && !points {
            lines.push(of(self.objects, "object", "objects"));
        }
        let (one, more) = match self.schema.kind {
            GeometryKind::Mesh => ("side of triangles", "sides of triangles"),
            GeometryKind::Skeletons | GeometryKind::Graph => ("edge", "edges"),
            _ => ("segment", "segments"),
        };
        if !points {
            lines.push(of(self.elements, one, more));
        }
        if (self.marks.len() as u64) < self.elements {
            lines.push(format!("{} of them drawn", grouped(self.marks.len() as u64)));
        }
        lines
    }
}

impl GeometrySink for Plot {
    fn push(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError> {
        Self::push(self, batch)
    }

    fn finish(self: Box<Self>) -> Result<(), GeometryError> {
        Ok(())
    }
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
