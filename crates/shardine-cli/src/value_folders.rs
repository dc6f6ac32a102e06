//! Folders of precomputed meshes, skeletons, annotations and properties, described.

use std::io::{self, Write};
use std::sync::Arc;

use serde_json::{Value, json};
use shardine::Engine;
use shardine::precomputed::{FolderBeside, KeyFolders, ObjectKind, StoredValues, ValueFolder};
use shardine::shard::uint64::Sharding;

use crate::failure::Failure;
use crate::info::line;
use crate::units;
use crate::volume::sharding_words;

/// A folder of values, and what is stored in it if that was looked at and the store can list.
struct Seen {
    folder: ValueFolder,
    stored: Option<StoredValues>,
}

/// What an `info` tells of, and what is stored of it.
pub struct Description<'a> {
    folders: &'a KeyFolders,
    seen: Vec<Seen>,
}

impl<'a> Description<'a> {
    /// Looks at all folders, unless it is to be `fast`.
    pub fn of(engine: &Arc<Engine>, folders: &'a KeyFolders, fast: bool) -> Result<Self, Failure> {
        let mut seen = Vec::new();
        for folder in folders.value_folders()? {
            let stored = if fast { None } else { folder.stored(engine, true)? };
            seen.push(Seen { folder, stored });
        }
        Ok(Self { folders, seen })
    }

    /// Whether it is known what the `info` tells of.
    pub fn is_known(&self) -> bool {
        self.folders.object_kind() != ObjectKind::Unknown || !self.seen.is_empty()
    }

    fn type_name(&self) -> &str {
        self.folders.document().get("@type").and_then(Value::as_str).unwrap_or("no type given")
    }

    /// For people.
    pub fn write(&self, out: &mut dyn Write, url: &str) -> io::Result<()> {
        line(out, "folder", url)?;
        let kind = self.folders.object_kind().name();
        line(out, "format", format!("Neuroglancer precomputed, {kind}"))?;
        line(out, "type", self.type_name())?;
        if let Some(kind) = self.folders.document().get("annotation_type").and_then(Value::as_str) {
            line(out, "annotations", kind.to_lowercase())?;
        }
        if let Some(ids) = self.folders.inline_ids() {
            line(out, "segments", format!("{ids}, in info itself"))?;
        }
        for Seen { folder, stored } in &self.seen {
            if !folder.name.is_empty() {
                writeln!(out)?;
                line(out, "part", &folder.name)?;
            }
            let sharding = folder.sharding.as_ref().map(sharding_words);
            line(
                out,
                "sharding",
                sharding.as_deref().unwrap_or("none: each value is its own object"),
            )?;
            if let Some(stored) = stored {
                line(out, "stored", stored_words(folder, stored))?;
            }
        }
        Ok(())
    }

    /// In JSON.
    pub fn describe(&self) -> Value {
        let parts: Vec<Value> = self
            .seen
            .iter()
            .map(|Seen { folder, stored }| {
                let stored = stored.as_ref().map(|stored| {
                    json!({
                        "objects": stored.objects,
                        "bytes": stored.bytes,
                        "keys": stored.keys,
                        "damaged_shards": stored.damaged,
                    })
                });
                json!({
                    "name": folder.name,
                    "url": folder.location.to_string(),
                    "sharding": folder.sharding.as_ref().map(Sharding::to_json),
                    "stored": stored,
                })
            })
            .collect();
        let kind = self.folders.object_kind();
        // All properties of all segments would be in it.
        let info = (kind != ObjectKind::SegmentProperties).then(|| self.folders.document());
        json!({
            "kind": "values",
            "format": "precomputed",
            "formats": ["precomputed"],
            "url": self.folders.location().to_string(),
            "type": self.folders.document().get("@type"),
            "content": kind.name(),
            "segments": self.folders.inline_ids(),
            "parts": parts,
            "info": info,
        })
    }
}

fn stored_words(folder: &ValueFolder, stored: &StoredValues) -> String {
    let what = if folder.sharding.is_some() { "shard" } else { "object" };
    let objects = units::count(stored.objects, what);
    let mut text = format!("{objects}, {}", units::size(stored.bytes));
    if let Some(keys) = stored.keys {
        text.push_str(&format!(", {}", units::count(keys, "key")));
    }
    if let Some(damage) = &stored.damage {
        let damaged = units::count(stored.damaged, "damaged shard");
        text.push_str(&format!("; {damaged}, whose keys are not counted: {damage}"));
    }
    text
}

/// Folders beside a volume, with what is in them.
pub struct Beside<'a>(Vec<(&'a FolderBeside, Result<Description<'a>, String>)>);

impl<'a> Beside<'a> {
    /// Looks at all of them; what cannot be read of one does not hide the others.
    pub fn of(engine: &Arc<Engine>, folders: &'a [FolderBeside], fast: bool) -> Self {
        let described = |beside: &'a FolderBeside| match &beside.folders {
            Ok(folders) => Description::of(engine, folders, fast)
                .map_err(|failure| failure.message().to_owned()),
            Err(error) => Err(error.to_string()),
        };
        Self(folders.iter().map(|beside| (beside, described(beside))).collect())
    }

    /// A line for each.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for (beside, description) in &self.0 {
            let name = beside.member.replace('_', " ");
            let text = match description {
                Ok(description) => description.words(),
                Err(error) => format!("cannot be read: {error}"),
            };
            line(out, "beside it", format!("{name} in {}: {text}", beside.path))?;
        }
        Ok(())
    }

    /// In JSON.
    pub fn describe(&self) -> Value {
        let beside = |(beside, description): &(&FolderBeside, Result<Description<'_>, String>)| {
            let mut json = match description {
                Ok(description) => description.describe(),
                Err(error) => json!({ "kind": "error", "message": error }),
            };
            if let Value::Object(members) = &mut json {
                members.insert("member".to_owned(), json!(beside.member));
                members.insert("path".to_owned(), json!(beside.path));
            }
            json
        };
        Value::Array(self.0.iter().map(beside).collect())
    }
}

impl Description<'_> {
    /// All of it in one line.
    fn words(&self) -> String {
        let mut text = self.folders.object_kind().name().to_owned();
        if let Some(ids) = self.folders.inline_ids() {
            text.push_str(&format!(" of {}", units::count(ids, "segment")));
        }
        for Seen { folder, stored } in &self.seen {
            let sharded = if folder.sharding.is_some() { "sharded" } else { "not sharded" };
            text.push_str(&format!("; {sharded}"));
            if let Some(stored) = stored {
                text.push_str(&format!(", {}", stored_words(folder, stored)));
            }
        }
        text
    }
}
