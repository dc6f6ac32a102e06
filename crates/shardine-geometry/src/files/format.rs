//! Formats by the endings of their names.

use std::io::{Read, Seek, Write};

use super::keyed::KeyedTable;
use super::ply::holds;
use super::*;
use crate::{GeometryKind, GeometrySchema, GeometrySink, GeometrySource, TableSource};

/// A format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFormat {
    /// Text with a header and a row for each vertex.
    Csv,
    /// Parquet.
    Parquet,
    /// An Arrow IPC file or stream.
    ArrowIpc,
    /// Positions as an array of N x D.
    Npy,
    /// Wavefront.
    Obj,
    /// The Stanford polygon format.
    Ply,
    /// Trees, a node in each line.
    Swc,
}

impl FileFormat {
    /// The format of files whose names end like this, without the dot.
    pub fn of_extension(extension: &str) -> Option<Self> {
        Some(match extension.to_ascii_lowercase().as_str() {
            "csv" | "tsv" => Self::Csv,
            "parquet" => Self::Parquet,
            "arrow" | "arrows" | "feather" | "ipc" => Self::ArrowIpc,
            "npy" => Self::Npy,
            "obj" => Self::Obj,
            "ply" => Self::Ply,
            "swc" => Self::Swc,
            _ => return None,
        })
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::Parquet => "Parquet",
            Self::ArrowIpc => "Arrow IPC",
            Self::Npy => ".npy",
            Self::Obj => ".obj",
            Self::Ply => ".ply",
            Self::Swc => ".swc",
        }
    }

    /// Reads a file of this format.
    pub fn open<R: Read + Seek + Send + 'static>(
        self,
        input: R,
        options: &ReadOptions,
    ) -> Result<Box<dyn GeometrySource + Send>, GeometryError> {
        Ok(match self {
            Self::Csv => Box::new(CsvReader::open(input, options)?),
            Self::Npy => Box::new(NpyReader::open(input, options)?),
            Self::Obj => Box::new(ObjReader::open(input, options)?),
            Self::Ply => Box::new(PlyReader::open(input, options)?),
            Self::Swc => Box::new(SwcReader::open(input, options)?),
            #[cfg(feature = "tables")]
            Self::Parquet => Box::new(ParquetReader::open(input, options)?),
            #[cfg(feature = "tables")]
            Self::ArrowIpc => Box::new(IpcReader::open(input, options)?),
            #[cfg(not(feature = "tables"))]
            Self::Parquet | Self::ArrowIpc => return Err(self.left_out()),
        })
    }

    /// Reads a file of this format that was read before, with this outcome: of CSV the types of
    /// attributes are known then.
    pub(super) fn open_again<R: Read + Seek + Send + 'static>(
        self,
        input: R,
        options: &ReadOptions,
        schema: &GeometrySchema,
    ) -> Result<Box<dyn GeometrySource + Send>, GeometryError> {
        match self {
            Self::Csv => {
                let attributes = &schema.vertex_attributes;
                Ok(Box::new(CsvReader::with_attributes(input, options, attributes)?))
            }
            _ => self.open(input, options),
        }
    }

    /// Reads a table of this format whose rows are named by the columns `keys`, which are whole
    /// numbers. All other columns are attributes.
    ///
    /// CSV is read twice, first for the types of attributes.
    pub fn open_table<R: Read + Seek + Send + 'static>(
        self,
        input: R,
        keys: &[&str],
    ) -> Result<Box<dyn TableSource + Send>, GeometryError> {
        Ok(match self {
            Self::Csv => {
                let (raw, columns) = keyed::open_csv(input, keys)?;
                Box::new(KeyedTable::new(raw, &columns, keys)?)
            }
            #[cfg(feature = "tables")]
            Self::Parquet => {
                let (raw, columns) = tables::ParquetRows::open(input, keyed::BATCH_ROWS)?;
                Box::new(KeyedTable::new(raw, &columns, keys)?)
            }
            #[cfg(feature = "tables")]
            Self::ArrowIpc => {
                let (raw, columns) = tables::IpcRows::open(input)?;
                Box::new(KeyedTable::new(raw, &columns, keys)?)
            }
            #[cfg(not(feature = "tables"))]
            Self::Parquet | Self::ArrowIpc => return Err(self.left_out()),
            Self::Npy | Self::Obj | Self::Ply | Self::Swc => {
                return Err(cannot_hold(self.name(), "a table; use CSV, Parquet or Arrow IPC"));
            }
        })
    }

    /// Writes a file of this format.
    ///
    /// Fails if it has no place for such a set at all. Columns that it has no place for are left
    /// out, and [`FileFormat::loses`] names them.
    pub fn create<W: Write + Seek + Send + 'static>(
        self,
        output: W,
        schema: &GeometrySchema,
    ) -> Result<Box<dyn GeometrySink + Send>, GeometryError> {
        Ok(match self {
            Self::Csv => Box::new(CsvWriter::create(output, schema)?),
            Self::Npy => Box::new(NpyWriter::create(output, schema)?),
            Self::Obj => Box::new(ObjWriter::create(output, schema)?),
            Self::Ply => Box::new(PlyWriter::create(output, schema)?),
            Self::Swc => Box::new(SwcWriter::create(output, schema)?),
            #[cfg(feature = "tables")]
            Self::Parquet => Box::new(ParquetWriter::create(output, schema)?),
            #[cfg(feature = "tables")]
            Self::ArrowIpc => Box::new(IpcWriter::create(output, schema)?),
            #[cfg(not(feature = "tables"))]
            Self::Parquet | Self::ArrowIpc => return Err(self.left_out()),
        })
    }

    #[cfg(not(feature = "tables"))]
    fn left_out(self) -> GeometryError {
        cannot_hold("this program", format!("{}: it was built without tables", self.name()))
    }

    /// What of a set a file of this format does not keep, in words: `object_id`, `attribute
    /// label`, `edges`.
    pub fn loses(self, schema: &GeometrySchema) -> Vec<String> {
        let mut lost = Vec::new();
        let holds_objects = !matches!(self, Self::Npy | Self::Obj | Self::Swc);
        if schema.objects && !holds_objects {
            lost.push(crate::OBJECT_ID.to_owned());
        }
        let named = |what: &str, name: &str| format!("{what} {name}");
        for field in &schema.vertex_attributes {
            let kept = match self {
                Self::Csv | Self::Parquet | Self::ArrowIpc => true,
                Self::Ply => holds(field),
                Self::Swc => matches!(field.name().as_str(), "type" | "radius"),
                Self::Npy | Self::Obj => false,
            };
            if !kept {
                lost.push(named("attribute", field.name()));
            }
        }
        let holds_links = matches!(self, Self::Obj | Self::Ply | Self::Swc);
        match schema.kind.link_width() {
            2 if !holds_links => lost.push("edges".to_owned()),
            3 if !holds_links => lost.push("faces".to_owned()),
            _ if schema.kind == GeometryKind::Points => {}
            _ => {
                let lost_here = schema.link_attributes.iter().filter(|field| match self {
                    Self::Ply => !holds(field),
                    _ => true,
                });
                lost.extend(lost_here.map(|field| named("link attribute", field.name())));
            }
        }
        lost
    }
}
