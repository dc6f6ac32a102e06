//! The shape of chunks.

/// Elements in a chunk: a volume of 64 x 64 x 64.
const CHUNK_ELEMENTS: u64 = 64 * 64 * 64;

/// The most bytes in a chunk, whatever the elements are.
const CHUNK_BYTES: u64 = 4 << 20;

/// A chunk extends along this many axes, the last ones.
const CHUNK_AXES: usize = 3;

/// A chunk of about 64^3 elements (512^2 in a plane) and at most 4 MiB: powers of two, or the whole
/// of a short axis.
///
/// `element` is the bytes of one. The chunk extends along the last three axes that are longer than
/// 1; before them come channels, times and the like. An axis of length 0 is assumed to grow.
pub fn chunk_shape(shape: &[u64], element: u64) -> Vec<u64> {
    let mut chunk = vec![1; shape.len()];
    // An axis of length 0 is assumed to grow.
    let length = |k: usize| if shape[k] == 0 { u64::MAX } else { shape[k] };
    let mut axes: Vec<usize> =
        (0..shape.len()).rev().filter(|&k| length(k) > 1).take(CHUNK_AXES).collect();
    // The short axes first: what they do not use goes to the long ones.
    axes.sort_by_key(|&k| (length(k), k));
    let mut left = CHUNK_ELEMENTS.min(CHUNK_BYTES / element.max(1)).max(1);
    for (done, &k) in axes.iter().enumerate() {
        let root = (left as f64).powf(1.0 / (axes.len() - done) as f64);
        // Rounding must not push a root that is a power of two just below it.
        let edge = 1u64 << (root * (1.0 + 1e-9)).log2().max(0.0) as u32;
        chunk[k] = edge.min(length(k));
        left = (left / chunk[k]).max(1);
    }
    chunk
}
