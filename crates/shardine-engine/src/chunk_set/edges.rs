use shardine_codec::strided::Axes;

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

    pub(super) fn get(&self, cell: &[u64]) -> Option<&Layout> {
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
