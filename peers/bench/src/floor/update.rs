//! One inner chunk replaced by writing the encoded shard again.

use std::fs::{self, File};
use std::io::{IoSlice, Write};
use std::os::unix::fs::FileExt;

use super::{Floor, copy, encode_index, entry, index_size, read_index};
use crate::Result;
use crate::block::{Block, Triple, each, index, product};
use crate::job::Order;

impl Floor {
    /// Replaces one inner chunk: reads the encoded shard, writes it with the new chunk at the end,
    /// renames.
    pub(super) fn update(&mut self, cell: Triple, block: &Block, elements: &[u8]) -> Result {
        let grid = self.inner_grid();
        let chunks = product(grid);
        let path = self.shard_path(cell);
        let file = File::open(&path)?;
        let len = file.metadata()?.len();
        let body = usize::try_from(len)?.checked_sub(index_size(chunks)).ok_or("a short shard")?;
        let mut bytes = vec![0; index_size(chunks)];
        read_index(&file, len, chunks, &mut bytes)?;
        let mut entries: Vec<_> = (0..chunks).map(|number| entry(&bytes, number)).collect();
        let at = each(|axis| block.start[axis] % self.job.shard[axis] / self.job.chunk[axis]);
        let number = index(at, grid);
        let piece = copy::Piece::new(0, number, block, block, block, self.layout(Order::C));
        let coder = self.crew.own();
        // SAFETY: the elements are the block's, and the piece is all of it.
        unsafe { copy::gather(&piece, elements.as_ptr(), coder.decoded.as_mut_ptr()) };
        let encoded = coder.encode()?;
        self.whole.resize(body, 0);
        file.read_exact_at(&mut self.whole, 0)?;

        // The bytes of the old chunk are left out.
        let (old, old_len) = entries[number];
        for (offset, _) in &mut entries {
            if *offset > old {
                *offset -= old_len;
            }
        }
        entries[number] = (body as u64 - old_len, encoded.len() as u64);
        let (before, rest) = self.whole.split_at(usize::try_from(old)?);
        let after = &rest[usize::try_from(old_len)?..];
        let index = encode_index(&entries);
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        let mut parts = [before, after, encoded, &index].map(IoSlice::new);
        let mut parts = parts.as_mut_slice();
        while !parts.is_empty() {
            let written = file.write_vectored(parts)?;
            IoSlice::advance_slices(&mut parts, written);
        }
        file.sync_all()?;
        Ok(fs::rename(new, path)?)
    }
}
