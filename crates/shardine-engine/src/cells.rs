/// The cells of a grid, in C order.
#[derive(Debug)]
pub struct Cells {
    grid: Vec<u64>,
    /// `None` at the end.
    next: Option<Vec<u64>>,
    /// How many cells there are; `u64::MAX` if there are more.
    pub count: u64,
}

impl Cells {
    /// The cells of a grid with these lengths.
    pub fn new(grid: Vec<u64>) -> Self {
        let count = grid.iter().fold(1u64, |count, &n| count.saturating_mul(n));
        let next = (!grid.contains(&0)).then(|| vec![0; grid.len()]);
        Self { count: if next.is_some() { count } else { 0 }, grid, next }
    }

    /// The number of cells along each axis.
    pub fn grid(&self) -> &[u64] {
        &self.grid
    }
}

impl Iterator for Cells {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        let cell = self.next.take()?;
        let mut after = cell.clone();
        for (at, &n) in after.iter_mut().zip(&self.grid).rev() {
            *at += 1;
            if *at < n {
                self.next = Some(after);
                break;
            }
            *at = 0;
        }
        Some(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cells_of_a_grid_come_in_c_order_and_are_counted() {
        let all = |grid: &[u64]| Cells::new(grid.to_vec()).collect::<Vec<_>>();
        assert_eq!(all(&[2, 2]), [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert_eq!(all(&[]), [[0u64; 0]]);
        assert!(all(&[3, 0]).is_empty());
        assert_eq!(Cells::new(vec![3, 0]).count, 0);
        assert_eq!(Cells::new(vec![u64::MAX, 3]).count, u64::MAX);
    }
}
