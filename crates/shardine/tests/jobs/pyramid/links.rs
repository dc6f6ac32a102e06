//! Links in an image: its levels are right, or it is refused and stays as it is. Nothing behind a
//! link is changed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use shardine::jobs::PyramidOptions;

use super::*;
use crate::common::trees::{folder, tree};

fn at(root: &Path) -> Location {
    Location::root(Arc::new(FileStore::new(root)))
}

/// Moves something out of an image, and leaves a link to it.
fn link(root: &Path, name: &str) {
    let outside = root.with_extension("outside").join(name.replace('/', "-"));
    fs::create_dir_all(outside.parent().unwrap()).unwrap();
    fs::rename(root.join(name), &outside).unwrap();
    symlink(outside, root.join(name)).unwrap();
}

/// Runs a job on an image with links. Returns whether it was done.
fn try_with(make: &dyn Fn(&Path), options: &PyramidOptions) -> bool {
    let folder = folder();
    let root = folder.path().join("i");
    make(&root);
    let (before, outside) = (tree(&root), root.with_extension("outside"));
    let behind = tree(&outside);
    let done = run(&at(&root), options);
    assert!(tree(&outside) == behind, "what is behind a link has changed");
    assert_eq!(leftovers(folder.path()), Vec::<std::path::PathBuf>::new());
    match done {
        Ok(_) => {
            check_named(&at(&root));
            true
        }
        Err(error) => {
            println!("{error}");
            assert!(tree(&root) == before, "{error}");
            false
        }
    }
}

fn new() -> PyramidOptions {
    PyramidOptions::new()
}

#[test]
fn a_finest_level_behind_a_link_is_read_and_links_among_its_chunks_are_refused() {
    let with = |name: &'static str| {
        move |root: &Path| {
            small(&at(root));
            link(root, name);
        }
    };
    assert!(try_with(&with("0"), &new()), "the level is a link");
    // A listing leaves these out, so nobody could tell whether they have changed.
    assert!(!try_with(&with("0/c"), &new()), "all chunks are behind a link");
    assert!(!try_with(&with("0/c/1"), &new()), "some chunks are behind a link");
    // A link to a file is read as the file.
    assert!(try_with(&with("0/c/1/1"), &new()), "a chunk is a link");
    let broken = |root: &Path| {
        small(&at(root));
        fs::create_dir_all(root.with_extension("outside")).unwrap();
        symlink("nowhere", root.join("0/c/2")).unwrap();
    };
    assert!(!try_with(&broken, &new()), "a link to nowhere");
}

#[test]
fn a_link_with_the_name_of_a_level_is_in_the_way() {
    for target in ["somewhere", "nowhere"] {
        let make = |root: &Path| {
            small(&at(root));
            let outside = root.with_extension("outside");
            fs::create_dir_all(outside.join("somewhere")).unwrap();
            symlink(outside.join(target), root.join("1")).unwrap();
        };
        assert!(!try_with(&make, &new()), "{target}");
    }
}

#[test]
fn a_level_behind_a_link_is_not_replaced() {
    for name in ["1", "2", "1/c", "1/c/0", "1/c/0/0"] {
        let make = |root: &Path| {
            small(&at(root));
            run(&at(root), &PyramidOptions::new()).unwrap();
            link(root, name);
        };
        let method = PyramidOptions::new().method(DownsampleMethod::Max).overwrite(true);
        let replaced = try_with(&make, &method);
        println!("{name}: {}", if replaced { "replaced" } else { "refused" });
    }
}

#[test]
fn an_update_with_links_is_right_or_refused() {
    for name in ["0", "0/c", "0/c/1", "0/c/1/1", "1", "1/c", "1/c/0", "1/c/0/0"] {
        let make = |root: &Path| {
            let array = small(&at(root));
            run(&at(root), &PyramidOptions::new()).unwrap();
            write(&array, "3:9,2:5", noise(6 * 3 * 2, 8));
            link(root, name);
        };
        let folder = folder();
        let root = folder.path().join("i");
        make(&root);
        match run(&at(&root), &PyramidOptions::new().update(true)) {
            Ok(_) => drop(check_named(&at(&root))),
            Err(error) => println!("{name}: {error}"),
        }
    }
}
