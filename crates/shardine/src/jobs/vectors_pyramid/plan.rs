//! Which levels there will be.

use serde_json::{Map, Value, json};
use shardine_geometry::zarr_vectors::{Root, STORE_ATTRIBUTE};

use super::{PyramidVectorsError, PyramidVectorsOptions};

/// Bins along an axis at which no further level is made unless it is asked for.
const FEW_BINS: f64 = 8.0;

/// The most levels.
pub(super) const MOST_LEVELS: u64 = 64;

/// A level that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LevelPlan {
    pub level: u64,
    /// The edges of its bins.
    pub bin: Vec<f64>,
    /// The edges of its chunks.
    pub chunk: Vec<f64>,
    /// How much longer its chunks are than those of the level before.
    pub chunk_scale: u32,
    pub sparsity: f64,
}

/// The levels above the finest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub levels: Vec<LevelPlan>,
    pub seed: u64,
}

impl Plan {
    pub fn new(
        root: &Root,
        at: &str,
        options: &PyramidVectorsOptions,
    ) -> Result<Self, PyramidVectorsError> {
        let wrong = |reason: String| PyramidVectorsError::Factors { at: at.to_owned(), reason };
        let PyramidVectorsOptions { coarsen, sparsity, chunk_scale, .. } = options;
        for (what, list) in [("coarsen", coarsen), ("sparsity", sparsity)] {
            if let Some(number) = list.iter().find(|number| !(1.0..1e9).contains(*number)) {
                return Err(wrong(format!("{what} {number} is not a factor from 1 on")));
            }
        }
        if chunk_scale.contains(&0) {
            return Err(wrong("chunks cannot be 0 times as long".to_owned()));
        }
        if coarsen.is_empty() || sparsity.is_empty() || chunk_scale.is_empty() {
            return Err(wrong("there are no factors".to_owned()));
        }
        let count = match options.levels {
            Some(levels) => levels.saturating_sub(1),
            None => match coarsen.len().max(sparsity.len()).max(chunk_scale.len()) {
                1 => levels_needed(root, coarsen).ok_or_else(|| {
                    let reason = "how many levels it takes cannot be told from its bounds and the \
                                  factors: give a number of levels";
                    wrong(reason.to_owned())
                })?,
                listed => listed,
            },
        };
        if count == 0 || count as u64 >= MOST_LEVELS {
            return Err(wrong(format!("it may have 2 to {MOST_LEVELS} levels")));
        }
        for (what, listed) in
            [("coarsen", coarsen.len()), ("sparsity", sparsity.len()), ("chunk", chunk_scale.len())]
        {
            if listed > count {
                return Err(wrong(format!(
                    "there are {listed} factors of {what} for {count} levels"
                )));
            }
        }
        let (mut bin, mut chunk) = (root.bins().to_vec(), root.chunk_shape.clone());
        let mut levels = Vec::with_capacity(count);
        for at in 0..count {
            let (by, scale) = (of(coarsen, at), of(chunk_scale, at));
            bin.iter_mut().for_each(|edge| *edge *= by);
            chunk.iter_mut().for_each(|edge| *edge *= f64::from(scale));
            if bin.iter().chain(&chunk).any(|edge| !edge.is_finite()) {
                return Err(wrong("bins or chunks would be too long".to_owned()));
            }
            if chunk != root.chunk_shape
                && let Some((edge, bin)) = chunk.iter().zip(&bin).find(|(chunk, bin)| {
                    let ratio = *chunk / *bin;
                    ratio >= 1.0 && (ratio - ratio.round()).abs() > 1e-9
                })
            {
                return Err(wrong(format!(
                    "level {}: a chunk of {edge} is not a whole number of bins of {bin}",
                    at + 1
                )));
            }
            levels.push(LevelPlan {
                level: at as u64 + 1,
                bin: bin.clone(),
                chunk: chunk.clone(),
                chunk_scale: scale,
                sparsity: of(sparsity, at),
            });
        }
        Ok(Self { levels, seed: options.seed })
    }

    /// What the marker of the job says is being made.
    pub fn request(&self) -> Value {
        let level = |level: &LevelPlan| json!({"bin": level.bin, "chunk": level.chunk, "sparsity": level.sparsity});
        json!({
            "vectors": self.levels.iter().map(level).collect::<Vec<_>>(), "seed": self.seed,
        })
    }

    /// Changes the attributes of a store so that it has these levels above the finest.
    pub fn declare(levels: &[LevelPlan], objects: bool, root: &mut Map<String, Value>) {
        let base = Root::read(root).map(|root| root.bins().to_vec()).unwrap_or_default();
        if let Some(Value::Object(block)) = root.get_mut(STORE_ATTRIBUTE) {
            if levels.is_empty() {
                block.shift_remove("cross_level_depth");
                block.shift_remove("cross_level_storage");
            } else {
                block.insert("cross_level_depth".to_owned(), 1.into());
                block.insert("cross_level_storage".to_owned(), "explicit".into());
            }
            let known = block.entry("format_capabilities").or_insert_with(|| json!([]));
            if let Value::Array(known) = known {
                let tokens = [
                    ("preserved_object_ids", objects),
                    ("shared_fragments", true),
                    ("multiscale_links", true),
                ];
                known.retain(|word| !tokens.iter().any(|(token, _)| word == token));
                let new = tokens.iter().filter(|(_, holds)| *holds && !levels.is_empty());
                known.extend(new.map(|(token, _)| Value::from(*token)));
            }
        }
        let path = |dataset: &Value| dataset.get("path").and_then(Value::as_str) == Some("0");
        if let Some(Value::Array(datasets)) =
            root.get_mut("multiscales").and_then(|all| all.get_mut(0)?.get_mut("datasets"))
        {
            datasets.retain(path);
            datasets.extend(levels.iter().map(|level| dataset(level, &base)));
        }
        let is_level = |node: &Value| node.get("type").and_then(Value::as_str) == Some("zv:level");
        let finest = |node: &Value| node.get("name").and_then(Value::as_str) == Some("0");
        if let Some(Value::Array(nodes)) = root.get_mut("ome").and_then(|ome| ome.get_mut("nodes"))
        {
            nodes.retain(|node| !is_level(node) || finest(node));
            nodes.extend(
                levels
                    .iter()
                    .map(|level| json!({"type": "zv:level", "name": level.level.to_string()})),
            );
        }
    }

    /// Whether the attributes of a store name these levels, and no others.
    pub fn is_declared(&self, root: &Map<String, Value>) -> bool {
        let base = Root::read(root).map(|root| root.bins().to_vec()).unwrap_or_default();
        let datasets = root.get("multiscales").and_then(|all| all.get(0)?.get("datasets"));
        let datasets = datasets.and_then(Value::as_array);
        let coarser = |dataset: &&Value| dataset.get("path").and_then(Value::as_str) != Some("0");
        datasets.is_some_and(|datasets| {
            let wanted = self.levels.iter().map(|level| dataset(level, &base));
            datasets.iter().filter(coarser).cloned().eq(wanted)
        })
    }
}

/// What the list of levels says of one.
fn dataset(level: &LevelPlan, base: &[f64]) -> Value {
    let scale: Vec<f64> = level.bin.iter().zip(base).map(|(bin, base)| bin / base).collect();
    let middle: Vec<f64> = level.bin.iter().map(|bin| bin / 2.0).collect();
    json!({
        "path": level.level.to_string(),
        "coordinateTransformations": [
            {"type": "scale", "scale": scale},
            {"type": "translation", "translation": middle},
        ],
    })
}

/// The number for a level: that at its place, or the last.
fn of<T: Copy + Default>(list: &[T], at: usize) -> T {
    list.get(at).or(list.last()).copied().unwrap_or_default()
}

/// How many levels it takes until bins are few; at least one. `None` if they do not grow, or the
/// store has no bounds.
fn levels_needed(root: &Root, coarsen: &[f64]) -> Option<usize> {
    let [low, high] = root.bounds.as_ref()?;
    let bins = low.iter().zip(high).zip(root.bins()).map(|((low, high), bin)| (high - low) / bin);
    let mut longest = bins.fold(0.0, f64::max);
    let by = of(coarsen, 0);
    if by <= 1.0 || !longest.is_finite() {
        return None;
    }
    let mut levels = 1;
    longest /= by;
    while longest > FEW_BINS && (levels as u64) < MOST_LEVELS - 1 {
        longest /= by;
        levels += 1;
    }
    Some(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(bins: Option<&[f64]>) -> Map<String, Value> {
        let mut attributes = json!({
            "zarr_vectors": {
                "zv_version": "0.9.2", "format_capabilities": ["other"], "chunk_shape": [10.0, 10.0],
                "bounds": [[0.0, 0.0], [100.0, 400.0]], "geometry_types": ["point_cloud"],
            },
            "multiscales": [{
                "axes": [{"name": "x", "type": "space"}, {"name": "y", "type": "space"}],
                "datasets": [{"path": "0"}],
            }],
            "ome": {"nodes": [{"type": "zv:level", "name": "0"}, {"type": "else"}]},
            "mine": 7,
        });
        if let Some(bins) = bins {
            attributes["zarr_vectors"]["base_bin_shape"] = bins.into();
        }
        attributes.as_object().cloned().unwrap()
    }

    fn plan(options: &PyramidVectorsOptions) -> Result<Plan, PyramidVectorsError> {
        Plan::new(&Root::read(&root(None)).unwrap(), "here", options)
    }

    #[test]
    fn factors_are_those_from_the_level_before() {
        let options = PyramidVectorsOptions::new().factors(&[(2.0, 1.0), (1.5, 4.0), (2.0, 1.0)]);
        let plan = plan(&options).unwrap();
        let bins: Vec<f64> = plan.levels.iter().map(|level| level.bin[0]).collect();
        assert_eq!(bins, [20.0, 30.0, 60.0]);
        assert!(plan.levels.iter().all(|level| level.chunk == [10.0, 10.0]));
        assert_eq!(plan.levels[1].sparsity, 4.0);
    }

    #[test]
    fn as_many_levels_are_made_as_leave_few_bins() {
        // 40 bins along the longer axis: 20, 10, 5.
        assert_eq!(plan(&PyramidVectorsOptions::new()).unwrap().levels.len(), 3);
        let mut options = PyramidVectorsOptions::new();
        options.coarsen = vec![1.0];
        assert!(plan(&options).is_err(), "bins that do not grow never get few");
        options.levels = Some(1);
        assert!(plan(&options).is_err());
    }

    #[test]
    fn factors_below_one_and_bins_that_do_not_fill_chunks_are_refused() {
        for number in [0.5, f64::NAN, f64::INFINITY, -2.0] {
            let factors = [(number, 1.0)];
            assert!(plan(&PyramidVectorsOptions::new().factors(&factors)).is_err(), "{number}");
            let factors = [(2.0, number)];
            assert!(plan(&PyramidVectorsOptions::new().factors(&factors)).is_err(), "{number}");
        }
        let mut options = PyramidVectorsOptions::new().factors(&[(1.5, 1.0)]);
        assert!(plan(&options).is_ok(), "chunks that stay need not be whole numbers of bins");
        options.chunk_scale = vec![2];
        let error = plan(&options).unwrap_err().to_string();
        assert!(error.contains("a chunk of 20 is not a whole number of bins of 15"), "{error}");
    }

    #[test]
    fn a_store_that_names_its_levels_keeps_everything_else() {
        let plan = plan(&PyramidVectorsOptions::new().factors(&[(2.0, 1.0), (2.0, 1.0)])).unwrap();
        let before = root(None);
        let mut attributes = before.clone();
        Plan::declare(&plan.levels, true, &mut attributes);
        assert!(plan.is_declared(&attributes) && !plan.is_declared(&before));
        let block = &attributes["zarr_vectors"];
        let tokens =
            json!(["other", "preserved_object_ids", "shared_fragments", "multiscale_links"]);
        assert_eq!(block["format_capabilities"], tokens);
        assert_eq!(
            (&block["cross_level_depth"], &block["cross_level_storage"]),
            (&json!(1), &json!("explicit"))
        );
        let second = &attributes["multiscales"][0]["datasets"][2];
        assert_eq!(second["coordinateTransformations"][0]["scale"], json!([4.0, 4.0]));
        assert_eq!(second["coordinateTransformations"][1]["translation"], json!([20.0, 20.0]));
        assert_eq!(attributes["ome"]["nodes"].as_array().unwrap().len(), 4);
        Plan::declare(&[], true, &mut attributes);
        assert_eq!(attributes, before);
    }
}
