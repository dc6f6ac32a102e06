//! `shardine verify`: checks that everything is still intact.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use shardine::Engine;
use shardine::jobs::{
    Finding, FindingKind, JobContext, Part, Severity, VerifyOptions, VerifySummary,
    verify as verify_all,
};

use crate::cli::Machine;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::said::{self, Said};
use crate::units;

const EXAMPLES: &str = "\
Examples:
  shardine verify image.zarr
  shardine verify image.zarr --decode
  shardine verify em/precomputed --decode
  shardine verify plate.zarr/*/*/* --json
  shardine verify image.ome.zarr --level 0 --decode
  shardine verify plate.ome.zarr --metadata-only
  shardine verify image.ome.zarr/.zattrs --metadata-only
  shardine verify s3://bucket/image.zarr --decode --part 3/16
  shardine verify images.zarr --json | jq -r '.findings[] | select(.severity == \"damage\") | .object'

Exit status: 0 no damage; 1 damage; 2 nothing could be checked, with one line on standard error.";

/// Check arrays, groups and volumes for damage, and change nothing
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Verify {
    /// Paths or URLs of arrays, groups, volumes, or folders of sharded meshes or skeletons; with
    /// --metadata-only also of single files
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
    /// Also read and decode every chunk, not only metadata and indexes
    #[arg(long)]
    decode: bool,
    /// Check documents only, against the rules of Zarr and OME-Zarr; no chunk and no index is read. A
    /// single file may hold a zarr.json, a .zattrs or the attributes of a group
    #[arg(long, conflicts_with_all = ["decode", "level", "part"])]
    metadata_only: bool,
    /// Of an OME-Zarr image or a precomputed volume, check only the chunks of this level; 0 is the
    /// finest. All documents are checked
    #[arg(long, value_name = "N")]
    level: Option<usize>,
    /// Check only part I of N of the objects, so that N processes can share the work; part 1 also
    /// does the checks that are not per object
    #[arg(long, value_name = "I/N", help_heading = "Job")]
    part: Option<Part>,
    /// Report at most N findings individually, and count the rest
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    max_findings: u64,
    /// Print the report as JSON, with every finding; one document per data set
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Verify, machine: &Machine) -> Result<(), Failure> {
    let engine = machine.engine()?;
    let several = args.urls.len() > 1;
    let (mut damaged, mut unchecked) = (false, Vec::new());
    for url in &args.urls {
        if several && !args.json {
            writeln!(said::words(), "== {url}")?;
        }
        match args.verify(url, several, &engine, machine) {
            Ok(()) => {}
            Err(Failure::Damage) => damaged = true,
            Err(failure @ (Failure::NobodyReads | Failure::Interrupted)) => return Err(failure),
            Err(failure) if !several => return Err(failure),
            // One that does not exist must not keep the others from being checked.
            Err(failure) => unchecked.push((url, failure)),
        }
    }
    let Some((url, Failure::Told { message, hint })) = unchecked.first() else {
        return if damaged { Err(Failure::Damage) } else { Ok(()) };
    };
    let also = match unchecked.len() {
        1 => String::new(),
        n => format!(" ({} more could not be checked either)", n - 1),
    };
    let failure = Failure::new(format!("{url} was not checked: {message}{also}"));
    Err(hint.iter().fold(failure, |failure, hint| failure.hint(hint)))
}

impl Verify {
    fn verify(
        &self,
        url: &str,
        named: bool,
        engine: &Arc<Engine>,
        machine: &Machine,
    ) -> Result<(), Failure> {
        let location = machine.location(url)?;
        let progress = Progress::things("checking", 0);
        let bar = progress.clone();
        let context = JobContext::new(engine).progress(move |now| bar.hear(&now));
        let options = VerifyOptions::new()
            .decode(self.decode)
            .metadata_only(self.metadata_only)
            .level(self.level)
            .part(self.part)
            .max_findings(self.max_findings);
        let out = BufWriter::new(said::out(self.json));
        let mut report: Box<dyn Report> = match self.json {
            true => {
                let url = named.then(|| url.to_owned());
                Box::new(JsonReport { out, url, begun: false, kinds: BTreeMap::new() })
            }
            false => Box::new(TextReport::new(out)),
        };
        let mut written = Ok(());
        let summary = verify_all(&context, &location, &options, &mut |finding| {
            if written.is_ok() {
                written = progress.suspend(|| report.finding(&finding));
            }
        })?;
        progress.finish();
        match written.and_then(|()| report.end(&summary, &options)) {
            // Nobody reads the report, but the exit status says all that matters.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            result => result?,
        }
        if summary.is_ok() { Ok(()) } else { Err(Failure::Damage) }
    }
}

/// Receives findings as they come.
trait Report: Send {
    fn finding(&mut self, finding: &Finding) -> io::Result<()>;
    fn end(&mut self, summary: &VerifySummary, options: &VerifyOptions) -> io::Result<()>;
}

/// One document, written as the findings come.
struct JsonReport {
    out: BufWriter<Said>,
    /// Which data set it is, if there are several.
    url: Option<String>,
    begun: bool,
    kinds: BTreeMap<FindingKind, u64>,
}

impl JsonReport {
    /// How the document begins.
    fn opening(&self) -> String {
        match &self.url {
            Some(url) => format!("{{\"url\": {}, \"findings\": [", json!(url)),
            None => "{\"findings\": [".to_owned(),
        }
    }
}

impl Report for JsonReport {
    fn finding(&mut self, finding: &Finding) -> io::Result<()> {
        *self.kinds.entry(finding.kind).or_default() += 1;
        let before = if self.begun { ",\n".to_owned() } else { self.opening() + "\n" };
        self.begun = true;
        write!(self.out, "{before}{}", finding.to_json())
    }

    fn end(&mut self, summary: &VerifySummary, options: &VerifyOptions) -> io::Result<()> {
        let before = if self.begun { "\n]".to_owned() } else { self.opening() + "]" };
        let mut kinds = self.kinds.clone();
        for (kind, count) in summary.untold.kinds() {
            *kinds.entry(kind).or_default() += count;
        }
        let kinds: serde_json::Map<String, Value> =
            kinds.iter().map(|(kind, &n)| (kind.name().to_owned(), n.into())).collect();
        let mut totals = summary.to_json(options);
        totals["kinds"] = Value::Object(kinds);
        let part = json!(options.part.map(|part| part.to_string()));
        let ok = summary.is_ok();
        writeln!(self.out, "{before}, \"part\": {part}, \"ok\": {ok}, \"summary\": {totals}}}")?;
        self.out.flush()
    }
}

/// The most findings of one kind in one object that are shown.
const LINES: u64 = 5;

/// The most objects with findings of one kind that are shown.
const OBJECTS: u64 = 20;

/// For display: by object, with what to do next.
struct TextReport {
    out: BufWriter<Said>,
    /// The object whose findings are being reported, with the number of each kind.
    object: Option<String>,
    lines: BTreeMap<FindingKind, u64>,
    hints: BTreeSet<&'static str>,
    /// Whether the object's name has been printed.
    named: bool,
    /// Objects with findings of each kind.
    objects: BTreeMap<FindingKind, u64>,
}

impl TextReport {
    fn new(out: BufWriter<Said>) -> Self {
        Self {
            out,
            object: None,
            lines: BTreeMap::new(),
            hints: BTreeSet::new(),
            named: false,
            objects: BTreeMap::new(),
        }
    }

    /// Ends the findings of an object.
    fn end_object(&mut self) -> io::Result<()> {
        for (kind, &count) in &self.lines {
            if count > LINES && self.objects.get(kind) <= Some(&OBJECTS) {
                writeln!(self.out, "  and {} more of {kind}", count - LINES)?;
            }
        }
        for hint in std::mem::take(&mut self.hints) {
            writeln!(self.out, "  next: {hint}")?;
        }
        self.lines.clear();
        self.named = false;
        Ok(())
    }
}

impl Report for TextReport {
    fn finding(&mut self, finding: &Finding) -> io::Result<()> {
        let mut name = match &finding.object {
            Some(key) => key.as_str().escape_debug().to_string(),
            None => ".".to_owned(),
        };
        if let Some(shard) = &finding.shard {
            name.push_str(&format!(" (shard {})", units::shape_argument(shard)));
        }
        if self.object.as_ref() != Some(&name) {
            self.end_object()?;
            self.object = Some(name.clone());
        }
        let lines = self.lines.entry(finding.kind).or_default();
        *lines += 1;
        let objects = self.objects.entry(finding.kind).or_default();
        if *lines == 1 {
            *objects += 1;
        }
        if *lines > LINES || *objects > OBJECTS {
            return Ok(());
        }
        if !self.named {
            writeln!(self.out, "{name}")?;
            self.named = true;
        }
        let chunk =
            finding.chunk.as_ref().map(|chunk| format!("chunk {}", units::shape_argument(chunk)));
        let range =
            finding.range.as_ref().map(|range| format!("bytes {}..{}", range.start, range.end));
        let place: Vec<String> = chunk.into_iter().chain(range).collect();
        let place = if place.is_empty() { String::new() } else { place.join(", ") + ": " };
        // Names in messages come from files, and must not look like lines of the report.
        let message = finding.message.replace(['\n', '\r'], " ");
        writeln!(self.out, "  {} {}: {place}{message}", finding.severity, finding.kind)?;
        self.hints.extend(finding.hint());
        Ok(())
    }

    fn end(&mut self, summary: &VerifySummary, options: &VerifyOptions) -> io::Result<()> {
        self.end_object()?;
        for (kind, &count) in &self.objects {
            if count > OBJECTS {
                writeln!(self.out, "and {kind} in {} more objects", count - OBJECTS)?;
            }
        }
        for (kind, count) in summary.untold.kinds() {
            writeln!(self.out, "and {count} more of {kind}, not listed individually")?;
        }
        if !self.objects.is_empty() || summary.untold.total() > 0 {
            writeln!(self.out)?;
        }
        let mut all: BTreeSet<FindingKind> = self.objects.keys().copied().collect();
        all.extend(summary.untold.kinds().map(|(kind, _)| kind));
        let kinds = |severity: Severity| {
            let names = all.iter().filter(|kind| kind.severity() == severity);
            names.map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
        };
        // A part says nothing about the whole data set.
        if let Some(Part::Of { index, count }) = options.part {
            write!(self.out, "part {index} of {count}: ")?;
        }
        match summary.damage {
            0 if options.part.is_some() => write!(self.out, "no damage found")?,
            0 => write!(self.out, "no damage")?,
            n => write!(
                self.out,
                "{} of damage ({})",
                units::count(n, "finding"),
                kinds(Severity::Damage)
            )?,
        }
        if summary.notices > 0 {
            let notices = units::count(summary.notices, "notice");
            write!(self.out, ", {notices} ({})", kinds(Severity::Notice))?;
        }
        if options.metadata_only {
            let (arrays, groups) = (summary.arrays, summary.groups);
            writeln!(
                self.out,
                ": {}, {}\nonly documents were checked",
                units::count(arrays, "array"),
                units::count(groups, "group")
            )?;
            return self.out.flush();
        }
        writeln!(
            self.out,
            ": {}, {}, {}, {}",
            units::count(summary.arrays, "array"),
            units::count(summary.objects, "object"),
            units::count(summary.chunks, "chunk"),
            units::size(summary.bytes)
        )?;
        let of = match (options.part, options.level) {
            (Some(_), Some(level)) => format!(" of this part of level {level}"),
            (Some(_), None) => " of this part".to_owned(),
            (None, Some(level)) => format!(" of level {level}"),
            (None, None) => String::new(),
        };
        match options.decode {
            true => writeln!(
                self.out,
                "every index{of} was checked, and {} decoded",
                units::count(summary.chunks_decoded, "chunk")
            )?,
            false => {
                writeln!(self.out, "every index{of} was checked; --decode checks the chunks too")?;
            }
        }
        if summary.unread_folders > 0 {
            let folders = units::count(summary.unread_folders, "folder");
            writeln!(self.out, "{folders} could not be listed; part 1 reports why")?;
        }
        if summary.unlisted {
            writeln!(
                self.out,
                "this store cannot list: only objects in consolidated metadata or in a chunk grid were checked"
            )?;
        }
        self.out.flush()
    }
}
