//! The plot: CPU time over the floor's, grouped by workload, one panel per codec.

use std::fmt::Write;

use super::{Cell, ratio};
use crate::drive::record::Record;

const PANELS: [(&str, &str); 3] =
    [("zstd", "zstd level 3"), ("lz4", "blosc lz4 level 5"), ("none", "uncompressed")];

const GROUPS: [(&str, &str); 8] = [
    ("W1", "write all"),
    ("W2", "read all"),
    ("W2b", "into buffer"),
    ("W3", "by shard"),
    ("W4", "random chunks"),
    ("W4b", "chunk latency"),
    ("W5", "boxes 100³"),
    ("W7", "planes"),
];

/// Name in the records, name for people, class in the style sheet.
const BARS: [(&str, &str, &str); 5] = [
    ("shardine", "shardine", "a"),
    ("zarrs", "zarrs", "b"),
    ("tensorstore", "tensorstore", "c"),
    ("zarr-python+zarrs", "zarr-python with zarrs", "d"),
    ("zarr-python", "zarr-python", "e"),
];

const WIDTH: f64 = 900.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 64.0;
const PANEL: f64 = 150.0;
const STEP: f64 = 200.0;
const BAR: f64 = 17.0;

/// The scale is logarithmic, from here to there.
const LOW: f64 = 0.7;
const HIGH: f64 = 64.0;

const STYLE: &str = "\
text { font: 12px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #333 }
.title { font-size: 15px; font-weight: 600 }
.panel { font-weight: 600 }
.small { font-size: 10px }
.number { font-size: 9px; text-anchor: middle }
.group { text-anchor: middle; font-size: 11px }
.axis { text-anchor: end; font-size: 10px; fill: #777 }
.grid { stroke: #ddd; stroke-width: 1 }
.floor { stroke: #333; stroke-width: 1.2 }
.a { fill: #d1495b } .b { fill: #30638e } .c { fill: #7fa7c9 } .d { fill: #9a9a9a } .e { fill: #cfcfcf }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .axis { fill: #999 } .grid { stroke: #3a3a3a } .floor { stroke: #ddd }
.a { fill: #ef6f80 } .b { fill: #5b93c4 } .c { fill: #3d6a90 } .d { fill: #7a7a7a } .e { fill: #4d4d4d }
}";

pub fn svg(record: &Record) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = draw(&mut text, record);
    text
}

fn height(ratio: f64) -> f64 {
    let share = (ratio.clamp(LOW, HIGH) / LOW).ln() / (HIGH / LOW).ln();
    share * PANEL
}

fn draw(text: &mut String, record: &Record) -> std::fmt::Result {
    let panels = PANELS.iter().filter(|(variant, _)| {
        record.runs.iter().any(|run| run.variant == *variant && run.subject == "floor")
    });
    let panels: Vec<_> = panels.collect();
    let total = TOP + STEP * panels.len() as f64 + 6.0;
    writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {total}\" width=\"{WIDTH}\" height=\"{total}\" role=\"img\">"
    )?;
    writeln!(
        text,
        "<title>CPU time of Zarr implementations over the time of a minimal program</title>"
    )?;
    writeln!(text, "<style>\n{STYLE}\n</style>")?;
    writeln!(
        text,
        "<text class=\"title\" x=\"{LEFT}\" y=\"20\">CPU time / floor, lower is better (logarithmic; latency for single chunks)</text>"
    )?;
    let mut x = LEFT;
    for (_, name, class) in BARS {
        writeln!(
            text,
            "<rect class=\"{class}\" x=\"{x}\" y=\"33\" width=\"11\" height=\"11\" rx=\"2\"/>"
        )?;
        writeln!(text, "<text x=\"{}\" y=\"43\">{name}</text>", x + 16.0)?;
        x += 40.0 + 6.6 * name.len() as f64;
    }
    for (i, (variant, title)) in panels.into_iter().enumerate() {
        panel(text, record, variant, title, TOP + STEP * i as f64)?;
    }
    writeln!(text, "</svg>")
}

fn panel(
    text: &mut String,
    record: &Record,
    variant: &str,
    title: &str,
    top: f64,
) -> std::fmt::Result {
    let base = top + 12.0 + PANEL;
    let right = WIDTH - 8.0;
    for tick in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0] {
        let y = base - height(tick);
        let class = if tick == 1.0 { "floor" } else { "grid" };
        writeln!(
            text,
            "<line class=\"{class}\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>"
        )?;
        writeln!(
            text,
            "<text class=\"axis\" x=\"{}\" y=\"{:.1}\">{tick}×</text>",
            LEFT - 5.0,
            y + 3.5
        )?;
    }
    writeln!(text, "<text class=\"panel\" x=\"{LEFT}\" y=\"{}\">{title}</text>", top + 6.0)?;
    let group = (right - LEFT) / GROUPS.len() as f64;
    let floor = base - height(1.0);
    for (i, (workload, name)) in GROUPS.iter().enumerate() {
        let middle = LEFT + group * (i as f64 + 0.5);
        let label = base + 15.0;
        writeln!(text, "<text class=\"group\" x=\"{middle:.1}\" y=\"{label:.1}\">{name}</text>")?;
        for (j, (subject, person, class)) in BARS.iter().enumerate() {
            let Some(cell) = Cell::of(record, workload, variant, subject) else { continue };
            let value = cell.ratio().middle;
            let x = middle + (j as f64 - BARS.len() as f64 / 2.0) * (BAR + 1.0);
            let end = base - height(value);
            // A bar stands on the floor, or hangs from it.
            let (y, tall) = (end.min(floor), (end - floor).abs().max(1.5));
            writeln!(
                text,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{BAR}\" height=\"{tall:.1}\" rx=\"1.5\"><title>{person}, {name}: {} × floor</title></rect>",
                ratio(value)
            )?;
            let at = if end <= floor { y - 3.0 } else { y + tall + 9.0 };
            let number = if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.1}") };
            let number = if *subject == "shardine" { ratio(value) } else { number };
            writeln!(
                text,
                "<text class=\"number\" x=\"{:.1}\" y=\"{at:.1}\">{number}</text>",
                x + BAR / 2.0
            )?;
        }
    }
    Ok(())
}
