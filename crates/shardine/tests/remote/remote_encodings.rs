//! Data sets whose objects are encoded as their headers say, and volumes of compressed files behind
//! plain HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use crate::common;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use common::volumes::{fill, kinds, put, read_all, scale, volume_at, write as write_volume};
use common::*;
use serde_json::json;
use shardine::jobs::{ConvertOptions, CopyCheck, CopyOptions, ZarrForm, convert_to_zarr, copy};
use shardine::precomputed::Volume;
use shardine::store::{CreateOptions, HeaderName, Headers, Key, ReadRange};
use shardine::{ArrayNode, Elements, Location, StoreOptions, WriteOptions};
use shardine_testbed::{Azurite, Nginx, NginxOptions, SeaweedFs};

const BUCKET: &str = "encodings";

fn fresh(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn s3() -> Location {
    let server = SeaweedFs::shared().unwrap();
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| server.create_bucket(BUCKET).unwrap());
    let options = StoreOptions::new()
        .with("aws_endpoint", &server.endpoint())
        .with("aws_access_key_id", SeaweedFs::ACCESS_KEY)
        .with("aws_secret_access_key", SeaweedFs::SECRET_KEY)
        .with("aws_region", SeaweedFs::REGION);
    Location::with_options(&format!("s3://{BUCKET}/{}", fresh("s3")), &options).unwrap()
}

fn azure() -> Location {
    let server = Azurite::shared().unwrap();
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| server.create_container(BUCKET).unwrap());
    let options = StoreOptions::new()
        .with("azure_storage_account_name", Azurite::ACCOUNT)
        .with("azure_storage_account_key", Azurite::KEY)
        .with("azure_storage_endpoint", &server.endpoint());
    Location::with_options(&format!("az://{BUCKET}/{}", fresh("azure")), &options).unwrap()
}

fn local(path: &Path) -> Location {
    Location::parse(path.to_str().unwrap()).unwrap()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// All files below a folder, by relative name.
fn files(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => all.extend(files(&path).into_iter().map(|below| format!("{name}/{below}"))),
            false => all.push(name),
        }
    }
    all.sort();
    all
}

/// Makes a folder with the same files as another, each compressed.
fn compress(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(&file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, gzip(&fs::read(from.join(&file)).unwrap())).unwrap();
    }
}

/// Arrays with all kinds of chunks: those that do not record their length, those that do, and
/// shards.
fn arrays(folder: &Path) {
    let plain = document(&[40, 40], &[16, 16], "uint16".into(), 0.into(), json!([bytes()]));
    let packed =
        document(&[40, 40], &[16, 16], "uint16".into(), 0.into(), json!([bytes(), zstd()]));
    let shards = sharded(&[64, 64], &[32, 32], &[8, 8]);
    for (name, document) in [("plain", plain), ("packed", packed), ("shards", shards)] {
        let at = local(&folder.join(name));
        let array = ArrayNode::create(&engine(), &at, metadata(&document)).unwrap();
        let len = array.shape().iter().product::<u64>() as usize * 2;
        // Compressible data gets shorter when encoded, and noise gets longer.
        let mut elements = noise(len, 3);
        elements[..len / 2].fill(1);
        write(&array, "", elements);
    }
}

#[test]
fn what_a_server_says_is_gzip_is_read_verified_and_copied_as_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, served) = (folder.path().join("plain"), folder.path().join("served"));
    arrays(&plain);
    compress(&plain, &served);
    let server = Nginx::start(&served, &NginxOptions::default()).unwrap();
    for name in ["plain", "packed", "shards"] {
        let far = Location::parse(&format!("{}/gzip/{name}", server.url())).unwrap();
        let (here, there) = (
            ArrayNode::open(&engine(), &local(&plain.join(name))).unwrap(),
            ArrayNode::open(&engine(), &far).unwrap(),
        );
        assert!(read(&here, "") == read(&there, ""), "{name}");
        assert!(read(&here, "3:9,10:20") == read(&there, "3:9,10:20"), "{name}");
        for decode in [false, true] {
            assert_eq!(kinds(&far, decode), [""; 0], "{name}");
        }
        // Files have no headers, so the encoding that headers would state is undone.
        let copied = folder.path().join(format!("copy-of-{name}"));
        let options = CopyOptions::new().check(CopyCheck::Content);
        copy(&far, &local(&copied), &options).unwrap();
        assert_eq!(files(&copied), files(&plain.join(name)));
        for file in files(&copied) {
            let original = fs::read(plain.join(name).join(&file)).unwrap();
            assert!(fs::read(copied.join(&file)).unwrap() == original, "{name}/{file}");
        }
    }
}

/// Uploads an object as cloud-files and many upload tools do.
fn upload(at: &Location, name: &str, bytes: &[u8]) {
    let mut headers = Headers::default();
    headers.insert(HeaderName::ContentEncoding, "gzip".into());
    headers.insert(HeaderName::ContentType, "application/x-chunk".into());
    headers.insert(HeaderName::Metadata("owner".into()), "somebody".into());
    let key = Key::new(name).unwrap();
    let writer = at.store.create_with_headers(&key, CreateOptions::default(), &headers).unwrap();
    writer.append(&gzip(bytes)).unwrap();
    at.store.publish(vec![writer.finish(&[]).unwrap()]).unwrap();
}

fn headers(at: &Location, name: &str) -> Headers {
    let object = at.store.open_stored(&Key::new(name).unwrap()).unwrap();
    object.read(ReadRange::All).unwrap();
    object.headers()
}

#[test]
fn a_volume_of_encoded_objects_is_sound_and_stays_so_when_it_is_copied_and_updated() {
    let folder = tempfile::tempdir().unwrap();
    let made = volume_at(&local(folder.path()), &[scale("8", [40, 30, 20], None)]);
    write_volume(&made, 0, "0:20,:,:");
    let source = s3();
    let names = files(folder.path());
    for name in &names {
        upload(&source, name, &fs::read(folder.path().join(name)).unwrap());
    }
    // And arrays, with their metadata.
    let arrays_folder = tempfile::tempdir().unwrap();
    arrays(arrays_folder.path());
    let arrays_source = s3();
    for name in files(arrays_folder.path()) {
        let bytes = fs::read(arrays_folder.path().join(&name)).unwrap();
        upload(&arrays_source, &name, &bytes);
    }
    let expected = read_all(&made, 0);
    let sound = |at: &Location| {
        assert!(read_all(at, 0) == expected);
        for decode in [false, true] {
            assert_eq!(kinds(at, decode), [""; 0]);
        }
    };
    sound(&source);
    for target in [s3(), azure()] {
        let options = CopyOptions::new().check(CopyCheck::Content);
        let report = copy(&source, &target, &options).unwrap();
        assert_eq!(report.objects_copied, names.len() as u64);
        sound(&target);
        let listed = |at: &Location| at.store.list(Some(&Key::new("8").unwrap())).unwrap();
        assert_eq!(listed(&source), listed(&target), "they are stored as they were");
        for name in &names {
            assert_eq!(headers(&source, name), headers(&target, name), "{name}");
            assert!(headers(&target, name).get(&HeaderName::ContentEncoding) == Some("gzip"));
        }
    }
    let copied = tempfile::tempdir().unwrap();
    let target = local(&copied.path().join("volume"));
    copy(&source, &target, &CopyOptions::new().check(CopyCheck::Content)).unwrap();
    sound(&target);
    for name in &names {
        let original = fs::read(folder.path().join(name)).unwrap();
        assert!(fs::read(copied.path().join("volume").join(name)).unwrap() == original, "{name}");
    }
    for name in ["plain", "packed", "shards"] {
        let far = arrays_source.join(name).unwrap();
        let here = ArrayNode::open(&engine(), &local(&arrays_folder.path().join(name))).unwrap();
        assert!(read(&ArrayNode::open(&engine(), &far).unwrap(), "") == read(&here, ""), "{name}");
        for decode in [false, true] {
            assert_eq!(kinds(&far, decode), [""; 0], "{name}");
        }
        let copied = local(&copied.path().join(name));
        copy(&far, &copied, &CopyOptions::new()).unwrap();
        assert!(
            read(&ArrayNode::open(&engine(), &copied).unwrap(), "") == read(&here, ""),
            "{name}"
        );
    }
    // Part of a chunk is changed: the rest of it stays, and so do its headers.
    let array = Volume::open(&engine(), &source).unwrap().array(0).unwrap();
    let one = Elements::Fixed(vec![77]);
    array.write_elements("3,3,3,0", one.as_ref(), &WriteOptions::new()).unwrap();
    let Elements::Fixed(mut changed) = expected else { panic!("of another type") };
    changed[(3 * 30 + 3) * 20 + 3] = 77;
    assert!(read_all(&source, 0) == Elements::Fixed(changed));
    let kept = headers(&source, "8/0-16_0-16_0-16");
    assert_eq!(kept.get(&HeaderName::ContentType), Some("application/x-chunk"));
    assert_eq!(kept.get(&HeaderName::Metadata("owner".into())), Some("somebody"));
    assert_eq!(kept.get(&HeaderName::ContentEncoding), None);
}

#[test]
fn a_volume_of_compressed_files_is_read_and_converted_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, served) = (folder.path().join("plain"), folder.path().join("served"));
    let made = volume_at(&local(&plain), &[scale("8", [60, 30, 20], None)]);
    // The last chunks are missing.
    write_volume(&made, 0, "0:40,:,:");
    let mut turn = 0;
    for file in files(&plain) {
        let target = served.join(&file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let bytes = fs::read(plain.join(&file)).unwrap();
        turn += 1;
        // Some have not been compressed.
        match file == "info" || turn % 5 == 0 {
            true => fs::write(&target, bytes).unwrap(),
            false => fs::write(format!("{}.gz", target.display()), gzip(&bytes)).unwrap(),
        }
    }
    assert!(files(&served).iter().any(|name| name.ends_with(".gz")));
    let server = Nginx::start(&served, &NginxOptions::default()).unwrap();
    let expected = read_all(&made, 0);
    for below in ["", "no-etag", "bare"] {
        let far = Location::parse(&format!("{}/{below}", server.url())).unwrap();
        assert!(read_all(&far, 0) == expected, "{below}");
        let array = Volume::open(&engine(), &far).unwrap().array(0).unwrap();
        let region = "7:33,2:29,15:18";
        let here = Volume::open(&engine(), &made).unwrap().array(0).unwrap();
        assert!(array.read_elements(region).unwrap() == here.read_elements(region).unwrap());
        let at = local(&folder.path().join(format!("converted-{below}")));
        let mut levels = Vec::new();
        convert_to_zarr(
            &engine(),
            &far,
            &at,
            &ZarrForm::default(),
            &ConvertOptions::new(),
            &mut |level| levels.push(level),
        )
        .unwrap();
        assert!(levels[0].objects_written > 0, "{levels:?}");
        let there = copy_of(&made, folder.path(), below);
        let ours = levels[0].chunks_moved + levels[0].chunks_recoded;
        assert_eq!(ours, there, "as many chunks as of files");
        // A copy has the same files under the same names.
        let copied = folder.path().join(format!("copied-{below}"));
        let options = CopyOptions::new().check(CopyCheck::Content);
        copy(&far, &local(&copied), &options).unwrap();
        assert_eq!(files(&copied), files(&served));
        for file in files(&served) {
            assert!(fs::read(copied.join(&file)).unwrap() == fs::read(served.join(&file)).unwrap());
        }
    }
    // What exists but cannot be read is not missing.
    let name = files(&served).into_iter().find(|name| name.ends_with(".gz")).unwrap();
    let bare = name.strip_suffix(".gz").unwrap();
    fs::rename(served.join(&name), served.join(format!("{bare}.br"))).unwrap();
    let far = Location::parse(&server.url()).unwrap();
    let array = Volume::open(&engine(), &far).unwrap().array(0).unwrap();
    let error = array.read_elements(shardine::Region::all()).unwrap_err().to_string();
    assert!(error.contains(".br"), "{error}");
}

/// Converts a volume of files, and returns the number of its chunks.
fn copy_of(made: &Location, folder: &Path, name: &str) -> u64 {
    let at = local(&folder.join(format!("expected-{name}")));
    let mut chunks = 0;
    convert_to_zarr(
        &engine(),
        made,
        &at,
        &ZarrForm::default(),
        &ConvertOptions::new(),
        &mut |level| chunks = level.chunks_moved + level.chunks_recoded,
    )
    .unwrap();
    chunks
}

#[test]
fn what_a_killed_trial_of_conditions_left_blocks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let made = volume_at(&local(folder.path()), &[scale("8", [40, 30, 20], None)]);
    fill(&made, 0);
    let left = |at: &Location| {
        for name in [".shardine-probe", ".shardine-probe-0123456789abcdef"] {
            put(at, name, b"shardine looks whether conditions count");
        }
    };
    let target = s3();
    left(&target);
    copy(&made, &target, &CopyOptions::new()).unwrap();
    assert!(read_all(&target, 0) == read_all(&made, 0));
    assert_eq!(kinds(&target, true), [""; 0]);
    let target = s3();
    left(&target);
    volume_at(&target, &[scale("8", [40, 30, 20], None)]);
    let target = s3();
    left(&target);
    let array =
        ArrayNode::create(&engine(), &target, metadata(&sharded(&[64, 64], &[32, 32], &[8, 8])));
    write(&array.unwrap(), "", noise(64 * 64 * 2, 1));
    assert_eq!(kinds(&target, true), [""; 0]);
}
