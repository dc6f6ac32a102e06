//! Draco streams in the cells of meshes. The decoder is another project's: whatever it makes of a
//! stream, positions are whole, faces have vertices that exist, and memory stays within bounds.

use shardine_geometry::zarr_vectors::decode_draco;

use crate::memory;

/// How many bytes a stream may take when decoded.
const MOST: u64 = 16 << 20;

/// What the decoder may reserve for what a stream claims and does not bear out.
const CLAIMS: usize = 320 << 20;

pub fn run(input: &[u8]) {
    memory::bounded(CLAIMS + 64 * input.len(), || check(input));
}

fn check(input: &[u8]) {
    let Ok(cell) = decode_draco(input, MOST) else { return };
    assert_eq!(cell.positions.len() % 12, 0);
    assert_eq!(cell.faces.len() % 3, 0);
    let rows = cell.positions.len() / 12;
    assert!(cell.faces.iter().all(|vertex| (*vertex as usize) < rows));
    assert!(cell.positions.len() as u64 <= MOST);
    assert_eq!(decode_draco(input, MOST), Ok(cell), "not the same twice");
}

/// The cells of a store that zarr-vectors wrote: meshes and points.
pub fn seeds() -> Vec<Vec<u8>> {
    let text = include_str!("../../../tests/golden/zarr-vectors/draco.json");
    let golden: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let files = golden["store"].as_object().into_iter().flatten();
    let cells = files.filter(|(key, _)| key.starts_with("0/vertices/c/"));
    let bytes = |hex: &str| -> Vec<u8> {
        let byte = |at: usize| hex.get(2 * at..2 * at + 2).map(|two| u8::from_str_radix(two, 16));
        // A count and a length come before the stream.
        (8..hex.len() / 2).filter_map(|at| byte(at)?.ok()).collect()
    };
    cells.filter_map(|(_, content)| content.as_str()).map(bytes).collect()
}
