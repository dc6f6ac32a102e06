use proptest::prelude::*;
use std::collections::BTreeMap;

use super::*;

/// A value of any type, as a test computes with it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    Int(i128),
    Float(f64),
}

/// The types under test: their name, and how their elements are read and written.
const TYPES: [&str; 14] = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
    "bfloat16", "float32", "float64", "int4",
];

fn size(name: &str) -> usize {
    match DataType::parse_name(name).unwrap().size() {
        ElementSize::Fixed(size) => size,
        ElementSize::Variable => panic!("{name}"),
    }
}

fn read(name: &str, bytes: &[u8]) -> Value {
    let int = |signed: bool| {
        let mut wide = [if signed && bytes[bytes.len() - 1] >> 7 == 1 { 0xFF } else { 0 }; 16];
        wide[..bytes.len()].copy_from_slice(bytes);
        Value::Int(i128::from_le_bytes(wide))
    };
    match name {
        "float16" => Value::Float(half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f64()),
        "bfloat16" => Value::Float(half::bf16::from_le_bytes(bytes.try_into().unwrap()).to_f64()),
        "float32" => Value::Float(f64::from(f32::from_le_bytes(bytes.try_into().unwrap()))),
        "float64" => Value::Float(f64::from_le_bytes(bytes.try_into().unwrap())),
        _ => int(name.starts_with("int")),
    }
}

fn write(name: &str, value: Value) -> Vec<u8> {
    match (name, value) {
        ("float16", Value::Float(v)) => half::f16::from_f64(v).to_le_bytes().to_vec(),
        ("bfloat16", Value::Float(v)) => half::bf16::from_f64(v).to_le_bytes().to_vec(),
        ("float32", Value::Float(v)) => (v as f32).to_le_bytes().to_vec(),
        ("float64", Value::Float(v)) => v.to_le_bytes().to_vec(),
        (_, Value::Int(v)) => v.to_le_bytes()[..size(name)].to_vec(),
        _ => panic!("{name} {value:?}"),
    }
}

/// What a box becomes, written down as the documentation says it.
fn expected(name: &str, method: DownsampleMethod, values: &[Value]) -> Value {
    let floats = || {
        values.iter().map(|v| match v {
            Value::Float(v) => *v,
            Value::Int(v) => *v as f64,
        })
    };
    let is_float = matches!(values[0], Value::Float(_));
    let order = |a: &Value, b: &Value| match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => {
            // NaNs last.
            a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
        _ => panic!("mixed"),
    };
    match method {
        DownsampleMethod::Stride => values[0],
        DownsampleMethod::Mean if is_float && name == "float64" => {
            Value::Float(floats().fold(0.0, |a, b| a + b) / values.len() as f64)
        }
        DownsampleMethod::Mean if is_float => {
            let sum = floats().fold(0f32, |a, b| a + b as f32);
            Value::Float(f64::from(sum / values.len() as f32))
        }
        DownsampleMethod::Mean => {
            let sum: i128 = values.iter().map(|v| if let Value::Int(v) = v { *v } else { 0 }).sum();
            let n = values.len() as i128;
            let below = sum.div_euclid(n);
            let twice = 2 * (sum - below * n);
            let up = twice > n || twice == n && below.rem_euclid(2) == 1;
            Value::Int(below + i128::from(up))
        }
        DownsampleMethod::Median => {
            let mut sorted = values.to_vec();
            sorted.sort_by(order);
            sorted[(sorted.len() - 1) / 2]
        }
        DownsampleMethod::Mode => {
            let mut sorted = values.to_vec();
            sorted.sort_by(order);
            let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
            for value in &sorted {
                let first = sorted.iter().position(|v| order(v, value).is_eq()).unwrap();
                *counts.entry(first).or_default() += 1;
            }
            let most = *counts.values().max().unwrap();
            sorted[*counts.iter().find(|(_, n)| **n == most).unwrap().0]
        }
        DownsampleMethod::Max | DownsampleMethod::Min => {
            let numbers: Vec<Value> = values
                .iter()
                .copied()
                .filter(|v| !matches!(v, Value::Float(v) if v.is_nan()))
                .collect();
            let found = match method {
                DownsampleMethod::Max => numbers.iter().copied().max_by(order),
                _ => numbers.iter().copied().min_by(order),
            };
            found.unwrap_or(Value::Float(f64::NAN))
        }
    }
}

fn same(a: Value, b: Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a == b || a.is_nan() && b.is_nan(),
        (a, b) => a == b,
    }
}

/// Each index of a shape, in C order.
fn indexes(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &n in shape {
        all = all
            .into_iter()
            .flat_map(|at: Vec<usize>| (0..n).map(move |i| [&at[..], &[i]].concat()))
            .collect();
    }
    all
}

fn offset(at: &[usize], shape: &[usize]) -> usize {
    at.iter().zip(shape).fold(0, |n, (&i, &d)| n * d + i)
}

/// Reduces a block in the middle of a larger target, and compares each element and all around it.
fn check(name: &str, method: DownsampleMethod, shape: &[usize], factors: &[u64], elements: &[u8]) {
    let data_type = DataType::parse_name(name).unwrap();
    let size = size(name);
    let kernel = Downsample::new(&data_type, method, factors).unwrap();
    let reduced = kernel.reduced(shape);
    // A margin of one along each axis but every other one, so that some rows are contiguous.
    let margin = |axis: usize| usize::from(axis % 2 == 1);
    let around: Vec<u64> =
        reduced.iter().enumerate().map(|(i, &n)| (n + 2 * margin(i)) as u64).collect();
    let mut to = Placement::contiguous(&around, size).unwrap();
    to.start = (0..shape.len()).map(|i| margin(i) * to.strides[i]).sum();
    let len = around.iter().product::<u64>() as usize * size;
    let mut target = vec![0xA5; len];
    kernel.run(&mut Context::new(), shape, elements, &mut target, &to).unwrap();
    let around: Vec<usize> = around.iter().map(|&n| n as usize).collect();
    for at in indexes(&around) {
        let found = &target[offset(&at, &around) * size..][..size];
        let inside: Option<Vec<usize>> = at
            .iter()
            .enumerate()
            .map(|(i, &n)| n.checked_sub(margin(i)).filter(|&n| n < reduced[i]))
            .collect();
        let Some(inside) = inside else {
            assert!(found.iter().all(|&b| b == 0xA5), "{at:?} lies outside of the box");
            continue;
        };
        let window: Vec<usize> = (0..shape.len())
            .map(|i| (factors[i] as usize).min(shape[i] - inside[i] * factors[i] as usize))
            .collect();
        let values: Vec<Value> = indexes(&window)
            .iter()
            .map(|k| {
                let at: Vec<usize> =
                    (0..shape.len()).map(|i| inside[i] * factors[i] as usize + k[i]).collect();
                read(name, &elements[offset(&at, shape) * size..][..size])
            })
            .collect();
        let wanted = read(name, &write(name, expected(name, method, &values)));
        let found = read(name, found);
        assert!(
            same(found, wanted),
            "{name} {method} {shape:?} {factors:?} at {inside:?}: {found:?}, not {wanted:?} of {values:?}"
        );
    }
}

/// Elements of a type: few distinct ones, extreme ones, or any bits.
fn elements(name: &'static str, count: usize) -> impl Strategy<Value = Vec<u8>> {
    let any_bits = prop::collection::vec(any::<u8>(), size(name));
    let special: Vec<Value> = match name {
        "bool" => vec![Value::Int(0), Value::Int(1)],
        "int4" => vec![Value::Int(-8), Value::Int(7), Value::Int(-1), Value::Int(0)],
        _ if name.contains("float") => [f64::NAN, 0.0, -0.0, 1.5, -2.25, f64::INFINITY, 1e30, 3e-5]
            .into_iter()
            .map(Value::Float)
            .collect(),
        _ => {
            let bits = 8 * size(name) as u32;
            let (low, high) = match name.starts_with("int") {
                true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                false => (0, (1i128 << bits) - 1),
            };
            [low, low + 1, high - 1, high, 0, 1, 2, 3].into_iter().map(Value::Int).collect()
        }
    };
    let special = prop::sample::select(special).prop_map(move |value| write(name, value));
    let element = match name {
        "bool" | "int4" => special.boxed(),
        _ => prop_oneof![3 => special, 1 => any_bits].boxed(),
    };
    prop::collection::vec(element, count).prop_map(|elements| elements.concat())
}

fn cases() -> impl Strategy<Value = (&'static str, DownsampleMethod, Vec<usize>, Vec<u64>, Vec<u8>)>
{
    let axes = prop::collection::vec((1usize..8, 1u64..5), 1..5);
    (prop::sample::select(&TYPES[..]), prop::sample::select(&DownsampleMethod::ALL[..]), axes)
        .prop_flat_map(|(name, method, axes)| {
            let (shape, factors): (Vec<usize>, Vec<u64>) = axes.into_iter().unzip();
            elements(name, shape.iter().product())
                .prop_map(move |elements| (name, method, shape.clone(), factors.clone(), elements))
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn each_element_is_what_the_documentation_says(
        (name, method, shape, factors, elements) in cases()
    ) {
        check(name, method, &shape, &factors, &elements);
    }
}

#[test]
fn every_type_and_method_works_on_long_rows_and_usual_boxes() {
    for name in TYPES {
        for method in DownsampleMethod::ALL {
            for (shape, factors) in [
                (&[70][..], &[2][..]),
                (&[6, 67], &[2, 2]),
                (&[4, 5, 66], &[2, 2, 2]),
                (&[3, 4, 33, 3], &[1, 2, 2, 1]),
                (&[2, 40], &[2, 1]),
                (&[9, 33], &[3, 3]),
                (&[8, 36], &[4, 4]),
            ] {
                let count: usize = shape.iter().product();
                let elements: Vec<u8> = (0..count as i128)
                    .flat_map(|i| {
                        let value = (i * 37 + i / 11) % 7;
                        match name {
                            "bool" => write(name, Value::Int(value % 2)),
                            _ if name.contains("float") => {
                                write(name, Value::Float(value as f64 / 3.0))
                            }
                            _ => write(name, Value::Int(value)),
                        }
                    })
                    .collect();
                check(name, method, shape, factors, &elements);
            }
        }
    }
}

#[test]
fn sums_of_many_of_the_largest_values_do_not_overflow() {
    let data_type = DataType::parse_name("uint16").unwrap();
    let kernel = Downsample::new(&data_type, DownsampleMethod::Mean, &[400, 400]).unwrap();
    let mut out = [0; 2];
    let to = Placement::contiguous(&[1, 1], 2).unwrap();
    kernel.run(&mut Context::new(), &[400, 400], &[0xFF; 320_000], &mut out, &to).unwrap();
    assert_eq!(out, [0xFF; 2]);
}

#[test]
fn what_has_no_mean_is_refused_but_can_be_thinned_out() {
    for name in ["complex64", "r24", "float8_e4m3", "numpy.datetime64[s]"] {
        let data_type = DataType::parse_name(name).unwrap();
        for method in [
            DownsampleMethod::Mean,
            DownsampleMethod::Mode,
            DownsampleMethod::Median,
            DownsampleMethod::Max,
            DownsampleMethod::Min,
        ] {
            assert!(matches!(
                Downsample::new(&data_type, method, &[2]),
                Err(DownsampleError::Type { .. })
            ));
        }
        let kernel = Downsample::new(&data_type, DownsampleMethod::Stride, &[2, 1]).unwrap();
        let ElementSize::Fixed(size) = data_type.size() else { panic!("{name}") };
        let elements: Vec<u8> = (0..15 * size as u8).collect();
        let mut out = vec![0; 9 * size];
        let to = Placement::contiguous(&[3, 3], size).unwrap();
        kernel.run(&mut Context::new(), &[5, 3], &elements, &mut out, &to).unwrap();
        let row = |i: usize| &elements[i * 3 * size..][..3 * size];
        assert_eq!(out, [row(0), row(2), row(4)].concat(), "{name}");
    }
    let text = DataType::parse_name("string").unwrap();
    assert!(Downsample::new(&text, DownsampleMethod::Stride, &[2]).is_err());
}

#[test]
fn factors_and_places_that_make_no_sense_are_refused() {
    let data_type = DataType::parse_name("uint8").unwrap();
    for factors in [&[0][..], &[2, 0], &[1 << 12, 1 << 13], &[u64::MAX, 2]] {
        assert!(matches!(
            Downsample::new(&data_type, DownsampleMethod::Mean, factors),
            Err(DownsampleError::Factors { .. })
        ));
    }
    let kernel = Downsample::new(&data_type, DownsampleMethod::Mean, &[2, 2]).unwrap();
    let mut context = Context::new();
    let mut run = |shape: &[usize], len: usize, strides: &[usize]| {
        let to = Placement { start: 0, strides: strides.iter().copied().collect() };
        kernel.run(&mut context, shape, &[0; 16], &mut vec![0; len], &to)
    };
    assert_eq!(run(&[4, 4], 4, &[2, 1]), Ok(()));
    assert_eq!(run(&[4, 0], 4, &[2, 1]), Ok(()));
    assert_eq!(run(&[4, 5], 9, &[3, 1]), Err(OutOfMemory));
    assert_eq!(run(&[4, 4], 3, &[2, 1]), Err(OutOfMemory));
    assert_eq!(run(&[4, 4], 4, &[1, 2]), Err(OutOfMemory));
    assert_eq!(run(&[4], 4, &[1]), Err(OutOfMemory));
}

#[test]
fn methods_have_names() {
    for method in DownsampleMethod::ALL {
        assert_eq!(method.to_string().parse(), Ok(method));
        assert_eq!(serde_json::to_value(method).unwrap(), method.name());
    }
    assert!("average".parse::<DownsampleMethod>().is_err());
}
