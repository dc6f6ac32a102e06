//! The driver: starts the server, makes the data, runs every implementation in a process of its
//! own, in turns, and reports.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use shardine_testbed::{Proxy, ProxyOptions, SeaweedFs};

use crate::block::Block;
use crate::floor::Floor;
use crate::job::{Action, Job, Measured};
use crate::plan::{CHUNK, FULL, QUICK, SHARD, SUBJECTS, Scale, WORKLOADS, Workload, metadata};
use crate::record::{Record, Run};
use crate::{Result, report, shardine, volume};

const BUCKET: &str = "bench";
const ARRAY: &str = "image.zarr";
const WARM_UP: &str = "warm-up.zarr";

/// What the caller asks for.
struct Options {
    scale: Scale,
    repeats: usize,
    latency_ms: f64,
    only: Vec<String>,
    peers: Vec<String>,
    python: PathBuf,
    worker: PathBuf,
    folder: PathBuf,
    out: PathBuf,
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self> {
        let scale = if arguments.contains(&"--quick") { QUICK } else { FULL };
        let words = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let mut options = Self {
            scale,
            repeats: scale.repeats,
            latency_ms: 20.0,
            only: words(&WORKLOADS.map(|workload| workload.name)),
            peers: words(&SUBJECTS),
            python: PathBuf::new(),
            worker: PathBuf::new(),
            folder: PathBuf::new(),
            out: PathBuf::new(),
        };
        let mut rest = arguments.iter().filter(|&&word| word != "--quick");
        while let Some(&option) = rest.next() {
            let value = *rest.next().ok_or_else(|| format!("{option} needs a value"))?;
            let list = |known: Vec<String>| -> Result<Vec<String>> {
                let wanted: Vec<String> = value.split(',').map(str::to_owned).collect();
                match wanted.iter().find(|name| !known.contains(name)) {
                    Some(name) => Err(format!("{name} is none of {}", known.join(", ")).into()),
                    None => Ok(known.into_iter().filter(|name| wanted.contains(name)).collect()),
                }
            };
            match option {
                "--repeats" => options.repeats = value.parse::<usize>()?.max(1),
                "--latency-ms" => options.latency_ms = value.parse::<f64>()?.max(0.0),
                "--only" => options.only = list(options.only)?,
                "--peers" => options.peers = list(options.peers)?,
                "--python" => options.python = value.into(),
                "--worker" => options.worker = value.into(),
                "--data" => options.folder = value.into(),
                "--out" => options.out = value.into(),
                _ => return Err(format!("{option} is not known").into()),
            }
        }
        Ok(options)
    }
}

/// Runs the benchmark as the options say.
pub fn main(arguments: &[&str]) -> Result {
    let options = Options::parse(arguments)?;
    fs::create_dir_all(&options.folder)?;
    let server = SeaweedFs::start()?;
    server.create_bucket(BUCKET)?;
    let latency = Duration::from_secs_f64(options.latency_ms / 1000.0);
    let proxy = Proxy::start(server.addr(), ProxyOptions { latency, ..ProxyOptions::default() })?;
    let mut bench = Bench::new(options, server, proxy)?;
    bench.verify()?;
    let options = &bench.options;
    let mut record =
        Record::new(options.scale.name, options.repeats, options.latency_ms, bench.ratio())?;
    for repeat in 0..options.repeats {
        println!("repeat {} of {}", repeat + 1, options.repeats);
        let start = Instant::now();
        for workload in WORKLOADS.iter().filter(|w| options.only.iter().any(|o| o == w.name)) {
            for subject in turn(options, workload, repeat) {
                let run = bench.run(subject, workload, repeat)?;
                println!("{run}");
                record.runs.push(run);
            }
        }
        println!("repeat {} took {:.0} s", repeat + 1, start.elapsed().as_secs_f64());
        // Kept after each repeat, so that a long run that is stopped is not lost.
        record.save(&options.folder.join("remote-runs.json"))?;
    }
    report::write(&record, &options.out)?;
    println!("\nthe report is in {}", options.out.display());
    Ok(())
}

/// Who runs in a repeat: another one first each time.
fn turn<'a>(options: &'a Options, workload: &Workload, repeat: usize) -> Vec<&'a str> {
    let mut subjects: Vec<&str> = options.peers.iter().map(String::as_str).collect();
    subjects.retain(|&subject| subject != "floor" || workload.name == "R1");
    let by = repeat % subjects.len().max(1);
    subjects.rotate_left(by);
    subjects
}

/// The server with its data.
struct Bench {
    options: Options,
    server: SeaweedFs,
    proxy: Proxy,
    volume: PathBuf,
    elements: Vec<u8>,
    objects: Vec<(String, u64)>,
}

impl Bench {
    /// Makes the volume, unless an earlier run did, and writes it to the server.
    fn new(options: Options, server: SeaweedFs, proxy: Proxy) -> Result<Self> {
        let shape = options.scale.shape;
        let [a, b, c] = shape;
        let volume = options.folder.join(format!("image-{a}x{b}x{c}.raw"));
        if !volume.exists() {
            // Under another name until it is complete.
            let unfinished = volume.with_extension("unfinished");
            volume::image(&unfinished, shape)?;
            fs::rename(unfinished, &volume)?;
        }
        let elements = fs::read(&volume)?;
        let mut bench = Self { options, server, proxy, volume, elements, objects: Vec::new() };
        let job = bench.job("shardine", Action::Write, ARRAY, Vec::new());
        let direct = Job { server: bench.server.addr().to_string(), ..job };
        let array = shardine::create(&direct)?;
        shardine::write(&array, &Block::whole(shape), &bench.elements)?;
        let small = Block::whole([CHUNK; 3]);
        let warm_up = shardine::create(&Job {
            array: WARM_UP.to_owned(),
            metadata: metadata(small.shape, CHUNK),
            ..direct.clone()
        })?;
        shardine::write(&warm_up, &small, &bench.elements[..small.bytes()])?;
        bench.objects = Floor::new(&direct)?.objects(&format!("{ARRAY}/c"))?;
        println!("wrote {} shards; ratio {:.2}", bench.objects.len(), bench.ratio());
        Ok(bench)
    }

    fn ratio(&self) -> f64 {
        let stored: u64 = self.objects.iter().map(|&(_, length)| length).sum();
        self.elements.len() as f64 / stored as f64
    }

    fn job(&self, subject: &str, action: Action, array: &str, blocks: Vec<Block>) -> Job {
        let shape = self.options.scale.shape;
        Job {
            subject: subject.to_owned(),
            action,
            server: self.proxy.addr().to_string(),
            bucket: BUCKET.to_owned(),
            region: SeaweedFs::REGION.to_owned(),
            access_key: SeaweedFs::ACCESS_KEY.to_owned(),
            secret_key: SeaweedFs::SECRET_KEY.to_owned(),
            array: array.to_owned(),
            warm_up: WARM_UP.to_owned(),
            volume: self.volume.clone(),
            metadata: metadata(shape, SHARD),
            shape,
            shard: [SHARD; 3],
            chunk: [CHUNK; 3],
            blocks,
            objects: self.objects.clone(),
        }
    }

    /// Lets everyone read all of the array before anything is timed.
    fn verify(&mut self) -> Result {
        for subject in self.options.peers.iter().filter(|&subject| subject != "floor") {
            let whole = Block::whole(self.options.scale.shape);
            let job = self.job(subject, Action::ReadEach, ARRAY, vec![whole]);
            let measured = self.measure(&job)?;
            self.check(&job, &measured)?;
        }
        println!("all of it read right by {}", self.options.peers.join(", "));
        Ok(())
    }

    fn run(&self, subject: &str, workload: &Workload, repeat: usize) -> Result<Run> {
        let blocks = self.options.scale.blocks(workload, repeat);
        let array = match workload.action {
            Action::Write => format!("written-{repeat}-{subject}.zarr"),
            _ => ARRAY.to_owned(),
        };
        let job = self.job(subject, workload.action, &array, blocks);
        let measured = self.measure(&job)?;
        // Taken before the check, which goes to the server directly anyway.
        let run = Run {
            workload: workload.name.to_owned(),
            subject: subject.to_owned(),
            repeat,
            requests: self.proxy.count() as u64,
            sent: self.proxy.bytes_sent(),
            received: self.proxy.bytes_received(),
            measured,
        };
        self.check(&job, &run.measured)?;
        Ok(run)
    }

    /// Runs a job in a process of its own.
    fn measure(&self, job: &Job) -> Result<Measured> {
        let file = self.options.folder.join("remote-job.json");
        fs::write(&file, serde_json::to_vec(job)?)?;
        let mut command = if matches!(job.subject.as_str(), "floor" | "shardine") {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("worker");
            command
        } else {
            let mut command = Command::new(&self.options.python);
            command.arg(&self.options.worker);
            command
        };
        command
            .arg(&file)
            .env("AWS_ACCESS_KEY_ID", &job.access_key)
            .env("AWS_SECRET_ACCESS_KEY", &job.secret_key)
            .env("AWS_REGION", &job.region)
            .env("AWS_DEFAULT_REGION", &job.region)
            // Nobody is to look for other credentials in the network.
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .stdin(Stdio::null())
            .stderr(Stdio::inherit());
        let output = command.output()?;
        if !output.status.success() {
            let Job { subject, action, array, .. } = job;
            return Err(
                format!("{subject} failed at {action:?} of {array}; the run is void").into()
            );
        }
        let line = output.stdout.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty());
        Ok(serde_json::from_slice(line.ok_or("a worker said nothing")?)?)
    }

    /// A wrong result ends the whole benchmark: a time for it would mean nothing.
    fn check(&self, job: &Job, measured: &Measured) -> Result {
        let Job { subject, action, array, .. } = job;
        if subject == "floor" {
            return Ok(());
        }
        let mut wanted = crc32fast::Hasher::new();
        for block in &job.blocks {
            block.add_to(&mut wanted, &self.elements, job.shape);
        }
        let got = if *action == Action::Write {
            let direct = Job { server: self.server.addr().to_string(), ..job.clone() };
            let whole = Block::whole(job.shape);
            Some(crc32fast::hash(&shardine::read(&shardine::open(&direct, array)?, &whole)?))
        } else {
            measured.crc
        };
        if got == Some(wanted.finalize()) {
            return Ok(());
        }
        Err(format!("{subject}: wrong elements after {action:?} of {array}").into())
    }
}
