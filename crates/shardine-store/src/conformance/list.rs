use super::{Make, create, get, key, put, suite};
use crate::{Condition, Listing, StoreError, StoreExt};

suite![
    an_empty_store_lists_as_empty,
    a_listing_is_one_level_in_order,
    a_prefix_is_a_whole_part,
    odd_names_are_names,
    a_removed_object_is_not_listed,
    only_an_empty_folder_is_removed,
    the_name_of_a_removed_folder_is_free_for_an_object,
];

fn an_empty_store_lists_as_empty(make: Make<'_>) {
    let store = make();
    assert_eq!(store.list(None).unwrap(), Listing::default());
    assert_eq!(store.list(Some(&key("no/such/folder"))).unwrap(), Listing::default());
}

fn a_listing_is_one_level_in_order(make: Make<'_>) {
    let store = make();
    for at in ["z", "b/2/x", "b/10", "b/1", "b/2/y/z", "a", "b.c/x", "b-c", "c/0/0"] {
        put(&*store, at, at.as_bytes());
    }
    let listing = |objects: &[&str], folders: &[&str]| Listing {
        objects: objects.iter().map(|at| (key(at), at.len() as u64)).collect(),
        folders: folders.iter().map(|at| key(at)).collect(),
        ..Listing::default()
    };
    let list = |prefix: &str| store.list(Some(&key(prefix))).unwrap();
    assert_eq!(store.list(None).unwrap(), listing(&["a", "b-c", "z"], &["b", "b.c", "c"]));
    assert_eq!(list("b"), listing(&["b/1", "b/10"], &["b/2"]));
    assert_eq!(list("b/2"), listing(&["b/2/x"], &["b/2/y"]));
    assert_eq!(list("c"), listing(&[], &["c/0"]));
}

fn a_prefix_is_a_whole_part(make: Make<'_>) {
    let store = make();
    put(&*store, "array/zarr.json", b"{}");
    put(&*store, "array2/zarr.json", b"{}");
    put(&*store, "arr", b"");
    let list = |prefix: &str| store.list(Some(&key(prefix))).unwrap();
    assert_eq!(list("array").objects, [(key("array/zarr.json"), 2)]);
    assert_eq!(list("arr"), Listing::default());
    assert_eq!(list("array/zarr.json"), Listing::default());
}

fn odd_names_are_names(make: Make<'_>) {
    let long = "n".repeat(200);
    let mut names = vec![
        "with space",
        " lead",
        "trail ",
        "ünï",
        "日本",
        "a..b",
        "...",
        ".hidden",
        "%2F",
        "%",
        "a+b&c=d?e#f",
        "quote\"'",
        "new\nline",
        "tab\t",
        "-dash",
        "~",
        "*[1]?",
        "a:b",
        "@",
        "$HOME",
        "{}",
        "|",
        ";",
        "<>",
        "c.0.0",
        ".tmp",
        ".shardine-",
        "__",
        &long,
    ];
    names.sort_unstable();
    let store = make();
    // A store may refuse names that others have trouble with, but must say so.
    let is_refused = |name: &str| {
        let put = store.put(&key(&format!("try/{name}")), b"", Condition::None);
        matches!(put, Err(StoreError::Key { .. })) && name.contains(char::is_control)
    };
    names.retain(|name| !is_refused(name));
    for name in &names {
        put(&*store, &format!("odd/{name}"), name.as_bytes());
        put(&*store, &format!("deep/{name}/x"), name.as_bytes());
    }
    let keys =
        |folder: &str| names.iter().map(|n| key(&format!("{folder}/{n}"))).collect::<Vec<_>>();
    let objects = store.list(Some(&key("odd"))).unwrap().objects;
    assert_eq!(objects.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), keys("odd"));
    assert_eq!(store.list(Some(&key("deep"))).unwrap().folders, keys("deep"));
    for name in &names {
        assert_eq!(get(&*store, &format!("odd/{name}")).unwrap(), name.as_bytes());
        assert_eq!(get(&*store, &format!("deep/{name}/x")).unwrap(), name.as_bytes());
        store.delete(&key(&format!("odd/{name}")), &Condition::None).unwrap();
        assert_eq!(get(&*store, &format!("odd/{name}")), None);
    }
}

fn a_removed_object_is_not_listed(make: Make<'_>) {
    let store = make();
    put(&*store, "a/b", b"x");
    store.delete(&key("a/b"), &Condition::None).unwrap();
    assert_eq!(store.list(Some(&key("a"))).unwrap(), Listing::default());
    let abandoned = create(&*store, "a/c");
    abandoned.append(b"x").unwrap();
    assert_eq!(store.list(Some(&key("a"))).unwrap(), Listing::default());
}

fn only_an_empty_folder_is_removed(make: Make<'_>) {
    let store = make();
    store.remove_empty_folder(&key("no/such/folder")).unwrap();
    put(&*store, "a/b/c", b"x");
    put(&*store, "a/d", b"y");
    for at in ["a/b", "a", "a/d", "a/b/c", "a/d/e", "a/b/x"] {
        store.remove_empty_folder(&key(at)).unwrap();
    }
    assert_eq!(get(&*store, "a/b/c").unwrap(), b"x");
    assert_eq!(get(&*store, "a/d").unwrap(), b"y");
    // An object that is being written keeps its folder.
    let begun = create(&*store, "w/x");
    store.remove_empty_folder(&key("w")).unwrap();
    store.publish(vec![begun.finish(&[]).unwrap()]).unwrap();
    assert_eq!(get(&*store, "w/x").unwrap(), b"");
}

fn the_name_of_a_removed_folder_is_free_for_an_object(make: Make<'_>) {
    let store = make();
    put(&*store, "c/0/0/0", b"old");
    store.delete(&key("c/0/0/0"), &Condition::None).unwrap();
    store.remove_empty_folder(&key("c/0/0")).unwrap();
    assert_eq!(store.list(Some(&key("c/0"))).unwrap(), Listing::default());
    put(&*store, "c/0/0", b"new");
    assert_eq!(get(&*store, "c/0/0").unwrap(), b"new");
    store.delete(&key("c/0/0"), &Condition::None).unwrap();
    for at in ["c/0", "c"] {
        store.remove_empty_folder(&key(at)).unwrap();
    }
    assert_eq!(store.list(None).unwrap(), Listing::default());
    put(&*store, "c/0/0/0", b"again");
    assert_eq!(get(&*store, "c/0/0/0").unwrap(), b"again");
}
