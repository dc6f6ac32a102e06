//! Verbs on precomputed volumes, and on values by key.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use shardine::jobs::{
    ConvertOptions, CopyOptions, RepackVolumeOptions, RepairOptions, VolumeForm, ZarrForm,
    convert_to_volume, convert_to_zarr, copy, repack_keys, repack_volume, repair,
};
use shardine::precomputed::{KeyValueStore, KeyValues, PayloadKind};
use shardine::precomputed::{Volume, VolumeInfo};
use shardine::shard::uint64::Sharding;
use shardine::{Array, ArrayNode, Elements, Engine, Location, Region, WriteOptions};

use crate::common::volumes::{scale, sharding};
use crate::common::{document, metadata, noise};
use crate::disk::{State, Verb, at, engine};
use crate::verbs::{check, check_repaired, compact_all, compared, told};

fn bits(shard: u32) -> Value {
    sharding(0, 1, shard, "gzip", "raw")
}

fn info(sharded: bool) -> VolumeInfo {
    let bits = bits(1);
    let scales = [scale("8", [33, 16, 16], sharded.then_some(&bits))];
    let info = json!({
        "@type": "neuroglancer_multiscale_volume", "type": "image", "data_type": "uint8",
        "num_channels": 1, "scales": scales,
    });
    VolumeInfo::parse(info.to_string().as_bytes()).unwrap()
}

fn make(root: &Path, sharded: bool) {
    let volume = Volume::create(&engine(), &at(root).join("v").unwrap(), info(sharded)).unwrap();
    let elements = Elements::Fixed(noise(33 * 256, 4));
    let array = volume.array(0).unwrap();
    array.write_elements(Region::all(), elements.as_ref(), &WriteOptions::new()).unwrap();
    fs::write(root.join("v/8/notes"), "notes").unwrap();
}

fn set_up(root: &Path) {
    make(root, true);
}

fn set_up_plain(root: &Path) {
    make(root, false);
}

fn open(engine: &Arc<Engine>, location: &Location) -> Result<Array, String> {
    Volume::open(engine, location).and_then(|volume| volume.array(0)).map_err(told)
}

fn elements(root: &Path, name: &str) -> State {
    let array = open(&engine(), &at(root).join(name).unwrap())?;
    Ok(array.read_elements(Region::all()).map_err(told)?.into_fixed().unwrap())
}

fn v(root: &Path) -> State {
    let notes = fs::read(root.join("v/8/notes")).map_err(|e| e.to_string())?;
    Ok([elements(root, "v")?, notes].concat())
}

fn packed(root: &Path) -> State {
    let info = fs::read(root.join("v/info")).map_err(|e| e.to_string())?;
    Ok([v(root)?, info].concat())
}

fn both(root: &Path) -> State {
    Ok([v(root)?, elements(root, "w")?].concat())
}

fn with_zarr(root: &Path) -> State {
    let mut state = v(root)?;
    let group = at(root).join("z").unwrap();
    let shardine::Node::Group(group) = shardine::Node::open(&engine(), &group).map_err(told)?
    else {
        return Err("no group".to_owned());
    };
    for child in group.children().map_err(told)? {
        if let shardine::Node::Array(array) = child.node.map_err(told)? {
            state.extend(array.read_elements(Region::all()).map_err(told)?.into_fixed().unwrap());
        }
    }
    Ok(state)
}

fn nothing(_: &Path) -> State {
    Ok(Vec::new())
}

fn write(engine: &Arc<Engine>, root: &Location) -> Result<String, String> {
    let array = open(engine, &root.join("v").unwrap())?;
    // Of a single chunk, and so of a single shard or object.
    let new = Elements::Fixed(noise(64, 8));
    let region = "2:6,2:6,2:6";
    array.write_elements(region, new.as_ref(), &WriteOptions::new()).map_err(told)?;
    Ok(String::new())
}

fn pack(
    engine: &Arc<Engine>,
    root: &Location,
    output: bool,
    to: Option<Value>,
) -> Result<String, String> {
    let sharding = to.map(|to| Sharding::from_json(&to).unwrap());
    let options = RepackVolumeOptions::new(sharding);
    let target = output.then(|| root.join("w").unwrap());
    repack_volume(engine, &root.join("v").unwrap(), target.as_ref(), &options, &mut |_| {})
        .map_err(told)?;
    Ok(String::new())
}

fn set_up_keys(root: &Path) {
    fs::create_dir(root.join("k")).unwrap();
    let info = json!({"@type": "neuroglancer_skeletons", "sharding": bits(1)});
    fs::write(root.join("k/info"), info.to_string()).unwrap();
    let values = KeyValueStore::open(&engine(), &at(root).join("k").unwrap()).unwrap();
    let all = (0..6u64).fold(KeyValues::new(), |all, key| all.put(key, noise(20, key)));
    values.update(&all).unwrap();
}

fn keys_of(engine: &Arc<Engine>, location: &Location) -> State {
    let values = KeyValueStore::open(engine, location).map_err(told)?;
    let mut keys = Vec::new();
    values.list(|key| keys.push(key.key)).map_err(told)?;
    let mut state = Vec::new();
    for key in keys {
        state.extend(key.to_le_bytes());
        state.extend(values.get(key).map_err(told)?.ok_or("a key without a value")?);
    }
    Ok(state)
}

fn keys(root: &Path) -> State {
    keys_of(&engine(), &at(root).join("k").unwrap())
}

fn keys_packed(root: &Path) -> State {
    let info = fs::read(root.join("k/info")).map_err(|e| e.to_string())?;
    Ok([keys(root)?, info].concat())
}

/// A shard with a corrupted value.
fn set_up_damaged(root: &Path) {
    set_up(root);
    let shard = root.join("v/8/1.shard");
    let len = fs::metadata(&shard).unwrap().len();
    fs::OpenOptions::new().write(true).open(&shard).unwrap().set_len(len - 3).unwrap();
}

/// With a gap at the end of a shard.
fn set_up_gap(root: &Path) {
    set_up(root);
    let shard = root.join("v/8/1.shard");
    let bytes = [fs::read(&shard).unwrap(), vec![7; 100]].concat();
    fs::write(&shard, bytes).unwrap();
}

fn compacted(root: &Path) -> State {
    let len = fs::metadata(root.join("v/8/1.shard")).map_err(|e| e.to_string())?.len();
    Ok([v(root)?, len.to_le_bytes().to_vec()].concat())
}

/// What the other shard has.
fn sound(root: &Path) -> State {
    let array = open(&engine(), &at(root).join("v").unwrap())?;
    Ok(array.read_elements(":16,:,:").map_err(told)?.into_fixed().unwrap())
}

fn repaired(root: &Path) -> State {
    let text = check_repaired(&engine(), &at(root).join("v").unwrap())?;
    Ok([elements(root, "v")?, text.into_bytes()].concat())
}

fn set_up_array(root: &Path) {
    let mut plain = document(&[8, 8, 8], &[4, 8, 8], "uint8".into(), 0.into(), json!(["bytes"]));
    plain["dimension_names"] = json!(["z", "y", "x"]);
    let location = at(root).join("z").unwrap();
    let array = ArrayNode::create(&engine(), &location, metadata(&plain)).unwrap();
    let elements = Elements::Fixed(noise(512, 6));
    array.write_elements(Region::all(), elements.as_ref(), &WriteOptions::new()).unwrap();
}

fn z(root: &Path) -> State {
    let array = ArrayNode::open(&engine(), &at(root).join("z").unwrap()).map_err(told)?;
    Ok(array.read_elements(Region::all()).map_err(told)?.into_fixed().unwrap())
}

fn z_and_v(root: &Path) -> State {
    Ok([z(root)?, elements(root, "v")?].concat())
}

pub fn all() -> Vec<Verb> {
    let verb = |name,
                set_up: fn(&Path),
                run,
                kept: fn(&Path) -> State,
                done: fn(&Path) -> State| {
        Verb { name, set_up, run, kept, done, again: true }
    };
    vec![
        verb(
            "read a volume",
            set_up,
            |engine, root| {
                let array = open(engine, &root.join("v").unwrap())?;
                Ok(format!("{:?}", array.read_elements(Region::all()).map_err(told)?))
            },
            nothing,
            nothing,
        ),
        verb(
            "compare a volume",
            |root| {
                set_up(root);
                let (from, to) = (at(root).join("v").unwrap(), at(root).join("z").unwrap());
                let (form, options) = (ZarrForm::new(), ConvertOptions::new());
                convert_to_zarr(&engine(), &from, &to, &form, &options, &mut |_| ()).unwrap();
            },
            |engine, root| compared(engine, &root.join("v").unwrap(), &root.join("z").unwrap()),
            nothing,
            nothing,
        ),
        verb(
            "read a volume without shards",
            set_up_plain,
            |engine, root| {
                let array = open(engine, &root.join("v").unwrap())?;
                Ok(format!("{:?}", array.read_elements(Region::all()).map_err(told)?))
            },
            nothing,
            nothing,
        ),
        verb("verify a volume", set_up, |e, r| check(e, &r.join("v").unwrap()), nothing, nothing),
        verb("write to a volume", set_up, write, v, v),
        verb(
            "compact a volume",
            set_up_gap,
            |e, r| compact_all(e, &r.join("v").unwrap()),
            v,
            compacted,
        ),
        verb("write to a volume without shards", set_up_plain, write, v, v),
        Verb {
            name: "create a volume",
            set_up: |_| {},
            run: |engine, root| {
                let location = root.join("v").unwrap();
                Volume::create(engine, &location, info(true)).map_err(told)?;
                Ok(String::new())
            },
            kept: nothing,
            done: |root| elements(root, "v"),
            // It exists, if only the last step failed.
            again: false,
        },
        verb(
            "reshard a volume in place",
            set_up,
            |e, r| pack(e, r, false, Some(bits(2))),
            v,
            packed,
        ),
        verb("unshard a volume in place", set_up, |e, r| pack(e, r, false, None), v, packed),
        verb(
            "shard a volume in place",
            set_up_plain,
            |e, r| pack(e, r, false, Some(bits(0))),
            v,
            packed,
        ),
        verb(
            "reshard a volume to another place",
            set_up,
            |e, r| pack(e, r, true, Some(bits(2))),
            v,
            both,
        ),
        verb(
            "repair a volume",
            set_up_damaged,
            |engine, root| {
                let options = RepairOptions::new(root.join("aside").unwrap()).decode(true);
                let location = root.join("v").unwrap();
                let summary = repair(engine, &location, &options, &mut |_| {}).map_err(told)?;
                if summary.left == 0 { Ok(String::new()) } else { Err(format!("{summary:?}")) }
            },
            sound,
            repaired,
        ),
        verb(
            "copy a volume",
            set_up,
            |_, root| {
                let options = CopyOptions::new().threads(1);
                copy(&root.join("v").unwrap(), &root.join("w").unwrap(), &options).map_err(told)?;
                Ok(String::new())
            },
            v,
            both,
        ),
        verb(
            "copy a volume of single chunks",
            set_up_plain,
            |_, root| {
                let options = CopyOptions::new().threads(1);
                copy(&root.join("v").unwrap(), &root.join("w").unwrap(), &options).map_err(told)?;
                Ok(String::new())
            },
            v,
            both,
        ),
        verb(
            "convert a volume to Zarr",
            set_up,
            |engine, root| {
                let (from, to) = (root.join("v").unwrap(), root.join("z").unwrap());
                let (form, options) = (ZarrForm::new(), ConvertOptions::new());
                convert_to_zarr(engine, &from, &to, &form, &options, &mut |_| {}).map_err(told)?;
                Ok(String::new())
            },
            v,
            with_zarr,
        ),
        verb(
            "convert an array to a volume",
            set_up_array,
            |engine, root| {
                let (from, to) = (root.join("z").unwrap(), root.join("v").unwrap());
                let (form, options) = (VolumeForm::new(), ConvertOptions::new());
                convert_to_volume(engine, &from, &to, &form, &options, &mut |_| {})
                    .map_err(told)?;
                Ok(String::new())
            },
            z,
            z_and_v,
        ),
        verb(
            "kv get and ls",
            set_up_keys,
            |engine, root| {
                keys_of(engine, &root.join("k").unwrap()).map(|found| format!("{found:?}"))
            },
            nothing,
            nothing,
        ),
        verb(
            "kv put and rm",
            set_up_keys,
            |engine, root| {
                let location = root.join("k").unwrap();
                let info = KeyValueStore::open(engine, &location).map_err(told)?;
                let sharding = info.sharding().clone();
                let values =
                    KeyValueStore::with_sharding(engine, &location, sharding, PayloadKind::Plain);
                // All in one shard, so that either all or none of it changes.
                let changes = KeyValues::new().put(0, vec![1; 9]).remove(1).put(4, vec![2; 5]);
                values.update(&changes).map_err(told)?;
                Ok(String::new())
            },
            keys,
            keys,
        ),
        verb(
            "reshard values by key in place",
            set_up_keys,
            |engine, root| {
                let to = Sharding::from_json(&bits(2)).unwrap();
                let options = RepackVolumeOptions::new(None);
                let location = root.join("k").unwrap();
                repack_keys(engine, &location, None, &to, &options, &mut |_| {}).map_err(told)?;
                Ok(String::new())
            },
            keys,
            keys_packed,
        ),
    ]
}
