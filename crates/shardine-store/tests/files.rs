//! What holds for objects as files, beyond what holds for every store.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use shardine_store::{
    BufferPool, Condition, CreateOptions, DiskObserver, DiskStep, Edit, FileStore, Key,
    LeftoverKind, Listing, MAX_SMALL_OBJECT, ReadRange, Recovery, Staged, Store, StoreError,
    StoreExt, UnlistedKind, Verdict, is_own_file,
};
use tempfile::TempDir;

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn store() -> (TempDir, FileStore) {
    let folder = TempDir::new().unwrap();
    let store = FileStore::new(folder.path());
    (folder, store)
}

fn put(store: &FileStore, at: &str, data: &[u8]) {
    store.put(&key(at), data, Condition::None).unwrap();
}

fn stage(store: &FileStore, at: &str, data: &[u8]) -> Staged {
    let writer = store.create(&key(at), CreateOptions::default()).unwrap();
    writer.append(data).unwrap();
    writer.finish(&[]).unwrap()
}

/// Fails a test that could not run, since it has not passed, unless the environment allows skipping
/// it.
fn left_out(why: &str) {
    let may = std::env::var_os("SHARDINE_MAY_SKIP").is_some();
    assert!(may, "{why}; with SHARDINE_MAY_SKIP=1 this test is left out");
    // Bypasses the output capture of the test harness.
    drop(writeln!(io::stderr(), "SKIPPED, {why}"));
}

/// All names in a folder, including temporary ones.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_key_is_a_path_below_the_root() {
    let (folder, store) = store();
    put(&store, "array/c/0/1", b"chunk");
    assert_eq!(fs::read(folder.path().join("array/c/0/1")).unwrap(), b"chunk");
    assert_eq!(store.name(), folder.path().display().to_string());
}

#[test]
fn a_root_that_does_not_exist_is_empty_until_something_is_written() {
    let (folder, _) = store();
    let root = folder.path().join("not/yet");
    let store = FileStore::new(&root);
    assert!(matches!(store.open(&key("a"), None), Err(StoreError::NotFound { .. })));
    assert_eq!(store.list(None).unwrap(), Listing::default());
    store.delete(&key("a"), &Condition::None).unwrap();
    assert!(!root.exists());
    put(&store, "a", b"x");
    assert_eq!(fs::read(root.join("a")).unwrap(), b"x");
}

#[test]
fn an_open_object_costs_one_descriptor_and_gives_it_back() {
    let (folder, store) = store();
    put(&store, "a", b"x");
    let path = folder.path().join("a").canonicalize().unwrap();
    let open = || {
        let own = fs::read_dir("/proc/self/fd").unwrap();
        own.filter(|fd| fs::read_link(fd.as_ref().unwrap().path()).is_ok_and(|p| p == path)).count()
    };
    if !Path::new("/proc/self/fd").exists() {
        left_out("this system does not list descriptors");
        return;
    }
    let object = store.open(&key("a"), None).unwrap();
    object.read(ReadRange::All).unwrap();
    object.read(ReadRange::All).unwrap();
    assert_eq!(open(), 1);
    drop(object);
    assert_eq!(open(), 0);
}

#[test]
fn memory_for_reads_is_shared_and_used_again() {
    let folder = TempDir::new().unwrap();
    let pool = BufferPool::new(1 << 20);
    let stores =
        ["a", "b"].map(|name| FileStore::with_pool(folder.path().join(name), pool.clone()));
    let addresses = stores.map(|store| {
        put(&store, "object", &[7; 10_000]);
        store.get(&key("object")).unwrap().unwrap().as_ptr() as usize
    });
    assert_eq!(addresses[0], addresses[1]);
}

#[test]
fn a_sparse_file_of_any_length_is_an_error_and_not_the_end() {
    if fs::read("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.starts_with(b"1")) {
        left_out("this system promises any amount of memory");
        return;
    }
    let (folder, store) = store();
    fs::File::create(folder.path().join("sparse")).unwrap().set_len(1 << 43).unwrap();
    let object = store.open(&key("sparse"), None).unwrap();
    assert_eq!(*object.read(ReadRange::Suffix(3)).unwrap(), [0; 3]);
    let error = object.read(ReadRange::All).unwrap_err();
    assert!(matches!(error, StoreError::Io { operation: "read", .. }), "{error}");
}

#[test]
fn a_folder_is_not_an_object() {
    let (folder, store) = store();
    put(&store, "folder/object", b"x");
    assert!(matches!(store.open(&key("folder"), None), Err(StoreError::NotFound { .. })));
    let staged = [stage(&store, "other", b"x"), stage(&store, "folder", b"x")];
    let error = store.publish(staged.into()).unwrap_err().to_string();
    assert!(error.starts_with("cannot replace the folder"), "{error}");
    // Neither object, and no leftover.
    assert_eq!(names(folder.path()), ["folder"]);
    store.delete(&key("folder"), &Condition::None).unwrap();
    assert_eq!(names(folder.path()), ["folder"]);
}

#[test]
fn an_object_is_not_a_folder() {
    let (folder, store) = store();
    put(&store, "object", b"x");
    let error = store.create(&key("object/below"), CreateOptions::default()).unwrap_err();
    assert!(matches!(error, StoreError::Io { operation: "create the folder", .. }), "{error}");
    assert_eq!(names(folder.path()), ["object"]);
}

#[test]
fn a_replaced_file_keeps_its_mode_and_a_new_one_gets_the_usual() {
    let (folder, store) = store();
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().mode() & 0o7777;
    fs::write(folder.path().join("usual"), b"").unwrap();
    put(&store, "new", b"x");
    assert_eq!(mode("new"), mode("usual"));
    for kept in [0o640, 0o444, 0o755] {
        let permissions = fs::Permissions::from_mode(kept);
        fs::set_permissions(folder.path().join("usual"), permissions).unwrap();
        put(&store, "usual", b"y");
        assert_eq!(mode("usual"), kept);
    }
}

#[test]
fn links_are_followed_and_replaced_but_never_written_through() {
    let (folder, store) = store();
    let elsewhere = TempDir::new().unwrap();
    fs::write(elsewhere.path().join("data"), b"linked").unwrap();
    symlink(elsewhere.path(), folder.path().join("folder")).unwrap();
    symlink(elsewhere.path().join("data"), folder.path().join("file")).unwrap();
    symlink("nowhere", folder.path().join("broken")).unwrap();

    assert_eq!(*store.get(&key("folder/data")).unwrap().unwrap(), *b"linked");
    assert_eq!(*store.get(&key("file")).unwrap().unwrap(), *b"linked");
    assert!(store.get(&key("broken")).unwrap().is_none());
    let listing = store.list(None).unwrap();
    assert_eq!((listing.objects, listing.folders), (vec![(key("file"), 6)], vec![]));
    let unlisted = listing.unlisted.iter().map(|unlisted| (unlisted.name.as_str(), unlisted.kind));
    let expected = [("broken", UnlistedKind::BrokenLink), ("folder", UnlistedKind::FolderLink)];
    assert_eq!(unlisted.collect::<Vec<_>>(), expected);
    let refused = store.list(Some(&key("folder"))).unwrap_err();
    assert!(matches!(refused, StoreError::LinkedFolder { .. }), "{refused}");

    let version = store.edit(&key("file")).unwrap().version.clone();
    store.put(&key("file"), b"own", Condition::Unchanged(version)).unwrap();
    store.put(&key("broken"), b"mended", Condition::Absent).unwrap();
    assert_eq!(*store.get(&key("file")).unwrap().unwrap(), *b"own");
    assert_eq!(*store.get(&key("broken")).unwrap().unwrap(), *b"mended");
    assert_eq!(fs::read(elsewhere.path().join("data")).unwrap(), b"linked");
    put(&store, "folder/more", b"x");
    assert_eq!(names(elsewhere.path()), ["data", "more"]);
}

#[test]
fn no_link_is_followed_or_removed_when_folders_are() {
    let (folder, store) = store();
    let elsewhere = TempDir::new().unwrap();
    fs::create_dir(elsewhere.path().join("0")).unwrap();
    symlink(elsewhere.path(), folder.path().join("c")).unwrap();
    symlink(elsewhere.path().join("0"), folder.path().join("empty")).unwrap();
    for at in ["c/0", "c", "empty"] {
        store.remove_empty_folder(&key(at)).unwrap();
    }
    assert_eq!(names(elsewhere.path()), ["0"]);
    assert_eq!(names(folder.path()), ["c", "empty"]);
}

#[test]
fn a_writer_whose_folder_is_removed_makes_it_again() {
    let (_folder, store) = store();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                store.remove_empty_folder(&key("a/b")).unwrap();
                store.remove_empty_folder(&key("a")).unwrap();
            }
        });
        for _ in 0..500 {
            let staged = stage(&store, "a/b/c", b"x");
            drop(staged);
        }
        put(&store, "a/b/c", b"kept");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(&*store.get(&key("a/b/c")).unwrap().unwrap(), b"kept");
}

#[test]
fn a_file_that_is_cut_under_its_reader_has_changed() {
    let (folder, store) = store();
    put(&store, "a", &[1; 10_000]);
    let object = store.open(&key("a"), None).unwrap();
    fs::OpenOptions::new().write(true).open(folder.path().join("a")).unwrap().set_len(5).unwrap();
    let error = object.read(ReadRange::All).unwrap_err();
    assert!(matches!(&error, StoreError::Changed { key } if key.as_str() == "a"), "{error}");
    let writer = store.create(&key("b"), CreateOptions::default()).unwrap();
    let error = writer.append_from(&*object, 0..10_000).unwrap_err();
    assert!(matches!(&error, StoreError::Changed { key } if key.as_str() == "a"), "{error}");
    // The hole that this left never becomes an object.
    assert!(writer.finish(&[]).is_err());
    assert_eq!(names(folder.path()), ["a"]);
}

#[test]
fn a_file_that_is_overwritten_in_place_is_found_out() {
    let (folder, store) = store();
    put(&store, "a", b"old");
    let object = store.open(&key("a"), None).unwrap();
    object.check_unchanged().unwrap();
    fs::write(folder.path().join("a"), b"new").unwrap();
    let error = object.check_unchanged().unwrap_err();
    assert!(matches!(error, StoreError::Changed { .. }), "{error}");
}

#[test]
fn a_file_that_is_replaced_or_removed_is_unchanged_to_its_reader() {
    let (_folder, store) = store();
    put(&store, "a", b"old");
    let object = store.open(&key("a"), None).unwrap();
    put(&store, "a", b"new");
    object.check_unchanged().unwrap();
    store.delete(&key("a"), &Condition::None).unwrap();
    object.check_unchanged().unwrap();
    assert_eq!(*object.read(ReadRange::All).unwrap(), *b"old");
}

/// The clock of the file system may stand still between the two, this one does not.
#[test]
fn a_published_file_takes_its_time_from_the_clock_when_it_is_published() {
    let (folder, store) = store();
    let staged = stage(&store, "a", b"x");
    let before = SystemTime::now();
    store.publish(vec![staged]).unwrap();
    let modified = fs::metadata(folder.path().join("a")).unwrap().modified().unwrap();
    assert!(before <= modified && modified <= SystemTime::now());
}

#[test]
fn a_temporary_file_is_beside_its_place_and_gone_afterwards() {
    let (folder, store) = store();
    let path = folder.path().join("a");
    let temporaries = || names(&path).into_iter().filter(|name| is_own_file(name)).count();
    let writer = store.create(&key("a/given-up"), CreateOptions::default()).unwrap();
    assert_eq!((names(&path).len(), temporaries()), (1, 1));
    drop(writer);
    assert_eq!(names(&path).len(), 0);
    let staged = stage(&store, "a/published", b"x");
    assert_eq!((names(&path).len(), temporaries()), (1, 1));
    store.publish(vec![staged]).unwrap();
    assert_eq!(names(&path), ["published"]);
    store.put(&key("a/published"), b"y", Condition::Absent).unwrap_err();
    assert_eq!(names(&path), ["published"]);
}

#[test]
fn a_key_that_would_be_taken_for_a_temporary_file_is_refused() {
    let (folder, store) = store();
    for at in [".shardine-1-2-3.tmp", "a/.shardine-x.journal", ".shardine-a-b-c.tmp/a"] {
        let error = store.create(&key(at), CreateOptions::default()).unwrap_err();
        assert!(matches!(error, StoreError::Key { .. }), "{error}");
    }
    assert_eq!(names(folder.path()).len(), 0);
    for name in [
        "a.tmp",
        ".shardine-",
        ".shardine-.tmp",
        ".shardine",
        "x.shardine-1.tmp",
        ".shardine-notes.tmp",
        ".shardine-1-2.tmp",
        ".shardine-x.aside",
    ] {
        assert!(!is_own_file(name), "{name}");
    }
}

#[test]
fn names_that_are_not_keys_are_told_by_a_listing() {
    let (folder, store) = store();
    put(&store, "a", b"x");
    for name in [&b"not \xff unicode"[..], b"back\\slash", b".shardine-1-2-3.tmp"] {
        fs::write(folder.path().join(std::ffi::OsStr::from_bytes(name)), b"x").unwrap();
    }
    let listing = store.list(None).unwrap();
    assert_eq!(listing.objects, [(key("a"), 1)]);
    let unlisted: Vec<_> = listing.unlisted.iter().map(|found| found.name.as_str()).collect();
    assert_eq!(unlisted, ["back\\slash", "not \\xff unicode"]);
}

#[test]
fn as_many_unlisted_names_are_told_as_anybody_reads() {
    let (folder, store) = store();
    for i in 0..=Listing::MOST_UNLISTED {
        fs::write(folder.path().join(format!("back\\slash {i}")), b"x").unwrap();
    }
    let listing = store.list(None).unwrap();
    assert_eq!(listing.unlisted.len(), Listing::MOST_UNLISTED);
    assert_eq!(listing.more_unlisted, 1);
}

#[test]
fn a_folder_is_the_same_by_whatever_way_it_is_reached() {
    let (folder, _) = store();
    fs::create_dir_all(folder.path().join("a/b")).unwrap();
    symlink("a", folder.path().join("link")).unwrap();
    let ids = |name: &str| FileStore::new(folder.path().join(name)).folder_ids(None).unwrap();
    assert_eq!(ids("link/b"), ids("a/b"));
    let (new, exists) = ids("link/b/new/deeper");
    assert_eq!((new, exists), (ids("a/b").0, false));
    let unwanted = ids("a/b").0.into_iter().take(1).collect();
    let survey = FileStore::new(folder.path().join("link")).survey(None, &unwanted).unwrap();
    assert!(survey.met.unwrap().ends_with("a/b"));
}

#[test]
fn an_object_that_is_too_large_to_be_a_document_is_not_read() {
    let (folder, store) = store();
    let file = fs::File::create(folder.path().join("a")).unwrap();
    file.set_len(1 << 40).unwrap();
    let refused = store.get(&key("a")).unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { limit, .. } if limit == MAX_SMALL_OBJECT));
}

#[test]
fn a_folder_that_was_moved_away_takes_nothing_into_its_successor() {
    let (folder, store) = store();
    put(&store, "array/old", b"x");
    let staged = stage(&store, "array/new", b"x");
    fs::rename(folder.path().join("array"), folder.path().join("moved")).unwrap();
    fs::create_dir(folder.path().join("array")).unwrap();
    store.publish(vec![staged]).unwrap_err();
    assert_eq!(names(&folder.path().join("array")).len(), 0);
}

#[test]
fn who_changes_an_object_keeps_others_from_it_and_from_nothing_else() {
    for remove in [false, true] {
        let (folder, store) = store();
        put(&store, "a", b"old");
        let edit = store.edit(&key("a")).unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| match remove {
                true => store.delete(&key("a"), &Condition::None).unwrap(),
                false => put(&store, "a", b"new"),
            });
            std::thread::sleep(Duration::from_millis(150));
            assert!(!other.is_finished());
            put(&store, "b", b"beside it");
            store.delete(&key("b"), &Condition::None).unwrap();
            assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"old");
            // A name that is taken is not free, no matter who holds it.
            let absent = store.put(&key("a"), b"", Condition::Absent);
            assert!(matches!(absent, Err(StoreError::Conflict { .. })));
            drop(edit);
        });
        let expected = (!remove).then_some(b"new".to_vec());
        assert_eq!(fs::read(folder.path().join("a")).ok(), expected);
    }
}

/// Creates an object and begins to change it, right before another one takes its name.
#[derive(Debug)]
struct Faster {
    folder: std::path::PathBuf,
    edit: Mutex<Option<Edit>>,
    done: AtomicBool,
}

impl DiskObserver for Faster {
    fn before(&self, step: DiskStep<'_>) -> Verdict {
        if matches!(step, DiskStep::Rename { .. }) && !self.done.swap(true, Ordering::Relaxed) {
            fs::write(self.folder.join("a"), b"first").unwrap();
            let edit = FileStore::new(&self.folder).edit(&key("a")).unwrap();
            *self.edit.lock().unwrap() = Some(edit);
        }
        Verdict::Go
    }
}

#[test]
fn an_object_that_was_made_meanwhile_and_is_being_changed_is_not_replaced_yet() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a");
    let faster = Faster {
        folder: folder.path().to_owned(),
        edit: Mutex::default(),
        done: AtomicBool::default(),
    };
    let faster = Arc::new(faster);
    let store = FileStore::observed(folder.path(), Arc::clone(&faster) as _);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| put(&store, "a", b"second"));
        // However slow the disk, the faster one has come first.
        while faster.edit.lock().unwrap().is_none() {
            assert!(!other.is_finished());
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(150));
        assert!(!other.is_finished());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        faster.edit.lock().unwrap().take();
    });
    assert_eq!(fs::read(&path).unwrap(), b"second");
}

#[test]
fn bytes_move_between_file_systems() {
    let (_here, from) = store();
    let Ok(there) = TempDir::new_in("/dev/shm") else {
        left_out("there is no /dev/shm to be the other file system");
        return;
    };
    let to = FileStore::new(there.path());
    let data: Vec<u8> = (0..3_000_000_u32).map(|i| (i * 7 + i / 1000) as u8).collect();
    put(&from, "a", &data);
    let source = from.open(&key("a"), None).unwrap();
    let writer = to.create(&key("b"), CreateOptions::default()).unwrap();
    writer.append_from(&*source, 5..2_999_999).unwrap();
    to.publish(vec![writer.finish(&[]).unwrap()]).unwrap();
    assert!(*to.get(&key("b")).unwrap().unwrap() == data[5..2_999_999]);
}

#[test]
fn errors_name_what_was_done_and_where() {
    let (folder, store) = store();
    put(&store, "a", b"x");
    // A name longer than file systems allow.
    let long = key(&"n".repeat(300));
    let error = store.open(&long, None).unwrap_err().to_string();
    let path = folder.path().display();
    assert!(error.starts_with(&format!("cannot open \"{path}/nnn")), "{error}");
    let staged = {
        let writer = store.create(&long, CreateOptions::default()).unwrap();
        writer.finish(&[]).unwrap()
    };
    store.publish(vec![staged]).unwrap_err();
    assert_eq!(names(folder.path()), ["a"]);
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_not_waited_for() {
    let (folder, store) = store();
    let path = folder.path().join("pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(store.open(&key("pipe"), None), Err(StoreError::NotFound { .. })));
    assert!(store.list(None).unwrap().objects.is_empty());
}

#[test]
fn the_journal_of_an_object_that_is_gone_is_set_aside() {
    let (folder, store) = store();
    let path = folder.path().join(".shardine-a.journal");
    fs::write(&path, b"of nothing").unwrap();
    let kinds = |store: &FileStore| -> Vec<_> {
        store.leftovers(None).unwrap().into_iter().map(|leftover| leftover.kind).collect()
    };
    assert!(matches!(store.recover(&key("a")).unwrap(), Recovery::Nothing));
    // It is so young that its object may have just been created.
    assert_eq!(kinds(&store), [LeftoverKind::Journal]);
    let journal = fs::File::options().write(true).open(&path).unwrap();
    journal.set_modified(SystemTime::now() - Duration::from_secs(100)).unwrap();
    assert!(matches!(store.recover(&key("a")).unwrap(), Recovery::Nothing));
    assert_eq!(kinds(&store), [LeftoverKind::SetAside]);
}

#[test]
fn a_file_that_was_all_guarded_ends_where_the_switch_says() {
    // In a shard without chunks, an index at the start is also at the end.
    let (_folder, store) = store();
    put(&store, "a", &[1; 100]);
    let edit = store.edit(&key("a")).unwrap();
    let mut change = match edit.in_place(0..100) {
        Err(StoreError::Unsupported { .. }) => return,
        change => change.unwrap(),
    };
    assert_eq!(change.append(&[2; 1000]).unwrap(), 100);
    change.switch(&[], 0, &[3; 100], 1100).unwrap();
    drop(edit);
    let bytes = store.get(&key("a")).unwrap().unwrap();
    assert!(bytes[..] == [vec![3; 100], vec![2; 1000]].concat(), "{}", bytes.len());
}

/// Records the modes of journals when they get their names.
#[derive(Debug, Default)]
struct Journals(Mutex<Vec<u32>>);

impl DiskObserver for Journals {
    fn before(&self, step: DiskStep<'_>) -> Verdict {
        if let DiskStep::Rename { from, to } = step
            && to.extension().is_some_and(|extension| extension == "journal")
        {
            let mode = fs::metadata(from).unwrap().permissions().mode();
            self.0.lock().unwrap().push(mode & 0o777);
        }
        Verdict::Go
    }
}

#[test]
fn who_may_read_a_file_may_read_its_journal() {
    let folder = TempDir::new().unwrap();
    let seen = Arc::new(Journals::default());
    let store = FileStore::observed(folder.path(), Arc::<Journals>::clone(&seen));
    put(&store, "a", &[1; 8]);
    for mode in [0o666, 0o640] {
        fs::set_permissions(folder.path().join("a"), fs::Permissions::from_mode(mode)).unwrap();
        let edit = store.edit(&key("a")).unwrap();
        match edit.in_place(0..4) {
            Err(StoreError::Unsupported { .. }) => return,
            change => drop(change.unwrap().switch(&[], 0, &[mode as u8; 4], 8).unwrap()),
        }
    }
    assert_eq!(*seen.0.lock().unwrap(), [0o666, 0o640]);
}
