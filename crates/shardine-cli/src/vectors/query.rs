//! `shardine vectors query`: the vertices that lie in a box, or belong to some objects.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use shardine::vectors::{
    AttributeFilter, GeometryBatch, GeometryError, GeometryKind, GeometrySchema, GeometrySink,
    GeometrySource, VectorQuery, VectorStore,
};
use shardine_geometry::Plot;
use shardine_geometry::files::{EdgeWriter, FileFormat};

use crate::cli::Machine;
use crate::failure::Failure;
use crate::interrupt::Unfinished;
use crate::{said, units};

const EXAMPLES: &str = "\
Examples:
  shardine vectors query cells.zv --box 0:100,0:100,0:50 -o cells.csv
  shardine vectors query tracts.zv --ids 5,6 -o two.parquet
  shardine vectors query neurons.zv --ids 7 -o seven.swc
  shardine vectors query graph.zv -o nodes.csv --edges edges.csv
  shardine vectors query tracts.zv -o rows.parquet --groups-table bundles.csv
  shardine vectors query tracts.zv --box 0:100,:,: --clip --json
  shardine vectors query cells.zv --plot cells.svg
  shardine vectors query cells.zv --where 'score>=0.5' --where kind=soma

A box takes points inside, bounds included. Of lines, paths, skeletons, graphs and meshes it takes
whole objects that have a vertex inside; with --clip only those vertices, and the links between
them. A condition works the same way: on an attribute of vertices it takes points, or objects with
such a vertex; on an attribute of objects it takes objects.

The ending of a name says what is written: .csv, .parquet, .arrow, .npy, .obj, .ply, .swc; a picture
is .svg or .png. What a format has no place for is left out, and said.";

/// Find the points in a box, or objects by their ids, groups or attributes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Query {
    /// Path or URL of the store
    url: String,
    /// Look at level N; 0 is the finest
    #[arg(long, value_name = "N", default_value_t = 0)]
    level: u64,
    /// Take only what lies in a box: a range for each axis, such as 0:100,-5:5,:
    #[arg(long = "box", value_name = "BOX", allow_hyphen_values = true)]
    bounds: Option<String>,
    /// Take only the objects with these ids
    #[arg(long, value_name = "ID,…", value_delimiter = ',', allow_hyphen_values = true)]
    ids: Option<Vec<i64>>,
    /// Take only the objects of these groups
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    groups: Option<Vec<u64>>,
    /// Take only what passes a condition on an attribute: NAME=VALUE, or with !=, <, <=, > or >=;
    /// can be repeated
    #[arg(long = "where", value_name = "CONDITION")]
    filters: Vec<AttributeFilter>,
    /// Take only the vertices inside, and not whole objects
    #[arg(long)]
    clip: bool,
    /// Take the parametric objects that a store has beside its vertices
    #[arg(long, conflicts_with_all = ["bounds", "groups", "filters", "clip"])]
    parametric: bool,
    /// Fail if parts of the store contradict each other, and compare lists of chunks with what is
    /// stored
    #[arg(long)]
    strict: bool,
    /// Write the rows to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the links to FILE, as CSV with the columns a, b (faces: a, b, c): rows of the output,
    /// counted from 0
    #[arg(long, value_name = "FILE")]
    edges: Option<PathBuf>,
    /// Write the groups of the level to FILE, as CSV with the columns group and object_id
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bounds", "ids", "groups", "filters", "clip", "parametric"])]
    groups_table: Option<PathBuf>,
    /// Draw the answer to FILE
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    overwrite: bool,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

/// A file that appears when all of it is written.
struct Output {
    file: Unfinished,
    sink: Box<dyn GeometrySink>,
}

/// Takes batches without links.
struct NoLinks;

impl GeometrySink for NoLinks {
    fn push(&mut self, _: &GeometryBatch) -> Result<(), GeometryError> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), GeometryError> {
        Ok(())
    }
}

/// A picture, drawn at the end.
struct Picture {
    file: Unfinished,
    plot: Plot,
    png: bool,
}

pub fn run(args: &Query, machine: &Machine) -> Result<(), Failure> {
    let store = VectorStore::open_in(&machine.engine()?, machine.location(&args.url)?)?;
    let mut query = VectorQuery::new().level(args.level).clip(args.clip).strict(args.strict);
    query = query.parametric(args.parametric);
    if let Some(text) = &args.bounds {
        let (low, high) = parse_box(text)?;
        query = query.bounds(low, high);
    }
    query.ids = args.ids.clone();
    query.groups = args.groups.clone();
    query.filters = args.filters.clone();
    let mut rows = store.query(&query)?;
    let schema = rows.schema().clone();
    let mut lost = Vec::new();
    let mut outputs = args.outputs(&schema, &mut lost)?;
    let mut picture = args.picture(&schema)?;
    let (mut vertices, mut links) = (0u64, 0u64);
    while let Some(batch) = rows.read_batch()? {
        vertices += batch.vertices.num_rows() as u64;
        links += batch.links.len() as u64;
        push(&batch, &mut outputs, picture.as_mut())?;
    }
    args.write_groups(&store)?;
    for Output { file, sink } in outputs {
        sink.finish().map_err(|error| failed(&file, error))?;
        file.finish()?;
    }
    if let Some(picture) = picture {
        picture.finish()?;
    }
    for note in rows.notes().iter().filter(|_| !args.json) {
        eprintln!("note: {note}");
    }
    let mut out = said::out(args.json);
    if args.json {
        let absent: Vec<_> = rows
            .absent_chunks()
            .iter()
            .map(|one| json!({ "array": one.array, "chunk": one.chunk }))
            .collect();
        let summary = json!({
            "format": "zarr-vectors",
            "kind": store.kind().name(),
            "level": args.level,
            "vertices": vertices,
            "links": links,
            "left_out": lost,
            "notes": rows.notes(),
            "absent_chunks": absent,
        });
        writeln!(out, "{summary:#}")?;
        return Ok(());
    }
    let links = match links {
        0 => String::new(),
        links => format!(", {}", units::count(links, "link")),
    };
    writeln!(out, "{}{links}", super::vertices(vertices))?;
    for lost in lost {
        writeln!(out, "left out: {lost}")?;
    }
    Ok(())
}

impl Query {
    fn outputs(
        &self,
        schema: &GeometrySchema,
        lost: &mut Vec<String>,
    ) -> Result<Vec<Output>, Failure> {
        let mut outputs = Vec::new();
        if let Some(path) = &self.output {
            let format = extension(path).and_then(FileFormat::of_extension).ok_or_else(|| {
                let endings =
                    "the name must end in .csv, .parquet, .arrow, .npy, .obj, .ply or .swc";
                Failure::new(format!("{}: {endings}", path.display()))
            })?;
            lost.extend(format.loses(schema));
            if self.edges.is_some() {
                lost.retain(|lost| lost != "edges" && lost != "faces");
            }
            let (file, writer) = self.create(path)?;
            let sink = format.create(writer, schema).map_err(|error| failed(&file, error))?;
            outputs.push(Output { file, sink });
        }
        if let Some(path) = &self.edges {
            let (file, mut writer) = self.create(path)?;
            let sink: Box<dyn GeometrySink> = match schema.kind {
                // What has no links has a table without rows, so that scripts need no exception.
                GeometryKind::Points | GeometryKind::Parametric => {
                    let written = writer.write_all(b"a,b\n").and_then(|()| writer.flush());
                    written.map_err(|error| failed(&file, error.into()))?;
                    Box::new(NoLinks)
                }
                _ => {
                    let sink = EdgeWriter::create(writer, schema);
                    Box::new(sink.map_err(|error| failed(&file, error))?)
                }
            };
            outputs.push(Output { file, sink });
        }
        Ok(outputs)
    }

    /// Writes the groups, if that is asked for.
    fn write_groups(&self, store: &VectorStore) -> Result<(), Failure> {
        let Some(path) = &self.groups_table else { return Ok(()) };
        let (file, mut out) = self.create(path)?;
        let mut written = out.write_all(b"group,object_id\n");
        store.each_group(self.level, |group, members| {
            let mut one = |id: &i64| writeln!(out, "{group},{id}");
            if written.is_ok() {
                written = members.iter().try_for_each(&mut one);
            }
            Ok(())
        })?;
        written.and_then(|()| out.flush()).map_err(|error| failed(&file, error.into()))?;
        drop(out);
        file.finish()
    }

    fn picture(&self, schema: &GeometrySchema) -> Result<Option<Picture>, Failure> {
        let Some(path) = &self.plot else { return Ok(None) };
        let png = match extension(path) {
            Some("svg") => false,
            Some("png") => true,
            _ => {
                let message = format!("{}: a picture ends in .svg or .png", path.display());
                return Err(Failure::new(message));
            }
        };
        let file = Unfinished::create(path, self.overwrite)?;
        Ok(Some(Picture { file, plot: Plot::new(schema), png }))
    }

    fn create(&self, path: &Path) -> Result<(Unfinished, BufWriter<std::fs::File>), Failure> {
        let file = Unfinished::create(path, self.overwrite)?;
        let writer = file.output().file().try_clone();
        let writer = writer.map_err(|error| failed(&file, error.into()))?;
        Ok((file, BufWriter::new(writer)))
    }
}

impl Picture {
    fn finish(self) -> Result<(), Failure> {
        let bytes = match self.png {
            true => self.plot.png().map_err(|error| failed(&self.file, error))?,
            false => self.plot.svg().into_bytes(),
        };
        let mut file = self.file.output().file();
        file.write_all(&bytes).map_err(|error| failed(&self.file, error.into()))?;
        self.file.finish()
    }
}

fn push(
    batch: &GeometryBatch,
    outputs: &mut [Output],
    picture: Option<&mut Picture>,
) -> Result<(), Failure> {
    for Output { file, sink } in outputs {
        sink.push(batch).map_err(|error| failed(file, error))?;
    }
    if let Some(Picture { file, plot, .. }) = picture {
        plot.push(batch).map_err(|error| failed(file, error))?;
    }
    Ok(())
}

fn failed(file: &Unfinished, error: GeometryError) -> Failure {
    Failure::new(format!("{}: {error}", file.output().path().display()))
}

fn extension(path: &Path) -> Option<&str> {
    path.extension().and_then(|extension| extension.to_str())
}

/// Reads ranges of numbers, one for each axis. An end that is left out is beyond everything.
fn parse_box(text: &str) -> Result<(Vec<f64>, Vec<f64>), Failure> {
    let wrong = |part: &str| {
        Failure::new(format!("--box: \"{part}\" is no range of numbers such as 0:100"))
            .hint("give a range for each axis, in the order of the store: --box 0:100,-5:5,:")
    };
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for part in text.split(',') {
        let (from, to) = part.split_once(':').ok_or_else(|| wrong(part))?;
        let number = |text: &str, open: f64| match text.trim() {
            "" => Ok(open),
            text => text.parse::<f64>().ok().filter(|value| !value.is_nan()).ok_or(()),
        };
        let from = number(from, f64::NEG_INFINITY).map_err(|()| wrong(part))?;
        let to = number(to, f64::INFINITY).map_err(|()| wrong(part))?;
        if from > to {
            return Err(Failure::new(format!("--box: \"{part}\" ends before it begins")));
        }
        low.push(from);
        high.push(to);
    }
    Ok((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_has_a_range_for_each_axis() {
        let (low, high) = parse_box("0:100, -5.5:2e3,:").unwrap();
        assert_eq!(low, [0.0, -5.5, f64::NEG_INFINITY]);
        assert_eq!(high, [100.0, 2000.0, f64::INFINITY]);
        for wrong in ["", "1", "1:2:3", "a:b", "2:1", "nan:1", "0:1,"] {
            assert!(parse_box(wrong).is_err(), "{wrong}");
        }
    }
}
