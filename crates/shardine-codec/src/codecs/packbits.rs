use std::sync::Arc;

use super::config::Config;
use super::output;
use crate::{
    ArraySpec, ArrayToBytes, Codec, CodecError, Context, ElementSize, Elements, ElementsRef,
    EncodedSize, Kind,
};

const NAME: &str = "packbits";

/// Where the number of padding bits is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Padding {
    None,
    FirstByte,
    LastByte,
}

/// The selected bits of each element, without gaps; the first is the lowest bit of the first byte.
#[derive(Debug)]
struct PackBits {
    padding: Padding,
    first_bit: u32,
    last_bit: Option<u32>,
}

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["padding_encoding", "first_bit", "last_bit"])?;
    let choices = [
        ("none", Padding::None),
        ("first_byte", Padding::FirstByte),
        ("last_byte", Padding::LastByte),
    ];
    let padding = config.choice("padding_encoding", &choices)?.unwrap_or(Padding::None);
    let bit = |member| -> Result<Option<u32>, CodecError> {
        Ok(config.integer(member, 0..=63)?.and_then(|bit| u32::try_from(bit).ok()))
    };
    let (first_bit, last_bit) = (bit("first_bit")?.unwrap_or(0), bit("last_bit")?);
    if last_bit.is_some_and(|last_bit| last_bit < first_bit) {
        return Err(config.wrong("last_bit", "no less than \"first_bit\""));
    }
    Ok(Codec::ArrayToBytes(Arc::new(PackBits { padding, first_bit, last_bit })))
}

/// How the components of a chunk are packed.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Bytes of a component in memory, 1 to 8.
    bytes: usize,
    /// The component's own bits that are not stored below the stored ones.
    first_bit: u32,
    /// How many of its bits are stored, 1 to 64.
    stored: u32,
    signed: bool,
    components: usize,
    /// Encoded bytes without the padding count.
    packed: usize,
    padding_bits: u8,
}

impl PackBits {
    fn layout(&self, spec: &ArraySpec) -> Result<Layout, CodecError> {
        let data_type = &spec.data_type;
        let refuse = |reason: String| CodecError::unsupported(NAME, reason);
        let per_element = match data_type.kind() {
            Kind::Bool | Kind::Int | Kind::UInt | Kind::Float | Kind::SmallFloat => 1,
            Kind::Complex => 2,
            _ => return Err(refuse(format!("the data type is \"{}\"", data_type.name()))),
        };
        let bits = if data_type.kind() == Kind::Bool { 1 } else { data_type.bits() };
        let last_bit = self.last_bit.unwrap_or(bits.saturating_sub(1));
        if last_bit >= bits || last_bit < self.first_bit {
            return Err(refuse(format!(
                "\"first_bit\" {} to \"last_bit\" {last_bit} of the {bits} bits of \"{}\"",
                self.first_bit,
                data_type.name()
            )));
        }
        let stored = last_bit - self.first_bit + 1;
        let too_large = || refuse(format!("a chunk of shape {:?} is too large", spec.shape));
        let (ElementSize::Fixed(size), Some(_)) = (data_type.size(), spec.byte_len()) else {
            return Err(too_large());
        };
        let components = spec.elements().and_then(|n| n.checked_mul(per_element));
        let total = components.and_then(|n| n.checked_mul(stored as usize));
        let (Some(components), Some(total)) = (components, total) else {
            return Err(too_large());
        };
        let packed = total.div_ceil(8);
        Ok(Layout {
            bytes: size / per_element,
            first_bit: self.first_bit,
            stored,
            signed: data_type.kind() == Kind::Int,
            components,
            packed,
            padding_bits: u8::try_from(packed * 8 - total).unwrap_or(0),
        })
    }

    fn encoded_len(&self, layout: &Layout) -> usize {
        layout.packed + usize::from(self.padding != Padding::None)
    }
}

impl Layout {
    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.stored)
    }

    fn pack(&self, elements: &[u8], out: &mut Vec<u8>) {
        if self.bytes == 1 && self.stored == 1 && self.first_bit == 0 {
            let (whole, rest) = elements.as_chunks::<8>();
            for group in whole.iter().map(|group| group.as_slice()).chain([rest]) {
                if !group.is_empty() {
                    let bits = group.iter().rev().fold(0, |bits, byte| bits << 1 | byte & 1);
                    out.push(bits);
                }
            }
            return;
        }
        // At most 7 bits are pending when up to 64 are added.
        let (mut waiting, mut count) = (0u128, 0);
        for component in elements.chunks_exact(self.bytes) {
            let mut word = [0; 8];
            word[..self.bytes].copy_from_slice(component);
            let value = u64::from_le_bytes(word) >> self.first_bit & self.mask();
            waiting |= u128::from(value) << count;
            count += self.stored;
            while count >= 8 {
                out.push(waiting as u8);
                waiting >>= 8;
                count -= 8;
            }
        }
        if count > 0 {
            out.push(waiting as u8);
        }
    }

    fn unpack(&self, packed: &[u8], out: &mut Vec<u8>) {
        if self.bytes == 1 && self.stored == 1 && self.first_bit == 0 && !self.signed {
            for (i, byte) in packed.iter().enumerate() {
                let bits: [u8; 8] = std::array::from_fn(|bit| byte >> bit & 1);
                let wanted = (self.components - i * 8).min(8);
                out.extend_from_slice(bits.get(..wanted).unwrap_or_default());
            }
            return;
        }
        let mut packed = packed.iter();
        let (mut waiting, mut count) = (0u128, 0);
        let sign = self.stored + self.first_bit;
        for _ in 0..self.components {
            while count < self.stored {
                waiting |= u128::from(packed.next().copied().unwrap_or_default()) << count;
                count += 8;
            }
            let mut value = (waiting as u64 & self.mask()) << self.first_bit;
            waiting >>= self.stored;
            count -= self.stored;
            if self.signed {
                value = ((value << (64 - sign)) as i64 >> (64 - sign)) as u64;
            }
            out.extend_from_slice(value.to_le_bytes().get(..self.bytes).unwrap_or_default());
        }
    }
}

impl ArrayToBytes for PackBits {
    fn check(&self, spec: &ArraySpec) -> Result<(), CodecError> {
        self.layout(spec).map(drop)
    }

    fn encode(
        &self,
        _context: &mut Context,
        spec: &ArraySpec,
        elements: ElementsRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let failed = |reason: String| CodecError::Encode { codec: NAME, reason };
        let layout = self.layout(spec)?;
        let ElementsRef::Fixed(elements) = elements else {
            return Err(failed("the elements have no fixed size".into()));
        };
        let expected = layout.components * layout.bytes;
        if elements.len() != expected {
            return Err(failed(format!("{} bytes, {expected} expected", elements.len())));
        }
        output::reserve(NAME, out, self.encoded_len(&layout))?;
        if self.padding == Padding::FirstByte {
            out.push(layout.padding_bits);
        }
        layout.pack(elements, out);
        if self.padding == Padding::LastByte {
            out.push(layout.padding_bits);
        }
        Ok(())
    }

    fn decode(
        &self,
        context: &mut Context,
        spec: &ArraySpec,
        encoded: &[u8],
    ) -> Result<Elements, CodecError> {
        let layout = self.layout(spec)?;
        let corrupt = |reason: String| CodecError::corrupt(NAME, encoded.len(), reason);
        let expected = self.encoded_len(&layout);
        if encoded.len() != expected {
            return Err(corrupt(format!("{expected} bytes expected")));
        }
        let (padding, packed) = match self.padding {
            Padding::None => (layout.padding_bits, Some(encoded)),
            Padding::FirstByte => match encoded.split_first() {
                Some((&padding, packed)) => (padding, Some(packed)),
                None => (0, None),
            },
            Padding::LastByte => match encoded.split_last() {
                Some((&padding, packed)) => (padding, Some(packed)),
                None => (0, None),
            },
        };
        if padding != layout.padding_bits {
            let wanted = layout.padding_bits;
            return Err(corrupt(format!("{padding} padding bits, {wanted} expected")));
        }
        let mut elements = context.take_buffer();
        output::reserve(NAME, &mut elements, layout.components * layout.bytes)?;
        layout.unpack(packed.unwrap_or_default(), &mut elements);
        Ok(Elements::Fixed(elements))
    }

    fn encoded_size(&self, spec: &ArraySpec) -> EncodedSize {
        match self.layout(spec) {
            Ok(layout) => EncodedSize::Exact(self.encoded_len(&layout) as u64),
            Err(_) => EncodedSize::Unbounded,
        }
    }
}
