//! Objects whose headers say that they are encoded are read decoded.

use std::io::Write as _;

use shardine_remote::RemoteStore;
use shardine_store::{
    Condition, CreateOptions, HeaderName, ReadRange, Store as _, StoreError, StoreExt as _,
};

use super::common::{azure, fresh, s3};
use super::fake_s3::{FakeS3, Honours};
use super::{key, pattern, within};

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn fake() -> FakeS3 {
    FakeS3::start(Honours { writes: true, completions: true })
}

#[test]
fn what_is_said_to_be_gzip_is_read_as_what_is_in_it() {
    within(60, || {
        let fake = fake();
        let store = fake.store(|options| options);
        // Larger than what is stored, and smaller.
        for data in [vec![7; 100_000], pattern(1000, 1), Vec::new()] {
            let len = data.len() as u64;
            for header in ["gzip", "x-gzip", "aws-chunked,gzip"] {
                fake.insert("o", gzip(&data), &[("Content-Encoding", header)]);
                assert!(*store.get(&key("o")).unwrap().unwrap() == *data);
                let all = [
                    (ReadRange::All, 0..len),
                    (ReadRange::Bounded(0..0), 0..0),
                    (ReadRange::Bounded(len / 2..len), len / 2..len),
                    (ReadRange::Suffix(len / 3), len - len / 3..len),
                    (ReadRange::Head { need: len / 4, most: 50_000 }, 0..len / 4),
                    (ReadRange::Tail { need: len / 4, most: 50_000 }, len - len / 4..len),
                ];
                for (range, expected) in &all {
                    let object = store.open(&key("o"), None).unwrap();
                    let expected = &data[expected.start as usize..expected.end as usize];
                    assert!(*object.read(range.clone()).unwrap() == *expected, "{range:?}");
                    assert_eq!(object.len(), Some(len));
                    assert!(object.version().is_some());
                    for (range, _) in &all {
                        object.read(range.clone()).unwrap();
                    }
                }
                let object = store.open(&key("o"), None).unwrap();
                let error = object.read(ReadRange::Bounded(0..len + 1)).unwrap_err();
                assert!(matches!(error, StoreError::OutOfRange { .. }), "{error:?}");
            }
        }
        let plain = pattern(1000, 2);
        fake.insert("o", plain.clone(), &[("Content-Encoding", "aws-chunked")]);
        assert!(*store.get(&key("o")).unwrap().unwrap() == *plain);
    });
}

#[test]
fn an_encoding_that_is_not_known_or_not_true_is_an_error() {
    within(60, || {
        let fake = fake();
        let store = fake.store(|options| options.with("decoded_limit", "1000000"));
        fake.insert("o", pattern(100, 1), &[("Content-Encoding", "compress")]);
        let error = store.get(&key("o")).unwrap_err().to_string();
        assert!(error.contains("Content-Encoding \"compress\""), "{error}");
        fake.insert("o", pattern(100, 1), &[("Content-Encoding", "gzip")]);
        let error = store.get(&key("o")).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
        // An object that is much larger than it claims.
        fake.insert("o", gzip(&vec![0; 100 << 20]), &[("Content-Encoding", "gzip")]);
        for range in [ReadRange::All, ReadRange::Bounded(0..10), ReadRange::Suffix(10)] {
            let object = store.open(&key("o"), None).unwrap();
            let error = object.read(range).unwrap_err().to_string();
            assert!(error.contains("decoded_limit"), "{error}");
        }
        let twice = gzip(&gzip(&vec![0; 100 << 20]));
        fake.insert("o", twice, &[("Content-Encoding", "gzip, gzip")]);
        let error = store.get(&key("o")).unwrap_err().to_string();
        assert!(error.contains("decoded_limit"), "{error}");
    });
}

#[test]
fn an_update_keeps_the_headers_of_an_object_and_undoes_its_encoding() {
    within(60, || {
        let fake = fake();
        let large = pattern((5 << 20) + 7, 3);
        for data in [b"new".as_slice(), &large] {
            for said in ["false", "true"] {
                let store = fake.store(|options| options.with("conditional_uploads", said));
                let headers = [
                    ("content-encoding", "gzip"),
                    ("content-type", "image/png"),
                    ("x-amz-meta-owner", "somebody"),
                ];
                fake.insert("o", gzip(b"old"), &headers);
                let edit = store.edit(&key("o")).unwrap();
                assert_eq!(&*edit.object.read(ReadRange::All).unwrap(), b"old");
                store.put(&key("o"), data, edit.condition()).unwrap();
                let (bytes, mut kept) = fake.stored("o");
                assert!(bytes == data, "it is stored as it was written");
                kept.sort();
                let expected = headers[1..].iter().map(|(n, v)| ((*n).into(), (*v).into()));
                assert_eq!(kept, expected.collect::<Vec<(String, String)>>());
            }
        }
        // Metadata that leaves no room for the history of writes is not kept.
        let store = fake.store(|options| options);
        fake.insert("o", b"old".to_vec(), &[("x-amz-meta-long", &"x".repeat(2000))]);
        let edit = store.edit(&key("o")).unwrap();
        store.put(&key("o"), b"new", edit.condition()).unwrap();
        assert!(fake.stored("o").1.is_empty());
    });
}

/// Stores an object with headers, and checks that they are there.
fn keeps_headers(store: &RemoteStore, len: usize) {
    assert!(store.keeps_headers());
    let data = vec![9; 3 * len];
    let stored = match len {
        ..1_000_000 => gzip(&data),
        _ => gzip(&pattern(len, 1)),
    };
    let mut headers = shardine_store::Headers::default();
    headers.insert(HeaderName::ContentEncoding, "gzip".into());
    headers.insert(HeaderName::ContentType, "application/x-test".into());
    headers.insert(HeaderName::CacheControl, "no-cache".into());
    headers.insert(HeaderName::Metadata("owner".into()), "somebody".into());
    let writer = store.create_with_headers(&key("o"), CreateOptions::default(), &headers).unwrap();
    writer.append(&stored).unwrap();
    store.publish(vec![writer.finish(&[]).unwrap()]).unwrap();
    let object = store.open_stored(&key("o")).unwrap();
    assert!(*object.read(ReadRange::All).unwrap() == *stored);
    assert_eq!(object.headers(), headers);
    let object = store.open(&key("o"), None).unwrap();
    let head = object.read(ReadRange::Bounded(0..5)).unwrap();
    headers.remove(&HeaderName::ContentEncoding);
    assert_eq!(object.headers(), headers);
    match len {
        ..1_000_000 => assert_eq!(*head, data[..5]),
        _ => assert_eq!(*head, pattern(5, 1)),
    }
    // An update keeps them too.
    let edit = store.edit(&key("o")).unwrap();
    store.put(&key("o"), &pattern(len, 2), edit.condition()).unwrap();
    let object = store.open_stored(&key("o")).unwrap();
    assert!(*object.read(ReadRange::All).unwrap() == *pattern(len, 2));
    assert_eq!(object.headers(), headers);
}

#[test]
fn headers_are_kept_by_real_stores() {
    within(120, || {
        for len in [1000, (8 << 20) + 5] {
            keeps_headers(&s3(&fresh("headers")), len);
            keeps_headers(&azure(&fresh("headers")), len);
        }
    });
}

#[test]
fn what_a_killed_trial_left_is_no_data_and_is_removed_by_the_next() {
    within(60, || {
        for make in [s3 as fn(&str) -> RemoteStore, azure] {
            let prefix = fresh("left");
            let store = make(&prefix);
            for name in [".shardine-probe", ".shardine-probe-0123456789abcdef"] {
                store.put(&key(name), b"left", Condition::None).unwrap();
            }
            assert_eq!(store.list(None).unwrap(), Default::default());
            // Nor for a listing from above.
            let (folder, name) = (make(""), key(&prefix));
            assert!(folder.list(Some(&name)).unwrap().objects.is_empty());
            store.put(&key("o"), b"data", Condition::Absent).unwrap();
            assert!(store.get(&key(".shardine-probe")).unwrap().is_none(), "it was not removed");
            let listed = store.list(None).unwrap().objects;
            assert_eq!(listed, [(key("o"), 4)]);
        }
    });
}
