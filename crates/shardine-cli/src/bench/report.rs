//! The figures, for people and for programs.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use shardine::ElementSize;
use shardine::store::Counts;

use super::measure::{Run, quantile};
use super::subject::Subject;
use super::workload::Workload;
use crate::ls::write_table;
use crate::units;

/// What was measured, and how.
#[derive(Debug)]
pub struct Report<'a> {
    pub name: &'a str,
    pub subject: &'a Subject,
    pub threads: usize,
    pub memory: u64,
    pub repeats: u64,
    pub workloads: &'a [Workload],
}

/// The runs of a workload, summarized.
struct Summary {
    seconds: f64,
    least: f64,
    most: f64,
    cpu: Option<f64>,
    p50: f64,
    p99: f64,
    peak_rss: Option<u64>,
    bytes: u64,
    counts: Counts,
}

impl Summary {
    fn of(workload: &Workload) -> Self {
        let runs = &workload.repeats;
        let mut seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
        let mut cpu: Vec<f64> = runs.iter().filter_map(|run| run.cpu_seconds).collect();
        let mut latencies: Vec<f64> =
            runs.iter().flat_map(|run| run.latencies.iter().copied()).collect();
        let at = |numbers: &mut [f64], share| quantile(numbers, share).unwrap_or(0.0);
        let last = runs.last().unwrap_or(&workload.first);
        Self {
            seconds: at(&mut seconds, 0.5),
            least: at(&mut seconds, 0.0),
            most: at(&mut seconds, 1.0),
            cpu: quantile(&mut cpu, 0.5),
            p50: at(&mut latencies, 0.5),
            p99: at(&mut latencies, 0.99),
            peak_rss: runs.iter().map(|run| run.peak_rss).max().flatten(),
            bytes: last.decoded_bytes,
            counts: last.counts,
        }
    }

    fn speed(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.bytes as f64 / self.seconds)
    }
}

impl Report<'_> {
    /// For programs. The names are stable.
    pub fn json(&self) -> Value {
        let array = &self.subject.array;
        let workloads: Vec<Value> = self.workloads.iter().map(describe).collect();
        let mut report = json!({
            "url": self.name,
            "shape": array.shape(),
            "dtype": array.data_type().to_json(),
            "chunk_shape": array.chunk_shape(),
            "shard_shape": array.shard_shape(),
            "array_bytes": self.array_bytes(),
            "objects_stored": self.subject.cells.len(),
            "objects_possible": self.subject.objects_possible(),
            "threads": self.threads,
            "memory": self.memory,
            "limit": self.subject.limit,
            "repeats": self.repeats,
            "workloads": workloads,
        });
        if let Some(level) = self.subject.level_number() {
            report["level"] = level.into();
        }
        report
    }

    /// Bytes of all elements; `None` if they vary in length.
    fn array_bytes(&self) -> Option<u64> {
        let fixed = matches!(self.subject.array.data_type().size(), ElementSize::Fixed(_));
        fixed.then(|| self.subject.bytes(units::elements(self.subject.array.shape())))
    }

    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_head(out)?;
        let width = self.workloads.iter().map(|workload| label(workload).len()).max().unwrap_or(0);
        for workload in self.workloads {
            writeln!(out, "{:<width$}  {}", label(workload), workload.what)?;
        }
        writeln!(out)?;
        let summaries: Vec<Summary> = self.workloads.iter().map(Summary::of).collect();
        let rows = || self.workloads.iter().zip(&summaries);
        let head =
            ["time", "calls", "bytes", "first", "median", "spread", "speed", "CPU", "p50", "p99"];
        write_table(out, head, &rows().map(|(w, s)| time_row(w, s)).collect::<Vec<_>>())?;
        writeln!(out)?;
        let head = ["store", "opens", "reads", "read", "publishes", "written", "peak memory"];
        let rows: Vec<_> = rows().map(|(w, s)| store_row(w, s)).collect();
        if summaries.iter().any(|summary| summary.counts.creates > 0) {
            return write_table(out, head, &rows);
        }
        // Columns about writing only if something was written.
        let read_only = rows
            .into_iter()
            .map(|[label, opens, reads, read, .., peak]| [label, opens, reads, read, peak]);
        write_table(
            out,
            [head[0], head[1], head[2], head[3], head[6]],
            &read_only.collect::<Vec<_>>(),
        )
    }

    fn write_head(&self, out: &mut dyn Write) -> io::Result<()> {
        let array = &self.subject.array;
        let size = self.array_bytes().map(|bytes| format!(", {}", units::size(bytes)));
        let (shape, data_type) = (units::shape(array.shape()), array.data_type().name());
        writeln!(out, "{}: {shape} {data_type}{}", self.name, size.unwrap_or_default())?;
        let chunk = units::shape(array.chunk_shape());
        let (packing, objects) = match array.shard_shape() {
            Some(shard) => (format!("chunks {chunk} in shards {}", units::shape(shard)), "shard"),
            None if self.subject.is_scattered() => {
                (format!("chunks {chunk} in shards that are not boxes"), "chunk")
            }
            None => (format!("chunks {chunk}, not sharded"), "chunk"),
        };
        let possible = units::count(self.subject.objects_possible(), objects);
        writeln!(out, "{packing}; {} of {possible} stored", self.subject.cells.len())?;
        writeln!(
            out,
            "{}, {} of memory; {} after the first, each with at most {} of elements",
            units::count(self.threads as u64, "thread"),
            units::size(self.memory),
            units::count(self.repeats, "run"),
            units::size(self.subject.limit)
        )?;
        writeln!(out)
    }
}

fn describe(workload: &Workload) -> Value {
    let summary = Summary::of(workload);
    let run = |run: &Run| {
        json!({
            "seconds": run.seconds,
            "cpu_seconds": run.cpu_seconds,
            "decoded_bytes": run.decoded_bytes,
            "store": describe_counts(&run.counts),
            "peak_rss_bytes": run.peak_rss,
        })
    };
    json!({
        "name": workload.name,
        "what": workload.what,
        "calls": workload.first.latencies.len(),
        "call_shape": workload.shape,
        "axis": workload.axis,
        "complete": workload.complete,
        "decoded_bytes": summary.bytes,
        "seconds": summary.seconds,
        "seconds_min": summary.least,
        "seconds_max": summary.most,
        "cpu_seconds": summary.cpu,
        "bytes_per_second": summary.speed(),
        "latency": { "p50_seconds": summary.p50, "p99_seconds": summary.p99 },
        "store": describe_counts(&summary.counts),
        "peak_rss_bytes": summary.peak_rss,
        "first": run(&workload.first),
        "runs": workload.repeats.iter().map(run).collect::<Vec<_>>(),
    })
}

fn describe_counts(counts: &Counts) -> Map<String, Value> {
    [
        ("opens", counts.opens),
        ("reads", counts.reads),
        ("bytes_read", counts.bytes_read),
        ("checks", counts.checks),
        ("creates", counts.creates),
        ("appends", counts.appends),
        ("bytes_written", counts.bytes_appended),
        ("publishes", counts.publishes),
        ("deletes", counts.deletes),
    ]
    .into_iter()
    .map(|(name, count)| (name.to_owned(), json!(count)))
    .collect()
}

/// The displayed name of a workload.
fn label(workload: &Workload) -> &'static str {
    match workload.name {
        "chunks_cached" => "chunks, cached",
        "planes" => "plane",
        name => name,
    }
}

fn time_row(workload: &Workload, summary: &Summary) -> [String; 10] {
    let calls = workload.first.latencies.len();
    let of_many = |seconds| if calls > 1 { duration(seconds) } else { "-".to_owned() };
    // Half the distance between the fastest and the slowest run.
    let spread = match (workload.repeats.len(), summary.seconds) {
        (0..=1, _) | (_, 0.0) => "-".to_owned(),
        (_, median) => format!("±{:.0}%", (summary.most - summary.least) / 2.0 / median * 100.0),
    };
    let speed = summary.speed().map(|speed| format!("{}/s", units::size(speed as u64)));
    [
        label(workload).to_owned(),
        calls.to_string(),
        units::size(summary.bytes),
        duration(workload.first.seconds),
        duration(summary.seconds),
        spread,
        speed.unwrap_or_else(|| "-".to_owned()),
        summary.cpu.map_or_else(unknown, duration),
        of_many(summary.p50),
        of_many(summary.p99),
    ]
}

fn store_row(workload: &Workload, summary: &Summary) -> [String; 7] {
    let counts = &summary.counts;
    [
        label(workload).to_owned(),
        counts.opens.to_string(),
        counts.reads.to_string(),
        units::size(counts.bytes_read),
        counts.publishes.to_string(),
        units::size(counts.bytes_appended),
        summary.peak_rss.map_or_else(unknown, units::size),
    ]
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// A time for display, with three digits.
fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 0.999_5e-3 => (s * 1e6, "µs"),
        s if s < 0.999_5 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (seconds, text) in [
            (0.0, "0.00 µs"),
            (12.34e-6, "12.3 µs"),
            (999.6e-6, "1.00 ms"),
            (0.123_456, "123 ms"),
            (1.5, "1.50 s"),
            (99.96, "100 s"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
