//! What is written is read back, whatever the codecs, the shards and the regions.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::sync::Arc;

use common::*;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::{Value, json};
use shardine::store::MemoryStore;
use shardine::{Axis, Elements, Placement, Region, VariableElements, WriteOptions, WriteOrder};

/// An array configuration that any part of the engine may stumble over.
#[derive(Debug, Clone)]
struct Config {
    document: Value,
    shape: Vec<u64>,
    element: usize,
    fill: u8,
}

fn permutation(rank: usize) -> impl Strategy<Value = Vec<usize>> {
    Just((0..rank).collect::<Vec<_>>()).prop_shuffle()
}

fn chain(rank: usize, element: usize) -> impl Strategy<Value = Vec<Value>> {
    let transpose = prop::option::of(permutation(rank));
    let endian = prop::sample::select(vec!["little", "big"]);
    let compressor = prop::sample::select(vec![
        vec![],
        vec![zstd()],
        vec![json!({"name": "gzip", "configuration": {"level": 1}})],
        vec![json!("crc32c")],
        vec![zstd(), json!("crc32c")],
        vec![json!({"name": "blosc", "configuration": {"cname": "lz4", "clevel": 3,
            "shuffle": "shuffle", "typesize": element, "blocksize": 0}})],
    ]);
    (transpose, endian, compressor).prop_map(|(order, endian, compressor)| {
        let mut chain = Vec::new();
        if let Some(order) = order {
            chain.push(json!({"name": "transpose", "configuration": {"order": order}}));
        }
        chain.push(json!({"name": "bytes", "configuration": {"endian": endian}}));
        chain.extend(compressor);
        chain
    })
}

#[derive(Debug, Clone)]
struct Level {
    factors: Vec<u64>,
    order: Option<Vec<usize>>,
    index: Vec<Value>,
    location: Option<&'static str>,
    after: Vec<Value>,
}

fn level(rank: usize) -> impl Strategy<Value = Level> {
    let index = prop::sample::select(vec![
        vec![bytes(), json!("crc32c")],
        vec![bytes()],
        vec![json!({"name": "bytes", "configuration": {"endian": "big"}}), json!("crc32c")],
    ]);
    (
        prop::collection::vec(1u64..4, rank),
        prop::option::weighted(0.3, permutation(rank)),
        index,
        prop::sample::select(vec![None, Some("start"), Some("end")]),
        prop::sample::select(vec![vec![], vec![], vec![], vec![json!("crc32c")], vec![zstd()]]),
    )
        .prop_map(|(factors, order, index, location, after)| Level {
            factors,
            order,
            index,
            location,
            after,
        })
}

fn config() -> impl Strategy<Value = Config> {
    (
        0usize..4,
        prop::sample::select(vec![(1usize, "uint8"), (2, "int16"), (4, "uint32"), (8, "int64")]),
    )
        .prop_flat_map(|(rank, (element, name))| {
            (
                prop::collection::vec(1u64..5, rank),
                chain(rank, element),
                prop::collection::vec(level(rank), 0..3),
                prop::collection::vec(0u64..22, rank),
                prop::sample::select(vec![0u8, 0, 1]),
            )
                .prop_map(move |(chunk, mut codecs, levels, shape, fill)| {
                    let mut chunk = chunk;
                    for level in levels {
                        let mut configuration = json!({
                            "chunk_shape": chunk, "codecs": codecs, "index_codecs": level.index,
                        });
                        if let Some(location) = level.location {
                            configuration["index_location"] = location.into();
                        }
                        chunk = chunk.iter().zip(&level.factors).map(|(c, f)| c * f).collect();
                        codecs = Vec::new();
                        if let Some(order) = level.order {
                            // The shard sees the permuted shape, so the outer shape is its inverse.
                            let mut outer = chunk.clone();
                            for (i, &k) in order.iter().enumerate() {
                                outer[k] = chunk[i];
                            }
                            chunk = outer;
                            codecs.push(
                                json!({"name": "transpose", "configuration": {"order": order}}),
                            );
                        }
                        codecs.push(
                            json!({"name": "sharding_indexed", "configuration": configuration}),
                        );
                        codecs.extend(level.after);
                    }
                    // One byte repeated is a legal fill value of every integer type.
                    let value = (0..element).fold(0u64, |n, _| n << 8 | u64::from(fill));
                    let document =
                        document(&shape, &chunk, name.into(), value.into(), codecs.into());
                    Config { document, shape, element, fill }
                })
        })
}

fn axis(len: u64) -> impl Strategy<Value = Axis> {
    (0..len.max(1), 1u64..4).prop_flat_map(move |(start, step)| {
        let most = (len.max(1) - start).div_ceil(step);
        (1..=most).prop_map(move |count| Axis { start, step, count })
    })
}

fn region(axes: &[Axis]) -> Region {
    let items: Vec<String> = axes
        .iter()
        .map(|a| format!("{}:{}:{}", a.start, a.start + (a.count - 1) * a.step + 1, a.step))
        .collect();
    items.join(",").parse().unwrap()
}

/// The numbers of the selected elements, in C order.
fn numbers(shape: &[u64], axes: &[Axis]) -> Vec<usize> {
    let total: u64 = axes.iter().map(|a| a.count).product();
    (0..total)
        .map(|mut i| {
            let (mut number, mut stride) = (0, 1);
            for (axis, &len) in axes.iter().zip(shape).rev() {
                number += (axis.start + i % axis.count * axis.step) * stride;
                i /= axis.count;
                stride *= len;
            }
            number as usize
        })
        .collect()
}

fn several(shape: Vec<u64>) -> impl Strategy<Value = Vec<Vec<Axis>>> {
    let axes: Vec<_> = shape.iter().map(|&n| axis(n)).collect();
    prop::collection::vec(axes, 1..5)
}

fn check(
    config: &Config,
    writes: &[Vec<Axis>],
    reads: &[Vec<Axis>],
    order: WriteOrder,
    store_empty: bool,
) -> TestCaseResult {
    let array = create(&config.document);
    let total: u64 = config.shape.iter().product();
    let mut model = vec![config.fill; total as usize * config.element];
    let options = WriteOptions::new().order(order).store_empty(store_empty);
    if total == 0 {
        prop_assert_eq!(read(&array, ""), model);
        return Ok(());
    }
    for (i, axes) in writes.iter().enumerate() {
        let numbers = numbers(&config.shape, axes);
        // Every third write puts the fill value back, so that chunks and shards vanish again.
        let data = match i % 3 {
            2 => vec![config.fill; numbers.len() * config.element],
            _ => noise(numbers.len() * config.element, i as u64 + 1),
        };
        for (data, number) in data.chunks(config.element).zip(&numbers) {
            model[number * config.element..][..config.element].copy_from_slice(data);
        }
        array.write_elements(region(axes), Elements::Fixed(data).as_ref(), &options).unwrap();
        prop_assert_eq!(&read(&array, ""), &model);
    }
    let cold = reopen(&array);
    for axes in reads {
        let numbers = numbers(&config.shape, axes);
        let expected: Vec<u8> = numbers
            .iter()
            .flat_map(|n| &model[n * config.element..][..config.element])
            .copied()
            .collect();
        let region = region(axes);
        prop_assert_eq!(&cold.read_elements(&region).unwrap().into_fixed().unwrap(), &expected);
        let mut own = vec![0xAA; expected.len()];
        array.read_bytes_into(&region, &mut own).unwrap();
        prop_assert_eq!(own, expected);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_configuration_gives_back_what_was_written(
        (config, writes, reads) in config().prop_flat_map(|config| {
            let shape = config.shape.clone();
            (Just(config), several(shape.clone()), several(shape))
        }),
        order in prop::sample::select(vec![WriteOrder::Morton, WriteOrder::C, WriteOrder::Arrival]),
        store_empty in any::<bool>(),
    ) {
        check(&config, &writes, &reads, order, store_empty)?;
    }
}

#[test]
fn a_large_shard_is_streamed_and_updated() {
    for location in ["start", "end"] {
        for order in [WriteOrder::Morton, WriteOrder::C, WriteOrder::Arrival] {
            let mut document = sharded(&[200, 150, 130], &[128, 128, 128], &[16, 32, 64]);
            document["codecs"][0]["configuration"]["index_location"] = location.into();
            let array = create(&document);
            let mut model = noise(200 * 150 * 130 * 2, 1);
            let options = WriteOptions::new().order(order);
            let report = array.write_elements(
                Region::all(),
                Elements::Fixed(model.clone()).as_ref(),
                &options,
            );
            assert_eq!(report.unwrap().objects_written, 8);
            assert_eq!(read(&reopen(&array), ""), model);

            let patch = noise(20 * 40 * 2, 2);
            let region: Region = "100:120,60:100,127".parse().unwrap();
            let report =
                array.write_elements(&region, Elements::Fixed(patch.clone()).as_ref(), &options);
            let report = report.unwrap();
            assert_eq!((report.objects_written, report.chunks_encoded), (1, 6));
            // 8 x 4 x 2 chunks lie in the shard that is inside the array on all axes.
            assert_eq!(report.chunks_kept, 8 * 4 * 2 - 6);
            for (i, element) in patch.chunks(2).enumerate() {
                let (z, y) = (100 + i / 40, 60 + i % 40);
                model[((z * 150 + y) * 130 + 127) * 2..][..2].copy_from_slice(element);
            }
            assert_eq!(read(&array, ""), model);
            assert_eq!(read(&reopen(&array), ""), model);
        }
    }
}

#[test]
fn what_is_written_with_nothing_but_fill_takes_no_space() {
    let array = create(&sharded(&[300, 300], &[128, 128], &[16, 16]));
    write(&array, "", vec![0; 300 * 300 * 2]);
    assert_eq!(array.objects().unwrap(), []);
    write(&array, "5,5", vec![1, 2]);
    assert_eq!(array.objects().unwrap().len(), 1);
    write(&array, "5,5", vec![0, 0]);
    assert_eq!(array.objects().unwrap(), []);
    assert_eq!(read(&array, ""), vec![0; 300 * 300 * 2]);
}

#[test]
fn dimensions_past_four_billion_work() {
    let far = 1u64 << 40;
    let array = create(&sharded(&[far, 10], &[1 << 20, 10], &[1 << 10, 5]));
    write(&array, "1099511627775,9", vec![7, 7]);
    write(&array, "0:2,0:2", vec![1, 1, 2, 2, 3, 3, 4, 4]);
    assert_eq!(read(&array, "-2:,8:"), [0, 0, 0, 0, 0, 0, 7, 7]);
    assert_eq!(read(&array, "::1099511627775,0"), [1, 1, 0, 0]);
}

#[test]
fn strings_and_bytes_of_any_length_survive_shards() {
    for (name, codec) in [("string", "vlen-utf8"), ("bytes", "vlen-bytes")] {
        let fill = if name == "string" { json!("–") } else { json!([9, 8]) };
        let fill_bytes = if name == "string" { "–".as_bytes() } else { &[9, 8][..] };
        let transpose = json!({"name": "transpose", "configuration": {"order": [1, 0]}});
        let inner = json!([codec, zstd()]);
        let codecs = json!([transpose, sharding(&[3, 2], inner)]);
        let array = create(&document(&[7, 10], &[4, 6], name.into(), fill, codecs));
        let mut model: Vec<Vec<u8>> = vec![fill_bytes.to_vec(); 70];
        let put =
            |model: &mut Vec<Vec<u8>>, region: &str, rows: [usize; 2], columns: [usize; 2]| {
                let mut data = VariableElements::new();
                for r in rows[0]..rows[1] {
                    for c in columns[0]..columns[1] {
                        let text = "é".repeat(r * c % 5) + &format!("{r},{c}");
                        data.push(text.as_bytes());
                        model[r * 10 + c] = text.into_bytes();
                    }
                }
                let elements = Elements::Variable(data);
                array.write_elements(region, elements.as_ref(), &WriteOptions::new()).unwrap();
            };
        put(&mut model, "1:6,2:9", [1, 6], [2, 9]);
        put(&mut model, "5:7,8:10", [5, 7], [8, 10]);
        let expected = |pick: &dyn Fn(usize, usize) -> bool| -> VariableElements {
            (0..70).filter(|i| pick(i / 10, i % 10)).map(|i| model[i].clone()).collect()
        };
        let all = array.read_elements(Region::all()).unwrap();
        assert_eq!(all, Elements::Variable(expected(&|_, _| true)));
        let some = reopen(&array).read_elements("::2,1::3").unwrap();
        assert_eq!(some, Elements::Variable(expected(&|r, c| r % 2 == 0 && c % 3 == 1)));
    }
}

#[test]
fn a_codec_that_needs_all_elements_may_stand_before_a_shard() {
    let delta = json!({"name": "numcodecs.delta", "configuration": {"dtype": "<u2"}});
    let codecs = json!([delta, sharding(&[5, 4], json!([bytes(), zstd()]))]);
    let array = create(&document(&[23, 17], &[10, 8], "uint16".into(), 0.into(), codecs));
    let mut model = vec![0; 23 * 17 * 2];
    let data = noise(9 * 12 * 2, 3);
    write(&array, "4:13,3:15", data.clone());
    for (i, element) in data.chunks(2).enumerate() {
        model[((4 + i / 12) * 17 + 3 + i % 12) * 2..][..2].copy_from_slice(element);
    }
    assert_eq!(read(&reopen(&array), ""), model);
    assert_eq!(read(&array, "12,14"), model[(12 * 17 + 14) * 2..][..2]);
}

#[test]
fn elements_that_encode_to_the_fill_value_are_stored_all_the_same() {
    let delta = json!({"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}});
    let codecs = json!([delta, sharding(&[4], json!([bytes()]))]);
    let array = create(&document(&[8], &[8], "int32".into(), 3.into(), codecs));
    // Each is three more than the one before, so every difference is three, and so is the fill
    // value.
    let data: Vec<u8> = (1..9).flat_map(|i| (i * 3i32).to_le_bytes()).collect();
    write(&array, "", data.clone());
    assert_eq!(read(&reopen(&array), ""), data);
}

#[test]
fn a_source_of_elements_of_another_size_is_refused() {
    let array = create(&sharded(&[8, 8], &[8, 8], &[4, 4]));
    let source = shardine::GeneratorSource::new(1, |_, _, out| {
        out.fill(1);
        Ok(())
    });
    let error = array.write_from(Region::all(), &source, &WriteOptions::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the source has elements of 1 bytes, but the array has elements of 2"
    );
}

#[test]
fn a_region_can_be_read_to_any_places() {
    let codecs = json!([sharding(&[4, 3, 2], json!([bytes(), zstd()]))]);
    let document = document(&[16, 15, 14], &[8, 6, 14], "uint16".into(), 9.into(), codecs);
    let array = create_in(Arc::new(MemoryStore::new()), &document);
    write(&array, "1:,:14,2:", noise(15 * 14 * 12 * 2, 5));
    let region: Region = "::2,1:,3:13".parse().unwrap();
    let expected = read(&array, "::2,1:,3:13");
    let shape = [8, 14, 10];
    let element = |bytes: &[u8], at: usize| [bytes[at], bytes[at + 1]];
    let places = [
        Placement::fortran(&shape, 2).unwrap(),
        // With room between and around elements, and the second axis outermost.
        Placement { start: 5, strides: [60, 600, 4].into_iter().collect() },
    ];
    for place in places {
        let mut out = vec![0xAB; 9_000];
        array.read_bytes_placed(&region, &mut out, &place).unwrap();
        let mut i = 0;
        for (z, y, x) in
            (0..8).flat_map(|z| (0..14).flat_map(move |y| (0..10).map(move |x| (z, y, x))))
        {
            let at =
                place.start + z * place.strides[0] + y * place.strides[1] + x * place.strides[2];
            assert_eq!(element(&out, at), element(&expected, i), "{z} {y} {x}");
            out[at..at + 2].fill(0xAB);
            i += 2;
        }
        assert!(out.iter().all(|&byte| byte == 0xAB), "bytes between the places were touched");
    }
    let overlapping = Placement { start: 0, strides: [2, 2, 2].into_iter().collect() };
    let error = array.read_bytes_placed(&region, &mut [0; 9_000], &overlapping).unwrap_err();
    assert!(error.to_string().contains("overlap"), "{error}");
}
