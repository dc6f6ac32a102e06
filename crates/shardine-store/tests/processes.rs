//! What holds between processes, and what a process leaves behind that dies or cannot write.
//!
//! Each test runs this same program again with a role to play.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::env;
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use shardine_store::{
    Condition, CreateOptions, FileStore, Key, Store, StoreError, StoreExt, is_own_file,
};
use tempfile::TempDir;

const ROLE: &str = "SHARDINE_TEST_ROLE";
const ROOT: &str = "SHARDINE_TEST_ROOT";

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// Fails a test that could not run, since it has not passed, unless the environment allows skipping
/// it.
fn left_out(why: &str) {
    let may = std::env::var_os("SHARDINE_MAY_SKIP").is_some();
    assert!(may, "{why}; with SHARDINE_MAY_SKIP=1 this test is left out");
    // Bypasses the output capture of the test harness.
    drop(writeln!(io::stderr(), "SKIPPED, {why}"));
}

/// This program as a process with a role.
fn actor(role: &str, root: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "act", "--nocapture"]).env(ROLE, role).env(ROOT, root);
    command
}

/// The same, started by a shell that runs `script` first. `$0` and `"$@"` are the program.
fn actor_after(script: &str, role: &str, root: &Path) -> Command {
    let mut command = Command::new("sh");
    let script = format!("{script}; exec \"$0\" \"$@\"");
    command.arg("-ec").arg(script).arg(env::current_exe().unwrap());
    command.args(["--exact", "act", "--nocapture"]).env(ROLE, role).env(ROOT, root);
    command
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Removes everything it takes for a leftover.
fn clear(store: &FileStore) {
    for leftover in store.leftovers(None).unwrap() {
        assert!(leftover.in_use);
        assert!(!store.remove_leftover(None, &leftover.name).unwrap());
    }
}

/// Changes an object twice, in place if possible.
fn change(store: &FileStore) {
    for byte in 1..3 {
        let edit = store.edit(&key("a")).unwrap();
        match edit.in_place(0..4) {
            Ok(change) => drop(change.switch(&[], 0, &[byte; 4], 8).unwrap()),
            Err(StoreError::Unsupported { .. }) => {
                let new = [[byte; 4], [0; 4]].concat();
                drop(store.put(&key("a"), &new, edit.condition()).unwrap());
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Plays the role named by the environment; does nothing in an ordinary run.
#[test]
fn act() {
    let Ok(role) = env::var(ROLE) else { return };
    let root = PathBuf::from(env::var_os(ROOT).unwrap());
    let store = FileStore::new(&root);
    match role.as_str() {
        "count" => count(&store),
        "change" => change(&store),
        "clear" => clear(&store),
        "hang" => hang(&store),
        "overflow" => overflow(&store),
        "refused" => refused(&store),
        other => panic!("no role {other}"),
    }
}

const UPDATES: usize = 60;

fn count(store: &FileStore) {
    let mut done = 0;
    while done < UPDATES {
        let object = store.open(&key("counter"), None).unwrap();
        let text = object.read(shardine_store::ReadRange::All).unwrap();
        let count: usize = std::str::from_utf8(&text).unwrap().parse().unwrap();
        let condition = Condition::Unchanged(object.version().unwrap());
        match store.put(&key("counter"), format!("{:04}", count + 1).as_bytes(), condition) {
            Ok(_) => done += 1,
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn lose_no_update(folder: &TempDir) {
    let store = FileStore::new(folder.path());
    store.put(&key("counter"), b"0000", Condition::Absent).unwrap();
    let actors: Vec<_> = (0..3)
        .map(|_| actor("count", folder.path()).stdout(Stdio::null()).spawn().unwrap())
        .collect();
    for mut actor in actors {
        assert!(actor.wait().unwrap().success());
    }
    let count = store.get(&key("counter")).unwrap().unwrap();
    assert_eq!(*count, *format!("{:04}", 3 * UPDATES).as_bytes());
    assert_eq!(names(folder.path()), ["counter"]);
}

#[test]
fn processes_that_swap_one_object_lose_no_update() {
    lose_no_update(&TempDir::new().unwrap());
    // Where nothing is ever synced, updates follow each other within a tick of the clock.
    match TempDir::new_in("/dev/shm") {
        Ok(folder) => lose_no_update(&folder),
        Err(error) => left_out(&format!("there is no file system in memory: {error}")),
    }
}

fn hang(store: &FileStore) {
    let writer = store.create(&key("a"), CreateOptions::default()).unwrap();
    writer.append(&[1; 100_000]).unwrap();
    let _staged = writer.finish(&[]).unwrap();
    println!("ready");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_writer_leaves_the_old_object_and_a_name_that_tells() {
    let folder = TempDir::new().unwrap();
    let store = FileStore::new(folder.path());
    store.put(&key("a"), b"old", Condition::None).unwrap();
    let mut actor = actor("hang", folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(actor.stdout.take().unwrap());
    assert!(output.lines().any(|line| line.unwrap().ends_with("ready")));
    actor.kill().unwrap();
    actor.wait().unwrap();
    assert_eq!(*store.get(&key("a")).unwrap().unwrap(), *b"old");
    assert_eq!(store.list(None).unwrap().objects, [(key("a"), 3)]);
    let left: Vec<_> = names(folder.path()).into_iter().filter(|name| name != "a").collect();
    assert!(left.len() == 1 && is_own_file(&left[0]), "{left:?}");
    // It is in nobody's way.
    store.put(&key("a"), b"new", Condition::None).unwrap();
}

/// Writes more than there is room for, in both ways, and checks what is left.
fn overflow(store: &FileStore) {
    const LEN: u64 = 4 << 20;
    let source = store.open(&key("source"), None);
    let only_source = names(store.root()).len();
    let target = || store.create(&key("target"), CreateOptions::default()).unwrap();
    let check = |writer: Box<dyn shardine_store::ObjectWriter>, appended| {
        match appended {
            Err(StoreError::Io { operation: "write" | "copy into", path, source }) => {
                eprintln!("as it should: {source}");
                assert!(path.ends_with("target"), "{path}");
            }
            other => panic!("{other:?}"),
        }
        // Not even if the failure was ignored.
        assert!(writer.finish(&[]).is_err());
        assert_eq!(names(store.root()).len(), only_source);
    };
    let writer = target();
    let appended = (0..LEN >> 16).try_for_each(|_| writer.append(&[1; 1 << 16]).map(drop));
    check(writer, appended);
    if let Ok(source) = source {
        let writer = target();
        let appended = (0..8).try_for_each(|_| writer.append_from(&*source, 0..LEN / 8).map(drop));
        check(writer, appended);
    }
    // A small one still fits.
    store.put(&key("small"), b"x", Condition::Absent).unwrap();
}

#[test]
fn a_write_past_the_limit_of_file_size_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let store = FileStore::new(folder.path());
    store.put(&key("source"), &vec![2; 4 << 20], Condition::None).unwrap();
    // The limit would hold for its output too, if that goes to a file.
    let output = actor_after("trap '' XFSZ; ulimit -f 1000", "overflow", folder.path()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(store.get(&key("target")).unwrap().is_none());
    assert_eq!(names(folder.path()).len(), 2);
}

/// Runs an actor in its own mount namespace, with an in-memory file system as the root of its
/// store.
fn on_mount(options: &str, role: &str) -> bool {
    let folder = TempDir::new().unwrap();
    let mount = format!("mount -t tmpfs -o {options} none \"$SHARDINE_TEST_ROOT\"");
    let allowed = Command::new("unshare")
        .args(["-m", "sh", "-ec", &mount])
        .env(ROOT, folder.path())
        .output()
        .is_ok_and(|output| output.status.success());
    if !allowed {
        return false;
    }
    let script = format!("{mount}; exec \"$0\" \"$@\"");
    let status = Command::new("unshare")
        .args(["-m", "sh", "-ec", &script])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "act", "--nocapture"])
        .env(ROLE, role)
        .env(ROOT, folder.path())
        .status();
    assert!(status.unwrap().success());
    true
}

#[test]
fn a_write_to_a_full_file_system_leaves_nothing() {
    if !on_mount("size=2m", "overflow") {
        left_out("this user may not mount a small file system");
    }
}

/// Expects that nothing can be written or removed, and that the error says why.
fn refused(store: &FileStore) {
    let error = store.put(&key("new"), b"x", Condition::None).unwrap_err();
    eprintln!("as it should: {error}");
    assert!(matches!(error, StoreError::Io { operation: "create a file for", .. }), "{error}");
    let error = store.put(&key("folder/new"), b"x", Condition::None).unwrap_err();
    assert!(matches!(error, StoreError::Io { operation: "create the folder", .. }), "{error}");
    if store.get(&key("old")).unwrap().is_some() {
        let error = store.delete(&key("old"), &Condition::None).unwrap_err();
        assert!(matches!(error, StoreError::Io { operation: "remove", .. }), "{error}");
    }
}

#[test]
fn a_read_only_file_system_is_named_as_the_reason() {
    if !on_mount("ro", "refused") {
        left_out("this user may not mount a read-only file system");
    }
}

#[test]
fn a_folder_that_may_not_be_written_is_named_as_the_reason() {
    use std::os::unix::fs::PermissionsExt;

    let folder = TempDir::new().unwrap();
    let store = FileStore::new(folder.path());
    store.put(&key("old"), b"x", Condition::None).unwrap();
    let mode = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    if fs::write(folder.path().join("probe"), b"").is_ok() {
        // To root no folder is read-only; to others it is.
        fs::remove_file(folder.path().join("probe")).unwrap();
        let output = actor("refused", folder.path()).gid(65534).uid(65534).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    } else {
        refused(&store);
    }
    mode(0o755);
}

#[test]
fn a_file_of_another_user_can_be_changed_by_who_may_write_to_it() {
    let folder = TempDir::new().unwrap();
    let store = FileStore::new(folder.path());
    store.put(&key("a"), &[0; 8], Condition::None).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(folder.path(), 0o777);
    mode(&folder.path().join("a"), 0o666);
    // Only root may run a program as another user.
    let spawned = actor("change", folder.path()).gid(65534).uid(65534).output();
    let Ok(output) = spawned else { return left_out("not root, or the program is not for all") };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(store.get(&key("a")).unwrap().unwrap()[..], [2, 2, 2, 2, 0, 0, 0, 0]);
    assert_eq!(names(folder.path()), ["a"]);
}

#[test]
fn what_another_user_is_writing_is_not_taken_for_left_behind() {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let store = FileStore::new(folder.path());
    let writer = store.create(&key("a"), CreateOptions::default()).unwrap();
    let [name] = &names(folder.path())[..] else { panic!("one temporary file") };
    fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o600)).unwrap();
    let spawned = actor("clear", folder.path()).gid(65534).uid(65534).output();
    let Ok(output) = spawned else { return left_out("not root, or the program is not for all") };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    store.publish(vec![writer.finish(&[]).unwrap()]).unwrap();
}
