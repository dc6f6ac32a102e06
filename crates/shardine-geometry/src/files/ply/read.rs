//! Reads `.ply` files element by element.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};

use super::PLY;
use super::header::{Element, Header, Property};
use super::rows::{Place, Rows};
use crate::files::columns::{ColumnBuilder, pick};
use crate::files::invalid;
use crate::files::lines::Lines;
use crate::files::options::ReadOptions;
use crate::files::table::Assembler;
use crate::{GeometryBatch, GeometryError, GeometrySchema, GeometrySource, Links};

/// Reads vertices, and faces as triangles or edges, as the kind asks for, in text or bytes.
///
/// Properties of vertices are attributes; one named `object_id` is the object. Single numbers of
/// faces and edges are attributes of links. A polygon becomes a fan of triangles around its first
/// vertex, and each of them has its attributes. Faces that come before the vertices are kept in
/// memory until these have come.
pub struct PlyReader<R> {
    rows: Rows<R>,
    elements: Vec<Element>,
    /// The element that is read, and how many of it have been.
    element: usize,
    row: u64,
    batch_rows: usize,
    assembler: Assembler,
    vertex_columns: SchemaRef,
    vertices: u64,
    /// The vertices that have been given.
    given: u64,
    link_columns: SchemaRef,
    /// Links that came before the vertices.
    early: std::collections::VecDeque<Links>,
}

/// Whether an element or its property is the list of a face's vertices.
fn is_corners(property: &Property) -> bool {
    property.list.is_some() && matches!(&property.name[..], "vertex_indices" | "vertex_index")
}

/// Which end of an edge a property is.
fn end_of_edge(property: &Property) -> Option<usize> {
    match &property.name[..] {
        "vertex1" if property.list.is_none() => Some(0),
        "vertex2" if property.list.is_none() => Some(1),
        _ => None,
    }
}

impl<R: Read + Seek> PlyReader<R> {
    /// Reads the header.
    pub fn open(mut input: R, options: &ReadOptions) -> Result<Self, GeometryError> {
        let start = input.stream_position()?;
        let end = input.seek(SeekFrom::End(0))?;
        input.seek(SeekFrom::Start(start))?;
        let mut lines = Lines::new(PLY, input);
        let header = Header::read(&mut lines)?;
        let at = lines.rest().stream_position()?;
        header.check(end.saturating_sub(at))?;

        let is_vertex = |element: &&Element| element.name == "vertex";
        let vertex = header.elements.iter().find(is_vertex);
        let vertex = vertex.ok_or_else(|| invalid(PLY, "header", "there is no element vertex"))?;
        if let Some(list) = vertex.properties.iter().find(|property| property.list.is_some()) {
            let reason = "a vertex has single numbers, and this is a list";
            return Err(invalid(PLY, format!("property {}", list.name), reason));
        }
        let vertex_columns: SchemaRef = Arc::new(columns(&vertex.properties, |_| true));
        let vertices = vertex.count;
        let mut assembler = Assembler::new(PLY, &vertex_columns, options)?;

        let width = options.kind.link_width();
        let joining = header.elements.iter().find(|element| Some(&element.name[..]) == name(width));
        let complete = |element: &Element| match width {
            3 => element.properties.iter().any(is_corners),
            _ => element.properties.iter().filter_map(end_of_edge).count() == 2,
        };
        let link_columns = match (joining, name(width)) {
            (_, None) => Schema::empty(),
            (Some(element), _) if complete(element) => {
                columns(&element.properties, |p| p.list.is_none() && end_of_edge(p).is_none())
            }
            (Some(_), Some(name)) => {
                let reason = "it does not say which vertices it joins";
                return Err(invalid(PLY, format!("element {name}"), reason));
            }
            (None, Some(name)) => {
                let reason = format!("there is none, and a {} has them", options.kind.name());
                return Err(invalid(PLY, format!("element {name}"), reason));
            }
        };
        assembler.schema.link_attributes = link_columns.fields.clone();
        Ok(Self {
            rows: Rows::new(lines, header.encoding),
            elements: header.elements,
            element: 0,
            row: 0,
            batch_rows: options.rows(),
            assembler,
            vertex_columns,
            vertices,
            given: 0,
            link_columns: Arc::new(link_columns),
            early: Default::default(),
        })
    }
}

/// The element that holds links of a width.
fn name(width: usize) -> Option<&'static str> {
    match width {
        3 => Some("face"),
        2 => Some("edge"),
        _ => None,
    }
}

fn columns(properties: &[Property], wanted: impl Fn(&Property) -> bool) -> Schema {
    let wanted = properties.iter().filter(|property| wanted(property));
    let field =
        |property: &Property| Field::new(&property.name, property.scalar.data_type(), false);
    Schema::new(wanted.map(field).collect::<Vec<_>>())
}

fn builders(columns: &SchemaRef) -> Vec<ColumnBuilder> {
    columns.fields().iter().filter_map(|field| ColumnBuilder::new(field.data_type())).collect()
}

impl<R: Read> PlyReader<R> {
    /// How many of the current element come next.
    fn piece(&self) -> u64 {
        let count = self.elements.get(self.element).map_or(0, |element| element.count);
        (count - self.row).min(self.batch_rows as u64)
    }

    fn next_vertices(&mut self) -> Result<GeometryBatch, GeometryError> {
        let element = &self.elements[self.element];
        let mut builders = builders(&self.vertex_columns);
        for row in self.row..self.row + self.piece() {
            let place = Place { element: "vertex", row };
            self.rows.begin(place)?;
            for (property, builder) in element.properties.iter().zip(&mut builders) {
                self.rows.value(property.scalar, builder, place)?;
            }
            self.rows.end(place)?;
        }
        self.row += self.piece();
        let arrays = builders.iter_mut().map(ColumnBuilder::finish).collect();
        let rows = RecordBatch::try_new(self.vertex_columns.clone(), arrays)?;
        let batch = self.assembler.batch(&rows)?;
        self.given = batch.first_row + batch.vertices.num_rows() as u64;
        Ok(batch)
    }

    fn next_links(&mut self) -> Result<Links, GeometryError> {
        let width = self.assembler.schema.kind.link_width();
        let element = &self.elements[self.element];
        let mut builders = builders(&self.link_columns);
        let mut links = Vec::new();
        // How many links each element has become.
        let mut copies = Vec::new();
        let mut corners = Vec::new();
        let last = self.row + self.piece();
        // A polygon is many triangles: their number counts, too.
        let most = self.batch_rows.saturating_mul(width);
        while self.row < last && links.len() < most {
            let place = Place { element: &element.name, row: self.row };
            self.rows.begin(place)?;
            let mut columns = builders.iter_mut();
            let mut edge = [0; 2];
            for property in &element.properties {
                if is_corners(property) && width == 3 {
                    let length = property.list.unwrap_or(property.scalar);
                    corners.clear();
                    for _ in 0..self.rows.length(length, place)? {
                        corners.push(self.rows.vertex(property.scalar, self.vertices, place)?);
                    }
                } else if property.list.is_some() {
                    self.rows.skip(property, place)?;
                } else if let Some(end) = end_of_edge(property).filter(|_| width == 2) {
                    edge[end] = self.rows.vertex(property.scalar, self.vertices, place)?;
                } else if end_of_edge(property).is_some() {
                    self.rows.skip(property, place)?;
                } else if let Some(builder) = columns.next() {
                    self.rows.value(property.scalar, builder, place)?;
                }
            }
            self.rows.end(place)?;
            let before = links.len();
            match (width, &corners[..]) {
                (3, [first, others @ ..]) if others.len() >= 2 => {
                    others.windows(2).for_each(|pair| links.extend([*first, pair[0], pair[1]]));
                }
                (3, few) => {
                    let reason = format!("it has {} vertices, and a face has three", few.len());
                    return Err(self.rows.wrong(place, reason));
                }
                _ => links.extend(edge),
            }
            copies.push((links.len() - before) / width.max(1));
            self.row += 1;
        }
        let attributes = match self.link_columns.fields().is_empty() {
            true => None,
            false => {
                let arrays = builders.iter_mut().map(|b| repeated(b.finish(), &copies));
                let arrays = arrays.collect::<Result<_, _>>()?;
                Some(RecordBatch::try_new(self.link_columns.clone(), arrays)?)
            }
        };
        Ok(Links { width, rows: links, attributes })
    }

    fn skip(&mut self) -> Result<(), GeometryError> {
        let element = &self.elements[self.element];
        for row in self.row..element.count {
            let place = Place { element: &element.name, row };
            self.rows.begin(place)?;
            element.properties.iter().try_for_each(|p| self.rows.skip(p, place))?;
            self.rows.end(place)?;
        }
        self.row = element.count;
        Ok(())
    }

    /// A batch without vertices.
    fn only(&self, links: Links) -> GeometryBatch {
        let vertices = RecordBatch::new_empty(self.assembler.schema.vertex_columns());
        GeometryBatch { first_row: self.given, vertices, links }
    }
}

/// Each value as often as it is asked for.
fn repeated(column: ArrayRef, copies: &[usize]) -> Result<ArrayRef, GeometryError> {
    let times = |(row, &copies): (usize, &usize)| std::iter::repeat_n((0, row), copies);
    Ok(pick(&[column], copies.iter().enumerate().flat_map(times))?)
}

impl<R: Read> GeometrySource for PlyReader<R> {
    fn schema(&self) -> &GeometrySchema {
        &self.assembler.schema
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        let joining = name(self.assembler.schema.kind.link_width());
        while let Some(element) = self.elements.get(self.element) {
            if self.row == element.count {
                (self.element, self.row) = (self.element + 1, 0);
                continue;
            }
            match &element.name[..] {
                "vertex" => return self.next_vertices().map(Some),
                name if Some(name) == joining => {
                    let links = self.next_links()?;
                    if self.given == self.vertices {
                        return Ok(Some(self.only(links)));
                    }
                    self.early.push_back(links);
                }
                _ => self.skip()?,
            }
        }
        Ok(self.early.pop_front().map(|links| self.only(links)))
    }
}
