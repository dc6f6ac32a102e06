//! Conversions to OME-Zarr.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use shardine::files::Input;
use shardine::jobs::{
    ConvertOptions, ImportOptions, LevelCount, OmeForm, convert_to_ome, import_to_ome,
};
use shardine::store::{Condition, FileStore, Key, StoreExt};
use shardine::{DataType, DownsampleMethod, Engine, Location};

use crate::common::noise;
use crate::common::ome::Files;
use crate::disk::{State, Verb};
use crate::verbs::told;

/// An image of 0.4 with two label images, and what lies beside them.
fn set_up(root: &Path) {
    let mut files = Files::default();
    files.labelled("", 2);
    files.put("", "notes.txt", b"kept");
    files.consolidated("");
    fs::write(root.join("f.raw"), noise(400, 1)).unwrap();
    let store = FileStore::new(root.join("a"));
    for (name, bytes) in &files.0 {
        store.put(&Key::new(name).unwrap(), bytes, Condition::None).unwrap();
    }
}

/// Every file below a folder.
fn tree(root: &Path) -> State {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).map_err(|error| error.to_string())? {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => waiting.push(path),
                false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
            }
        }
    }
    let named = found.iter().map(|(path, bytes)| (path.strip_prefix(root), bytes));
    Ok(format!("{:?}", named.collect::<Vec<_>>()).into_bytes())
}

fn source(root: &Path) -> State {
    tree(&root.join("a"))
}

fn target(root: &Path) -> State {
    tree(&root.join("b"))
}

fn convert(engine: &Arc<Engine>, root: &Location, form: &OmeForm) -> Result<String, String> {
    let (from, to) = (root.join("a").unwrap(), root.join("b").unwrap());
    let options = ConvertOptions::new();
    convert_to_ome(engine, &from, &to, form, &options, &mut |_| ()).map_err(told)?;
    Ok(String::new())
}

fn verb(name: &'static str, run: fn(&Arc<Engine>, &Location) -> Result<String, String>) -> Verb {
    Verb { name, set_up, run, kept: source, done: target, again: true }
}

pub fn conversions() -> Vec<Verb> {
    vec![
        verb("convert 0.4 to OME-Zarr 0.5", |engine, root| convert(engine, root, &OmeForm::new())),
        verb("convert to OME-Zarr with lower levels", |engine, root| {
            let levels = LevelCount::Number(3);
            convert(engine, root, &OmeForm::new().levels(levels).method(DownsampleMethod::Max))
        }),
        verb("import of a file into an image", |engine, root| {
            // The file itself is read past the disk that fails.
            let path = Path::new(&root.to_string()).join("f.raw");
            let options =
                ImportOptions::new().raw(&[20, 20], DataType::parse_name("uint8").unwrap());
            let form = OmeForm::new().levels(LevelCount::Number(2));
            let (input, to) = (Input::open(&path).unwrap(), root.join("b").unwrap());
            import_to_ome(engine, input, &to, &form, &options, &mut |_| ()).map_err(told)?;
            Ok(String::new())
        }),
    ]
}
