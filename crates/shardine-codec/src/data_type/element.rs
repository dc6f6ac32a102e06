//! Rust types whose values are elements of an array.

use std::fmt::Debug;

use bytemuck::Pod;
use half::{bf16, f16};
use num_complex::Complex;

use super::DataType;
use super::class::Class;
use super::float::{BFLOAT16, FLOAT16, FLOAT32, FLOAT64};

/// A Rust type whose values are elements of arrays.
///
/// | Rust | arrays |
/// |---|---|
/// | `u8` `u16` `u32` `u64` | `uint8` ... `uint64` |
/// | `i8` `i16` `i32` `i64` | `int8` ... `int64` |
/// | `i64` | also `numpy.datetime64` and `numpy.timedelta64`, as counts of their unit |
/// | `f32` `f64` | `float32`, `float64` |
/// | [`f16`](struct@f16) [`bf16`] | `float16`, `bfloat16` |
/// | [`Complex<f32>`](Complex) `Complex<f64>` | `complex64`, `complex128` |
/// | `bool` | `bool` |
///
/// Nothing is converted: an array of one type is not read as another. Values have the machine's
/// byte order, whatever order is stored. There are no other implementations.
pub trait Element: Copy + Debug + PartialEq + Send + Sync + 'static + sealed::Sealed {
    /// Its name in Rust.
    const NAME: &'static str;

    /// The type of an element while it is read: itself, unless it has invalid values.
    #[doc(hidden)]
    type Memory: Pod;

    /// The data type of an array of these.
    fn data_type() -> DataType;

    /// Whether elements of an array of this type are values of this Rust type.
    fn is_in(data_type: &DataType) -> bool;

    /// Converts what was read into values, in the same memory.
    #[doc(hidden)]
    fn from_memory(memory: Vec<Self::Memory>) -> Result<Vec<Self>, InvalidElement>;

    /// Has `read` fill the memory of existing values.
    #[doc(hidden)]
    fn fill<E: From<InvalidElement>>(
        out: &mut [Self],
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E>;

    /// The bytes of values, in the machine's byte order.
    #[doc(hidden)]
    fn as_bytes(elements: &[Self]) -> &[u8];
}

/// A stored element that is not a value of its type: a `bool` that is neither 0 nor 1.
#[derive(Debug, Clone, Copy, thiserror::Error, PartialEq, Eq)]
#[error("element {index} of the region is 0x{byte:02x}, which is not a {name}")]
pub struct InvalidElement {
    /// Its position among those that were read, in C order.
    pub index: usize,
    /// The stored byte.
    pub byte: u8,
    /// The expected type.
    pub name: &'static str,
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($rust:ty, $name:literal, $class:expr;)*) => {
        $(
            impl sealed::Sealed for $rust {}

            impl Element for $rust {
                const NAME: &'static str = stringify!($rust);

                type Memory = Self;

                fn data_type() -> DataType {
                    DataType::of_class($name.into(), $name, $class)
                }

                fn is_in(data_type: &DataType) -> bool {
                    holds(&data_type.inner.class, &$class)
                }

                fn from_memory(memory: Vec<Self>) -> Result<Vec<Self>, InvalidElement> {
                    Ok(memory)
                }

                fn fill<E: From<InvalidElement>>(
                    out: &mut [Self],
                    read: impl FnOnce(&mut [u8]) -> Result<(), E>,
                ) -> Result<(), E> {
                    read(bytemuck::must_cast_slice_mut(out))
                }

                fn as_bytes(elements: &[Self]) -> &[u8] {
                    bytemuck::must_cast_slice(elements)
                }
            }
        )*

        /// Each type with its name.
        const NAMES: &[(fn(&DataType) -> bool, &str)] =
            &[(bool::is_in, bool::NAME), $((<$rust>::is_in, <$rust>::NAME)),*];
    };
}

/// Whether elements of one class are values of the Rust type of another.
fn holds(class: &Class, wanted: &Class) -> bool {
    // Dates and durations are counts of a unit.
    let is_time = matches!(class, Class::Time { .. });
    class == wanted || (is_time && *wanted == int(64, true))
}

const fn int(bits: u32, signed: bool) -> Class {
    Class::Int { bits, signed }
}

elements! {
    u8, "uint8", int(8, false);
    u16, "uint16", int(16, false);
    u32, "uint32", int(32, false);
    u64, "uint64", int(64, false);
    i8, "int8", int(8, true);
    i16, "int16", int(16, true);
    i32, "int32", int(32, true);
    i64, "int64", int(64, true);
    f16, "float16", Class::Float(&FLOAT16);
    bf16, "bfloat16", Class::Float(&BFLOAT16);
    f32, "float32", Class::Float(&FLOAT32);
    f64, "float64", Class::Float(&FLOAT64);
    Complex<f32>, "complex64", Class::Complex(&FLOAT32);
    Complex<f64>, "complex128", Class::Complex(&FLOAT64);
}

impl sealed::Sealed for bool {}

impl Element for bool {
    const NAME: &'static str = "bool";

    type Memory = u8;

    fn data_type() -> DataType {
        DataType::of_class("bool".into(), "bool", Class::Bool)
    }

    fn is_in(data_type: &DataType) -> bool {
        data_type.inner.class == Class::Bool
    }

    fn from_memory(memory: Vec<u8>) -> Result<Vec<Self>, InvalidElement> {
        // The standard library reuses the memory for this collect.
        memory.into_iter().enumerate().map(to_bool).collect()
    }

    fn fill<E: From<InvalidElement>>(
        out: &mut [Self],
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // The bytes read could be anything, and must not be in a `bool` even briefly.
        let mut memory = vec![0; out.len()];
        read(&mut memory)?;
        for (out, byte) in out.iter_mut().zip(memory.into_iter().enumerate()) {
            *out = to_bool(byte)?;
        }
        Ok(())
    }

    fn as_bytes(elements: &[Self]) -> &[u8] {
        bytemuck::must_cast_slice(elements)
    }
}

fn to_bool((index, byte): (usize, u8)) -> Result<bool, InvalidElement> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(InvalidElement { index, byte, name: bool::NAME }),
    }
}

impl DataType {
    /// The data type of arrays whose elements are values of `T`.
    ///
    /// ```
    /// # use shardine_codec::DataType;
    /// assert_eq!(DataType::of::<u16>(), DataType::parse_name("uint16")?);
    /// # Ok::<(), shardine_codec::DataTypeError>(())
    /// ```
    pub fn of<T: Element>() -> Self {
        T::data_type()
    }

    /// The Rust type of its elements; `None` if there is none and they are bytes.
    pub fn rust_name(&self) -> Option<&'static str> {
        NAMES.iter().find(|(is_in, _)| is_in(self)).map(|&(_, name)| name)
    }
}
