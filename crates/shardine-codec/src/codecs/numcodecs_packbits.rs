use std::sync::Arc;

use serde_json::Value;

use super::config::Config;
use super::output;
use crate::{ArraySpec, ArrayToArray, Codec, CodecError, Context, DataType, FillValue, Kind};

const NAME: &str = "numcodecs.packbits";

/// numcodecs' own packing of booleans: an array of bytes, of which the first is the number of
/// padding bits, and the first element is the highest bit of the second.
///
/// It differs from the registered `packbits` in the order of bits and in its kind.
#[derive(Debug)]
struct NumcodecsPackBits;

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&[])?;
    Ok(Codec::ArrayToArray(Arc::new(NumcodecsPackBits)))
}

fn elements(decoded: &ArraySpec) -> Result<usize, CodecError> {
    if decoded.data_type.kind() != Kind::Bool {
        let reason = format!("the data type is \"{}\"", decoded.data_type.name());
        return Err(CodecError::unsupported(NAME, reason));
    }
    decoded.byte_len().ok_or_else(|| {
        let reason = format!("a chunk of shape {:?} is too large", decoded.shape);
        CodecError::unsupported(NAME, reason)
    })
}

fn padding(elements: usize) -> u8 {
    (8 - elements % 8) as u8 % 8
}

impl ArrayToArray for NumcodecsPackBits {
    fn encoded_spec(&self, decoded: &ArraySpec) -> Result<ArraySpec, CodecError> {
        let len = 1 + elements(decoded)?.div_ceil(8);
        let data_type = DataType::from_json(&Value::from("uint8"))?;
        Ok(ArraySpec { shape: vec![len as u64], data_type, fill: FillValue(vec![0]) })
    }

    fn encode(
        &self,
        _context: &mut Context,
        decoded: &ArraySpec,
        elements: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let expected = self::elements(decoded)?;
        output::check_size(NAME, expected, elements.len())?;
        out.clear();
        output::reserve(NAME, out, 1 + expected.div_ceil(8))?;
        out.push(padding(expected));
        out.extend(elements.chunks(8).map(|group| {
            let bits = group.iter().fold(0, |bits, &byte| bits << 1 | u8::from(byte != 0));
            bits << (8 - group.len())
        }));
        Ok(())
    }

    fn decode(
        &self,
        _context: &mut Context,
        decoded: &ArraySpec,
        encoded: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let expected = elements(decoded)?;
        output::check_size(NAME, 1 + expected.div_ceil(8), encoded.len())?;
        let (count, packed) = encoded.split_first().unwrap_or((&0, &[]));
        if *count != padding(expected) {
            let reason = format!("{count} padding bits, {} expected", padding(expected));
            return Err(CodecError::corrupt(NAME, encoded.len(), reason));
        }
        out.clear();
        output::reserve(NAME, out, packed.len() * 8)?;
        for byte in packed {
            out.extend_from_slice(&std::array::from_fn::<u8, 8, _>(|bit| byte >> (7 - bit) & 1));
        }
        out.truncate(expected);
        Ok(())
    }
}
