//! Once a worker has seen a chunk, the next one like it allocates nothing on the Rust side.
//!
//! c-blosc and liblz4 use C's own heap, which is not counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use serde_json::json;
use shardine_codec::{Codec, CodecSpec, Context, from_spec};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: passes everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_warm_worker_allocates_nothing() {
    let blosc = json!({"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2});
    let snappy =
        |shuffle: &str| json!({"cname": "snappy", "clevel": 5, "shuffle": shuffle, "typesize": 2});
    for (name, configuration) in [
        ("zstd", json!({"level": 3})),
        ("gzip", json!({"level": 5})),
        ("zlib", json!({})),
        ("blosc", blosc),
        ("blosc", snappy("noshuffle")),
        ("blosc", snappy("bitshuffle")),
        ("lz4", json!({})),
        ("wkw.lz4_block", json!({})),
        ("crc32c", json!({})),
        ("fletcher32", json!({})),
        ("shuffle", json!({"elementsize": 2})),
    ] {
        let spec = CodecSpec {
            name: name.into(),
            configuration: configuration.as_object().unwrap().clone(),
            must_understand: true,
        };
        let Codec::BytesToBytes(codec) = from_spec(&spec).unwrap() else { panic!("{name}") };
        let context = &mut Context::new();
        let data: Vec<u8> = (0..65_536u32).map(|i| (i * i / 1000) as u8).collect();
        let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
        let mut exact = vec![0; data.len()];
        let mut counts = [0; 3];
        for count in &mut counts {
            let before = ALLOCATIONS.get();
            encoded.clear();
            decoded.clear();
            codec.encode(context, &data, &mut encoded).unwrap();
            codec.decode(context, &encoded, data.len(), &mut decoded).unwrap();
            codec.decode_exact(context, &encoded, &mut exact).unwrap();
            *count = ALLOCATIONS.get() - before;
        }
        assert_eq!(counts[1..], [0, 0], "{name} allocates in each call");
        assert_eq!((&decoded, &exact), (&data, &data));
    }
}
