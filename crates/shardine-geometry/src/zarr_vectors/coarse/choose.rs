//! Which objects a thinner level keeps.
//!
//! zarr-vectors lets NumPy draw them, so the same seed has to give the same objects here:
//! a seed is hashed to the state of a PCG generator (`SeedSequence`, `PCG64`), and rows are drawn
//! without replacement as `Generator.choice` does.

use std::collections::HashSet;

/// How many of `objects` a level keeps that has one in `sparsity` of them: at least one.
pub fn kept_objects(objects: u64, sparsity: f64) -> u64 {
    let keep = 1.0 / sparsity;
    if objects <= 1 || keep >= 1.0 {
        return objects;
    }
    // Halves are rounded to even, as Python does.
    ((objects as f64 * keep).round_ties_even() as u64).clamp(1, objects)
}

/// The rows of the objects that are kept, `count` of `objects`, in ascending order.
///
/// They are those of `numpy.random.default_rng(seed).choice(objects, count, replace=False)`. Costs
/// memory for each row that is kept, and for each object if many of many are.
pub fn choose_objects(objects: u64, count: u64, seed: u64) -> Vec<u64> {
    if count >= objects {
        return (0..objects).collect();
    }
    let mut random = Random::new(seed);
    let mut chosen: Vec<u64> = if objects > 10_000 && count > objects / 50 {
        // Fills the end of the list by swaps, from the last place on.
        let mut all: Vec<u64> = (0..objects).collect();
        for at in ((objects - count).max(1)..objects).rev() {
            let other = random.up_to(at);
            all.swap(at as usize, other as usize);
        }
        all.split_off((objects - count) as usize)
    } else {
        // Floyd's: a row that was drawn before is replaced by the last one that could be.
        let mut drawn = HashSet::new();
        (objects - count..objects)
            .map(|last| {
                let row = random.up_to(last);
                let row = if drawn.insert(row) { row } else { last };
                drawn.insert(row);
                row
            })
            .collect()
    };
    chosen.sort_unstable();
    chosen
}

/// PCG with 128 bits of state, XSL-RR, seeded as NumPy does.
struct Random {
    state: u128,
    increment: u128,
    /// The upper half of a number whose lower half was taken.
    half: Option<u32>,
}

const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;

impl Random {
    fn new(seed: u64) -> Self {
        let words = seeded(seed);
        let wide = |at: usize| u128::from(words[at]) << 64 | u128::from(words[at + 1]);
        let mut random = Self { state: 0, increment: wide(2) << 1 | 1, half: None };
        random.step();
        random.state = random.state.wrapping_add(wide(0));
        random.step();
        random
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    fn next_u32(&mut self) -> u32 {
        if let Some(half) = self.half.take() {
            return half;
        }
        let next = self.next_u64();
        self.half = Some((next >> 32) as u32);
        next as u32
    }

    /// A number from 0 to `last`, by Lemire's method.
    fn up_to(&mut self, last: u64) -> u64 {
        if last == 0 {
            return 0;
        }
        let Ok(narrow) = u32::try_from(last) else {
            if last == u64::MAX {
                return self.next_u64();
            }
            let count = last + 1;
            let mut product = u128::from(self.next_u64()) * u128::from(count);
            if (product as u64) < count {
                let least = (u64::MAX - last) % count;
                while (product as u64) < least {
                    product = u128::from(self.next_u64()) * u128::from(count);
                }
            }
            return (product >> 64) as u64;
        };
        if narrow == u32::MAX {
            return self.next_u32().into();
        }
        let count = narrow + 1;
        let mut product = u64::from(self.next_u32()) * u64::from(count);
        if (product as u32) < count {
            let least = (u32::MAX - narrow) % count;
            while (product as u32) < least {
                product = u64::from(self.next_u32()) * u64::from(count);
            }
        }
        product >> 32
    }
}

/// Four words from a seed, as `SeedSequence` makes them.
fn seeded(seed: u64) -> [u64; 4] {
    const SHIFT: u32 = 16;
    let mut constant = 0x43b0_d7e5u32;
    let mut hash = |value: u32| {
        let value = value ^ constant;
        constant = constant.wrapping_mul(0x931e_8875);
        let value = value.wrapping_mul(constant);
        value ^ value >> SHIFT
    };
    let mix = |x: u32, y: u32| {
        let mixed = 0xca01_f9ddu32.wrapping_mul(x).wrapping_sub(0x4973_f715u32.wrapping_mul(y));
        mixed ^ mixed >> SHIFT
    };
    let mut pool = [seed as u32, (seed >> 32) as u32, 0, 0].map(&mut hash);
    for from in 0..4 {
        for to in (0..4).filter(|to| *to != from) {
            pool[to] = mix(pool[to], hash(pool[from]));
        }
    }
    let mut constant = 0x8b51_f9ddu32;
    let mut word = |at: usize| {
        let value = pool[at % 4] ^ constant;
        constant = constant.wrapping_mul(0x58f3_8ded);
        let value = value.wrapping_mul(constant);
        u64::from(value ^ value >> SHIFT)
    };
    [0, 2, 4, 6].map(|at| {
        let low = word(at);
        word(at + 1) << 32 | low
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_objects_that_numpy_draws() {
        // Sorted, from NumPy 2.4.
        let drawn = |n, count, seed| choose_objects(n, count, seed);
        assert_eq!(drawn(20, 10, 7), [1, 4, 6, 7, 8, 10, 12, 14, 15, 16]);
        assert_eq!(drawn(8, 4, 0), [2, 3, 4, 6]);
        assert_eq!(drawn(5, 1, 123), [0]);
        assert_eq!(drawn(3, 2, 1), [0, 1]);
        let with_two_words = drawn(100, 33, (1 << 40) + 5);
        assert_eq!(with_two_words[..8], [0, 2, 3, 4, 5, 6, 11, 13]);
        assert_eq!(with_two_words[29..], [75, 77, 81, 83]);
    }

    #[test]
    fn many_of_many_are_drawn_in_another_way_and_are_those_of_numpy_too() {
        for (n, count, seed, first, sum) in [
            (20_000, 7000, 7, [2, 3, 5, 10, 11], 69_787_412),
            (10_001, 201, 3, [14, 46, 269, 301, 326], 1_010_554),
            (10_001, 200, 3, [14, 46, 273, 299, 320], 998_347),
            (300_000, 10, 9, [34_307, 86_043, 126_460, 180_942, 192_787], 1_818_246),
        ] {
            let drawn = choose_objects(n, count, seed);
            assert_eq!((&drawn[..5], drawn.iter().sum()), (&first[..], sum), "{n} {count}");
        }
    }

    #[test]
    fn a_level_keeps_at_least_one_object_and_rounds_halves_to_even() {
        let kept = [(5, 2.0), (7, 2.0), (3, 100.0), (1, 2.0), (4, 1.0), (0, 2.0)];
        assert_eq!(kept.map(|(n, sparsity)| kept_objects(n, sparsity)), [2, 4, 1, 1, 4, 0]);
    }
}
