use super::{Make, create, get, key, open, pattern, put, suite};
use crate::{CreateOptions, Listing, Store, StoreError};

suite![
    appends_land_where_they_say,
    what_is_reserved_can_be_written_in_any_order,
    what_is_reserved_and_not_written_is_told,
    a_head_is_kept_free_and_filled_at_the_end,
    a_head_of_another_length_is_refused,
    bytes_of_another_object_can_be_appended,
    bytes_of_another_store_can_be_appended,
    appending_past_the_end_of_the_source_is_an_error,
    nothing_is_seen_before_it_is_published,
    what_is_given_up_leaves_nothing,
];

fn publish(store: &dyn Store, writer: Box<dyn crate::ObjectWriter>) {
    store.publish(vec![writer.finish(&[]).unwrap()]).unwrap();
}

fn appends_land_where_they_say(make: Make<'_>) {
    let store = make();
    let writer = create(&*store, "a");
    assert_eq!(writer.append(b"one").unwrap(), 0);
    assert_eq!(writer.append(b"").unwrap(), 3);
    assert_eq!(writer.append(b"two").unwrap(), 3);
    publish(&*store, writer);
    assert_eq!(get(&*store, "a").unwrap(), b"onetwo");
}

fn what_is_reserved_can_be_written_in_any_order(make: Make<'_>) {
    let store = make();
    let writer = create(&*store, "a");
    let Some(first) = writer.reserve(3).unwrap() else { return };
    let second = writer.reserve(5).unwrap().unwrap();
    assert_eq!((first, second), (0, 3));
    assert_eq!(writer.append(b"end").unwrap(), 8);
    writer.write_reserved(second, b"three").unwrap();
    writer.write_reserved(first, b"two").unwrap();
    publish(&*store, writer);
    assert_eq!(get(&*store, "a").unwrap(), b"twothreeend");
}

fn what_is_reserved_and_not_written_is_told(make: Make<'_>) {
    let store = make();
    let writer = create(&*store, "a");
    if writer.reserve(3).unwrap().is_some() {
        writer.append(b"end").unwrap();
        writer.finish(&[]).unwrap_err();
    }
    assert_eq!(store.list(None).unwrap(), Listing::default());
}

fn a_head_is_kept_free_and_filled_at_the_end(make: Make<'_>) {
    let store = make();
    let options = CreateOptions { head: 4, ..Default::default() };
    let writer = store.create(&key("a"), options.clone()).unwrap();
    assert_eq!(writer.append(b"data").unwrap(), 4);
    store.publish(vec![writer.finish(b"head").unwrap()]).unwrap();
    assert_eq!(get(&*store, "a").unwrap(), b"headdata");
    let writer = store.create(&key("only"), options).unwrap();
    store.publish(vec![writer.finish(b"head").unwrap()]).unwrap();
    assert_eq!(get(&*store, "only").unwrap(), b"head");
}

fn a_head_of_another_length_is_refused(make: Make<'_>) {
    let store = make();
    for head in [&b""[..], b"hea", b"heads"] {
        let options = CreateOptions { head: 4, ..Default::default() };
        let writer = store.create(&key("a"), options).unwrap();
        writer.append(b"data").unwrap();
        assert!(writer.finish(head).is_err(), "a head of {} bytes for 4", head.len());
    }
    assert_eq!(store.list(None).unwrap(), Listing::default());
}

fn bytes_of_another_object_can_be_appended(make: Make<'_>) {
    let store = make();
    append_from(&*store, &*store);
}

fn bytes_of_another_store_can_be_appended(make: Make<'_>) {
    append_from(&*make(), &*make());
    append_from(&crate::MemoryStore::new(), &*make());
    append_from(&*make(), &crate::MemoryStore::new());
}

fn append_from(from: &dyn Store, to: &dyn Store) {
    let data = pattern(1, (3 << 20) + 5);
    put(from, "source", &data);
    let source = open(from, "source");
    let options = CreateOptions { head: 3, ..Default::default() };
    let writer = to.create(&key("target"), options).unwrap();
    assert_eq!(writer.append(b"before").unwrap(), 3);
    assert_eq!(writer.append_from(&*source, 7..7).unwrap(), 9);
    assert_eq!(writer.append_from(&*source, 7..3 << 20).unwrap(), 9);
    let end = 9 + (3 << 20) - 7;
    assert_eq!(writer.append(b"after").unwrap(), end);
    assert_eq!(writer.append_from(&*source, 0..1).unwrap(), end + 5);
    to.publish(vec![writer.finish(b"top").unwrap()]).unwrap();
    let expected = [b"topbefore", &data[7..3 << 20], b"after", &data[..1]].concat();
    assert!(get(to, "target").unwrap() == expected, "the object came back different");
    assert!(get(from, "source").unwrap() == data, "the source came back different");
}

#[allow(clippy::reversed_empty_ranges, reason = "it must be refused")]
fn appending_past_the_end_of_the_source_is_an_error(make: Make<'_>) {
    let store = make();
    put(&*store, "source", b"12345");
    let source = open(&*store, "source");
    for range in [0..6, 5..6, 6..6, 4..3, 0..u64::MAX] {
        let writer = create(&*store, "target");
        match writer.append_from(&*source, range.clone()) {
            Err(StoreError::OutOfRange { key, .. }) => assert_eq!(key.as_str(), "source"),
            other => panic!("{range:?}: {other:?}"),
        }
    }
    assert_eq!(get(&*store, "target"), None);
}

fn nothing_is_seen_before_it_is_published(make: Make<'_>) {
    let store = make();
    put(&*store, "folder/old", b"old");
    let old = store.list(Some(&key("folder"))).unwrap();
    let unseen = |when: &str| {
        assert_eq!(get(&*store, "folder/new"), None, "{when}");
        assert_eq!(get(&*store, "folder/old").unwrap(), b"old", "{when}");
        assert_eq!(store.list(Some(&key("folder"))).unwrap(), old, "{when}");
    };
    let writers = ["folder/new", "folder/old"].map(|at| create(&*store, at));
    unseen("after create");
    writers.iter().for_each(|writer| assert_eq!(writer.append(b"new").unwrap(), 0));
    unseen("after append");
    let staged = writers.map(|writer| writer.finish(&[]).unwrap());
    unseen("after finish");
    store.publish(staged.into()).unwrap();
    assert_eq!(get(&*store, "folder/new").unwrap(), b"new");
    assert_eq!(get(&*store, "folder/old").unwrap(), b"new");
}

fn what_is_given_up_leaves_nothing(make: Make<'_>) {
    let store = make();
    put(&*store, "folder/old", b"old");
    let old = store.list(Some(&key("folder"))).unwrap();
    for at in ["folder/new", "folder/old"] {
        let writer = create(&*store, at);
        writer.append(b"half").unwrap();
        drop(writer);
        let writer = create(&*store, at);
        writer.append(b"whole").unwrap();
        drop(writer.finish(&[]).unwrap());
    }
    assert_eq!(store.list(Some(&key("folder"))).unwrap(), old);
    assert_eq!(get(&*store, "folder/old").unwrap(), b"old");
}
