//! Elements against elements.

use super::class::Class;
use super::float::{FLOAT32, FLOAT64, FloatFormat, FloatValue};
use super::{DataType, ElementSize};

/// How far two numbers are apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distance {
    /// Of integers, exactly.
    Integer(u64),
    /// Of floating-point and complex numbers; infinite if one of them is.
    Real(f64),
}

/// In what two runs of elements differ.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct ElementDifferences {
    /// Elements that differ.
    pub count: u64,
    /// The first of them.
    pub first: Option<usize>,
    /// The largest absolute difference. `None` if nothing differs, if the elements are not numbers,
    /// or if in each pair that differs one is NaN.
    pub largest: Option<Distance>,
}

impl Distance {
    /// The larger of two distances of one type.
    pub fn max(self, other: Self) -> Self {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Self::Integer(a.max(b)),
            (a, b) => Self::Real(a.as_f64().max(b.as_f64())),
        }
    }

    /// As a number that may be rounded.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Integer(n) => n as f64,
            Self::Real(n) => n,
        }
    }
}

impl ElementDifferences {
    fn add(&mut self, at: usize, distance: Option<Distance>) {
        self.count += 1;
        self.first.get_or_insert(at);
        if let Some(distance) = distance {
            self.largest = Some(self.largest.map_or(distance, |largest| largest.max(distance)));
        }
    }
}

/// Compares pair by pair; `apart` returns `None` for a pair that is equal.
fn tally<const N: usize>(
    a: &[u8],
    b: &[u8],
    apart: impl Fn([u8; N], [u8; N]) -> Option<Option<Distance>>,
) -> ElementDifferences {
    let mut found = ElementDifferences::default();
    let pairs = a.as_chunks::<N>().0.iter().zip(b.as_chunks::<N>().0);
    for (i, (a, b)) in pairs.enumerate() {
        if let Some(distance) = apart(*a, *b) {
            found.add(i, distance);
        }
    }
    found
}

macro_rules! integers {
    ($type:ty, $a:expr, $b:expr) => {
        tally($a, $b, |a, b| {
            let (a, b) = (<$type>::from_le_bytes(a), <$type>::from_le_bytes(b));
            (a != b).then(|| Some(Distance::Integer(u64::from(a.abs_diff(b)))))
        })
    };
}

macro_rules! floats {
    ($type:ty, $a:expr, $b:expr) => {
        tally($a, $b, |a, b| {
            let (a, b) = (<$type>::from_le_bytes(a), <$type>::from_le_bytes(b));
            reals_apart(f64::from(a), f64::from(b))
        })
    };
}

/// How far two real numbers are apart: `None` if they are equal, `Some(None)` if one is NaN.
fn reals_apart(a: f64, b: f64) -> Option<Option<Distance>> {
    if a == b || (a.is_nan() && b.is_nan()) {
        return None;
    }
    let distance = (a - b).abs();
    Some((!distance.is_nan()).then_some(Distance::Real(distance)))
}

fn real(format: &FloatFormat, bytes: &[u8]) -> f64 {
    let mut word = [0; 8];
    let len = bytes.len().min(word.len());
    word[..len].copy_from_slice(&bytes[..len]);
    match format.value(u64::from_le_bytes(word)) {
        FloatValue::Finite(number) => number,
        FloatValue::Infinity { negative: false } => f64::INFINITY,
        FloatValue::Infinity { negative: true } => f64::NEG_INFINITY,
        FloatValue::Nan => f64::NAN,
    }
}

/// Compares elements of a size that is only known at run time.
fn tally_of(
    size: usize,
    a: &[u8],
    b: &[u8],
    apart: impl Fn(&[u8], &[u8]) -> Option<Option<Distance>>,
) -> ElementDifferences {
    let mut found = ElementDifferences::default();
    for (i, (a, b)) in a.chunks_exact(size).zip(b.chunks_exact(size)).enumerate() {
        if a != b
            && let Some(distance) = apart(a, b)
        {
            found.add(i, distance);
        }
    }
    found
}

pub(super) fn differences(data_type: &DataType, a: &[u8], b: &[u8]) -> ElementDifferences {
    let ElementSize::Fixed(size) = data_type.size() else {
        let differ = usize::from(a != b);
        return ElementDifferences {
            count: differ as u64,
            first: (differ == 1).then_some(0),
            largest: None,
        };
    };
    if a == b {
        return ElementDifferences::default();
    }
    match &data_type.inner.class {
        Class::Int { signed, bits } => match (signed, bits) {
            (false, 0..=8) => integers!(u8, a, b),
            (false, 9..=16) => integers!(u16, a, b),
            (false, 17..=32) => integers!(u32, a, b),
            (false, _) => integers!(u64, a, b),
            (true, 0..=8) => integers!(i8, a, b),
            (true, 9..=16) => integers!(i16, a, b),
            (true, 17..=32) => integers!(i32, a, b),
            (true, _) => integers!(i64, a, b),
        },
        Class::Float(format) if *format == &FLOAT32 => floats!(f32, a, b),
        Class::Float(format) if *format == &FLOAT64 => floats!(f64, a, b),
        Class::Float(format) => {
            tally_of(size, a, b, |a, b| reals_apart(real(format, a), real(format, b)))
        }
        Class::Complex(format) => tally_of(size, a, b, |a, b| {
            let half = size / 2;
            let part = |range: std::ops::Range<usize>| {
                let (a, b) = (real(format, &a[range.clone()]), real(format, &b[range]));
                reals_apart(a, b)
            };
            match (part(0..half), part(half..size)) {
                (None, None) => None,
                (re, im) => {
                    let along = |part: Option<Option<Distance>>| match part {
                        None => Some(0.0),
                        Some(distance) => distance.map(Distance::as_f64),
                    };
                    Some(along(re).zip(along(im)).map(|(re, im)| Distance::Real(re.hypot(im))))
                }
            }
        }),
        _ => tally_of(size, a, b, |_, _| Some(None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, a: &[u8], b: &[u8]) -> ElementDifferences {
        DataType::parse_name(name).unwrap().differences(a, b)
    }

    fn bytes<const N: usize>(values: &[[u8; N]]) -> Vec<u8> {
        values.concat()
    }

    #[test]
    fn integers_differ_by_their_distance_however_large() {
        let (a, b) = (
            bytes(&[3i16, -5, 7].map(i16::to_le_bytes)),
            bytes(&[3i16, 5, 8].map(i16::to_le_bytes)),
        );
        let found = of("int16", &a, &b);
        assert_eq!((found.count, found.first), (2, Some(1)));
        assert_eq!(found.largest, Some(Distance::Integer(10)));
        let (a, b) = (i64::MIN.to_le_bytes(), i64::MAX.to_le_bytes());
        assert_eq!(of("int64", &a, &b).largest, Some(Distance::Integer(u64::MAX)));
        assert_eq!(of("int4", &[0xff], &[1]).largest, Some(Distance::Integer(2)));
    }

    #[test]
    fn a_nan_is_equal_to_every_nan_and_zeros_are_equal_whatever_their_sign() {
        let other = f64::from_bits(f64::NAN.to_bits() | 1 << 63 | 5);
        let (a, b) = ([f64::NAN, 0.0, 1.0], [other, -0.0, 1.0]);
        let (a, b) = (bytes(&a.map(f64::to_le_bytes)), bytes(&b.map(f64::to_le_bytes)));
        assert_ne!(a, b);
        assert_eq!(of("float64", &a, &b), ElementDifferences::default());
        let found = of("float64", &1f64.to_le_bytes(), &f64::NAN.to_le_bytes());
        assert_eq!((found.count, found.largest), (1, None));
        let found = of("float32", &f32::INFINITY.to_le_bytes(), &1f32.to_le_bytes());
        assert_eq!(found.largest, Some(Distance::Real(f64::INFINITY)));
        // 1.0 and 1.5 in half precision; two NaNs; two zeros.
        let found = of("float16", &[0, 0x3c, 1, 0x7e, 0, 0], &[0, 0x3e, 0, 0xfe, 0, 0x80]);
        assert_eq!((found.count, found.largest), (1, Some(Distance::Real(0.5))));
    }

    #[test]
    fn complex_numbers_differ_by_the_length_of_their_difference() {
        let number = |re: f32, im: f32| [re.to_le_bytes(), im.to_le_bytes()].concat();
        let found = of("complex64", &number(1.0, 1.0), &number(4.0, 5.0));
        assert_eq!(found.largest, Some(Distance::Real(5.0)));
        assert_eq!(of("complex64", &number(1.0, f32::NAN), &number(1.0, -f32::NAN)).count, 0);
    }

    #[test]
    fn what_is_no_number_differs_without_a_distance() {
        let found = of("r24", &[1, 2, 3, 4, 5, 6], &[1, 2, 3, 4, 5, 7]);
        assert_eq!((found.count, found.first, found.largest), (1, Some(1), None));
        assert_eq!(of("bool", &[0, 1], &[1, 1]).largest, None);
        assert_eq!(of("string", b"ab", b"abc").count, 1);
        assert_eq!(of("string", b"ab", b"ab").count, 0);
    }
}
