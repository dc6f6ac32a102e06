//! Binary floating point of any width up to 64 bits, described by a table and converted exactly.

/// The meaning of the largest exponent and of negative zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// Infinities and NaNs in the largest exponent, as in IEEE 754.
    Ieee,
    /// Numbers only.
    None,
    /// No infinity; NaN where every bit but the sign is set.
    NanAtTop,
    /// No infinity and no negative zero; NaN in its place.
    NanAtNegativeZero,
    /// Only powers of two: no sign, no zero, no infinity; NaN where every bit is set.
    Scale,
}

/// How the bits of a floating-point type are laid out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FloatFormat {
    pub(super) name: &'static str,
    exponent: u32,
    mantissa: u32,
    bias: i32,
    specials: Specials,
}

/// What the bits of an element stand for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FloatValue {
    Finite(f64),
    Infinity { negative: bool },
    Nan,
}

const fn format(
    name: &'static str,
    exponent: u32,
    mantissa: u32,
    bias: i32,
    specials: Specials,
) -> FloatFormat {
    FloatFormat { name, exponent, mantissa, bias, specials }
}

pub(super) static FLOAT32: FloatFormat = format("float32", 8, 23, 127, Specials::Ieee);
pub(super) static FLOAT64: FloatFormat = format("float64", 11, 52, 1023, Specials::Ieee);
pub(super) static FLOAT16: FloatFormat = format("float16", 5, 10, 15, Specials::Ieee);
pub(super) static BFLOAT16: FloatFormat = format("bfloat16", 8, 7, 127, Specials::Ieee);

static OTHERS: [FloatFormat; 11] = [
    format("float8_e3m4", 3, 4, 3, Specials::Ieee),
    format("float8_e4m3", 4, 3, 7, Specials::Ieee),
    // Not registered, but written by TensorStore.
    format("float8_e4m3fn", 4, 3, 7, Specials::NanAtTop),
    format("float8_e4m3b11fnuz", 4, 3, 11, Specials::NanAtNegativeZero),
    format("float8_e4m3fnuz", 4, 3, 8, Specials::NanAtNegativeZero),
    format("float8_e5m2", 5, 2, 15, Specials::Ieee),
    format("float8_e5m2fnuz", 5, 2, 16, Specials::NanAtNegativeZero),
    format("float8_e8m0fnu", 8, 0, 127, Specials::Scale),
    format("float6_e2m3fn", 2, 3, 1, Specials::None),
    format("float6_e3m2fn", 3, 2, 3, Specials::None),
    format("float4_e2m1fn", 2, 1, 1, Specials::None),
];

/// The format with this name.
pub(super) fn by_name(name: &str) -> Option<&'static FloatFormat> {
    all().find(|format| format.name == name)
}

/// Every format there is.
pub(super) fn all() -> impl Iterator<Item = &'static FloatFormat> {
    [&FLOAT16, &FLOAT32, &FLOAT64, &BFLOAT16].into_iter().chain(&OTHERS)
}

impl FloatFormat {
    /// The number of bits of an element.
    pub(super) fn bits(&self) -> u32 {
        self.exponent + self.mantissa + u32::from(self.specials != Specials::Scale)
    }

    /// The bytes of an element in memory.
    pub(super) fn bytes(&self) -> usize {
        (self.bits().div_ceil(8)) as usize
    }

    /// All bits of an element set.
    pub(super) fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// All bits below the sign set.
    fn magnitude_mask(&self) -> u64 {
        u64::MAX >> (64 - self.exponent - self.mantissa)
    }

    /// Infinity's bits without the sign, which are also the first bits past the largest number.
    fn first_special(&self) -> u64 {
        match self.specials {
            Specials::Ieee => self.magnitude_mask() >> self.mantissa << self.mantissa,
            Specials::None | Specials::NanAtNegativeZero => self.magnitude_mask() + 1,
            Specials::NanAtTop | Specials::Scale => self.magnitude_mask(),
        }
    }

    /// The bits of `"NaN"`; `None` if the type has no NaN.
    pub(super) fn nan(&self) -> Option<u64> {
        match self.specials {
            Specials::Ieee => Some(self.first_special() | 1 << (self.mantissa - 1)),
            Specials::None => None,
            Specials::NanAtTop | Specials::Scale => Some(self.magnitude_mask()),
            Specials::NanAtNegativeZero => Some(self.magnitude_mask() + 1),
        }
    }

    /// The bits of an infinity; `None` if the type has none.
    pub(super) fn infinity(&self, negative: bool) -> Option<u64> {
        let bits = (self.specials == Specials::Ieee).then(|| self.first_special())?;
        Some(if negative { bits | (self.magnitude_mask() + 1) } else { bits })
    }

    /// The bits of the value nearest to `significand * 2^exponent`, halves to even.
    ///
    /// `None` if the type has nothing to round to: past the largest value of a type without
    /// infinity, or zero or negative for a type with only positive numbers.
    pub(super) fn nearest(&self, negative: bool, significand: u64, exponent: i32) -> Option<u64> {
        let scale = self.specials == Specials::Scale;
        if scale && (negative || significand == 0) {
            return None;
        }
        let magnitude = if significand == 0 { 0 } else { self.round(significand, exponent) };
        let first_special = self.first_special();
        if magnitude >= first_special && self.specials != Specials::Ieee {
            return None;
        }
        let magnitude = magnitude.min(first_special);
        let signed_zero = self.specials != Specials::NanAtNegativeZero;
        Some(if negative && (magnitude != 0 || signed_zero) {
            magnitude | (self.magnitude_mask() + 1)
        } else {
            magnitude
        })
    }

    /// The bits below the sign, as if exponents were unbounded.
    fn round(&self, significand: u64, exponent: i32) -> u64 {
        let scale = self.specials == Specials::Scale;
        let smallest = if scale { -self.bias } else { 1 - self.bias };
        let leading = 63 - significand.leading_zeros() as i32;
        // The value lies in 2^top .. 2^(top + 1).
        let top = exponent + leading;
        let normal = top >= smallest;
        let quantum = top.max(smallest) - self.mantissa as i32;
        let shift = quantum - exponent;
        // The leading bit of a normal number is not stored: it adds one to the exponent's field.
        let below = if normal { (top - smallest) as u64 } else { 0 };
        if shift <= 0 {
            let units = significand << shift.unsigned_abs();
            return self.place(units, below, normal);
        }
        let shift = shift.min(127) as u32;
        let wide = u128::from(significand);
        let units = (wide >> shift) as u64;
        let rest = wide & ((1 << shift) - 1);
        let half = 1_u128 << (shift - 1);
        let bits = self.place(units, below, normal);
        // The leading bit counts: without a mantissa it is the last one, so a half always rounds
        // up.
        let up = rest > half || (rest == half && units & 1 == 1);
        // A type without zero stays at its smallest value however small the number is.
        if up && !(scale && units == 0) { bits + 1 } else { bits }
    }

    fn place(&self, units: u64, below: u64, normal: bool) -> u64 {
        if normal && self.specials == Specials::Scale {
            below
        } else {
            (below << self.mantissa) + units
        }
    }

    /// The bits of the value nearest to `number`, which is finite; see [`Self::nearest`].
    pub(super) fn nearest_to(&self, number: f64) -> Option<u64> {
        let bits = number.to_bits();
        let field = (bits >> 52 & 0x7ff) as i32;
        let fraction = bits & ((1 << 52) - 1);
        let (significand, exponent) =
            if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) };
        self.nearest(number.is_sign_negative(), significand, exponent)
    }

    /// The value of `bits`; bits that the type does not have are ignored.
    pub(super) fn value(&self, bits: u64) -> FloatValue {
        let magnitude = bits & self.magnitude_mask();
        let negative = self.specials != Specials::Scale && bits & (self.magnitude_mask() + 1) != 0;
        match self.specials {
            Specials::Ieee if magnitude == self.first_special() => {
                return FloatValue::Infinity { negative };
            }
            Specials::Ieee | Specials::NanAtTop | Specials::Scale
                if magnitude >= self.first_special() =>
            {
                return FloatValue::Nan;
            }
            Specials::NanAtNegativeZero if negative && magnitude == 0 => return FloatValue::Nan,
            _ => {}
        }
        if self.bits() == 64 {
            return FloatValue::Finite(f64::from_bits(bits));
        }
        let field = (magnitude >> self.mantissa) as i32;
        let fraction = magnitude & ((1 << self.mantissa) - 1);
        let (units, exponent) = if self.specials == Specials::Scale {
            (1, field - self.bias)
        } else if field == 0 {
            (fraction, 1 - self.bias)
        } else {
            (fraction | 1 << self.mantissa, field - self.bias)
        };
        // Every format but float64 lies inside the normal range of float64, so both factors are
        // exact.
        let quantum = exponent - self.mantissa as i32;
        let quantum = f64::from_bits(((quantum + 1023) as u64) << 52);
        let number = units as f64 * quantum;
        FloatValue::Finite(if negative { -number } else { number })
    }

    /// The finite number with the fewest digits that [`Self::nearest_to`] turns back into `bits`.
    pub(super) fn shortest(&self, bits: u64, exact: f64) -> f64 {
        // A float64 prints in its fewest digits anyway; the others stand for a whole interval.
        (self.bits() < 64)
            .then(|| {
                (0..9).find_map(|digits| {
                    let number: f64 = format!("{exact:.digits$e}").parse().ok()?;
                    (self.nearest_to(number) == Some(bits & self.mask())).then_some(number)
                })
            })
            .flatten()
            .unwrap_or(exact)
    }
}
