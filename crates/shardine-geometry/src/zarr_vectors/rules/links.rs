//! Links, and the fragments that those within a chunk form.

use smallvec::SmallVec;

use super::{Places, RuleKind, Violation};
use crate::zarr_vectors::{FragmentIndex, LinkArray, LinkOffsets, Ragged, Values, permutation};

/// What is known of an array of links.
#[derive(Debug, Clone)]
pub struct LinkRules {
    /// What it says of its rows.
    pub document: LinkArray,
    /// Where the ends of its links lie.
    pub offsets: LinkOffsets,
    /// Whether a cell has rows in groups: those between chunks or levels.
    pub grouped: bool,
}

/// Judges a cell of links whose ends lie in chunks with `rows` vertices each: `None` where that is
/// not known, 0 where there is no such chunk. How many links there are; `None` if that cannot be
/// said.
pub fn judge_links(
    bytes: &[u8],
    rules: &LinkRules,
    rows: &[Option<u64>],
    out: &mut Vec<Violation>,
) -> Option<u64> {
    let LinkRules { document, grouped, .. } = rules;
    let row = document.row_size();
    let links = match grouped {
        true => Ragged::parse(bytes, row).map(|ragged| ragged.rows()),
        false => Values::new(bytes, row).map(|_| bytes),
    };
    let links = match links {
        Ok(links) => links,
        Err(error) => {
            out.push(Violation::new(RuleKind::Links, error.to_string()));
            return None;
        }
    };
    let (mut nowhere, mut unordered) = (Places::default(), Places::default());
    for (number, link) in links.chunks_exact(row).enumerate() {
        let mut numbers =
            link.chunks_exact(document.scalar.size()).map(|one| document.scalar.integer(one));
        if document.permuted {
            let code = numbers.next().flatten();
            if code.and_then(|code| permutation(code, document.width)).is_none() {
                unordered.add(|| {
                    let code =
                        code.map_or_else(|| "a number above 2^63".to_owned(), |c| c.to_string());
                    format!("link {number} has {code}, which is no permutation of its ends")
                });
            }
        }
        let ends: SmallVec<[Option<i64>; 4]> = numbers.collect();
        let wrong = ends.iter().zip(rows).find(|(end, rows)| {
            let end = end.and_then(|end| u64::try_from(end).ok());
            end.is_none_or(|end| rows.is_some_and(|rows| end >= rows))
        });
        if let Some((end, rows)) = wrong {
            nowhere.add(|| {
                let end = end.map_or_else(|| "above 2^63".to_owned(), |end| end.to_string());
                match rows {
                    Some(0) => format!("link {number} leads to a chunk without vertices"),
                    Some(rows) => format!("link {number} has vertex {end} of {rows}"),
                    None => format!("link {number} has vertex {end}"),
                }
            });
        }
    }
    nowhere.tell(RuleKind::Links, out);
    unordered.tell(RuleKind::Links, out);
    Some((links.len() / row.max(1)) as u64)
}

/// Judges the fragments of the `links` links within a chunk.
pub fn judge_sidecar(bytes: &[u8], links: u64, out: &mut Vec<Violation>) {
    let mut tell = |message: String| out.push(Violation::new(RuleKind::Links, message));
    if bytes.is_empty() {
        return;
    }
    match FragmentIndex::parse(bytes) {
        Err(error) => tell(error.to_string()),
        Ok(index) if index.extent() > 0 && links == 0 => {
            tell("there are fragments of links, but no links".to_owned());
        }
        Ok(index) if index.extent() > links => {
            tell(format!("a fragment has link {} of {links}", index.extent() - 1));
        }
        Ok(_) => {}
    }
}
