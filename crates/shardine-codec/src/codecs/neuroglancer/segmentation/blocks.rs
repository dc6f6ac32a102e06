use super::super::Sides;

/// The blocks of a chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) sides: Sides,
    /// The sides of a block: z, y, x.
    pub(super) block: [usize; 3],
    /// Blocks along z, y, x.
    counts: [usize; 3],
}

/// The part of a block that is inside the chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    /// The first element, counted in its channel.
    pub(super) start: usize,
    /// Elements along z, y, x.
    pub(super) extent: [usize; 3],
}

impl Grid {
    pub(super) fn new(sides: Sides, block: [usize; 3]) -> Self {
        let counts =
            [sides.z.div_ceil(block[0]), sides.y.div_ceil(block[1]), sides.x.div_ceil(block[2])];
        Self { sides, block, counts }
    }

    /// Blocks per channel; at most as many as it has elements.
    pub(super) fn blocks(&self) -> usize {
        self.counts.iter().product()
    }

    /// Elements per channel.
    pub(super) fn elements(&self) -> usize {
        self.sides.z * self.sides.y * self.sides.x
    }

    /// Elements of a block, including those outside the chunk; `None` on overflow.
    pub(super) fn block_elements(&self) -> Option<usize> {
        self.block.iter().try_fold(1usize, |n, &side| n.checked_mul(side))
    }

    /// The blocks in the order of their headers.
    pub(super) fn iter(&self) -> impl Iterator<Item = Block> {
        let Self { sides, block: [dz, dy, dx], counts } = *self;
        (0..counts[0]).flat_map(move |k| {
            (0..counts[1]).flat_map(move |j| {
                (0..counts[2]).map(move |i| {
                    let (z, y, x) = (k * dz, j * dy, i * dx);
                    Block {
                        start: (z * sides.y + y) * sides.x + x,
                        extent: [dz.min(sides.z - z), dy.min(sides.y - y), dx.min(sides.x - x)],
                    }
                })
            })
        })
    }

    /// Calls `f` with each row of a block that is inside the chunk, until it returns `false`.
    ///
    /// A row is given by its first element, as an offset in the whole block and as an offset in the
    /// channel, and by its length.
    #[inline(always)]
    pub(super) fn each_row(
        &self,
        block: Block,
        mut f: impl FnMut(usize, usize, usize) -> bool,
    ) -> bool {
        let [depth, height, width] = block.extent;
        for z in 0..depth {
            for y in 0..height {
                let in_block = (z * self.block[1] + y) * self.block[2];
                let start = block.start + (z * self.sides.y + y) * self.sides.x;
                if !f(in_block, start, width) {
                    return false;
                }
            }
        }
        true
    }

    /// One past the last element of a block that is inside the chunk, as an offset in the block.
    pub(super) fn reach(&self, block: Block) -> usize {
        let [z, y, x] = block.extent;
        (z.saturating_sub(1) * self.block[1] + y.saturating_sub(1)) * self.block[2] + x
    }
}
