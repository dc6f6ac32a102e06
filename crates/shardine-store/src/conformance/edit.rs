use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::{Make, get, is_conflict, key, put, refuses_conditional_removal, suite, version};
use crate::{Condition, Edit, ReadRange, Store, StoreError, StoreExt};

suite![
    an_edit_of_nothing_is_not_found,
    an_edit_shows_the_object_as_it_is,
    what_is_edited_is_replaced_and_removed_under_its_condition,
    a_condition_holds_for_one_change,
    an_edit_that_is_given_up_changes_nothing,
    of_two_edits_one_waits_or_fails,
    edits_of_many_threads_lose_no_update,
];

fn edit(store: &dyn Store, at: &str) -> Edit {
    store.edit(&key(at)).expect("an object to edit")
}

fn text(edit: &Edit) -> Vec<u8> {
    edit.object.read(ReadRange::All).expect("a read").to_vec()
}

fn an_edit_of_nothing_is_not_found(make: Make<'_>) {
    let store = make();
    let missing = |at: &str| {
        let found = store.edit(&key(at));
        assert!(matches!(found, Err(StoreError::NotFound { .. })), "{found:?}");
    };
    missing("a");
    put(&*store, "folder/a", b"1");
    missing("folder");
    missing("folder/b");
    missing("folder/a/b");
    store.delete(&key("folder/a"), &Condition::None).unwrap();
    missing("folder/a");
}

fn an_edit_shows_the_object_as_it_is(make: Make<'_>) {
    let store = make();
    put(&*store, "a", b"old");
    put(&*store, "a", b"new");
    let edit = edit(&*store, "a");
    assert_eq!(text(&edit), b"new");
    assert_eq!(edit.version, version(&*store, "a"));
    assert_eq!(edit.object.read(ReadRange::Bounded(1..3)).unwrap()[..], *b"ew");
}

fn what_is_edited_is_replaced_and_removed_under_its_condition(make: Make<'_>) {
    let store = make();
    put(&*store, "a", b"1");
    for i in 2..6 {
        let edit = edit(&*store, "a");
        let new = [text(&edit), vec![i]].concat();
        store.put(&key("a"), &new, edit.condition()).unwrap();
    }
    assert_eq!(get(&*store, "a").unwrap(), [b'1', 2, 3, 4, 5]);
    let edit = edit(&*store, "a");
    refuses_conditional_removal(&*store, "a", &edit.condition());
}

fn a_condition_holds_for_one_change(make: Make<'_>) {
    let store = make();
    put(&*store, "a", b"1");
    let condition = {
        let edit = edit(&*store, "a");
        store.put(&key("a"), b"2", edit.condition()).unwrap();
        edit.condition()
    };
    let again = store.put(&key("a"), b"3", condition.clone());
    assert!(is_conflict(&again, "a"), "{again:?}");
    let removed = store.delete(&key("a"), &condition);
    let refused = matches!(removed, Err(StoreError::Unsupported { .. }));
    assert!(refused || is_conflict(&removed, "a"), "{removed:?}");
    assert_eq!(get(&*store, "a").unwrap(), b"2");
}

fn an_edit_that_is_given_up_changes_nothing(make: Make<'_>) {
    let store = make();
    put(&*store, "a", b"1");
    let before = version(&*store, "a");
    drop(edit(&*store, "a"));
    assert_eq!(version(&*store, "a"), before);
    put(&*store, "a", b"2");
    assert_eq!(get(&*store, "a").unwrap(), b"2");
}

/// Others can read in the meantime.
fn of_two_edits_one_waits_or_fails(make: Make<'_>) {
    let store = make();
    put(&*store, "a", b"1");
    let first = edit(&*store, "a");
    let (began, second_began) = mpsc::channel();
    thread::scope(|scope| {
        let store = &*store;
        let second = scope.spawn(move || {
            let second = edit(store, "a");
            began.send(()).unwrap();
            let new = [text(&second), b"b".to_vec()].concat();
            store.put(&key("a"), &new, second.condition())
        });
        let waits = second_began.recv_timeout(Duration::from_millis(50)).is_err();
        assert_eq!(get(store, "a").unwrap()[0], b'1');
        let new = [text(&first), b"a".to_vec()].concat();
        let put = store.put(&key("a"), &new, first.condition());
        drop(first);
        let second = second.join().unwrap();
        let found = get(store, "a").unwrap();
        match (put, second) {
            (Ok(_), Ok(_)) => assert_eq!((waits, &*found), (true, b"1ab".as_slice())),
            (Ok(_), second) => {
                assert!(is_conflict(&second, "a"), "{second:?}");
                assert_eq!(found, b"1a");
            }
            (put, second) => {
                assert!(is_conflict(&put, "a") && second.is_ok(), "{put:?} {second:?}");
                assert_eq!(found, b"1b");
            }
        }
    });
}

fn edits_of_many_threads_lose_no_update(make: Make<'_>) {
    const THREADS: usize = 4;
    const EACH: usize = 10;
    let store = make();
    put(&*store, "counter", b"0000");
    let add_one = || {
        loop {
            let edit = edit(&*store, "counter");
            let found = match edit.object.read(ReadRange::All) {
                Ok(found) => found,
                Err(StoreError::Changed { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            let count: usize = std::str::from_utf8(&found).unwrap().parse().unwrap();
            let new = format!("{:04}", count + 1);
            let swapped = store.put(&key("counter"), new.as_bytes(), edit.condition());
            match swapped {
                Ok(_) => break,
                _ if is_conflict(&swapped, "counter") => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..EACH).for_each(|_| add_one()));
        }
    });
    let expected = format!("{:04}", THREADS * EACH);
    assert_eq!(get(&*store, "counter").unwrap(), expected.as_bytes());
}
