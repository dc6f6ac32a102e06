//! Rows of values that describe vertices, fragments or links.

use smallvec::SmallVec;

use super::{Places, RuleKind, Violation};
use crate::zarr_vectors::AttributeDocument;

/// What is known of an attribute, cell after cell.
#[derive(Debug, Clone)]
pub struct AttributeRules {
    document: AttributeDocument,
    /// How many values a row has: as the document says, or as the first cell has them.
    width: Option<usize>,
    /// What a row describes, in the plural.
    of: &'static str,
    /// Whether the highest byte of a number comes first.
    swapped: bool,
}

impl AttributeRules {
    /// The rules of an attribute of `of`: `vertices`.
    pub fn new(document: AttributeDocument, of: &'static str) -> Self {
        Self { width: document.width, document, of, swapped: false }
    }

    /// Says whether the highest byte of a number comes first.
    pub fn swapped(mut self, swapped: bool) -> Self {
        self.swapped = swapped;
        self
    }
}

/// Judges the cell of an attribute of `rows` things. Attributes of several values whose document
/// does not say how many are taken as the first cell has them.
pub fn attribute(bytes: &[u8], rules: &mut AttributeRules, rows: u64, out: &mut Vec<Violation>) {
    let AttributeRules { document, width, of, swapped } = rules;
    let size = document.scalar.size() as u64;
    let (len, of) = (bytes.len() as u64, *of);
    let mut tell = |message: String| out.push(Violation::new(RuleKind::Attributes, message));
    if rows == 0 {
        if len > 0 {
            tell(format!("there are {len} bytes for no {of}"));
        }
        return;
    }
    let each = size.saturating_mul(rows);
    let found = (len.is_multiple_of(each) && len > 0).then_some(len / each);
    let expected = width.map(|width| width as u64);
    if found.is_none() || expected.is_some_and(|expected| found != Some(expected)) {
        let row = size.saturating_mul(expected.unwrap_or(1)).max(1);
        let has = if len.is_multiple_of(row) {
            format!("{} rows", len / row)
        } else {
            format!("{len} bytes")
        };
        return tell(format!("it has {has} for {rows} {of}"));
    }
    if width.is_none() {
        *width = found.and_then(|found| usize::try_from(found).ok());
    }
    let Some(categories) = document.categories.as_ref() else { return };
    let mut unknown = Places::default();
    for (at, code) in bytes.chunks_exact(document.scalar.size()).enumerate() {
        let mut code = SmallVec::<[u8; 8]>::from_slice(code);
        if *swapped {
            code.reverse();
        }
        let code = document.scalar.integer(&code);
        let known = |code: i64| {
            Some(code) == categories.missing
                || usize::try_from(code).is_ok_and(|code| code < categories.values.len())
        };
        if !code.is_some_and(known) {
            unknown.add(|| {
                let code = code.map_or_else(|| "above 2^63".to_owned(), |code| code.to_string());
                let known = categories.values.len();
                format!("row {at} has the code {code}, of a dictionary of {known} words")
            });
        }
    }
    unknown.tell(RuleKind::Attributes, out);
}
