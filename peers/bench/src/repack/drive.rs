//! The driver: makes the arrays, runs everyone in turns, checks the results of the first round, and
//! reports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use super::floor::Recoding;
use super::options::Options;
use super::plan::{CHUNK, Source, Subject, Work};
use super::report;
use crate::Result;
use crate::drive::{folder_size, warm};
use crate::host::{Host, said};
use crate::process::{Usage, measure, run, sync};
use crate::runs::{Record, Run};
use crate::worker::empty;

/// Raised when the same names would hold other data.
const GENERATION: &str = "1";

pub fn main(arguments: &[&str]) -> Result {
    let bench = Bench { options: Options::parse(arguments)? };
    let options = &bench.options;
    bench.ensure_sources()?;
    let mut record = Record {
        scale: options.scale.name.to_owned(),
        rounds: options.rounds,
        host: Host::ask()?,
        file_system: said("stat", &["-f", "-c", "%T", &options.folder.to_string_lossy()]),
        versions: bench.versions(),
        stored: folder_size(&bench.source(Source::Shards))?,
        runs: Vec::new(),
    };
    println!("{}", record.versions.join(", "));
    for round in 0..options.rounds {
        println!("round {} of {}", round + 1, options.rounds);
        let start = Instant::now();
        for work in options.works() {
            let mut subjects = options.subjects.clone();
            subjects.retain(|subject| subject.does(work));
            // Another one first each time.
            let by = round % subjects.len().max(1);
            subjects.rotate_left(by);
            for subject in subjects {
                let run = bench.run(work, subject, round)?;
                println!("{run}");
                record.runs.push(run);
            }
        }
        println!("round {} took {:.0} s", round + 1, start.elapsed().as_secs_f64());
        // Kept after each round, so that a long run that is stopped is not lost.
        record.save(&options.folder.join("runs.json"))?;
    }
    report::write(&record, &options.out)?;
    println!("\nthe report is in {}", options.out.display());
    Ok(())
}

struct Bench {
    options: Options,
}

impl Bench {
    fn source(&self, source: Source) -> PathBuf {
        self.options.folder.join(source.name())
    }

    fn volume(&self) -> PathBuf {
        self.options.folder.join("image.raw")
    }

    /// This program, for what is done in a process of its own.
    fn part(name: &str) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["repack", name]);
        Ok(command)
    }

    /// The Python worker with a job.
    fn worker(&self, job: &Value) -> Result<Command> {
        let file = self.options.folder.join("job.json");
        fs::write(&file, serde_json::to_vec(job)?)?;
        let mut command = Command::new(&self.options.python);
        command.arg(&self.options.worker).arg(file);
        Ok(command)
    }

    /// Makes what is missing of the image and the arrays, which zarr-python writes.
    fn ensure_sources(&self) -> Result {
        let Options { folder, scale, .. } = &self.options;
        let stamp = folder.join("generation");
        if fs::read(&stamp).ok().as_deref() != Some(GENERATION.as_bytes()) {
            empty(folder)?;
            fs::create_dir_all(folder)?;
            fs::write(&stamp, GENERATION)?;
        }
        if !self.volume().exists() {
            println!("making the image");
            let shape = scale.shape.map(|n| n.to_string()).join(",");
            run(Self::part("volume")?.arg(self.volume()).arg(shape))?;
        }
        for source in Source::ALL {
            let path = self.source(source);
            if path.exists() {
                continue;
            }
            println!("making {}", source.name());
            let unfinished = path.with_extension("unfinished");
            empty(&unfinished)?;
            let (document, metadata) = scale.source(source);
            run(&mut self.worker(&json!({
                "action": "make",
                "volume": self.volume(),
                "shape": scale.shape,
                "target": unfinished,
                "document": document,
                "metadata": metadata,
                // A layer of shards, or of chunks.
                "block": scale.shape[1].max(CHUNK),
            }))?)?;
            self.compare_elements(&unfinished, None)?;
            fs::rename(unfinished, path)?;
        }
        for source in [Source::Shards, Source::V2] {
            compare_encoded(&self.source(Source::Chunks), &self.source(source))?;
        }
        Ok(())
    }

    fn versions(&self) -> Vec<String> {
        let options = &self.options;
        let ask = |program: &Path| said(&program.to_string_lossy(), &["--version"]);
        let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
        let worker = options.worker.to_string_lossy();
        let python = said(&options.python.to_string_lossy(), &[&worker, "--versions"]);
        let mut versions =
            vec![first(ask(Path::new("cp"))), ask(&options.shardine), ask(&options.zarrs)];
        versions.extend(python.lines().map(str::to_owned));
        // Who does not take part need not be installed.
        versions.retain(|version| !version.is_empty());
        versions
    }

    fn run(&self, work: &Work, subject: Subject, round: usize) -> Result<Run> {
        let Options { folder, scale, shardine, zarrs, .. } = &self.options;
        let source = self.source(work.source);
        let result = folder.join("result.zarr");
        empty(&result)?;
        let mut command = match subject {
            Subject::Copy | Subject::CopyLikeResult => {
                let like = work.like_result.filter(|_| subject == Subject::CopyLikeResult);
                let from = like.map_or(source.clone(), |like| self.source(like));
                warm(&from)?;
                copy(&from, &result)
            }
            Subject::Floor => {
                let (to, shard) = scale.result(work);
                let recoding = Recoding {
                    source: source.clone(),
                    target: result.clone(),
                    metadata: scale.result_metadata(work),
                    shape: scale.shape,
                    from: CHUNK,
                    to,
                    shard: shard.ok_or("the floor writes shards")?,
                };
                let job = folder.join("job.json");
                fs::write(&job, serde_json::to_vec(&recoding)?)?;
                let mut command = Self::part("floor")?;
                command.arg(job);
                command
            }
            Subject::Shardine => {
                let mut command = Command::new(shardine);
                command.args(scale.shardine_arguments(work)).arg(&source).arg("-o").arg(&result);
                command
            }
            Subject::ShardineInPlace => {
                run(&mut copy(&source, &result))?;
                let mut command = Command::new(shardine);
                command.args(scale.shardine_arguments(work)).arg(&result);
                command
            }
            Subject::Zarrs => {
                let mut command = Command::new(zarrs);
                command.args(scale.zarrs_arguments(work)).arg(&source).arg(&result);
                command
            }
            Subject::TensorStore | Subject::ZarrPython => self.worker(&json!({
                "action": "convert",
                "subject": subject.name(),
                "shape": scale.shape,
                "source": source,
                "target": result,
                "document": "zarr.json",
                "metadata": scale.result_metadata(work),
                "block": scale.block(work),
            }))?,
        };
        warm(&source)?;
        sync(folder)?;
        let usage: Usage = measure(&mut command, folder)?;
        let checked = round == 0 && self.check(work, subject, &result)?;
        empty(&result)?;
        sync(folder)?;
        Ok(Run {
            work: work.name.to_owned(),
            subject: subject.name().to_owned(),
            round,
            checked,
            difference: None,
            usage,
        })
    }

    /// A wrong result ends the whole benchmark: a time for it would mean nothing.
    fn check(&self, work: &Work, subject: Subject, result: &Path) -> Result<bool> {
        if matches!(subject, Subject::Copy | Subject::CopyLikeResult) {
            return Ok(false);
        }
        let metadata = self.options.scale.result_metadata(work);
        self.compare_elements(result, Some(&metadata))?;
        if work.moves && matches!(subject, Subject::Shardine | Subject::ShardineInPlace) {
            compare_encoded(&self.source(work.source), result)?;
        }
        Ok(true)
    }

    /// Lets tensorstore read all of an array and compare it with the image; its chunks, shards and
    /// codecs must be those of the metadata.
    fn compare_elements(&self, array: &Path, metadata: Option<&Value>) -> Result {
        run(&mut self.worker(&json!({
            "action": "compare",
            "volume": self.volume(),
            "shape": self.options.scale.shape,
            "source": array,
            "metadata": metadata,
        }))?)
    }
}

/// Fails unless two arrays have the same chunks, as they are encoded.
fn compare_encoded(one: &Path, other: &Path) -> Result {
    run(Bench::part("compare")?.arg(one).arg(other))
}

fn copy(from: &Path, to: &Path) -> Command {
    let mut command = Command::new("cp");
    command.arg("-r").arg(from).arg(to);
    command
}
