//! Writers in several processes and threads on one shard, each with its own chunks, and concurrent
//! readers.

use std::fmt;
use std::fs;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use shardine::{Array, ArrayNode, Strategy, WriteOptions};

use crate::Result;
use crate::options::Options;
use crate::plan::{Random, value};
use crate::process::{self, wait_until, words};
use crate::setup::{self, Setup, Shape, told};
use crate::work::Log;

/// The maximum duration of a duel.
const LIMIT: Duration = Duration::from_secs(300);

/// Threads of a writer. Each has a block of chunks.
const THREADS: usize = 2;

/// Chunks of a block: one update writes all of them, so one read must find them in the same state.
const BLOCK: usize = 3;

/// A race for one shard.
#[derive(Debug, Clone)]
pub struct Duel {
    /// The strategy of each writing process; `None` alternates between them.
    writers: Vec<Option<Strategy>>,
    index_at_end: bool,
    zstd: bool,
    updates: usize,
    seed: u64,
    /// Whether blocks are emptied repeatedly, so that the shard vanishes now and then.
    vanish: bool,
    /// How many times a writer is killed and replaced by another.
    kills: usize,
}

impl fmt::Display for Duel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writers: Vec<String> = self.writers.iter().map(|w| strategy_word(*w)).collect();
        let index = if self.index_at_end { "end" } else { "start" };
        let codec = if self.zstd { "zstd" } else { "none" };
        let Self { updates, seed, kills, .. } = self;
        write!(
            f,
            "duel --updates {updates} --writers {} --index {index} --codec {codec} --seed {seed}",
            writers.join(",")
        )?;
        write!(f, " --kills {kills}{}", if self.vanish { " --vanish" } else { "" })
    }
}

fn strategy_word(strategy: Option<Strategy>) -> String {
    strategy.map_or_else(|| "mixed".to_owned(), |strategy| strategy.to_string())
}

fn parse_strategy(word: &str) -> Result<Option<Strategy>> {
    if word == "mixed" { Ok(None) } else { word.parse().map(Some) }
}

pub fn main(options: &Options) -> Result {
    let writers: String = options.get("writers")?.unwrap_or_else(|| "mixed,mixed".to_owned());
    let duel = Duel {
        writers: writers.split(',').map(parse_strategy).collect::<Result<_>>()?,
        index_at_end: options.get("index")?.is_none_or(|word: String| word == "end"),
        zstd: options.get("codec")?.is_some_and(|word: String| word == "zstd"),
        updates: options.get("updates")?.unwrap_or(1000),
        seed: options.get("seed")?.unwrap_or(1),
        vanish: options.is_set("vanish"),
        kills: options.get("kills")?.unwrap_or(0),
    };
    let started = Instant::now();
    duel.run()?;
    println!("{duel}: {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

impl Duel {
    /// One for each pair of strategies, cycling through the other choices.
    pub fn all(seed: u64, updates: usize) -> Vec<Self> {
        let kinds =
            [Some(Strategy::Rewrite), Some(Strategy::InPlace), Some(Strategy::Append), None];
        let mut all = Vec::new();
        for (i, one) in kinds.into_iter().enumerate() {
            for other in &kinds[i..] {
                let n = all.len() + seed as usize;
                let mut writers = vec![one, *other];
                if n % 3 == 2 {
                    writers.push(None);
                }
                all.push(Self {
                    writers,
                    index_at_end: n.is_multiple_of(2),
                    zstd: n % 4 >= 2,
                    updates,
                    seed: seed.wrapping_add(n as u64),
                    vanish: n % 3 != 1,
                    kills: if n % 5 < 3 { updates / 20 } else { 0 },
                });
            }
        }
        all
    }

    fn shape(&self) -> Shape {
        Shape { chunk: 64, chunks: self.writers.len() * THREADS * BLOCK, shards: 1 }
    }

    pub fn run(&self) -> Result {
        let folder = process::folder(self.seed % 8 == 7)?;
        self.run_in(folder.path()).map_err(|why| {
            let kept = folder.keep();
            format!("{why}\n  with: {self}\n  what is left: {}", kept.display())
        })
    }

    fn run_in(&self, folder: &Path) -> Result {
        let shape = self.shape();
        let strategy = Strategy::Auto;
        let setup = Setup { strategy, index_at_end: self.index_at_end, zstd: self.zstd };
        setup::create(&folder.join("array"), &shape, &setup, shape.len())?;
        let mut children = Vec::new();
        for number in 0..self.writers.len() {
            children.push(self.start_writer(folder, number)?);
        }
        let reader = start(folder, &format!("duel-reader --blocks {}", self.blocks()))?;
        let mut random = Random::new(self.seed);
        let mut outcome = Ok(());
        for _ in 0..self.kills {
            thread::sleep(Duration::from_micros(500 + random.below(30_000) as u64));
            let number = random.below(children.len());
            let _ = children[number].kill();
            outcome = outcome.and(end(&mut children[number], true));
            children[number] = self.start_writer(folder, number)?;
        }
        for child in &mut children {
            outcome = outcome.and(end(child, false));
        }
        fs::write(folder.join("stop"), b"").map_err(|e| e.to_string())?;
        let mut reader = reader;
        outcome.and(end(&mut reader, false))?;
        let array = setup::open(&folder.join("array"), 2)?;
        let found = setup::read(&array, 0, shape.len()).map_err(|e| told(&e))?;
        for block in 0..self.blocks() {
            let last = sequence(self.updates, self.vanish);
            if found[range(block)] != expected(last, block) {
                let holds = look(&found, block).map_or_else(|e| e, |n| format!("update {n}"));
                return Err(format!("an update was lost: in the end block {block} holds {holds}"));
            }
        }
        match process::journal(&folder.join("array")) {
            Some(path) => Err(format!("{} is left in the end", path.display())),
            None => Ok(()),
        }
    }

    fn blocks(&self) -> usize {
        self.writers.len() * THREADS
    }

    fn start_writer(&self, folder: &Path, number: usize) -> Result<Child> {
        let strategy = strategy_word(self.writers[number]);
        let vanish = if self.vanish { " --vanish" } else { "" };
        let (updates, blocks) = (self.updates, self.blocks());
        start(
            folder,
            &format!(
                "duel-writer --number {number} --strategy {strategy} --updates {updates} --blocks {blocks}{vanish}"
            ),
        )
    }
}

fn start(folder: &Path, line: &str) -> Result<Child> {
    let mut arguments = words(line);
    arguments.extend(["--folder".to_owned(), folder.display().to_string()]);
    let mut command = process::this(&arguments)?;
    command.stderr(Stdio::piped()).spawn().map_err(|e| format!("cannot start a child: {e}"))
}

/// Waits for a child; it must have succeeded unless it was killed before it could.
fn end(child: &mut Child, killed: bool) -> Result {
    let mut status = None;
    wait_until(LIMIT, || {
        status = child.try_wait().ok().flatten();
        status.is_some()
    });
    let Some(status) = status else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("a child did not end within {LIMIT:?}"));
    };
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut said);
    }
    if status.success() || (killed && status.code().is_none()) {
        return Ok(());
    }
    Err(format!("{} ({status})", said.trim()))
}

/// What update number `n` writes.
fn sequence(n: usize, vanish: bool) -> u32 {
    if vanish && n % 4 < 2 { 0 } else { n as u32 }
}

fn range(block: usize) -> Range<usize> {
    let len = BLOCK * 64;
    block * len..(block + 1) * len
}

fn expected(sequence: u32, block: usize) -> Vec<u32> {
    range(block).map(|at| value(sequence, at)).collect()
}

/// The update that all of a block holds.
fn look(found: &[u32], block: usize) -> Result<u32> {
    let held = found[range(block)][63];
    if found[range(block)] == expected(held, block) {
        return Ok(held);
    }
    let each: Vec<u32> = found[range(block)].chunks(64).map(|chunk| chunk[63]).collect();
    Err(format!("a mixture: its chunks seem to be of the updates {each:?}"))
}

/// A reader, and what it saw last.
struct Watch {
    seen: Vec<u32>,
}

impl Watch {
    fn new(blocks: usize) -> Self {
        Self { seen: vec![0; blocks] }
    }

    /// Reads the whole shard: it must be in a state that existed, and none older than the last one
    /// seen.
    fn whole(&mut self, array: &Array) -> Result {
        let len = range(self.seen.len() - 1).end;
        let found = setup::read(array, 0, len).map_err(|e| format!("a reader: {}", told(&e)))?;
        for block in 0..self.seen.len() {
            let held = look(&found, block).map_err(|e| format!("a reader, block {block}: {e}"))?;
            self.note(block, held)?;
        }
        Ok(())
    }

    /// Reads one chunk.
    fn chunk(&mut self, array: &Array, chunk: usize) -> Result {
        let start = chunk * 64;
        let found = setup::read(array, start, 64)
            .map_err(|e| format!("a reader of a chunk: {}", told(&e)))?;
        let held = found[63];
        if !found.iter().enumerate().all(|(i, &n)| n == value(held, start + i)) {
            return Err(format!("a reader: chunk {chunk} is a mixture"));
        }
        self.note(chunk / BLOCK, held)
    }

    fn note(&mut self, block: usize, held: u32) -> Result {
        let seen = self.seen[block];
        if held != 0 && held < seen {
            return Err(format!("a reader: block {block} went back from {seen} to {held}"));
        }
        self.seen[block] = seen.max(held);
        Ok(())
    }
}

/// A reader in a process of its own, which runs until there is a file `stop`.
pub fn reader(options: &Options) -> Result {
    let folder = options.path("folder")?;
    let blocks: usize = options.need("blocks")?;
    let array = setup::open(&folder.join("array"), 2)?;
    let mut random = Random::new(1);
    // One after the other, so that what one saw holds for the next.
    let mut watch = Watch::new(blocks);
    while !folder.join("stop").exists() {
        watch.whole(&array)?;
        watch.chunk(&array, random.below(blocks * BLOCK))?;
        if random.below(10) == 0 {
            let array = setup::open(&folder.join("array"), 1)?;
            watch.whole(&array)?;
        }
    }
    Ok(())
}

/// A writer of some blocks, with a thread for each and one that reads.
pub fn writer(options: &Options) -> Result {
    let folder = options.path("folder")?;
    let number: usize = options.need("number")?;
    let blocks: usize = options.need("blocks")?;
    let writing = Writing {
        array: setup::open(&folder.join("array"), 2)?,
        folder,
        strategy: parse_strategy(&options.need::<String>("strategy")?)?,
        updates: options.need("updates")?,
        vanish: options.is_set("vanish"),
    };
    let writing = &writing;
    thread::scope(|scope| {
        let start = |i| scope.spawn(move || writing.block(number * THREADS + i, blocks));
        let running: Vec<_> = (0..THREADS).map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result>| {
            thread.join().unwrap_or_else(|_| Err("a writer panicked".to_owned()))
        };
        running.into_iter().map(join).fold(Ok(()), Result::and)
    })
}

struct Writing {
    array: ArrayNode,
    folder: PathBuf,
    strategy: Option<Strategy>,
    updates: usize,
    vanish: bool,
}

impl Writing {
    fn block(&self, block: usize, blocks: usize) -> Result {
        let log = self.folder.join(format!("log-{block}"));
        let begun = fs::read_to_string(&log).unwrap_or_default();
        let number = |word: &str| {
            let mut lines = begun.lines().rev().filter_map(|line| line.strip_prefix(word));
            lines.next().and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(0)
        };
        let (begun, returned) = (number("begin"), number("end"));
        let mut log = Log::open(log)?;
        self.check(block, &[sequence(returned, self.vanish), sequence(begun, self.vanish)])
            .map_err(|e| format!("after a kill between {returned} and {begun}: {e}"))?;
        let strategies = [Strategy::InPlace, Strategy::Rewrite, Strategy::Append, Strategy::Auto];
        let mut watch = Watch::new(blocks);
        // An update that was begun is repeated: it may not have taken place.
        for n in begun.max(1)..=self.updates {
            let sequence = sequence(n, self.vanish);
            let strategy = self.strategy.unwrap_or(strategies[(n + block) % strategies.len()]);
            let options = WriteOptions::new().strategy(strategy);
            log.line(&format!("begin {n}"))?;
            setup::write(&self.array, range(block).start, &expected(sequence, block), &options)
                .map_err(|e| format!("a writer ({strategy}): {}", told(&e)))?;
            log.line(&format!("end {n}"))?;
            self.check(block, &[sequence])
                .map_err(|e| format!("after update {n} ({strategy}) had returned: {e}"))?;
            if n % 4 == 0 {
                watch.whole(&self.array)?;
            }
        }
        Ok(())
    }

    /// Fails unless a block, which nobody else writes, holds one of these updates.
    fn check(&self, block: usize, updates: &[u32]) -> Result {
        let range = range(block);
        let found = setup::read(&self.array, range.start, range.len()).map_err(|e| told(&e))?;
        if updates.iter().any(|&update| found == expected(update, block)) {
            return Ok(());
        }
        let each: Vec<u32> = found.chunks(64).map(|chunk| chunk[63]).collect();
        Err(format!("block {block} holds {each:?}, not one of {updates:?}"))
    }
}
