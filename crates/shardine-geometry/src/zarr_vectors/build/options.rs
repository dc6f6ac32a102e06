//! How a store is built.

/// How a store is built.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BuildOptions {
    /// The edges of a chunk.
    pub chunk: Vec<f64>,
    /// The edges of a bin, if chunks are divided.
    pub bin: Option<Vec<f64>>,
    /// The memory for rows, in bytes; 8 MiB if it is less.
    pub memory: u64,
    /// The attributes of vertices that are stored as attributes of their objects. All rows of an
    /// object have the same values.
    pub object_columns: Vec<String>,
}

impl BuildOptions {
    /// Chunks with these edges, rows in up to 256 MiB of memory.
    pub fn new(chunk: &[f64]) -> Self {
        Self { chunk: chunk.to_vec(), bin: None, memory: 256 << 20, object_columns: Vec::new() }
    }

    /// Divides chunks into bins with these edges.
    pub fn bin(mut self, bin: Option<&[f64]>) -> Self {
        self.bin = bin.map(<[f64]>::to_vec);
        self
    }

    /// Sets the memory for rows.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Stores these attributes of vertices as attributes of their objects.
    pub fn object_columns(mut self, names: &[String]) -> Self {
        self.object_columns = names.to_vec();
        self
    }
}
