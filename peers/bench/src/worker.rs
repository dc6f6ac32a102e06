//! One job in one process: warm up, verify, then time.

use std::fs;
use std::path::Path;
use std::time::Instant;

use memmap2::Mmap;

use crate::Result;
use crate::block::{Block, cut, matches};
use crate::job::{Action, Job, Measured, Order};
use crate::measure::{Clock, peak, quantile, reset_peak};
use crate::memory::aligned;
use crate::subject::{self, Subject};

/// Blocks that are compared with the volume where there are many.
const SAMPLE: usize = 40;

/// Runs the job in a file and prints what was measured as a line of JSON.
pub fn main(job: &Path) -> Result {
    let job: Job = serde_json::from_slice(&fs::read(job)?)?;
    let measured = run(&job)?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

pub fn run(job: &Job) -> Result<Measured> {
    let volume = map(&job.volume)?;
    let mut subject = subject::new(job)?;
    let mut measured = Measured { version: subject.version(), ..Measured::default() };
    match job.action {
        Action::Verify => {
            subject.open(&job.array)?;
            let whole = Block::whole(job.shape);
            compare(job, &volume, &whole, &subject.read_fresh(&whole)?, Order::C)?;
            measured.verified = 1;
        }
        Action::ReadFresh => {
            subject.open(&job.array)?;
            for block in &job.blocks[..job.warm_up] {
                compare(job, &volume, block, &subject.read_fresh(block)?, Order::C)?;
                measured.verified += 1;
            }
            drop(volume);
            iterate(
                job,
                &mut measured,
                || Ok(()),
                |job, _| {
                    for block in &job.blocks {
                        // Freeing the result counts: it is part of using it.
                        drop(subject.read_fresh(block)?);
                    }
                    Ok(())
                },
            )?;
        }
        Action::ReadInto => {
            subject.open(&job.array)?;
            let longest = job.blocks.iter().map(Block::elements).max().unwrap_or(0);
            let mut buffer = aligned(longest * job.element);
            buffer.fill(1);
            for (i, block) in job.blocks[..job.warm_up].iter().enumerate() {
                let out = &mut buffer[..block.elements() * job.element];
                out.fill(1);
                let own = subject.read_into(block, out)?;
                if i < SAMPLE {
                    compare(job, &volume, block, own.as_deref().unwrap_or(out), job.order)?;
                    measured.verified += 1;
                }
            }
            drop(volume);
            iterate(
                job,
                &mut measured,
                || Ok(()),
                |job, latencies| {
                    for block in &job.blocks {
                        let out = &mut buffer[..block.elements() * job.element];
                        let start = Instant::now();
                        drop(subject.read_into(block, out)?);
                        if job.latency {
                            latencies.push(start.elapsed().as_secs_f64() * 1e6);
                        }
                    }
                    Ok(())
                },
            )?;
        }
        Action::Write | Action::Update => write(job, &volume, subject.as_mut(), &mut measured)?,
    }
    Ok(measured)
}

/// The files are compared with the volume by the driver, for all implementations alike.
fn write(job: &Job, volume: &[u8], subject: &mut dyn Subject, measured: &mut Measured) -> Result {
    let blocks: Vec<Vec<u8>> = (0..job.blocks.len())
        .map(|i| cut(volume, job.shape, job.element, &source_block(job, i)))
        .collect();
    // Both closures need the implementation, one after the other.
    let subject = std::cell::RefCell::new(subject);
    let prepare = || match job.action {
        Action::Write => {
            empty(&job.scratch)?;
            subject.borrow_mut().create(&job.scratch)
        }
        _ => {
            empty(&job.scratch)?;
            copy_folder(&job.array, &job.scratch)?;
            subject.borrow_mut().open(&job.scratch)
        }
    };
    prepare()?;
    for (block, elements) in job.blocks.iter().zip(&blocks).take(job.warm_up) {
        subject.borrow_mut().write(block, elements)?;
    }
    iterate(job, measured, prepare, |job, _| {
        for (block, elements) in job.blocks.iter().zip(&blocks) {
            subject.borrow_mut().write(block, elements)?;
        }
        Ok(())
    })
}

/// Where in the volume the elements come from that are written to a block: an update writes those
/// of the next block.
pub fn source_block(job: &Job, i: usize) -> Block {
    match job.action {
        Action::Update => job.blocks[(i + 1) % job.blocks.len()],
        _ => job.blocks[i],
    }
}

fn iterate(
    job: &Job,
    measured: &mut Measured,
    mut prepare: impl FnMut() -> Result,
    mut work: impl FnMut(&Job, &mut Vec<f64>) -> Result,
) -> Result {
    let mut latencies = Vec::with_capacity(job.blocks.len() * job.max_iterations);
    let mut total = 0.0;
    while measured.wall.len() < job.max_iterations
        && (measured.wall.is_empty() || total < job.min_seconds)
    {
        prepare()?;
        let before = reset_peak()?;
        let clock = Clock::start();
        work(job, &mut latencies)?;
        let (wall, user, system) = clock.stop();
        measured.peak_growth = measured.peak_growth.max(peak()?.saturating_sub(before));
        measured.wall.push(wall);
        measured.user.push(user);
        measured.system.push(system);
        total += wall;
    }
    if !latencies.is_empty() {
        latencies.sort_by(f64::total_cmp);
        measured.p50 = Some(quantile(&latencies, 0.5));
        measured.p99 = Some(quantile(&latencies, 0.99));
    }
    Ok(())
}

fn compare(job: &Job, volume: &[u8], block: &Block, elements: &[u8], order: Order) -> Result {
    if matches(volume, job.shape, job.element, block, elements, order) {
        return Ok(());
    }
    Err(format!("{} read wrong elements at {block:?} of {}", job.subject, job.array.display())
        .into())
}

pub fn map(path: &Path) -> Result<Mmap> {
    let file = fs::File::open(path)?;
    // SAFETY: the driver writes volumes under another name and renames them, so a mapped one never
    // changes.
    Ok(unsafe { Mmap::map(&file)? })
}

/// Removes what is at `path`.
pub fn empty(path: &Path) -> Result {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            fs::File::open(&target)?.sync_all()?;
        }
    }
    Ok(())
}
