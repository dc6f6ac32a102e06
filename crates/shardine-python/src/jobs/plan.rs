//! `plan`.

use std::sync::Arc;

use pyo3::prelude::*;
use serde_json::{Value, json};
use shardine::plan::{
    ArrayAdvice, PlanError, Purpose, Situation, VectorAdvice, VolumeAdvice, chunk_shape,
    element_bytes,
};
use shardine::precomputed::Volume;
use shardine::vectors::{GeometryKind, VectorStore};
use shardine::{ArrayNode, DataSet, DataType, Engine, Error, Group, open_in};

use super::{Job, Report, report};

pub fn run(job: &Job<'_>) -> PyResult<Report> {
    let options = &job.options;
    let Some(location) = options.location_if_given("url", "source_options")? else {
        return of_new(job);
    };
    options.refuse(&["shape", "dtype"], "cannot be combined with a URL")?;
    let engine = job.engine()?;
    let asked = Asked::new(job)?;
    let level = options.get::<usize>("level")?;
    let target = options.size("target_size")?;
    let name = options.get::<String>("url")?.unwrap_or_default();
    let name = name.trim_end_matches('/').to_owned();
    let found = job.run(&engine, |context| {
        let set = open_in(context.engine(), &location)?;
        if let Some(volume) = set.downcast_ref::<Volume>() {
            return of_volume(&name, volume, level, target);
        }
        if let Some(group) = set.downcast_ref::<Group>().filter(|g| VectorStore::is_store(g)) {
            return of_vectors(&asked, context.engine(), group, level);
        }
        of_arrays(&asked, &name, &*set, level)
    })?;
    match found {
        Found::Report(report) => Ok(report),
        Found::Wrong(error) => Err(job.wrong(error, None)),
    }
}

/// A report, or why there can be none.
enum Found {
    Report(Report),
    Wrong(String),
}

/// What the caller knows.
struct Asked {
    chunk: Option<Vec<u64>>,
    ratio: Option<f64>,
    purpose: Purpose,
    remote: bool,
    writers: u64,
    threads: u64,
    target: Option<u64>,
    screen: Option<[u64; 2]>,
    view: Option<u64>,
}

impl Asked {
    fn new(job: &Job<'_>) -> PyResult<Self> {
        let options = &job.options;
        let purposes = [
            ("serve", Purpose::Serve),
            ("update", Purpose::Update),
            ("write", Purpose::Write),
            ("archive", Purpose::Archive),
        ];
        let ratio = options.get::<f64>("ratio")?;
        if ratio.is_some_and(|ratio| !ratio.is_finite() || ratio <= 0.0) {
            return Err(options.wrong("ratio", "needs a number above 0"));
        }
        let threads = match options.get::<u64>("threads")? {
            None | Some(0) => std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            Some(threads) => threads,
        };
        Ok(Self {
            chunk: options.numbers("chunk")?,
            ratio,
            purpose: options.word("purpose", &purposes)?.unwrap_or(Purpose::General),
            remote: options.flag("remote")?,
            writers: options.get("writers")?.unwrap_or(1),
            threads,
            target: options.size("target_size")?,
            // Columns and rows, as screens are named; rows come first in arrays.
            screen: options.get::<[u64; 2]>("screen")?.map(|[columns, rows]| [rows, columns]),
            view: options.get("view")?,
        })
    }

    fn situation(&self, shape: &[u64], data_type: &DataType) -> Situation {
        let mut situation =
            Situation::of_type(shape, data_type).remote(self.remote).purpose(self.purpose);
        situation.chunk.clone_from(&self.chunk);
        (situation.ratio, situation.writers) = (self.ratio, self.writers);
        (situation.threads, situation.target) = (self.threads, self.target);
        situation.screen = self.screen.unwrap_or(situation.screen);
        situation.view = self.view.unwrap_or(situation.view);
        situation
    }
}

/// For an array or a volume that does not exist yet.
fn of_new(job: &Job<'_>) -> PyResult<Report> {
    let options = &job.options;
    let (Some(shape), Some(data_type)) = (options.numbers::<u64>("shape")?, options.data_type()?)
    else {
        return Err(job.wrong("a URL, or shape and dtype, is needed", None));
    };
    options.refuse(&["level"], "a new array has no levels")?;
    let asked = Asked::new(job)?;
    if options.word("to", &[("zarr3", false), ("precomputed", true)])? == Some(true) {
        let ([x, y, z] | [x, y, z, _]) = shape[..] else {
            return Err(options.wrong("shape", "a volume has the axes x, y, z and channel"));
        };
        let (size, element) = ([x, y, z], element_bytes(&data_type));
        let chunk = asked.chunk.clone().unwrap_or_else(|| chunk_shape(&size, element));
        let Ok(chunk) = <[u64; 3]>::try_from(chunk.get(..3).unwrap_or_default()) else {
            return Err(options.wrong("chunk", "needs lengths along x, y and z"));
        };
        let channels = shape.get(3).copied().unwrap_or(1);
        let bytes = chunk.iter().fold(element, |all, &n| all.saturating_mul(n));
        let bytes = bytes.saturating_mul(channels);
        let advice = VolumeAdvice::of_new("a new volume", size, chunk, bytes, asked.target);
        return Ok(report([("scales", json!([advice.to_json()]))]));
    }
    let situation = asked.situation(&shape, &data_type);
    let advice = ArrayAdvice::of_new("a new array", &data_type, situation)
        .map_err(|error| job.wrong(error.to_string(), None))?;
    Ok(report([("arrays", json!([advice.to_json()]))]))
}

fn of_volume(
    name: &str,
    volume: &Volume,
    level: Option<usize>,
    target: Option<u64>,
) -> Result<Found, Error> {
    let levels = match level {
        Some(level) => level..level + 1,
        None => 0..volume.info().scales().len(),
    };
    let mut scales = Vec::new();
    for level in levels {
        let key = &volume.scale(level)?.key;
        let name = format!("{name}, level {level} ({key})");
        scales.push(VolumeAdvice::of_scale(&name, volume, level, target)?.to_json());
    }
    Ok(Found::Report(report([("scales", json!(scales))])))
}

fn of_vectors(
    asked: &Asked,
    engine: &Arc<Engine>,
    group: &Group,
    level: Option<usize>,
) -> Result<Found, Error> {
    let store = VectorStore::of_group(group)?;
    let info = store.info()?;
    if info.kind == GeometryKind::Parametric {
        return Ok(Found::Wrong("parametric objects have no chunks to plan".to_owned()));
    }
    let known = |shape: &[u64], data_type: &DataType| asked.situation(shape, data_type);
    let mut levels = Vec::new();
    for one in &info.levels {
        if level.is_some_and(|level| level as u64 != one.level) {
            continue;
        }
        match VectorAdvice::of_level(engine, &store, &info, one, &known)? {
            Ok(advice) => levels.extend(advice.map(|advice| advice.to_json())),
            Err(error) => return Ok(Found::Wrong(error.to_string())),
        }
    }
    Ok(Found::Report(report([("kind", json!(info.kind.name())), ("levels", json!(levels))])))
}

fn of_arrays(
    asked: &Asked,
    name: &str,
    set: &dyn DataSet,
    level: Option<usize>,
) -> Result<Found, Error> {
    let mut advice: Vec<Value> = Vec::new();
    let mut wrong: Option<PlanError> = None;
    let mut add = |array: &ArrayNode, name: &str| -> Result<(), Error> {
        let mut situation = asked.situation(array.shape(), array.data_type());
        situation.look_at(array)?;
        match ArrayAdvice::of_array(name, array, situation) {
            Ok(one) => advice.push(one.to_json()),
            Err(error) => wrong = Some(error),
        }
        Ok(())
    };
    let root = set.location();
    let path_of = |array: &ArrayNode| {
        let (root, at) = (root.to_string(), array.location().to_string());
        format!("{name}{}", at.strip_prefix(root.trim_end_matches('/')).unwrap_or_default())
    };
    match level {
        Some(level) => {
            let array = set.array(level)?;
            let array = ArrayNode::open(array.engine(), array.location())?;
            add(&array, &path_of(&array))?;
        }
        None => {
            let mut arrays = Vec::new();
            set.each_array(&mut |array| {
                arrays.push(array?);
                Ok(())
            })?;
            for array in arrays {
                let array = ArrayNode::open(array.engine(), array.location())?;
                add(&array, &path_of(&array))?;
            }
        }
    }
    match wrong {
        Some(error) => Ok(Found::Wrong(error.to_string())),
        None => Ok(Found::Report(report([("arrays", json!(advice))]))),
    }
}
