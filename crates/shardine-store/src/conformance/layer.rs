//! Checks that a layer forwards what it does not change.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::key;
use crate::layer::STORE_METHODS;
use crate::{
    Buffer, Condition, CreateOptions, Done, Edit, FileStore, FolderExchange, Folders, HeaderName,
    Headers, Key, Leftover, Listing, Object, ObjectWriter, Pending, ReadCost, ReadRange, Recovery,
    Staged, Store, StoreError, Version,
};

/// An empty store that answers every call and records which of its methods were called, and those
/// of its objects and writers. Clones share the record.
#[derive(Debug, Clone)]
pub struct Recorder {
    called: Called,
    files: FileStore,
}

#[derive(Debug, Clone, Default)]
struct Called(Arc<Mutex<BTreeSet<&'static str>>>);

impl Called {
    fn add(&self, method: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(method);
    }

    fn take(&self) -> BTreeSet<&'static str> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Checks that every call to a layer reaches the wrapped store and that its answer comes back; the
/// same for objects and writers, whichever method returned them.
///
/// `itself` lists the methods of [`Store`] that the layer does not forward to the same method of
/// the wrapped store, or whose answer it changes. A method that is listed but forwarded is a
/// failure as well.
///
/// ```
/// use shardine_store::{CountingStore, conformance};
///
/// conformance::check_layer(CountingStore::new, &["folders", "exchange", "above"]);
/// ```
pub fn check_layer<L: Store>(layer: impl FnOnce(Recorder) -> L, itself: &[&str]) {
    let recorder = Recorder { called: Called::default(), files: FileStore::new("/nowhere/at/all") };
    let called = recorder.called.clone();
    let layer = layer(recorder);
    let known: BTreeSet<_> = CALLS.iter().map(|(method, _)| *method).collect();
    let all: BTreeSet<_> = STORE_METHODS.iter().copied().collect();
    assert_eq!(known, all, "the methods of a store that are tried here");
    let mut wrong = Vec::new();
    for (method, call) in CALLS {
        called.take();
        let is_same = call(&layer);
        let passed_on = is_same && called.take().contains(method);
        if passed_on == itself.contains(method) {
            let what = if passed_on { "is passed on after all" } else { "is not passed on" };
            wrong.push(format!("{method} {what}"));
        }
    }
    for (way, object) in objects(&layer) {
        wrong.extend(unreached(&called, &OBJECT_CALLS, &object, way));
        for read in READS {
            called.take();
            read(&object);
            if !called.take().iter().any(|method| READ_METHODS.contains(method)) {
                wrong.push(format!("a read of what {way} gives does not reach it"));
            }
        }
    }
    for (way, writer) in writers(&layer) {
        wrong.extend(unreached(&called, &WRITER_CALLS, &writer, way));
        called.take();
        if writer.finish(&[]).is_err() || !called.take().contains("finish") {
            wrong.push(format!("finish of what {way} gives"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("; "));
}

/// A method by its name, and something that calls it.
type Named<F> = (&'static str, F);

/// Calls a method of a store, and returns whether its answer came from the store behind the layer.
type StoreCall = fn(&dyn Store) -> bool;

/// Calls a method of an object.
type ObjectCall = fn(&Arc<dyn Object>);

/// Calls a method of a writer.
type WriterCall = fn(&Box<dyn ObjectWriter>);

/// The methods that do not reach what is wrapped.
fn unreached<T>(
    called: &Called,
    calls: &[Named<fn(&T)>],
    on: &T,
    way: &'static str,
) -> Vec<String> {
    let reaches = |(method, call): &Named<fn(&T)>| {
        called.take();
        call(on);
        called.take().contains(method)
    };
    let missed = calls.iter().filter(|call| !reaches(call));
    missed.map(|(method, _)| format!("{method} of what {way} gives is not passed on")).collect()
}

fn objects(store: &dyn Store) -> Vec<(&'static str, Arc<dyn Object>)> {
    let Recovery::Before(before) = store.recover(&key("a")).unwrap() else {
        panic!("what was there before");
    };
    let Recovery::Before(unchanged) = store.before_change(&key("a")).unwrap() else {
        panic!("what was there before");
    };
    vec![
        ("open", store.open(&key("a"), None).unwrap()),
        ("open_stored", store.open_stored(&key("a")).unwrap()),
        ("edit", store.edit(&key("a")).unwrap().object),
        ("recover", before),
        ("before_change", unchanged),
    ]
}

fn writers(store: &dyn Store) -> Vec<(&'static str, Box<dyn ObjectWriter>)> {
    let options = CreateOptions::default;
    let with_headers = store.create_with_headers(&key("a"), options(), &Headers::default());
    vec![
        ("create", store.create(&key("a"), options()).unwrap()),
        ("create_with_headers", with_headers.unwrap()),
    ]
}

/// Calls each method, and returns whether the answer is that of a [`Recorder`].
const CALLS: &[Named<StoreCall>] = &[
    ("name", |store| store.name() == "recorder"),
    ("identity", |store| store.identity() == "recorder's identity"),
    ("folders", |store| store.folders().is_some()),
    ("exchange", |store| store.exchange().is_some()),
    ("above", |store| store.above().is_some_and(|(_, name)| name == key("here"))),
    ("open", |store| store.open(&key("a"), Some(&recorded())).is_ok()),
    ("open_stored", |store| store.open_stored(&key("a")).is_ok()),
    ("keeps_headers", |store| store.keeps_headers()),
    ("create_with_headers", |store| {
        let options = CreateOptions::default();
        store.create_with_headers(&key("a"), options, &Headers::default()).is_ok()
    }),
    ("can_list", |store| !store.can_list()),
    ("read_cost", |store| store.read_cost() == COST),
    ("create", |store| store.create(&key("a"), CreateOptions::default()).is_ok()),
    ("publish", |store| store.publish(vec![staged()]).is_ok_and(|v| v == [recorded()])),
    ("publish_later", |store| {
        store.publish_later(vec![staged()]).wait().is_ok_and(|v| v == [recorded()])
    }),
    ("edit", |store| store.edit(&key("a")).is_ok_and(|edit| edit.version == recorded())),
    ("delete", |store| store.delete(&key("a"), &Condition::None).is_ok()),
    ("delete_last", |store| store.delete_last(&key("a")).is_ok()),
    ("list", |store| store.list(Some(&key("a"))).is_ok_and(|listing| listing.more_unlisted == 7)),
    ("leftovers", |store| store.leftovers(None).is_ok()),
    ("remove_leftover", |store| store.remove_leftover(None, "a").is_ok_and(|gone| !gone)),
    ("recover", |store| matches!(store.recover(&key("a")), Ok(Recovery::Before(_)))),
    ("before_change", |store| matches!(store.before_change(&key("a")), Ok(Recovery::Before(_)))),
    ("remove_empty_folder", |store| store.remove_empty_folder(&key("a")).is_ok()),
];

/// Methods of an object that must reach the same method of the wrapped one.
const OBJECT_CALLS: [Named<ObjectCall>; 7] = [
    ("len", |object| assert_eq!(object.len(), Some(LEN))),
    ("version", |object| assert_eq!(object.version(), Some(recorded()))),
    ("check_unchanged", |object| object.check_unchanged().unwrap()),
    ("can_be_kept", |object| assert!(object.can_be_kept())),
    ("is_current", |object| assert!(object.is_current().unwrap())),
    ("headers", |object| assert!(!object.headers().is_empty())),
    ("file", |object| assert!(object.file().is_none())),
];

/// The ways to read an object. Each may reach the wrapped one by a different one of them.
const READS: [fn(&Arc<dyn Object>); 3] = [
    |object| assert_eq!(object.read(ReadRange::All).unwrap().len() as u64, LEN),
    |object| object.read_into(0, &mut [0; LEN as usize]).unwrap(),
    |object| {
        let done = |answer: Result<Buffer, StoreError>| assert!(answer.is_ok());
        Arc::clone(object).read_then(ReadRange::All, Box::new(done));
    },
];

const READ_METHODS: [&str; 3] = ["read", "read_into", "read_then"];

/// Methods of a writer that must reach the same method of the wrapped one.
const WRITER_CALLS: [Named<WriterCall>; 4] = [
    ("append", |writer| assert_eq!(writer.append(b"x").unwrap(), 3)),
    ("reserve", |writer| assert_eq!(writer.reserve(5).unwrap(), Some(4))),
    ("write_reserved", |writer| writer.write_reserved(4, b"12345").unwrap()),
    ("append_from", |writer| {
        let source = RecordedObject(Called::default());
        assert_eq!(writer.append_from(&source, 0..LEN).unwrap(), 9);
    }),
];

const LEN: u64 = 11;
const COST: ReadCost = ReadCost { request_in_bytes: 12_345, local: false, in_flight: 3 };

fn recorded() -> Version {
    Version("recorded".into())
}

fn staged() -> Staged {
    Staged::new(key("a"), ())
}

impl Recorder {
    fn object(&self) -> Arc<dyn Object> {
        Arc::new(RecordedObject(self.called.clone()))
    }
}

impl Store for Recorder {
    fn name(&self) -> String {
        self.called.add("name");
        "recorder".to_owned()
    }

    fn identity(&self) -> String {
        self.called.add("identity");
        "recorder's identity".to_owned()
    }

    fn folders(&self) -> Option<&dyn Folders> {
        self.called.add("folders");
        Some(&self.files)
    }

    fn exchange(&self) -> Option<&dyn FolderExchange> {
        self.called.add("exchange");
        Some(&self.files)
    }

    fn above(&self) -> Option<(Arc<dyn Store>, Key)> {
        self.called.add("above");
        Some((Arc::new(self.clone()), key("here")))
    }

    fn open(&self, _: &Key, _: Option<&Version>) -> Result<Arc<dyn Object>, StoreError> {
        self.called.add("open");
        Ok(self.object())
    }

    fn open_stored(&self, _: &Key) -> Result<Arc<dyn Object>, StoreError> {
        self.called.add("open_stored");
        Ok(self.object())
    }

    fn keeps_headers(&self) -> bool {
        self.called.add("keeps_headers");
        true
    }

    fn create_with_headers(
        &self,
        _: &Key,
        _: CreateOptions,
        _: &Headers,
    ) -> Result<Box<dyn ObjectWriter>, StoreError> {
        self.called.add("create_with_headers");
        Ok(Box::new(RecordedWriter(self.called.clone())))
    }

    fn can_list(&self) -> bool {
        self.called.add("can_list");
        false
    }

    fn read_cost(&self) -> ReadCost {
        self.called.add("read_cost");
        COST
    }

    fn create(&self, _: &Key, _: CreateOptions) -> Result<Box<dyn ObjectWriter>, StoreError> {
        self.called.add("create");
        Ok(Box::new(RecordedWriter(self.called.clone())))
    }

    fn publish(&self, staged: Vec<Staged>) -> Result<Vec<Version>, StoreError> {
        self.called.add("publish");
        Ok(staged.iter().map(|_| recorded()).collect())
    }

    fn publish_later(&self, staged: Vec<Staged>) -> Pending {
        self.called.add("publish_later");
        Pending::done(Ok(staged.iter().map(|_| recorded()).collect()))
    }

    fn edit(&self, _: &Key) -> Result<Edit, StoreError> {
        self.called.add("edit");
        Ok(Edit::unlocked(self.object(), recorded()))
    }

    fn delete(&self, _: &Key, _: &Condition) -> Result<(), StoreError> {
        self.called.add("delete");
        Ok(())
    }

    fn delete_last(&self, _: &Key) -> Result<(), StoreError> {
        self.called.add("delete_last");
        Ok(())
    }

    fn list(&self, _: Option<&Key>) -> Result<Listing, StoreError> {
        self.called.add("list");
        Ok(Listing { more_unlisted: 7, ..Listing::default() })
    }

    fn leftovers(&self, _: Option<&Key>) -> Result<Vec<Leftover>, StoreError> {
        self.called.add("leftovers");
        Ok(Vec::new())
    }

    fn remove_leftover(&self, _: Option<&Key>, _: &str) -> Result<bool, StoreError> {
        self.called.add("remove_leftover");
        Ok(false)
    }

    fn recover(&self, _: &Key) -> Result<Recovery, StoreError> {
        self.called.add("recover");
        Ok(Recovery::Before(self.object()))
    }

    fn before_change(&self, _: &Key) -> Result<Recovery, StoreError> {
        self.called.add("before_change");
        Ok(Recovery::Before(self.object()))
    }

    fn remove_empty_folder(&self, _: &Key) -> Result<(), StoreError> {
        self.called.add("remove_empty_folder");
        Ok(())
    }
}

#[derive(Debug)]
struct RecordedObject(Called);

impl Object for RecordedObject {
    fn len(&self) -> Option<u64> {
        self.0.add("len");
        Some(LEN)
    }

    fn version(&self) -> Option<Version> {
        self.0.add("version");
        Some(recorded())
    }

    fn read(&self, range: ReadRange) -> Result<Buffer, StoreError> {
        self.0.add("read");
        let range = range.resolve(&key("a"), LEN)?;
        Ok(bytes::Bytes::from(vec![0; (range.end - range.start) as usize]).into())
    }

    fn read_into(&self, _: u64, into: &mut [u8]) -> Result<(), StoreError> {
        self.0.add("read_into");
        into.fill(0);
        Ok(())
    }

    fn read_then(self: Arc<Self>, range: ReadRange, done: Done) {
        self.0.add("read_then");
        done(self.read(range));
    }

    fn check_unchanged(&self) -> Result<(), StoreError> {
        self.0.add("check_unchanged");
        Ok(())
    }

    fn can_be_kept(&self) -> bool {
        self.0.add("can_be_kept");
        true
    }

    fn is_current(&self) -> Result<bool, StoreError> {
        self.0.add("is_current");
        Ok(true)
    }

    fn headers(&self) -> Headers {
        self.0.add("headers");
        let mut headers = Headers::default();
        headers.insert(HeaderName::ContentType, "recorded".to_owned());
        headers
    }

    fn file(&self) -> Option<&std::fs::File> {
        self.0.add("file");
        None
    }
}

#[derive(Debug)]
struct RecordedWriter(Called);

impl ObjectWriter for RecordedWriter {
    fn append(&self, _: &[u8]) -> Result<u64, StoreError> {
        self.0.add("append");
        Ok(3)
    }

    fn reserve(&self, _: u64) -> Result<Option<u64>, StoreError> {
        self.0.add("reserve");
        Ok(Some(4))
    }

    fn write_reserved(&self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        self.0.add("write_reserved");
        Ok(())
    }

    fn append_from(&self, _: &dyn Object, _: Range<u64>) -> Result<u64, StoreError> {
        self.0.add("append_from");
        Ok(9)
    }

    fn finish(self: Box<Self>, _: &[u8]) -> Result<Staged, StoreError> {
        self.0.add("finish");
        Ok(staged())
    }
}
