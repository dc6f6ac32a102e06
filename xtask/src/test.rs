//! `cargo xtask test`: everything a change must pass, in the order that finds mistakes soonest.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::shell::{Attempt, Cmd, Failure, Result, root, target_dir};
use crate::{
    differential, docs, geometry_files, hygiene, ome_peers, planted_damage, precomputed_peers,
    python, repack_peers, servers, torture, usage, value, vectors_peers, venv, wkw_peers,
};

/// One thing that must hold.
struct Step {
    name: &'static str,
    about: &'static str,
    /// About how many seconds it takes on two cores when nothing is compiled or installed yet, not
    /// counting the steps before it.
    seconds: u32,
    /// Whether it needs what is installed in parallel with the first steps.
    installed: bool,
    /// Whether it may run in parallel with its neighbours: most comparisons with other
    /// implementations keep one core busy.
    beside: bool,
    run: fn() -> Result,
}

/// How many steps run in parallel.
const SIDE_BY_SIDE: usize = 2;

const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        about: "the code is formatted",
        seconds: 4,
        installed: false,
        beside: false,
        run: fmt,
    },
    Step {
        name: "hygiene",
        about: "nothing of one machine, nothing unfinished",
        seconds: 1,
        installed: false,
        beside: false,
        run: hygiene::run,
    },
    Step {
        name: "clippy",
        about: "no compiler or lint warnings",
        seconds: 204,
        installed: false,
        beside: false,
        run: clippy,
    },
    Step {
        name: "docs",
        about: "the documentation has no warnings, the public surface is the one that is listed",
        seconds: 34,
        installed: false,
        beside: false,
        run: docs::check,
    },
    Step {
        name: "build",
        about: "the programs and their tests build",
        seconds: 715,
        installed: false,
        beside: false,
        run: build,
    },
    Step {
        name: "servers",
        about: "the object storage servers are installed",
        seconds: 1,
        installed: true,
        beside: false,
        run: servers::ensure,
    },
    Step {
        name: "venv",
        about: "the Python implementations are installed",
        seconds: 1,
        installed: true,
        beside: false,
        run: peers,
    },
    Step {
        name: "zarrs-peer",
        about: "the driver of the zarrs crate builds",
        seconds: 103,
        installed: false,
        beside: false,
        run: differential::build_zarrs_peer,
    },
    Step {
        name: "test",
        about: "unit, property, integration and documentation tests, fuzz targets on their seeds",
        seconds: 508,
        installed: true,
        beside: true,
        run: test,
    },
    Step {
        name: "python",
        about: "the Python package: types, tests, programs, and the quick start where it is new",
        seconds: 400,
        installed: true,
        beside: true,
        run: python::run,
    },
    Step {
        name: "planted-damage",
        about: "verify finds damage in arrays of other implementations",
        seconds: 7,
        installed: true,
        beside: true,
        run: planted_damage::run,
    },
    Step {
        name: "differential",
        about: "random arrays read the same in every implementation",
        seconds: 21,
        installed: true,
        beside: true,
        run: || differential::Run::short().run(),
    },
    Step {
        name: "zarr-v2",
        about: "arrays of Zarr v2 read the same, also after migrate",
        seconds: 14,
        installed: true,
        beside: true,
        run: differential::zarr_v2,
    },
    Step {
        name: "zarr-v2-write",
        about: "other implementations read what is converted to Zarr v2",
        seconds: 26,
        installed: true,
        beside: true,
        run: differential::zarr_v2_write,
    },
    Step {
        name: "append-peers",
        about: "zarr-python reads each plane that was appended",
        seconds: 2,
        installed: true,
        beside: true,
        run: differential::append_peers,
    },
    Step {
        name: "pyramid-peers",
        about: "TensorStore makes the same levels from the same images, by every method",
        seconds: 10,
        installed: true,
        beside: true,
        run: differential::pyramid_peers,
    },
    Step {
        name: "struct-peers",
        about: "zarr-python and TensorStore read structured arrays in both spellings",
        seconds: 1,
        installed: true,
        beside: true,
        run: differential::struct_peers,
    },
    Step {
        name: "xarray-peers",
        about: "xarray sees what is appended, and masks the same values after migrate and convert",
        seconds: 2,
        installed: true,
        beside: true,
        run: differential::xarray_peers,
    },
    Step {
        name: "convert-peers",
        about: "numpy and zarr-python agree with what is converted",
        seconds: 5,
        installed: true,
        beside: true,
        run: differential::convert_peers,
    },
    Step {
        name: "convert-volume-peers",
        about: "TensorStore and zarr-python agree with volumes that are converted",
        seconds: 40,
        installed: true,
        beside: true,
        run: differential::convert_volume_peers,
    },
    Step {
        name: "repack-peers",
        about: "other implementations read what was repacked, of arrays that they have written",
        seconds: 11,
        installed: true,
        beside: true,
        run: repack_peers::run,
    },
    Step {
        name: "precomputed-peers",
        about: "other tools read precomputed volumes alike, and what they lose is found",
        seconds: 60,
        installed: true,
        beside: true,
        run: precomputed_peers::run,
    },
    Step {
        name: "wkw-peers",
        about: "what the wkw package writes is read alike",
        seconds: 7,
        installed: true,
        beside: true,
        run: wkw_peers::run,
    },
    Step {
        name: "geometry-files",
        about: "pyarrow, plyfile and trimesh agree with files of geometry, read and written",
        seconds: 1,
        installed: true,
        beside: true,
        run: geometry_files::run,
    },
    Step {
        name: "ome-suites",
        about: "verify judges OME-Zarr documents as the specification's suites and schemas do",
        seconds: 13,
        installed: true,
        beside: true,
        run: ome_peers::suites,
    },
    Step {
        name: "ome-peers",
        about: "OME-Zarr of other implementations is sound, and they accept what becomes of it",
        seconds: 100,
        installed: true,
        beside: true,
        run: ome_peers::hierarchies,
    },
    Step {
        name: "vectors-peers",
        about: "zarr-vectors and Shardine read, repack and check what the other has written",
        seconds: 32,
        installed: true,
        beside: true,
        run: vectors_peers::run,
    },
    Step {
        name: "torture",
        about: "killed and racing writers leave every shard old or new",
        seconds: 19,
        installed: true,
        beside: true,
        run: torture::short,
    },
    Step {
        name: "mix",
        about: "jobs in place beside readers, writers, verify, repair and copy",
        seconds: 60,
        installed: true,
        beside: true,
        run: torture::short_mix,
    },
];

pub fn main(args: &[String]) -> Result {
    let mut only: Vec<String> = Vec::new();
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--list" => {
                println!("{:20} {:>5}  (seconds on two cores with nothing compiled yet)", "", "");
                for step in STEPS {
                    println!("{:20} {:>5}  {}", step.name, step.seconds, step.about);
                }
                let all: u32 = STEPS.iter().map(|step| step.seconds).sum();
                println!("{:20} {all:>5}", "in all");
                return Ok(());
            }
            "--only" => only.push(value(option, &mut rest)?),
            // What `side_by_side` starts: nothing but the step itself.
            "--step" => {
                let name: String = value(option, &mut rest)?;
                let step = STEPS.iter().find(|step| step.name == name);
                return (step.ok_or_else(|| usage(format!("there is no step \"{name}\"")))?.run)();
            }
            _ => return Err(usage(format!("test does not take \"{option}\""))),
        }
    }
    if let Some(name) = only.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        return Err(usage(format!("there is no step \"{name}\"; see `cargo xtask test --list`")));
    }
    let chosen: Vec<&Step> = STEPS
        .iter()
        .filter(|step| only.is_empty() || only.iter().any(|name| name == step.name))
        .collect();
    run(&chosen)
}

/// Runs the steps until one fails. The last line is the count, for people and for
/// scripts.
///
/// What is installed rather than compiled is installed in parallel with the first steps: installing
/// waits for the network, while they wait for the compiler.
fn run(steps: &[&Step]) -> Result {
    let start = Instant::now();
    let mut took: Vec<(&str, f64)> = Vec::new();
    let mut failures: Vec<(&str, Failure)> = Vec::new();
    let mut installing = match steps {
        [first, .., _] if !first.installed && steps.iter().any(|step| step.installed) => {
            // If something could not be installed, the step that needs it tries again, and reports why
            // it failed.
            Some(Background::start(&["install"], target_dir().join("install.log"))?)
        }
        _ => None,
    };
    let mut rest = steps;
    while failures.is_empty() && !rest.is_empty() {
        let together = rest.iter().take_while(|step| step.beside).count();
        let now = &rest[..together.max(1)];
        rest = &rest[now.len()..];
        if now.iter().any(|step| step.installed)
            && let Some(installing) = installing.take()
        {
            installing.wait();
        }
        match now {
            [step] => {
                println!("\n=== {}/{} {}: {}", took.len() + 1, steps.len(), step.name, step.about);
                let start = Instant::now();
                let result = (step.run)();
                ended(step, start, result.err(), &mut took, &mut failures);
            }
            _ => side_by_side(now, steps.len(), &mut took, &mut failures)?,
        }
    }
    let (passed, failed) = (took.len(), failures.len());
    println!();
    for (name, seconds) in &took {
        println!("{name:20} {seconds:>6.1} s");
    }
    for (name, error) in &failures {
        println!("{name}: {error}");
        println!("this step alone: cargo xtask test --only {name}");
    }
    let is_over = |step: &&&Step| {
        let mut names =
            took.iter().map(|(name, _)| name).chain(failures.iter().map(|(name, _)| name));
        names.any(|name| *name == step.name)
    };
    for step in steps.iter().filter(|step| !is_over(step)) {
        println!("not run: {}", step.name);
    }
    println!("{:.0} s in all", start.elapsed().as_secs_f64());
    println!("{passed} passed, {failed} failed");
    if failures.is_empty() { Ok(()) } else { Err(Failure::already_told()) }
}

/// Reports how a step ended.
fn ended<'a>(
    step: &Step,
    start: Instant,
    error: Option<Failure>,
    took: &mut Vec<(&'a str, f64)>,
    failures: &mut Vec<(&'a str, Failure)>,
) {
    let seconds = start.elapsed().as_secs_f64();
    match error {
        None => {
            println!("--- {}: ok, {seconds:.1} s", step.name);
            took.push((step.name, seconds));
        }
        Some(error) => {
            println!("--- {}: FAILED after {seconds:.1} s", step.name);
            failures.push((step.name, error));
        }
    }
}

/// Runs steps two at a time, each in a process of its own whose output is shown when it ends.
/// After a failure no further step begins.
fn side_by_side<'a>(
    steps: &[&'a Step],
    of: usize,
    took: &mut Vec<(&'a str, f64)>,
    failures: &mut Vec<(&'a str, Failure)>,
) -> Result {
    let mut waiting = steps.iter();
    let mut running: Vec<(&Step, Instant, Background)> = Vec::new();
    loop {
        while running.len() < SIDE_BY_SIDE
            && failures.is_empty()
            && let Some(step) = waiting.next()
        {
            println!("\n... {} begins: {}", step.name, step.about);
            let log = target_dir().join(format!("test-{}.log", step.name));
            let started = Background::start(&["test", "--step", step.name], log)?;
            running.push((step, Instant::now(), started));
        }
        if running.is_empty() {
            return Ok(());
        }
        let mut at = 0;
        while let Some((step, _, process)) = running.get_mut(at) {
            let Some(status) = process.child.try_wait().attempt(step.name)? else {
                at += 1;
                continue;
            };
            let (step, start, process) = running.remove(at);
            println!("\n=== {}/{of} {}: {}", took.len() + 1, step.name, step.about);
            process.show();
            let error = (!status.success()).then(|| Failure::new(format!("failed ({status})")));
            ended(step, start, error, took, failures);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Another process of this program, with its output in a file.
struct Background {
    child: Child,
    log: PathBuf,
}

impl Background {
    fn start(args: &[&str], log: PathBuf) -> Result<Self> {
        fs::create_dir_all(target_dir()).attempt(target_dir().display())?;
        let file = File::create(&log).attempt(log.display())?;
        let errors = file.try_clone().attempt(log.display())?;
        let this = std::env::current_exe().attempt("cannot tell where xtask itself is")?;
        let mut command = Cmd::new(this).args(args).command();
        // The environment tells it where the root is.
        command.env("CARGO_MANIFEST_DIR", root().join("xtask"));
        let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
        Ok(Self { child: child.attempt("cannot start another xtask")?, log })
    }

    /// Waits until it has ended, and shows its output.
    fn wait(mut self) {
        let _ = self.child.wait();
        self.show();
    }

    fn show(&self) {
        let text = fs::read(&self.log).unwrap_or_default();
        print!("{}", String::from_utf8_lossy(&text));
    }
}

impl Drop for Background {
    /// A run that fails leaves no process behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Installs everything that is not compiled: `cargo xtask install`.
pub fn install() -> Result {
    servers::ensure()?;
    venv::ensure()?;
    venv::ensure_precomputed()?;
    venv::ensure_vectors()?;
    venv::ensure_geometry()?;
    venv::ensure_python()?;
    ome_peers::ensure()?;
    repack_peers::ensure_zarrita()
}

fn fmt() -> Result {
    component("fmt", "rustfmt")?;
    Cmd::cargo("fmt --all --check").run()?;
    for manifest in other_workspaces()? {
        Cmd::cargo("fmt --check --manifest-path").arg(manifest).run()?;
    }
    Ok(())
}

/// The manifests that `--all` and `--workspace` do not cover.
fn other_workspaces() -> Result<Vec<PathBuf>> {
    let mut manifests = vec![root().join("fuzz/Cargo.toml")];
    let peers = root().join("peers");
    for entry in fs::read_dir(&peers).attempt(peers.display())? {
        let manifest = entry.attempt(peers.display())?.path().join("Cargo.toml");
        if manifest.exists() {
            manifests.push(manifest);
        }
    }
    manifests.sort();
    Ok(manifests)
}

fn clippy() -> Result {
    component("clippy", "clippy")?;
    Cmd::cargo("clippy --workspace --all-targets --features shardine/ndarray -- -D warnings").run()
}

/// Fails with what to install if a component of the Rust toolchain is missing.
fn component(subcommand: &str, name: &str) -> Result {
    if Cmd::new("cargo").arg(subcommand).arg("--version").succeeds() {
        return Ok(());
    }
    Err(Failure::new(format!("cargo {subcommand} is missing:\n  rustup component add {name}")))
}

/// What is built and tested. The same packages and features everywhere: with others, cargo would
/// compile most crates once more.
const TEST: &str = "test --workspace --features shardine/ndarray";

/// Builds all tests, and with them the programs that the other steps run.
pub fn build() -> Result {
    Cmd::cargo(TEST).arg("--no-run").run()
}

/// Builds a program that only tests need, in the same way as everything else.
pub fn build_example(name: &str) -> Result {
    Cmd::cargo("build --workspace --features shardine/ndarray --example").arg(name).run()
}

fn test() -> Result {
    Cmd::cargo(TEST).run()
}

fn peers() -> Result {
    venv::ensure().map(|_| ())
}
