//! What the targets of geometry files share.

use std::io::Cursor;

use shardine_geometry::files::{CsvReader, CsvWriter, FileFormat, ReadOptions};
use shardine_geometry::{GeometryError, GeometryKind, GeometrySink, GeometrySource, OBJECT_ID};

use crate::memory;

/// Kinds of geometry by the first byte of an input.
const KINDS: &[GeometryKind] = &[
    GeometryKind::Points,
    GeometryKind::Lines,
    GeometryKind::Polylines,
    GeometryKind::Skeletons,
    GeometryKind::Graph,
    GeometryKind::Mesh,
];

/// Reads a file in batches of a few rows, and writes what was read as CSV, which must read back as
/// the same number of rows.
///
/// Input: a byte for the kind, one for the size of batches, then the file.
pub fn run(format: FileFormat, input: &[u8]) {
    let [kind, rows, file @ ..] = input else { return };
    let kind = KINDS[usize::from(*kind) % KINDS.len()];
    memory::bounded((8 << 20) + 512 * input.len(), || {
        let _ = check(format, kind, usize::from(*rows), file);
        let _ = check_table(format, file);
    });
}

/// Reads the same bytes as a table of objects.
fn check_table(format: FileFormat, file: &[u8]) -> Result<(), GeometryError> {
    let mut table = format.open_table(Cursor::new(file.to_vec()), &[OBJECT_ID])?;
    while let Some(rows) = table.next_rows()? {
        assert_eq!(rows.schema(), *table.columns());
    }
    Ok(())
}

fn check(
    format: FileFormat,
    kind: GeometryKind,
    rows: usize,
    file: &[u8],
) -> Result<(), GeometryError> {
    let options = ReadOptions::new(kind).batch_rows(rows);
    let mut source = format.open(Cursor::new(file.to_vec()), &options)?;
    let mut text = Vec::new();
    let mut sink = Box::new(CsvWriter::create(&mut text, source.schema())?);
    let mut next = 0;
    while let Some(batch) = source.next_batch()? {
        assert_eq!(batch.first_row, next);
        next += batch.vertices.num_rows() as u64;
        assert!(batch.links.rows.iter().all(|row| *row < next));
        let width = kind.link_width();
        assert!(batch.links.rows.is_empty() || batch.links.width == width);
        if let Some(attributes) = &batch.links.attributes {
            assert_eq!(attributes.num_rows(), batch.links.len());
        }
        sink.push(&batch)?;
    }
    sink.finish()?;
    let axes = source.schema().axes.clone();
    let points = ReadOptions::new(GeometryKind::Points).axes(axes);
    let Ok(mut again) = CsvReader::open(Cursor::new(text), &points) else {
        panic!("what was written as CSV is not read");
    };
    let mut found = 0;
    while let Some(batch) = again.next_batch()? {
        found += batch.vertices.num_rows() as u64;
    }
    assert_eq!(found, next);
    Ok(())
}

/// A seed: the kind by its place in the list, batches of two rows.
pub fn seed(kind: u8, file: &str) -> Vec<u8> {
    [&[kind, 2], file.as_bytes()].concat()
}
