//! The manifest of an object, block by block.

use shardine_geometry::zarr_vectors::{Block, Manifest, PayloadError};

/// Hands each block of a manifest to `each`; whether the object has a fragment, which is what
/// `num_present` counts. What is wrong with the manifest, in words, as `each` may say it too.
pub(in crate::jobs) fn each_block(
    bytes: &[u8],
    rank: usize,
    mut each: impl FnMut(Block<'_>) -> Result<(), String>,
) -> Result<bool, String> {
    let wrong = |error: PayloadError| error.to_string();
    let mut manifest = Manifest::parse(bytes, rank).map_err(wrong)?;
    let mut present = false;
    while let Some(block) = manifest.next_block().map_err(wrong)? {
        present |= !block.fragments.is_empty();
        each(block)?;
    }
    Ok(present)
}
