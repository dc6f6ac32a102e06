//! An array that grows slice by slice.

use shardine::{ArrayNode, ElementsRef, SliceOptions, SliceWriter};

use crate::Result;
use crate::judge::Remains;
use crate::peer::{Peer, checksums};
use crate::plan::{Op, Plan};
use crate::setup::{self, Setup, to_bytes, told};
use crate::work::Log;

/// Appends and commits each update of the plan.
pub fn write(array: ArrayNode, plan: &Plan, log: &mut Log) -> Result {
    let Some(first) = plan.ops.first() else { return Ok(()) };
    let options = SliceOptions::new().write(first.options());
    let mut writer = SliceWriter::new(array, 0, options).map_err(|e| told(&e))?;
    for (i, op) in plan.ops.iter().enumerate() {
        log.line(&format!("begin {i}"))?;
        let bytes = to_bytes(&op.values());
        let pushed =
            writer.push_elements(ElementsRef::Fixed(&bytes)).and_then(|()| writer.commit());
        if let Err(error) = pushed {
            return log.line(&format!("error in slice {i}: {}", told(&error)));
        }
        log.line(&format!("end {i}"))?;
    }
    Ok(())
}

/// The array must end at the last commit, or at the one in progress, and hold everything before.
pub fn judge(remains: &Remains<'_>, mut peer: Option<&mut Peer>) -> Result {
    let (ops, returned) = (&remains.plan.ops, remains.progress.returned);
    let mut all = vec![0; remains.plan.shape.len()];
    ops.iter().for_each(|op| op.apply(&mut all));
    let end = |count: usize| count.checked_sub(1).map_or(0, |last| ops[last].range.end);
    let lens = [end(returned), end(returned + usize::from(remains.progress.begun))];
    let mut seen = None;
    if let Some(peer) = peer.as_deref_mut().filter(|_| remains.readable) {
        seen = Some(peer.read(remains.folder).map_err(|e| format!("before recovery, {e}"))?);
    }
    let len = check(remains, &lens, &all)?;
    let crcs = checksums(&all[..len], &remains.plan.shape);
    if seen.is_some_and(|seen| seen != crcs) {
        return Err("zarr-python saw another state than Shardine after it".to_owned());
    }
    if let Some(peer) = peer {
        let seen = peer.read(remains.folder).map_err(|e| format!("after recovery, {e}"))?;
        if seen != crcs {
            return Err("zarr-python reads other bytes than Shardine".to_owned());
        }
    }
    let more = Op { range: len..len + 100, sequence: 1 << 30, ..op_of(remains.setup) };
    let array = setup::open(remains.folder, 2)?;
    let options = SliceOptions::new().write(more.options());
    let mut writer = SliceWriter::new(array, 0, options).map_err(|e| told(&e))?;
    let bytes = to_bytes(&more.values());
    let pushed = writer.push_elements(ElementsRef::Fixed(&bytes)).and_then(|()| writer.commit());
    pushed.map_err(|e| format!("a slice after the kill: {}", told(&e)))?;
    more.apply(&mut all);
    check(remains, &[more.range.end], &all).map(|_| ())
}

fn op_of(setup: &Setup) -> Op {
    Op { range: 0..0, sequence: 0, strategy: setup.strategy, max_gap: 0.25 }
}

/// Reads the array; returns its length.
fn check(remains: &Remains<'_>, lens: &[usize], all: &[u32]) -> Result<usize> {
    let array = setup::open(remains.folder, 2)?;
    let len = array.shape().first().map_or(0, |&len| len as usize);
    // Each layer of chunks is committed when it is complete.
    let complete = lens.first() < Some(&len)
        && Some(&len) < lens.last()
        && len.is_multiple_of(remains.plan.shape.chunk);
    if !(lens.contains(&len) || complete) {
        return Err(format!("the array has {len} elements, not one of {lens:?}"));
    }
    if len == 0 {
        return Ok(0);
    }
    let found = setup::read(&array, 0, len).map_err(|e| format!("read: {}", told(&e)))?;
    match found.iter().zip(all).position(|(a, b)| a != b) {
        Some(at) => Err(format!("element {at} of {len} is not what was appended")),
        None => Ok(len),
    }
}
