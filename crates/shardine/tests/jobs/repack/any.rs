//! Any array, repacked in several ways one after another.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::Value;
use shardine::jobs::{RepackError, RepackOutcome};
use shardine::store::{MemoryStore, Store};
use shardine::{
    Array, ArrayNode, Elements, Error, Location, Region, VariableElements, WriteOptions,
};

use crate::common::findings::check_at;
use crate::common::*;
use crate::repack::chunks::{document, encoded};
use crate::repack::config::*;
use crate::repack::scene::*;

fn write_all(array: &Array, config: &Config) {
    let options = WriteOptions::new().store_empty(config.store_empty);
    if config.shape.contains(&0) {
        return;
    }
    for (i, write) in config.writes.iter().enumerate() {
        let count = write.len.iter().product::<u64>() as usize;
        let items: Vec<String> =
            write.start.iter().zip(&write.len).map(|(s, n)| format!("{s}:{}", s + n)).collect();
        let region: Region = items.join(",").parse().unwrap();
        let data = match config.element {
            Some(size) => {
                let fill = config.document["fill_value"].as_u64().unwrap() as u8;
                let len = count * size;
                Elements::Fixed(if write.fills { vec![fill; len] } else { noise(len, i as u64) })
            }
            None => {
                let text =
                    |n| if write.fills { "–".to_owned() } else { "é".repeat((n + i) % 4) };
                Elements::Variable((0..count).map(text).collect::<VariableElements>())
            }
        };
        array.write_elements(&region, data.as_ref(), &options).unwrap();
    }
}

/// The metadata without what a job is about.
fn rest(mut document: Value) -> Value {
    let members = document.as_object_mut().unwrap();
    members.remove("codecs").unwrap();
    members.remove("chunk_grid").unwrap();
    document
}

fn cells(shape: &[u64], chunk: &[u64]) -> u64 {
    shape.iter().zip(chunk).map(|(s, c)| s.div_ceil(*c)).product()
}

/// Runs one job and checks it; returns where the array is from then on.
fn step(
    source: Location,
    target: Location,
    job: &Job,
    config: &Config,
) -> Result<Location, TestCaseError> {
    let before = ArrayNode::open(&engine(), &source).unwrap();
    let (old, old_chunks) = (before.read_elements(Region::all()).unwrap(), encoded(&before));
    let old_document = document(&before);
    let levels = old_document["codecs"].to_string().matches("sharding_indexed").count();
    let measured = levels == 0 || levels == 1 && before.entry_shape().is_some();
    let options = job.options(before.chunk_shape(), config.element.is_none());
    let target = (job.place != Place::Here).then_some(target);
    let mut told = Vec::new();
    let done =
        shardine::jobs::repack(&engine(), &source, target.as_ref(), &options, &mut |array| {
            told.push(array);
        });
    let at = match done {
        Ok(_) => target.clone().unwrap_or(source),
        Err(Error::Repack(RepackError::Layout { reason, .. })) => {
            // Shards that are kept while the chunks change are the only shapes here that may not
            // fit.
            prop_assert!(job.packing == 0 && job.chunk.is_some(), "refused: {}", reason);
            prop_assert_eq!(elements(&source), old);
            return Ok(source);
        }
        Err(error) => return Err(TestCaseError::fail(format!("{error} ({error:?})"))),
    };
    prop_assert_eq!(told.len(), 1);
    let told = told.remove(0);
    let after = ArrayNode::open(&engine(), &at).unwrap();
    prop_assert_eq!(after.read_elements(Region::all()).unwrap(), old);
    prop_assert_eq!(rest(document(&after)), rest(old_document));
    prop_assert_eq!(after.chunk_shape(), &told.chunk_shape[..]);
    prop_assert_eq!(after.shard_shape().map(<[u64]>::to_vec), told.shard_shape.clone());
    if let Some(chunk) = &options.chunk {
        prop_assert_eq!(&told.chunk_shape, chunk);
    }
    let new_chunks = encoded(&after);
    if told.moves {
        prop_assert_eq!(&new_chunks, &old_chunks, "encoded chunks");
        prop_assert_eq!(told.chunks_recoded, 0);
    } else {
        prop_assert_eq!(told.chunks_moved, 0);
    }
    if told.outcome != RepackOutcome::Unchanged {
        let grid = cells(after.shape(), after.chunk_shape());
        prop_assert_eq!(told.chunks_moved + told.chunks_recoded + told.chunks_empty, grid);
        prop_assert_eq!(told.chunks_moved + told.chunks_recoded, new_chunks.len() as u64);
        prop_assert_eq!(told.objects_written, after.objects().unwrap().len() as u64);
    }
    let (summary, findings) = check_at(&at, true);
    prop_assert_eq!(summary.damage, 0, "{:?}", findings);
    if told.outcome == RepackOutcome::Done {
        prop_assert!(findings.is_empty(), "{:?}", findings);
    }
    if job.place == Place::Here {
        if job.packing == 4 && (!told.moves || !measured) {
            // The size of the chunks was only known once they were packed.
            one(&at, None, &options);
        }
        let again = one(&at, None, &options);
        prop_assert_eq!(again.outcome, RepackOutcome::Unchanged);
        prop_assert_eq!(again.objects_written, 0);
    }
    Ok(at)
}

fn check(config: &Config, jobs: &[Job], deep: bool) -> TestCaseResult {
    let folder = folder();
    let mut place = match deep {
        true => at(folder.path()).join("0").unwrap(),
        false => at(&folder.path().join("0")),
    };
    write_all(&create_at(&place, &config.document), config);
    let mut names_left = vec!["0".to_owned()];
    for (i, job) in jobs.iter().enumerate() {
        // Only files are repacked in place.
        let in_memory = place.store.name() == MemoryStore::new().name();
        let job = match (job.place, in_memory) {
            (Place::Here, true) => Job { place: Place::Files, ..job.clone() },
            _ => job.clone(),
        };
        let target = match job.place {
            Place::Memory => Location::root(Arc::new(MemoryStore::new())),
            _ => at(&folder.path().join(format!("{}", i + 1))),
        };
        let now = step(place.clone(), target, &job, config)?;
        if job.place == Place::Files && now.store.name() != place.store.name() {
            names_left.push(format!("{}", i + 1));
        }
        prop_assert_eq!(names(folder.path()), names_left.clone());
        place = now;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_array_stays_what_it_is_however_it_is_packed(
        config in config(),
        jobs in prop::collection::vec(job(), 1..5),
        deep in any::<bool>(),
    ) {
        check(&config, &jobs, deep)?;
    }
}
