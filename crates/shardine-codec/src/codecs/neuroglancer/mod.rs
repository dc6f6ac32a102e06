//! The encodings of Neuroglancer's precomputed volumes.
//!
//! All of them see a chunk as `[channel, z, y, x]` in C order, which is the same as x, y, z,
//! channel in Fortran order.

pub(super) mod compresso;
mod image;
pub(super) mod jpeg;
pub(super) mod jxl;
pub(super) mod png;
pub(super) mod segmentation;

use crate::{ArraySpec, CodecError, ElementsRef, Kind};

/// The sides of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sides {
    channels: usize,
    z: usize,
    y: usize,
    x: usize,
}

impl Sides {
    /// The sides of a chunk of unsigned integers of one of these widths; an error for anything
    /// else.
    fn new(codec: &'static str, spec: &ArraySpec, bits: &[u32]) -> Result<Self, CodecError> {
        let unsupported = |reason| Err(CodecError::unsupported(codec, reason));
        if spec.data_type.kind() != Kind::UInt || !bits.contains(&spec.data_type.bits()) {
            let names: Vec<_> = bits.iter().map(|bits| format!("uint{bits}")).collect();
            let name = spec.data_type.name();
            return unsupported(format!("elements must be {}, not {name}", names.join(" or ")));
        }
        let &[channels, z, y, x] = spec.shape.as_slice() else {
            let axes = spec.shape.len();
            return unsupported(format!("a chunk has the axes channel, z, y, x; this has {axes}"));
        };
        // If the product fits, so do the factors, unless one of them is zero.
        let sides = [channels, z, y, x].map(usize::try_from);
        match (spec.byte_len(), sides) {
            (Some(_), [Ok(channels), Ok(z), Ok(y), Ok(x)]) => Ok(Self { channels, z, y, x }),
            _ => unsupported(format!("a chunk of shape {:?} is too large", spec.shape)),
        }
    }
}

/// The bytes of all elements of a chunk, if their number is right.
fn fixed<'a>(
    codec: &'static str,
    spec: &ArraySpec,
    elements: ElementsRef<'a>,
) -> Result<&'a [u8], CodecError> {
    let expected = spec.byte_len().unwrap_or_default();
    match elements {
        ElementsRef::Fixed(elements) if elements.len() == expected => Ok(elements),
        ElementsRef::Fixed(elements) => {
            let reason = format!("{} bytes of elements, {expected} expected", elements.len());
            Err(CodecError::Encode { codec, reason })
        }
        ElementsRef::Variable(_) => {
            let reason = "the elements have no fixed size".into();
            Err(CodecError::Encode { codec, reason })
        }
    }
}
