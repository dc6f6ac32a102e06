//! Vertices, faces and lines in Wavefront `.obj` files.

use std::io::{BufWriter, Read, Write};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Fields, SchemaRef};

use super::columns::{ColumnBuilder, Values, is_number};
use super::lines::{Lines, MAX_LINE};
use super::options::ReadOptions;
use super::{cannot_hold, invalid};
use crate::{
    GeometryBatch, GeometryError, GeometrySchema, GeometrySink, GeometrySource, Links, OBJECT_ID,
};

const OBJ: &str = ".obj";

/// Reads vertices (`v`), and faces (`f`) as triangles or lines (`l`) as edges, as the kind asks
/// for.
///
/// A polygon becomes a fan of triangles around its first vertex. Normals, texture coordinates,
/// colours, groups and materials are not read.
pub struct ObjReader<R> {
    lines: Lines<R>,
    schema: GeometrySchema,
    columns: SchemaRef,
    builders: Vec<ColumnBuilder>,
    batch_rows: usize,
    vertices: u64,
    /// Elements with a vertex that has not come yet, and their lines.
    early: Vec<(u64, Vec<u64>)>,
    ended: bool,
}

impl<R: Read> ObjReader<R> {
    /// Reads points, a graph or a mesh. Other kinds have objects, which this format has not.
    pub fn open(input: R, options: &ReadOptions) -> Result<Self, GeometryError> {
        if options.kind.has_objects() {
            return Err(cannot_hold(OBJ, format!("the objects of {}", options.kind.name())));
        }
        let axes = options.axes_or_usual(3);
        if axes.len() != 3 {
            return Err(cannot_hold(OBJ, format!("positions with {} axes", axes.len())));
        }
        let coordinate = options.coordinate.clone().unwrap_or(DataType::Float64);
        if !is_number(&coordinate) {
            return Err(cannot_hold(OBJ, format!("coordinates of type {coordinate}")));
        }
        let builders = (0..3).filter_map(|_| ColumnBuilder::new(&coordinate)).collect();
        let schema = GeometrySchema {
            kind: options.kind,
            axes,
            coordinate,
            objects: false,
            vertex_attributes: Fields::empty(),
            link_attributes: Fields::empty(),
        };
        Ok(Self {
            lines: Lines::new(OBJ, input),
            columns: schema.vertex_columns(),
            schema,
            builders,
            batch_rows: options.rows(),
            vertices: 0,
            early: Vec::new(),
            ended: false,
        })
    }

    fn vertex<'a>(
        &mut self,
        mut words: impl Iterator<Item = &'a str>,
    ) -> Result<(), GeometryError> {
        for builder in &mut self.builders {
            let word = words.next().unwrap_or_default();
            if !builder.push_text(word) {
                let reason = format!("a vertex has three coordinates, and {word:?} is none");
                return Err(self.lines.wrong(reason));
            }
        }
        self.vertices += 1;
        Ok(())
    }

    /// The rows of the vertices that an element joins. Negative numbers count backwards.
    fn corners<'a>(&self, words: impl Iterator<Item = &'a str>) -> Result<Vec<u64>, GeometryError> {
        let mut rows = Vec::new();
        for word in words {
            let number = word.split('/').next().unwrap_or_default();
            let row = match number.parse::<i64>() {
                Ok(number @ 1..) => Some(number as u64 - 1),
                Ok(number) => match number.unsigned_abs() {
                    0 => None,
                    back => self.vertices.checked_sub(back),
                },
                Err(_) => None,
            };
            let reason = || self.lines.wrong(format!("{word:?} is not a vertex"));
            rows.push(row.ok_or_else(reason)?);
        }
        Ok(rows)
    }

    /// Adds the links of an element, or keeps it until its vertices have come.
    fn element(&mut self, corners: Vec<u64>, links: &mut Vec<u64>) -> Result<(), GeometryError> {
        let width = self.schema.kind.link_width();
        if corners.len() < width {
            let reason = format!("it names {} vertices, and should {width}", corners.len());
            return Err(self.lines.wrong(reason));
        }
        if corners.iter().any(|row| *row >= self.vertices) {
            self.early.push((self.lines.number(), corners));
            return Ok(());
        }
        join(width, &corners, links);
        Ok(())
    }

    fn line(&mut self, line: &str, links: &mut Vec<u64>) -> Result<(), GeometryError> {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), self.schema.kind.link_width()) {
            (Some("v"), _) => self.vertex(words),
            (Some("f"), 3) | (Some("l"), 2) => {
                let corners = self.corners(words)?;
                self.element(corners, links)
            }
            _ => Ok(()),
        }
    }
}

/// The links of an element: a fan of triangles, or the edges along a line.
fn join(width: usize, corners: &[u64], links: &mut Vec<u64>) {
    match (width, corners) {
        (3, [first, others @ ..]) => {
            others.windows(2).for_each(|pair| links.extend([*first, pair[0], pair[1]]));
        }
        _ => corners.windows(2).for_each(|pair| links.extend(pair)),
    }
}

impl<R: Read> GeometrySource for ObjReader<R> {
    fn schema(&self) -> &GeometrySchema {
        &self.schema
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        if self.ended {
            return Ok(None);
        }
        let first_row = self.vertices;
        let width = self.schema.kind.link_width();
        let mut links = Vec::new();
        let mut text = String::new();
        while ((self.vertices - first_row) as usize) < self.batch_rows
            && links.len() < self.batch_rows.saturating_mul(width.max(1))
        {
            let Some(line) = self.lines.next()? else {
                self.ended = true;
                break;
            };
            text.push_str(line.strip_suffix('\\').unwrap_or(line));
            if line.ends_with('\\') {
                if text.len() > MAX_LINE {
                    return Err(self.lines.wrong(format!("it is longer than {MAX_LINE} bytes")));
                }
                text.push(' ');
                continue;
            }
            let line = std::mem::take(&mut text);
            self.line(&line, &mut links)?;
            text = line;
            text.clear();
        }
        // What was waiting for these vertices.
        let vertices = self.vertices;
        self.early.retain(|(_, corners)| {
            let waits = corners.iter().any(|row| *row >= vertices);
            if !waits {
                join(width, corners, &mut links);
            }
            waits
        });
        if self.ended
            && let Some((line, corners)) = self.early.first()
        {
            let far = corners.iter().max().map_or(0, |row| row.saturating_add(1));
            let reason = format!("there is no vertex {far}: there are {vertices}");
            return Err(invalid(OBJ, format!("line {line}"), reason));
        }
        if self.ended && links.is_empty() && vertices == first_row {
            return Ok(None);
        }
        let arrays = self.builders.iter_mut().map(ColumnBuilder::finish).collect();
        let vertices = RecordBatch::try_new(self.columns.clone(), arrays)?;
        let links = Links { width, rows: links, attributes: None };
        Ok(Some(GeometryBatch { first_row, vertices, links }))
    }
}

/// Writes vertices, and faces or lines as they come. Paths become lines.
pub struct ObjWriter<W: Write> {
    output: BufWriter<W>,
    /// Whether lines follow from the order of vertices, and the object of the last one.
    path: Option<Option<i64>>,
}

impl<W: Write> ObjWriter<W> {
    /// Fails for positions that do not have three coordinates.
    pub fn create(output: W, schema: &GeometrySchema) -> Result<Self, GeometryError> {
        if schema.axes.len() != 3 {
            return Err(cannot_hold(OBJ, format!("positions with {} axes", schema.axes.len())));
        }
        let path = schema.kind.link_width() == 0 && schema.kind.has_objects();
        Ok(Self { output: BufWriter::new(output), path: path.then_some(None) })
    }
}

impl<W: Write> GeometrySink for ObjWriter<W> {
    fn push(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError> {
        let axes = batch.vertices.columns().iter().take(3);
        let axes: Vec<Values<'_>> = axes.filter_map(|axis| Values::new(axis)).collect();
        let mut line = Vec::new();
        for row in 0..batch.vertices.num_rows() {
            line.clear();
            line.push(b'v');
            for axis in &axes {
                line.push(b' ');
                axis.write_text(row, &mut line);
            }
            line.push(b'\n');
            self.output.write_all(&line)?;
        }
        if let Some(last) = &mut self.path {
            let ids = batch.vertices.column_by_name(OBJECT_ID);
            if let Some(ids) = ids.and_then(|ids| ids.as_primitive_opt::<Int64Type>()) {
                for (row, &id) in (batch.first_row..).zip(ids.values()) {
                    if last.replace(id) == Some(id) {
                        writeln!(self.output, "l {row} {}", row + 1)?;
                    }
                }
            }
        }
        let word = if batch.links.width == 3 { "f" } else { "l" };
        for link in batch.links.rows.chunks_exact(batch.links.width.max(1)) {
            write!(self.output, "{word}")?;
            for row in link {
                write!(self.output, " {}", row + 1)?;
            }
            writeln!(self.output)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), GeometryError> {
        Ok(self.output.flush()?)
    }
}
