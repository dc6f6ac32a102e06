//! A store that ignores conditions is detected before anything is lost.

use shardine_store::{Condition, Store as _, StoreError, StoreExt as _};

use super::fake_s3::{FakeS3, Honours};
use super::{key, pattern, within};

const LARGE: usize = (5 << 20) + 1000;

fn refused(result: Result<shardine_store::Version, StoreError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, StoreError::Unsupported { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("--single-writer") && text.contains("s3://bucket/data"), "{text}");
}

#[test]
fn a_store_that_ignores_all_conditions_is_not_updated() {
    within(60, || {
        let fake = FakeS3::start(Honours { writes: false, completions: false });
        let store = fake.store(|options| options);
        let (small, large) = (pattern(100, 1), pattern(LARGE, 2));
        let old = store.put(&key("a"), b"old", Condition::None).unwrap();
        refused(store.put(&key("new"), &small, Condition::Absent));
        refused(store.put(&key("a"), &small, Condition::Unchanged(old)));
        let edit = store.edit(&key("a")).unwrap();
        refused(store.put(&key("a"), &small, edit.condition()));
        refused(store.put(&key("a"), &large, edit.condition()));
        refused(store.put(&key("new"), &large, Condition::Absent));
        assert_eq!(&*store.get(&key("a")).unwrap().unwrap(), b"old");
        assert_eq!(fake.names(), ["/bucket/data/a"], "nothing else is left there");
        assert_eq!(fake.uploads(), 0, "no upload is left there");
    });
}

#[test]
fn who_writes_alone_may_update_it() {
    within(60, || {
        let fake = FakeS3::start(Honours { writes: false, completions: false });
        let store = fake.store(|options| options.single_writer(true));
        for data in [pattern(100, 1), pattern(LARGE, 2)] {
            let (a, wrong) =
                (key("a"), Condition::Unchanged(shardine_store::Version("\"x\"".into())));
            store.put(&a, b"old", Condition::Absent).unwrap();
            // It still refuses what it can see.
            for condition in [Condition::Absent, wrong] {
                let error = store.put(&a, &data, condition).unwrap_err();
                assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
            }
            let edit = store.edit(&a).unwrap();
            store.put(&a, &data, edit.condition()).unwrap();
            assert_eq!(&*store.get(&a).unwrap().unwrap(), &*data);
            let edit = store.edit(&a).unwrap();
            store.delete(&a, &edit.condition()).unwrap();
        }
        assert!(fake.names().is_empty() && fake.uploads() == 0);
    });
}

#[test]
fn a_store_that_ignores_conditions_of_completions_takes_small_updates_only() {
    within(60, || {
        let fake = FakeS3::start(Honours { writes: true, completions: false });
        // A claim to the contrary is found to be wrong.
        let store = fake.store(|options| options.with("conditional_uploads", "true"));
        let large = pattern(LARGE, 3);
        store.put(&key("a"), b"old", Condition::Absent).unwrap();
        let edit = store.edit(&key("a")).unwrap();
        refused(store.put(&key("a"), &large, edit.condition()));
        refused(store.put(&key("b"), &large, Condition::Absent));
        store.put(&key("a"), b"new", edit.condition()).unwrap();
        let conflict = store.put(&key("a"), b"newer", edit.condition()).unwrap_err();
        assert!(matches!(conflict, StoreError::Conflict { .. }), "{conflict:?}");
        // Without a condition there is nothing to ignore.
        store.put(&key("c"), &large, Condition::None).unwrap();
        assert_eq!(&*store.get(&key("a")).unwrap().unwrap(), b"new");
        assert_eq!(&*store.get(&key("c")).unwrap().unwrap(), &*large);
        assert_eq!(fake.names(), ["/bucket/data/a", "/bucket/data/c"]);
        assert_eq!(fake.uploads(), 0);
    });
}

#[test]
fn a_store_that_honours_conditions_is_updated() {
    within(60, || {
        let fake = FakeS3::start(Honours { writes: true, completions: true });
        let store = fake.store(|options| options.with("conditional_uploads", "true"));
        let large = pattern(LARGE, 4);
        store.put(&key("a"), &large, Condition::Absent).unwrap();
        let edit = store.edit(&key("a")).unwrap();
        store.put(&key("a"), &large[1..], edit.condition()).unwrap();
        for condition in [Condition::Absent, edit.condition()] {
            let conflict = store.put(&key("a"), &large, condition).unwrap_err();
            assert!(matches!(conflict, StoreError::Conflict { .. }), "{conflict:?}");
        }
        assert_eq!(&*store.get(&key("a")).unwrap().unwrap(), &large[1..]);
        assert_eq!((fake.names().len(), fake.uploads()), (1, 0));
    });
}
