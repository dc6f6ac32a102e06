//! Files of geometry: what is read of them, what is written, and what is refused.

#![allow(clippy::unwrap_used, clippy::panic)]

mod batches;
mod keyed;
mod meshes;
mod rows;
#[cfg(feature = "tables")]
mod tables;
mod trees;

use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};

use shardine_geometry::files::{CsvWriter, EdgeWriter, FileFormat, ReadOptions};
use shardine_geometry::{
    GeometryError, GeometryKind, GeometrySchema, GeometrySink, GeometrySource,
};

/// An output that can still be looked at after a sink has taken it.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Cursor<Vec<u8>>>>);

impl Output {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().get_ref().clone()
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.lock().unwrap().seek(to)
    }
}

/// Everything of a source: its schema, its vertices as CSV, and its links.
#[derive(Debug, PartialEq)]
struct All {
    schema: GeometrySchema,
    rows: Vec<String>,
    links: Vec<Vec<u64>>,
    link_attributes: Vec<String>,
    batches: usize,
}

fn all(source: &mut dyn GeometrySource) -> Result<All, GeometryError> {
    let schema = source.schema().clone();
    let text = Output::default();
    let mut csv = Box::new(CsvWriter::create(text.clone(), &schema)?);
    let edges = Output::default();
    let mut edge_csv = EdgeWriter::create(edges.clone(), &schema).map(Box::new).ok();
    let (mut links, mut batches, mut next_row) = (Vec::new(), 0, 0);
    while let Some(batch) = source.next_batch()? {
        batches += 1;
        assert_eq!(batch.first_row, next_row);
        assert_eq!(batch.vertices.schema(), schema.vertex_columns());
        next_row += batch.vertices.num_rows() as u64;
        assert!(batch.links.rows.iter().all(|row| *row < next_row), "a link to what comes later");
        links.extend(batch.links.rows.chunks(batch.links.width.max(1)).map(<[u64]>::to_vec));
        csv.push(&batch)?;
        if let Some(csv) = &mut edge_csv {
            csv.push(&batch)?;
        }
    }
    csv.finish()?;
    if let Some(csv) = edge_csv {
        csv.finish()?;
    }
    let rows = text.text().lines().map(str::to_owned).collect();
    let link_attributes = match schema.link_attributes.is_empty() {
        true => Vec::new(),
        false => edges.text().lines().map(str::to_owned).collect(),
    };
    Ok(All { schema, rows, links, link_attributes, batches })
}

fn read(format: FileFormat, bytes: &[u8], options: &ReadOptions) -> Result<All, GeometryError> {
    all(&mut *format.open(Cursor::new(bytes.to_vec()), options)?)
}

/// The message of what must fail.
fn refused(format: FileFormat, bytes: &[u8], kind: GeometryKind) -> String {
    match read(format, bytes, &ReadOptions::new(kind)) {
        Ok(all) => panic!("read: {all:?}"),
        Err(error) => error.to_string(),
    }
}

/// The bytes of a file of another format with what a source has.
fn written(format: FileFormat, source: &mut dyn GeometrySource) -> Result<Vec<u8>, GeometryError> {
    let output = Output::default();
    let mut sink = format.create(output.clone(), source.schema())?;
    while let Some(batch) = source.next_batch()? {
        sink.push(&batch)?;
    }
    sink.finish()?;
    Ok(output.bytes())
}

/// A file in another format.
fn converted(
    bytes: &[u8],
    from: FileFormat,
    to: FileFormat,
    options: &ReadOptions,
) -> Result<Vec<u8>, GeometryError> {
    written(to, &mut *from.open(Cursor::new(bytes.to_vec()), options)?)
}

/// Reads of bytes that have been cut anywhere, or in which one has changed, must end with rows or
/// an error.
fn survives_damage(format: FileFormat, bytes: &[u8], kind: GeometryKind) {
    let options = ReadOptions::new(kind);
    for cut in 0..bytes.len() {
        let _ = read(format, &bytes[..cut], &options);
    }
    for at in 0..bytes.len() {
        for value in [0, 0x7f, 0xff, bytes[at] ^ 1] {
            let mut damaged = bytes.to_vec();
            damaged[at] = value;
            let _ = read(format, &damaged, &options);
        }
    }
}

/// An input that never ends, and has no line breaks.
struct Endless;

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        buffer.fill(b'7');
        Ok(buffer.len())
    }
}
