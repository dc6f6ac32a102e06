//! Plain HTTP, from a real server.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use shardine_remote::StoreOptions;
use shardine_store::{Condition, ReadRange, Store as _, StoreError, StoreExt as _};
use shardine_testbed::{Nginx, NginxOptions};
use tempfile::TempDir;

use super::{in_child, key, pattern, store, told, within};

const LEN: usize = 10_000;

fn nginx() -> &'static (Nginx, TempDir) {
    static SERVER: OnceLock<(Nginx, TempDir)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let options = NginxOptions { tls: true, writable: true };
        (Nginx::start(folder.path(), &options).unwrap(), folder)
    })
}

/// A test's own folder with an object in it.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = nginx().1.path().join(name);
    fs::create_dir(&folder).unwrap();
    write(&folder.join("o"), &pattern(LEN, 1), 0);
    folder
}

/// Writes a file with a given date.
fn write(path: &Path, data: &[u8], seconds: u64) {
    fs::write(path, data).unwrap();
    let date = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000 + seconds);
    fs::File::options().write(true).open(path).unwrap().set_modified(date).unwrap();
}

fn options() -> StoreOptions {
    StoreOptions::new().with("max_retries", "1").with("retry_timeout", "5")
}

#[test]
fn all_kinds_of_ranges_are_read() {
    within(60, || {
        folder("ranges");
        let data = pattern(LEN, 1);
        for place in ["", "/no-etag", "/bare"] {
            let store = store(&format!("{}{place}/ranges/", nginx().0.url()), &options());
            let cases = [
                (ReadRange::All, 0..LEN),
                (ReadRange::Bounded(3..99), 3..99),
                (ReadRange::Suffix(99), LEN - 99..LEN),
                (ReadRange::Head { need: 3, most: 1 << 20 }, 0..3),
                (ReadRange::Tail { need: 3, most: 1 << 20 }, LEN - 3..LEN),
                (ReadRange::Bounded(7..7), 7..7),
                (ReadRange::Suffix(0), LEN..LEN),
            ];
            for (range, expected) in cases {
                let object = store.open(&key("o"), None).unwrap();
                assert_eq!(
                    *object.read(range.clone()).unwrap(),
                    data[expected],
                    "{place} {range:?}"
                );
                assert_eq!(*object.read(ReadRange::Bounded(50..60)).unwrap(), data[50..60]);
            }
            for range in [ReadRange::Bounded(0..LEN as u64 + 1), ReadRange::Suffix(LEN as u64 + 1)]
            {
                let error = store.open(&key("o"), None).unwrap().read(range).unwrap_err();
                assert!(matches!(error, StoreError::OutOfRange { .. }), "{error:?}");
            }
            assert!(store.get(&key("missing")).unwrap().is_none());
            let error = store.open(&key("no/such"), None).unwrap().read(ReadRange::Suffix(1));
            assert!(matches!(error, Err(StoreError::NotFound { .. })), "{error:?}");
        }
    });
}

#[test]
fn a_server_without_ranges_is_told_apart() {
    within(60, || {
        folder("whole");
        let store = store(&format!("{}/no-ranges/whole", nginx().0.url()), &options());
        assert_eq!(*store.get(&key("o")).unwrap().unwrap(), pattern(LEN, 1));
        for range in [ReadRange::Bounded(1..5), ReadRange::Suffix(5)] {
            let error = store.open(&key("o"), None).unwrap().read(range).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("/no-ranges/whole/o") && text.contains("range"), "{text}");
        }
    });
}

#[test]
fn a_file_that_is_replaced_is_changed() {
    within(60, || {
        for (name, place) in [("etag", ""), ("date", "/no-etag")] {
            let folder = folder(name);
            let store = store(&format!("{}{place}/{name}", nginx().0.url()), &options());
            let object = store.open(&key("o"), None).unwrap();
            object.read(ReadRange::Bounded(0..10)).unwrap();
            let version = object.version().unwrap();
            write(&folder.join("o"), &pattern(LEN, 2), 60);
            for object in [object, store.open(&key("o"), Some(&version)).unwrap()] {
                let error = object.read(ReadRange::Bounded(10..20)).unwrap_err();
                assert!(matches!(error, StoreError::Changed { .. }), "{error:?}");
                let error = object.read(ReadRange::Suffix(20)).unwrap_err();
                assert!(matches!(error, StoreError::Changed { .. }), "{error:?}");
            }
            assert_eq!(*store.get(&key("o")).unwrap().unwrap(), pattern(LEN, 2));
        }
    });
}

#[test]
fn names_are_what_they_are() {
    within(60, || {
        let folder = folder("names and more");
        let names = [
            "a b", "ü", "100%", "%41", "a+b", "a#b", "a&b=c", "q?x", "~x", "a;b", "a:b", "[0]",
            "'\"", "a*",
        ];
        for (i, name) in names.iter().enumerate() {
            write(&folder.join(name), format!("{i}").as_bytes(), 0);
        }
        let store = store(&format!("{}/names%20and%20more", nginx().0.url()), &options());
        for (i, name) in names.iter().enumerate() {
            let found = store.get(&key(name)).unwrap();
            let found = found.unwrap_or_else(|| panic!("{name} is not found"));
            assert_eq!(*found, *format!("{i}").as_bytes(), "{name}");
        }
        // Nothing that merely looks the same.
        assert!(store.get(&key("A")).unwrap().is_none());
        assert!(store.get(&key("a%20b")).unwrap().is_none());
    });
}

#[test]
fn nothing_is_written_though_the_server_would_let_us() {
    within(60, || {
        let folder = folder("written");
        let store = store(&format!("{}/written", nginx().0.url()), &options());
        let name = store.name();
        let refused = |error: StoreError| {
            assert!(
                matches!(&error, StoreError::Unsupported { store, .. } if *store == name),
                "{error:?}"
            );
        };
        for condition in [Condition::None, Condition::Absent] {
            refused(store.put(&key("new"), b"x", condition).unwrap_err());
        }
        refused(store.delete(&key("o"), &Condition::None).unwrap_err());
        refused(store.edit(&key("o")).unwrap_err());
        refused(store.list(None).unwrap_err());
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    });
}

#[test]
fn a_certificate_must_be_trusted() {
    within(60, || {
        folder("tls");
        let url = format!("{}/tls", nginx().0.tls_url().unwrap());
        let untrusted = store(&url, &options());
        let error = untrusted.get(&key("o")).unwrap_err();
        assert!(error.to_string().to_lowercase().contains("certificate"), "{error}");
        let options = options().with("allow_invalid_certificates", "true");
        assert_eq!(*store(&url, &options).get(&key("o")).unwrap().unwrap(), pattern(LEN, 1));
        let certificate = nginx().0.certificate();
        let environment =
            [("HOSTILE_URL", url.as_str()), ("SSL_CERT_FILE", certificate.to_str().unwrap())];
        in_child("http::with_a_certificate", &environment);
    });
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn with_a_certificate() {
    let Some(url) = told("HOSTILE_URL") else { return };
    assert_eq!(*store(&url, &options()).get(&key("o")).unwrap().unwrap(), pattern(LEN, 1));
}

#[test]
fn a_server_that_is_not_there_is_named() {
    within(60, || {
        let store = store("http://127.0.0.1:1/data", &options());
        let error = store.get(&key("o")).unwrap_err().to_string();
        assert!(error.contains("http://127.0.0.1:1/data/o"), "{error}");
    });
}
