use half::{bf16, f16};
use num_complex::Complex;

use super::*;

/// What is wrong with memory that was read.
#[derive(Debug, PartialEq)]
struct Refused(InvalidElement);

impl From<InvalidElement> for Refused {
    fn from(error: InvalidElement) -> Self {
        Self(error)
    }
}

fn check<T: Element>(name: &str, one: T) {
    let data_type = DataType::of::<T>();
    assert_eq!(data_type, named(name));
    assert_eq!(data_type.to_json(), name);
    assert_eq!(data_type.size(), ElementSize::Fixed(size_of::<T>()));
    assert_eq!(size_of::<T>(), size_of::<T::Memory>());
    assert_eq!(data_type.rust_name(), Some(T::NAME));
    let bytes = T::as_bytes(&[one, one]).to_vec();
    assert_eq!(bytes.len(), 2 * size_of::<T>());
    if cfg!(target_endian = "little") {
        let fill = data_type.fill_from_json(&match T::NAME {
            "bool" => json!(true),
            name if name.starts_with("Complex") => json!([1, 0]),
            _ => json!(1),
        });
        assert_eq!(fill.unwrap().0, bytes[..size_of::<T>()]);
    }
    let mut out = [one; 2];
    T::fill(&mut out, |memory| {
        memory.fill(0);
        Ok::<(), Refused>(())
    })
    .unwrap();
    assert_ne!(out, [one; 2]);
    T::fill(&mut out, |memory| {
        memory.copy_from_slice(&bytes);
        Ok::<(), Refused>(())
    })
    .unwrap();
    assert_eq!(out, [one; 2]);
    let mut memory = vec![<T::Memory as bytemuck::Zeroable>::zeroed(); 2];
    let place = memory.as_ptr().cast::<u8>();
    bytemuck::must_cast_slice_mut(&mut memory).copy_from_slice(&bytes);
    let elements = T::from_memory(memory).unwrap();
    assert_eq!(elements, [one; 2]);
    assert_eq!(elements.as_ptr().cast::<u8>(), place, "{name} was copied");
}

#[test]
fn every_rust_type_has_the_bytes_of_its_data_type() {
    check("uint8", 1u8);
    check("uint16", 1u16);
    check("uint32", 1u32);
    check("uint64", 1u64);
    check("int8", 1i8);
    check("int16", 1i16);
    check("int32", 1i32);
    check("int64", 1i64);
    check("float16", f16::ONE);
    check("bfloat16", bf16::ONE);
    check("float32", 1f32);
    check("float64", 1f64);
    check("complex64", Complex::new(1f32, 0.0));
    check("complex128", Complex::new(1f64, 0.0));
    check("bool", true);
}

#[test]
fn each_type_has_at_most_one_rust_type_and_it_has_its_size() {
    let mut without = Vec::new();
    for data_type in every_type() {
        let name = data_type.rust_name();
        let is_in = [
            u8::is_in(&data_type),
            u16::is_in(&data_type),
            u32::is_in(&data_type),
            u64::is_in(&data_type),
            i8::is_in(&data_type),
            i16::is_in(&data_type),
            i32::is_in(&data_type),
            i64::is_in(&data_type),
            f16::is_in(&data_type),
            bf16::is_in(&data_type),
            f32::is_in(&data_type),
            f64::is_in(&data_type),
            Complex::<f32>::is_in(&data_type),
            Complex::<f64>::is_in(&data_type),
            bool::is_in(&data_type),
        ];
        let count = is_in.into_iter().filter(|&is| is).count();
        assert_eq!(count, usize::from(name.is_some()), "{data_type:?}");
        if name.is_none() {
            without.push(data_type.name().to_owned());
        }
    }
    for name in ["int4", "uint2", "r8", "r128", "string", "bytes", "struct", "float8_e5m2"] {
        assert!(without.iter().any(|without| without == name), "{name}");
    }
    for name in ["numpy.datetime64[ns]", "numpy.timedelta64[10ms]"] {
        assert_eq!(DataType::parse_name(name).unwrap().rust_name(), Some("i64"));
    }
    assert_eq!(named("complex_float32").rust_name(), Some("Complex<f32>"));
}

#[test]
fn a_byte_that_is_no_bool_is_named_and_never_in_one() {
    let refused = InvalidElement { index: 2, byte: 255, name: "bool" };
    assert_eq!(bool::from_memory(vec![0, 1, 255, 7]), Err(refused));
    let mut out = [true; 4];
    let filled = bool::fill(&mut out, |memory| {
        memory.copy_from_slice(&[0, 1, 255, 7]);
        Ok::<(), Refused>(())
    });
    assert_eq!(filled, Err(Refused(refused)));
    assert_eq!(out, [false, true, true, true]);
    assert_eq!(refused.to_string(), "element 2 of the region is 0xff, which is not a bool");
}
