//! Sizes and shares as people write them.

/// A number of bytes: `64MiB`, `1.5GB`, `4096`. A unit without `i` or `B` (`64M`) is a binary one.
///
/// ```
/// assert_eq!(shardine::units::parse_size("64MiB"), Ok(64 << 20));
/// ```
pub fn parse_size(text: &str) -> Result<u64, String> {
    let refuse = || format!("\"{text}\" is not a size such as 64MiB, 1GB or 4096");
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let power = |letter: &str| "kmgt".find(letter).map(|at| at as u32 + 1);
    let unit = unit.to_ascii_lowercase();
    let factor: u64 = match unit.as_str() {
        "" | "b" => 1,
        unit => {
            let (letter, rest) = unit.split_at(1);
            let power = power(letter).ok_or_else(refuse)?;
            match rest {
                "" | "ib" => 1024u64.pow(power),
                "b" => 1000u64.pow(power),
                _ => return Err(refuse()),
            }
        }
    };
    let number = number.trim();
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(refuse);
    }
    let number: f64 = number.parse().map_err(|_| refuse())?;
    let bytes = number * factor as f64;
    // 2^63 is far beyond any memory, and exactly representable as a float.
    if !(0.0..9_223_372_036_854_775_808.0).contains(&bytes) {
        return Err(refuse());
    }
    Ok(bytes as u64)
}

/// A fraction, from 0 to 1: `25%` or `0.25`.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let refuse = || format!("\"{text}\" is not a share such as 25% or 0.25");
    let trimmed = text.trim();
    let (number, whole) = match trimmed.strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (trimmed, 1.0),
    };
    // Nothing but digits and a point: no inf, no 1e-3, no sign.
    if number.is_empty() || !number.bytes().all(|c| c.is_ascii_digit() || c == b'.') {
        return Err(refuse());
    }
    let share = number.parse::<f64>().map_err(|_| refuse())? / whole;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(refuse()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_every_common_spelling() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64MiB", 64 << 20),
            ("64 mib", 64 << 20),
            ("64M", 64 << 20),
            ("1GB", 1_000_000_000),
            ("1.5KiB", 1536),
            ("2t", 2 << 40),
            ("7B", 7),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "MiB", "-1", "1XB", "1MiBs", "99999999TiB", "1e999", "nan", "inf"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_is_a_percentage_or_a_fraction() {
        for (text, share) in [
            ("25%", 0.25),
            ("0.25", 0.25),
            ("0", 0.0),
            ("1", 1.0),
            ("100 %", 1.0),
            ("12.5%", 0.125),
        ] {
            assert_eq!(parse_share(text), Ok(share), "{text}");
        }
        for text in ["", "%", "25", "101%", "1.01", "-1%", "nan", "inf%", "1e-1", "25%%", "a", "."]
        {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }
}
