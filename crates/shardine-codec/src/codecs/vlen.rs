//! `vlen-utf8` and `vlen-bytes`: each element is preceded by its length.

use std::sync::Arc;

use super::config::Config;
use super::output;
use crate::{
    ArraySpec, ArrayToBytes, Codec, CodecError, Context, Elements, ElementsRef, EncodedSize, Kind,
    VariableElements,
};

/// The number of elements and the length of each take 32 bits.
const WORD: usize = 4;

#[derive(Debug)]
struct Vlen {
    name: &'static str,
    kind: Kind,
}

pub(super) fn build_utf8(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&[])?;
    Ok(Codec::ArrayToBytes(Arc::new(Vlen { name: "vlen-utf8", kind: Kind::Text })))
}

pub(super) fn build_bytes(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&[])?;
    Ok(Codec::ArrayToBytes(Arc::new(Vlen { name: "vlen-bytes", kind: Kind::Bytes })))
}

impl Vlen {
    fn elements(&self, spec: &ArraySpec) -> Result<usize, CodecError> {
        if spec.data_type.kind() != self.kind {
            let reason = format!("the data type is \"{}\"", spec.data_type.name());
            return Err(CodecError::unsupported(self.name, reason));
        }
        spec.elements().filter(|&count| u32::try_from(count).is_ok()).ok_or_else(|| {
            let reason = format!("a chunk of shape {:?} has too many elements", spec.shape);
            CodecError::unsupported(self.name, reason)
        })
    }

    fn check_text(&self, i: usize, element: &[u8]) -> Result<(), String> {
        if self.kind != Kind::Text {
            return Ok(());
        }
        std::str::from_utf8(element)
            .map(drop)
            .map_err(|error| format!("element {i} is not UTF-8: {error}"))
    }
}

/// Takes a 32-bit number from the front of `rest`.
fn take_word(rest: &mut &[u8]) -> Option<usize> {
    let (word, tail) = rest.split_first_chunk::<WORD>()?;
    *rest = tail;
    usize::try_from(u32::from_le_bytes(*word)).ok()
}

impl ArrayToBytes for Vlen {
    fn check(&self, spec: &ArraySpec) -> Result<(), CodecError> {
        self.elements(spec).map(drop)
    }

    fn encode(
        &self,
        _context: &mut Context,
        spec: &ArraySpec,
        elements: ElementsRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let failed = |reason: String| CodecError::Encode { codec: self.name, reason };
        let expected = self.elements(spec)?;
        let ElementsRef::Variable(elements) = elements else {
            return Err(failed("the elements have a fixed size".into()));
        };
        let count = u32::try_from(elements.len()).ok().filter(|_| elements.len() == expected);
        let Some(count) = count else {
            return Err(failed(format!("{} elements, {expected} expected", elements.len())));
        };
        let words = expected.saturating_add(1).saturating_mul(WORD);
        output::reserve(self.name, out, words.saturating_add(elements.byte_len()))?;
        out.extend_from_slice(&count.to_le_bytes());
        for (i, element) in elements.iter().enumerate() {
            self.check_text(i, element).map_err(failed)?;
            let Ok(len) = u32::try_from(element.len()) else {
                return Err(failed(format!("element {i} has {} bytes", element.len())));
            };
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(element);
        }
        Ok(())
    }

    fn decode(
        &self,
        _context: &mut Context,
        spec: &ArraySpec,
        encoded: &[u8],
    ) -> Result<Elements, CodecError> {
        let corrupt = |reason: String| CodecError::corrupt(self.name, encoded.len(), reason);
        let expected = self.elements(spec)?;
        let mut rest = encoded;
        match take_word(&mut rest) {
            Some(count) if count == expected => {}
            Some(count) => return Err(corrupt(format!("{count} elements, {expected} expected"))),
            None => return Err(corrupt("the number of elements is cut short".into())),
        }
        // The size of the lengths is known; their values are checked one by one.
        let Some(bytes) = rest.len().checked_sub(expected.saturating_mul(WORD)) else {
            return Err(corrupt(format!("too short for the lengths of {expected} elements")));
        };
        let mut elements = VariableElements::with_capacity(expected, bytes);
        for i in 0..expected {
            let element = take_word(&mut rest).and_then(|len| rest.split_at_checked(len));
            let Some((element, tail)) = element else {
                return Err(corrupt(format!("element {i} is cut short")));
            };
            self.check_text(i, element).map_err(corrupt)?;
            elements.push(element);
            rest = tail;
        }
        if !rest.is_empty() {
            return Err(corrupt(format!("{} bytes follow the last element", rest.len())));
        }
        Ok(Elements::Variable(elements))
    }

    fn encoded_size(&self, _spec: &ArraySpec) -> EncodedSize {
        EncodedSize::Unbounded
    }
}
