use std::sync::{Arc, Mutex};
use std::thread;

use super::{Make, ThreadEach, open, pattern, put, suite};
use crate::{Buffer, Read, ReadRange, Reads, Store, StoreError, StoreExt};

suite![
    a_batch_delivers_each_answer_once,
    a_batch_delivers_errors_in_their_place,
    an_empty_batch_ends,
    a_batch_draws_its_reads_on_the_calling_thread,
];

type Answers = Vec<(usize, Result<Buffer, StoreError>)>;

/// Runs a batch and returns its answers by position.
fn read_batch(store: &dyn Store, reads: &mut dyn Reads) -> Answers {
    let answers = Mutex::new(Vec::new());
    store.read_batch(&ThreadEach, reads, &|i, answer| answers.lock().unwrap().push((i, answer)));
    let mut answers = answers.into_inner().unwrap();
    answers.sort_by_key(|(i, _)| *i);
    answers
}

fn a_batch_delivers_each_answer_once(make: Make<'_>) {
    let store = make();
    let data = [pattern(1, 100_000), pattern(2, 70_000)];
    put(&*store, "a", &data[0]);
    put(&*store, "b/c", &data[1]);
    let objects = [open(&*store, "a"), open(&*store, "b/c")];
    let range = |i: usize| i * 97..i * 97 + 1 + i * 31 % 4_000;
    let mut reads = (0..500).map(|i| Read {
        object: Arc::clone(&objects[i % 2]),
        range: ReadRange::Bounded(range(i).start as u64..range(i).end as u64),
    });
    let answers = read_batch(&*store, &mut reads);
    assert!(answers.iter().map(|(i, _)| *i).eq(0..500), "an answer is missing or came twice");
    for (i, answer) in answers {
        assert_eq!(*answer.unwrap(), data[i % 2][range(i)], "read {i}");
    }
}

fn a_batch_delivers_errors_in_their_place(make: Make<'_>) {
    let store = make();
    put(&*store, "a", b"12345");
    let object = open(&*store, "a");
    let mut reads = (0..30_u64).map(|i| Read {
        object: Arc::clone(&object),
        range: if i % 3 == 1 { ReadRange::Suffix(6 + i) } else { ReadRange::Bounded(1..3) },
    });
    let answers = read_batch(&*store, &mut reads);
    assert!(answers.iter().map(|(i, _)| *i).eq(0..30), "an answer is missing or came twice");
    for (i, answer) in answers {
        match (i % 3, answer) {
            (1, Err(StoreError::OutOfRange { .. })) => {}
            (0 | 2, Ok(read)) => assert_eq!(*read, *b"23"),
            (_, other) => panic!("read {i}: {other:?}"),
        }
    }
}

fn an_empty_batch_ends(make: Make<'_>) {
    assert!(read_batch(&*make(), &mut std::iter::empty()).is_empty());
}

fn a_batch_draws_its_reads_on_the_calling_thread(make: Make<'_>) {
    let store = make();
    put(&*store, "a", b"12345");
    let object = open(&*store, "a");
    let caller = thread::current().id();
    let mut reads = (0..10).map(|_| {
        assert_eq!(thread::current().id(), caller);
        Read { object: Arc::clone(&object), range: ReadRange::All }
    });
    assert_eq!(read_batch(&*store, &mut reads).len(), 10);
}
