//! Levels of an image that a change of a finer one has left behind.

use serde_json::{Map, Value, json};
use shardine::zarr::ImageLevel;
use shardine::{Array, ArrayNode, DataSet};

use crate::dataset::Level;
use crate::failure::quoted;
use crate::said;

/// The levels that no longer show what the one just written shows.
#[derive(Debug, Default)]
pub struct Stale {
    /// The URL of the image.
    image: String,
    /// Which level was written.
    written: usize,
    /// The paths of the levels that are computed from it.
    levels: Vec<String>,
    /// Why it is not known whether there are such levels.
    unknown: Option<String>,
}

impl Stale {
    /// What a change of an array has left behind: a level of the image at `url`, or an array that
    /// is a level of the image above it.
    pub fn after(set: &dyn DataSet, array: &Array, level: Level, url: &str) -> Self {
        let mut stale = Self { image: url.to_owned(), written: level.number(), ..Self::default() };
        if !set.is::<ArrayNode>() {
            // A volume has levels too, which other programs make.
            let is_image = matches!(set.format(), "zarr2" | "zarr3");
            let levels = if is_image { set.levels().unwrap_or_default() } else { Vec::new() };
            stale.levels = levels.into_iter().skip(level.number() + 1).collect();
            return stale;
        }
        match ImageLevel::of_array(array.location()) {
            Ok(None) => {}
            Ok(Some(found)) => {
                stale.levels = found.coarser().to_vec();
                stale.written = found.level;
                stale.image = image_url(url, &found);
            }
            Err(error) => stale.unknown = Some(error.to_string()),
        }
        stale
    }

    /// Says so to people: one line on standard error.
    pub fn note(&self) {
        if said::is_quiet() {
            return;
        }
        let Self { image, written, levels, unknown } = self;
        if let Some(reason) = unknown {
            eprintln!(
                "note: if this is a level of an image, its coarser levels no longer match: {reason}"
            );
        }
        let numbers: Vec<String> =
            (written + 1..).take(levels.len()).map(|n| n.to_string()).collect();
        let which = match numbers.as_slice() {
            [] => return,
            [one] => format!("level {one} of {image} no longer matches"),
            [first, second] => format!("levels {first} and {second} of {image} no longer match"),
            [first, .., last] => format!("levels {first} to {last} of {image} no longer match"),
        };
        let renew = format!("shardine pyramid {} --update", quoted(image));
        eprintln!("note: {which} level {written}; run `{renew}` to renew what has changed");
    }

    /// Says so to programs.
    pub fn describe(&self, members: &mut Map<String, Value>) {
        if !self.levels.is_empty() {
            members.insert("stale_levels".to_owned(), json!(self.levels));
        }
    }
}

/// The URL of an image, given that of one of its levels: as the user spelled it, if that ends in
/// the name of the level.
fn image_url(url: &str, found: &ImageLevel) -> String {
    let name = found.levels.get(found.level).map_or("", String::as_str);
    let above = url.trim_end_matches('/').strip_suffix(name);
    match above.and_then(|above| above.strip_suffix('/')) {
        Some(above) if !above.is_empty() => above.to_owned(),
        _ => found.image.to_string(),
    }
}
