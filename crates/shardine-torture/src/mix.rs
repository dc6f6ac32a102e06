//! Everything concurrently: readers, writers, appenders, `verify`, `repair` and `copy` next to a
//! loop of jobs in place.
//!
//! All elements of a plane are one number, which only grows. For each plane the parent knows the
//! last number whose write has returned, and the last whose write was begun: whatever is read in
//! between must lie between them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use shardine::precomputed::Volume;
use shardine::{Array, ArrayNode, ElementsRef, Engine, Error, Location, Region, WriteOptions};

use crate::Result;
use crate::options::Options;
use crate::process;

const SCRIPT: &str = include_str!("../../../peers/mix_reader.py");

/// Planes of an array, and elements of a plane.
const PLANES: usize = 8;
const PLANE: usize = 32 * 32;

/// Planes of the array that grows, and of one run of `append`.
const MOST_APPENDED: u32 = 240;
const APPENDED: u32 = 6;

/// Two kinds of arrays of the same shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Zarr,
    Volume,
}

/// An array, and what is known about it.
struct Scene {
    kind: Kind,
    folder: PathBuf,
    begun: Vec<AtomicU32>,
    written: Vec<AtomicU32>,
}

/// What all roles share.
struct Mix {
    shardine: PathBuf,
    root: PathBuf,
    stop: AtomicBool,
    counts: Mutex<BTreeMap<String, u64>>,
    violations: Mutex<Vec<String>>,
}

impl Mix {
    fn count(&self, what: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(what.to_owned()).or_default() += 1;
    }

    fn violation(&self, what: String) {
        self.count("VIOLATIONS");
        let mut violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        if violations.len() < 20 {
            violations.push(what);
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Runs the command line tool.
    fn run(&self, words: &[&str], input: &[u8]) -> Result<Output> {
        let mut command = Command::new(&self.shardine);
        command.args(words).args(["--threads", "1"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("{words:?}: {e}"))?;
        let stdin = child.stdin.take();
        let output = thread::scope(|scope| {
            scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
            child.wait_with_output()
        });
        output.map_err(|e| format!("{words:?}: {e}"))
    }

    /// The same, but exit status 2 with one of these reasons is accepted too and returns `None`.
    fn run_or_refused(
        &self,
        role: &str,
        words: &[&str],
        reasons: &[&str],
    ) -> Result<Option<Output>> {
        let output = self.run(words, &[])?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            self.count(&format!("{role}: done"));
            return Ok(Some(output));
        }
        if output.status.code() == Some(2) && reasons.iter().any(|reason| said.contains(reason)) {
            self.count(&format!("{role}: refused"));
            return Ok(None);
        }
        let heard = String::from_utf8_lossy(&output.stdout);
        self.violation(format!("{words:?}: {:?}\n{said}{heard}", output.status.code()));
        Ok(None)
    }
}

impl Scene {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Zarr => "array",
            Kind::Volume => "volume",
        }
    }

    fn url(&self) -> String {
        self.folder.display().to_string()
    }

    /// The region of a plane.
    fn region(&self, plane: usize) -> String {
        match self.kind {
            Kind::Zarr => format!("{plane}"),
            Kind::Volume => format!(":,:,{plane}"),
        }
    }

    fn make(&self, mix: &Mix) -> Result {
        let url = self.url();
        let (shape, rest): (String, &[&str]) = match self.kind {
            Kind::Zarr => {
                let rest = &["--chunk", "2,8,8", "--shard", "8,16,16", "--index", "start"];
                (format!("{PLANES},32,32"), rest)
            }
            Kind::Volume => {
                let rest = &["--to", "precomputed", "--chunk", "8,8,2", "--resolution", "8,8,8"];
                (format!("32,32,{PLANES}"), rest)
            }
        };
        let mut words = vec!["create", &url, "--dtype", "uint32", "--shape", &shape];
        words.extend(rest);
        let made = mix.run(&words, &[])?;
        if !made.status.success() {
            return Err(format!("{words:?}: {}", String::from_utf8_lossy(&made.stderr)));
        }
        Ok(())
    }

    fn open(&self) -> std::result::Result<Array, Error> {
        let location = Location::parse(&self.url())?;
        let engine = Engine::shared()?;
        match self.kind {
            Kind::Zarr => ArrayNode::open(&engine, &location).map(ArrayNode::into_array),
            Kind::Volume => Volume::open(&engine, &location)?.array(0),
        }
    }

    fn last_written(&self) -> Vec<u32> {
        self.written.iter().map(|n| n.load(Ordering::SeqCst)).collect()
    }

    /// What is wrong with the elements of a plane that were read after `written`.
    fn wrong(&self, plane: usize, written: &[u32], elements: &[u8]) -> Option<String> {
        let begun = self.begun[plane].load(Ordering::SeqCst);
        let range = written[plane]..=begun;
        let (elements, rest) = elements.as_chunks::<4>();
        if elements.len() != PLANE || !rest.is_empty() {
            return Some(format!("{} elements in a plane", elements.len()));
        }
        let found = elements.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let wrong: Vec<u32> = found.filter(|n| !range.contains(n)).collect();
        let first = wrong.first()?;
        Some(format!(
            "plane {plane}: {} elements, the first {first}, not in {range:?}",
            wrong.len()
        ))
    }

    /// What is wrong with a whole array.
    fn wrong_whole(&self, written: &[u32], elements: &[u8]) -> Option<String> {
        if elements.len() != PLANES * PLANE * 4 {
            return Some(format!("{} bytes in all", elements.len()));
        }
        let of_plane = |plane: usize| -> Vec<u8> {
            let (elements, _) = elements.as_chunks::<4>();
            let chosen = (0..PLANE).map(|i| match self.kind {
                Kind::Zarr => elements[plane * PLANE + i],
                Kind::Volume => elements[i * PLANES + plane],
            });
            chosen.flatten().collect()
        };
        (0..PLANES).find_map(|plane| self.wrong(plane, written, &of_plane(plane)))
    }

    /// Writes a plane with a function that returns whether the write is sure to have taken place.
    fn write(&self, plane: usize, write: impl FnOnce(&[u8]) -> Result<bool>) -> Result {
        let number = self.begun[plane].fetch_add(1, Ordering::SeqCst) + 1;
        let elements: Vec<u8> = number.to_le_bytes().repeat(PLANE);
        if write(&elements)? {
            self.written[plane].store(number, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// A random number generator that need not be good.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// Jobs that others may delay or undo.
const REFUSED_JOB: &[&str] =
    &["in use by another program", "was changed while", "is running", "no Zarr array or group"];

fn jobs(mix: &Mix, scene: &Scene, seed: u64) -> Result {
    let mut seed = seed;
    while mix.goes_on() {
        let url = scene.url();
        let words: Vec<&str> = match (scene.kind, random(&mut seed) % 5) {
            (Kind::Zarr, 0) => vec!["unshard", &url],
            (Kind::Zarr, 1) => vec!["shard", &url, "--chunks-per-shard", "2"],
            (Kind::Zarr, 2) => vec!["reshard", &url, "--shard", "8,32,32"],
            (Kind::Zarr, 3) => vec!["reshard", &url, "--chunk", "1,16,16", "--shard", "4,32,32"],
            (Kind::Zarr, _) => vec!["reshard", &url, "--chunk", "2,8,8", "--shard", "8,16,16"],
            (Kind::Volume, 0) => vec!["unshard", &url],
            (Kind::Volume, n) => {
                vec!["reshard", &url, "--shard", ["16,16,4", "32,32,4", "32,32,8"][n as usize % 3]]
            }
        };
        finish_job(mix, scene, &words)?;
        thread::sleep(Duration::from_millis(random(&mut seed) % 30));
    }
    Ok(())
}

/// A refused job is finished by the same command.
fn finish_job(mix: &Mix, scene: &Scene, words: &[&str]) -> Result {
    let role = format!("{}: job", scene.name());
    while mix.run_or_refused(&role, words, REFUSED_JOB)?.is_none() && mix.goes_on() {}
    Ok(())
}

fn cli_reader(mix: &Mix, scene: &Scene, seed: u64) -> Result {
    let mut seed = seed;
    while mix.goes_on() {
        let written = scene.last_written();
        let plane = random(&mut seed) as usize % PLANES;
        let (url, region) = (scene.url(), scene.region(plane));
        let role = format!("{}: read", scene.name());
        let read = ["read", &url, "--region", &region, "-o", "-"];
        if let Some(output) = mix.run_or_refused(&role, &read, &[])?
            && let Some(wrong) = scene.wrong(plane, &written, &output.stdout)
        {
            mix.violation(format!("{read:?}: {wrong}"));
        }
    }
    Ok(())
}

/// A handle that stays open the whole time.
fn handle_reader(mix: &Mix, scene: &Scene, seed: u64) -> Result {
    let array = scene.open().map_err(|e| e.to_string())?;
    let mut seed = seed;
    while mix.goes_on() {
        let written = scene.last_written();
        let plane = random(&mut seed) as usize % PLANES;
        let region: Region = scene.region(plane).parse().map_err(|e| format!("{e}"))?;
        match array.read_elements(&region) {
            Ok(elements) => {
                mix.count(&format!("{}: read by a handle", scene.name()));
                let elements = elements.into_fixed().unwrap_or_default();
                if let Some(wrong) = scene.wrong(plane, &written, &elements) {
                    mix.violation(format!("{}, a handle: {wrong}", scene.name()));
                }
            }
            Err(error) => mix.violation(format!("{}, a handle: {error}", scene.name())),
        }
        thread::sleep(Duration::from_millis(random(&mut seed) % 4));
    }
    Ok(())
}

/// Each writer has its own planes, so that its last write is known.
fn cli_writer(mix: &Mix, scene: &Scene, seed: u64) -> Result {
    let mut seed = seed;
    let file = mix.root.join(format!("{}-plane", scene.name()));
    while mix.goes_on() {
        let plane = random(&mut seed) as usize % (PLANES / 2);
        let (url, region) = (scene.url(), scene.region(plane));
        let input = file.display().to_string();
        let role = format!("{}: write", scene.name());
        scene.write(plane, |elements| {
            std::fs::write(&file, elements).map_err(|e| e.to_string())?;
            let words = ["write", &url, "--region", &region, &input];
            Ok(mix.run_or_refused(&role, &words, &[])?.is_some())
        })?;
    }
    Ok(())
}

fn handle_writer(mix: &Mix, scene: &Scene, seed: u64) -> Result {
    let array = scene.open().map_err(|e| e.to_string())?;
    let mut seed = seed;
    while mix.goes_on() {
        let plane = PLANES / 2 + random(&mut seed) as usize % (PLANES / 2);
        let region: Region = scene.region(plane).parse().map_err(|e| format!("{e}"))?;
        scene.write(plane, |elements| {
            match array.write_elements(&region, ElementsRef::Fixed(elements), &WriteOptions::new())
            {
                Ok(_) => {
                    mix.count(&format!("{}: written by a handle", scene.name()));
                    Ok(true)
                }
                Err(error) => {
                    mix.violation(format!("{}, a handle that writes: {error}", scene.name()));
                    Ok(false)
                }
            }
        })?;
        thread::sleep(Duration::from_millis(random(&mut seed) % 40));
    }
    Ok(())
}

fn verify(mix: &Mix, scene: &Scene) -> Result {
    while mix.goes_on() {
        let (url, role) = (scene.url(), format!("{}: verify", scene.name()));
        mix.run_or_refused(&role, &["verify", &url, "--decode"], &[])?;
    }
    Ok(())
}

fn repair(mix: &Mix, scene: &Scene) -> Result {
    while mix.goes_on() {
        let (url, role) = (scene.url(), format!("{}: repair", scene.name()));
        let aside = mix.root.join(format!("{}-aside", scene.name()));
        let aside = aside.display().to_string();
        mix.run_or_refused(&role, &["repair", &url, "--decode", "--set-aside", &aside], &[])?;
        if Path::new(&aside).symlink_metadata().is_ok() {
            mix.violation(format!("repair of {url} has set something aside"));
            std::fs::remove_dir_all(&aside).map_err(|e| e.to_string())?;
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn copy(mix: &Mix, scene: &Scene) -> Result {
    while mix.goes_on() {
        let written = scene.last_written();
        let target = mix.root.join(format!("{}-copy", scene.name()));
        let (url, to) = (scene.url(), target.display().to_string());
        let role = format!("{}: copy", scene.name());
        let words = ["copy", &url, &to, "--verify", "content"];
        let refused = ["changed during the copy", "kept changing", "gave up"];
        if mix.run_or_refused(&role, &words, &refused)?.is_some() {
            let read = mix.run(&["read", &to, "-o", "-"], &[])?;
            let said = String::from_utf8_lossy(&read.stderr);
            if !read.status.success() {
                mix.violation(format!("the copy of {url} cannot be read: {said}"));
            } else if let Some(wrong) = scene.wrong_whole(&written, &read.stdout) {
                mix.violation(format!("the copy of {url} is wrong: {wrong}"));
            }
        }
        match std::fs::remove_dir_all(&target) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.to_string()),
            _ => {}
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Appends planes to an array in which every plane contains its own number, with jobs running on
/// it.
fn append(mix: &Mix, scene: &Path, seed: u64) -> Result {
    let mut seed = seed;
    let url = scene.display().to_string();
    let create = ["create", &url, "--shape", "0,32,32", "--dtype", "uint32", "--chunk", "3,8,8"];
    let mut planes = MOST_APPENDED;
    while mix.goes_on() {
        if planes >= MOST_APPENDED {
            let mut words = create.to_vec();
            words.extend(["--shard", "12,32,32", "--index", "start", "--overwrite"]);
            if mix.run_or_refused("append: create", &words, REFUSED_JOB)?.is_none() {
                continue;
            }
            planes = 0;
        }
        let new = planes..planes + APPENDED;
        let input: Vec<u8> =
            new.clone().flat_map(|n| (n + 1).to_le_bytes().repeat(PLANE)).collect();
        let strategy = ["auto", "rewrite", "in-place"][random(&mut seed) as usize % 3];
        let every = ["1", "2", "4"][random(&mut seed) as usize % 3];
        let words = ["append", &url, "-", "--commit-every", every, "--strategy", strategy];
        let output = mix.run(&words, &input)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            mix.violation(format!("{words:?}: {said}"));
            return Ok(());
        }
        mix.count("append: done");
        planes = new.end;
        let output = mix.run(&["read", &url, "-o", "-"], &[])?;
        let (elements, _) = output.stdout.as_chunks::<4>();
        let found: Vec<u32> = elements.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let wrong = (0..planes).find(|&n| {
            let (from, to) = (n as usize * PLANE, (n as usize + 1) * PLANE);
            found.get(from..to).is_none_or(|plane| plane.iter().any(|&element| element != n + 1))
        });
        if let Some(wrong) = wrong.or((found.len() != planes as usize * PLANE).then_some(planes)) {
            let said = String::from_utf8_lossy(&output.stderr);
            mix.violation(format!("plane {wrong} of {planes} that were appended is lost: {said}"));
            return Ok(());
        }
    }
    Ok(())
}

fn append_jobs(mix: &Mix, scene: &Path, seed: u64) -> Result {
    let mut seed = seed;
    let url = scene.display().to_string();
    while mix.goes_on() {
        let words: Vec<&str> = match random(&mut seed) % 3 {
            0 => vec!["unshard", &url],
            1 => vec!["reshard", &url, "--shard", "6,32,32"],
            _ => vec!["reshard", &url, "--shard", "12,16,16"],
        };
        let reasons = [
            REFUSED_JOB,
            &["ppend", "was replaced", "with different options", "does not match what is there"],
        ];
        let done = mix.run_or_refused("append: job", &words, &reasons.concat())?;
        if done.is_none() {
            // The array being appended to may have been replaced by now.
            let mut words = words;
            words.push("--restart");
            mix.run_or_refused("append: job", &words, &reasons.concat())?;
        }
        thread::sleep(Duration::from_millis(random(&mut seed) % 60));
    }
    Ok(())
}

/// zarr-python takes no locks, so what it gets is only counted.
fn python(mix: &Mix, scene: &Scene, python: &Path) -> Result {
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("{}: {e}", python.display()))?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("no pipes to Python".to_owned());
    };
    let mut output = BufReader::new(output);
    while mix.goes_on() {
        let written = scene.last_written();
        let mut answer = String::new();
        writeln!(input, "{}", scene.url())
            .and_then(|()| output.read_line(&mut answer))
            .map_err(|e| format!("Python: {e}"))?;
        let answer: serde_json::Value =
            serde_json::from_str(&answer).map_err(|e| format!("Python said {answer:?}: {e}"))?;
        let Some(planes) = answer["planes"].as_array() else {
            mix.count("zarr-python: an error");
            continue;
        };
        let right = planes.iter().enumerate().all(|(plane, range)| {
            let ends = (range[0].as_u64(), range[1].as_u64());
            let begun = u64::from(scene.begun[plane].load(Ordering::SeqCst));
            matches!(ends, (Some(low), Some(high)) if low >= u64::from(written[plane]) && high <= begun)
        });
        mix.count(if right { "zarr-python: right" } else { "zarr-python: WRONG without an error" });
    }
    drop(input);
    let _ = child.wait();
    Ok(())
}

pub fn main(options: &Options) -> Result {
    let minutes: f64 = options.get("minutes")?.unwrap_or(1.0);
    let seed: u64 = options.get("seed")?.unwrap_or(1);
    let interpreter: Option<PathBuf> = options.get("python")?;
    let folder = process::folder(false)?;
    let root = folder.path().to_owned();
    let numbers = || (0..PLANES).map(|_| AtomicU32::new(0)).collect();
    let scene = |kind, name: &str| {
        Arc::new(Scene { kind, folder: root.join(name), begun: numbers(), written: numbers() })
    };
    let scenes = [scene(Kind::Zarr, "a.zarr"), scene(Kind::Volume, "v")];
    let growing = root.join("growing.zarr");
    let mix = Mix {
        shardine: options.path("shardine")?,
        root: root.clone(),
        stop: AtomicBool::new(false),
        counts: Mutex::default(),
        violations: Mutex::default(),
    };
    for scene in &scenes {
        scene.make(&mix)?;
    }
    let start = Instant::now();
    let limit = Duration::from_secs_f64(minutes * 60.0);
    type Role<'a> = Box<dyn FnOnce() -> Result + Send + 'a>;
    let mut roles: Vec<Role<'_>> = Vec::new();
    let mix = &mix;
    for (number, scene) in scenes.iter().enumerate() {
        let seed = seed.wrapping_mul(100).wrapping_add(number as u64 * 10);
        roles.push(Box::new(move || jobs(mix, scene, seed)));
        roles.push(Box::new(move || cli_reader(mix, scene, seed + 1)));
        roles.push(Box::new(move || handle_reader(mix, scene, seed + 2)));
        roles.push(Box::new(move || cli_writer(mix, scene, seed + 3)));
        roles.push(Box::new(move || handle_writer(mix, scene, seed + 4)));
        roles.push(Box::new(move || verify(mix, scene)));
        roles.push(Box::new(move || repair(mix, scene)));
        roles.push(Box::new(move || copy(mix, scene)));
    }
    let growing = &growing;
    roles.push(Box::new(move || append(mix, growing, seed + 5)));
    roles.push(Box::new(move || append_jobs(mix, growing, seed + 6)));
    if let Some(interpreter) = &interpreter {
        let scene = &scenes[0];
        roles.push(Box::new(move || python(mix, scene, interpreter)));
    }
    let failures: Vec<String> = thread::scope(|scope| {
        let run = |role: Role<'_>| {
            let done = role();
            // A role that cannot continue ends the others too.
            if done.is_err() {
                mix.stop.store(true, Ordering::Relaxed);
            }
            done.err()
        };
        let handles: Vec<_> =
            roles.into_iter().map(|role| scope.spawn(move || run(role))).collect();
        while mix.goes_on() && start.elapsed() < limit {
            thread::sleep(Duration::from_millis(50));
        }
        mix.stop.store(true, Ordering::Relaxed);
        let ended = |handle: thread::ScopedJoinHandle<'_, Option<String>>| match handle.join() {
            Ok(failure) => failure,
            Err(_) => Some("a role panicked".to_owned()),
        };
        handles.into_iter().filter_map(ended).collect()
    });
    for (what, count) in mix.counts.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("{count:>8}  {what}");
    }
    let mut violations = mix.violations.lock().unwrap_or_else(PoisonError::into_inner).clone();
    violations.extend(failures);
    if violations.is_empty() {
        println!("{:.0} s, 0 violations", start.elapsed().as_secs_f64());
        return Ok(());
    }
    let kept = folder.keep();
    Err(format!("{}\nwhat was left is in {}", violations.join("\n"), kept.display()))
}
