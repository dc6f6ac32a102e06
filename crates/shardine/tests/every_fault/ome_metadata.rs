//! OME-Zarr metadata that is judged and corrected.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use shardine::jobs::{FindingKind, RepairOptions, VerifyOptions, repair, verify};
use shardine::{Engine, Location};

use crate::common::ome5::{Documents, mendable};
use crate::disk::{State, Verb, at};
use crate::verbs::told;

fn set_up(root: &Path) {
    mendable().put_into(&*at(root).store);
}

/// A smaller one, so that each call is tried.
fn set_up_image(root: &Path) {
    let mut all = Documents::default();
    all.labelled("p");
    all.consolidate("p");
    all.forget_version("p/labels");
    all.change_ome("p", |ome| {
        ome["multiscales"][0]["datasets"].as_array_mut().unwrap().reverse();
    });
    all.change_ome("p/labels", |ome| ome["labels"] = json!(["gone"]));
    all.change("p/0/zarr.json", |array| array["dimension_names"] = json!(["a", "x"]));
    all.put_into(&*at(root).store);
}

/// What is wrong, if everything could be read.
fn judge(engine: &Arc<Engine>, root: &Location, options: &VerifyOptions) -> Result<String, String> {
    let mut found = Vec::new();
    let mut unread = Vec::new();
    let summary =
        verify(engine, &root.join("p").unwrap(), options, &mut |finding| match finding.kind {
            FindingKind::Unreadable | FindingKind::Metadata => unread.push(finding.message),
            _ => found.push(format!("{finding:?}")),
        });
    let summary = summary.map_err(told)?;
    match unread.is_empty() {
        true => Ok(format!("{summary:?} {found:?}")),
        false => Err(format!("{unread:?}")),
    }
}

/// All objects of the hierarchy.
fn objects(root: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut found = Vec::new();
    let mut folders = vec![root.join("p")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).map_err(|error| error.to_string())?;
                found.push((path.strip_prefix(root).unwrap().display().to_string(), bytes));
            }
        }
    }
    found.retain(|(name, _)| !name.contains(".shardine-"));
    found.sort();
    Ok(found)
}

fn all(root: &Path) -> State {
    let all = objects(root)?;
    Ok(all.into_iter().flat_map(|(name, bytes)| [name.into_bytes(), bytes].concat()).collect())
}

/// Everything but what is corrected: chunks, and what documents say beside that.
fn kept(root: &Path) -> State {
    let mut state = Vec::new();
    for (name, bytes) in objects(root)? {
        state.extend(name.bytes());
        if !name.ends_with("zarr.json") {
            state.extend(bytes);
            continue;
        }
        let mut document: Value =
            serde_json::from_slice(&bytes).map_err(|error| format!("{name}: {error}"))?;
        let members = document.as_object_mut().unwrap();
        members.shift_remove("dimension_names");
        members.shift_remove("consolidated_metadata");
        if let Some(ome) = document["attributes"].get_mut("ome") {
            let ome = ome.as_object_mut().unwrap();
            ome.shift_remove("version");
            ome.shift_remove("labels");
            ome.shift_remove("plate");
            if let Some(images) = ome.get_mut("multiscales") {
                let levels = images[0]["datasets"].as_array_mut().unwrap();
                levels.sort_by_key(|level| level["path"].to_string());
            }
        }
        state.extend(document.to_string().bytes());
    }
    Ok(state)
}

fn mend(engine: &Arc<Engine>, root: &Location) -> Result<String, String> {
    let options = RepairOptions::new(root.join("aside").unwrap());
    let location = root.join("p").unwrap();
    let summary = repair(engine, &location, &options, &mut |_| {}).map_err(told)?;
    if summary.left == 0 { Ok(String::new()) } else { Err(format!("{summary:?}")) }
}

pub fn ome() -> Vec<Verb> {
    let nothing: fn(&Path) -> State = |_| Ok(Vec::new());
    vec![
        Verb {
            name: "verify OME-Zarr",
            set_up,
            run: |engine, root| judge(engine, root, &VerifyOptions::new()),
            kept: nothing,
            done: nothing,
            again: true,
        },
        Verb {
            name: "verify documents of OME-Zarr",
            set_up,
            run: |engine, root| judge(engine, root, &VerifyOptions::new().metadata_only(true)),
            kept: nothing,
            done: nothing,
            again: true,
        },
        Verb { name: "repair OME-Zarr", set_up, run: mend, kept, done: all, again: true },
        Verb {
            name: "repair an image of OME-Zarr",
            set_up: set_up_image,
            run: mend,
            kept,
            done: all,
            again: true,
        },
    ]
}
