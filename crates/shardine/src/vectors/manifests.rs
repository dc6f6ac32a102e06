//! The arrays that hold the manifests of objects.

use shardine_codec::ElementSize;

use crate::zarr::ArrayNode;

/// The manifests of a level.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each level")]
pub(crate) enum Manifests {
    /// A string of bytes for each object.
    Bytes(ArrayNode),
    /// The dense form: which blocks each object has, and all blocks.
    Dense { spans: ArrayNode, blocks: ArrayNode },
}

/// An array that is not what it has to be.
pub(crate) struct NotManifests<'a> {
    pub array: &'a ArrayNode,
    /// Its name in the index of objects.
    pub name: &'static str,
    /// What it has to be.
    pub expected: &'static str,
}

impl Manifests {
    /// The array with a row for each object.
    pub fn array(&self) -> &ArrayNode {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Dense { spans, .. } => spans,
        }
    }

    /// How many objects have a row.
    pub fn rows(&self) -> u64 {
        self.array().shape().first().copied().unwrap_or(0)
    }

    /// Whether the arrays are those of manifests in space with `rank` axes.
    pub fn check(&self, rank: usize) -> Result<(), NotManifests<'_>> {
        let is_int64 = |array: &ArrayNode| array.data_type().name() == "int64";
        let wrong = |array, name, expected| Err(NotManifests { array, name, expected });
        match self {
            Self::Bytes(bytes) => {
                let variable = bytes.data_type().size() == ElementSize::Variable;
                if bytes.shape().len() != 1 || !variable {
                    return wrong(bytes, "manifests", "a list of bytes of variable length");
                }
            }
            Self::Dense { spans, blocks } => {
                if !is_int64(spans) || !matches!(spans.shape(), [_, 2]) {
                    return wrong(spans, "manifest_spans", "int64 with two columns");
                }
                let columns = rank as u64 + 1;
                if !is_int64(blocks) || !matches!(blocks.shape(), [_, n] if *n == columns) {
                    return wrong(blocks, "manifest_blocks", "int64, chunks and fragments");
                }
            }
        }
        Ok(())
    }
}
