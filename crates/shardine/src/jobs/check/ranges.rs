//! Overlapping byte ranges.

use std::ops::Range;

use crate::engine::tuning::INDEX_GAP;

/// Calls `found` with each range that begins before the end of an earlier one: first the earlier
/// one that reaches furthest, then the range itself. The ranges must be sorted, and none empty.
pub(in crate::jobs) fn overlapping<T: Copy>(
    ranges: impl IntoIterator<Item = (Range<u64>, T)>,
    mut found: impl FnMut((&Range<u64>, T), (&Range<u64>, T)),
) {
    let mut reaching: Option<(Range<u64>, T)> = None;
    for (range, of) in ranges {
        if let Some((first, first_of)) = reaching.as_ref().filter(|(f, _)| range.start < f.end) {
            found((first, *first_of), (&range, of));
            if range.end <= first.end {
                continue;
            }
        }
        reaching = Some((range, of));
    }
}

/// How many of these ranges, sorted by start, one read can fetch, and its byte range: the first,
/// and those after it as long as the gaps are small and the read has at most `most` bytes. `None`
/// if there are none.
pub(in crate::jobs) fn together(
    ranges: impl IntoIterator<Item = Range<u64>>,
    most: u64,
) -> Option<(usize, Range<u64>)> {
    let mut ranges = ranges.into_iter();
    let mut read = ranges.next()?;
    let more = ranges.take_while(|range| {
        let is_near = range.start <= read.end.saturating_add(INDEX_GAP)
            && range.end.saturating_sub(read.start) <= most;
        if is_near {
            read.end = read.end.max(range.end);
        }
        is_near
    });
    let count = 1 + more.count();
    Some((count, read))
}

/// The total bytes that these ranges, sorted by start, cover.
pub(in crate::jobs) fn covered(ranges: impl IntoIterator<Item = Range<u64>>) -> u64 {
    let (mut covered, mut end) = (0, 0);
    for range in ranges {
        covered += range.end.saturating_sub(range.start.max(end));
        end = end.max(range.end);
    }
    covered
}

/// The message about the gaps of a shard.
pub(in crate::jobs) fn gaps(bytes: u64, len: u64) -> String {
    let share = bytes as f64 / len as f64 * 100.0;
    format!("{bytes} of {len} bytes ({share:.1} %) are gaps that no entry refers to")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_once_however_many_ranges_claim_them() {
        assert_eq!(covered(std::iter::once(0..8)), 8);
        assert_eq!(covered([0..8, 8..12, 12..20]), 20);
        assert_eq!(covered([0..12, 4..8, 4..8, 20..28]), 20);
        assert_eq!(covered([0..24, 20..28, 26..28]), 28);
    }

    #[test]
    fn each_range_is_compared_with_the_one_that_reaches_furthest() {
        let ranges = [(0..10, 0), (2..3, 1), (5..12, 2), (11..13, 3), (13..14, 4)];
        let mut pairs = Vec::new();
        overlapping(ranges, |(_, first), (_, next)| pairs.push((first, next)));
        assert_eq!(pairs, [(0, 1), (0, 2), (2, 3)]);
    }
}
