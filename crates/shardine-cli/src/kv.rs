//! `shardine kv`: a folder of uint64 shards as a key-value store.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use shardine::files::is_device;
use shardine::precomputed::{KeyValueStore, KeyValues, PayloadKind, PutReport};
use shardine::{Error, Location};

use crate::cli::Machine;
use crate::create::parse_sharding;
use crate::failure::Failure;
use crate::interrupt::Unfinished;
use crate::{said, units};

const EXAMPLES: &str = "\
Examples:
  shardine kv ls volume/8_8_40
  shardine kv get volume/8_8_40 17 -o chunk.bin
  shardine kv put skeletons 1234=one.bin 5678=two.bin
  shardine kv rm skeletons 1234

The folder holds .shard files in Neuroglancer's neuroglancer_uint64_sharded_v1 format. Its sharding
is read from its own `info`, or from that of the volume or annotations it belongs to; use --sharding
if neither exists. Values are compressed and decompressed according to the sharding.

All keys of one command that are in the same shard are changed in one step. Other keys are kept, and
so are the fragments of meshes, which lie before their manifests.";

/// Get, put, remove or list the values of a uint64-sharded folder
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Kv {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Args)]
struct Folder {
    /// Path or URL of the folder that holds the shards
    url: String,
    /// Set the sharding as JSON, as in an `info`; @FILE reads it from a file
    #[arg(long, value_name = "JSON")]
    sharding: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Get the value of a key
    Get {
        #[command(flatten)]
        folder: Folder,
        /// Key to get
        key: u64,
        /// Write to FILE; - is standard output
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        output: PathBuf,
        /// Replace an existing file
        #[arg(long)]
        overwrite: bool,
        /// Get the bytes as stored, without decompressing
        #[arg(long, conflicts_with = "fragments")]
        raw: bool,
        /// Get the fragments that lie before the manifest of a mesh, instead of the manifest
        #[arg(long)]
        fragments: bool,
    },
    /// Store values
    Put {
        #[command(flatten)]
        folder: Folder,
        /// Key, and the file that holds its value; - reads standard input
        #[arg(value_name = "KEY=FILE", required = true, value_parser = key_and_file)]
        values: Vec<(u64, PathBuf)>,
        /// Store these fragments for a mesh: its key, and the file that holds them
        #[arg(long, value_name = "KEY=FILE", value_parser = key_and_file)]
        fragments: Vec<(u64, PathBuf)>,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove keys and their values
    Rm {
        #[command(flatten)]
        folder: Folder,
        /// Keys to remove
        #[arg(required = true)]
        keys: Vec<u64>,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the keys; reads only indexes
    Ls {
        #[command(flatten)]
        folder: Folder,
        /// Print one JSON document per key
        #[arg(long)]
        json: bool,
    },
}

fn key_and_file(text: &str) -> Result<(u64, PathBuf), String> {
    let (key, file) = text.split_once('=').ok_or("expected KEY=FILE")?;
    let key = key.trim().parse().map_err(|_| format!("\"{key}\" is not a 64-bit key"))?;
    Ok((key, PathBuf::from(file)))
}

impl Folder {
    fn open(&self, machine: &Machine) -> Result<KeyValueStore, Failure> {
        let engine = machine.engine()?;
        let location = machine.location(&self.url)?;
        if let Some(text) = &self.sharding {
            let sharding = parse_sharding(text)?;
            let kind = match KeyValueStore::open(&engine, &location) {
                Ok(known) => known.kind(),
                Err(_) => PayloadKind::Unknown,
            };
            return Ok(KeyValueStore::with_sharding(&engine, &location, sharding, kind));
        }
        match KeyValueStore::open(&engine, &location) {
            Err(Error::NoKeyValues { .. }) => {}
            opened => return Ok(opened?),
        }
        // The `info` of a volume is in a folder above, as many levels up as the key of the scale
        // has parts.
        let mut above = self.url.trim_end_matches('/');
        let mut folder = String::new();
        for _ in 0..4 {
            let Some((parent, name)) = above.rsplit_once('/') else { break };
            folder = if folder.is_empty() { name.to_owned() } else { format!("{name}/{folder}") };
            above = parent;
            if above.is_empty() || above.ends_with('/') {
                break;
            }
            let parent: Location = machine.location(above)?;
            match KeyValueStore::open_in(&engine, &parent, &folder) {
                Err(Error::NoKeyValues { .. }) => {}
                opened => return Ok(opened?),
            }
        }
        if let Some((parent, name)) = relative(&self.url) {
            let parent = machine.location(parent)?;
            match KeyValueStore::open_in(&engine, &parent, name) {
                Err(Error::NoKeyValues { .. }) => {}
                opened => return Ok(opened?),
            }
        }
        Err(Failure::from(Error::NoKeyValues { at: location.to_string() })
            .hint("use --sharding to set it, as JSON or @FILE, as in an `info`"))
    }
}

/// A bare name in the current folder.
fn relative(url: &str) -> Option<(&'static str, &str)> {
    let name = url.trim_end_matches('/');
    (!name.is_empty() && !name.contains('/')).then_some((".", name))
}

pub fn run(args: &Kv, machine: &Machine) -> Result<(), Failure> {
    match &args.action {
        Action::Get { folder, key, output, overwrite, raw, fragments } => {
            let store = folder.open(machine)?;
            let value = match (raw, fragments) {
                (true, _) => store.get_encoded(*key)?,
                (_, true) => store.get_fragments(*key)?,
                _ => store.get(*key)?,
            };
            let Some(value) = value else {
                return Err(Failure::new(format!("{} has no key {key}", folder.url))
                    .hint(format!("run `shardine kv ls {}` to list its keys", folder.url)));
            };
            save(output, *overwrite, &value)
        }
        Action::Put { folder, values, fragments, json } => {
            let store = folder.open(machine)?;
            let mut changes = KeyValues::new();
            for (key, file) in values {
                let found = fragments.iter().find(|(of, _)| of == key);
                let fragments = found.map_or(Ok(Vec::new()), |(_, file)| load(file))?;
                changes = changes.put_mesh(*key, load(file)?, fragments);
            }
            if let Some((key, _)) =
                fragments.iter().find(|(of, _)| !values.iter().any(|(key, _)| key == of))
            {
                return Err(Failure::new(format!(
                    "--fragments {key}: no value is given for this key"
                )));
            }
            report(&store.update(&changes)?, *json)
        }
        Action::Rm { folder, keys, json } => {
            let store = folder.open(machine)?;
            let changes = keys.iter().fold(KeyValues::new(), |changes, key| changes.remove(*key));
            report(&store.update(&changes)?, *json)
        }
        Action::Ls { folder, json } => {
            let store = folder.open(machine)?;
            let mut out = BufWriter::new(io::stdout().lock());
            list(&store, &mut out, *json)?;
            out.flush()?;
            Ok(())
        }
    }
}

fn list(store: &KeyValueStore, out: &mut dyn Write, as_json: bool) -> Result<(), Failure> {
    let mut failed = Ok(());
    if !as_json {
        writeln!(
            out,
            "{:>20}  {:<18}  {:>9}  {:>12}  {:>10}",
            "key", "shard", "minishard", "offset", "length"
        )?;
    }
    store.list(|listed| {
        if failed.is_err() {
            return;
        }
        let shard = store.sharding().shard_name(listed.shard);
        let (offset, length) = (listed.range.start, listed.range.end - listed.range.start);
        failed = if as_json {
            writeln!(
                out,
                "{}",
                json!({
                    // A string: most JSON readers round numbers above 2^53.
                    "key": listed.key.to_string(), "shard": shard, "minishard": listed.minishard,
                    "offset": offset, "length": length,
                })
            )
        } else {
            let (key, minishard) = (listed.key, listed.minishard);
            writeln!(out, "{key:>20}  {shard:<18}  {minishard:>9}  {offset:>12}  {length:>10}")
        };
    })?;
    Ok(failed?)
}

fn load(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error: io::Error| Failure::file(path, &error);
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map_err(failed)?;
        return Ok(bytes);
    }
    std::fs::read(path).map_err(failed)
}

fn save(path: &Path, overwrite: bool, value: &[u8]) -> Result<(), Failure> {
    if path == Path::new("-") {
        io::stdout().lock().write_all(value)?;
        return Ok(());
    }
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => Failure::file(path, &error),
    };
    // Pipes and devices are written to, not replaced.
    if is_device(path)? {
        let mut device = OpenOptions::new().write(true).open(path).map_err(failed)?;
        return device.write_all(value).map_err(failed);
    }
    let file = Unfinished::create(path, overwrite)?;
    file.output().file().write_all(value).map_err(failed)?;
    file.finish()
}

fn report(done: &PutReport, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let report = json!({
            "shards_written": done.shards_written,
            "shards_removed": done.shards_removed,
            "values_written": done.values_written,
            "values_kept": done.values_kept,
            "bytes_written": done.bytes_written,
        });
        writeln!(io::stdout(), "{report}")?;
        return Ok(());
    }
    let (values, shards) = (done.values_written, done.shards_written);
    writeln!(
        said::words(),
        "{} written, {} kept; {} written, {} removed",
        units::count(values, "value"),
        done.values_kept,
        units::count(shards, "shard"),
        done.shards_removed
    )?;
    Ok(())
}
