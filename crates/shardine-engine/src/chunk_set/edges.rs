use shardine_codec::strided::Axes;

use crate::layout::Layout;

/// How cells at the end of an axis are encoded if they are clipped there instead of padded.
#[derive(Debug)]
pub struct EdgeLayouts {
    /// Cells along each axis.
    grid: Axes<u64>,
    /// Indexed by the set of axes, as bits, at whose end a cell is clipped; `None` where no cell
    /// is.
    layouts: Vec<Option<Layout>>,
}

impl EdgeLayouts {
    /// Builds the layouts for all shapes that cells of an array have; `layout` is called for each
    /// shape but the regular one.
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
        // The last cell along an axis that is not clipped has the regular length.
        self.layouts.get(edges & self.cut()).and_then(Option::as_ref)
    }

    /// The axes at whose end cells are clipped.
    fn cut(&self) -> usize {
        (0..self.grid.len()).map(|axis| 1 << axis).filter(|&bit| self.layouts[bit].is_some()).sum()
    }
}
