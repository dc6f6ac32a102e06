//! Turns a file of geometry into another, or into a picture.
//!
//!     geometry_files INPUT OUTPUT --kind KIND [--edges FILE] [--edges-out FILE] [--rows N]
//!
//! Formats follow from the endings of names; `.svg` and `.png` are pictures. `--rows` is the size
//! of batches. `peers/geometry_files_check.py` compares what comes out with other programs.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use shardine_geometry::files::{EdgeReader, EdgeWriter, FileFormat, ReadOptions, WithEdges};
use shardine_geometry::{GeometryKind, GeometrySink, GeometrySource, Plot};

const KINDS: &[GeometryKind] = &[
    GeometryKind::Points,
    GeometryKind::Lines,
    GeometryKind::Polylines,
    GeometryKind::Skeletons,
    GeometryKind::Graph,
    GeometryKind::Mesh,
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut names = Vec::new();
    let (mut kind, mut edges, mut edges_out, mut rows) = (None, None, None, 1 << 16);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--kind" => {
                let name = value()?;
                kind = KINDS.iter().copied().find(|kind| kind.name() == name);
            }
            "--edges" => edges = Some(value()?),
            "--edges-out" => edges_out = Some(value()?),
            "--rows" => rows = value()?.parse()?,
            _ => names.push(arg),
        }
    }
    let (Some(kind), [input, output]) = (kind, &names[..]) else {
        return Err("usage: geometry_files INPUT OUTPUT --kind KIND".into());
    };
    let options = ReadOptions::new(kind).batch_rows(rows);
    let file = BufReader::new(File::open(input)?);
    let mut source: Box<dyn GeometrySource> = format(input)?.open(file, &options)?;
    if let Some(edges) = edges {
        let edges = EdgeReader::open(BufReader::new(File::open(edges)?), kind, rows)?;
        source = Box::new(WithEdges::new(source, edges)?);
    }
    let schema = source.schema().clone();
    let mut edge_sink = match edges_out {
        Some(path) => Some(Box::new(EdgeWriter::create(File::create(path)?, &schema)?)),
        None => None,
    };
    let picture = [".svg", ".png"].iter().any(|ending| output.ends_with(ending));
    let mut plot = Plot::new(&schema);
    let mut sink: Option<Box<dyn GeometrySink>> = match picture {
        true => None,
        false => {
            let format = format(output)?;
            format.loses(&schema).iter().for_each(|lost| println!("left out: {lost}"));
            Some(format.create(File::create(output)?, &schema)?)
        }
    };
    while let Some(batch) = source.next_batch()? {
        match &mut sink {
            Some(sink) => sink.push(&batch)?,
            None => plot.push(&batch)?,
        }
        if let Some(sink) = &mut edge_sink {
            sink.push(&batch)?;
        }
    }
    if let Some(sink) = edge_sink {
        sink.finish()?;
    }
    match sink {
        Some(sink) => sink.finish()?,
        None if output.ends_with(".svg") => {
            File::create(output)?.write_all(plot.svg().as_bytes())?
        }
        None => File::create(output)?.write_all(&plot.png()?)?,
    }
    Ok(())
}

fn format(name: &str) -> Result<FileFormat, String> {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    let format = extension.and_then(FileFormat::of_extension);
    format.ok_or(format!("{name}: no format has this ending"))
}
