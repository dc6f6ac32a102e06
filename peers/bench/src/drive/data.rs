//! The volumes and arrays, made once and kept.

use std::fs;
use std::path::Path;

use super::SUBJECTS;
use super::plan::{Content, Scale, Variant, Workload};
use super::run::{Runner, folder_size};
use crate::Result;
use crate::block::{Triple, product};
use crate::job::{Action, Job};
use crate::worker::{self, empty};

/// Raised when the same names would hold other data.
const GENERATION: &str = "5";

/// Makes what is missing of the volumes and arrays. Arrays are written by shardine, in Morton
/// order, and count only after every implementation has read all of them right.
pub fn ensure(runner: &Runner, variants: &[&Variant]) -> Result {
    let (folder, scale) = (&runner.folder, &runner.scale);
    let stamp = folder.join("generation");
    if fs::read(&stamp).ok().as_deref() != Some(GENERATION.as_bytes()) {
        empty(folder)?;
        fs::create_dir_all(folder)?;
        fs::write(&stamp, GENERATION)?;
    }
    for &variant in variants {
        let shape = scale.shape(variant.content);
        match variant.content {
            Content::Image => volume(&folder.join("image.raw"), shape, crate::volume::image)?,
            Content::Segmentation => {
                let path = folder.join("segmentation.raw");
                volume(&path, shape, crate::volume::segmentation)?;
            }
        }
        array(runner, scale, variant)?;
    }
    Ok(())
}

fn volume(path: &Path, shape: Triple, make: fn(&Path, Triple) -> Result) -> Result {
    if path.exists() {
        return Ok(());
    }
    println!("making {}", super::options::short(path));
    let unfinished = path.with_extension("unfinished");
    make(&unfinished, shape)?;
    Ok(fs::rename(unfinished, path)?)
}

fn array(runner: &Runner, scale: &Scale, variant: &Variant) -> Result {
    let whole = Workload::named("W2").ok_or("the plan has no W2")?;
    let job = |subject: &str, action: Action| Job {
        action,
        ..scale.job(&runner.folder, subject, whole, variant)
    };
    let path = job("shardine", Action::Write).array;
    let verified = path.with_extension("verified");
    if path.exists() && verified.exists() {
        return Ok(());
    }
    println!("making {}", super::options::short(&path));
    let unfinished = path.with_extension("unfinished");
    worker::run(&Job {
        scratch: unfinished.clone(),
        warm_up: 0,
        max_iterations: 1,
        ..job("shardine", Action::Write)
    })?;
    empty(&path)?;
    fs::rename(&unfinished, &path)?;
    for subject in SUBJECTS {
        runner.measure(&job(subject, Action::Verify))?;
    }
    let (raw, stored) =
        (product(job("", Action::Verify).shape) * variant.element(), folder_size(&path)?);
    let ratio = raw as f64 / stored as f64;
    fs::write(&verified, format!("ratio {ratio:.3}\n"))?;
    println!("  all of it read right by {}; ratio {ratio:.2}", SUBJECTS.join(", "));
    Ok(())
}
