//! Elements as numbers.

/// A type of elements, as they lie in memory.
pub(super) trait Sample {
    /// The bytes of an element.
    type Bytes: Copy + PartialEq;
    /// What it is computed with.
    type Value: Copy + Send + 'static;
    /// What it is sorted by: two values are the same if these are equal.
    type Key: Copy + Ord + Send + 'static;

    /// Bytes of an element.
    const SIZE: usize = size_of::<Self::Bytes>();

    fn split(bytes: &[u8]) -> &[Self::Bytes];
    fn split_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];
    fn load(bytes: Self::Bytes) -> Self::Value;
    fn store(value: Self::Value) -> Self::Bytes;
    fn key(value: Self::Value) -> Self::Key;
    fn of_key(key: Self::Key) -> Self::Value;
    /// The smaller of two; a number rather than a NaN.
    fn lesser(a: Self::Value, b: Self::Value) -> Self::Value;
    /// The larger of two; a number rather than a NaN.
    fn greater(a: Self::Value, b: Self::Value) -> Self::Value;
}

macro_rules! split {
    ($size:literal) => {
        type Bytes = [u8; $size];

        fn split(bytes: &[u8]) -> &[Self::Bytes] {
            bytes.as_chunks().0
        }

        fn split_mut(bytes: &mut [u8]) -> &mut [Self::Bytes] {
            bytes.as_chunks_mut().0
        }
    };
}

macro_rules! integers {
    ($($name:ident $type:ty, $size:literal;)*) => {$(
        pub(super) struct $name;

        impl Sample for $name {
            split!($size);
            type Value = $type;
            type Key = $type;

            #[inline]
            fn load(bytes: Self::Bytes) -> $type {
                <$type>::from_le_bytes(bytes)
            }

            #[inline]
            fn store(value: $type) -> Self::Bytes {
                value.to_le_bytes()
            }

            #[inline]
            fn key(value: $type) -> $type {
                value
            }

            #[inline]
            fn of_key(key: $type) -> $type {
                key
            }

            #[inline]
            fn lesser(a: $type, b: $type) -> $type {
                a.min(b)
            }

            #[inline]
            fn greater(a: $type, b: $type) -> $type {
                a.max(b)
            }
        }
    )*};
}

integers! {
    U8 u8, 1;
    U16 u16, 2;
    U32 u32, 4;
    U64 u64, 8;
    I8 i8, 1;
    I16 i16, 2;
    I32 i32, 4;
    I64 i64, 8;
}

/// Floating-point numbers that sums are made of.
pub(super) trait Float: Copy + Send + Default + 'static {
    fn plus(self, other: Self) -> Self;
    fn over(self, count: u32) -> Self;
}

impl Float for f32 {
    #[inline]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline]
    fn over(self, count: u32) -> Self {
        // Exact: there are at most 2^24 elements in a box.
        self / count as Self
    }
}

impl Float for f64 {
    #[inline]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline]
    fn over(self, count: u32) -> Self {
        self / Self::from(count)
    }
}

macro_rules! floats {
    ($($name:ident $stored:ty, $value:ty, $key:ty, $size:literal, $from:expr, $to:expr;)*) => {$(
        pub(super) struct $name;

        impl Sample for $name {
            split!($size);
            type Value = $value;
            type Key = $key;

            #[inline]
            fn load(bytes: Self::Bytes) -> $value {
                $from(<$stored>::from_le_bytes(bytes))
            }

            #[inline]
            fn store(value: $value) -> Self::Bytes {
                $to(value).to_le_bytes()
            }

            /// Positive numbers sort as their bits do, negative ones the other way round.
            #[inline]
            fn key(value: $value) -> $key {
                if value.is_nan() {
                    return <$key>::MAX;
                }
                // Adding 0 turns -0 into 0.
                let bits = (value + 0.0).to_bits() as $key;
                if bits < 0 { !bits ^ <$key>::MIN } else { bits }
            }

            #[inline]
            fn of_key(key: $key) -> $value {
                if key == <$key>::MAX {
                    return <$value>::NAN;
                }
                let bits = if key < 0 { !(key ^ <$key>::MIN) } else { key };
                <$value>::from_bits(bits as _)
            }

            #[inline]
            fn lesser(a: $value, b: $value) -> $value {
                a.min(b)
            }

            #[inline]
            fn greater(a: $value, b: $value) -> $value {
                a.max(b)
            }
        }
    )*};
}

floats! {
    F16 half::f16, f32, i32, 2, half::f16::to_f32, half::f16::from_f32;
    Bf16 half::bf16, f32, i32, 2, half::bf16::to_f32, half::bf16::from_f32;
    F32 f32, f32, i32, 4, std::convert::identity, std::convert::identity;
    F64 f64, f64, i64, 8, std::convert::identity, std::convert::identity;
}
