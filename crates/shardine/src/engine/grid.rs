use std::fmt::Debug;
use std::sync::Arc;

use shardine_codec::strided::Axes;
use shardine_store::{Key, Store, StoreError};

use crate::layout::Layout;

/// How the cells of a grid are named: the part of a data set's format that the engine needs.
pub(crate) trait CellKeys: Debug + Send + Sync {
    /// The key of the object that holds a cell.
    fn key(&self, cell: &[u64]) -> Result<Key, StoreError>;
}

/// An array as the engine sees it: a grid of objects, each encoded alike.
#[derive(Debug)]
pub(crate) struct Grid {
    /// Unique among the arrays of an engine.
    pub id: u64,
    pub store: Arc<dyn Store>,
    pub keys: Box<dyn CellKeys>,
    /// The array's shape.
    pub shape: Vec<u64>,
    /// How each object is encoded; its shape is that of a cell.
    pub layout: Layout,
}

impl Grid {
    /// The shape of a cell.
    pub fn cell_shape(&self) -> &[u64] {
        &self.layout.spec().shape
    }

    /// How much of a cell lies inside the array.
    pub fn bounds(&self, cell: &[u64]) -> Axes<u64> {
        let axes = cell.iter().zip(self.cell_shape()).zip(&self.shape);
        axes.map(|((&i, &n), &len)| n.min(len.saturating_sub(i.saturating_mul(n)))).collect()
    }
}
