//! The driver: makes the volumes, runs everyone in turns, compares what was written, and reports.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::plan::{CASES, Case, FULL, QUICK, Scale, Subject, Work};
use super::record::{Record, Run};
use super::report;
use crate::Result;
use crate::block::Triple;
use crate::drive::{Workers, folder_size, warm};
use crate::host::Host;
use crate::job::{Action, Job, Measured};
use crate::worker::empty;

/// Raised when the same names would hold other data.
const GENERATION: &str = "1";

/// How much larger than TensorStore's the files of shardine may be.
const LARGER: f64 = 1.03;

struct Options {
    scale: Scale,
    rounds: usize,
    only: Vec<String>,
    subjects: Vec<Subject>,
    folder: PathBuf,
    out: PathBuf,
    python: PathBuf,
    worker: PathBuf,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self> {
        let mut options = Self {
            scale: FULL,
            rounds: 3,
            only: Vec::new(),
            subjects: Subject::ALL.to_vec(),
            folder: PathBuf::new(),
            out: PathBuf::new(),
            python: PathBuf::new(),
            worker: PathBuf::new(),
        };
        let mut rest = arguments.iter().copied();
        while let Some(option) = rest.next() {
            if option == "--quick" {
                options.scale = QUICK;
                continue;
            }
            let value = rest.next().ok_or_else(|| format!("{option} needs a value"))?;
            let wrong = || format!("{option}: \"{value}\" will not do");
            match option {
                "--rounds" => {
                    options.rounds = value.parse().ok().filter(|&n| n > 0).ok_or_else(wrong)?;
                }
                "--only" => {
                    options.only = value.split(',').map(str::to_owned).collect();
                    let known = |name: &String| CASES.iter().any(|case| case.name == name);
                    if !options.only.iter().all(known) {
                        return Err(wrong().into());
                    }
                }
                "--peers" => {
                    let subject = |name: &str| {
                        Subject::ALL.into_iter().find(|s| s.name().replace(", ", "-") == name)
                    };
                    options.subjects =
                        value.split(',').map(subject).collect::<Option<_>>().ok_or_else(wrong)?;
                }
                "--data" => options.folder = PathBuf::from(value),
                "--out" => options.out = PathBuf::from(value),
                "--python" => options.python = PathBuf::from(value),
                "--worker" => options.worker = PathBuf::from(value),
                _ => return Err(format!("bench --precomputed does not take \"{option}\"").into()),
            }
        }
        options.folder.push(format!("precomputed-{}", options.scale.name));
        Ok(options)
    }

    fn cases(&self) -> impl Iterator<Item = &'static Case> {
        CASES.iter().filter(|case| self.only.is_empty() || self.only.iter().any(|n| n == case.name))
    }
}

pub fn main(arguments: &[&str]) -> Result {
    let options = Options::parse(arguments)?;
    let workers = Workers::new(&options.folder, &options.python, &options.worker);
    let bench = Bench { options: &options, workers };
    bench.ensure_volumes()?;
    let mut record = Record {
        scale: options.scale.name.to_owned(),
        rounds: options.rounds,
        host: Host::ask()?,
        levels: Vec::new(),
        runs: Vec::new(),
    };
    for case in options.cases().filter(|case| case.gzip) {
        record.levels.push((case.name.to_owned(), bench.level(case)?));
    }
    for round in 0..options.rounds {
        println!("round {} of {}", round + 1, options.rounds);
        let start = Instant::now();
        for case in options.cases() {
            let level = record.levels.iter().find(|(name, _)| name == case.name);
            let level = level.map_or(0, |&(_, level)| level);
            for work in Work::ALL {
                let mut subjects = options.subjects.clone();
                subjects.retain(|subject| subject.does(case, work));
                // Another one first each time.
                let by = round % subjects.len().max(1);
                subjects.rotate_left(by);
                for subject in subjects {
                    let run = bench.run(case, work, subject, level, round)?;
                    println!("{run}");
                    record.runs.push(run);
                }
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

struct Bench<'a> {
    options: &'a Options,
    workers: Workers,
}

impl Bench<'_> {
    fn job(&self, case: &Case, work: Work, subject: Subject, level: u8) -> Job {
        self.options.scale.job(&self.options.folder, case, work, subject, level)
    }

    /// Makes what is missing of voxels and volumes. The volumes are TensorStore's, and cloud-volume
    /// must read them right.
    fn ensure_volumes(&self) -> Result {
        let (folder, shape) = (&self.options.folder, self.options.scale.shape());
        let stamp = folder.join("generation");
        if fs::read(&stamp).ok().as_deref() != Some(GENERATION.as_bytes()) {
            empty(folder)?;
            fs::create_dir_all(folder)?;
            fs::write(&stamp, GENERATION)?;
        }
        if self.options.cases().any(|case| case.element == 1) {
            voxels(&folder.join("image.raw"), shape, image)?;
        }
        if self.options.cases().any(|case| case.element == 8) {
            voxels(&folder.join("labels.raw"), shape, crate::volume::segmentation)?;
        }
        for case in self.options.cases() {
            for subject in [Subject::TensorStore, Subject::WkwRaw, Subject::WkwLz4] {
                let wkw = subject.is_wkw();
                let reads = self.options.subjects.contains(&subject) && case.name == "u8-raw";
                if !wkw || reads {
                    self.ensure_volume(case, subject)?;
                }
            }
        }
        Ok(())
    }

    fn ensure_volume(&self, case: &Case, subject: Subject) -> Result {
        let job = self.job(case, Work::Write, subject, 9);
        if job.array.exists() {
            return Ok(());
        }
        println!("making {} with {}", job.array.display(), subject.name());
        self.workers.start(&job)?;
        let verifier = if subject.is_wkw() { subject } else { Subject::CloudVolume };
        self.verify(&job.scratch, case, verifier)?;
        Ok(fs::rename(&job.scratch, &job.array)?)
    }

    /// Lets someone read all of a volume and compare it with its voxels.
    fn verify(&self, array: &Path, case: &Case, subject: Subject) -> Result {
        let job = self.job(case, Work::Read, subject, 0);
        let (array, action) = (array.to_owned(), Action::Verify);
        self.workers.start(&Job { array, action, ..job })?;
        Ok(())
    }

    /// The lowest level of gzip with which shardine's files are about as small as TensorStore's.
    fn level(&self, case: &Case) -> Result<u8> {
        let kept = self.options.folder.join(format!("{}.level", case.name));
        if let Some(level) = fs::read_to_string(&kept).ok().and_then(|text| text.parse().ok()) {
            return Ok(level);
        }
        let theirs = folder_size(&self.options.folder.join(case.name))? as f64;
        for level in 1..=9 {
            let job = self.job(case, Work::Write, Subject::Shardine, level);
            self.workers.start(&job)?;
            let size = folder_size(&job.scratch)? as f64;
            empty(&job.scratch)?;
            println!("{} with gzip {level}: {:.3} of tensorstore's", case.name, size / theirs);
            if size <= theirs * LARGER || level == 9 {
                fs::write(&kept, level.to_string())?;
                return Ok(level);
            }
        }
        Ok(9)
    }

    fn run(
        &self,
        case: &Case,
        work: Work,
        subject: Subject,
        level: u8,
        round: usize,
    ) -> Result<Run> {
        let job = self.job(case, work, subject, level);
        if work != Work::Write {
            warm(&job.array)?;
        }
        let measured: Measured = self.workers.start(&job)?;
        let stored = match work {
            Work::Write => {
                // The judge is never the one who wrote.
                let judge = match subject {
                    Subject::TensorStore => Subject::CloudVolume,
                    _ => Subject::TensorStore,
                };
                if round == 0 {
                    self.verify(&job.scratch, case, judge)?;
                }
                let stored = folder_size(&job.scratch)?;
                empty(&job.scratch)?;
                Some(stored)
            }
            _ => None,
        };
        Ok(Run {
            case: case.name.to_owned(),
            work: work.name().to_owned(),
            subject: subject.name().to_owned(),
            round,
            stored,
            measured,
        })
    }
}

fn voxels(path: &Path, shape: Triple, make: fn(&Path, Triple) -> Result) -> Result {
    if path.exists() {
        return Ok(());
    }
    println!("making {}", path.display());
    let unfinished = path.with_extension("unfinished");
    make(&unfinished, shape)?;
    Ok(fs::rename(unfinished, path)?)
}

/// An image of 8 bits: the one of 16 bits, with its noise spread over more of them.
fn image(path: &Path, shape: Triple) -> Result {
    let wide = path.with_extension("wide");
    crate::volume::image(&wide, shape)?;
    let mut from = BufReader::with_capacity(1 << 20, File::open(&wide)?);
    let mut to = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut pair = [0; 2];
    for _ in 0..shape.iter().product::<u64>() {
        from.read_exact(&mut pair)?;
        let value = u16::from_le_bytes(pair);
        to.write_all(&[((value >> 6) + (value & 15) * 3) as u8])?;
    }
    to.flush()?;
    Ok(fs::remove_file(wide)?)
}
