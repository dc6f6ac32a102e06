use super::{
    Make, create, get, is_conflict, key, put, refuses_conditional_removal, suite, version,
};
use crate::{Condition, CreateOptions, Store, StoreError, StoreExt};

suite![
    an_empty_batch_is_published,
    versions_come_in_the_order_of_the_batch,
    absent_holds_only_for_what_is_not_there,
    unchanged_holds_only_for_the_same_version,
    conditions_are_checked_at_publication,
    a_failed_batch_is_published_up_to_the_failure,
    what_another_store_staged_is_refused,
    a_removed_object_is_gone,
    a_removal_obeys_its_condition,
];

fn an_empty_batch_is_published(make: Make<'_>) {
    assert_eq!(make().publish(Vec::new()).unwrap(), []);
}

fn versions_come_in_the_order_of_the_batch(make: Make<'_>) {
    let store = make();
    let keys: Vec<_> = (0..20).map(|i| format!("{}/{i}", i % 3)).collect();
    let stage = |at: &String| {
        let writer = create(&*store, at);
        writer.append(at.as_bytes()).unwrap();
        writer.finish(&[]).unwrap()
    };
    let versions = store.publish(keys.iter().map(stage).collect()).unwrap();
    assert_eq!(versions.len(), keys.len());
    for (at, published) in keys.iter().zip(versions) {
        assert_eq!(get(&*store, at).unwrap(), at.as_bytes());
        assert_eq!(version(&*store, at), published);
    }
}

fn absent_holds_only_for_what_is_not_there(make: Make<'_>) {
    let store = make();
    store.put(&key("a/b"), b"first", Condition::Absent).unwrap();
    let second = store.put(&key("a/b"), b"second", Condition::Absent);
    assert!(is_conflict(&second, "a/b"), "{second:?}");
    assert_eq!(get(&*store, "a/b").unwrap(), b"first");
    store.delete(&key("a/b"), &Condition::None).unwrap();
    store.put(&key("a/b"), b"third", Condition::Absent).unwrap();
    assert_eq!(get(&*store, "a/b").unwrap(), b"third");
}

fn unchanged_holds_only_for_the_same_version(make: Make<'_>) {
    let store = make();
    let first = put(&*store, "a", b"first");
    let swap = |data: &[u8], from| store.put(&key("a"), data, Condition::Unchanged(from));
    let second = swap(b"other", first.clone()).unwrap();
    let late = swap(b"wrong", first.clone());
    assert!(is_conflict(&late, "a"), "{late:?}");
    assert_eq!(get(&*store, "a").unwrap(), b"other");
    swap(b"third", second.clone()).unwrap();
    store.delete(&key("a"), &Condition::None).unwrap();
    let gone = swap(b"wrong", second);
    assert!(is_conflict(&gone, "a"), "{gone:?}");
    assert_eq!(get(&*store, "a"), None);
}

fn conditions_are_checked_at_publication(make: Make<'_>) {
    let store = make();
    let begin = |condition| {
        let options = CreateOptions { condition, ..Default::default() };
        let writer = store.create(&key("a"), options).unwrap();
        writer.append(b"slow").unwrap();
        writer.finish(&[]).unwrap()
    };
    let staged = begin(Condition::Absent);
    let version = put(&*store, "a", b"fast");
    let late = store.publish(vec![staged]);
    assert!(is_conflict(&late, "a"), "{late:?}");
    let staged = begin(Condition::Unchanged(version));
    put(&*store, "a", b"quick");
    let late = store.publish(vec![staged]);
    assert!(is_conflict(&late, "a"), "{late:?}");
    assert_eq!(get(&*store, "a").unwrap(), b"quick");
}

fn a_failed_batch_is_published_up_to_the_failure(make: Make<'_>) {
    let store = make();
    put(&*store, "taken", b"old");
    let stage = |(at, condition)| {
        let options = CreateOptions { condition, ..Default::default() };
        let writer = store.create(&key(at), options).unwrap();
        writer.append(b"new").unwrap();
        writer.finish(&[]).unwrap()
    };
    let batch = [
        ("z/before", Condition::None),
        ("before", Condition::Absent),
        ("taken", Condition::Absent),
        ("after", Condition::None),
        ("a/after", Condition::None),
    ];
    let result = store.publish(batch.map(stage).into());
    assert!(is_conflict(&result, "taken"), "{result:?}");
    assert_eq!(get(&*store, "z/before").unwrap(), b"new");
    assert_eq!(get(&*store, "before").unwrap(), b"new");
    assert_eq!(get(&*store, "taken").unwrap(), b"old");
    assert_eq!(get(&*store, "after"), None);
    assert_eq!(get(&*store, "a/after"), None);
    let objects = store.list(None).unwrap().objects;
    assert_eq!(objects, [(key("before"), 3), (key("taken"), 3)]);
}

fn what_another_store_staged_is_refused(make: Make<'_>) {
    let (one, other) = (make(), make());
    let refuse = |from: &dyn Store, to: &dyn Store| {
        let own = create(to, "own").finish(&[]).unwrap();
        let foreign = create(from, "foreign").finish(&[]).unwrap();
        let result = to.publish(vec![own, foreign]);
        assert!(
            matches!(&result, Err(StoreError::ForeignStaged { key }) if key.as_str() == "foreign"),
            "{result:?}"
        );
        // The error comes before anything is published.
        for store in [from, to] {
            assert_eq!(store.list(None).unwrap().objects, []);
        }
    };
    refuse(&*one, &*other);
    refuse(&*one, &crate::MemoryStore::new());
    refuse(&crate::MemoryStore::new(), &*one);
}

fn a_removed_object_is_gone(make: Make<'_>) {
    let store = make();
    put(&*store, "a/b", b"x");
    put(&*store, "a/c", b"y");
    store.delete(&key("a/b"), &Condition::None).unwrap();
    assert_eq!(get(&*store, "a/b"), None);
    assert_eq!(store.list(Some(&key("a"))).unwrap().objects, [(key("a/c"), 1)]);
    // Removing a missing object is not an error, and removes nothing else.
    for missing in ["a/b", "a", "nothing", "no/such/folder", "a/c/below"] {
        store.delete(&key(missing), &Condition::None).unwrap();
    }
    assert_eq!(get(&*store, "a/c").unwrap(), b"y");
}

fn a_removal_obeys_its_condition(make: Make<'_>) {
    let store = make();
    let old = put(&*store, "a", b"old");
    let new = put(&*store, "a", b"new");
    if refuses_conditional_removal(&*store, "a", &Condition::Unchanged(new.clone())) {
        let absent = store.delete(&key("a"), &Condition::Absent);
        assert!(is_conflict(&absent, "a"), "{absent:?}");
        store.delete(&key("b"), &Condition::Absent).unwrap();
        return;
    }
    let new = put(&*store, "a", b"new");
    for condition in [Condition::Absent, Condition::Unchanged(old.clone())] {
        let result = store.delete(&key("a"), &condition);
        assert!(is_conflict(&result, "a"), "{condition:?}: {result:?}");
        assert_eq!(get(&*store, "a").unwrap(), b"new");
    }
    store.delete(&key("a"), &Condition::Unchanged(new.clone())).unwrap();
    assert_eq!(get(&*store, "a"), None);
    for missing in ["a", "no/such/folder"] {
        store.delete(&key(missing), &Condition::Absent).unwrap();
        let result = store.delete(&key(missing), &Condition::Unchanged(new.clone()));
        assert!(is_conflict(&result, missing), "{result:?}");
    }
}
