use super::*;
use crate::sort::tests_spool::CountingSpool;
use crate::zarr_vectors::{FragmentIndex, FragmentRef, Manifest, Ragged};

fn options(objects: bool) -> CoarseOptions {
    CoarseOptions {
        bin: vec![4.0, 4.0],
        fine_chunk: vec![2.0, 2.0],
        chunk_scale: vec![1, 1],
        memory: 0,
        objects,
    }
}

fn finish(builder: CoarseBuilder<'_>, ends: Option<&[u64]>) -> CoarseLevel {
    builder.finish(ends, None, &|| Ok(())).unwrap()
}

fn array<'l>(level: &'l CoarseLevel, path: &str) -> &'l CoarseArray {
    level.arrays().iter().find(|array| array.path == path).unwrap()
}

fn cell(level: &CoarseLevel, path: &str, chunk: &[i64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    level.read_cell(array(level, path), chunk, &mut bytes).unwrap();
    bytes
}

fn positions(level: &CoarseLevel, chunk: &[i64]) -> Vec<f32> {
    f32s(&cell(level, "vertices", chunk)).collect()
}

fn links(level: &CoarseLevel, path: &str, chunk: &[i64]) -> Vec<[i64; 2]> {
    let bytes = cell(level, path, chunk);
    let rows = Ragged::parse(&bytes, 16).unwrap().rows();
    let numbers: Vec<i64> =
        rows.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
    numbers.as_chunks::<2>().0.to_vec()
}

fn manifest(level: &CoarseLevel, row: u64) -> Vec<(Vec<i64>, u64)> {
    let mut bytes = Vec::new();
    level.objects().unwrap().read(row, &mut bytes).unwrap();
    let (mut manifest, mut blocks) = (Manifest::parse(&bytes, 2).unwrap(), Vec::new());
    while let Some(block) = manifest.next_block().unwrap() {
        let FragmentRef::Single(fragment) = block.fragments else { panic!("{block:?}") };
        blocks.push((block.chunk.to_vec(), fragment));
    }
    blocks
}

#[test]
fn vertices_of_a_bin_become_their_mean_and_links_lead_both_ways() {
    let spool = CountingSpool::default();
    let mut builder = CoarseBuilder::new(&options(false), &spool).unwrap();
    for (chunk, row, position) in [
        ([-1, 0], 0, [-1.0, 1.0]),
        ([0, 0], 0, [1.0, 1.0]),
        ([0, 0], 1, [1.5, 0.0]),
        ([1, 0], 0, [3.5, 0.5]),
    ] {
        let chunk = builder.chunk(&chunk).unwrap();
        builder.vertex(chunk, row, &position).unwrap();
    }
    let level = finish(builder, None);
    assert_eq!((level.vertices(), level.links(), level.chunks()), (2, 4, 2));
    assert_eq!(positions(&level, &[-1, 0]), [-1.0, 1.0]);
    // (1 + 1.5 + 3.5) / 3 lies in chunk 1, so two of its three vertices are in the chunk before.
    assert_eq!(positions(&level, &[1, 0]), [2.0, 0.5]);
    assert_eq!(links(&level, "links/-1/-1.0", &[1, 0]), [[0, 0], [0, 1]]);
    assert_eq!(links(&level, "links/-1/0.0", &[1, 0]), [[0, 0]]);
    assert_eq!(links(&level, "links/+1/+1.0", &[0, 0]), [[0, 0], [1, 0]]);
    assert_eq!(links(&level, "links/+1/0.0", &[-1, 0]), [[0, 0]]);
    let fragments = cell(&level, "vertex_fragments", &[1, 0]);
    assert_eq!(FragmentIndex::parse(&fragments).unwrap().len(), 1);
    let (origin, shape) = level.grid(false, Some(&[vec![-3.0, 0.0], vec![4.0, 1.0]]));
    assert_eq!((&*origin, &*shape), (&[-2, 0][..], &[5, 1][..]));
    assert!(level.objects().is_none());
}

/// Three bins along a line, used by objects.
fn with_uses(uses: &[&[usize]], memory: u64) -> CoarseLevel {
    let spool = CountingSpool::default();
    let at = [[0.0, 0.0], [2.0, 0.0], [5.0, 0.0], [9.0, 0.0]];
    let options = CoarseOptions { memory, ..options(true) };
    let mut builder = CoarseBuilder::new(&options, &spool).unwrap();
    for (row, position) in (0..).zip(&at) {
        let chunk = builder.chunk(&[0, 0]).unwrap();
        builder.vertex(chunk, row, position).unwrap();
    }
    let mut ends = Vec::new();
    let mut next = 0;
    for object in uses {
        for vertex in *object {
            builder.used(next, 0, &at[*vertex]).unwrap();
            next += 1;
        }
        ends.push(next);
    }
    finish(builder, Some(&ends))
}

#[test]
fn a_vertex_that_objects_share_weighs_once_for_each() {
    let level = with_uses(&[&[0], &[1], &[1], &[1]], 0);
    assert_eq!(positions(&level, &[0, 0]), [1.5, 0.0]);
    // No object uses the others, so nothing becomes of them, and no link leads there.
    assert_eq!((level.vertices(), level.links()), (1, 2));
}

#[test]
fn a_path_within_a_bin_has_its_mean_once_and_one_that_comes_back_twice() {
    let level = with_uses(&[&[0, 1, 2, 1], &[], &[3]], 0);
    let bins = [(vec![0, 0], 0), (vec![2, 0], 0), (vec![4, 0], 0)];
    assert_eq!(manifest(&level, 0), [bins[0].clone(), bins[1].clone(), bins[0].clone()]);
    assert_eq!(manifest(&level, 1), [], "an object that is dropped has no vertices");
    assert_eq!(manifest(&level, 2), [bins[2].clone()]);
    let objects = level.objects().unwrap();
    assert_eq!((objects.len(), objects.present()), (3, 2));
}

#[test]
fn objects_that_share_a_bin_in_a_row_each_have_it() {
    // The last vertex of one object and the first of the next are not one.
    let level = with_uses(&[&[0], &[1]], 0);
    assert_eq!((manifest(&level, 0).len(), manifest(&level, 1).len()), (1, 1));
}

#[test]
fn longer_chunks_are_found_from_shorter_ones_and_back() {
    let spool = CountingSpool::default();
    let options = CoarseOptions { chunk_scale: vec![2, 2], ..options(false) };
    let mut builder = CoarseBuilder::new(&options, &spool).unwrap();
    let chunk = builder.chunk(&[-3, 1]).unwrap();
    builder.vertex(chunk, 7, &[-5.0, 3.0]).unwrap();
    let level = finish(builder, None);
    assert_eq!(positions(&level, &[-2, 0]), [-5.0, 3.0]);
    // -3 / 2 is -2, rounded down; -2 * 2 is -4.
    assert_eq!(links(&level, "links/+1/0.0", &[-3, 1]), [[7, 0]]);
    assert_eq!(links(&level, "links/-1/+1.+1", &[-2, 0]), [[0, 7]]);
}

#[test]
fn vertices_of_a_chunk_are_in_the_order_of_the_bytes_of_their_bins() {
    let spool = CountingSpool::default();
    let options = CoarseOptions {
        bin: vec![1.0],
        fine_chunk: vec![1000.0],
        chunk_scale: vec![1],
        ..options(false)
    };
    let mut builder = CoarseBuilder::new(&options, &spool).unwrap();
    let chunk = builder.chunk(&[0]).unwrap();
    for (row, at) in (0..).zip([1.0, 255.0, 256.0, 257.0, 512.0]) {
        builder.vertex(chunk, row, &[at]).unwrap();
    }
    let level = finish(builder, None);
    // As zarr-vectors has them: 256 is 00 01, 1 is 01 00.
    assert_eq!(positions(&level, &[0]), [256.0, 512.0, 1.0, 257.0, 255.0]);
}

#[test]
fn what_does_not_fit_into_memory_makes_the_same_level() {
    let make = |memory: u64| {
        let spool = CountingSpool::default();
        let mut builder =
            CoarseBuilder::new(&CoarseOptions { memory, ..options(false) }, &spool).unwrap();
        let mut random = 7u64;
        for number in 0..300_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = [(random >> 40) as f32 / 300.0, (random >> 20 & 0xfffff) as f32 / 3000.0];
            let chunk = [(at[0] / 2.0).floor() as i64, (at[1] / 2.0).floor() as i64];
            let chunk = builder.chunk(&chunk).unwrap();
            builder.vertex(chunk, number, &at).unwrap();
        }
        let level = finish(builder, None);
        let mut sum = Vec::new();
        for array in level.arrays() {
            for chunk in level.chunks_of(array) {
                let mut bytes = Vec::new();
                level.read_cell(array, &chunk, &mut bytes).unwrap();
                sum.push((array.path.clone(), chunk, bytes));
            }
        }
        (sum, spool.files())
    };
    let ((small, files), (large, fewer)) = (make(0), make(1 << 30));
    assert!(files > fewer, "{files} {fewer}");
    assert!(small == large);
}

#[test]
fn a_position_that_is_no_place_is_refused() {
    let spool = CountingSpool::default();
    let mut builder = CoarseBuilder::new(&options(false), &spool).unwrap();
    let chunk = builder.chunk(&[0, 0]).unwrap();
    for value in [f32::NAN, f32::INFINITY, 3e38] {
        assert!(builder.vertex(chunk, 0, &[value, 0.0]).is_err(), "{value}");
    }
    assert!(builder.chunk(&[i64::MAX, 0]).is_err());
}

#[test]
fn an_error_of_the_spool_and_a_stop_are_passed_on() {
    let spool = CountingSpool::failing_after(0);
    let builder = CoarseBuilder::new(&options(false), &spool).unwrap();
    let error = builder.finish(None, None, &|| Ok(())).err();
    assert!(matches!(error, Some(GeometryError::Spool(_))), "{error:?}");
    let spool = CountingSpool::default();
    let mut builder = CoarseBuilder::new(&options(false), &spool).unwrap();
    let chunk = builder.chunk(&[0, 0]).unwrap();
    builder.vertex(chunk, 0, &[0.0, 0.0]).unwrap();
    let stop = || Err(GeometryError::Side("stopped".into()));
    assert!(builder.finish(None, None, &stop).is_err());
}
