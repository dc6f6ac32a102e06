//! A recommendation for people and for programs.

use std::io::{self, Write};

use serde_json::{Value, json};
use shardine::plan::{Action, ArrayAdvice, Choice, Figures, ObjectCount, View};
use shardine::shard::IndexLocation;

use crate::units;

/// What is recommended for one array.
pub struct Advice {
    pub of: ArrayAdvice,
    /// The command that does it; `None` if nothing has to be done.
    pub command: Option<String>,
}

/// One line of a description.
pub fn line(out: &mut dyn Write, name: &str, value: impl std::fmt::Display) -> io::Result<()> {
    writeln!(out, "{name:<12} {value}")
}

/// The longest line of wrapped text.
const WIDTH: usize = 96;

/// Text below a line, wrapped between words.
fn below(out: &mut dyn Write, text: &str) -> io::Result<()> {
    below_from(out, text, 0)
}

/// Like [`below`], where the line already has this many characters.
fn below_from(out: &mut dyn Write, text: &str, letters: usize) -> io::Result<()> {
    const INDENT: usize = 13;
    let mut indent = " ".repeat(INDENT - letters);
    let mut row = String::new();
    for word in text.split(' ') {
        if !row.is_empty() && INDENT + row.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{indent}{row}")?;
            row.clear();
            indent = " ".repeat(INDENT);
        }
        if !row.is_empty() {
            row.push(' ');
        }
        row.push_str(word);
    }
    writeln!(out, "{indent}{row}")
}

pub fn because(out: &mut dyn Write, choice: &Choice) -> io::Result<()> {
    below(out, &format!("[{}] {}", choice.rule.name(), choice.reason))
}

impl Advice {
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let (advice, situation) = (&self.of.advice, &self.of.situation);
        line(out, "array", &self.of.name)?;
        let shape = units::shape(&situation.shape);
        let place = if situation.remote { "in an object store" } else { "on a local disk" };
        let raw = units::size(self.of.raw_bytes());
        line(out, "shape", format!("{shape} {}, {raw}, {place}", self.of.data_type.name()))?;
        self.write_measured(out)?;
        let after = &advice.after;
        let chunk = units::shape(&advice.chunk);
        line(
            out,
            "chunk",
            format!("{chunk}, {} before compression", units::size(after.chunk_bytes)),
        )?;
        because(out, &advice.chunk_choice)?;
        match (&advice.shard, self.of.chunks_per_shard()) {
            (Some(shard), Some(chunks)) => {
                let count = units::count(units::elements(&chunks), "chunk");
                let text = format!("{}, {count} ({})", units::shape(shard), units::shape(&chunks));
                line(out, "shard", text)?;
            }
            _ => line(out, "shard", "none: each chunk is its own object")?,
        }
        because(out, &advice.shard_choice)?;
        if let Some((place, choice)) = &advice.index {
            let text =
                format!("at the {}, crc32c, {}", word(*place), units::size(after.index_bytes));
            line(out, "index", text)?;
            because(out, choice)?;
        }
        line(out, "codecs", &self.of.codecs)?;
        for note in &advice.notes {
            write!(out, "note").and_then(|()| below_from(out, note, 4))?;
        }
        writeln!(out)?;
        self.write_figures(out)
    }

    fn write_measured(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(sample) = &self.of.situation.sample else {
            let text = match (self.of.situation.ratio, self.of.advice.action) {
                (Some(ratio), _) => format!("nothing; ratio {ratio} as given"),
                (None, Action::Create) => return Ok(()),
                (None, _) => "nothing: no chunks are stored yet".to_owned(),
            };
            return line(out, "measured", text);
        };
        let what = if sample.shape == self.of.advice.chunk { "chunk" } else { "part" };
        let [mean, median, max] = [sample.mean, sample.median, sample.max].map(units::size);
        let ratio = sample.ratio.map_or(String::new(), |ratio| format!(", ratio {ratio:.2}"));
        let count = units::count(sample.count, what);
        let (shape, objects) =
            (units::shape(&sample.shape), units::count(sample.objects, "object"));
        let share = match sample.share() {
            share if share < 0.995 => format!(", {:.1} % of those sampled", 100.0 * share),
            _ => String::new(),
        };
        line(out, "measured", format!("{count} of {shape} in {objects}{share}"))?;
        below(out, &format!("{mean} on average, median {median}, largest {max}{ratio}"))
    }

    fn write_figures(&self, out: &mut dyn Write) -> io::Result<()> {
        let after = &self.of.advice.after;
        let before =
            self.of.advice.before.as_ref().filter(|_| self.of.advice.action != Action::Nothing);
        let row = |out: &mut dyn Write, name: &str, cell: &dyn Fn(&Figures) -> String| match before
        {
            Some(before) => writeln!(out, "{name:<28} {:<32} {}", cell(before), cell(after)),
            None => writeln!(out, "{name:<28} {}", cell(after)),
        };
        match (before, self.of.advice.action) {
            (Some(_), _) => writeln!(out, "{:<28} {:<32} as recommended", "", "as it is")?,
            (None, Action::Nothing) => writeln!(out, "{:<28} as it is", "")?,
            (None, _) => writeln!(out, "{:<28} as recommended", "")?,
        }
        let exists = self.of.situation.current.is_some();
        row(out, "objects", &|f| objects(f, exists))?;
        row(out, "object size", &|f| {
            let (mean, most) = (units::size(f.object_bytes), units::size(f.largest_object_bytes));
            if f.largest_object_bytes > f.object_bytes {
                format!("{mean}, at most {most}")
            } else {
                mean
            }
        })?;
        row(out, "shard index", &|f| match f.index_bytes {
            0 => "-".to_owned(),
            bytes => units::size(bytes),
        })?;
        row(out, "total size", &|f| units::size(f.stored_bytes))?;
        row(out, &format!("screen {}", shown(&after.screen)), &|f| requests(&f.screen))?;
        if let Some(volume) = &after.volume {
            let name = format!("view {}", shown(volume));
            row(out, &name, &|f| f.volume.as_ref().map_or_else(String::new, requests))?;
        }
        row(out, "memory to write, minimum", &|f| units::size(f.streaming_memory))?;
        row(out, "  with objects held whole", &|f| units::size(f.whole_memory))
    }

    pub fn to_json(&self) -> Value {
        let mut report = self.of.to_json();
        report["command"] = json!(self.command);
        report
    }
}

fn word(place: IndexLocation) -> &'static str {
    match place {
        IndexLocation::Start => "start",
        IndexLocation::End => "end",
    }
}

/// How many objects there are, and what the grid has room for where that is more.
fn objects(figures: &Figures, exists: bool) -> String {
    let (objects, cells) = (figures.objects, figures.cells);
    match figures.object_count {
        ObjectCount::Counted if objects == cells => objects.to_string(),
        ObjectCount::Counted => format!("{objects} stored, room for {cells}"),
        ObjectCount::Estimated => format!("about {objects}, room for {cells}"),
        _ if exists => format!("up to {cells}"),
        _ => cells.to_string(),
    }
}

/// What a view shows: the axes along which it has more than one element.
fn shown(view: &View) -> String {
    let long: Vec<u64> = view.shape.iter().copied().skip_while(|&n| n == 1).collect();
    units::shape(&long).replace("()", "of one element")
}

fn requests(view: &View) -> String {
    let count = match (view.least_requests, view.most_requests) {
        (least, most) if least >= most => units::count(most, "request"),
        (least, most) => format!("{least} to {most} requests"),
    };
    format!("{count}, {}", units::size(view.bytes))
}

/// A figure summed over all arrays, as they are and as recommended.
fn total(all: &[Advice], figure: &dyn Fn(&Figures) -> u64) -> (u64, u64) {
    let add = |n: u64, more: u64| n.saturating_add(more);
    let before =
        all.iter().filter_map(|one| one.of.advice.before.as_ref()).map(figure).fold(0, add);
    (before, all.iter().map(|one| figure(&one.of.advice.after)).fold(0, add))
}

pub fn total_json(all: &[Advice]) -> Value {
    let (objects_before, objects_after) = total(all, &|f| f.objects);
    let (bytes_before, bytes_after) = total(all, &|f| f.stored_bytes);
    json!({
        "arrays": all.len(),
        "objects_before": objects_before,
        "objects_after": objects_after,
        "bytes_before": bytes_before,
        "bytes_after": bytes_after,
    })
}

/// The total, what the figures assume, and the commands.
pub fn write_end(out: &mut dyn Write, all: &[Advice]) -> io::Result<()> {
    writeln!(out)?;
    if all.len() > 1 {
        let (before, after) = total(all, &|f| f.objects);
        let (_, bytes) = total(all, &|f| f.stored_bytes);
        let text = format!(
            "{}: {before} objects as they are, {after} as recommended, {}",
            units::count(all.len() as u64, "array"),
            units::size(bytes)
        );
        line(out, "total", text)?;
    }
    line(
        out,
        "assumed",
        "screens and views cross as many chunks as possible, and nothing is cached;",
    )?;
    below(
        out,
        "fewest requests: a reader that merges requests to the same shard; most: one that does not merge.",
    )?;
    if all.iter().all(|one| one.command.is_none()) {
        return line(out, "to do", "nothing");
    }
    for (i, command) in all.iter().filter_map(|one| one.command.as_ref()).enumerate() {
        line(out, if i == 0 { "to do" } else { "" }, command)?;
    }
    Ok(())
}
