//! Tables and mesh files as sources and sinks of geometry.
//!
//! | file | rows or elements | read in pieces | written |
//! |---|---|---|---|
//! | CSV | a column for each axis, `object_id`, attributes | yes | as it comes |
//! | Parquet, Arrow IPC | the same | yes | as it comes |
//! | batches in memory, or from another library | the same | yes | no |
//! | `.npy` | positions, N x D | yes | as it comes |
//! | `.obj` | vertices, faces, lines | yes | as it comes |
//! | `.ply` | vertices with attributes, faces, edges | yes | faces and edges at the end |
//! | `.swc` | trees with type and radius | as a whole | at the end |
//!
//! Nothing here opens a file: callers give what they have opened, and say what it is.

mod again;
mod batches;
mod columns;
mod csv_read;
mod csv_write;
mod edges;
mod format;
mod keyed;
mod lines;
mod npy;
mod obj;
mod options;
mod ply;
mod swc;
mod table;
#[cfg(feature = "tables")]
mod tables;

pub use again::FileRows;
pub use batches::{BatchReader, BatchTable, WithLinks};
pub use csv_read::CsvReader;
pub use csv_write::CsvWriter;
pub use edges::{EdgeReader, EdgeWriter, WithEdges};
pub use format::FileFormat;
pub use npy::{NpyReader, NpyWriter};
pub use obj::{ObjReader, ObjWriter};
pub use options::{ReadOptions, SwcObjects};
pub use ply::{PlyReader, PlyWriter};
pub use swc::{SwcReader, SwcWriter};
#[cfg(feature = "tables")]
pub use tables::{IpcReader, IpcWriter, ParquetReader, ParquetWriter};

use crate::GeometryError;

/// An error at a place of a file.
fn invalid(
    format: &'static str,
    place: impl Into<String>,
    reason: impl Into<String>,
) -> GeometryError {
    GeometryError::Invalid { format, place: place.into(), reason: reason.into() }
}

/// An error about what a format has no place for.
fn cannot_hold(format: &'static str, what: impl Into<String>) -> GeometryError {
    GeometryError::CannotHold { format, what: what.into() }
}

/// The first columns of a batch as floats.
pub(crate) fn float_columns(
    rows: &arrow_array::RecordBatch,
    count: usize,
) -> Result<Vec<Vec<f64>>, GeometryError> {
    let mut columns = Vec::with_capacity(count);
    for (field, array) in rows.schema_ref().fields().iter().zip(rows.columns()).take(count) {
        let wrong =
            || cannot_hold("a picture", format!("coordinates of type {}", field.data_type()));
        let values = columns::Values::new(array).ok_or_else(wrong)?;
        columns.push((0..rows.num_rows()).map(|row| values.float(row)).collect());
    }
    Ok(columns)
}
