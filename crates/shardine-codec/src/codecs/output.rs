use std::mem::MaybeUninit;

use crate::CodecError;

/// Output up to this size may be reserved on a header's word or for a first guess.
const CHEAP: usize = 1 << 20;

/// How much an encoded byte may plausibly decode to, for a first guess.
const PLAUSIBLE_RATIO: usize = 64;

/// The outcome of decoding into the room given.
pub(super) enum Attempt {
    /// It wrote this many bytes from the start.
    Done(usize),
    /// It needs more.
    TooSmall,
}

/// Appends to `out` what `fill` writes into `room` bytes past its end.
///
/// # Safety
///
/// If `fill` returns `Ok(n)`, it has initialized the first `n` bytes of the slice it was given.
pub(super) unsafe fn append(
    codec: &'static str,
    out: &mut Vec<u8>,
    room: usize,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<usize, CodecError>,
) -> Result<(), CodecError> {
    reserve(codec, out, room)?;
    let len = out.len();
    let spare = out.spare_capacity_mut().get_mut(..room).unwrap_or_default();
    let written = fill(spare)?.min(room);
    // SAFETY: the capacity was reserved above, and `fill` has initialized what it says.
    unsafe { out.set_len(len + written) };
    Ok(())
}

/// Appends to `out` what `decode` writes, giving it more room until that suffices or `limit` is
/// reached.
///
/// `claimed` is the size that a header states. It is trusted as far as that is cheap or plausible
/// for `input` bytes; beyond that the room grows only after the decoder has filled what it had. A
/// decoder that runs again has its work counted at most 1.33 times over.
///
/// # Safety
///
/// If `decode` returns `Done(n)`, it has initialized the first `n` bytes of the slice it was given.
pub(super) unsafe fn append_growing(
    codec: &'static str,
    input: usize,
    claimed: Option<usize>,
    limit: usize,
    out: &mut Vec<u8>,
    mut decode: impl FnMut(&mut [MaybeUninit<u8>]) -> Result<Attempt, CodecError>,
) -> Result<(), CodecError> {
    let plausible = input.saturating_mul(PLAUSIBLE_RATIO).max(CHEAP);
    let guess = claimed.unwrap_or_else(|| input.saturating_mul(4)).min(plausible);
    let mut room = guess.max(64).min(limit);
    loop {
        let mut done = false;
        // SAFETY: the contract is the same; `TooSmall` promises nothing about initialization.
        unsafe {
            append(codec, out, room, |spare| match decode(spare)? {
                Attempt::Done(written) => {
                    done = true;
                    Ok(written)
                }
                Attempt::TooSmall => Ok(0),
            })?;
        }
        if done {
            return Ok(());
        }
        if room >= limit {
            return Err(CodecError::TooLarge { codec, limit });
        }
        room = room.saturating_mul(4).min(limit);
    }
}

/// The same bytes, for a decoder that also accepts uninitialized memory.
///
/// Such a decoder must not write uninitialized bytes; those of this crate write what C has written.
pub(super) fn as_uninit(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the layouts are the same, and nothing here writes an uninitialized byte through it.
    unsafe { &mut *(std::ptr::from_mut(bytes) as *mut [MaybeUninit<u8>]) }
}

/// Makes room for `more` bytes; an error if there is not enough memory.
pub(super) fn reserve(
    codec: &'static str,
    out: &mut Vec<u8>,
    more: usize,
) -> Result<(), CodecError> {
    out.try_reserve(more).map_err(|_| CodecError::OutOfMemory { codec, bytes: more })
}

/// An error unless `actual` is `expected`.
pub(super) fn check_size(
    codec: &'static str,
    expected: usize,
    actual: usize,
) -> Result<(), CodecError> {
    if expected == actual { Ok(()) } else { Err(CodecError::Size { codec, expected, actual }) }
}

/// An error if `size` is past `limit`.
pub(super) fn check_limit(
    codec: &'static str,
    size: usize,
    limit: usize,
) -> Result<(), CodecError> {
    if size > limit { Err(CodecError::TooLarge { codec, limit }) } else { Ok(()) }
}
