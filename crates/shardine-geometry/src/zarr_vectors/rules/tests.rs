use serde_json::{Value, json};
use smallvec::smallvec;

use super::*;
use crate::zarr_vectors::{
    AttributeDocument, Block, ChunkCoords, FragmentRef, FragmentRows, LinkArray, LinkFamily,
    LinkOffsets, Scalar, encode_fragments, encode_ragged, swap_bytes,
};

fn attributes(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn messages(out: &[Violation]) -> Vec<&str> {
    out.iter().map(|violation| violation.message.as_str()).collect()
}

fn rules() -> VertexRules {
    let chunk_shape = vec![10.0, 10.0];
    VertexRules { scalar: Scalar::Float32, swapped: false, chunk_shape, offset: None }
}

#[test]
fn a_vertex_in_another_chunk_is_found_and_one_at_its_edge_is_not() {
    let (mut out, mut extent) = (Vec::new(), Extent::new(2));
    // 10 - 1e-9 is 10 in 32 bits: zarr-vectors puts it into chunk 0.
    let cell = floats(&[0.0, 9.5, 10.0 - 1e-9, 1.0]);
    assert_eq!(rules().judge(&cell, &[0, 0], &mut extent, &mut out), Some(2));
    assert_eq!((messages(&out), &extent.high), (vec![], &vec![10.0, 9.5]));
    let cell = floats(&[0.0, 9.5, 31.0, 1.0, f32::NAN, 2.0]);
    assert_eq!(rules().judge(&cell, &[0, 0], &mut extent, &mut out), Some(3));
    let told = "vertex 1 is at [31.0, 1.0], which is in chunk 3.0; and 1 more like it";
    assert_eq!(messages(&out), [told]);
    assert_eq!(rules().judge(&cell[1..], &[0, 0], &mut extent, &mut out), None);
}

#[test]
fn a_negative_chunk_and_an_offset_have_their_vertices() {
    let (mut out, mut extent) = (Vec::new(), Extent::new(2));
    let cell = floats(&[-0.5, -9.0]);
    rules().judge(&cell, &[-1, -1], &mut extent, &mut out);
    let moved = VertexRules { offset: Some(vec![100.0, 100.0]), ..rules() };
    moved.judge(&cell, &[9, 9], &mut extent, &mut out);
    moved.judge(&cell, &[-1, -1], &mut extent, &mut out);
    assert_eq!(messages(&out), Vec::<&str>::new());
}

#[test]
fn bounds_that_leave_vertices_out_are_found() {
    let mut extent = Extent::new(2);
    rules().judge(&floats(&[1.0, 2.0, 3.0, 4.0]), &[0, 0], &mut extent, &mut Vec::new());
    let outside = |low: [f64; 2], high: [f64; 2]| {
        extent.outside(&[low.to_vec(), high.to_vec()], Scalar::Float32)
    };
    assert_eq!(outside([1.0, 2.0], [3.0, 4.0]), None);
    assert_eq!(outside([1.0, 2.0], [3.0 - 1e-8, 4.0]), None);
    assert!(outside([1.0, 2.0], [3.0, 3.5]).is_some());
    assert!(outside([1.5, 2.0], [3.0, 4.0]).is_some());
}

fn fragments(of: &[FragmentRows]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_fragments(of, &mut bytes).unwrap();
    bytes
}

fn range(start: u64, count: u64) -> FragmentRows {
    FragmentRows::Range { start, count }
}

#[test]
fn fragments_of_missing_rows_and_rows_of_no_fragment_are_found() {
    let judge = |bytes: &[u8], rows, tile| {
        let mut out = Vec::new();
        judge_fragments(bytes, rows, tile, &mut out);
        out.first().map(|violation| violation.message.clone()).unwrap_or_default()
    };
    let two = fragments(&[range(0, 2), range(2, 3)]);
    assert_eq!(judge(&two, Some(5), true), "");
    assert_eq!(judge(&two, None, true), "");
    assert_eq!(judge(&two, Some(4), false), "a fragment has row 4 of 4 vertices");
    assert_eq!(judge(&two, Some(6), false), "1 of 6 vertices are in no fragment");
    assert!(judge(&two, Some(6), true).contains("fragments_tile"));
    let lists = fragments(&[FragmentRows::List(vec![4, 0]), FragmentRows::List(vec![1, 0])]);
    assert_eq!(judge(&lists, Some(5), false), "2 of 5 vertices are in no fragment");
    assert_eq!(judge(&[], Some(5), false), "there are no fragments for 5 vertices");
    assert_eq!(judge(&[], Some(0), true), "");
    assert!(judge(&two[..20], Some(5), true).contains("needs"));
}

#[test]
fn attributes_are_as_long_as_what_they_describe() {
    let document = AttributeDocument::read(&attributes(json!({"dtype": "int16"}))).unwrap();
    let mut rules = AttributeRules::new(document, "vertices");
    let mut judge = |len: usize, rows: u64| {
        let mut out = Vec::new();
        attribute(&vec![0; len], &mut rules, rows, &mut out);
        out.first().map(|violation| violation.message.clone()).unwrap_or_default()
    };
    // Two values a row, which the document does not say.
    assert_eq!(judge(12, 3), "");
    assert_eq!(judge(8, 2), "");
    assert_eq!(judge(4, 2), "it has 1 rows for 2 vertices");
    assert_eq!(judge(11, 3), "it has 11 bytes for 3 vertices");
    assert_eq!(judge(0, 3), "it has 0 rows for 3 vertices");
    assert_eq!(judge(4, 0), "there are 4 bytes for no vertices");
    assert_eq!(judge(0, 0), "");
}

#[test]
fn codes_of_no_word_are_found_and_the_missing_one_is_not() {
    let document = json!({
        "dtype": "int8", "encoding": "dictionary", "categories": ["a", "b"], "_FillValue": -1,
    });
    let document = AttributeDocument::read(&attributes(document)).unwrap();
    let mut rules = AttributeRules::new(document, "vertices");
    let mut out = Vec::new();
    attribute(&[0, 1, 0xff], &mut rules, 3, &mut out);
    assert_eq!(messages(&out), Vec::<&str>::new());
    attribute(&[0, 2, 100], &mut rules, 3, &mut out);
    let told = "row 1 has the code 2, of a dictionary of 2 words; and 1 more like it";
    assert_eq!(messages(&out), [told]);
}

fn link_rules(permuted: bool) -> LinkRules {
    let family = LinkFamily::read(&attributes(json!({"link_width": 2})), 0, 1);
    let document = LinkArray::read(&attributes(json!({"has_perm": permuted})), &family, !permuted);
    let offsets = LinkOffsets::new([smallvec![i64::from(permuted)]]);
    LinkRules { document: document.unwrap(), offsets, grouped: permuted }
}

fn numbers(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn links_to_missing_vertices_and_wrong_permutations_are_found() {
    let mut out = Vec::new();
    let rows = [Some(3), Some(3)];
    assert_eq!(judge_links(&numbers(&[0, 2, 1, 2]), &link_rules(false), &rows, &mut out), Some(2));
    assert_eq!(messages(&out), Vec::<&str>::new());
    judge_links(&numbers(&[0, 3, -1, 2]), &link_rules(false), &rows, &mut out);
    assert_eq!(messages(&out), ["link 0 has vertex 3 of 3; and 1 more like it"]);
    out.clear();
    let mut bytes = Vec::new();
    encode_ragged(&[&numbers(&[1, 0, 7]), &numbers(&[9, 0, 0])], &mut bytes).unwrap();
    assert_eq!(judge_links(&bytes, &link_rules(true), &[Some(1), None], &mut out), Some(2));
    assert_eq!(messages(&out), ["link 1 has 9, which is no permutation of its ends"]);
    out.clear();
    judge_links(&bytes, &link_rules(true), &[Some(1), Some(0)], &mut out);
    assert!(messages(&out)[0].starts_with("link 0 leads to a chunk without vertices"));
    assert_eq!(judge_links(&bytes[..20], &link_rules(true), &rows, &mut out), None);
}

fn chunks(names: &[i64]) -> Vec<ChunkCoords> {
    names.iter().map(|name| smallvec![*name]).collect()
}

#[test]
fn a_list_is_judged_against_what_is_stored() {
    let judge = |list: Value, stored: &[i64]| {
        let list = match list {
            Value::Null => json!({}),
            list => json!({ "nonempty_chunks": list }),
        };
        let (mut out, mut absent) = (Vec::new(), Vec::new());
        let list = ChunkList::read(&attributes(list), 1).unwrap();
        judge_list(&list, &chunks(stored), &|chunk| chunk[0] == 9, &mut absent, &mut out);
        (out.iter().map(|one| (one.kind, one.message.clone())).collect::<Vec<_>>(), absent)
    };
    assert_eq!(judge(json!(["-1", "0"]), &[-1, 0]).0, []);
    assert_eq!(judge(json!([]), &[]).0, []);
    assert_eq!(judge(Value::Null, &[]).0, []);
    assert_eq!(judge(Value::Null, &[3]).0[0].0, RuleKind::NoList);
    assert!(judge(json!(["0"]), &[0, 1]).0[0].1.starts_with("chunk 1 is stored, but not listed"));
    let (out, absent) = judge(json!(["0", "1", "9"]), &[0]);
    assert!(out[0].1.starts_with("chunk 1 is listed"), "{out:?}");
    assert_eq!((out.len(), absent), (1, chunks(&[1])));
    let (out, _) = judge(json!(["0", "0", "1.2", 7]), &[0]);
    assert!(out[0].1.contains("and 2 more"), "{out:?}");
    assert_eq!(judge(json!("0"), &[0]).0[0].0, RuleKind::ChunkList);
}

#[test]
fn corrections_change_what_they_name_and_nothing_else() {
    let mut root = attributes(json!({"zarr_vectors": {"bounds": [[0], [1]], "crs": "x"}, "a": 1}));
    let bounds = Correction::Bounds { bounds: json!([[0.5], [2.0]]) };
    assert!(bounds.apply(&mut root));
    let expected = json!({"zarr_vectors": {"bounds": [[0.5], [2.0]], "crs": "x"}, "a": 1});
    assert_eq!(Value::Object(root.clone()), expected);
    assert!(!Correction::Vertices { count: 3 }.apply(&mut root));
    let list = Correction::ChunkList { chunks: chunks(&[10, 2, -1]), added: 1, removed: 0 };
    let mut array = attributes(json!({"dtype": "float32"}));
    assert!(list.apply(&mut array) && !list.removes());
    assert_eq!(array["nonempty_chunks"], json!(["-1", "10", "2"]));
}

#[test]
fn the_last_chunk_that_a_number_can_name_has_an_end() {
    let (mut out, mut extent) = (Vec::new(), Extent::new(2));
    let rows = rules().judge(&floats(&[1.0, 2.0]), &[i64::MAX, i64::MIN], &mut extent, &mut out);
    assert_eq!((rows, out.len()), (Some(1), 1));
}

#[test]
fn many_fragments_of_all_rows_cost_no_more_than_they_are_stored_in() {
    let (rows, many) = (200_000, 200_000);
    let mut all = vec![range(1, rows - 1); many];
    all.push(FragmentRows::List(vec![7, rows - 1]));
    all.push(range(rows, 0));
    let (bytes, mut out) = (fragments(&all), Vec::new());
    let index = judge_fragments(&bytes, Some(rows), false, &mut out).unwrap();
    assert_eq!(messages(&out), ["1 of 200000 vertices are in no fragment"]);
    let mut table = ChunkTable::new(true);
    table.add(smallvec![0], Some(rows), ChunkFragments::Known(&index));
    let block = |start, count| Block {
        chunk: smallvec![0],
        fragments: FragmentRef::Range { start, count },
    };
    let len = index.len() as u64;
    for _ in 0..2_000 {
        table.take(&block(1, len - 3)).unwrap();
    }
    // The last of all is empty, which nothing has to have.
    let unowned = table.unowned().map(|left| (left.count, left.first.1));
    assert_eq!(unowned, Some((2, 0)));
    assert!(table.take(&block(3, u64::MAX)).unwrap_err().contains(&format!("fragment {len} of")));
    assert!(table.take(&block(len + 9, 1)).is_err() && table.take(&block(len + 9, 0)).is_ok());
    table.take(&block(0, len)).unwrap();
    assert_eq!(table.unowned(), None);
}

#[test]
fn ranges_of_fragments_take_exactly_their_own() {
    let bytes = fragments(&vec![range(0, 1); 200]);
    let index = judge_fragments(&bytes, None, false, &mut Vec::new()).unwrap();
    for (start, count) in [(0, 1), (63, 1), (63, 2), (64, 64), (10, 130), (127, 73), (0, 200)] {
        let mut table = ChunkTable::new(true);
        table.add(smallvec![0], None, ChunkFragments::Missing);
        table.add(smallvec![1], None, ChunkFragments::Known(&index));
        let fragments = FragmentRef::Range { start, count };
        table.take(&Block { chunk: smallvec![1], fragments }).unwrap();
        let left = table.unowned().map(|left| (left.count, left.first.1));
        let first = if start == 0 { count } else { 0 };
        let expected = (count < 200).then_some((200 - count, first));
        assert_eq!(left, expected, "{start} {count}");
    }
}

#[test]
fn a_count_that_is_too_high_may_be_all_that_is_left_of_a_loss() {
    let kind = |said, stored| Violation::of_count("n", said, stored).map(|one| one.kind);
    assert_eq!(kind(3, 4), Some(RuleKind::Counts));
    assert_eq!(kind(4, 4), None);
    assert_eq!(kind(5, 4), Some(RuleKind::Missing));
}

#[test]
fn numbers_with_their_highest_byte_first_are_read_as_such() {
    let (mut out, mut extent) = (Vec::new(), Extent::new(2));
    let mut cell = floats(&[1.5, 2.5]);
    swap_bytes(&mut cell, 4);
    let swapped = VertexRules { swapped: true, ..rules() };
    assert_eq!(swapped.judge(&cell, &[0, 0], &mut extent, &mut out), Some(1));
    assert_eq!((extent.low, messages(&out)), (vec![1.5, 2.5], Vec::new()));
    let document = json!({"dtype": "int16", "encoding": "dictionary", "categories": ["a", "b"]});
    let document = AttributeDocument::read(&attributes(document)).unwrap();
    let mut codes = AttributeRules::new(document, "vertices").swapped(true);
    attribute(&[0, 1, 0, 0], &mut codes, 2, &mut out);
    assert_eq!(messages(&out), Vec::<&str>::new());
    attribute(&[1, 0, 0, 0], &mut codes, 2, &mut out);
    assert_eq!(messages(&out), ["row 0 has the code 256, of a dictionary of 2 words"]);
}
