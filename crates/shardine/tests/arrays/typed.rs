//! Elements as Rust values: the typed calls against those that read and write bytes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::ops::Range;

use proptest::array::uniform3;
use proptest::prelude::*;
use shardine::{
    Array, ArrayNode, Complex, DataType, Element, Elements, ElementsRef, Error, IntoRegion,
    Location, Packing, Region, RegionError, SliceOptions, SliceWriter, WriteOptions, bf16, f16,
};

fn create<T: Element>(codec: &str) -> ArrayNode {
    created::<T>([9, 10, 11], [2, 3, 4], [2, 2, 2], codec)
}

fn created<T: Element>(
    shape: [u64; 3],
    chunk: [u64; 3],
    chunks_per_shard: [u64; 3],
    codec: &str,
) -> ArrayNode {
    Array::builder_of::<T>(shape)
        .chunks(chunk)
        .packing(Packing::ChunksPerShard(chunks_per_shard.to_vec()))
        .codec(codec)
        .create_in(&common::engine(), Location::memory())
        .unwrap()
}

/// A value for each element, as different as the type allows.
trait Sample: Element {
    fn sample(seed: u64) -> Self;
}

macro_rules! samples {
    ($($type:ty, $seed:ident => $value:expr;)*) => {$(
        impl Sample for $type {
            fn sample($seed: u64) -> Self {
                $value
            }
        }
    )*};
}

samples! {
    u8, seed => seed as u8;
    u16, seed => seed as u16;
    u32, seed => seed as u32;
    u64, seed => seed;
    i8, seed => seed as i8;
    i16, seed => seed as i16;
    i32, seed => seed as i32;
    i64, seed => seed as i64;
    f16, seed => f16::from_f32((seed % 1000) as f32 / 8.0);
    bf16, seed => bf16::from_f32((seed % 100) as f32);
    f32, seed => (seed % 100_000) as f32 / 3.0;
    f64, seed => seed as f64 / 3.0;
    Complex<f32>, seed => Complex::new(f32::sample(seed), -1.0);
    Complex<f64>, seed => Complex::new(f64::sample(seed), -1.0);
    bool, seed => seed.is_multiple_of(3);
}

fn values<T: Sample>(count: usize, seed: u64) -> Vec<T> {
    let mix = |i: u64| (i ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    (0..count as u64).map(|i| T::sample(mix(i))).collect()
}

/// The engine's bytes for values, made one by one.
fn little_endian<T: Sample>(values: &[T]) -> Vec<u8> {
    let data_type = DataType::of::<T>();
    let mut bytes = Vec::new();
    for value in values {
        let text = format!("{value:?}");
        let json = match (data_type.name(), text.as_str()) {
            ("bool", "true") => serde_json::json!(true),
            ("bool", _) => serde_json::json!(false),
            ("complex64" | "complex128", text) => {
                let parts = text.trim_start_matches("Complex { re: ").trim_end_matches(" }");
                let (re, im) = parts.split_once(", im: ").unwrap();
                let number = |text: &str| serde_json::from_str(text).unwrap();
                serde_json::Value::Array(vec![number(re), number(im)])
            }
            (_, text) => serde_json::from_str(text).unwrap(),
        };
        bytes.extend(data_type.fill_from_json(&json).unwrap().0);
    }
    bytes
}

#[derive(Debug, Clone)]
struct Case {
    shape: [u64; 3],
    chunk: [u64; 3],
    chunks_per_shard: [u64; 3],
    codec: &'static str,
    /// A box inside of the array.
    part: [Range<u64>; 3],
    /// Along the last axis, in the forms that have steps.
    step: u64,
    /// Which form of region.
    form: usize,
    seed: u64,
    many: bool,
}

impl Case {
    fn create<T: Element>(&self) -> ArrayNode {
        created::<T>(self.shape, self.chunk, self.chunks_per_shard, self.codec)
    }

    fn has_step(&self) -> bool {
        self.form >= 4
    }

    /// The region as a string.
    fn text(&self) -> String {
        let [a, b, c] = &self.part;
        let step = if self.has_step() { self.step } else { 1 };
        format!("{}:{}, {}:{}, {}:{}:{step}", a.start, a.end, b.start, b.end, c.start, c.end)
    }

    /// Elements of the region along each axis.
    fn counts(&self) -> [usize; 3] {
        let [a, b, c] = self.part.clone().map(|range| range.end - range.start);
        let last = if self.has_step() { c.div_ceil(self.step) } else { c };
        [a, b, last].map(|count| count as usize)
    }
}

fn case() -> impl Strategy<Value = Case> {
    let range = |len: u64| {
        (0..len).prop_flat_map(move |start| (start + 1..=len).prop_map(move |end| start..end))
    };
    let array = (uniform3(1..12u64), uniform3(1..6u64), uniform3(1..4u64));
    let array = array.prop_flat_map(move |(shape, chunk, chunks_per_shard)| {
        let part = shape.map(range);
        (Just(shape), Just(chunk), Just(chunks_per_shard), part)
    });
    let codec = prop_oneof![Just("none"), Just("zstd:1")];
    (array, codec, 1..4u64, 0..7usize, any::<u64>(), any::<bool>()).prop_map(
        |((shape, chunk, chunks_per_shard, part), codec, step, form, seed, many)| Case {
            shape,
            chunk,
            chunks_per_shard,
            codec,
            part,
            step,
            form,
            seed,
            many,
        },
    )
}

/// Calls with a region in one of its forms.
macro_rules! with_region {
    ($case:expr, $region:ident => $call:expr) => {{
        let [a, b, c] = $case.part.clone();
        match $case.form {
            0 => {
                let $region = (a, b, c);
                $call
            }
            1 => {
                // Counted from the end, where there is an end to count from.
                let b = b.start as i64 - $case.shape[1] as i64..b.end as i64;
                let $region = (a.start..=a.end - 1, b, c);
                $call
            }
            2 => {
                let $region = [a, b, c];
                $call
            }
            3 => {
                let $region = &[a, b, c][..];
                $call
            }
            4 => {
                let text = $case.text();
                let $region = text.as_str();
                $call
            }
            5 => {
                let region: Region = $case.text().parse().unwrap();
                let $region = &region;
                $call
            }
            _ => {
                let region: Region = $case.text().parse().unwrap();
                let $region = region.resolve(&$case.shape).unwrap();
                $call
            }
        }
    }};
}

/// Writes typed and reads as bytes, then vice versa.
fn check<T: Sample>(case: &Case) {
    let (text, counts) = (case.text(), case.counts());
    let options = WriteOptions::new();

    let typed = case.create::<T>();
    let new = values::<T>(counts.iter().product(), case.seed);
    let bytes = little_endian(&new);
    if case.many {
        with_region!(case, region => typed.write_many([(region, &new[..])], &options)).unwrap();
    } else {
        with_region!(case, region => typed.write(region, &new)).unwrap();
    }
    let untyped = case.create::<T>();
    untyped.write_elements(text.as_str(), ElementsRef::Fixed(&bytes), &options).unwrap();
    let all = typed.read_elements(..).unwrap();
    assert_eq!(all, untyped.read_elements(..).unwrap());

    let read: Vec<T> = match case.many {
        true => with_region!(case, region => untyped.read_many([region])).unwrap().remove(0),
        false => with_region!(case, region => untyped.read(region)).unwrap(),
    };
    assert_eq!(read, new);
    let mut into = vec![T::sample(0); new.len()];
    with_region!(case, region => untyped.read_into(region, &mut into)).unwrap();
    assert_eq!(into, new);
    assert_eq!(Elements::Fixed(little_endian(&untyped.read::<T>(()).unwrap())), all);
    #[cfg(feature = "ndarray")]
    {
        let shape = counts;
        let read = with_region!(case, region => untyped.read_ndarray::<T>(region)).unwrap();
        assert_eq!(read.shape(), shape);
        assert_eq!(read.iter().copied().collect::<Vec<T>>(), new);
        // The same elements as views with other strides.
        let mut wide = ndarray::Array3::from_elem([shape[0], shape[1], 2 * shape[2]], new[0]);
        wide.slice_mut(ndarray::s![.., .., 1..;2]).assign(&read);
        let mut reversed = read.clone();
        reversed.invert_axis(ndarray::Axis(1));
        let mut reversed = reversed.as_standard_layout().into_owned();
        reversed.invert_axis(ndarray::Axis(1));
        let fortran = read.t().as_standard_layout().into_owned().reversed_axes();
        let stepped = wide.slice(ndarray::s![.., .., 1..;2]);
        for view in [read.view(), fortran.view(), reversed.view(), stepped.into_dyn()] {
            let array = case.create::<T>();
            with_region!(case, region => array.write_ndarray(region, &view)).unwrap();
            assert_eq!(array.read_elements(..).unwrap(), all);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn values_are_the_elements_that_bytes_make(case in case()) {
        check::<u8>(&case);
        check::<u16>(&case);
        check::<u32>(&case);
        check::<u64>(&case);
        check::<i8>(&case);
        check::<i16>(&case);
        check::<i32>(&case);
        check::<i64>(&case);
        check::<f16>(&case);
        check::<bf16>(&case);
        check::<f32>(&case);
        check::<f64>(&case);
        check::<Complex<f32>>(&case);
        check::<Complex<f64>>(&case);
        check::<bool>(&case);
    }
}

#[test]
fn a_wrong_type_is_an_error_that_names_both() {
    let array = create::<u16>("none");
    let refused = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::ElementType { .. }), "{error}");
        assert!(error.to_string().ends_with("holds uint16, not i16"), "{error}");
        assert_eq!(error.hint().unwrap(), "ask for u16");
    };
    refused(array.read::<i16>(0).map(drop));
    refused(array.read_many::<i16>([0]).map(drop));
    refused(array.read_into(0, &mut [0i16; 110]));
    refused(array.write(0, &[0i16; 110]).map(drop));
    refused(array.write_many([(0, &[0i16; 110][..])], &WriteOptions::new()).map(drop));
    #[cfg(feature = "ndarray")]
    {
        refused(array.read_ndarray::<i16>(0).map(drop));
        refused(array.write_ndarray(0, &ndarray::Array2::<i16>::zeros([10, 11])).map(drop));
    }
    let mut writer = SliceWriter::new(array, 0, SliceOptions::new()).unwrap();
    refused(writer.push(&[0i16; 110]));

    let text = Array::builder([3], "string").create(Location::memory()).unwrap();
    let error = text.read::<u8>(..).unwrap_err();
    assert!(error.to_string().ends_with("holds string, not u8"), "{error}");
    assert!(error.hint().unwrap().contains("read_elements"));
}

#[test]
fn elements_that_are_no_region_full_are_counted() {
    let array = create::<u16>("none");
    let counted = |result: Result<(), Error>| match result.unwrap_err() {
        Error::Region(RegionError::ElementCount { shape, expected: 20, actual: 19 }) => {
            assert_eq!(shape, [1, 10, 2]);
        }
        error => panic!("{error}"),
    };
    let region = (0, .., ..2);
    counted(array.write(region, &[0u16; 19]).map(drop));
    counted(array.write_many([(region, &[0u16; 19][..])], &WriteOptions::new()).map(drop));
    counted(array.read_into(region, &mut [0u16; 19]));
    assert!(matches!(
        array.read::<u16>("no region"),
        Err(Error::Region(RegionError::Syntax { .. }))
    ));
    #[cfg(feature = "ndarray")]
    {
        let refused = array.write_ndarray(region, &ndarray::Array2::<u16>::zeros([2, 10]));
        assert!(matches!(refused, Err(Error::Region(RegionError::Shape { .. }))));
        array.write_ndarray(region, &ndarray::Array2::<u16>::ones([10, 2])).unwrap();
        assert_eq!(array.read::<u16>(region).unwrap(), [1; 20]);
    }
}

#[test]
fn a_stored_byte_that_is_no_bool_is_an_error_and_not_a_value() {
    let array = create::<bool>("none");
    let one = ElementsRef::Fixed(&[2]);
    array.write_elements((3, 4, 5), one, &WriteOptions::new()).unwrap();
    let mut row = [true; 11];
    for refused in [
        array.read::<bool>((3, 4)).map(drop),
        array.read_many::<bool>([(3, 4)]).map(drop),
        array.read_into((3, 4), &mut row),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::InvalidElement { .. }), "{error}");
        let text = error.to_string();
        assert!(text.ends_with("element 5 of the region is 0x02, which is not a bool"), "{text}");
    }
    assert_eq!(array.read::<bool>((3, 4, ..5)).unwrap(), [false; 5]);
}

#[test]
fn dates_are_read_as_numbers_of_their_unit() {
    let dates = Array::builder([4], "<M8[ms]").fill(3).create(Location::memory()).unwrap();
    dates.write(1..3, &[i64::MIN, 1_700_000_000_000]).unwrap();
    assert_eq!(dates.read::<i64>(..).unwrap(), [3, i64::MIN, 1_700_000_000_000, 3]);
}

#[test]
fn an_array_without_axes_has_one_element() {
    let array = Array::builder([], "float64").create(Location::memory()).unwrap();
    array.write((), &[0.5f64]).unwrap();
    assert_eq!(array.read::<f64>(..).unwrap(), [0.5]);
    let none = Array::builder([0, 3], "float64").create(Location::memory()).unwrap();
    assert!(none.read::<f64>(..).unwrap().is_empty());
}

#[test]
fn a_region_beyond_memory_is_an_error() {
    let huge = [1 << 40, 1 << 40];
    let array = Array::builder(huge, "uint16").create(Location::memory()).unwrap();
    for refused in [
        array.read::<u16>(..).map(drop),
        array.read_many::<u16>([.., ..]).map(drop),
        array.read_many::<u16>(vec![(0..1u64 << 20, 0..1u64 << 41); 3]).map(drop),
        array.write(.., &[0u16]).map(drop),
    ] {
        assert!(matches!(refused, Err(Error::Region(RegionError::TooLarge { .. }))), "{refused:?}");
    }
    assert_eq!(array.read::<u16>((1u64 << 39, 1u64 << 39)).unwrap(), [0]);
}

#[test]
fn levels_and_arrays_of_any_format_are_opened_by_path_url_or_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    let text = path.to_str().unwrap();
    Array::builder([2], "uint8").create(&path).unwrap().write(.., &[1u8, 2]).unwrap();
    let location = Location::parse(text).unwrap();
    for array in [
        Array::open(&path).unwrap(),
        Array::open(path.as_path()).unwrap(),
        Array::open(path.clone()).unwrap(),
        Array::open(text).unwrap(),
        Array::open(text.to_owned()).unwrap(),
        Array::open(format!("file://{text}")).unwrap(),
        Array::open(&location).unwrap(),
        Array::open_in(&common::engine(), location).unwrap(),
        shardine::open(&path).unwrap().array(0).unwrap(),
    ] {
        assert_eq!(array.read::<u8>(..).unwrap(), [1, 2]);
        assert_eq!(array.location().url().unwrap(), format!("file://{text}"));
    }
    assert!(matches!(Array::open(folder.path()), Err(Error::NoNode { .. })));
    assert!(matches!(Array::open(std::path::Path::new("")), Err(Error::Url { .. })));
}

#[test]
fn planes_are_pushed_as_values() {
    let array = Array::builder([0, 3], "float32").create(Location::memory()).unwrap();
    let mut writer = SliceWriter::new(array, 0, SliceOptions::new()).unwrap();
    writer.push(&[1f32, 2.0, 3.0]).unwrap();
    writer.push(&[4f32, 5.0, 6.0, 7.0, 8.0, 9.0]).unwrap();
    let array = writer.finish().unwrap();
    assert_eq!(array.read::<f32>((1.., 2)).unwrap(), [6.0, 9.0]);
}

/// The calls accept any implementation of `IntoRegion`.
#[test]
fn a_type_of_the_caller_can_be_a_region() {
    struct Corner;

    impl IntoRegion for Corner {
        fn into_region(self) -> Result<Region, RegionError> {
            (0, 0, 0).into_region()
        }
    }
    let array = create::<u8>("none");
    array.write(Corner, &[9u8]).unwrap();
    assert_eq!(array.read::<u8>(Corner).unwrap(), [9]);
}
