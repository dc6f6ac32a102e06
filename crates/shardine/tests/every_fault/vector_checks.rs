//! Stores of Zarr Vectors that are judged and repaired.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use shardine::jobs::{FindingKind, RepairOptions, VerifyOptions, repair, verify};
use shardine::store::{Condition, Key, StoreExt};
use shardine::{Engine, Location};

use crate::disk::{State, Verb, at};
use crate::verbs::told;

/// Paths in shards, with objects and links, as zarr-vectors wrote them.
fn set_up(root: &Path) {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/zarr-vectors/polylines.json");
    let all: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let store = at(root).store;
    for (name, content) in all["store"].as_object().unwrap() {
        let bytes = match content {
            Value::String(hex) => {
                let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
                (0..hex.len() / 2).map(byte).collect()
            }
            document => document.to_string().into_bytes(),
        };
        let key = Key::new(&format!("p/{name}")).unwrap();
        store.put(&key, &bytes, Condition::None).unwrap();
    }
}

/// The same with a list, a count and bounds that are wrong.
fn set_up_wrong(root: &Path) {
    set_up(root);
    let change = |node: &str, change: &dyn Fn(&mut Value)| {
        let path = root.join("p").join(node).join("zarr.json");
        let mut document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut document["attributes"]);
        fs::write(path, document.to_string()).unwrap();
    };
    change("0/vertices", &|of| drop(of["nonempty_chunks"].as_array_mut().unwrap().pop()));
    change("0", &|of| of["zarr_vectors_level"]["vertex_count"] = json!(1));
    change("", &|of| of["zarr_vectors"]["bounds"] = json!([[0, 0, 0], [0, 0, 0]]));
}

/// What is wrong, if everything could be read.
fn judge(engine: &Arc<Engine>, root: &Location) -> Result<String, String> {
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    let place = root.join("p").unwrap();
    let summary =
        verify(engine, &place, &VerifyOptions::new(), &mut |finding| match finding.kind {
            FindingKind::Unreadable | FindingKind::Metadata => unread.push(finding.message),
            _ => found.push(format!("{finding:?}")),
        });
    let summary = summary.map_err(told)?;
    match unread.is_empty() {
        true => Ok(format!("{summary:?} {found:?}")),
        false => Err(format!("{unread:?}")),
    }
}

fn mend(engine: &Arc<Engine>, root: &Location) -> Result<String, String> {
    let options = RepairOptions::new(root.join("aside").unwrap());
    let place = root.join("p").unwrap();
    let summary = repair(engine, &place, &options, &mut |_| {}).map_err(told)?;
    if summary.left == 0 { Ok(String::new()) } else { Err(format!("{summary:?}")) }
}

/// All files of the store; of documents, what is not corrected if `corrected` is left out.
fn state(root: &Path, corrected: bool) -> State {
    let (mut found, mut folders) = (Vec::new(), vec![root.join("p")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = fs::read(&path).map_err(|error| error.to_string())?;
            let name = path.display().to_string();
            let name = name.split_once("/p/").unwrap().1.to_owned();
            if name.contains(".shardine-") {
                continue;
            }
            if !name.ends_with("zarr.json") {
                found.push((name, bytes));
                continue;
            }
            let mut document: Value =
                serde_json::from_slice(&bytes).map_err(|error| format!("{name}: {error}"))?;
            let of = &mut document["attributes"];
            if !corrected {
                for (block, member) in
                    [("zarr_vectors", "bounds"), ("zarr_vectors_level", "vertex_count")]
                {
                    if let Some(block) = of.get_mut(block).and_then(Value::as_object_mut) {
                        block.shift_remove(member);
                    }
                }
                if let Some(all) = of.as_object_mut() {
                    all.shift_remove("nonempty_chunks");
                }
            }
            found.push((name, document.to_string().into_bytes()));
        }
    }
    found.sort();
    Ok(format!("{found:?}").into_bytes())
}

pub fn vectors() -> Vec<Verb> {
    let nothing: fn(&Path) -> State = |_| Ok(Vec::new());
    vec![
        Verb {
            name: "verify Zarr Vectors",
            set_up: set_up_wrong,
            run: judge,
            kept: nothing,
            done: nothing,
            again: true,
        },
        Verb {
            name: "repair Zarr Vectors",
            set_up: set_up_wrong,
            run: mend,
            kept: |root| state(root, false),
            done: |root| state(root, true),
            again: true,
        },
    ]
}
