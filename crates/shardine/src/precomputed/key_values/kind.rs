use serde_json::{Map, Value};

/// What the values of a sharded folder are, as far as that matters for moving them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PayloadKind {
    /// Values and nothing else: chunks of volumes, skeletons, annotations.
    Plain,
    /// Meshes with several levels of detail: the value is a manifest, and the fragments lie before
    /// it without entries of their own.
    MultiresolutionMesh,
    /// Unknown: bytes before a value are kept with it, as they may belong to it.
    #[default]
    Unknown,
}

impl PayloadKind {
    /// The kind according to the `info` beside the shards.
    pub fn from_info(document: &Map<String, Value>) -> Self {
        match document.get("@type").and_then(Value::as_str) {
            Some("neuroglancer_multilod_draco") => Self::MultiresolutionMesh,
            Some("neuroglancer_skeletons" | "neuroglancer_annotations_v1") => Self::Plain,
            _ => Self::Unknown,
        }
    }

    /// Whether unreferenced bytes before a value stay with it when it is moved.
    pub(crate) fn keeps_before(self) -> bool {
        self != Self::Plain
    }
}

/// Bytes of the fragments that a mesh manifest describes; `None` if it is not a manifest.
pub(crate) fn fragments_len(manifest: &[u8]) -> Option<u64> {
    let (words, rest) = manifest.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let number = |i: usize| words.get(i).map(|word| u32::from_le_bytes(*word));
    // The shape of chunks and the origin of their grid come first.
    let levels = number(6)? as usize;
    // A scale and an offset for each level.
    let counts = 7usize.checked_add(levels.checked_mul(4)?)?;
    let mut at = counts.checked_add(levels)?;
    let mut total = 0u64;
    for level in 0..levels {
        let fragments = number(counts + level)? as usize;
        let sizes = at.checked_add(fragments.checked_mul(3)?)?;
        at = sizes.checked_add(fragments)?;
        for word in words.get(sizes..at)? {
            total = total.checked_add(u32::from_le_bytes(*word).into())?;
        }
    }
    (at == words.len()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fragments_of_a_manifest_are_counted() {
        // Two levels with one and two fragments.
        let words = [&[0u32; 6][..], &[2], &[0; 8], &[1, 2], &[0, 0, 0, 50], &[0; 6], &[7, 0]];
        let manifest: Vec<u8> = words.concat().iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(fragments_len(&manifest), Some(57));
        for end in 0..manifest.len() {
            assert_eq!(fragments_len(&manifest[..end]), None);
        }
        let hostile = [[0xFF; 4]; 64].concat();
        assert_eq!(fragments_len(&hostile), None);
    }
}
