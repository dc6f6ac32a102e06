//! The driver: makes the image, lets everyone make its levels in turns, checks those of the first
//! round, and reports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::floor::Reducing;
use super::plan::{CHUNK, FULL, Scale, Subject, WORK, group};
use super::report;
use crate::Result;
use crate::drive::{folder_size, warm};
use crate::host::{Host, said};
use crate::process::{measure, run, sync};
use crate::runs::{Record, Run};
use crate::worker::empty;

/// Raised when the same names would hold other data.
const GENERATION: &str = "1";

/// Bytes that igneous is told to use: with more it would make one task of all.
const IGNEOUS_MEMORY: u64 = 1_000_000_000;

struct Bench {
    scale: Scale,
    rounds: usize,
    slow_rounds: usize,
    subjects: Vec<Subject>,
    /// Where the image is kept, and results are made.
    folder: PathBuf,
    out: PathBuf,
    python: PathBuf,
    worker: PathBuf,
    shardine: PathBuf,
}

pub fn main(arguments: &[&str]) -> Result {
    let bench = Bench::parse(arguments)?;
    bench.ensure_sources()?;
    let mut record = Record {
        scale: bench.scale.name.to_owned(),
        rounds: bench.rounds,
        host: Host::ask()?,
        file_system: said("stat", &["-f", "-c", "%T", &bench.folder.to_string_lossy()]),
        versions: bench.versions(),
        stored: folder_size(&bench.image())?,
        runs: Vec::new(),
    };
    println!("{}", record.versions.join(", "));
    for round in 0..bench.rounds {
        println!("round {} of {}", round + 1, bench.rounds);
        let start = Instant::now();
        let mut subjects = bench.subjects.clone();
        subjects.retain(|subject| !subject.is_slow() || round < bench.slow_rounds);
        // Another one first each time.
        let by = round % subjects.len().max(1);
        subjects.rotate_left(by);
        for subject in subjects {
            let run = bench.run(subject, round)?;
            println!("{run}");
            record.runs.push(run);
        }
        println!("round {} took {:.0} s", round + 1, start.elapsed().as_secs_f64());
        // Kept after each round, so that a long run that is stopped is not lost.
        record.save(&bench.folder.join("runs.json"))?;
    }
    report::write(&record, &bench.out)?;
    println!("\nthe report is in {}", bench.out.display());
    Ok(())
}

impl Bench {
    fn parse(arguments: &[&str]) -> Result<Self> {
        let mut bench = Self {
            scale: FULL,
            rounds: 5,
            slow_rounds: 2,
            subjects: Subject::ALL.to_vec(),
            folder: PathBuf::new(),
            out: PathBuf::new(),
            python: PathBuf::new(),
            worker: PathBuf::new(),
            shardine: PathBuf::new(),
        };
        let mut rest = arguments.iter().copied();
        while let Some(option) = rest.next() {
            let value = rest.next().ok_or_else(|| format!("{option} needs a value"))?;
            let wrong = || format!("{option}: \"{value}\" will not do");
            let number = || value.parse().ok().filter(|&n| n > 0).ok_or_else(wrong);
            match option {
                "--size" => bench.scale = Scale::named(value).ok_or_else(wrong)?,
                "--rounds" => bench.rounds = number()?,
                "--slow-rounds" => bench.slow_rounds = number()?,
                "--peers" => {
                    let subject = |name| Subject::ALL.into_iter().find(|s| s.name() == name);
                    let subjects: Option<Vec<_>> = value.split(',').map(subject).collect();
                    bench.subjects = subjects.ok_or_else(wrong)?;
                }
                "--data" => bench.folder = PathBuf::from(value),
                "--out" => bench.out = PathBuf::from(value),
                "--python" => bench.python = PathBuf::from(value),
                "--worker" => bench.worker = PathBuf::from(value),
                "--shardine" => bench.shardine = PathBuf::from(value),
                _ => return Err(format!("bench --pyramid does not take \"{option}\"").into()),
            }
        }
        bench.folder.push(format!("pyramid-{}", bench.scale.name));
        Ok(bench)
    }

    fn image(&self) -> PathBuf {
        self.folder.join("image.zarr")
    }

    /// The same as a precomputed volume, for igneous.
    fn precomputed(&self) -> PathBuf {
        self.folder.join("image.precomputed")
    }

    /// The image with its levels as they must be.
    fn reference(&self) -> PathBuf {
        self.folder.join("reference.zarr")
    }

    /// The Python worker with a job.
    fn job(&self, action: &str, target: &Path) -> Result<Command> {
        let Self { folder, scale, .. } = self;
        let job: Value = json!({
            "action": action,
            "target": target,
            "source": self.image(),
            "reference": self.reference(),
            "volume": folder.join("image.raw"),
            "shape": scale.shape,
            "shard": scale.shard(),
            "chunk": ([CHUNK; 3]),
            "per_shard": scale.per_shard,
            "group": group(),
            "metadata": scale.finest(),
            "levels": scale.levels(),
            "memory": IGNEOUS_MEMORY,
            "threads": std::thread::available_parallelism()?.get(),
        });
        let file = folder.join("job.json");
        fs::write(&file, serde_json::to_vec(&job)?)?;
        let mut command = Command::new(&self.python);
        command.arg(&self.worker).arg(file);
        Ok(command)
    }

    /// Makes what is missing of the image, in both formats, and of the reference, which counts after
    /// TensorStore has compared all of it.
    fn ensure_sources(&self) -> Result {
        let folder = &self.folder;
        let stamp = folder.join("generation");
        if fs::read(&stamp).ok().as_deref() != Some(GENERATION.as_bytes()) {
            empty(folder)?;
            fs::create_dir_all(folder)?;
            fs::write(&stamp, GENERATION)?;
        }
        let volume = folder.join("image.raw");
        if !volume.exists() {
            println!("making the image");
            let shape = self.scale.shape.map(|n| n.to_string()).join(",");
            let mut command = Command::new(std::env::current_exe()?);
            run(command.args(["repack", "volume"]).arg(&volume).arg(shape))?;
        }
        let mut made = vec![(self.image(), "make")];
        if self.subjects.contains(&Subject::Igneous) {
            made.push((self.precomputed(), "make-precomputed"));
        }
        for (path, action) in made {
            if !path.exists() {
                println!("making {}", path.display());
                let unfinished = path.with_extension("unfinished");
                empty(&unfinished)?;
                run(&mut self.job(action, &unfinished)?)?;
                fs::rename(unfinished, path)?;
            }
        }
        if !self.reference().exists() {
            println!("making the reference");
            let unfinished = self.reference().with_extension("unfinished");
            empty(&unfinished)?;
            run(&mut linked(&self.image(), &unfinished))?;
            run(Command::new(&self.shardine).arg("pyramid").arg(&unfinished))?;
            run(&mut self.job("check", &unfinished)?)?;
            fs::rename(unfinished, self.reference())?;
        }
        Ok(())
    }

    fn versions(&self) -> Vec<String> {
        let worker = self.worker.to_string_lossy();
        let python = said(&self.python.to_string_lossy(), &[&worker, "--versions"]);
        let mut versions = vec![said(&self.shardine.to_string_lossy(), &["--version"])];
        versions.extend(python.lines().map(str::to_owned));
        versions
    }

    fn run(&self, subject: Subject, round: usize) -> Result<Run> {
        let result = self.folder.join("result.zarr");
        empty(&result)?;
        let source = if subject == Subject::Igneous { self.precomputed() } else { self.image() };
        if subject.works_in_place() {
            run(&mut linked(&source, &result))?;
        }
        if subject == Subject::NgffZarr {
            // It expects the finest level under its own name.
            fs::create_dir_all(result.join("scale0"))?;
            run(&mut linked(&source.join("0"), &result.join("scale0/image")))?;
        }
        let mut command = match subject {
            Subject::Floor => {
                let reducing = Reducing { image: result.clone(), levels: self.scale.levels() };
                let job = self.folder.join("job.json");
                fs::write(&job, serde_json::to_vec(&reducing)?)?;
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["pyramid", "floor"]).arg(job);
                command
            }
            Subject::Shardine => {
                let mut command = Command::new(&self.shardine);
                command.arg("pyramid").arg(&result);
                command
            }
            peer => self.job(peer.name(), &result)?,
        };
        warm(&source)?;
        sync(&self.folder)?;
        command.stderr(Stdio::null());
        let usage = measure(&mut command, &self.folder)?;
        let difference = match round {
            0 => Some(self.difference(subject, &result)?),
            _ => None,
        };
        empty(&result)?;
        sync(&self.folder)?;
        let (work, subject) = (WORK.to_owned(), subject.name().to_owned());
        Ok(Run { work, subject, round, checked: difference.is_some(), difference, usage })
    }

    /// How far the elements of a result are from those of the reference. Who has the same method
    /// must have the same elements: a time for a wrong result would mean nothing.
    fn difference(&self, subject: Subject, result: &Path) -> Result<u64> {
        let output = self.job("compare", result)?.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{} made no such levels; the run is void", subject.name()).into());
        }
        let told: Value = serde_json::from_slice(&output.stdout)?;
        let difference = told["difference"].as_u64().ok_or("nothing was compared")?;
        let levels = self.scale.levels().len() as u64;
        // Igneous stops where the shortest axis is one chunk long.
        let fewest = if subject == Subject::Igneous { levels - 1 } else { levels };
        if told["levels"].as_u64().is_none_or(|found| found < fewest) {
            return Err(format!("{} made too few levels; the run is void", subject.name()).into());
        }
        if subject.is_exact() && difference > 0 {
            return Err(format!("{} made other elements; the run is void", subject.name()).into());
        }
        Ok(difference)
    }
}

/// A copy of an image that shares its files, none of which is changed.
fn linked(from: &Path, to: &Path) -> Command {
    let mut command = Command::new("cp");
    command.arg("-al").arg(from).arg(to);
    command
}
