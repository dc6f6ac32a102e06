//! What can be found where a store cannot list: nodes by the names that they would have.

use shardine_geometry::zarr_vectors::{ChunkCoords, LinkFamily, LinkOffsets};

use super::store::VectorStore;
use super::told::Told;
use crate::Error;
use crate::zarr::Child;

/// The most arrays of links that are asked for by name.
const MOST_ARRAYS: usize = 200;

/// The most levels that are asked for by number.
const MOST_LEVELS: u64 = 64;

/// The nodes with these names in the group at `path` that exist. One read for each.
pub(super) fn named(
    store: &VectorStore,
    path: &str,
    names: impl IntoIterator<Item = String>,
) -> Result<Vec<Child>, Error> {
    let mut children = Vec::new();
    for name in names {
        let node = match path {
            "" => store.node(&name),
            path => store.node(&format!("{path}/{name}")),
        };
        match node {
            Err(Error::NoNode { .. }) => {}
            node => children.push(Child { name, node, listed: false }),
        }
    }
    Ok(children)
}

/// The levels that the root names; without such names, one after the other until one is absent.
pub(super) fn levels(
    store: &VectorStore,
    attributes: &serde_json::Map<String, serde_json::Value>,
) -> Result<Vec<Child>, Error> {
    let datasets = attributes.get("multiscales").and_then(|all| all.get(0)?.get("datasets"));
    let named_by = |dataset: &serde_json::Value| dataset.get("path")?.as_str()?.parse().ok();
    let all = datasets.and_then(|all| all.as_array()).into_iter().flatten();
    let mut numbers: Vec<u64> = all.filter_map(named_by).collect();
    numbers.sort_unstable();
    numbers.dedup();
    if !numbers.is_empty() {
        return named(store, "", numbers.iter().map(ToString::to_string));
    }
    let mut children = Vec::new();
    for number in 0..MOST_LEVELS {
        let name = number.to_string();
        match store.node(&name) {
            Err(Error::NoNode { .. }) => break,
            // A server may fail for everything that it does not have, so there may be no end.
            node => children.push(Child { name, node: Ok(node?), listed: false }),
        }
    }
    Ok(children)
}

/// The arrays of links that consolidated metadata of the root names, or else of links within chunks
/// and to neighbouring ones, which is where most end.
pub(super) fn links(
    store: &VectorStore,
    path: &str,
    family: &LinkFamily,
    told: &mut Told,
) -> Result<Vec<Child>, Error> {
    if let Some(names) = store.known_below(path) {
        return named(store, path, names);
    }
    let canonical = !family.directed && !family.duplicate;
    let mut neighbours: Vec<ChunkCoords> = vec![ChunkCoords::new()];
    for _ in 0..family.rank {
        let longer = neighbours.iter().flat_map(|before| {
            [-1, 0, 1].map(|step| before.iter().copied().chain([step]).collect())
        });
        neighbours = longer.collect();
        if neighbours.len() > MOST_ARRAYS {
            break;
        }
    }
    // Ends are sorted by their chunks, so that no offset lies before another one.
    let none = ChunkCoords::from_elem(0, family.rank);
    neighbours.retain(|offset| !canonical || *offset >= none);
    let mut names: Vec<Vec<ChunkCoords>> = vec![Vec::new()];
    for _ in 1..family.width {
        let longer = names.iter().flat_map(|before| {
            let follows = |offset: &&ChunkCoords| {
                !canonical || before.last().is_none_or(|last| *offset >= last)
            };
            neighbours.iter().filter(follows).map(move |offset| {
                before.iter().cloned().chain([offset.clone()]).collect::<Vec<_>>()
            })
        });
        names = longer.take(MOST_ARRAYS + 1).collect();
    }
    if names.len() > MOST_ARRAYS {
        names = vec![vec![none; family.width.saturating_sub(1)]];
        told.note("the store cannot list: only links within chunks were looked for");
    } else {
        told.note("the store cannot list: only links to neighbouring chunks were looked for");
    }
    let names = names.into_iter().map(|offsets| LinkOffsets::new(offsets).name());
    named(store, path, names)
}
