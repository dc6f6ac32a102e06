use serde_json::Value;
use shardine_codec::shown;

use super::MetadataError;

/// A list of integers, none of them below `least`.
pub(super) fn integers(json: &Value, member: &str, least: u64) -> Result<Vec<u64>, MetadataError> {
    let items = json.as_array().ok_or_else(|| {
        let reason = format!("is {}, but must be a list of integers", shown(json));
        MetadataError::invalid(member, reason)
    })?;
    items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            item.as_u64().filter(|&number| number >= least).ok_or_else(|| {
                let reason =
                    format!("is {}, but must be an integer of at least {least}", shown(item));
                MetadataError::invalid(format!("{member}[{index}]"), reason)
            })
        })
        .collect()
}
