use super::float::{FloatFormat, FloatValue, all, by_name};
use super::*;

fn golden() -> serde_json::Map<String, Value> {
    let text = include_str!("../../../../../tests/golden/data_type/floats.json");
    serde_json::from_str(text).unwrap()
}

fn number(json: &Value) -> f64 {
    f64::from_bits(u64::from_str_radix(json.as_str().unwrap(), 16).unwrap())
}

fn pairs(json: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    json.as_array().unwrap().iter().map(|pair| (&pair[0], &pair[1]))
}

#[test]
fn every_bit_pattern_has_the_value_that_ml_dtypes_gives_it() {
    let golden = golden();
    assert_eq!(golden.len() + 2, all().count());
    for (name, cases) in &golden {
        let format = by_name(name).unwrap();
        for (bits, expected) in pairs(&cases["values"]) {
            let bits = bits.as_u64().unwrap();
            let value = format.value(bits);
            if expected == "nan" {
                assert_eq!(value, FloatValue::Nan, "{name} {bits:#x}");
                continue;
            }
            let expected = number(expected);
            let expected_value = if expected.is_infinite() {
                FloatValue::Infinity { negative: expected < 0.0 }
            } else {
                FloatValue::Finite(expected)
            };
            assert_eq!(value, expected_value, "{name} {bits:#x}");
            if let FloatValue::Finite(value) = value {
                assert_eq!(value.to_bits(), expected.to_bits(), "{name} {bits:#x}: its sign");
            }
        }
    }
}

#[test]
fn numbers_round_as_in_ml_dtypes() {
    for (name, cases) in &golden() {
        let format = by_name(name).unwrap();
        for (given, bits) in pairs(&cases["rounded"]) {
            let given = number(given);
            assert_eq!(format.nearest_to(given), bits.as_u64(), "{name} {given:e}");
        }
    }
}

#[test]
fn the_scale_format_stays_at_its_smallest_value() {
    let (format, smallest) = (wide("float8_e8m0fnu"), 2_f64.powi(-127));
    for (number, bits) in [(1e-300, 0), (smallest, 0), (1.4999 * smallest, 0), (1.5 * smallest, 1)]
    {
        assert_eq!(format.nearest_to(number), Some(bits), "{number:e}");
    }
}

fn wide(name: &str) -> &'static FloatFormat {
    by_name(name).unwrap()
}

#[test]
fn the_wide_formats_are_those_of_the_language() {
    let mut bits = 1_u64;
    for _ in 0..10_000 {
        // A linear congruential sequence reaches all exponents.
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let given = f64::from_bits(bits);
        if given.is_finite() {
            assert_eq!(wide("float64").nearest_to(given), Some(bits));
            let single = (given as f32).to_bits();
            assert_eq!(wide("float32").nearest_to(given), Some(single.into()), "{given:e}");
        }
        let single = f32::from_bits(bits as u32);
        if single.is_finite() {
            let value = wide("float32").value(u64::from(single.to_bits()));
            assert_eq!(value, FloatValue::Finite(single.into()));
            // The random doubles above do not get near the smallest and largest values.
            let near = f64::from(single) * (1.0 + 1e-9);
            let expected = (near as f32).to_bits();
            assert_eq!(wide("float32").nearest_to(near), Some(expected.into()));
        }
        let expected = (bits as f32).to_bits();
        assert_eq!(wide("float32").nearest(false, bits, 0), Some(expected.into()));
        assert_eq!(wide("float64").nearest(false, bits, 0), Some((bits as f64).to_bits()));
    }
}

#[test]
fn every_pattern_of_a_narrow_format_survives_json() {
    for format in all().filter(|format| format.bits() <= 16) {
        let data_type = named(format.name);
        for bits in 0..=format.mask() {
            let fill = FillValue(bits.to_le_bytes()[..format.bytes()].to_vec());
            let json = data_type.fill_to_json(&fill).to_string();
            let json: Value = serde_json::from_str(&json).unwrap();
            assert_eq!(data_type.fill_from_json(&json).unwrap(), fill, "{} {json}", format.name);
        }
    }
}

#[test]
fn numbers_are_written_in_their_fewest_digits() {
    for (name, number, text) in [
        ("float32", 0.1, "0.1"),
        ("float32", 16_777_216.0, "16777216.0"),
        ("float16", 0.1, "0.1"),
        ("bfloat16", 3.3, "3.3"),
        ("float64", 0.1, "0.1"),
        ("float8_e4m3", 240.0, "240.0"),
    ] {
        let data_type = named(name);
        let fill = data_type.fill_from_json(&json!(number)).unwrap();
        assert_eq!(data_type.fill_to_json(&fill).to_string(), text, "{name}");
    }
}
