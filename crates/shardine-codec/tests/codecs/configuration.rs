//! What a configuration may say, and that an error names what is wrong with it.

use serde_json::{Value, json};
use shardine_codec::{CodecError, names};

use crate::support::codec;

#[track_caller]
fn refused(name: &str, configuration: Value) -> String {
    match codec(name, configuration) {
        Err(error @ (CodecError::Configuration { .. } | CodecError::Unsupported { .. })) => {
            error.to_string()
        }
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn every_name_is_unique_and_known() {
    let mut all: Vec<_> = names().collect();
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
    for name in all {
        let unknown = codec(name, json!({"level": 1, "no such member": 1}));
        let Err(CodecError::Configuration { codec, reason }) = unknown else {
            panic!("{name} takes any member");
        };
        assert_eq!(codec, name);
        assert!(reason.contains("missing") || reason.contains("no such member"), "{reason}");
    }
    assert_eq!(codec("lzw", json!({})).unwrap_err(), CodecError::Unknown { name: "lzw".into() });
}

#[test]
fn members_that_are_wrong_are_named() {
    for (name, configuration, wanted) in [
        ("zstd", json!({}), "\"level\" is missing"),
        ("zstd", json!({"level": 23}), "\"level\" must be an integer from -131072 to 22, not 23"),
        ("zstd", json!({"level": "3"}), "\"level\" must be an integer"),
        ("zstd", json!({"level": 1.5}), "\"level\" must be an integer"),
        ("zstd", json!({"level": 1, "checksum": 1}), "\"checksum\" must be true or false, not 1"),
        ("zstd", json!({"level": 1, "window": 1}), "unknown configuration member \"window\""),
        ("gzip", json!({"level": 10}), "\"level\" must be an integer from 0 to 9, not 10"),
        ("gzip", json!({"level": -1}), "\"level\""),
        ("bytes", json!({"endian": "middle"}), "\"endian\" must be one of \"little\", \"big\""),
        ("crc32c", json!({"location": "end"}), "\"location\""),
        ("numcodecs.crc32c", json!({"location": "middle"}), "\"location\" must be one of"),
        ("transpose", json!({}), "\"order\" is missing"),
        ("transpose", json!({"order": [0, 0]}), "\"order\" must be a permutation"),
        ("transpose", json!({"order": [0, 2]}), "\"order\" must be a permutation"),
        ("transpose", json!({"order": [0, -1]}), "\"order\" must be a permutation"),
        ("transpose", json!({"order": "A"}), "\"order\" must be a permutation"),
        ("bitround", json!({"keepbits": 0}), "\"keepbits\" must be an integer from 1"),
        ("packbits", json!({"first_bit": 3, "last_bit": 2}), "\"last_bit\" must be no less"),
        ("packbits", json!({"first_bit": 64}), "\"first_bit\""),
        ("packbits", json!({"padding_encoding": "both"}), "\"padding_encoding\" must be one of"),
        ("fixedscaleoffset", json!({"scale": 1}), "\"offset\" is missing"),
        ("fixedscaleoffset", json!({"offset": 0, "scale": "1"}), "\"scale\" must be a number"),
        ("delta", json!({"dtype": "<c8"}), "\"dtype\" must be a numpy integer"),
        ("delta", json!({"dtype": 4}), "\"dtype\" must be a string"),
        ("bz2", json!({"level": 0}), "\"level\" must be an integer from 1 to 9, not 0"),
        ("lzma", json!({"format": 4}), "\"format\""),
        ("lzma", json!({"format": 3}), "\"filters\" is missing"),
        ("lzma", json!({"check": 2}), "\"check\" must be -1, 0, 1, 4 or 10, not 2"),
        ("lzma", json!({"preset": 10}), "\"preset\""),
        ("lzma", json!({"preset": 1, "filters": [{"id": 33}]}), "exclude each other"),
        ("lzma", json!({"filters": [{"id": 33}, {"id": 3}]}), "\"filters\""),
        ("lzma", json!({"filters": [{"id": 1234}]}), "\"id\""),
        ("lzma", json!({"filters": [{"id": 33, "dict_size": 1u64 << 40}]}), "\"dict_size\""),
        ("lzma", json!({"format": 2, "filters": [{"id": 33}]}), "\"filters\""),
        ("shuffle", json!({"elementsize": -1}), "\"elementsize\""),
    ] {
        let error = refused(name, configuration);
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn blosc_needs_what_its_specification_requires() {
    let good = json!({
        "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0,
    });
    assert!(codec("blosc", good.clone()).is_ok());
    let with = |member: &str, value: Value| {
        let mut configuration = good.clone();
        configuration[member] = value;
        configuration
    };
    for (configuration, wanted) in [
        (with("cname", json!("lzo")), "\"cname\" must be one of"),
        (with("cname", json!(null)), "\"cname\" is missing"),
        (with("clevel", json!(10)), "\"clevel\""),
        (with("clevel", json!(null)), "\"clevel\" is missing"),
        (with("shuffle", json!(1)), "\"shuffle\" must be one of"),
        (with("typesize", json!(null)), "\"typesize\" is missing"),
        (with("typesize", json!(0)), "\"typesize\""),
        (with("blocksize", json!(-1)), "\"blocksize\""),
    ] {
        let error = refused("blosc", configuration);
        assert!(error.contains(wanted), "{error}");
    }
    let mut unshuffled = with("shuffle", json!("noshuffle"));
    unshuffled["typesize"] = json!(0);
    assert!(codec("blosc", unshuffled.clone()).is_ok(), "the size is ignored");
    unshuffled.as_object_mut().unwrap().remove("typesize");
    assert!(codec("blosc", unshuffled).is_ok());
    assert!(codec("numcodecs.blosc", json!({"shuffle": 3})).is_err());
    assert!(codec("numcodecs.blosc", json!({"shuffle": "shuffle"})).is_err());
}

#[test]
fn numcodecs_has_its_own_defaults() {
    for name in [
        "blosc",
        "gzip",
        "zstd",
        "zlib",
        "lz4",
        "bz2",
        "lzma",
        "shuffle",
        "crc32",
        "crc32c",
        "adler32",
        "fletcher32",
        "packbits",
        "delta",
    ] {
        assert!(codec(&format!("numcodecs.{name}"), json!({})).is_ok(), "{name}");
    }
    assert!(codec("numcodecs.zlib", json!({"level": -1})).is_ok());
    assert!(codec("numcodecs.bitround", json!({"keepbits": 0})).is_ok());
}
