//! Examines what a writer left behind.

use std::fs;
use std::path::Path;

use shardine::WriteOptions;

use crate::peer::{Peer, checksums};
use crate::plan::{Op, Plan};
use crate::setup::{self, Setup, told};
use crate::{Result, process};

/// The progress of a writer.
#[derive(Debug, Default)]
pub struct Progress {
    /// How many of its calls had returned.
    pub returned: usize,
    /// Whether it was inside another one.
    pub begun: bool,
    /// The steps, if it finished.
    pub steps: Option<String>,
}

impl Progress {
    pub fn read(log: &Path) -> Result<Self> {
        let text = match fs::read_to_string(log) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(format!("the log: {e}")),
        };
        let mut progress = Self::default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("begin", _)) => progress.begun = true,
                Some(("end", _)) => {
                    progress.begun = false;
                    progress.returned += 1;
                }
                Some(("steps", steps)) => progress.steps = Some(steps.to_owned()),
                _ => return Err(line.to_owned()),
            }
        }
        Ok(progress)
    }
}

/// What a killed writer left behind, and how to examine it.
pub struct Remains<'a> {
    pub folder: &'a Path,
    pub setup: &'a Setup,
    pub plan: &'a Plan,
    pub progress: &'a Progress,
    /// Whether every implementation must read it correctly before anybody has recovered it.
    pub readable: bool,
    /// Whether a writer comes first, before any reader.
    pub writer_first: bool,
}

impl Remains<'_> {
    /// Reports what is wrong with it.
    pub fn judge(&self, mut peer: Option<&mut Peer>) -> Result {
        let shape = &self.plan.shape;
        let mut old = vec![0; shape.len()];
        self.plan.ops[..self.progress.returned].iter().for_each(|op| op.apply(&mut old));
        let mut new = old.clone();
        if let Some(op) = self.plan.ops.get(self.progress.returned).filter(|_| self.progress.begun)
        {
            op.apply(&mut new);
        }
        let mut seen_before = None;
        if let Some(peer) = peer.as_deref_mut().filter(|_| self.readable) {
            let crcs = peer.read(self.folder).map_err(|e| format!("before recovery, {e}"))?;
            let (olds, news) = (checksums(&old, shape), checksums(&new, shape));
            one_of("zarr-python before recovery", &crcs, &olds, &news, shape.chunks)?;
            seen_before = Some(crcs);
        }
        if self.writer_first {
            self.write_on(&mut old, &mut new)?;
        }
        let array = setup::open(self.folder, 2)?;
        let found =
            setup::read(&array, 0, shape.len()).map_err(|e| format!("read: {}", told(&e)))?;
        one_of("Shardine", &found, &old, &new, shape.shard())?;
        let again = setup::open(self.folder, 2)?;
        let again =
            setup::read(&again, 0, shape.len()).map_err(|e| format!("read again: {}", told(&e)))?;
        if again != found {
            return Err("two reads of Shardine differ".to_owned());
        }
        let crcs = checksums(&found, shape);
        if seen_before.is_some_and(|seen| !self.writer_first && seen != crcs) {
            return Err("zarr-python saw another state than Shardine after it".to_owned());
        }
        if let Some(peer) = peer {
            let seen = peer.read(self.folder).map_err(|e| format!("after recovery, {e}"))?;
            if seen != crcs {
                return Err("zarr-python reads other bytes than Shardine".to_owned());
            }
        }
        if !self.writer_first {
            let (mut one, mut same) = (found.clone(), found);
            self.write_on(&mut one, &mut same)?;
            let found = setup::read(&array, 0, shape.len())
                .map_err(|e| format!("read after an update: {}", told(&e)))?;
            one_of("Shardine after an update", &found, &one, &same, shape.shard())?;
        }
        Ok(())
    }

    /// Continues writing: a chunk of each shard.
    fn write_on(&self, old: &mut [u32], new: &mut [u32]) -> Result {
        let shape = &self.plan.shape;
        let array = setup::open(self.folder, 2)?;
        for shard in 0..shape.shards {
            let start = shard * shape.shard() + (shard % shape.chunks) * shape.chunk;
            let (strategy, max_gap) = (self.setup.strategy, 0.9);
            let op = Op { range: start..start + shape.chunk, sequence: 1 << 30, strategy, max_gap };
            let options: WriteOptions = op.options();
            setup::write(&array, op.range.start, &op.values(), &options)
                .map_err(|e| format!("update after the kill: {}", told(&e)))?;
            op.apply(old);
            op.apply(new);
        }
        match process::journal(self.folder) {
            Some(path) => Err(format!("{} is left after an update", path.display())),
            None => Ok(()),
        }
    }
}

/// Fails unless each part of what was found is entirely in one of two states.
fn one_of<T: PartialEq>(who: &str, found: &[T], old: &[T], new: &[T], part: usize) -> Result {
    if found.len() != old.len() {
        return Err(format!("{who} finds {} in place of {}", found.len(), old.len()));
    }
    let parts = found.chunks(part).zip(old.chunks(part).zip(new.chunks(part)));
    for (shard, (found, (old, new))) in parts.enumerate() {
        if found != old && found != new {
            let count = |state: &[T]| found.iter().zip(state).filter(|(a, b)| a != b).count();
            return Err(format!(
                "{who}: shard {shard} is neither old nor new: {} of {} differ from the old state, {} from the new one",
                count(old),
                found.len(),
                count(new)
            ));
        }
    }
    Ok(())
}
