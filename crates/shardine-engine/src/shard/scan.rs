//! Searches for an index whose position is unknown.

/// Slides a window over bytes and reports where a window is directly followed by its crc32c.
///
/// The checksum is updated from one position to the next, so each byte costs two table lookups
/// however long the index is.
pub struct ChecksumScan {
    /// Bytes of a window, without its checksum.
    window: usize,
    /// What a byte contributes when it enters.
    enters: [u32; 256],
    /// What a byte still contributes after it has left.
    leaves: [u32; 256],
    /// The checksum of a window of zeros.
    zeros: u32,
    register: u32,
    /// The bytes of the window and those seen after it.
    seen: Vec<u8>,
    /// The position of the start of `seen`.
    start: u64,
    /// How many bytes of `seen` have entered the window.
    entered: usize,
}

/// Bytes of a stored checksum.
const CHECKSUM: usize = 4;

impl ChecksumScan {
    /// For indexes of `index_len` bytes, including the checksum. `None` if there is not enough
    /// memory, or nothing to find.
    pub fn new(index_len: u64) -> Option<Self> {
        let window = usize::try_from(index_len).ok()?.checked_sub(CHECKSUM).filter(|&n| n > 0)?;
        let mut blank = Vec::new();
        blank.try_reserve_exact(window.checked_add(1)?).ok()?;
        blank.resize(window + 1, 0u8);
        let zeros = crc32c::crc32c(&blank[..window]);
        let longer = crc32c::crc32c(&blank);
        let (mut enters, mut leaves) = ([0; 256], [0; 256]);
        for bit in 0..8 {
            let byte = 1u8 << bit;
            blank[0] = byte;
            let (enter, leave) =
                (crc32c::crc32c(&[byte]) ^ crc32c::crc32c(&[0]), crc32c::crc32c(&blank) ^ longer);
            // A byte contributes what its bits contribute.
            for byte in (0..256).filter(|other| other & usize::from(byte) != 0) {
                enters[byte] ^= enter;
                leaves[byte] ^= leave;
            }
        }
        let (seen, start, entered) = (Vec::new(), 0, 0);
        Some(Self { window, enters, leaves, zeros, register: 0, seen, start, entered })
    }

    /// Starts over with other bytes.
    pub fn restart(&mut self) {
        self.seen.clear();
        (self.register, self.start, self.entered) = (0, 0, 0);
    }

    /// Takes the next bytes; reports the start of each window that is followed by its
    /// checksum.
    pub fn take(&mut self, bytes: &[u8], mut found: impl FnMut(u64)) {
        self.seen.extend_from_slice(bytes);
        while self.entered < self.seen.len() {
            // The window is full: check what follows before it moves on.
            if self.entered >= self.window {
                let Some(stored) = self.seen.get(self.entered..self.entered + CHECKSUM) else {
                    break;
                };
                let checksum = self.register ^ self.zeros;
                if stored == checksum.to_le_bytes() {
                    found(self.start + (self.entered - self.window) as u64);
                }
            }
            let byte = self.seen[self.entered];
            let low = (self.register as u8) ^ byte;
            self.register = (self.register >> 8) ^ self.enters[usize::from(low)];
            if self.entered >= self.window {
                let gone = self.seen[self.entered - self.window];
                self.register ^= self.leaves[usize::from(gone)];
            }
            self.entered += 1;
        }
        let gone = self.entered.saturating_sub(self.window);
        // Moving the remaining bytes costs their length, so it waits until as many are gone.
        if gone >= self.seen.len() / 2 {
            self.seen.drain(..gone);
            self.start += gone as u64;
            self.entered -= gone;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_followed_by_its_checksum_is_found_wherever_it_is_and_however_it_comes() {
        let mut bytes: Vec<u8> =
            (0..5000u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
        for (at, len) in [(0, 36), (1000, 36), (1040, 36), (4964, 36), (2000, 37)] {
            let sum = crc32c::crc32c(&bytes[at..at + len - 4]);
            bytes[at + len - 4..at + len].copy_from_slice(&sum.to_le_bytes());
        }
        for step in [1, 3, 36, 37, 999, 5000] {
            let mut scan = ChecksumScan::new(36).unwrap();
            let mut found = Vec::new();
            bytes.chunks(step).for_each(|part| scan.take(part, |at| found.push(at)));
            assert_eq!(found, [0, 1000, 1040, 4964], "{step}");
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        let mut scan = ChecksumScan::new(20).unwrap();
        scan.take(&[0; 1000], |at| panic!("{at}"));
        assert!(ChecksumScan::new(4).is_none() && ChecksumScan::new(u64::MAX).is_none());
    }
}
