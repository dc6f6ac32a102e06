//! Workers, one process each.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::options::Options;
use crate::Result;
use crate::block::{Block, each, matches};
use crate::floor::Floor;
use crate::job::{Action, Job, Measured, Order};
use crate::random::Random;
use crate::subject::Subject;
use crate::worker::{empty, map, source_block};

/// Chunks of a written array that are compared with the volume.
const SAMPLE: usize = 64;

/// Starts workers.
pub struct Workers {
    /// Where jobs are put down.
    folder: PathBuf,
    python: PathBuf,
    /// The script of those that have a Python face.
    worker: PathBuf,
    this: PathBuf,
}

/// Starts the workers of one scale, and looks at what they wrote.
pub struct Runner {
    pub folder: PathBuf,
    pub scale: super::plan::Scale,
    workers: Workers,
}

impl Runner {
    pub fn new(options: &Options) -> Self {
        Self {
            folder: options.folder.clone(),
            scale: options.scale,
            workers: Workers::new(&options.folder, &options.python, &options.worker),
        }
    }

    /// Runs a job; returns what was measured and, for a write, how many bytes are stored.
    ///
    /// A wrong result ends the whole benchmark: a time for it would mean nothing.
    pub fn measure(&self, job: &Job) -> Result<(Measured, Option<u64>)> {
        let measured = self.workers.start(job)?;
        let stored = match job.action {
            Action::Write | Action::Update => {
                check_written(job)?;
                let stored = folder_size(&job.scratch)?;
                empty(&job.scratch)?;
                Some(stored)
            }
            _ => None,
        };
        Ok((measured, stored))
    }

    /// The system calls of one iteration: those of a run with it less those of a run without. How
    /// many there are, and those that are made most often.
    pub fn syscalls(&self, job: &Job) -> Result<(u64, Vec<(String, u64)>)> {
        let count = |iterations: usize| -> Result<Vec<(String, u64)>> {
            let job = Job { max_iterations: iterations, ..job.clone() };
            let table = self.folder.join("strace.txt");
            let file = table.to_string_lossy().into_owned();
            let words = ["strace", "-f", "-c", "-o", file.as_str()];
            let output = self.workers.command(&job, &words)?.stderr(Stdio::inherit()).output()?;
            if !output.status.success() {
                return Err(format!("{} failed under strace", job.subject).into());
            }
            Ok(parse_counts(&fs::read_to_string(&table)?))
        };
        let (without, with) = (count(0)?, count(1)?);
        if job.action == Action::Write || job.action == Action::Update {
            empty(&job.scratch)?;
        }
        let mut more: Vec<(String, u64)> = Vec::new();
        let mut total = 0;
        for (name, calls) in &with {
            let base = without.iter().find(|(other, _)| other == name).map_or(0, |&(_, n)| n);
            let calls = calls.saturating_sub(base);
            total += calls;
            // The worker's own clocks and counters are a handful.
            if calls > 4 {
                more.push((name.clone(), calls));
            }
        }
        more.sort_unstable_by(|(a, m), (b, n)| n.cmp(m).then(a.cmp(b)));
        more.truncate(8);
        Ok((total, more))
    }
}

impl Workers {
    pub fn new(folder: &Path, python: &Path, worker: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            python: python.to_owned(),
            worker: worker.to_owned(),
            this: std::env::current_exe().unwrap_or_default(),
        }
    }

    /// Runs a job; returns what was measured.
    pub fn start(&self, job: &Job) -> Result<Measured> {
        let output = self.command(job, &[])?.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!(
                "{} failed ({}) at {:?} of {}; the run is void",
                job.subject,
                output.status,
                job.action,
                super::options::short(&job.array)
            )
            .into());
        }
        let line = output.stdout.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty());
        Ok(serde_json::from_slice(line.ok_or("a worker said nothing")?)?)
    }

    /// The worker process of a job, behind the words of another program.
    fn command(&self, job: &Job, before: &[&str]) -> Result<Command> {
        let file = self.folder.join("job.json");
        fs::write(&file, serde_json::to_vec(job)?)?;
        let rust = matches!(
            job.subject.as_str(),
            "floor"
                | "shardine"
                | "zarrs"
                | "zarrs-append"
                | "precomputed-floor"
                | "precomputed-shardine"
        );
        let mut words: Vec<&Path> = before.iter().map(Path::new).collect();
        if rust {
            words.extend([self.this.as_path(), Path::new("worker"), &file]);
        } else {
            words.extend([self.python.as_path(), &self.worker, &file]);
        }
        let (program, rest) = words.split_first().ok_or("no program")?;
        let mut command = Command::new(program);
        // Whoever asks the environment is told the same as those who are told in code.
        let threads = job.threads.to_string();
        command.args(rest).stdin(Stdio::null());
        for name in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS", "BLOSC_NTHREADS"] {
            command.env(name, &threads);
        }
        confine(&mut command, job.threads);
        Ok(command)
    }
}

/// Leaves a process as many processors as it may have threads. Some implementations have a pool for
/// each kind of work, so that a limit on each of them is not one on all together.
fn confine(command: &mut Command, threads: usize) {
    let limit = move || {
        // SAFETY: all-zero bytes are an empty set of processors; the calls get a set and its size.
        let done = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            if libc::sched_getaffinity(0, size, &raw mut set) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            let mut left = threads;
            // The last ones: the first has more to do with interrupts.
            for processor in (0..size * 8).rev() {
                if libc::CPU_ISSET(processor, &set) {
                    if left == 0 {
                        libc::CPU_CLR(processor, &mut set);
                    }
                    left = left.saturating_sub(1);
                }
            }
            libc::sched_setaffinity(0, size, &raw const set)
        };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec only system calls are made; nothing is allocated and no lock
    // taken.
    unsafe { command.pre_exec(limit) };
}

/// Names and numbers from the table of `strace -c`.
fn parse_counts(text: &str) -> Vec<(String, u64)> {
    let rows = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (&name, &calls) = (words.last()?, words.get(3)?);
        (name != "total").then_some((name.to_owned(), calls.parse().ok()?))
    });
    rows.collect()
}

/// Compares what a worker wrote with what it should have written, by the floor's reader.
fn check_written(job: &Job) -> Result {
    let volume = map(&job.volume)?;
    let mut reader = Floor::new(&Job { index_cache: true, ..job.clone() });
    reader.open(&job.scratch)?;
    let pairs: Vec<(Block, Block)> = match job.action {
        Action::Update => {
            (0..job.blocks.len()).map(|i| (job.blocks[i], source_block(job, i))).collect()
        }
        _ => {
            let mut random = Random::new(11);
            let mut chunk = || {
                let at = |axis: usize, random: &mut Random| {
                    random.below(job.shape[axis] / job.chunk[axis]) * job.chunk[axis]
                };
                let block = Block { start: each(|axis| at(axis, &mut random)), shape: job.chunk };
                (block, block)
            };
            (0..SAMPLE).map(|_| chunk()).collect()
        }
    };
    for (block, source) in pairs {
        let elements = reader.read_fresh(&block)?;
        if !matches(&volume, job.shape, job.element, &source, &elements, Order::C) {
            return Err(format!("{} wrote wrong elements at {block:?}", job.subject).into());
        }
    }
    Ok(())
}

/// Reads all files below a folder, so that they are in the page cache.
pub fn warm(folder: &Path) -> Result {
    let mut buffer = vec![0; 1 << 20];
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            warm(&entry.path())?;
        } else {
            let mut file = File::open(entry.path())?;
            while file.read(&mut buffer)? > 0 {}
        }
    }
    Ok(())
}

/// Bytes of all files below a folder.
pub fn folder_size(path: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        total += if entry.file_type()?.is_dir() {
            folder_size(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(total)
}
