//! Regions from the ranges of Rust: `array.read::<u16>((0..64, .., 7))`.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use smallvec::SmallVec;

use crate::region_item::Item;
use crate::selection::{Region, RegionError, Selection, resolve_items};

/// Anything that can be read or written as a region of an array.
///
/// | form | which elements |
/// |---|---|
/// | `..` or `()` | all |
/// | `5` | plane 5 of the first axis, kept as an axis of length 1; `-1` is the last |
/// | `0..64`, `5..`, `..64`, `..=7` | a range of the first axis; negative: from the end |
/// | `(0..64, .., 7)` | one of these per axis, up to eight; axes not named are whole |
/// | `[0..64, 16..32]`, also as a slice or a `Vec` | ranges only, for any number of axes |
/// | `"0:64:2, ..., 7"` | as in Python, with steps; text that does not parse fails the call |
/// | [`Region`], [`Selection`], or a reference to one | itself |
///
/// All forms follow the same rules: the end of a range is clipped to the array, as in Python, and a
/// range that holds no element of the array is an error.
///
/// ```
/// # use shardine_engine::selection::IntoRegion;
/// let shape = [100, 30, 8];
/// let selection = (0..64, .., 7).resolve_in(&shape)?;
/// assert_eq!(selection.shape(), [64, 30, 1]);
/// assert_eq!(selection, "0:64, :, 7".resolve_in(&shape)?);
/// assert_eq!(selection, (..=63, 0.., -1).resolve_in(&shape)?);
/// # Ok::<(), shardine_engine::selection::RegionError>(())
/// ```
pub trait IntoRegion: Sized {
    /// Converts to a region; an error if it is text that does not parse as one.
    fn into_region(self) -> Result<Region, RegionError>;

    /// The elements it selects in an array of this shape.
    fn resolve_in(self, shape: &[u64]) -> Result<Selection, RegionError> {
        self.into_region()?.resolve(shape)
    }
}

/// Selects elements along one axis: an integer of any type, or a range of them.
///
/// Negative numbers count from the end of the axis. An integer is one element.
pub trait AxisRange: sealed::AxisItem {}

mod sealed {
    use super::Item;

    pub trait AxisItem {
        fn item(&self) -> Item;
    }

    /// An integer used as a position on an axis.
    pub trait Position: Copy {
        fn position(self) -> i128;
    }
}

use sealed::{AxisItem, Position};

macro_rules! positions {
    ($($integer:ty)*) => {$(
        impl Position for $integer {
            fn position(self) -> i128 {
                // No integer here is wider than 64 bits.
                self as i128
            }
        }

        impl AxisItem for $integer {
            fn item(&self) -> Item {
                Item::Index(self.position())
            }
        }

        impl AxisRange for $integer {}
    )*};
}

positions!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

macro_rules! ranges {
    ($($range:ident: $of:ident => $start:expr, $stop:expr;)*) => {$(
        impl<I: Position> AxisItem for $range<I> {
            fn item(&self) -> Item {
                let $of = self;
                Item::Slice { start: $start, stop: $stop, step: 1 }
            }
        }

        impl<I: Position> AxisRange for $range<I> {}
    )*};
}

ranges! {
    Range: range => Some(range.start.position()), Some(range.end.position());
    RangeFrom: range => Some(range.start.position()), None;
    RangeTo: range => None, Some(range.end.position());
    RangeInclusive: range => Some(range.start().position()), behind(range.end().position());
    RangeToInclusive: range => None, behind(range.end.position());
}

/// The end of a range whose last element is `last`; `None` after the last element of an axis, where
/// there is nothing to count from.
fn behind(last: i128) -> Option<i128> {
    (last != -1).then_some(last + 1)
}

impl AxisItem for RangeFull {
    fn item(&self) -> Item {
        Item::WHOLE
    }
}

impl AxisRange for RangeFull {}

impl<A: AxisRange> IntoRegion for A {
    fn into_region(self) -> Result<Region, RegionError> {
        Ok(match self.item() {
            // Also all of an array without axes.
            Item::WHOLE => Region::all(),
            item => Region::of_items([item]),
        })
    }

    fn resolve_in(self, shape: &[u64]) -> Result<Selection, RegionError> {
        match self.item() {
            Item::WHOLE => resolve_items(&[], shape),
            item => resolve_items(&[item], shape),
        }
    }
}

macro_rules! tuples {
    ($($($axis:ident)+;)*) => {$(
        impl<$($axis: AxisRange),+> IntoRegion for ($($axis,)+) {
            fn into_region(self) -> Result<Region, RegionError> {
                #[allow(non_snake_case, reason = "they are named like their types")]
                let ($($axis,)+) = self;
                Ok(Region::of_items([$($axis.item()),+]))
            }

            fn resolve_in(self, shape: &[u64]) -> Result<Selection, RegionError> {
                #[allow(non_snake_case, reason = "they are named like their types")]
                let ($($axis,)+) = self;
                resolve_items(&[$($axis.item()),+], shape)
            }
        }
    )*};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}

impl IntoRegion for () {
    fn into_region(self) -> Result<Region, RegionError> {
        Ok(Region::all())
    }
}

impl<A: AxisRange> IntoRegion for &[A] {
    fn into_region(self) -> Result<Region, RegionError> {
        Ok(Region::of_items(self.iter().map(AxisItem::item)))
    }

    fn resolve_in(self, shape: &[u64]) -> Result<Selection, RegionError> {
        let items: SmallVec<[Item; 4]> = self.iter().map(AxisItem::item).collect();
        resolve_items(&items, shape)
    }
}

/// Forms that wrap another form.
macro_rules! through {
    ($(($($generics:tt)*) $form:ty: $self:ident => $inner:expr;)*) => {$(
        impl<$($generics)*> IntoRegion for $form {
            fn into_region($self) -> Result<Region, RegionError> {
                $inner.into_region()
            }

            fn resolve_in($self, shape: &[u64]) -> Result<Selection, RegionError> {
                $inner.resolve_in(shape)
            }
        }
    )*};
}

through! {
    (A: AxisRange, const N: usize) [A; N]: self => self.as_slice();
    (A: AxisRange, const N: usize) &[A; N]: self => self.as_slice();
    (A: AxisRange) Vec<A>: self => self.as_slice();
    (A: AxisRange) &Vec<A>: self => self.as_slice();
    () String: self => self.as_str();
    () &String: self => self.as_str();
    () Selection: self => &self;
}

impl IntoRegion for &str {
    fn into_region(self) -> Result<Region, RegionError> {
        self.parse()
    }
}

impl IntoRegion for Region {
    fn into_region(self) -> Result<Region, RegionError> {
        Ok(self)
    }
}

impl IntoRegion for &Region {
    fn into_region(self) -> Result<Region, RegionError> {
        Ok(self.clone())
    }

    fn resolve_in(self, shape: &[u64]) -> Result<Selection, RegionError> {
        self.resolve(shape)
    }
}

impl IntoRegion for &Selection {
    fn into_region(self) -> Result<Region, RegionError> {
        Ok(Region::from(self))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHAPE: [u64; 3] = [10, 7, 5];

    /// Both ways to resolve a region must agree.
    fn resolve(region: impl IntoRegion + Clone) -> Result<Selection, RegionError> {
        resolve_at(region, &SHAPE)
    }

    fn resolve_at(
        region: impl IntoRegion + Clone,
        shape: &[u64],
    ) -> Result<Selection, RegionError> {
        let resolved = region.clone().resolve_in(shape);
        assert_eq!(region.into_region().and_then(|region| region.resolve(shape)), resolved);
        resolved
    }

    #[test]
    fn every_form_means_what_the_string_means() {
        let text = |text: &str| text.parse::<Region>().unwrap().resolve(&SHAPE).unwrap();
        let last = -1;
        for (region, same) in [
            (resolve(()), ""),
            (resolve(..), "..."),
            (resolve(5), "5"),
            (resolve(-1), "-1"),
            (resolve(5u8), "5"),
            (resolve(2..6), "2:6"),
            (resolve(2usize..6), "2:6"),
            (resolve(..6), ":6"),
            (resolve(2..), "2:"),
            (resolve(2..=6), "2:7"),
            (resolve(..=6), ":7"),
            (resolve(-3..), "-3:"),
            (resolve(-3..=-2), "-3:-1"),
            (resolve(..=-1), ":"),
            (resolve(4..=last), "4:"),
            (resolve(2..99), "2:99"),
            (resolve((2..6,)), "2:6"),
            (resolve((2..6, ..)), "2:6"),
            (resolve((2..6, .., 3)), "2:6,:,3"),
            (resolve((.., 3, ..=1)), ":,3,:2"),
            (resolve([2..6, 0..3]), "2:6,0:3"),
            (resolve(&[2..6, 0..3]), "2:6,0:3"),
            (resolve(&[2u64..6, 0..3][..]), "2:6,0:3"),
            (resolve(vec![2..6, 0..3]), "2:6,0:3"),
            (resolve(&vec![2..6, 0..3]), "2:6,0:3"),
            (resolve([1, 2, 3]), "1,2,3"),
            (resolve("::3, ..., -1"), "::3,...,-1"),
            (resolve("::3".to_owned()), "::3"),
            (resolve(&"::3".to_owned()), "::3"),
            (resolve(text("::3,2")), "::3,2"),
            (resolve(&text("::3,2")), "::3,2"),
            (resolve("::3,2".parse::<Region>().unwrap()), "::3,2"),
            (resolve(&"::3,2".parse::<Region>().unwrap()), "::3,2"),
        ] {
            assert_eq!(region, Ok(text(same)), "{same}");
        }
        let eight = (0..1, .., 1.., ..1, ..=1, 1, 0..=1, -1);
        let same = "0:1,:,1:,:1,:2,1,0:2,-1".parse::<Region>().unwrap();
        assert_eq!(resolve_at(eight, &[2; 8]), same.resolve(&[2; 8]));
    }

    #[test]
    fn an_array_without_axes_has_a_whole() {
        let none = Ok(Selection::whole(&[]));
        assert_eq!(resolve_at((), &[]), none);
        assert_eq!(resolve_at(.., &[]), none);
        assert_eq!(resolve_at("...", &[]), none);
        assert_eq!(resolve_at([0u64; 0], &[]), none);
        let refused = RegionError::Rank { items: 1, rank: 0 };
        assert_eq!(resolve_at(0..1, &[]), Err(refused));
    }

    #[test]
    fn what_selects_nothing_is_an_error_in_every_form() {
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        let reversed = 6..2;
        for refused in [
            resolve(10),
            resolve(-11),
            resolve(10..),
            resolve(3..3),
            resolve(reversed),
            resolve((.., 7)),
            resolve((0, 0, 0, 0)),
            resolve("1:2:0"),
            resolve("no region"),
            resolve(u64::MAX),
            resolve(..=i64::MIN),
            resolve(u64::MAX..=u64::MAX),
        ] {
            assert!(refused.is_err(), "{refused:?}");
        }
    }

    #[test]
    fn a_region_of_ranges_is_shown_as_people_write_it() {
        let shown = |region: Result<Region, RegionError>| region.unwrap().to_string();
        assert_eq!(shown((0..64, .., 7, -3.., ..=5).into_region()), "0:64,:,7,-3:,:6");
        assert_eq!(shown(().into_region()), "...");
        assert_eq!(shown("  0 : 64".into_region()), "  0 : 64");
        assert_eq!((0..64, 7).into_region(), "0:64,7".parse());
    }

    proptest! {
        #[test]
        fn ranges_and_strings_agree_wherever_they_lie(
            len in prop_oneof![0u64..12, any::<u64>()],
            start in prop_oneof![-15i64..15, any::<i64>()],
            stop in prop_oneof![-15i64..15, any::<i64>()],
        ) {
            let text = |text: String| text.parse::<Region>().unwrap().resolve(&[len]);
            prop_assert_eq!(resolve_at(start, &[len]), text(format!("{start}")));
            prop_assert_eq!(resolve_at(start..stop, &[len]), text(format!("{start}:{stop}")));
            prop_assert_eq!(resolve_at(start.., &[len]), text(format!("{start}:")));
            prop_assert_eq!(resolve_at(..stop, &[len]), text(format!(":{stop}")));
            let behind = if stop == -1 { String::new() } else { (i128::from(stop) + 1).to_string() };
            prop_assert_eq!(resolve_at(start..=stop, &[len]), text(format!("{start}:{behind}")));
            prop_assert_eq!(resolve_at(..=stop, &[len]), text(format!(":{behind}")));
            let (first, last) = (start.unsigned_abs(), stop.unsigned_abs());
            prop_assert_eq!(resolve_at(first..last, &[len]), text(format!("{first}:{last}")));
        }
    }
}
