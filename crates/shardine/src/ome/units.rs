//! The units that OME-Zarr recommends.

/// Units of length, with their usual abbreviations, in nanometres.
const LENGTHS: [(&str, f64); 41] = [
    ("angstrom", 1e-1),
    ("attometer", 1e-9),
    ("centimeter", 1e7),
    ("cm", 1e7),
    ("decimeter", 1e8),
    ("dm", 1e8),
    ("exameter", 1e27),
    ("femtometer", 1e-6),
    ("fm", 1e-6),
    ("foot", 3.048e8),
    ("gigameter", 1e18),
    ("hectometer", 1e11),
    ("inch", 2.54e7),
    ("kilometer", 1e12),
    ("km", 1e12),
    ("m", 1e9),
    ("megameter", 1e15),
    ("meter", 1e9),
    ("metre", 1e9),
    ("micrometer", 1e3),
    ("micrometre", 1e3),
    ("micron", 1e3),
    ("mile", 1.609344e12),
    ("millimeter", 1e6),
    ("mm", 1e6),
    ("nanometer", 1.0),
    ("nanometre", 1.0),
    ("nm", 1.0),
    ("parsec", 3.085_677_581_491_367e25),
    ("petameter", 1e24),
    ("picometer", 1e-3),
    ("pm", 1e-3),
    ("terameter", 1e21),
    ("um", 1e3),
    ("\u{b5}m", 1e3),
    ("\u{3bc}m", 1e3),
    ("yard", 9.144e8),
    ("yoctometer", 1e-15),
    ("yottameter", 1e33),
    ("zeptometer", 1e-12),
    ("zettameter", 1e30),
];

/// Units of time, with their usual abbreviations, in seconds.
const TIMES: [(&str, f64); 33] = [
    ("attosecond", 1e-18),
    ("centisecond", 1e-2),
    ("d", 86_400.0),
    ("day", 86_400.0),
    ("decisecond", 1e-1),
    ("exasecond", 1e18),
    ("femtosecond", 1e-15),
    ("gigasecond", 1e9),
    ("h", 3_600.0),
    ("hectosecond", 1e2),
    ("hour", 3_600.0),
    ("kilosecond", 1e3),
    ("megasecond", 1e6),
    ("microsecond", 1e-6),
    ("millisecond", 1e-3),
    ("min", 60.0),
    ("minute", 60.0),
    ("ms", 1e-3),
    ("nanosecond", 1e-9),
    ("ns", 1e-9),
    ("petasecond", 1e15),
    ("picosecond", 1e-12),
    ("ps", 1e-12),
    ("s", 1.0),
    ("second", 1.0),
    ("terasecond", 1e12),
    ("us", 1e-6),
    ("yoctosecond", 1e-24),
    ("yottasecond", 1e24),
    ("zeptosecond", 1e-21),
    ("zettasecond", 1e21),
    ("\u{b5}s", 1e-6),
    ("\u{3bc}s", 1e-6),
];

fn find(units: &[(&str, f64)], name: &str) -> Option<f64> {
    units.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, factor)| *factor)
}

/// A unit of length in nanometres; `None` if it is not known.
pub fn length_in_nanometers(unit: &str) -> Option<f64> {
    find(&LENGTHS, unit)
}

/// A unit of time in seconds; `None` if it is not known.
pub fn time_in_seconds(unit: &str) -> Option<f64> {
    find(&TIMES, unit)
}

/// Whether the specification lists a unit for lengths: by its full name, not abbreviated.
pub(crate) fn is_length_of_specification(unit: &str) -> bool {
    is_listed(&LENGTHS, unit, &["meter", "foot", "inch", "mile", "parsec", "yard", "angstrom"])
}

/// The same for times.
pub(crate) fn is_time_of_specification(unit: &str) -> bool {
    is_listed(&TIMES, unit, &["second", "day", "hour", "minute"])
}

fn is_listed(units: &[(&str, f64)], unit: &str, ends: &[&str]) -> bool {
    units.iter().any(|(known, _)| *known == unit) && ends.iter().any(|end| unit.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_known_by_name_and_abbreviation() {
        assert_eq!(length_in_nanometers("micrometer"), Some(1e3));
        assert_eq!(length_in_nanometers("UM"), Some(1e3));
        assert_eq!(length_in_nanometers("second"), None);
        assert_eq!(time_in_seconds("millisecond"), Some(1e-3));
        assert!(is_length_of_specification("inch") && !is_length_of_specification("um"));
        assert!(!is_length_of_specification("centimetre"));
        assert!(is_time_of_specification("hour") && !is_time_of_specification("ms"));
    }
}
