use std::sync::Arc;

use super::config::Config;
use super::output;
use crate::{
    ArraySpec, ArrayToBytes, Codec, CodecError, Context, DataType, ElementSize, Elements,
    ElementsRef, EncodedSize, Endian, Kind, strided,
};

const NAME: &str = "bytes";

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["endian"])?;
    // Required for multi-byte types, but arrays without it exist; all of them are little-endian.
    let choices = [("little", Endian::Little), ("big", Endian::Big)];
    let endian = config.choice("endian", &choices)?.unwrap_or(Endian::Little);
    Ok(Codec::ArrayToBytes(Arc::new(Bytes { endian })))
}

/// The elements one after another, in one byte order.
#[derive(Debug)]
struct Bytes {
    endian: Endian,
}

/// Swaps the byte order of every element in place.
fn swap_byte_order(data_type: &DataType, elements: &mut [u8]) {
    if let ElementSize::Fixed(size) = data_type.size() {
        strided::swap_units(elements, size, data_type.swap_units());
    }
}

/// For types narrower than a byte: their width, and whether they are signed.
///
/// Their other bits are meaningless when stored, but have a fixed value in memory.
fn narrow(data_type: &DataType) -> Option<(u32, bool)> {
    let bits = data_type.bits();
    match data_type.kind() {
        Kind::Int | Kind::UInt | Kind::SmallFloat | Kind::Complex if (1..8).contains(&bits) => {
            Some((bits, data_type.kind() == Kind::Int))
        }
        _ => None,
    }
}

/// Sets the unused bits of each narrow element to the value they have in memory.
fn canonicalize(bits: u32, signed: bool, elements: &mut [u8]) {
    let unused = 8 - bits;
    if signed {
        elements.iter_mut().for_each(|byte| *byte = ((*byte << unused) as i8 >> unused) as u8);
    } else {
        elements.iter_mut().for_each(|byte| *byte = *byte << unused >> unused);
    }
}

fn byte_len(spec: &ArraySpec) -> Result<usize, CodecError> {
    spec.byte_len().ok_or_else(|| {
        let reason = match spec.data_type.size() {
            ElementSize::Fixed(_) => format!("a chunk of shape {:?} is too large", spec.shape),
            ElementSize::Variable => {
                format!("elements of \"{}\" have no fixed size", spec.data_type.name())
            }
        };
        CodecError::unsupported(NAME, reason)
    })
}

impl ArrayToBytes for Bytes {
    fn check(&self, spec: &ArraySpec) -> Result<(), CodecError> {
        byte_len(spec).map(drop)
    }

    fn encode(
        &self,
        _context: &mut Context,
        spec: &ArraySpec,
        elements: ElementsRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let expected = byte_len(spec)?;
        let ElementsRef::Fixed(elements) = elements else {
            let reason = "the elements have no fixed size".into();
            return Err(CodecError::Encode { codec: NAME, reason });
        };
        if elements.len() != expected {
            let reason = format!("{} bytes of elements, {expected} expected", elements.len());
            return Err(CodecError::Encode { codec: NAME, reason });
        }
        let start = out.len();
        output::reserve(NAME, out, expected)?;
        out.extend_from_slice(elements);
        if self.endian == Endian::Big {
            swap_byte_order(&spec.data_type, out.get_mut(start..).unwrap_or_default());
        }
        Ok(())
    }

    fn decode(
        &self,
        context: &mut Context,
        spec: &ArraySpec,
        encoded: &[u8],
    ) -> Result<Elements, CodecError> {
        let expected = byte_len(spec)?;
        output::check_size(NAME, expected, encoded.len())?;
        let mut elements = context.take_buffer();
        output::reserve(NAME, &mut elements, expected)?;
        elements.extend_from_slice(encoded);
        if self.endian == Endian::Big {
            swap_byte_order(&spec.data_type, &mut elements);
        }
        if let Some((bits, signed)) = narrow(&spec.data_type) {
            canonicalize(bits, signed, &mut elements);
        }
        Ok(Elements::Fixed(elements))
    }

    fn encoded_size(&self, spec: &ArraySpec) -> EncodedSize {
        match spec.byte_len() {
            Some(len) => EncodedSize::Exact(len as u64),
            None => EncodedSize::Unbounded,
        }
    }

    fn plain(&self, spec: &ArraySpec) -> Option<Endian> {
        match spec.data_type.size() {
            ElementSize::Fixed(_) if narrow(&spec.data_type).is_none() => Some(self.endian),
            _ => None,
        }
    }
}
