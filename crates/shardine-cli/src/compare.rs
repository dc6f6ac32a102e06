//! `shardine compare`: are two data sets equal, and where not?

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use shardine::Distance;
use shardine::files::{Input, is_npy};
use shardine::jobs::{
    Comparand, CompareOptions, CompareSide, Difference, DifferenceKind, ElementPlace,
    ObjectDifference, compare as compare_sets, compare_objects,
};

use crate::cli::{Machine, Places};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::said::{self, Said};
use crate::units;

const EXAMPLES: &str = "\
Examples:
  shardine compare image.zarr backup.zarr
  shardine compare em/precomputed em.zarr
  shardine compare em/precomputed em.zarr/8_8_40 --level 1
  shardine compare image.zarr image.npy
  shardine compare old.zarr new.zarr --data-only --json
  shardine compare image.zarr s3://bucket/image.zarr --bytes

Elements are compared, not how they are stored: different formats, chunks, shards or codecs are not
a difference, nor is a missing chunk where the other side holds the fill value. All NaNs are equal.
docs/compare.md describes the rules and the form of --json.

Exit status: 0 equal; 1 different; 2 any other error, with one line on standard error.";

/// Compare two data sets of any format, and report where they differ
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Compare {
    /// Array, volume, group with everything in it, or .npy file
    #[arg(value_name = "A")]
    a: String,
    /// Data set or .npy file to compare it with
    #[arg(value_name = "B")]
    b: String,
    #[command(flatten)]
    places: Places,
    /// Compare only this level of data sets with levels; 0 is the finest
    #[arg(long, value_name = "N")]
    level: Option<usize>,
    /// Ignore attributes, fill values and dimension names
    #[arg(long)]
    data_only: bool,
    /// Compare the stored objects byte for byte, whatever they contain
    #[arg(long, conflicts_with_all = ["level", "data_only"])]
    bytes: bool,
    /// Report at most N differences individually, and count the rest
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    max_differences: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Compare, machine: &Machine) -> Result<(), Failure> {
    let mut report = Report {
        out: BufWriter::new(said::out(args.json)),
        json: args.json,
        told: 0,
        most: args.max_differences,
        failed: Ok(()),
    };
    let (equal, summary, words) = match args.bytes {
        true => args.objects(machine, &mut report)?,
        false => args.elements(machine, &mut report)?,
    };
    match report.end(equal, &summary, &words) {
        // Nobody reads the report, but the exit status says all that matters.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        result => result?,
    }
    if equal { Ok(()) } else { Err(Failure::Differs) }
}

/// Whether both are equal, the totals, and the same in words.
type Outcome = (bool, Value, String);

impl Compare {
    fn elements(&self, machine: &Machine, report: &mut Report) -> Result<Outcome, Failure> {
        let engine = machine.engine()?;
        let file = |url: &str| {
            let path = Path::new(url);
            let is_file = !url.contains("://")
                && is_npy(path)
                && !fs::metadata(path).is_ok_and(|found| found.is_dir());
            is_file.then(|| Input::open(path)).transpose()
        };
        let a: Comparand = match file(&self.a)? {
            Some(file) => file.into(),
            None => self.places.source(machine, &self.a)?.into(),
        };
        let b: Comparand = match file(&self.b)? {
            Some(file) => file.into(),
            None => self.places.target(machine, &self.b)?.into(),
        };
        let progress = Progress::things("comparing", 0);
        let context = progress.context(&engine);
        let options = CompareOptions::new().data_only(self.data_only).level(self.level);
        let summary = compare_sets(&context, a, b, &options, &mut |difference| {
            progress.suspend(|| report.tell(&difference.to_json(), &|| words(&difference)));
        });
        progress.finish();
        let summary = summary?;
        let totals = json!({
            "arrays": summary.arrays,
            "elements": summary.elements,
            "differing": summary.differing,
            "chunks_not_decoded": summary.chunks_not_decoded,
            "differences": summary.differences,
        });
        let arrays = units::count(summary.arrays, "array");
        let elements = units::count(summary.elements, "element");
        Ok((summary.is_equal(), totals, format!("{arrays}, {elements}")))
    }

    fn objects(&self, machine: &Machine, report: &mut Report) -> Result<Outcome, Failure> {
        let engine = machine.engine()?;
        let a = self.places.source(machine, &self.a)?;
        let b = self.places.target(machine, &self.b)?;
        let progress = Progress::things("comparing", 0);
        let context = progress.context(&engine);
        let summary = compare_objects(&context, &a, &b, &mut |difference| {
            progress.suspend(|| report.tell(&difference.to_json(), &|| object_words(&difference)));
        });
        progress.finish();
        let summary = summary?;
        let totals = json!({
            "objects": summary.objects,
            "bytes": summary.bytes,
            "differences": summary.differences,
        });
        let objects = units::count(summary.objects, "object");
        let bytes = units::size(summary.bytes);
        Ok((summary.is_equal(), totals, format!("{objects} in both, {bytes}")))
    }
}

/// Where differences go as they come.
struct Report {
    out: BufWriter<Said>,
    json: bool,
    told: u64,
    most: u64,
    failed: io::Result<()>,
}

impl Report {
    fn tell(&mut self, json: &Value, words: &dyn Fn() -> String) {
        self.told += 1;
        if self.failed.is_err() || self.told > self.most {
            return;
        }
        self.failed = match (self.json, self.told) {
            (true, 1) => write!(self.out, "{{\"differences\": [\n{json}"),
            (true, _) => write!(self.out, ",\n{json}"),
            // Names come from files, and must not look like lines of the report.
            (false, _) => writeln!(self.out, "{}", words().replace(['\n', '\r'], " ")),
        };
    }

    fn end(&mut self, equal: bool, summary: &Value, words: &str) -> io::Result<()> {
        std::mem::replace(&mut self.failed, Ok(()))?;
        let untold = self.told.saturating_sub(self.most);
        if self.json {
            let before = match self.told.min(self.most) {
                0 => "{\"differences\": []",
                _ => "\n]",
            };
            writeln!(
                self.out,
                "{before}, \"equal\": {equal}, \"untold\": {untold}, \"summary\": {summary}}}"
            )?;
            return self.out.flush();
        }
        if untold > 0 {
            writeln!(self.out, "and {untold} more differences")?;
        }
        match equal {
            true => writeln!(self.out, "equal: {words}")?,
            false => {
                let found = units::count(self.told, "difference");
                writeln!(self.out, "different: {found}; {words}")?;
            }
        }
        self.out.flush()
    }
}

/// A difference in one line.
fn words(difference: &Difference) -> String {
    let path = match difference.path.as_str() {
        "" => ".".to_owned(),
        path => path.escape_debug().to_string(),
    };
    let path = match difference.path_b.as_str() {
        "" => path,
        other if other == difference.path => path,
        other => format!("{path} ({} in B)", other.escape_debug()),
    };
    let what = match &difference.kind {
        DifferenceKind::OnlyIn { side, node } => format!("{node} only in {side}"),
        DifferenceKind::Node { a, b } => format!("{a} in A, {b} in B"),
        DifferenceKind::Shape { a, b } => {
            format!("shape {} in A, {} in B", units::shape(a), units::shape(b))
        }
        DifferenceKind::DataType { a, b } => format!("type {} in A, {} in B", a.name(), b.name()),
        DifferenceKind::FillValue { a, b } => format!("fill value {a} in A, {b} in B"),
        DifferenceKind::DimensionNames { a, b } => format!("dimension names {a} in A, {b} in B"),
        DifferenceKind::Attributes(found) => {
            let attribute = |value: &Option<Value>| match value {
                Some(value) => short(value.to_string()),
                None => "missing".to_owned(),
            };
            let found: Vec<String> = found
                .iter()
                .map(|found| {
                    let (a, b) = (attribute(&found.a), attribute(&found.b));
                    format!("\"{}\" is {a} in A, {b} in B", found.name.escape_debug())
                })
                .collect();
            format!("attributes differ: {}", found.join("; "))
        }
        DifferenceKind::Elements(found) => {
            let largest = match found.largest {
                Some(Distance::Integer(n)) => format!("; largest difference {n}"),
                Some(Distance::Real(n)) => format!("; largest difference {n:e}"),
                None => String::new(),
            };
            format!(
                "{} of {} differ; first at {}: {}, {}{largest}",
                found.count,
                units::count(found.total, "element"),
                units::shape_argument(&found.a.at),
                element(&found.a, CompareSide::A),
                element(&found.b, CompareSide::B),
            )
        }
        _ => difference.kind.name().to_owned(),
    };
    format!("{path}: {what}")
}

/// An element, and where it is.
fn element(place: &ElementPlace, side: CompareSide) -> String {
    let object = place.object.escape_debug();
    let mut at: Vec<String> = Vec::new();
    at.extend(place.chunk.iter().map(|chunk| format!("chunk {}", units::shape_argument(chunk))));
    at.extend(place.shard.iter().map(|shard| format!("shard {}", units::shape_argument(shard))));
    at.push(match place.stored {
        true => object.to_string(),
        false => format!("not stored in {object}"),
    });
    format!("{} in {side} ({})", short(place.text.clone()), at.join(", "))
}

/// Values may be long; the JSON form has all of them.
fn short(text: String) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn object_words(difference: &ObjectDifference) -> String {
    match difference {
        ObjectDifference::OnlyIn { side, object, len } => {
            format!("{}: only in {side}, {}", named(object), units::count(*len, "byte"))
        }
        ObjectDifference::Bytes { object, first, len_a, len_b } if len_a == len_b => {
            format!("{}: differs from byte {first} of {len_a}", named(object))
        }
        ObjectDifference::Bytes { object, first, len_a, len_b } => format!(
            "{}: differs from byte {first}; {len_a} bytes in A, {len_b} in B",
            named(object)
        ),
        _ => difference.kind().to_owned(),
    }
}

fn named(object: &str) -> String {
    if object.is_empty() { ".".to_owned() } else { object.escape_debug().to_string() }
}
