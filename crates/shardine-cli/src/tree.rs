//! What is below a group, as a tree.

use std::io::Write;

use serde_json::Value;
use shardine::ome::OmeMetadata;
use shardine::zarr::MAX_DEPTH;
use shardine::{DataSet, PartContent, SetPart};

use crate::failure::Failure;
use crate::{data_set, ome, said, units};

/// How many siblings that look the same make a run of which one is shown.
const ALIKE: usize = 3;

/// The most siblings that are shown.
const BREADTH: usize = 100;

/// How a tree is shown.
#[derive(Debug, Clone, Copy)]
pub struct Tree {
    /// Whether groups below are shown too.
    pub recursive: bool,
    /// Whether siblings that look the same are all shown.
    pub all: bool,
}

/// What was noticed on the way.
#[derive(Debug, Default)]
pub struct Seen {
    /// Whether there was nothing.
    pub empty: bool,
    /// Whether something was left out.
    pub shortened: bool,
    /// Whether the store cannot list.
    pub unlisted: bool,
}

impl Seen {
    /// Notes on standard error what a listing does not show.
    pub fn note(&self) {
        if self.unlisted {
            eprintln!(
                "note: this store cannot list; these are the nodes in the consolidated metadata"
            );
        }
        if self.empty {
            eprintln!("note: the group is empty");
        }
        if self.shortened && !said::is_quiet() {
            eprintln!("note: of nodes that look alike one is shown; --all lists them all");
        }
    }
}

/// A node on its line.
struct Row {
    part: SetPart,
    words: String,
    /// Equal for siblings of which one can stand for the others: those with numbers for names that
    /// look the same, and the rows of a plate.
    alike: Option<String>,
}

impl Tree {
    /// Prints what is below a data set, and with a recursive tree first the data set itself.
    pub fn write(
        self,
        out: &mut dyn Write,
        name: &str,
        set: &dyn DataSet,
    ) -> Result<Seen, Failure> {
        // Before anything is printed: a store may be unable to list.
        let rows = rows_of(set)?;
        let mut seen = Seen { empty: rows.is_empty(), ..Seen::default() };
        seen.unlisted = rows.iter().any(|row| !row.part.listed);
        if self.recursive {
            writeln!(out, "{name}  {}", data_set::set_words(set))?;
        }
        self.write_rows(out, &rows, "", 0, &mut seen)?;
        Ok(seen)
    }

    fn write_rows(
        self,
        out: &mut dyn Write,
        rows: &[Row],
        indent: &str,
        depth: usize,
        seen: &mut Seen,
    ) -> Result<(), Failure> {
        let shortens = self.recursive && !self.all;
        let runs = if shortens { runs(rows) } else { rows.iter().map(|row| (row, 1)).collect() };
        let most = if shortens { BREADTH } else { usize::MAX };
        let left = runs.len().saturating_sub(most);
        let shown = &runs[..runs.len() - left];
        let width = shown.iter().map(|(row, _)| row.part.name.chars().count()).max().unwrap_or(0);
        let mut at = 0;
        for (i, (row, count)) in shown.iter().enumerate() {
            let last = i + 1 == runs.len() && *count == 1;
            writeln!(out, "{indent}{}{:<width$}  {}", self.branch(last), row.part.name, row.words)?;
            if let (true, Ok(PartContent::Set(set))) =
                (self.recursive && depth < MAX_DEPTH, &row.part.content)
            {
                let indent = format!("{indent}{}", if last { "    " } else { "│   " });
                self.write_rows(out, &rows_of(&**set)?, &indent, depth + 1, seen)?;
            }
            if *count > 1 {
                let names = [at + 1, at + count - 1].map(|i| rows[i].part.name.as_str());
                let names = match count {
                    3 => format!("{} and {}", names[0], names[1]),
                    _ => format!("{} to {}", names[0], names[1]),
                };
                let branch = self.branch(i + 1 == runs.len());
                writeln!(out, "{indent}{branch}... {} more alike: {names}", count - 1)?;
                seen.shortened = true;
            }
            at += count;
        }
        if left > 0 {
            seen.shortened = true;
            let more = units::count((rows.len() - at) as u64, "other");
            writeln!(out, "{indent}{}... {more}", self.branch(true))?;
        }
        Ok(())
    }

    fn branch(self, last: bool) -> &'static str {
        match (self.recursive, last) {
            (false, _) => "",
            (true, false) => "├── ",
            (true, true) => "└── ",
        }
    }

    /// What is below a data set in JSON: everything.
    pub fn describe(self, set: &dyn DataSet, seen: &mut Seen) -> Result<Value, Failure> {
        self.describe_below(set, "", 0, seen)
    }

    fn describe_below(
        self,
        set: &dyn DataSet,
        path: &str,
        depth: usize,
        seen: &mut Seen,
    ) -> Result<Value, Failure> {
        let mut nodes = Vec::new();
        for row in rows_of(set)? {
            seen.unlisted |= depth == 0 && !row.part.listed;
            let mut members = data_set::describe_part(&row.part, path);
            if let (true, Ok(PartContent::Set(set))) =
                (self.recursive && depth < MAX_DEPTH, &row.part.content)
            {
                let path = data_set::path_below(path, &row.part.name);
                let children = self.describe_below(&**set, &path, depth + 1, seen)?;
                members.insert("children".to_owned(), children);
            }
            nodes.push(Value::Object(members));
        }
        Ok(Value::Array(nodes))
    }
}

/// The parts of a data set in the order of its metadata, or of their names, numbers by their value.
fn rows_of(set: &dyn DataSet) -> Result<Vec<Row>, Failure> {
    let metadata = ome::metadata_of(set);
    let mut parts = set.parts()?;
    // The levels of a volume are in their order already.
    if set.kind() == shardine::SetKind::Group {
        let order = |name: &str| metadata.as_ref().and_then(|metadata| place(metadata, name));
        parts.sort_by_cached_key(|part| {
            let number = part.name.parse::<u64>().unwrap_or(u64::MAX);
            (order(&part.name).unwrap_or(usize::MAX), number, part.name.clone())
        });
    }
    Ok(parts.into_iter().map(|part| row(part, metadata.as_ref())).collect())
}

/// Where the metadata of a group names one of its children.
fn place(metadata: &OmeMetadata, name: &str) -> Option<usize> {
    let level = metadata.image().and_then(|i| i.levels.iter().position(|l| l.path == name));
    let row = || metadata.plate.as_ref()?.rows.iter().position(|row| row.name == name);
    let field = || metadata.well.as_ref()?.images.iter().position(|field| field.path == name);
    level.or_else(row).or_else(field)
}

fn row(part: SetPart, above: Option<&OmeMetadata>) -> Row {
    let mut words = data_set::part_line(&part);
    let is_number = !part.name.is_empty() && part.name.bytes().all(|c| c.is_ascii_digit());
    let mut alike = (is_number && part.content.is_ok()).then(|| words.clone());
    let plate = above.and_then(|metadata| metadata.plate.as_ref());
    if let (Some(plate), Ok(PartContent::Set(_))) = (plate, &part.content)
        && plate.rows.iter().any(|row| row.name == part.name)
    {
        let inside = |path: &str| path.split('/').next() == Some(part.name.as_str());
        let wells = plate.wells.iter().filter(|well| inside(&well.path)).count();
        words = format!("row, {}", units::count(wells as u64, "well"));
        alike = Some("row".to_owned());
    }
    Row { part, words, alike }
}

/// Rows that look the same, one after the other: the first of them, and how many they are.
fn runs(rows: &[Row]) -> Vec<(&Row, usize)> {
    let mut runs = Vec::new();
    let mut rest = rows;
    while let Some(first) = rest.first() {
        let alike = |row: &&Row| row.alike.is_some() && row.alike == first.alike;
        let count = rest.iter().take_while(alike).count();
        let count = if count >= ALIKE { count } else { 1 };
        runs.push((first, count));
        rest = &rest[count..];
    }
    runs
}
