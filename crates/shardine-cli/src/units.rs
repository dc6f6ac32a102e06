//! Numbers as people write and read them.

pub use shardine::units::{parse_share, parse_size};

/// A time for display.
pub fn duration(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.0} ms", seconds * 1e3) } else { format!("{seconds:.1} s") }
}

/// A number of bytes for display: `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // Not 1024, so that rounding never shows "1024 KiB".
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let tenths = (value * 10.0).round() as u64;
    let digits = usize::from(tenths < 1000 && !tenths.is_multiple_of(10));
    format!("{value:.digits$} {}", UNITS[unit])
}

/// `512,1024,512`; empty, or `()`, for an array without dimensions.
pub fn parse_shape(text: &str) -> Result<Vec<u64>, String> {
    let inside = text.trim();
    let inside = inside.strip_prefix('(').and_then(|t| t.strip_suffix(')')).unwrap_or(inside);
    if inside.trim().is_empty() {
        return Ok(Vec::new());
    }
    inside
        .split(',')
        .map(|length| length.trim().parse())
        .collect::<Result<_, _>>()
        .map_err(|_| format!("\"{text}\" is not a list of lengths such as 512,1024,512"))
}

/// A shape for display: `512 x 1024`.
pub fn shape(shape: &[u64]) -> String {
    if shape.is_empty() {
        return "()".to_owned();
    }
    let lengths: Vec<String> = shape.iter().map(u64::to_string).collect();
    lengths.join(" x ")
}

/// A shape as an argument: `512,1024`.
pub fn shape_argument(shape: &[u64]) -> String {
    let lengths: Vec<String> = shape.iter().map(u64::to_string).collect();
    lengths.join(",")
}

/// The number of elements, saturating.
pub fn elements(shape: &[u64]) -> u64 {
    if shape.contains(&0) {
        return 0;
    }
    shape.iter().fold(1u64, |n, &length| n.saturating_mul(length))
}

/// `1 chunk`, `2 chunks`.
pub fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1 MiB"),
            (64 << 20, "64 MiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn shapes_are_read_and_shown() {
        assert_eq!(parse_shape("5, 6"), Ok(vec![5, 6]));
        assert_eq!(parse_shape("(5,6)"), Ok(vec![5, 6]));
        assert_eq!(parse_shape(""), Ok(vec![]));
        assert_eq!(parse_shape("()"), Ok(vec![]));
        assert!(parse_shape("5,,6").is_err());
        assert!(parse_shape("-5").is_err());
        assert_eq!(shape(&[5, 6]), "5 x 6");
        assert_eq!(shape(&[]), "()");
        assert_eq!(elements(&[u64::MAX, 3, 0]), 0);
        assert_eq!(elements(&[u64::MAX, 3]), u64::MAX);
        assert_eq!(elements(&[]), 1);
    }
}
