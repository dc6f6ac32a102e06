use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use shardine_codec::strided::Axes;
use shardine_store::{Store, StoreError};

use super::packing::{self, Packing, StoredBytes};
use crate::layout::Layout;

/// How cells at the end of an axis are encoded, where they are cut off there and not filled up.
#[derive(Debug)]
pub struct EdgeLayouts {
    /// Cells along each axis.
    grid: Axes<u64>,
    /// By the axes, as bits, at whose end a cell is cut off; `None` where no cell is.
    layouts: Vec<Option<Layout>>,
}

impl EdgeLayouts {
    /// Makes the layouts of all shapes that cells of an array have: `layout` is asked for each but the usual one.
    pub fn new<E>(
        shape: &[u64],
        cell: &[u64],
        mut layout: impl FnMut(Vec<u64>) -> Result<Layout, E>,
    ) -> Result<Self, E> {
        let grid: Axes<u64> = shape.iter().zip(cell).map(|(&n, &c)| n.div_ceil(c.max(1))).collect();
        let cut: usize = shape
            .iter()
            .zip(cell)
            .enumerate()
            .map(|(axis, (&n, &c))| usize::from(n % c.max(1) != 0) << axis)
            .sum();
        let mut layouts = Vec::new();
        for edges in 0..1usize << shape.len() {
            let wanted = edges != 0 && edges & !cut == 0;
            let cell = |axis: usize| {
                if edges >> axis & 1 == 1 { shape[axis] % cell[axis] } else { cell[axis] }
            };
            let shape: Vec<u64> = (0..shape.len()).map(cell).collect();
            layouts.push(if wanted { Some(layout(shape)?) } else { None });
        }
        Ok(Self { grid, layouts })
    }

    fn get(&self, cell: &[u64]) -> Option<&Layout> {
        let last = cell.iter().zip(&self.grid).enumerate();
        let edges = last.map(|(axis, (&i, &n))| usize::from(i + 1 == n) << axis).sum::<usize>();
        // The last cell of an axis that is not cut off has the usual length.
        self.layouts.get(edges & self.cut()).and_then(Option::as_ref)
    }

    /// The axes at whose end cells are cut off.
    fn cut(&self) -> usize {
        (0..self.grid.len()).map(|axis| 1 << axis).filter(|&bit| self.layouts[bit].is_some()).sum()
    }
}

/// An array as the engine sees it: a grid of objects, each encoded alike.
#[derive(Debug)]
pub struct Grid {
    /// Unique among the arrays of an engine.
    pub id: u64,
    /// Where the objects live.
    pub store: Arc<dyn Store>,
    /// Which object holds which cell.
    pub packing: Box<dyn Packing>,
    /// The array's shape.
    pub shape: Vec<u64>,
    /// How each object is encoded; its shape is that of a cell.
    pub layout: Layout,
    /// Where cells are cut off at the end of the array: how those are encoded.
    pub edges: Option<EdgeLayouts>,
    /// How often an object was looked for by its key to be read. What was open before cannot have become another
    /// array's.
    pub lookups: AtomicU64,
}

impl Grid {
    /// Where a cell is stored; `None` if it is not.
    ///
    /// In a far store a cell that is an object of its own is not asked for here: its first read tells whether it is there.
    pub fn find(&self, cell: &[u64]) -> Result<Option<StoredBytes>, StoreError> {
        packing::find(&*self.packing, &*self.store, cell)
    }

    /// The shape of a cell.
    pub fn cell_shape(&self) -> &[u64] {
        &self.layout.spec().shape
    }

    /// How a cell is encoded.
    pub fn layout_of(&self, cell: &[u64]) -> &Layout {
        self.edges.as_ref().and_then(|edges| edges.get(cell)).unwrap_or(&self.layout)
    }

    /// How much of a cell lies inside the array.
    pub fn bounds(&self, cell: &[u64]) -> Axes<u64> {
        let axes = cell.iter().zip(self.cell_shape()).zip(&self.shape);
        axes.map(|((&i, &n), &len)| n.min(len.saturating_sub(i.saturating_mul(n)))).collect()
    }
}
