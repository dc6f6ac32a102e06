//! From a file of elements to a new array or image.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value, json};
use shardine::Engine;
use shardine::jobs::{ImportOptions, ImportReport, import, import_to_ome};

use super::ome::image_form;
use super::report::{Form, told};
use super::{Convert, Target};
use crate::cli::Machine;
use crate::create::Shape;
use crate::failure::{self, Failure};
use crate::progress::Progress;
use crate::write::{describe, input};
use crate::{consolidate, said, units};

pub fn run(args: &Convert, machine: &Machine) -> Result<(), Failure> {
    let start = Instant::now();
    let location = args.places.target(machine, &args.target)?;
    let input = input(Path::new(&args.source))?;
    let (engine, options) = options(args, machine)?;
    if args.to == Target::OmeZarr {
        let form = image_form(args);
        return told(
            args,
            &Form::Ome { form: form.clone(), from_file: true },
            &location,
            &engine,
            |context, tell| import_to_ome(context, input, &location, &form, &options, tell),
        );
    }
    let progress = Progress::bytes("converting", 0);
    let context = progress.context(&engine);
    let result = import(&context, input, &location, &options);
    progress.finish();
    let report = result?;
    consolidate::renew_above(&location);
    tell(args, &report, start.elapsed().as_secs_f64())
}

/// How the file is read and stored.
fn options(args: &Convert, machine: &Machine) -> Result<(Arc<Engine>, ImportOptions), Failure> {
    let (engine, memory) = machine.engine_and_buffer()?;
    let layout = args.layout.layout(args.packing())?;
    let mut options = ImportOptions::new().layout(layout).memory(memory);
    options.shape = args.shape.as_ref().map(|Shape(shape)| shape.clone());
    options.data_type = args.dtype.as_deref().map(failure::data_type).transpose()?;
    options.cast = args.cast;
    options.overwrite = args.job.overwrite;
    options.take_over = args.job.take_over;
    options.part = args.job.part;
    Ok((engine, options))
}

fn tell(args: &Convert, report: &ImportReport, seconds: f64) -> Result<(), Failure> {
    let mut out = said::out(args.job.json);
    if args.job.json {
        let mut members = Map::new();
        members.insert("shape".to_owned(), json!(report.shape));
        members.insert("dtype".to_owned(), report.data_type.to_json());
        members.insert("chunk_shape".to_owned(), json!(report.chunk_shape));
        members.insert("shard_shape".to_owned(), json!(report.shard_shape));
        members.insert("resumed".to_owned(), json!(report.resumed));
        members.insert("objects_kept".to_owned(), json!(report.objects_kept));
        let (part, missing) = args.job.describe_part(Some(&report.outcome));
        members.insert("part".to_owned(), part);
        members.insert("parts_missing".to_owned(), missing);
        members.extend(describe(&report.written, seconds));
        writeln!(out, "{}", Value::Object(members))?;
        return Ok(());
    }
    if let Some(waiting) = args.job.waits(&report.outcome) {
        writeln!(out, "{}: {waiting}", args.target)?;
        return Ok(());
    }
    let chunks = units::shape(&report.chunk_shape);
    let packing = match &report.shard_shape {
        Some(shard) => format!("chunks {chunks} in shards {}", units::shape(shard)),
        None => format!("chunks {chunks}"),
    };
    let (shape, name) = (units::shape(&report.shape), report.data_type.name());
    let kept = match report.resumed {
        true => format!(", {} already there", units::count(report.objects_kept, "object")),
        false => String::new(),
    };
    let written = units::size(report.written.bytes_written);
    writeln!(out, "made {}: {shape} {name}, {packing}; {written} written{kept}", args.target)?;
    Ok(())
}
