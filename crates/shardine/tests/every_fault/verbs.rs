//! Verbs on Zarr arrays.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use shardine::files::Input;
use shardine::jobs::{
    AppendFrom, AppendOptions, CompactOptions, CompareOptions, CopyCheck, CopyOptions, FindingKind,
    ImportOptions, MigrateOptions, RepackCheck, RepackOptions, RepairOptions, Severity,
    VerifyOptions, append, compact, compare, compare_objects, copy, import, migrate, repack,
    repair, verify,
};
use shardine::ome::OmeVersion;
use shardine::plan::ArrayLayout;
use shardine::store::{Condition, DiskObserver, DiskStep, FileStore, Key, StoreExt, Verdict};
use shardine::{
    Array, ArrayNode, DataType, Elements, Engine, Location, Node, Packing, Region, SliceOptions,
    SliceWriter, Strategy, WriteOptions,
};

use crate::common::ome::Files;
use crate::common::{bytes, document, metadata, noise};
use crate::disk::{State, Verb, at, engine};

pub fn told(error: shardine::Error) -> String {
    error.to_string()
}

/// Bytes in shards of 2 x 2 chunks with checksums.
fn sharded(shape: [u64; 2], index: &str) -> Value {
    let codecs = json!([{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [4, 4], "codecs": ["bytes", "crc32c"], "index_location": index,
        "index_codecs": [bytes(), "crc32c"]}}]);
    document(&shape, &[8, 8], "uint8".into(), 0.into(), codecs)
}

fn plain() -> Value {
    document(&[8, 8], &[4, 4], "uint8".into(), 0.into(), json!(["bytes", "crc32c"]))
}

fn make(root: &Path, name: &str, document: &Value) -> ArrayNode {
    let location = at(root).join(name).unwrap();
    let array = ArrayNode::create(&engine(), &location, metadata(document)).unwrap();
    let len: u64 = array.shape().iter().product();
    let elements = Elements::Fixed(noise(len as usize, 3));
    array.write_elements(Region::all(), elements.as_ref(), &WriteOptions::new()).unwrap();
    array
}

fn read(engine: &Arc<Engine>, location: &Location) -> Result<Vec<u8>, String> {
    let array = ArrayNode::open(engine, location).map_err(told)?;
    Ok(array.read_elements(Region::all()).map_err(told)?.into_fixed().unwrap())
}

fn read_of(root: &Path, name: &str) -> State {
    read(&engine(), &at(root).join(name).unwrap())
}

fn a(root: &Path) -> State {
    read_of(root, "a")
}

/// The array and the location of the result.
fn a_and_b(root: &Path) -> State {
    Ok([read_of(root, "a")?, read_of(root, "b")?].concat())
}

fn nothing(_: &Path) -> State {
    Ok(Vec::new())
}

fn set_up_end(root: &Path) {
    make(root, "a", &sharded([8, 8], "end"));
}

fn set_up_start(root: &Path) {
    make(root, "a", &sharded([8, 8], "start"));
}

fn set_up_plain(root: &Path) {
    make(root, "a", &plain());
}

/// An in-place update that died in the middle of its switch: there is a journal, and a torn index.
fn set_up_torn(root: &Path) {
    #[derive(Debug)]
    struct Dies(usize, AtomicUsize);
    impl DiskObserver for Dies {
        fn before(&self, step: DiskStep<'_>) -> Verdict {
            let error = io::Error::from_raw_os_error(5);
            match (self.1.fetch_add(1, Ordering::SeqCst), step) {
                (n, _) if n < self.0 => Verdict::Go,
                (n, DiskStep::Write { data, .. }) if n == self.0 => {
                    Verdict::Partly(data.len() / 2, error)
                }
                _ => Verdict::Fail(error),
            }
        }
    }
    for step in 0.. {
        let _ = fs::remove_dir_all(root.join("a"));
        set_up_end(root);
        let shard = root.join("a/c/0/0");
        let before = fs::read(&shard).unwrap();
        let store = FileStore::observed(root, Arc::new(Dies(step, AtomicUsize::new(0))));
        let location = Location::root(Arc::new(store)).join("a").unwrap();
        let array = ArrayNode::open(&engine(), &location).unwrap();
        assert!(update(&array, Strategy::InPlace).is_err(), "it never dies in its switch");
        let journal = root.join("a/c/0/.shardine-0.journal");
        let torn = fs::read(&shard).unwrap();
        // Longer, and with invalid bytes in place of the index at its end.
        let (data, crc) = torn.split_at(torn.len() - 4);
        let index = &data[data.len() - 64..];
        let fresh = index.iter().any(|&byte| byte != 0);
        if journal.exists()
            && torn.len() > before.len()
            && fresh
            && crc != crc32c::crc32c(index).to_le_bytes()
        {
            return;
        }
    }
}

fn update(array: &Array, strategy: Strategy) -> Result<(), shardine::Error> {
    let elements = Elements::Fixed(noise(16, 9));
    let region: Region = "2:6,2:6".parse().unwrap();
    array
        .write_elements(&region, elements.as_ref(), &WriteOptions::new().strategy(strategy))
        .map(drop)
}

fn write(engine: &Arc<Engine>, root: &Location, strategy: Strategy) -> Result<String, String> {
    let array = ArrayNode::open(engine, &root.join("a").unwrap()).map_err(told)?;
    update(&array, strategy).map_err(told)?;
    Ok(String::new())
}

pub fn check(engine: &Arc<Engine>, location: &Location) -> Result<String, String> {
    let mut found = Vec::new();
    let options = VerifyOptions::new().decode(true);
    let summary = verify(engine, location, &options, &mut |finding| found.push(finding.message))
        .map_err(told)?;
    if summary.is_ok() { Ok(format!("{summary:?} {found:?}")) } else { Err(format!("{found:?}")) }
}

/// What `verify` finds after a repair: losses are reported, and nothing else is damaged.
pub fn check_repaired(engine: &Arc<Engine>, location: &Location) -> Result<String, String> {
    let (mut found, mut damage) = (Vec::new(), Vec::new());
    let options = VerifyOptions::new().decode(true);
    verify(engine, location, &options, &mut |finding| match finding.kind {
        FindingKind::LostChunk | FindingKind::UnprovedChunk => found.push(finding.message),
        _ if finding.severity == Severity::Damage => damage.push(finding.message),
        _ => {}
    })
    .map_err(told)?;
    if damage.is_empty() { Ok(format!("{found:?}")) } else { Err(format!("{damage:?}")) }
}

/// A group with consolidated metadata, an array with shards, one without, and a file beside them.
fn set_up_group(root: &Path) {
    make(root, "g/a", &sharded([8, 8], "end"));
    make(root, "g/s/b", &plain());
    fs::write(root.join("g/a/notes"), "notes").unwrap();
    let nodes = json!({
        "a": serde_json::from_slice::<Value>(&fs::read(root.join("g/a/zarr.json")).unwrap()).unwrap(),
        "s": {"zarr_format": 3, "node_type": "group"},
        "s/b": serde_json::from_slice::<Value>(&fs::read(root.join("g/s/b/zarr.json")).unwrap()).unwrap(),
    });
    let group = json!({"zarr_format": 3, "node_type": "group", "consolidated_metadata": {
        "kind": "inline", "must_understand": false, "metadata": nodes}});
    fs::write(root.join("g/zarr.json"), group.to_string()).unwrap();
    fs::write(root.join("g/s/zarr.json"), r#"{"zarr_format": 3, "node_type": "group"}"#).unwrap();
}

fn group_at(root: &Path, name: &str) -> State {
    let notes = fs::read(root.join(name).join("a/notes")).map_err(|e| e.to_string())?;
    let elements = ["a", "s/b"].map(|array| read_of(root, &format!("{name}/{array}")));
    let [a, b] = elements;
    Ok([a?, b?, notes].concat())
}

fn group(root: &Path) -> State {
    group_at(root, "g")
}

fn both_groups(root: &Path) -> State {
    Ok([group(root)?, group_at(root, "h")?].concat())
}

/// The elements, how they are packed, and what the group says about that.
fn group_packed(root: &Path) -> State {
    let mut state = group(root)?;
    for document in ["g/zarr.json", "g/a/zarr.json", "g/s/b/zarr.json"] {
        state.extend(fs::read(root.join(document)).map_err(|e| e.to_string())?);
    }
    Ok(state)
}

fn list(engine: &Arc<Engine>, root: &Location) -> Result<String, String> {
    let Node::Group(group) = Node::open(engine, &root.join("g").unwrap()).map_err(told)? else {
        return Err("no group".to_owned());
    };
    let mut text = String::new();
    for child in group.children().map_err(told)? {
        text += &format!("{} ", child.name);
        if let Node::Array(array) = child.node.map_err(told)? {
            for object in array.objects().map_err(told)? {
                let entries = array.shard_entries(&object.cell).map_err(told)?;
                text += &format!("{object:?} {entries:?}");
            }
        }
    }
    Ok(text)
}

/// Equal but for one element, and packed in other ways.
fn set_up_pair(root: &Path) {
    make(root, "a", &sharded([8, 8], "end"));
    let other = make(root, "b", &plain());
    other.write((7, 7), &[0u8]).unwrap();
}

/// Equal, and packed alike; some chunks are not stored.
fn set_up_twins(root: &Path) {
    for name in ["a", "b"] {
        let array = make(root, name, &sharded([16, 8], "end"));
        array.write((8..12, ..), &[0u8; 32]).unwrap();
    }
}

/// What a comparison finds. A fault must not change it: neither equal nor different is said then.
pub fn compared(engine: &Arc<Engine>, a: &Location, b: &Location) -> Result<String, String> {
    let mut found = Vec::new();
    let summary = compare(engine, a, b, &CompareOptions::new(), &mut |one| {
        found.push((one.path, one.kind.name()));
    });
    let summary = summary.map_err(told)?;
    Ok(format!("{} arrays, {} differ: {found:?}", summary.arrays, summary.differing))
}

pub fn looking() -> Vec<Verb> {
    let base = |name, set_up: fn(&Path), run| Verb {
        name,
        set_up,
        run,
        kept: nothing,
        done: nothing,
        again: true,
    };
    vec![
        base("read", set_up_end, |engine, root| {
            let array = ArrayNode::open(engine, &root.join("a").unwrap()).map_err(told)?;
            let mut text = String::new();
            // The second time with everything cached and open.
            for _ in 0..2 {
                text += &format!("{:?}", array.read_elements("2:7,:").map_err(told)?);
                text += &format!("{:?}", array.read_elements("1,1").map_err(told)?);
            }
            Ok(text)
        }),
        base("read without shards", set_up_plain, |engine, root| {
            read(engine, &root.join("a").unwrap()).map(|elements| format!("{elements:?}"))
        }),
        base("read what a killed writer left", set_up_torn, |engine, root| {
            read(engine, &root.join("a").unwrap()).map(|elements| format!("{elements:?}"))
        }),
        base("info and ls", set_up_group, list),
        base("verify", set_up_group, |engine, root| check(engine, &root.join("g").unwrap())),
        base("compare", set_up_pair, |engine, root| {
            compared(engine, &root.join("a").unwrap(), &root.join("b").unwrap())
        }),
        base("compare what is packed alike", set_up_twins, |engine, root| {
            compared(engine, &root.join("a").unwrap(), &root.join("b").unwrap())
        }),
        base("compare groups", set_up_group, |engine, root| {
            compared(engine, &root.join("g").unwrap(), &root.join("g").unwrap())
        }),
        base("compare what a killed writer left", set_up_torn, |engine, root| {
            compared(engine, &root.join("a").unwrap(), &root.join("a").unwrap())
        }),
        base("compare bytes", set_up_twins, |engine, root| {
            let (a, b) = (root.join("a").unwrap(), root.join("b").unwrap());
            let mut found = Vec::new();
            let summary = compare_objects(engine, &a, &b, &mut |one| found.push(one));
            Ok(format!("{:?} {found:?}", summary.map_err(told)?))
        }),
        base("plan", set_up_end, |engine, root| {
            let array = ArrayNode::open(engine, &root.join("a").unwrap()).map_err(told)?;
            Ok(format!("{:?}", shardine::plan::sample(&array).map_err(told)?))
        }),
    ]
}

fn set_up_none(_: &Path) {}

fn created(root: &Path) -> State {
    let array = ArrayNode::open(&engine(), &at(root).join("a").unwrap()).map_err(told)?;
    Ok(format!("{:?}", array.metadata()).into_bytes())
}

pub fn writing() -> Vec<Verb> {
    let base =
        |name, set_up: fn(&Path), run| Verb { name, set_up, run, kept: a, done: a, again: true };
    vec![
        base("write, auto, index at start", set_up_start, |e, r| write(e, r, Strategy::Auto)),
        base("write, rewrite", set_up_end, |e, r| write(e, r, Strategy::Rewrite)),
        base("write, in place, index at start", set_up_start, |e, r| {
            write(e, r, Strategy::InPlace)
        }),
        base("write, in place, index at end", set_up_end, |e, r| write(e, r, Strategy::InPlace)),
        base("write, append", set_up_start, |e, r| write(e, r, Strategy::Append)),
        base("write after a killed writer", set_up_torn, |e, r| write(e, r, Strategy::InPlace)),
        Verb {
            name: "write without shards",
            set_up: |root| {
                let location = at(root).join("a").unwrap();
                let one = document(&[4, 4], &[4, 4], "uint8".into(), 0.into(), json!(["bytes"]));
                ArrayNode::create(&engine(), &location, metadata(&one)).unwrap();
            },
            run: |engine, root| {
                let array = ArrayNode::open(engine, &root.join("a").unwrap()).map_err(told)?;
                let elements = Elements::Fixed(noise(16, 9));
                let options = WriteOptions::new();
                array.write_elements(Region::all(), elements.as_ref(), &options).map_err(told)?;
                Ok(String::new())
            },
            kept: a,
            done: a,
            again: true,
        },
        Verb {
            name: "append",
            set_up: set_up_end,
            run: |engine, root| {
                let array = ArrayNode::open(engine, &root.join("a").unwrap()).map_err(told)?;
                let mut writer = SliceWriter::new(array, 0, SliceOptions::new()).map_err(told)?;
                let planes = Elements::Fixed(noise(24, 5));
                writer.push_elements(planes.as_ref()).map_err(told)?;
                writer.finish().map_err(told)?;
                Ok(String::new())
            },
            kept: a,
            done: a,
            // It would append again.
            again: false,
        },
        Verb {
            name: "append a file",
            set_up: |root| {
                set_up_end(root);
                fs::write(root.join("in.raw"), noise(24, 5)).unwrap();
            },
            run: |engine, root| {
                let from = AppendFrom::File(Box::new(file_in(root)?));
                let location = root.join("a").unwrap();
                append(engine, from, &location, &AppendOptions::new()).map_err(told)?;
                Ok(String::new())
            },
            kept: a,
            done: a,
            // The next run does not know what existed when the last commit failed.
            again: false,
        },
        Verb {
            name: "import",
            set_up: |root| fs::write(root.join("in.raw"), noise(64, 5)).unwrap(),
            run: |engine, root| {
                let mut layout = ArrayLayout::default();
                layout.chunk = Some(vec![2, 8]);
                layout.packing = Packing::ChunksPerShard(vec![2, 1]);
                let data_type = DataType::parse_name("uint8").unwrap();
                let options = ImportOptions::new().raw(&[8, 8], data_type).layout(layout);
                let location = root.join("a").unwrap();
                import(engine, file_in(root)?, &location, &options).map_err(told)?;
                Ok(String::new())
            },
            kept: nothing,
            done: a,
            // It exists, if only the last step failed.
            again: false,
        },
        Verb {
            name: "create",
            set_up: set_up_none,
            run: |engine, root| {
                let location = root.join("a").unwrap();
                let metadata = metadata(&sharded([8, 8], "end"));
                ArrayNode::create(engine, &location, metadata).map_err(told)?;
                Ok(String::new())
            },
            kept: nothing,
            done: created,
            // It exists, if only the last step failed.
            again: false,
        },
    ]
}

/// The input file, read without going through the failing disk.
fn file_in(root: &Location) -> Result<Input, String> {
    let folder = root.to_string();
    Input::open(&Path::new(&folder).join("in.raw")).map_err(|error| error.to_string())
}

fn set_up_gaps(root: &Path) {
    let array = make(root, "a", &sharded([8, 8], "end"));
    for seed in 0..3 {
        let elements = Elements::Fixed(noise(16, seed));
        let options = WriteOptions::new().strategy(Strategy::Append).max_gap(1.0);
        array.write_elements("0:4,0:4", elements.as_ref(), &options).unwrap();
    }
}

pub fn compact_all(engine: &Arc<Engine>, location: &Location) -> Result<String, String> {
    let mut failed = None;
    let options = CompactOptions::new().min_gap(0.0);
    compact(engine, location, &options, &mut |told| failed = told.err().or(failed.take()))
        .map_err(told)?;
    failed.map_or(Ok(String::new()), |error| Err(told(error)))
}

fn compacted(root: &Path) -> State {
    let mut state = a(root)?;
    let len = fs::metadata(root.join("a/c/0/0")).map_err(|e| e.to_string())?.len();
    state.extend(len.to_le_bytes());
    Ok(state)
}

/// One chunk of four is damaged.
fn set_up_damaged(root: &Path) {
    make(root, "a", &sharded([8, 8], "start"));
    let path = root.join("a/c/0/0");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
}

/// What is not damaged.
fn sound(root: &Path) -> State {
    let array = ArrayNode::open(&engine(), &at(root).join("a").unwrap()).map_err(told)?;
    let mut state = Vec::new();
    for region in ["0:4,:", "4:,0:4"] {
        let part = array.read_elements(region).map_err(told)?;
        state.extend(part.into_fixed().unwrap());
    }
    Ok(state)
}

fn repaired(root: &Path) -> State {
    let mut state = a(root)?;
    state.extend(check_repaired(&engine(), &at(root).join("a").unwrap())?.bytes());
    Ok(state)
}

fn set_up_v2(root: &Path) {
    let array = json!({
        "zarr_format": 2, "shape": [4, 3], "chunks": [2, 3], "dtype": "|u1", "order": "C",
        "fill_value": 0, "filters": null, "compressor": null,
    });
    let location = at(root);
    for (name, bytes) in [
        ("g/.zgroup", json!({"zarr_format": 2}).to_string().into_bytes()),
        ("g/a/.zarray", array.to_string().into_bytes()),
        ("g/a/.zattrs", br#"{"unit": "m"}"#.to_vec()),
        ("g/a/0.0", vec![1, 2, 3, 4, 5, 6]),
        ("g/a/1.0", vec![7, 8, 9, 1, 2, 3]),
    ] {
        location.store.put(&Key::new(name).unwrap(), &bytes, Condition::None).unwrap();
    }
}

fn migrated(root: &Path) -> State {
    let mut state = read_of(root, "g/a")?;
    for document in ["g/zarr.json", "g/a/zarr.json"] {
        state.extend(fs::read(root.join(document)).map_err(|e| e.to_string())?);
    }
    Ok(state)
}

/// A small plate of OME-Zarr 0.4.
fn set_up_ome(root: &Path) {
    let mut files = Files::default();
    files.plate("g", &["A"], &["1"], 1, 1);
    files.consolidated("g");
    let location = at(root);
    for (name, bytes) in &files.0 {
        location.store.put(&Key::new(name).unwrap(), bytes, Condition::None).unwrap();
    }
}

/// The same of 0.5.
fn set_up_ome_0_5(root: &Path) {
    set_up_ome(root);
    migrate_ome(&engine(), &at(root), "0.5").unwrap();
}

fn migrate_ome(engine: &Arc<Engine>, root: &Location, version: &str) -> Result<String, String> {
    let options = MigrateOptions::new().ome_version(version.parse::<OmeVersion>().unwrap());
    migrate(engine, &root.join("g").unwrap(), &options, &mut |_| {}).map_err(told)?;
    Ok(String::new())
}

/// The documents that someone finds who opens the outermost node and goes on in its version, and
/// the elements of an array.
fn plate(root: &Path) -> State {
    let names: &[&str] = match root.join("g/zarr.json").exists() {
        true => &["zarr.json"],
        false => &[".zgroup", ".zarray", ".zattrs", ".zmetadata"],
    };
    let mut files = Files::default();
    files.plate("g", &["A"], &["1"], 1, 1);
    let mut state = read_of(root, "g/A/1/0/0")?;
    for node in files.nodes() {
        for name in names {
            let document = fs::read(root.join(&node).join(name)).unwrap_or_default();
            state.extend(format!("{node}/{name}: ").bytes().chain(document));
        }
    }
    Ok(state)
}

fn copy_to(root: &Location, from: &str, to: &str) -> Result<String, String> {
    let options = CopyOptions::new().threads(1).check(CopyCheck::Content);
    copy(&root.join(from).unwrap(), &root.join(to).unwrap(), &options).map_err(told)?;
    Ok(String::new())
}

pub fn jobs() -> Vec<Verb> {
    vec![
        Verb {
            name: "compact",
            set_up: set_up_gaps,
            run: |engine, root| compact_all(engine, &root.join("a").unwrap()),
            kept: a,
            done: compacted,
            again: true,
        },
        Verb {
            name: "repair",
            set_up: set_up_damaged,
            run: |engine, root| {
                let options = RepairOptions::new(root.join("aside").unwrap()).decode(true);
                let location = root.join("a").unwrap();
                let summary = repair(engine, &location, &options, &mut |_| {}).map_err(told)?;
                if summary.left == 0 { Ok(String::new()) } else { Err(format!("{summary:?}")) }
            },
            kept: sound,
            done: repaired,
            again: true,
        },
        Verb {
            name: "copy",
            set_up: set_up_group,
            run: |_, root| copy_to(root, "g", "h"),
            kept: group,
            done: both_groups,
            again: true,
        },
        Verb {
            name: "copy what a killed writer left",
            set_up: set_up_torn,
            run: |_, root| copy_to(root, "a", "b"),
            kept: a,
            done: a_and_b,
            again: true,
        },
        Verb {
            name: "migrate",
            set_up: set_up_v2,
            run: |engine, root| {
                let options = MigrateOptions::new().remove_v2(true);
                migrate(engine, &root.join("g").unwrap(), &options, &mut |_| {}).map_err(told)?;
                Ok(String::new())
            },
            kept: |root| read_of(root, "g/a"),
            done: migrated,
            again: true,
        },
        Verb {
            name: "migrate OME-Zarr from version 2",
            set_up: set_up_ome,
            run: |engine, root| migrate_ome(engine, root, "0.5"),
            kept: plate,
            done: plate,
            again: true,
        },
        Verb {
            name: "migrate OME-Zarr where documents are replaced",
            set_up: set_up_ome_0_5,
            run: |engine, root| migrate_ome(engine, root, "0.6"),
            kept: plate,
            done: plate,
            again: true,
        },
    ]
}

fn pack(
    engine: &Arc<Engine>,
    root: &Location,
    output: bool,
    options: RepackOptions,
) -> Result<String, String> {
    let target = output.then(|| root.join("h").unwrap());
    repack(engine, &root.join("g").unwrap(), target.as_ref(), &options, &mut |_| {})
        .map_err(told)?;
    Ok(String::new())
}

fn shards() -> RepackOptions {
    RepackOptions::new().packing(Packing::ChunksPerShard(vec![1, 2]))
}

fn no_shards() -> RepackOptions {
    RepackOptions::new().packing(Packing::Unsharded)
}

fn other_chunks() -> RepackOptions {
    RepackOptions::new().chunk(&[2, 8]).check(RepackCheck::Elements)
}

pub fn repacking() -> Vec<Verb> {
    let here = |name, run| Verb {
        name,
        set_up: set_up_group,
        run,
        kept: group,
        done: group_packed,
        again: true,
    };
    let there = |name, run| Verb {
        name,
        set_up: set_up_group,
        run,
        kept: group,
        done: both_groups,
        again: true,
    };
    vec![
        here("shard and reshard in place", |e, r| pack(e, r, false, shards())),
        here("unshard in place", |e, r| pack(e, r, false, no_shards())),
        here("other chunks in place", |e, r| pack(e, r, false, other_chunks())),
        there("reshard to another place", |e, r| pack(e, r, true, shards())),
        there("unshard to another place", |e, r| pack(e, r, true, no_shards())),
        there("other chunks to another place", |e, r| pack(e, r, true, other_chunks())),
    ]
}
