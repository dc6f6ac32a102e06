use super::{Make, get, key, open, pattern, put, suite, version};
use crate::{Condition, ReadRange, StoreError, StoreExt};

suite![
    what_is_written_is_read,
    an_empty_object_is_an_object,
    a_missing_object_is_not_found,
    bounded_ranges_are_exact,
    memory_of_the_caller_is_filled,
    suffixes_are_exact,
    ranges_without_bytes_are_empty,
    a_range_past_the_end_is_an_error,
    large_objects_are_whole,
    a_version_stands_for_the_bytes,
    an_open_object_does_not_mix_versions,
    an_open_object_survives_its_removal_or_says_so,
    a_kept_object_knows_whether_it_is_current,
];

fn memory_of_the_caller_is_filled(make: Make<'_>) {
    let store = make();
    let data = pattern(1, 10_000);
    put(&*store, "a", &data);
    let object = open(&*store, "a");
    for (start, end) in [(0, 1), (0, 10_000), (1, 2), (4095, 4097), (17, 9_001), (5, 5)] {
        let mut memory = vec![0; end - start];
        object.read_into(start as u64, &mut memory).unwrap();
        assert_eq!(memory, data[start..end], "{start}..{end}");
    }
    for (start, len) in [(9_999, 2), (10_001, 1), (u64::MAX, 1), (u64::MAX - 1, 9)] {
        let read = object.read_into(start, &mut vec![0; len]);
        assert!(matches!(read, Err(StoreError::OutOfRange { .. })), "{start}: {read:?}");
    }
}

fn a_kept_object_knows_whether_it_is_current(make: Make<'_>) {
    let store = make();
    put(&*store, "a", b"one");
    let object = open(&*store, "a");
    object.read(ReadRange::All).unwrap();
    if !object.can_be_kept() {
        assert!(!object.is_current().unwrap());
        return;
    }
    assert!(object.is_current().unwrap());
    // The same length as before, a moment later.
    put(&*store, "a", b"two");
    assert!(!object.is_current().unwrap());
    let object = open(&*store, "a");
    assert!(object.is_current().unwrap());
    store.delete(&key("a"), &Condition::None).unwrap();
    assert!(!object.is_current().unwrap());
}

fn what_is_written_is_read(make: Make<'_>) {
    let store = make();
    put(&*store, "a", b"one");
    put(&*store, "b/c", b"two");
    assert_eq!(get(&*store, "a").unwrap(), b"one");
    assert_eq!(get(&*store, "b/c").unwrap(), b"two");
    put(&*store, "a", b"three");
    assert_eq!(get(&*store, "a").unwrap(), b"three");
    if let Some(len) = open(&*store, "a").len() {
        assert_eq!(len, 5);
    }
}

fn an_empty_object_is_an_object(make: Make<'_>) {
    let store = make();
    put(&*store, "empty", b"");
    assert_eq!(get(&*store, "empty").unwrap(), b"");
    assert!(open(&*store, "empty").len().is_none_or(|len| len == 0));
    assert_eq!(store.list(None).unwrap().objects, [(key("empty"), 0)]);
}

fn a_missing_object_is_not_found(make: Make<'_>) {
    let store = make();
    put(&*store, "folder/object", b"x");
    for missing in ["nothing", "no/such/folder", "folder", "folder/objec", "folder/object/below"] {
        // Opening may be free; then the first read finds out.
        let read = store.open(&key(missing), None).and_then(|o| o.read(ReadRange::All));
        match read {
            Err(StoreError::NotFound { key, .. }) => assert_eq!(key.as_str(), missing),
            other => panic!("{missing}: {other:?}"),
        }
        assert!(store.get(&key(missing)).unwrap().is_none());
    }
}

fn bounded_ranges_are_exact(make: Make<'_>) {
    let store = make();
    let data = pattern(1, 10_000);
    put(&*store, "a", &data);
    let object = open(&*store, "a");
    for (start, end) in [(0, 1), (0, 10_000), (1, 2), (4095, 4097), (9_999, 10_000), (17, 9_001)] {
        let read = object.read(ReadRange::Bounded(start as u64..end as u64)).unwrap();
        assert_eq!(*read, data[start..end], "{start}..{end}");
    }
}

fn suffixes_are_exact(make: Make<'_>) {
    let store = make();
    let data = pattern(2, 5_000);
    put(&*store, "a", &data);
    for n in [1, 16, 4_999, 5_000] {
        // The first read of an object, so that a store cannot rely on a length seen earlier.
        let read = open(&*store, "a").read(ReadRange::Suffix(n as u64)).unwrap();
        assert_eq!(*read, data[5_000 - n..], "the last {n}");
    }
}

fn ranges_without_bytes_are_empty(make: Make<'_>) {
    let store = make();
    put(&*store, "a", b"12345");
    let object = open(&*store, "a");
    for range in [ReadRange::Bounded(0..0), ReadRange::Bounded(3..3), ReadRange::Bounded(5..5)] {
        assert!(object.read(range.clone()).unwrap().is_empty(), "{range:?}");
    }
    assert!(object.read(ReadRange::Suffix(0)).unwrap().is_empty());
    put(&*store, "empty", b"");
    let empty = open(&*store, "empty");
    for range in [ReadRange::All, ReadRange::Bounded(0..0), ReadRange::Suffix(0)] {
        assert!(empty.read(range.clone()).unwrap().is_empty(), "{range:?}");
    }
}

#[allow(clippy::reversed_empty_ranges, reason = "it must be refused")]
fn a_range_past_the_end_is_an_error(make: Make<'_>) {
    let store = make();
    put(&*store, "a", b"12345");
    let ranges = [0..6, 4..6, 5..6, 6..6, 6..7, 4..3, 0..u64::MAX, u64::MAX - 1..u64::MAX]
        .map(ReadRange::Bounded)
        .into_iter()
        .chain([6, u64::MAX].map(ReadRange::Suffix));
    for range in ranges {
        match open(&*store, "a").read(range.clone()) {
            Err(StoreError::OutOfRange { key, len: 5, .. }) => assert_eq!(key.as_str(), "a"),
            other => panic!("{range:?}: {other:?}"),
        }
    }
}

fn large_objects_are_whole(make: Make<'_>) {
    let store = make();
    let data = pattern(3, (5 << 20) + 13);
    put(&*store, "large", &data);
    assert!(get(&*store, "large").unwrap() == data, "5 MiB came back different");
    let object = open(&*store, "large");
    let middle = object.read(ReadRange::Bounded(1 << 20..4 << 20)).unwrap();
    assert!(*middle == data[1 << 20..4 << 20], "3 MiB of it came back different");
}

fn a_version_stands_for_the_bytes(make: Make<'_>) {
    let store = make();
    let published = put(&*store, "a", b"0000");
    assert_eq!(published, version(&*store, "a"));
    assert_eq!(published, version(&*store, "a"));
    // As fast as possible: two versions differ even if they have the same length, were written at
    // the same moment, or reuse what a removal has freed.
    let mut seen = vec![published];
    for i in 1_u16..40 {
        if i % 3 == 0 {
            store.delete(&key("a"), &Condition::None).unwrap();
        }
        let published = put(&*store, "a", format!("{i:04}").as_bytes());
        assert!(!seen.contains(&published), "version {i} was seen before");
        assert_eq!(published, version(&*store, "a"));
        seen.push(published);
    }
}

fn an_open_object_does_not_mix_versions(make: Make<'_>) {
    let store = make();
    let (old, new) = (pattern(4, 9_000), pattern(5, 9_000));
    put(&*store, "a", &old);
    let object = open(&*store, "a");
    assert_eq!(*object.read(ReadRange::Bounded(0..4_000)).unwrap(), old[..4_000]);
    put(&*store, "a", &new);
    match object.read(ReadRange::Bounded(4_000..9_000)) {
        Ok(read) => assert_eq!(*read, old[4_000..]),
        Err(StoreError::Changed { key }) => assert_eq!(key.as_str(), "a"),
        Err(other) => panic!("{other:?}"),
    }
    assert_eq!(get(&*store, "a").unwrap(), new);
}

fn an_open_object_survives_its_removal_or_says_so(make: Make<'_>) {
    let store = make();
    let data = pattern(6, 9_000);
    put(&*store, "a", &data);
    let object = open(&*store, "a");
    assert_eq!(*object.read(ReadRange::Suffix(10)).unwrap(), data[8_990..]);
    store.delete(&key("a"), &Condition::None).unwrap();
    match object.read(ReadRange::All) {
        Ok(read) => assert_eq!(*read, data),
        Err(StoreError::Changed { .. } | StoreError::NotFound { .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
}
