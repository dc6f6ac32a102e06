//! Where shardine stands: beside its goals, beside the best of the others, and with the other order
//! or with one thread.

use std::fmt::{Result, Write};

use super::{Cell, Pair, ratio, reached};
use crate::drive::plan::{VARIANTS, Variant, WORKLOADS, Workload};
use crate::drive::record::Record;
use crate::drive::{SUBJECTS, UPDATES_ONLY};

/// What a result in Fortran order, or from chunks that are stored so, may cost beside one without.
const FORTRAN_GOAL: f64 = 1.3;

/// How much quicker two threads are to be than one.
const THREADS_GOAL: f64 = 1.8;

/// A workload and an array.
type Row = (&'static str, &'static str);

/// Columns of a table of pairs: a title, what is looked at, and what it is compared with.
type Columns = [(&'static str, Row, Row)];

const FORTRAN: &Columns = &[
    ("result, zstd", ("W2F", "zstd"), ("W2b", "zstd")),
    ("result, lz4", ("W2F", "lz4"), ("W2b", "lz4")),
    ("result, uncompressed", ("W2F", "none"), ("W2b", "none")),
    ("chunks, zstd", ("W2f", "zstdF"), ("W2", "zstd")),
    ("chunks, uncompressed", ("W2f", "noneF"), ("W2", "none")),
];

const THREADS: &Columns = &[
    ("write zstd", ("W1t1", "zstd"), ("W1", "zstd")),
    ("write lz4", ("W1t1", "lz4"), ("W1", "lz4")),
    ("write uncompressed", ("W1t1", "none"), ("W1", "none")),
    ("read zstd", ("W2t1", "zstd"), ("W2", "zstd")),
    ("read lz4", ("W2t1", "lz4"), ("W2", "lz4")),
    ("read uncompressed", ("W2t1", "none"), ("W2", "none")),
];

/// Cost of Fortran order.
pub fn fortran(text: &mut String, record: &Record) -> Result {
    if !any(record, FORTRAN) {
        return Ok(());
    }
    writeln!(
        text,
        "## Fortran order

*Result*: W2F / W2b, the array read into the caller's buffer in Fortran order beside C order. *Chunks*: W2f / W2, chunks that are stored
through a transpose of all axes beside those that are not. CPU / wall; the goal is at most {} for both.

Shardine, tensorstore and zarr-python put elements into a buffer in Fortran order themselves. zarrs has no call for it: the worker reads in C
order into a buffer that it keeps and turns that over with two threads. zarr-python's zarrs pipeline refuses such a buffer: the worker copies
the result with numpy.
",
        ratio(FORTRAN_GOAL)
    )?;
    let show = |pair: &Pair| format!("{} / {}", ratio(pair.cpu.middle), ratio(pair.wall.middle));
    let judge = |pair: &Pair| {
        let word = |middle: f64| if reached(middle, FORTRAN_GOAL) { "yes" } else { "**no**" };
        format!("{} / {}", word(pair.cpu.middle), word(pair.wall.middle))
    };
    pairs(text, record, FORTRAN, show, judge)
}

/// What a second thread brings.
pub fn threads(text: &mut String, record: &Record) -> Result {
    if !any(record, THREADS) {
        return Ok(());
    }
    writeln!(
        text,
        "## Parallel efficiency

Wall time with one thread / wall time with two; the goal is {THREADS_GOAL:.1}. A process with one thread has one core. Writes wait for the disk, once per shard,
whatever the number of threads.
"
    )?;
    let show = |pair: &Pair| ratio(pair.wall.middle);
    let judge = |pair: &Pair| {
        // As shown in the goal: one digit less than the figures.
        let enough = (pair.wall.middle * 100.0).round() >= THREADS_GOAL * 100.0;
        (if enough { "yes" } else { "**no**" }).to_owned()
    };
    pairs(text, record, THREADS, show, judge)
}

fn any(record: &Record, columns: &Columns) -> bool {
    SUBJECTS.iter().any(|subject| {
        columns.iter().any(|(_, row, base)| Pair::of(record, *row, *base, subject).is_some())
    })
}

/// A line per implementation and a column per pair, and what shardine has reached.
fn pairs(
    text: &mut String,
    record: &Record,
    columns: &Columns,
    show: impl Fn(&Pair) -> String,
    judge: impl Fn(&Pair) -> String,
) -> Result {
    let titles: Vec<&str> = columns.iter().map(|(title, _, _)| *title).collect();
    writeln!(text, "| | {} |\n|---|{}", titles.join(" | "), "---|".repeat(titles.len()))?;
    let line = |subject: &str, word: &dyn Fn(&Pair) -> String| -> Option<String> {
        let of = |(_, row, base): &(_, Row, Row)| Pair::of(record, *row, *base, subject);
        let cells: Vec<Option<Pair>> = columns.iter().map(of).collect();
        let words = cells.iter().map(|cell| cell.as_ref().map_or("-".to_owned(), word));
        cells.iter().any(Option::is_some).then(|| words.collect::<Vec<_>>().join(" | "))
    };
    for subject in SUBJECTS {
        if let Some(cells) = line(subject, &show) {
            writeln!(text, "| {subject} | {cells} |")?;
        }
    }
    if let Some(cells) = line("shardine", &judge) {
        writeln!(text, "| *shardine's goal reached* | {cells} |")?;
    }
    writeln!(text)
}

/// How often shardine does what it is to do.
#[derive(Default)]
struct Tally {
    goals: [usize; 2],
    cpu: [usize; 2],
    wall: [usize; 2],
}

fn count(tally: &mut [usize; 2], yes: bool) {
    tally[0] += usize::from(yes);
    tally[1] += 1;
}

/// Each row beside its goal and beside whoever is best at it.
pub fn best(text: &mut String, record: &Record) -> Result {
    let mut lines = String::new();
    let mut tally = Tally::default();
    for workload in &WORKLOADS {
        for variant in VARIANTS.iter().filter(|v| workload.variants.contains(&v.name)) {
            let name = format!("**{}** {}", workload.name, variant.name);
            let others = |subject: &&str| !["floor", "shardine", UPDATES_ONLY].contains(subject);
            let peers: Vec<&str> = SUBJECTS.iter().filter(|s| others(s)).copied().collect();
            row(&mut lines, &mut tally, record, (workload, variant), &name, &peers)?;
            if record.of(workload.name, variant.name, UPDATES_ONLY).next().is_some() {
                let name = format!("{name}, beside {UPDATES_ONLY}");
                let mut apart = Tally::default();
                let alone = [UPDATES_ONLY];
                row(&mut lines, &mut apart, record, (workload, variant), &name, &alone)?;
            }
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    let Tally { goals, cpu, wall } = tally;
    writeln!(
        text,
        "## Shardine beside its goals and the best peer

Shardine's time over the floor's and over that of the best peer in the same repeat, medians. The best peer is chosen anew for each figure; above 1 it is ahead
of shardine (bold). zarrs-append, an experimental update of shards in place that promises nothing after a crash, stands apart.
Goals reached: {} of {}. Not behind any peer: {} of {} rows by CPU, {} of {} by wall.

| | / floor | goal | reached | wall / floor | CPU / best peer | | wall / best peer | |
|---|---|---|---|---|---|---|---|---|
{lines}",
        goals[0], goals[1], cpu[0], cpu[1], wall[0], wall[1]
    )
}

/// Shardine's time over that of a cell.
type Figure = fn(&Cell) -> Option<f64>;

fn row(
    lines: &mut String,
    tally: &mut Tally,
    record: &Record,
    (workload, variant): (&Workload, &Variant),
    name: &str,
    peers: &[&str],
) -> Result {
    let of = |subject: &str| Cell::of(record, workload.name, variant.name, subject);
    let Some(own) = of("shardine") else { return Ok(()) };
    let middle = own.ratio().middle;
    let goal = workload.goal(variant.name);
    let judged = goal.map_or("", |goal| {
        let yes = reached(middle, goal);
        count(&mut tally.goals, yes);
        if yes { "yes" } else { "**no**" }
    });
    write!(
        lines,
        "| {name} | {} | {} | {judged} | {} |",
        ratio(middle),
        goal.map_or(String::new(), ratio),
        ratio(own.wall_ratio.middle)
    )?;
    let figures: [(Figure, _); 2] =
        [(|cell| cell.shardine, &mut tally.cpu), (|cell| cell.shardine_wall, &mut tally.wall)];
    for (figure, tally) in figures {
        let found = peers.iter().filter_map(|peer| Some((figure(&of(peer)?)?, *peer)));
        match found.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
            Some((most, peer)) => {
                let ahead = reached(most, 1.0);
                count(tally, ahead);
                let mark = if ahead { "" } else { "**" };
                write!(lines, " {mark}{}{mark} | {peer} |", ratio(most))?;
            }
            None => write!(lines, " | |")?,
        }
    }
    writeln!(lines)
}
