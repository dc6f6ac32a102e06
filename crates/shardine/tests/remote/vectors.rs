//! Geometry on a server: what a query costs in requests, and what is found where nothing can be
//! listed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, Float32Array, RecordBatch};
use arrow_schema::{DataType, Fields};
use shardine::files::FoundFile;
use shardine::jobs::{
    CopyOptions, JobContext, VerifyOptions, WriteVectorsOptions, copy, verify, write_vectors,
};
use shardine::store::{Condition, Store as _};
use shardine::vectors::{
    Axis, GeometryBatch, GeometryError, GeometryKind, GeometrySchema, GeometrySource, Links,
    VectorQuery, VectorStore,
};
use shardine::zarr::consolidate;
use shardine::{CodecChoice, Engine, EngineOptions, ErrorKind, Location, StoreOptions};
use shardine_testbed::{Nginx, NginxOptions, Proxy, ProxyOptions, SeaweedFs};

/// How many points there are: cells of some 12 KiB, and a shard of 6 MiB, which is too large to be
/// read whole for one of them.
const COUNT: u64 = 512 * 1024;

/// The points of a cube of 80, in no order, in one batch.
struct Points(GeometrySchema, bool);

fn coordinate(row: u64, axis: u64) -> f32 {
    let mut mixed = (row * 3 + axis + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^= mixed >> 27;
    ((mixed >> 40) % 80_000) as f32 / 1000.0
}

fn position(row: u64) -> [f32; 3] {
    [0, 1, 2].map(|axis| coordinate(row, axis))
}

impl GeometrySource for Points {
    fn schema(&self) -> &GeometrySchema {
        &self.0
    }

    fn next_batch(&mut self) -> Result<Option<GeometryBatch>, GeometryError> {
        if std::mem::replace(&mut self.1, true) {
            return Ok(None);
        }
        let axis = |axis: u64| -> ArrayRef {
            Arc::new(Float32Array::from_iter_values((0..COUNT).map(|row| coordinate(row, axis))))
        };
        let columns = vec![axis(0), axis(1), axis(2)];
        let vertices = RecordBatch::try_new(self.0.vertex_columns(), columns)?;
        Ok(Some(GeometryBatch { first_row: 0, vertices, links: Links::default() }))
    }
}

fn engine() -> Arc<Engine> {
    Engine::new(&EngineOptions::default().threads(2)).unwrap()
}

/// A store in a folder, made once: chunks of 10 in one shard of 8 along each axis.
fn stored() -> &'static Path {
    static MADE: OnceLock<tempfile::TempDir> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let axis = |name: &str| Axis { name: name.to_owned(), unit: None };
        let schema = GeometrySchema {
            kind: GeometryKind::Points,
            axes: ["x", "y", "z"].map(axis).to_vec(),
            coordinate: DataType::Float32,
            objects: false,
            vertex_attributes: Fields::empty(),
            link_attributes: Fields::empty(),
        };
        let input = folder.path().join("input");
        std::fs::write(&input, "points").unwrap();
        let options = WriteVectorsOptions::new(&[10.0; 3])
            .shard(&[8])
            .codec(CodecChoice::Words(vec!["zstd:1".to_owned()]));
        let target = Location::parse(folder.path().join("store").to_str().unwrap()).unwrap();
        let inputs = [FoundFile::of(&input).unwrap()];
        write_vectors(
            JobContext::new(&engine()),
            &mut Points(schema, false),
            &inputs,
            &target,
            &options,
        )
        .unwrap();
        folder
    });
    made.path()
}

/// The points of a box, in bits, so that they can be compared.
fn ask(store: &VectorStore, low: f64, high: f64) -> BTreeSet<[u32; 3]> {
    let mut rows = store.query(&VectorQuery::new().bounds([low; 3], [high; 3])).unwrap();
    let mut found = BTreeSet::new();
    while let Some(batch) = rows.read_batch().unwrap() {
        let column =
            |at: usize| batch.vertices.column(at).as_primitive::<Float32Type>().values().clone();
        let axes = [column(0), column(1), column(2)];
        found.extend(
            (0..batch.vertices.num_rows()).map(|row| [0, 1, 2].map(|at| axes[at][row].to_bits())),
        );
    }
    found
}

fn given(low: f64, high: f64) -> BTreeSet<[u32; 3]> {
    let inside = |at: &[f32; 3]| at.iter().all(|at| (low..=high).contains(&f64::from(*at)));
    (0..COUNT).map(position).filter(inside).map(|at| at.map(f32::to_bits)).collect()
}

fn cells(proxy: &Proxy) -> usize {
    proxy.count_where(|request| request.path().contains("/c/"))
}

/// What queries of a store cost that holds [`stored`].
fn costs(name: &str, proxy: &Proxy, location: &Location) {
    proxy.reset();
    let store = VectorStore::open_in(&engine(), location).unwrap();
    let documents = proxy.count();
    proxy.reset();
    assert_eq!(ask(&store, 31.0, 38.0), given(31.0, 38.0), "{name}");
    assert_eq!(cells(proxy), 2, "{name}: a cell of a cold shard");
    println!("{name}: {documents} requests to open, {} for the level", proxy.count() - 2);
    proxy.reset();
    assert_eq!(ask(&store, 52.0, 58.5), given(52.0, 58.5), "{name}");
    assert_eq!(proxy.count(), 1, "{name}: another cell of it, and nothing else");
    // Neighbours are one request. Cells lie in Morton order: 4 x 4 x 4 of the 8 x 8 x 8 cells are
    // one run where the box is aligned, and 8 runs where it is not.
    for (low, high, most) in [(0.0, 39.9, 3), (20.0, 59.9, 10)] {
        let store = VectorStore::open_in(&engine(), location).unwrap();
        proxy.reset();
        assert_eq!(ask(&store, low, high), given(low, high), "{name}");
        assert!(cells(proxy) <= most, "{name}: {} requests for 64 cells", cells(proxy));
        println!("{name}: {} requests for 64 cells from {low} on", cells(proxy));
    }
}

#[test]
fn one_cell_of_a_sharded_store_costs_two_requests_cold_and_one_warm() {
    let local = Location::parse(stored().join("store").to_str().unwrap()).unwrap();
    let server = SeaweedFs::shared().unwrap();
    server.create_bucket("vectors").unwrap();
    let proxy = Proxy::start(server.addr(), ProxyOptions::default()).unwrap();
    let options = StoreOptions::new()
        .with("aws_endpoint", &proxy.url())
        .with("aws_access_key_id", SeaweedFs::ACCESS_KEY)
        .with("aws_secret_access_key", SeaweedFs::SECRET_KEY)
        .with("aws_region", SeaweedFs::REGION);
    let far = Location::with_options("s3://vectors/store", &options).unwrap();
    copy(&local, &far, &CopyOptions::default()).unwrap();
    costs("s3", &proxy, &far);

    let server = Nginx::start(stored(), &NginxOptions::default()).unwrap();
    let proxy = Proxy::start(server.addr(), ProxyOptions::default()).unwrap();
    let url = format!("{}/store/", proxy.url().trim_end_matches('/'));
    costs("http", &proxy, &Location::parse(&url).unwrap());
}

/// The files of a store in tests/golden, in a folder, each as `encode` makes it.
fn unpack(name: &str, folder: &Path, encode: &dyn Fn(Vec<u8>) -> Vec<u8>) {
    let path =
        format!("{}/../../tests/golden/zarr-vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let all: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (key, content) in all["store"].as_object().unwrap() {
        let path = folder.join(name).join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let bytes = match content.as_str() {
            None => content.to_string().into_bytes(),
            Some(hex) => (0..hex.len() / 2)
                .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
                .collect(),
        };
        std::fs::write(path, encode(bytes)).unwrap();
    }
}

/// How many rows and links a level has, and what is said of it.
fn counted(location: &Location, level: u64) -> (usize, usize, Vec<String>) {
    let store = VectorStore::open_in(&engine(), location).unwrap();
    let mut rows = store.query(&VectorQuery::new().level(level)).unwrap();
    let (mut vertices, mut links) = (0, 0);
    while let Some(batch) = rows.read_batch().unwrap() {
        vertices += batch.vertices.num_rows();
        links += batch.links.len();
    }
    (vertices, links, rows.notes().to_vec())
}

#[test]
fn where_nothing_can_be_listed_nodes_are_found_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["points", "levels", "graph", "mesh", "skeleton", "pieces", "parametric"];
    names.iter().for_each(|name| unpack(name, folder.path(), &|bytes| bytes));
    let server = Nginx::start(folder.path(), &NginxOptions::default()).unwrap();
    for name in names {
        let near = Location::parse(folder.path().join(name).to_str().unwrap()).unwrap();
        let far = format!("{}/{name}/", server.url().trim_end_matches('/'));
        let far = Location::parse(&far).unwrap();
        let levels = VectorStore::open_in(&engine(), &near).unwrap().levels().to_vec();
        assert_eq!(VectorStore::open_in(&engine(), &far).unwrap().levels(), levels, "{name}");
        for level in levels {
            let (vertices, links, _) = counted(&near, level);
            let (rows, found, notes) = counted(&far, level);
            assert_eq!(rows, vertices, "{name}");
            // Links that skip a chunk cannot be guessed; that some are missing is said.
            let said = notes.iter().any(|note| note.contains("links are stored;"));
            assert!(found == links || (found < links && said), "{name}: {found} of {links}");
        }
    }
}

#[test]
fn levels_are_asked_for_by_number_only_where_the_root_names_none() {
    let folder = tempfile::tempdir().unwrap();
    unpack("levels", folder.path(), &|bytes| bytes);
    let server = Nginx::start(folder.path(), &NginxOptions::default()).unwrap();
    let proxy = Proxy::start(server.addr(), ProxyOptions::default()).unwrap();
    let name = |datasets: serde_json::Value| {
        let path = folder.path().join("levels/zarr.json");
        let mut root: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        root["attributes"]["multiscales"][0]["datasets"] = datasets;
        std::fs::write(&path, root.to_string()).unwrap();
        proxy.reset();
    };
    let levels = |below: &str| {
        let url = format!("{}{below}/levels", proxy.url().trim_end_matches('/'));
        let store = VectorStore::open_in(&engine(), Location::parse(&url).unwrap())?;
        Ok::<_, shardine::Error>(store.levels().to_vec())
    };
    let asked = |level: u64| {
        proxy.count_where(|request| request.path().contains(&format!("levels/{level}/")))
    };
    name(serde_json::json!([{"path": "0"}]));
    assert_eq!(levels("").unwrap(), [0]);
    assert_eq!((asked(0) > 0, asked(1), asked(2)), (true, 0, 0));
    name(serde_json::json!([]));
    assert_eq!(levels("").unwrap(), [0, 1]);
    assert!(asked(2) > 0 && asked(3) == 0);
    // There is no end that this server would tell, so none is looked for.
    name(serde_json::json!([]));
    let error = levels("/refusing").unwrap_err();
    assert!(error.to_string().contains("whether there is 2 cannot be found out"), "{error}");
    assert_eq!(asked(3), 0);
}

/// The kinds and messages of what `verify` finds.
fn judged(location: &Location) -> Vec<String> {
    let mut found = Vec::new();
    verify(&engine(), location, &VerifyOptions::new(), &mut |finding| {
        let object = finding.object.as_ref().map(ToString::to_string).unwrap_or_default();
        found.push(format!("{} {object}: {}", finding.kind, finding.message));
    })
    .unwrap();
    found
}

#[test]
fn a_store_on_a_server_is_judged_as_it_is_on_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let server = SeaweedFs::shared().unwrap();
    server.create_bucket("judged").unwrap();
    let options = StoreOptions::new()
        .with("aws_endpoint", &format!("http://{}", server.addr()))
        .with("aws_access_key_id", SeaweedFs::ACCESS_KEY)
        .with("aws_secret_access_key", SeaweedFs::SECRET_KEY)
        .with("aws_region", SeaweedFs::REGION);
    let web = Nginx::start(folder.path(), &NginxOptions::default()).unwrap();
    let names = ["points", "polylines", "graph", "mesh", "longer_chunks", "parametric"];
    for name in names {
        unpack(name, folder.path(), &|bytes| bytes);
        let near = Location::parse(folder.path().join(name).to_str().unwrap()).unwrap();
        let far = Location::with_options(&format!("s3://judged/{name}"), &options).unwrap();
        copy(&near, &far, &CopyOptions::default()).unwrap();
        assert_eq!(judged(&far), Vec::<String>::new(), "{name}");
        // Nothing can be listed there, so cells may go unchecked; nothing is taken for damage.
        consolidate(&near).unwrap();
        let url = format!("{}/{name}", web.url().trim_end_matches('/'));
        for found in judged(&Location::parse(&url).unwrap()) {
            assert!(found.starts_with("not-checked"), "{name}: {found}");
        }
    }
    // The same damage in both places.
    let (near, far) = (folder.path().join("graph"), "s3://judged/graph");
    let far = Location::with_options(far, &options).unwrap();
    let cell = std::fs::read_dir(near.join("0/vertices/c/0/0")).unwrap().next().unwrap().unwrap();
    let key = format!("0/vertices/c/0/0/{}", cell.file_name().to_str().unwrap());
    std::fs::remove_file(cell.path()).unwrap();
    far.store.delete(&far.key(&key).unwrap(), &Condition::None).unwrap();
    let near = judged(&Location::parse(near.to_str().unwrap()).unwrap());
    let mut far: Vec<String> =
        judged(&far).into_iter().map(|text| text.replace("graph/", "")).collect();
    let mut near: Vec<String> = near.into_iter().map(|text| text.replace("graph/", "")).collect();
    near.sort();
    far.sort();
    assert!(near.iter().any(|found| found.starts_with("vectors-links")), "{near:#?}");
    assert_eq!(far, near);
}

#[test]
fn with_consolidated_metadata_everything_is_found_where_nothing_can_be_listed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Nginx::start(folder.path(), &NginxOptions::default()).unwrap();
    for name in ["points", "graph", "mesh"] {
        unpack(name, folder.path(), &|bytes| bytes);
        let near = Location::parse(folder.path().join(name).to_str().unwrap()).unwrap();
        consolidate(&near).unwrap();
        let far = format!("{}/{name}/", server.url().trim_end_matches('/'));
        let far = Location::parse(&far).unwrap();
        let attributes =
            |at: &Location| VectorStore::open_in(&engine(), at).unwrap().info().unwrap().attributes;
        assert_eq!(attributes(&far), attributes(&near), "{name}");
        let ((rows, links, _), (found, joined, notes)) = (counted(&near, 0), counted(&far, 0));
        assert_eq!((found, joined), (rows, links), "{name}");
        assert!(notes[0].contains("it has what its consolidated metadata names"), "{notes:?}");
    }
}

#[test]
fn a_server_that_refuses_what_it_does_not_have_is_never_taken_to_have_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Nginx::start(folder.path(), &NginxOptions::default()).unwrap();
    for name in ["points", "graph", "polylines", "mesh"] {
        unpack(name, folder.path(), &|bytes| bytes);
        let near = Location::parse(folder.path().join(name).to_str().unwrap()).unwrap();
        let far = Location::parse(&format!("{}/refusing/{name}", server.url())).unwrap();
        // There may be arrays that nobody may read.
        let asked = VectorStore::open_in(&engine(), &far)
            .and_then(|store| store.query(&VectorQuery::new()).map(|_| ()));
        let error = asked.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage, "{name}: {error}");
        assert!(error.to_string().contains("cannot be found out"), "{name}: {error}");
        assert!(error.hint().unwrap().contains("shardine consolidate"), "{name}: {error}");
        // Nothing has to be guessed where all nodes are named.
        consolidate(&near).unwrap();
        if name == "mesh" {
            // The only id is 0, so its chunk is not stored, which this server does not say either.
            let store = VectorStore::open_in(&engine(), &far).unwrap();
            let error = store.query(&VectorQuery::new()).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
            continue;
        }
        let (wanted, found) = (counted(&near, 0), counted(&far, 0));
        assert_eq!((found.0, found.1), (wanted.0, wanted.1), "{name}");
    }
}

#[test]
fn a_store_that_a_server_says_is_gzip_is_read_as_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let gzip = |bytes: Vec<u8>| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&bytes).unwrap();
        encoder.finish().unwrap()
    };
    let plain = folder.path().join("plain");
    for name in ["points", "graph"] {
        unpack(name, folder.path(), &gzip);
        unpack(name, &plain, &|bytes| bytes);
    }
    let server = Nginx::start(folder.path(), &NginxOptions::default()).unwrap();
    for name in ["points", "graph"] {
        let far = Location::parse(&format!("{}/gzip/{name}", server.url())).unwrap();
        let near = Location::parse(plain.join(name).to_str().unwrap()).unwrap();
        assert_eq!(counted(&far, 0).0, counted(&near, 0).0, "{name}");
    }
}
