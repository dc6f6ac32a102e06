//! Names that lead to other names: how several files get new contents in one step.
//!
//! A file system replaces one name in one step, not many. But if many names are links that pass
//! through one other link, replacing that one changes what all of them lead to.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use nix::errno::Errno;

use super::disk::DiskStep;
use super::publish::sync_folders;
use super::{FileStore, failed};
use crate::{Key, StoreError};

impl FileStore {
    /// Lets a name lead to another name of this store, in one step: it becomes a symbolic link, in
    /// the place of the file or link that has the name now. The other name may be that of a folder,
    /// and need not exist. Durable after [`sync_redirected`](Self::sync_redirected).
    ///
    /// `by` is a name in an existing folder that the link has for a moment; whatever an earlier
    /// call left there is removed. [`StoreError::Unsupported`] if the file system has no links.
    pub fn redirect(&self, key: &Key, to: &Key, by: &Key) -> Result<(), StoreError> {
        let (path, by, disk) = (self.path(key), self.path(by), &self.0.disk);
        self.remove_path(&by)?;
        let made = disk.ask(DiskStep::Create { path: &by });
        match made.and_then(|()| symlink(relative(key, to), &by)) {
            Ok(()) => {}
            Err(e) if lacks_links(&e) => {
                let store = self.root().display().to_string();
                return Err(StoreError::Unsupported { store, operation: "make symbolic links" });
            }
            Err(e) => return Err(failed("create a link for", &path, e)),
        }
        let renamed = disk.ask(DiskStep::Rename { from: &by, to: &path });
        renamed
            .and_then(|()| fs::rename(&by, &path))
            .map_err(|e| failed("rename a link to", &path, e))
    }

    /// Whether a name leads to another one because [`redirect`](Self::redirect) made it a link.
    pub fn is_redirected(&self, key: &Key, to: &Key) -> Result<bool, StoreError> {
        let (path, disk) = (self.path(key), &self.0.disk);
        let wrong = |e| failed("examine", &path, e);
        match disk.find_link(&path).map_err(wrong)? {
            Some(found) if found.is_symlink() => match disk.read_link(&path) {
                Ok(leads) => Ok(leads == relative(key, to)),
                // Replaced by a file in between.
                Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(false),
                Err(e) => Err(wrong(e)),
            },
            _ => Ok(false),
        }
    }

    /// Makes redirected names durable. Many of them on one local file system take one sync.
    pub fn sync_redirected(&self, keys: &[&Key]) -> Result<(), StoreError> {
        let folder = |key: &&Key| self.path(key).parent().map(PathBuf::from);
        let touched: BTreeSet<PathBuf> = keys.iter().filter_map(folder).collect();
        sync_folders(self, self.sync_handle().as_deref(), touched)
    }
}

/// The text of a link from one name to another, which stays right if a folder above both is moved.
fn relative(from: &Key, to: &Key) -> PathBuf {
    let (from, to): (Vec<&str>, Vec<&str>) =
        (from.as_str().split('/').collect(), to.as_str().split('/').collect());
    let folders = from.len().saturating_sub(1);
    // The last part of the other name stays, even if it is a folder above this one.
    let above = to.iter().take(to.len().saturating_sub(1));
    let common =
        from.iter().take(folders).zip(above).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n("..", folders - common);
    up.chain(to.into_iter().skip(common)).collect()
}

/// Whether an error means that the file system has no symbolic links.
fn lacks_links(error: &io::Error) -> bool {
    let lacking = [Errno::EPERM, Errno::ENOSYS, Errno::EOPNOTSUPP].map(|e| Some(e as i32));
    error.kind() == io::ErrorKind::Unsupported || lacking.contains(&error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condition, Store, StoreExt};

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    #[test]
    fn links_are_relative() {
        for (from, to, text) in [
            ("a/x", "a/w/0", "w/0"),
            ("a/b/c/x", "a/w/0", "../../w/0"),
            ("x", "w/0", "w/0"),
            ("a/x", "b/0", "../b/0"),
            ("a/b/x", "a/b", "../b"),
        ] {
            assert_eq!(relative(&key(from), &key(to)), PathBuf::from(text), "{from} {to}");
        }
    }

    #[test]
    fn names_that_pass_through_one_link_change_together() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::new(folder.path());
        let names = [key("g/zarr.json"), key("g/a/b/zarr.json")];
        let (current, by) = (key("g/w/current"), key("g/w/link"));
        for (number, name) in names.iter().enumerate() {
            for side in ["before", "after"] {
                let at = key(&format!("g/w/{side}/{number}"));
                store.put(&at, side.as_bytes(), Condition::None).unwrap();
            }
            store.put(name, b"before", Condition::None).unwrap();
        }
        store.redirect(&current, &key("g/w/before"), &by).unwrap();
        for (number, name) in names.iter().enumerate() {
            let to = current.join(&number.to_string()).unwrap();
            assert!(!store.is_redirected(name, &to).unwrap());
            store.redirect(name, &to, &by).unwrap();
            assert!(store.is_redirected(name, &to).unwrap());
        }
        store.sync_redirected(&[&names[0], &names[1], &current]).unwrap();
        let contents = || names.clone().map(|name| store.get(&name).unwrap().unwrap().to_vec());
        assert_eq!(contents(), [b"before", b"before"]);
        store.redirect(&current, &key("g/w/after"), &by).unwrap();
        assert_eq!(contents(), [b"after", b"after"]);
        // They are objects like any other, and replaced by files.
        assert_eq!(store.list(Some(&key("g/a/b"))).unwrap().objects.len(), 1);
        store.put(&names[1], b"mine", Condition::None).unwrap();
        assert!(!store.is_redirected(&names[1], &current.join("1").unwrap()).unwrap());
        assert_eq!(&*store.get(&key("g/w/after/1")).unwrap().unwrap(), b"after");
        assert!(!store.is_redirected(&key("none"), &current).unwrap());
    }
}
