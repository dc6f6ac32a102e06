use serde_json::{Value, json};
use shardine::jobs::{ConvertOptions, VolumeForm, ZarrForm};
use shardine::plan::VolumePacking;
use shardine::store::{Condition, Key, StoreExt};
use shardine::{ArrayNode, CodecChoice, Error, Location, Packing};

use crate::common::data_set::dump;
use crate::common::*;
use crate::convert::scene::*;

fn array(shape: &[u64], data_type: &str, names: Option<&[&str]>) -> Location {
    let place = memory();
    let chunk: Vec<u64> = shape.iter().map(|_| 2).collect();
    let fill = json!(if data_type == "bool" { json!(false) } else { json!(0) });
    let mut document = document(shape, &chunk, data_type.into(), fill, json!([bytes()]));
    if let Some(names) = names {
        document["dimension_names"] = json!(names);
    }
    ArrayNode::create(&engine(), &place, metadata(&document)).unwrap();
    place
}

/// The error, after checking that nothing was made.
fn refused(old: &Location, form: &VolumeForm, options: &ConvertOptions) -> String {
    let new = memory();
    let error = to_volume(old, &new, form, options).unwrap_err();
    assert!(dump(&*new.store).is_empty(), "{error}");
    error.to_string()
}

#[test]
fn what_a_volume_cannot_have_is_refused_by_name() {
    let plain = |old: &Location| refused(old, &VolumeForm::new(), &ConvertOptions::new());
    for data_type in ["int64", "float64", "bool", "float16"] {
        let said = plain(&array(&[2, 2, 2], data_type, None));
        assert!(said.contains(data_type) && said.contains("uint8"), "{said}");
    }
    for shape in [&[2, 2][..], &[2, 2, 2, 2, 2]] {
        let said = plain(&array(shape, "uint8", None));
        assert!(said.contains("axes"), "{said}");
    }
    for names in [&["t", "y", "x"][..], &["x", "x", "y"], &["c", "y", "x"], &["t", "z", "y", "x"]] {
        let shape: Vec<u64> = names.iter().map(|_| 2).collect();
        let said = plain(&array(&shape, "uint8", Some(names)));
        assert!(said.contains(&names.join(", ")), "{said}");
    }
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_made() {
    let old = array(&[8, 8, 8], "uint8", None);
    let form = VolumeForm::new().packing(VolumePacking::Box([2, 8, 2]));
    assert!(refused(&old, &form, &ConvertOptions::new()).contains("possible are"));
    for chunk in [&[2, 2][..], &[0, 1, 1], &[2, 2, 2, 2]] {
        let said = refused(&old, &VolumeForm::new(), &ConvertOptions::new().chunk(chunk));
        assert!(said.contains("channels"), "{said}");
    }
    let scales = [scale("s", [8, 8, 8], [4, 4, 4], Value::Null)];
    let old = memory();
    volume(&old, info("uint8", 1, &scales), "");
    let nested = crate::common::sharding(&[2, 2, 2, 1], json!([bytes()]));
    let nested = shardine::zarr::metadata::codec_specs_from_json(&json!([nested])).unwrap();
    for (form, options) in [
        (ZarrForm::new(), ConvertOptions::new().chunk(&[2, 2])),
        (ZarrForm::new(), ConvertOptions::new().chunk(&[2, 0, 2])),
        (ZarrForm::new().packing(Packing::Shard(vec![6, 6, 6])), ConvertOptions::new()),
        (ZarrForm::new().packing(Packing::ChunksPerShard(vec![1, 2])), ConvertOptions::new()),
        (ZarrForm::new().codecs(CodecChoice::Codecs(nested)), ConvertOptions::new()),
    ] {
        let new = memory();
        let error = to_zarr(&old, &new, &form, &options).unwrap_err();
        assert!(matches!(error, Error::Convert(_)), "{error}");
        assert!(dump(&*new.store).is_empty(), "{error}");
    }
}

#[test]
fn a_target_that_exists_is_only_replaced_when_asked() {
    let (old, new) = (memory(), memory());
    let scales = [scale("s", [8, 8, 8], [4, 4, 4], Value::Null)];
    volume(&old, info("uint8", 1, &scales), "");
    let plain = ConvertOptions::new();
    to_zarr(&old, &new, &ZarrForm::new(), &plain).unwrap();
    let before = dump(&*new.store);
    let error = to_zarr(&old, &new, &ZarrForm::new(), &plain).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    assert_eq!(dump(&*new.store), before);
    let form = ZarrForm::new().packing(Packing::ChunksPerShard(vec![2]));
    to_zarr(&old, &new, &form, &plain.clone().overwrite(true)).unwrap();
    assert_eq!(dump(&*new.store).len(), 3);
    // A volume is replaced too, but anything that is not a data set is not.
    let back = memory();
    to_volume(&new, &back, &VolumeForm::new(), &plain).unwrap();
    to_volume(&new, &back, &VolumeForm::new(), &plain.clone().overwrite(true)).unwrap();
    assert_eq!(dump(&*back.store), dump(&*old.store));
    let home = memory();
    home.store.put(&Key::new("letters/a.txt").unwrap(), b"dear", Condition::None).unwrap();
    let kept = dump(&*home.store);
    to_volume(&new, &home, &VolumeForm::new(), &plain.overwrite(true)).unwrap_err();
    assert_eq!(dump(&*home.store), kept);
}

#[test]
fn a_dry_run_tells_and_makes_nothing() {
    let (old, new) = (memory(), memory());
    let scales = [scale("s", [8, 8, 8], [4, 4, 4], Value::Null)];
    volume(&old, info("uint8", 1, &scales), "");
    let dry = ConvertOptions::new().dry_run(true);
    let (told, _) = to_zarr(&old, &new, &ZarrForm::new(), &dry).unwrap();
    assert!(told[0].moves && told[0].chunks_moved == 0);
    assert!(dump(&*new.store).is_empty());
}

#[test]
fn a_chunk_that_is_too_short_is_named_and_not_moved() {
    let (old, new) = (memory(), memory());
    let scales = [scale("s", [8, 4, 4], [4, 4, 4], Value::Null)];
    volume(&old, info("uint8", 1, &scales), "");
    let key = Key::new("s/1-5_0-4_1000-1004").unwrap();
    assert!(dump(&*old.store).contains_key(key.as_str()));
    old.store.put(&key, &[1; 63], Condition::None).unwrap();
    let error = to_zarr(&old, &new, &ZarrForm::new(), &ConvertOptions::new()).unwrap_err();
    assert!(error.to_string().contains("[1, 0, 0, 0]"), "{error}");
    assert!(!dump(&*new.store).contains_key("s/zarr.json"));
}

#[test]
fn a_volume_whose_chunks_cannot_be_written_is_not_made() {
    for encoding in ["jxl", "compresso", "something"] {
        let mut scale = scale("a", [4, 4, 4], [4, 4, 4], Value::Null);
        scale["encoding"] = encoding.into();
        let place = memory();
        let data_type = if encoding == "compresso" { "uint64" } else { "uint8" };
        let info = info(data_type, 1, &[scale]);
        let error = shardine::precomputed::Volume::create(&engine(), &place, info).unwrap_err();
        assert!(error.to_string().contains(encoding), "{error}");
        assert!(dump(&*place.store).is_empty());
    }
}
