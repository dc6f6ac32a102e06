use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::{Make, create, get, is_conflict, key, open, pattern, put, suite};
use crate::{Condition, CreateOptions, ReadRange, StoreError, StoreExt};

suite![
    appends_of_many_threads_land_exactly_once,
    a_swap_loses_no_update,
    of_many_that_create_one_wins,
    readers_see_whole_objects_while_they_are_replaced,
    many_threads_publish_into_new_folders,
];

const THREADS: usize = 6;

fn appends_of_many_threads_land_exactly_once(make: Make<'_>) {
    let store = make();
    let data = pattern(1, 40_000);
    put(&*store, "source", &data);
    let source = open(&*store, "source");
    let writer =
        store.create(&key("target"), CreateOptions { head: 11, ..Default::default() }).unwrap();
    let piece = |thread: usize, i: usize| {
        let start = thread * 1_000 + i * 13;
        start..start + 1 + (i * 577) % 3_000
    };
    let append = |thread: usize, i: usize| {
        let range = piece(thread, i);
        let offset = if i.is_multiple_of(4) {
            writer.append_from(&*source, range.start as u64..range.end as u64)
        } else {
            writer.append(&data[range.clone()])
        };
        (offset.unwrap() as usize, range)
    };
    let mut landed: Vec<_> = thread::scope(|scope| {
        let append = &append;
        let threads: Vec<_> = (0..THREADS)
            .map(|t| scope.spawn(move || (0..40).map(|i| append(t, i)).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    store.publish(vec![writer.finish(b"hello world").unwrap()]).unwrap();
    let object = get(&*store, "target").unwrap();
    landed.sort_by_key(|(offset, _)| *offset);
    let mut end = 11;
    for (offset, range) in landed {
        assert_eq!(offset, end, "a gap or an overlap");
        end += range.len();
        assert!(object[offset..end] == data[range], "wrong bytes at {offset}..{end}");
    }
    assert_eq!(object.len(), end);
    assert_eq!(object[..11], *b"hello world");
}

fn a_swap_loses_no_update(make: Make<'_>) {
    const EACH: usize = 12;
    let store = make();
    put(&*store, "counter", b"0000");
    let add_one = || {
        loop {
            let object = open(&*store, "counter");
            let text = match object.read(ReadRange::All) {
                Ok(text) => text,
                Err(StoreError::Changed { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            let count: usize = std::str::from_utf8(&text).unwrap().parse().unwrap();
            let condition = Condition::Unchanged(object.version().unwrap());
            // Closed before the swap, so that a store may reuse whatever it can.
            drop((object, text));
            let text = format!("{:04}", count + 1);
            let swapped = store.put(&key("counter"), text.as_bytes(), condition);
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

fn of_many_that_create_one_wins(make: Make<'_>) {
    let store = make();
    for round in 0..8 {
        let at = format!("folder/{round}");
        let (barrier, winners) = (Barrier::new(THREADS), AtomicUsize::new(usize::MAX));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (store, at, barrier, winners) = (&store, &at, &barrier, &winners);
                scope.spawn(move || {
                    barrier.wait();
                    let put = store.put(&key(at), &[thread as u8], Condition::Absent);
                    match put {
                        Ok(_) => {
                            let former = winners.swap(thread, Ordering::SeqCst);
                            assert_eq!(former, usize::MAX, "two have won");
                        }
                        _ => assert!(is_conflict(&put, at), "{put:?}"),
                    }
                });
            }
        });
        let winner = winners.into_inner() as u8;
        assert_eq!(get(&*store, &at).unwrap(), [winner]);
    }
}

fn readers_see_whole_objects_while_they_are_replaced(make: Make<'_>) {
    const LEN: usize = 100_000;
    let store = make();
    put(&*store, "a", &[0; LEN]);
    let done = AtomicBool::new(false);
    let read = || {
        let object = open(&*store, "a");
        let half = LEN as u64 / 2;
        let first = object.read(ReadRange::Bounded(0..half))?;
        let second = object.read(ReadRange::Suffix(half))?;
        assert!(first.iter().chain(&*second).all(|b| *b == first[0]), "two versions were mixed");
        Ok(())
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    match read() {
                        Ok(()) | Err(StoreError::Changed { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for i in 1..=30 {
            put(&*store, "a", &[i; LEN]);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(get(&*store, "a").unwrap(), [30; LEN]);
}

fn many_threads_publish_into_new_folders(make: Make<'_>) {
    let store = make();
    let at = |thread: usize, i: usize| format!("array/c/{}/{i}/{thread}", i % 2);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let stage = |i| {
                    let writer = create(&**store, &at(thread, i));
                    writer.append(at(thread, i).as_bytes()).unwrap();
                    writer.finish(&[]).unwrap()
                };
                store.publish((0..6).map(stage).collect()).unwrap();
            });
        }
    });
    for thread in 0..THREADS {
        for i in 0..6 {
            assert_eq!(get(&*store, &at(thread, i)).unwrap(), at(thread, i).as_bytes());
        }
    }
}
