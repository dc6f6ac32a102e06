use std::mem::MaybeUninit;
use std::sync::Arc;

use super::config::Config;
use super::output;
use crate::{BytesToBytes, Codec, CodecError, Context, EncodedSize};

const NAME: &str = "shuffle";

/// numcodecs' default element size.
const DEFAULT_SIZE: usize = 4;

pub(super) fn build(config: &Config<'_>) -> Result<Codec, CodecError> {
    config.only(&["elementsize"])?;
    let size = config.integer("elementsize", 0..=i64::from(i32::MAX))?;
    let size = size.and_then(|size| usize::try_from(size).ok());
    Ok(Codec::BytesToBytes(Arc::new(Shuffle { size })))
}

/// The first bytes of all elements, then the second bytes, and so on.
#[derive(Debug)]
struct Shuffle {
    size: Option<usize>,
}

type Reorder = fn(&[u8], usize, &mut [MaybeUninit<u8>]);

/// Gathers the bytes of the elements in `input` by their position in the element.
pub(super) fn shuffle(input: &[u8], size: usize, out: &mut [MaybeUninit<u8>]) {
    match size {
        2 => gather::<2>(input, out),
        4 => gather::<4>(input, out),
        8 => gather::<8>(input, out),
        _ => {
            let planes = out.chunks_exact_mut((input.len() / size).max(1));
            for (byte, plane) in planes.enumerate() {
                for (out, element) in plane.iter_mut().zip(input.chunks_exact(size)) {
                    out.write(element[byte]);
                }
            }
        }
    }
}

fn gather<const N: usize>(input: &[u8], out: &mut [MaybeUninit<u8>]) {
    let elements = input.as_chunks::<N>().0;
    for (byte, plane) in out.chunks_exact_mut(elements.len().max(1)).enumerate() {
        for (out, element) in plane.iter_mut().zip(elements) {
            out.write(element[byte % N]);
        }
    }
}

/// Undoes [`shuffle`].
fn unshuffle(input: &[u8], size: usize, out: &mut [MaybeUninit<u8>]) {
    match size {
        2 => scatter::<2>(input, out),
        4 => scatter::<4>(input, out),
        8 => scatter::<8>(input, out),
        _ => {
            let planes = input.chunks_exact((input.len() / size).max(1));
            for (byte, plane) in planes.enumerate() {
                for (element, value) in out.chunks_exact_mut(size).zip(plane) {
                    element[byte].write(*value);
                }
            }
        }
    }
}

fn scatter<const N: usize>(input: &[u8], out: &mut [MaybeUninit<u8>]) {
    let elements = out.as_chunks_mut::<N>().0;
    let count = elements.len();
    let planes: [&[u8]; N] =
        std::array::from_fn(|byte| input.get(byte * count..(byte + 1) * count).unwrap_or_default());
    for (i, element) in elements.iter_mut().enumerate() {
        for (out, plane) in element.iter_mut().zip(planes) {
            // All planes have `count` bytes; `get` avoids a panic in any case.
            out.write(plane.get(i).copied().unwrap_or_default());
        }
    }
}

impl Shuffle {
    /// Writes all of `out`, or returns an error.
    fn reorder(
        &self,
        reorder: Reorder,
        input: &[u8],
        out: &mut [MaybeUninit<u8>],
    ) -> Result<usize, String> {
        let size = self.size.unwrap_or(DEFAULT_SIZE);
        if size <= 1 {
            for (out, byte) in out.iter_mut().zip(input) {
                out.write(*byte);
            }
        } else if input.len().is_multiple_of(size) {
            reorder(input, size, out);
        } else {
            return Err(format!("the data does not hold whole elements of {size} bytes"));
        }
        Ok(input.len())
    }
}

impl BytesToBytes for Shuffle {
    fn name(&self) -> &'static str {
        NAME
    }

    fn encode(
        &self,
        _context: &mut Context,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        // SAFETY: `reorder` has written all of the slice.
        unsafe {
            output::append(NAME, out, input.len(), |spare| {
                self.reorder(shuffle, input, spare)
                    .map_err(|reason| CodecError::Encode { codec: NAME, reason })
            })
        }
    }

    fn decode(
        &self,
        _context: &mut Context,
        input: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        output::check_limit(NAME, input.len(), limit)?;
        // SAFETY: `reorder` has written all of the slice.
        unsafe {
            output::append(NAME, out, input.len(), |spare| {
                self.reorder(unshuffle, input, spare)
                    .map_err(|reason| CodecError::corrupt(NAME, input.len(), reason))
            })
        }
    }

    fn decode_exact(
        &self,
        _context: &mut Context,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodecError> {
        output::check_size(NAME, out.len(), input.len())?;
        self.reorder(unshuffle, input, output::as_uninit(out))
            .map(drop)
            .map_err(|reason| CodecError::corrupt(NAME, input.len(), reason))
    }

    fn encoded_size(&self, input: u64) -> EncodedSize {
        EncodedSize::Exact(input)
    }

    fn with_element_size(&self, size: usize) -> Option<Arc<dyn BytesToBytes>> {
        match self.size {
            Some(_) => None,
            None => Some(Arc::new(Self { size: Some(size) })),
        }
    }
}
