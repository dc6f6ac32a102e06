//! Reports as JSON: what `--json` prints on the command line, and what the reports of other
//! languages hold.

use serde_json::{Map, Value, json};

use super::{
    Compacted, ConvertedLevel, CopyReport, Finding, MigrateSummary, PartOutcome, PyramidLevel,
    PyramidVectorsLevel, RepackOutcome, RepackedArray, RepackedScale, Repair, VerifyOptions,
    VerifySummary, WriteVectorsReport,
};
use crate::plan::ValueSizes;
use crate::shard::uint64::Sharding;
use crate::vectors::VectorInfo;
use crate::{WriteReport, jobs};

impl PartOutcome {
    /// The numbers of the parts that the result is waiting for.
    pub fn missing(&self) -> &[u32] {
        match self {
            Self::Waiting { missing } => missing,
            Self::Complete | Self::AlreadyThere => &[],
        }
    }
}

impl RepackOutcome {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Resumed => "resumed",
            Self::Unchanged => "unchanged",
            Self::Kept => "kept",
        }
    }
}

impl RepackedArray {
    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "path": self.path,
            "outcome": self.outcome.name(),
            "chunk": self.chunk_shape,
            "shard": self.shard_shape,
            "moves": self.moves,
            "chunks_moved": self.chunks_moved,
            "chunks_recoded": self.chunks_recoded,
            "chunks_empty": self.chunks_empty,
            "objects_written": self.objects_written,
            "bytes_written": self.bytes_written,
            "objects_kept": self.objects_kept,
            "verified": self.check.as_str(),
        })
    }
}

/// A measurement of values, if there is one.
fn measured(sizes: Option<&ValueSizes>) -> Value {
    let Some(sizes) = sizes else { return Value::Null };
    json!({ "chunks": sizes.count, "raw_bytes": sizes.raw, "gzip_bytes": sizes.gzip })
}

impl RepackedScale {
    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "level": self.level,
            "key": self.key,
            "outcome": self.outcome.name(),
            "sharding": self.sharding.as_ref().map(Sharding::to_json),
            "measured": measured(self.measured.as_ref()),
            "chunks_moved": self.chunks_moved,
            "chunks_recompressed": self.chunks_recompressed,
            "objects_written": self.objects_written,
            "objects_kept": self.objects_kept,
            "bytes_written": self.bytes_written,
        })
    }
}

impl ConvertedLevel {
    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "level": self.level,
            "source": self.source,
            "target": self.target,
            "outcome": self.outcome.name(),
            "shape": self.shape,
            "chunk": self.chunk_shape,
            "shard": self.shard_shape,
            "sharding": self.sharding.as_ref().map(Sharding::to_json),
            "measured": measured(self.measured.as_ref()),
            "axes": self.axes,
            "axes_assumed": self.axes_assumed,
            "moves": self.moves,
            "method": self.method,
            "codecs_replaced": self.codecs_replaced,
            "chunks_moved": self.chunks_moved,
            "chunks_recoded": self.chunks_recoded,
            "chunks_absent": self.chunks_absent,
            "objects_written": self.objects_written,
            "bytes_written": self.bytes_written,
            "objects_kept": self.objects_kept,
            "verified": self.check.as_str(),
            "position_error": self.position_error,
        })
    }
}

impl Finding {
    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "severity": self.severity.name(),
            "kind": self.kind.name(),
            "object": self.object.as_ref().map(|key| key.as_str()),
            "shard": self.shard,
            "chunk": self.chunk,
            "range": self.range.as_ref().map(|range| [range.start, range.end]),
            "message": self.message,
        })
    }
}

impl VerifySummary {
    /// Describes what a verification with these options has checked, for programs.
    ///
    /// `kinds` and `untold` are counts of findings by kind; `kinds` has only those that were not
    /// reported individually until a caller adds the others.
    pub fn to_json(&self, options: &VerifyOptions) -> Value {
        let untold: Map<String, Value> =
            self.untold.kinds().map(|(kind, n)| (kind.name().to_owned(), n.into())).collect();
        json!({
            "decoded": options.decode,
            "metadata_only": options.metadata_only,
            "level": options.level,
            "listed": !self.unlisted,
            "unread_folders": self.unread_folders,
            "arrays": self.arrays,
            "groups": self.groups,
            "objects": self.objects,
            "bytes": self.bytes,
            "chunks": self.chunks,
            "chunks_decoded": self.chunks_decoded,
            "gap_bytes": self.gap_bytes,
            "lost_chunks": self.lost_chunks,
            "unproved_chunks": self.unproved_chunks,
            "damage": self.damage,
            "notices": self.notices,
            "kinds": untold,
            "untold": untold,
        })
    }
}

impl Repair {
    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "kind": self.kind.name(),
            "object": self.object.as_ref().map(|key| key.as_str()),
            "shard": self.shard,
            "chunk": self.chunk,
            "range": self.range.as_ref().map(|range| [range.start, range.end]),
            "message": self.message,
            "set_aside": self.set_aside,
            "lost": self.lost,
            "unproved": self.unproved,
        })
    }
}

impl jobs::RepairSummary {
    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "mended": self.mended,
            "lost": self.lost,
            "unproved": self.unproved,
            "accepted": self.accepted,
            "left": self.left,
            "untold": self.untold,
            "bytes_set_aside": self.bytes_set_aside,
        })
    }
}

impl Compacted {
    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "object": self.object.as_str(),
            "shard": self.shard,
            "before": self.before,
            "after": self.after,
        })
    }
}

impl jobs::CompactSummary {
    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "arrays": self.arrays,
            "shards": self.shards,
            "compacted": self.compacted,
            "before": self.before,
            "after": self.after,
        })
    }
}

impl CopyReport {
    /// Describes it for programs.
    pub fn to_json(&self) -> Map<String, Value> {
        members([
            ("objects_copied", json!(self.objects_copied)),
            ("bytes_copied", json!(self.bytes_copied)),
            ("objects_skipped", json!(self.objects_skipped)),
            ("bytes_skipped", json!(self.bytes_skipped)),
            ("resumed", json!(self.resumed)),
            ("verified", json!(self.check.as_str())),
        ])
    }
}

impl MigrateSummary {
    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "arrays": self.arrays,
            "groups": self.groups,
            "ome": self.ome,
            "ome_version": self.ome_version.as_ref().map(ToString::to_string),
            "converted": self.converted,
            "named": self.named,
            "resumed": self.resumed,
        })
    }
}

impl PyramidLevel {
    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "path": self.path,
            "shape": self.shape,
            "factors": self.factors,
            "scale": self.scale,
            "translation": self.translation,
            "chunk": self.chunk_shape,
            "shard": self.shard_shape,
            "chunks_encoded": self.counts.chunks,
            "chunks_empty": self.counts.empty,
            "objects_written": self.counts.objects,
            "objects_kept": self.counts.kept,
            "bytes_written": self.counts.bytes,
        })
    }
}

impl PyramidVectorsLevel {
    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "path": self.level.to_string(),
            "bin": self.bin,
            "chunk": self.chunk,
            "sparsity": self.sparsity,
            "vertices": self.vertices,
            "objects": self.objects,
            "chunks": self.chunks,
            "kept": self.kept,
        })
    }
}

impl WriteVectorsReport {
    /// Describes it for programs.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut members = members([
            ("format", json!("zarr-vectors")),
            ("kind", json!(self.kind)),
            ("vertices", json!(self.vertices)),
            ("rows_sorted", json!(self.rows_sorted)),
            ("links", json!(self.links)),
            ("objects", json!(self.objects)),
            ("chunks", json!(self.chunks)),
            ("arrays", json!(self.arrays)),
            ("bounds", json!(self.bounds)),
            ("shard", json!(self.shard)),
            ("sparse_ids", json!(self.sparse_ids)),
            ("resumed", json!(self.resumed)),
            ("objects_kept", json!(self.objects_kept)),
        ]);
        members.extend(describe_written(&self.written));
        members
    }
}

/// What was written, for programs.
pub fn describe_written(report: &WriteReport) -> Map<String, Value> {
    members([
        ("objects_written", json!(report.objects_written)),
        ("objects_removed", json!(report.objects_removed)),
        ("chunks_encoded", json!(report.chunks_encoded)),
        ("chunks_kept", json!(report.chunks_kept)),
        ("chunks_empty", json!(report.chunks_empty)),
        ("bytes_written", json!(report.bytes_written)),
    ])
}

fn members<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl VectorInfo {
    /// Describes it for programs.
    pub fn to_json(&self) -> Value {
        let level = |level: &crate::vectors::LevelInfo| {
            json!({
                "level": level.level,
                "vertices": level.vertices,
                "objects": level.objects,
                "chunks": level.chunks,
            })
        };
        let attribute = |one: &crate::vectors::AttributeInfo| json!({ "name": one.name, "dtype": one.dtype, "of": one.of });
        let sharding = self.shard_shape.as_ref();
        json!({
            "format": "zarr-vectors",
            "version": self.version,
            "kind": self.kind.name(),
            "dimensions": self.axes.len(),
            "axes": self.axes,
            "units": self.units,
            "bounds": self.bounds,
            "chunk": self.chunk_shape,
            "bin": self.bin_shape,
            "levels": self.levels.iter().map(level).collect::<Vec<_>>(),
            "attributes": self.attributes.iter().map(attribute).collect::<Vec<_>>(),
            "sharding": sharding.map(|shape| json!({ "chunks_per_shard": shape })),
            "notes": self.notes,
        })
    }
}
