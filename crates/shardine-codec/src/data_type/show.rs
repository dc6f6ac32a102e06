//! Data types and elements as other tools and people write them.

use super::class::{Class, RawStyle, TimeUnit};
use super::fill::{fixed_text, float_json, integer, without_zeros};
use super::float::{FLOAT16, FLOAT32, FLOAT64, FloatFormat};
use super::{DataType, ElementSize};

pub(super) fn numpy_descr(data_type: &DataType) -> Option<String> {
    let is = |format: &FloatFormat, known: [&FloatFormat; 3]| known.contains(&format);
    Some(match &data_type.inner.class {
        Class::Bool => "|b1".into(),
        Class::Int { bits, signed } => {
            let letter = if *signed { 'i' } else { 'u' };
            match bits {
                0..8 => return None,
                8 => format!("|{letter}1"),
                _ => format!("<{letter}{}", bits / 8),
            }
        }
        Class::Float(format) if is(format, [&FLOAT16, &FLOAT32, &FLOAT64]) => {
            format!("<f{}", format.bytes())
        }
        Class::Complex(format) if is(format, [&FLOAT32, &FLOAT32, &FLOAT64]) => {
            format!("<c{}", 2 * format.bytes())
        }
        Class::Float(_) | Class::Complex(_) => return None,
        Class::Raw { len, style: RawStyle::NullTerminated } => format!("|S{len}"),
        Class::Raw { len, .. } => format!("|V{len}"),
        Class::Time { delta, unit, scale } => {
            let letter = if *delta { 'm' } else { 'M' };
            match (unit, scale) {
                (TimeUnit::Generic, _) => format!("<{letter}8"),
                (unit, 1) => format!("<{letter}8[{}]", unit.name()),
                (unit, scale) => format!("<{letter}8[{scale}{}]", unit.name()),
            }
        }
        Class::FixedText { chars } => format!("<U{chars}"),
        Class::Struct { fields, .. } => {
            let fields: Option<Vec<String>> = fields
                .iter()
                .map(|field| {
                    let descr = numpy_descr(&field.data_type)?;
                    let name = python_string(&field.name);
                    let nested = descr.starts_with('[');
                    let quote = if nested { "" } else { "'" };
                    Some(format!("({name}, {quote}{descr}{quote})"))
                })
                .collect();
            format!("[{}]", fields?.join(", "))
        }
        Class::Text | Class::Bytes => return None,
    })
}

/// A string literal in ASCII, which every version of the `.npy` header can hold.
fn python_string(text: &str) -> String {
    let mut literal = String::from("'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => literal.extend(['\\', c]),
            ' '..='~' => literal.push(c),
            _ => literal.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    literal.push('\'');
    literal
}

pub(super) fn element(data_type: &DataType, bytes: &[u8]) -> String {
    match data_type.size() {
        ElementSize::Fixed(size) if bytes.len() != size => {
            let mut whole = bytes.to_vec();
            whole.resize(size, 0);
            whole_element(data_type, &whole)
        }
        _ => whole_element(data_type, bytes),
    }
}

fn whole_element(data_type: &DataType, bytes: &[u8]) -> String {
    match &data_type.inner.class {
        Class::Bool => bytes.iter().any(|&byte| byte != 0).to_string(),
        Class::Int { bits, signed } => integer(*bits, *signed, bytes).to_string(),
        Class::Float(format) => float(format, bytes),
        Class::Complex(format) => {
            let (real, imaginary) = bytes.split_at(bytes.len() / 2);
            let (real, imaginary) = (float(format, real), float(format, imaginary));
            let sign = if imaginary.starts_with('-') { "" } else { "+" };
            format!("{real}{sign}{imaginary}i")
        }
        Class::Raw { style: RawStyle::NullTerminated, .. } => {
            format!("\"{}\"", without_zeros(bytes).escape_ascii())
        }
        Class::Raw { .. } | Class::Bytes => hex(bytes),
        Class::Time { delta, unit, scale } => time(integer(64, true, bytes), *unit, *scale, *delta),
        Class::FixedText { .. } => format!("{:?}", fixed_text(bytes)),
        Class::Text => format!("{:?}", String::from_utf8_lossy(bytes)),
        Class::Struct { fields, .. } => {
            let fields: Vec<String> = fields
                .iter()
                .map(|field| {
                    let part =
                        bytes.get(field.offset..field.offset + field.len).unwrap_or_default();
                    format!("{}: {}", field.name, whole_element(&field.data_type, part))
                })
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

fn float(format: &FloatFormat, bytes: &[u8]) -> String {
    let json = float_json(format, bytes);
    match json.as_str() {
        Some(text) if text.starts_with("0x") => format!("NaN({text})"),
        Some(text) => text.into(),
        None => json.to_string(),
    }
}

fn hex(bytes: &[u8]) -> String {
    const MOST: usize = 32;
    let mut text = String::from("0x");
    for byte in bytes.iter().take(MOST) {
        text.push_str(&format!("{byte:02x}"));
    }
    if bytes.len() > MOST {
        text.push_str(&format!("... ({} bytes)", bytes.len()));
    }
    text
}

fn time(count: i128, unit: TimeUnit, scale: u32, delta: bool) -> String {
    if count == i128::from(i64::MIN) {
        return "NaT".into();
    }
    // At most 2^94, plus another 2^20 below.
    let count = count * i128::from(scale);
    match unit {
        TimeUnit::Generic => count.to_string(),
        _ if delta => format!("{count} {}", unit.name()),
        TimeUnit::Year => (1970 + count).to_string(),
        TimeUnit::Month => {
            format!("{}-{:02}", 1970 + count.div_euclid(12), count.rem_euclid(12) + 1)
        }
        TimeUnit::Fixed { per_second, seconds, .. } => {
            let per_second = i128::from(per_second);
            let fraction = count.rem_euclid(per_second);
            let second = count.div_euclid(per_second) * i128::from(seconds);
            let mut text = date(second.div_euclid(86_400));
            if seconds < 86_400 {
                let of_day = second.rem_euclid(86_400);
                let (hour, minute) = (of_day / 3_600, of_day / 60 % 60);
                text.push_str(&format!("T{hour:02}:{minute:02}:{:02}", of_day % 60));
            }
            if per_second > 1 {
                let digits = per_second.ilog10() as usize;
                text.push_str(&format!(".{fraction:0digits$}"));
            }
            text
        }
    }
}

/// The Gregorian date this many days after 1970-01-01.
fn date(days: i128) -> String {
    // Count from 1 March, so that the leap day is the last of its year, in spans of 400 years.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year)
}
