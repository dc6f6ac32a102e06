//! Attributes of objects: those of dropped ones are as if they had never been written.

use shardine_codec::{ElementSize, Elements};

use crate::source::{GeneratorSource, Source};
use crate::{ArrayNode, Region};

/// Whether an array with a row for each object has values of one length, as all that zarr-vectors
/// makes. Others are not carried over.
pub(super) fn is_carried(array: &ArrayNode) -> bool {
    let is_fixed = matches!(array.data_type().size(), ElementSize::Fixed(size) if size > 0);
    is_fixed && !array.shape().is_empty()
}

/// The rows of an array with a row for each object, without those of dropped objects; `None` if it
/// is not [carried over](is_carried).
pub(super) fn kept_rows<'a>(
    array: &'a ArrayNode,
    kept: &'a [bool],
) -> Option<impl Source + use<'a>> {
    let ElementSize::Fixed(element) = array.data_type().size() else { return None };
    is_carried(array).then(|| {
        GeneratorSource::new(element, move |start: &[u64], shape: &[u64], out: &mut [u8]| {
            let Elements::Fixed(rows) = array.read_elements(Region::of_box(start, shape))? else {
                return Err("the attribute does not hold numbers".into());
            };
            if rows.len() != out.len() {
                return Err("the attribute has another shape than it said".into());
            }
            let columns = shape.iter().skip(1).product::<u64>() as usize;
            let row = columns.saturating_mul(element).max(1);
            let first = start.first().copied().unwrap_or(0) as usize;
            let rows = rows.chunks_exact(row).zip(out.chunks_exact_mut(row));
            for (at, (from, to)) in rows.enumerate() {
                if kept.get(first.saturating_add(at)) == Some(&true) {
                    to.copy_from_slice(from);
                } else {
                    to.chunks_exact_mut(element).for_each(|to| to.copy_from_slice(&array.fill().0));
                }
            }
            Ok(())
        })
    })
}
