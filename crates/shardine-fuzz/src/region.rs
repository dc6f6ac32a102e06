//! Regions as users write them, in arrays of any shape.
//!
//! Input: the number of dimensions, eight bytes for each of them, the text.

use shardine::{Region, RegionAxes, RegionText, Selection};

use crate::memory;

pub fn run(input: &[u8]) {
    memory::bounded(64 * input.len() + (1 << 20), || check(input));
}

fn check(input: &[u8]) {
    let Some((&dimensions, rest)) = input.split_first() else { return };
    let (lengths, _) = rest.as_chunks::<8>();
    let Some(lengths) = lengths.get(..usize::from(dimensions % 6)) else { return };
    let shape: Vec<u64> = lengths.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let Ok(text) = std::str::from_utf8(&rest[8 * shape.len()..]) else { return };
    named(text, &shape);
    let Ok(region) = text.parse::<Region>() else { return };
    let Ok(selection) = region.resolve(&shape) else { return };
    inside(&selection, &shape);
    // Its text form means the same.
    let shown: Region = match region.to_string().parse() {
        Ok(region) => region,
        Err(error) => panic!("\"{region}\" does not parse: {error}"),
    };
    assert_eq!(shown.resolve(&shape).as_ref(), Ok(&selection));
}

/// By the names of axes, and in coordinates.
fn named(text: &str, shape: &[u64]) {
    let Ok(text) = text.parse::<RegionText>() else { return };
    let names = ["z", "y", "x", "c", "t"].map(|name| Some(name.to_owned()));
    let origin = [i64::MIN, -5, 0, 1000, i64::MAX];
    for names in [None, names.get(..shape.len())] {
        for origin in [None, origin.get(..shape.len())] {
            let Ok(region) = text.region(&RegionAxes { shape, names, origin }) else { continue };
            if let Ok(selection) = region.resolve(shape) {
                inside(&selection, shape);
            }
        }
    }
}

fn inside(selection: &Selection, shape: &[u64]) {
    assert_eq!(selection.axes.len(), shape.len());
    for (axis, &len) in selection.axes.iter().zip(shape) {
        assert!(axis.step >= 1);
        let Some(last) = axis.count.checked_sub(1) else { continue };
        let last = last.checked_mul(axis.step).and_then(|past| past.checked_add(axis.start));
        assert!(last.is_some_and(|last| last < len), "{axis:?} leaves an axis of {len}");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let shapes: [&[u64]; 4] = [&[], &[100], &[30, 0, 8], &[u64::MAX, 1, i64::MAX as u64 + 1]];
    let texts = [
        "",
        "...",
        "0:64,:,7:8",
        "::2",
        "-1",
        "...,5",
        "-3:,2:100:7",
        "9223372036854775807",
        "z=10:20,x=5",
        "y=-4:7:3",
        "c=1000,z=-9223372036854775808",
    ];
    let mut seeds = Vec::new();
    for shape in shapes {
        for text in texts {
            let mut seed = vec![shape.len() as u8];
            shape.iter().for_each(|len| seed.extend(len.to_le_bytes()));
            seed.extend(text.as_bytes());
            seeds.push(seed);
        }
    }
    seeds
}
