//! Writes `.ply` files in little-endian bytes.

use std::io::{BufWriter, Seek, SeekFrom, Write};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Fields};

use super::PLY;
use crate::files::cannot_hold;
use crate::files::columns::{FlatColumn, Values, flat_fields};
use crate::{GeometryBatch, GeometryError, GeometrySchema, GeometrySink};

/// Below this, floats of 64 bits hold every integer.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Writes vertices with their attributes as they come, then faces or edges, which are kept in
/// memory until the end.
///
/// There are no integers of 64 bits in this format: they become floats, and those from 2^53 on are
/// refused. A Boolean is a byte, a list of numbers several properties. Strings have no place.
pub struct PlyWriter<W: Write> {
    output: BufWriter<W>,
    start: u64,
    /// As long as the header, which is replaced in the end.
    header: usize,
    vertex: Fields,
    link: Fields,
    width: usize,
    vertices: u64,
    links: u64,
    link_bytes: Vec<u8>,
}

/// The name of a type; `None` if it has no place.
fn property_type(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Int8 => "char",
        DataType::UInt8 | DataType::Boolean => "uchar",
        DataType::Int16 => "short",
        DataType::UInt16 => "ushort",
        DataType::Int32 => "int",
        DataType::UInt32 => "uint",
        DataType::Float32 => "float",
        DataType::Float64 | DataType::Int64 | DataType::UInt64 => "double",
        _ => return None,
    })
}

/// Whether there is a property for a column.
pub(in crate::files) fn holds(field: &Field) -> bool {
    let fields: Fields = vec![field.clone()].into();
    flat_fields(&fields).iter().all(|field| property_type(field.data_type()).is_some())
}

impl<W: Write + Seek> PlyWriter<W> {
    /// Writes a header, which is replaced in the end.
    pub fn create(mut output: W, schema: &GeometrySchema) -> Result<Self, GeometryError> {
        let vertex: Fields = schema.vertex_columns().fields().iter().cloned().collect();
        let start = output.stream_position()?;
        let mut writer = Self {
            output: BufWriter::new(output),
            start,
            header: 0,
            vertex: vertex.iter().filter(|field| holds(field)).cloned().collect(),
            link: schema.link_attributes.iter().filter(|field| holds(field)).cloned().collect(),
            width: schema.kind.link_width(),
            vertices: 0,
            links: 0,
            link_bytes: Vec::new(),
        };
        if flat_fields(&writer.vertex)
            .iter()
            .any(|field| field.name().contains(char::is_whitespace))
        {
            return Err(cannot_hold(PLY, "attributes with white space in their names"));
        }
        // With room for the largest numbers.
        writer.header = writer.header_text(u64::MAX, u64::MAX).len();
        let header = writer.padded_header();
        writer.output.write_all(header.as_bytes())?;
        Ok(writer)
    }

    fn header_text(&self, vertices: u64, links: u64) -> String {
        let mut text = format!("ply\nformat binary_little_endian 1.0\nelement vertex {vertices}\n");
        let properties = |text: &mut String, fields: &Fields| {
            for field in flat_fields(fields) {
                let name = property_type(field.data_type()).unwrap_or("double");
                text.push_str(&format!("property {name} {}\n", field.name()));
            }
        };
        properties(&mut text, &self.vertex);
        // The bytes are the same; most readers expect numbers with a sign.
        let number = if vertices > i32::MAX as u64 { "uint" } else { "int" };
        match self.width {
            3 => {
                text.push_str(&format!("element face {links}\n"));
                text.push_str(&format!("property list uchar {number} vertex_indices\n"));
                properties(&mut text, &self.link);
            }
            2 => {
                text.push_str(&format!("element edge {links}\n"));
                for end in [1, 2] {
                    text.push_str(&format!("property {number} vertex{end}\n"));
                }
                properties(&mut text, &self.link);
            }
            _ => {}
        }
        text
    }

    /// The header with a comment that makes it as long as it will ever be.
    fn padded_header(&self) -> String {
        let text = self.header_text(self.vertices, self.links);
        let room = self.header.saturating_sub(text.len());
        format!("{text}comment{}\nend_header\n", " ".repeat(room))
    }
}

/// Writes the wanted columns of a batch, row by row, after what `before` writes.
fn write_rows(
    batch: &RecordBatch,
    wanted: &Fields,
    out: &mut Vec<u8>,
    rows: usize,
    mut before: impl FnMut(usize, &mut Vec<u8>),
) -> Result<(), GeometryError> {
    let mut flat = Vec::new();
    for field in wanted {
        let column = batch.column_by_name(field.name()).and_then(FlatColumn::of);
        let missing = || cannot_hold(PLY, format!("a batch without column {}", field.name()));
        flat.extend(column.ok_or_else(missing)?.into_iter().map(|column| (field, column)));
    }
    let columns: Vec<(&str, &FlatColumn, Values<'_>)> = flat
        .iter()
        .filter_map(|(field, column)| Some((&field.name()[..], column, column.values()?)))
        .collect();
    for row in 0..rows {
        before(row, out);
        for (name, column, values) in &columns {
            match (column.at(row), values) {
                (Some(at), Values::Int64(_) | Values::UInt64(_)) => {
                    let float = values.float(at);
                    if float.abs() >= EXACT {
                        let what = format!("the integer {float:e} of column {name} in row {row}");
                        return Err(cannot_hold(PLY, what));
                    }
                    out.extend(float.to_le_bytes());
                }
                (Some(at), _) => values.write_bytes(at, out),
                (None, Values::Float32(_)) => out.extend(f32::NAN.to_le_bytes()),
                (None, Values::Float64(_)) => out.extend(f64::NAN.to_le_bytes()),
                (None, _) => {
                    let what = format!("an absent value: column {name}, row {row}");
                    return Err(cannot_hold(PLY, what));
                }
            }
        }
    }
    Ok(())
}

impl<W: Write + Seek> GeometrySink for PlyWriter<W> {
    fn push(&mut self, batch: &GeometryBatch) -> Result<(), GeometryError> {
        let rows = batch.vertices.num_rows();
        let mut bytes = Vec::new();
        write_rows(&batch.vertices, &self.vertex, &mut bytes, rows, |_, _| {})?;
        self.output.write_all(&bytes)?;
        self.vertices += rows as u64;
        let links = &batch.links;
        if self.width == 0 || links.is_empty() {
            return Ok(());
        }
        if let Some(far) = links.rows.iter().find(|row| u32::try_from(**row).is_err()) {
            return Err(cannot_hold(PLY, format!("a link to vertex {far}")));
        }
        let none;
        let attributes = match &links.attributes {
            Some(attributes) => attributes,
            None => {
                none = RecordBatch::new_empty(std::sync::Arc::new(arrow_schema::Schema::empty()));
                &none
            }
        };
        let width = links.width.max(1);
        let joined = |link: usize, out: &mut Vec<u8>| {
            if width == 3 {
                out.push(3);
            }
            let rows = &links.rows[link * width..(link + 1) * width];
            rows.iter().for_each(|row| out.extend((*row as u32).to_le_bytes()));
        };
        write_rows(attributes, &self.link, &mut self.link_bytes, links.len(), joined)?;
        self.links += links.len() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), GeometryError> {
        self.output.write_all(&self.link_bytes)?;
        let header = self.padded_header();
        self.output.seek(SeekFrom::Start(self.start))?;
        self.output.write_all(header.as_bytes())?;
        self.output.seek(SeekFrom::End(0))?;
        Ok(self.output.flush()?)
    }
}
