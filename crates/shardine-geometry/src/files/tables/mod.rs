//! Tables in Parquet and Arrow IPC files, which hold columns as batches do.

mod ipc;
mod messages;
mod parquet;

pub(super) use ipc::IpcRows;
pub use ipc::{IpcReader, IpcWriter};
pub(super) use parquet::ParquetRows;
pub use parquet::{ParquetReader, ParquetWriter};

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::columns::{plain, plain_type, text_type};
use super::{cannot_hold, invalid};
use crate::{GeometryError, GeometrySchema};

/// Calls a library that may panic on damaged input, which must not end the whole program.
fn guarded<T, E: std::fmt::Display>(
    format: &'static str,
    place: &str,
    call: impl FnOnce() -> Result<T, E>,
) -> Result<T, GeometryError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(invalid(format, place, error.to_string())),
        Err(_) => Err(invalid(format, place, "the file is damaged")),
    }
}

/// The columns of vertices as they are stored: strings are plain ones, because batches have
/// dictionaries of their own and a file has one for all.
fn stored_columns(
    format: &'static str,
    schema: &GeometrySchema,
) -> Result<SchemaRef, GeometryError> {
    let mut fields = Vec::new();
    for field in schema.vertex_columns().fields() {
        let data_type = match plain_type(field.data_type()) {
            Some(text) if text == text_type() => DataType::Utf8,
            Some(plain) => plain,
            None => {
                let what = format!("column {} of type {}", field.name(), field.data_type());
                return Err(cannot_hold(format, what));
            }
        };
        fields.push(Field::new(field.name(), data_type, field.is_nullable()));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Vertices in the columns of [`stored_columns`].
fn stored_rows(columns: &SchemaRef, rows: &RecordBatch) -> Result<RecordBatch, GeometryError> {
    let stored = |array: &ArrayRef| -> ArrayRef {
        let array = plain(array).unwrap_or_else(|| array.clone());
        let Some(words) = array.as_dictionary_opt::<Int32Type>() else { return array };
        match words.downcast_dict::<StringArray>() {
            Some(words) => Arc::new(words.into_iter().collect::<StringArray>()),
            None => array,
        }
    };
    let arrays = rows.columns().iter().map(stored).collect();
    Ok(RecordBatch::try_new(columns.clone(), arrays)?)
}
