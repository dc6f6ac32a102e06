/// The low 64 bits of MurmurHash3_x86_128 with seed 0, of the eight little-endian bytes of a
/// number.
pub(super) fn murmur3_x86_128_low(value: u64) -> u64 {
    const C1: u32 = 0x239b_961b;
    const C2: u32 = 0xab0e_9789;
    const C3: u32 = 0x38b3_4ae5;
    /// Bytes that are hashed.
    const LEN: u32 = 8;
    let (low, high) = (value as u32, (value >> 32) as u32);
    // Eight bytes are less than a block, so they are all tail; two of the four lanes get nothing.
    let mut h = [
        low.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2) ^ LEN,
        high.wrapping_mul(C2).rotate_left(16).wrapping_mul(C3) ^ LEN,
        LEN,
        LEN,
    ];
    mix_lanes(&mut h);
    h = h.map(avalanche);
    mix_lanes(&mut h);
    u64::from(h[0]) | u64::from(h[1]) << 32
}

fn mix_lanes(h: &mut [u32; 4]) {
    h[0] = h.iter().fold(0, |sum: u32, &lane| sum.wrapping_add(lane));
    let first = h[0];
    h[1..].iter_mut().for_each(|lane| *lane = lane.wrapping_add(first));
}

fn avalanche(mut h: u32) -> u32 {
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors() {
        for (value, hash) in
            [(0, 0x4772_b084_e028_ae41), (1, 0xe8bd_67d6_16d4_ce9a), (42, 0xc20b_94f9_5119_f47a)]
        {
            assert_eq!(murmur3_x86_128_low(value), hash, "{value}");
        }
    }
}
