//! Files that are read more than once.

use std::io::{self, Read, Seek};

use super::{FileFormat, ReadOptions, float_columns};
use crate::{GeometryBatch, GeometryError, GeometrySchema, GeometrySource};

/// The rows of a file that can be opened again, and so can tell its bounds before its rows.
pub struct FileRows<O> {
    format: FileFormat,
    options: ReadOptions,
    open: O,
    source: Box<dyn GeometrySource + Send>,
}

impl<O, R> FileRows<O>
where
    O: FnMut() -> io::Result<R>,
    R: Read + Seek + Send + 'static,
{
    /// Reads a file that `open` opens, each time from its beginning.
    pub fn open(
        format: FileFormat,
        options: &ReadOptions,
        mut open: O,
    ) -> Result<Self, GeometryError> {
        let source = format.open(open()?, options)?;
        Ok(Self { format, options: options.clone(), open, source })
    }
}

impl<O, R> GeometrySource for FileRows<O>
where
    O: FnMut() -> io::Result<R>,
    R: Read + Seek + Send + 'static,
{
    fn schema(&self) -> &GeometrySchema {
        self.source.schema()
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        self.source.next_batch()
    }

    fn object_columns(&self) -> &[String] {
        self.source.object_columns()
    }

    fn bounds(&mut self) -> Result<Option<[Vec<f64>; 2]>, GeometryError> {
        let rank = self.schema().axes.len();
        let (mut low, mut high) = (vec![f64::INFINITY; rank], vec![f64::NEG_INFINITY; rank]);
        while let Some(batch) = self.source.next_batch()? {
            for (axis, column) in float_columns(&batch.vertices, rank)?.into_iter().enumerate() {
                for value in column {
                    // What is no number is refused with its row when rows are gathered.
                    low[axis] = low[axis].min(value);
                    high[axis] = high[axis].max(value);
                }
            }
        }
        let again = (self.open)()?;
        self.source = self.format.open_again(again, &self.options, self.source.schema())?;
        Ok(Some([low, high]))
    }
}
