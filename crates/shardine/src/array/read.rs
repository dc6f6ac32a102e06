//! Reading regions as bytes, whatever the type. `typed.rs` has what most programs call.

use std::ops::Range;

use shardine_codec::strided::{Placement, Window};
use shardine_codec::{ElementSize, Elements, VariableElements};
use smallvec::SmallVec;

use super::Array;
use crate::Error;
use crate::layout::{Target, VariableTable};
use crate::selection::{IntoRegion, Region, RegionError, Selection};

/// Buffers of at least this many bytes are filled past the caches: anything larger than a cache
/// would only evict what is needed there.
pub(super) const STREAMED: usize = 16 << 20;

/// Selections whose elements lie in one buffer, one after another, each in C order.
pub(super) struct OneAfterAnother {
    wanted: Vec<(Selection, Placement)>,
    /// Where in the buffer each ends, in bytes.
    ends: Vec<usize>,
}

impl OneAfterAnother {
    /// The total number of bytes.
    pub(super) fn end(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The bytes of each selection.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let mut start = 0;
        self.ends.iter().map(move |&end| std::mem::replace(&mut start, end)..end)
    }
}

impl Array {
    /// Reads a region into fresh memory, whatever the type: for strings and other variable-length
    /// elements, and for callers that learn the type at run time. See [`read`](Self::read).
    ///
    /// Fixed-size elements are little-endian bytes, in C order.
    ///
    /// ```
    /// # use shardine::{Array, Elements, Location};
    /// # let location = Location::memory();
    /// let array = Array::builder([4], "string").create(&location)?;
    /// let words: shardine::VariableElements = ["to", "be"].into_iter().collect();
    /// array.write_elements(1..3, shardine::ElementsRef::Variable(&words), &Default::default())?;
    /// let Elements::Variable(words) = array.read_elements(..)? else { unreachable!() };
    /// assert_eq!(words.iter().collect::<Vec<_>>(), [&b""[..], b"to", b"be", b""]);
    /// # Ok::<(), shardine::Error>(())
    /// ```
    pub fn read_elements(&self, region: impl IntoRegion) -> Result<Elements, Error> {
        let selection = region.resolve_in(self.shape())?;
        let len = self.len_of(&selection)?;
        let memory = self.engine().memory_for_result(len);
        let mut out = memory.ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })?;
        let place = self.c_order(&selection)?;
        let wanted = [(selection, place)];
        let elements = self.consistently(&wanted, &mut |array| {
            let table = VariableTable::default();
            // SAFETY: in C order no two elements have the same place.
            unsafe { array.read_selections(&wanted, &mut out, &table, false) }?;
            Ok(match array.data_type().size() {
                ElementSize::Fixed(_) => None,
                ElementSize::Variable => Some(table.resolve(&out, array.fill())),
            })
        })?;
        Ok(elements.map_or(Elements::Fixed(out), Elements::Variable))
    }

    /// Reads many regions in one call, whatever the type. See [`read_many`](Self::read_many).
    pub fn read_many_elements(&self, regions: &[Region]) -> Result<Vec<Elements>, Error> {
        let regions = self.one_after_another(regions)?;
        let end = regions.end();
        let too_large = || RegionError::TooLarge { shape: vec![end as u64] };
        let mut out = self.engine().memory_for_result(end).ok_or_else(too_large)?;
        self.read_one_after_another(&regions, &mut out, |array, table, out| {
            let parts = regions.ranges().map(|range| &out[range]);
            match array.data_type().size() {
                ElementSize::Fixed(_) => parts.map(|part| Elements::Fixed(part.to_vec())).collect(),
                ElementSize::Variable => {
                    let fill = array.fill();
                    parts.map(|part| Elements::Variable(table.resolve(part, fill))).collect()
                }
            }
        })
    }

    /// Reads many regions of variable-length elements in one call, into one table: those of the first
    /// region, then those of the next. Elements of fixed size are no elements here.
    pub(crate) fn read_many_variable(&self, regions: &[Region]) -> Result<VariableElements, Error> {
        let regions = self.one_after_another(regions)?;
        let end = regions.end();
        let too_large = || RegionError::TooLarge { shape: vec![end as u64] };
        let mut out = self.engine().memory_for_result(end).ok_or_else(too_large)?;
        self.read_one_after_another(&regions, &mut out, |array, table, out| {
            match array.data_type().size() {
                ElementSize::Fixed(_) => VariableElements::new(),
                ElementSize::Variable => table.resolve(out, array.fill()),
            }
        })
    }

    /// Lays regions out in one buffer.
    pub(super) fn one_after_another(
        &self,
        regions: impl IntoIterator<Item: IntoRegion>,
    ) -> Result<OneAfterAnother, Error> {
        let (mut wanted, mut ends, mut end) = (Vec::new(), Vec::new(), 0usize);
        for region in regions {
            let selection = region.resolve_in(self.shape())?;
            let mut place = self.c_order(&selection)?;
            place.start = end;
            let next =
                self.len_of(&selection)?.checked_add(end).filter(|&n| isize::try_from(n).is_ok());
            end = next.ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })?;
            ends.push(end);
            wanted.push((selection, place));
        }
        Ok(OneAfterAnother { wanted, ends })
    }

    /// Reads the regions into a buffer of their size, and builds a result from it with `result`.
    pub(super) fn read_one_after_another<T>(
        &self,
        regions: &OneAfterAnother,
        out: &mut [u8],
        result: impl Fn(&Array, &VariableTable, &[u8]) -> T,
    ) -> Result<T, Error> {
        self.consistently(&regions.wanted, &mut |array| {
            let table = VariableTable::default();
            // SAFETY: in C order no two elements have the same place, and each region begins where
            // the last one ends.
            unsafe { array.read_selections(&regions.wanted, out, &table, false) }?;
            Ok(result(array, &table, out))
        })
    }

    /// Reads a region of fixed-size elements into the caller's buffer, as little-endian bytes in C
    /// order. See [`read_into`](Self::read_into).
    ///
    /// The buffer must have exactly the region's size. After an error its content is unspecified.
    pub fn read_bytes_into(&self, region: impl IntoRegion, out: &mut [u8]) -> Result<(), Error> {
        let selection = region.resolve_in(self.shape())?;
        let expected = match self.data_type().size() {
            ElementSize::Fixed(_) => self.len_of(&selection)?,
            ElementSize::Variable => 0,
        };
        if expected != out.len() || self.data_type().size() == ElementSize::Variable {
            let (expected, actual) = (expected as u64, out.len() as u64);
            return Err(RegionError::BufferSize { expected, actual }.into());
        }
        self.read_in_c_order(selection, out, out.len() >= STREAMED)
    }

    /// Reads a selection into a buffer of its size, past the caches if `streaming`.
    pub(super) fn read_in_c_order(
        &self,
        selection: Selection,
        out: &mut [u8],
        streaming: bool,
    ) -> Result<(), Error> {
        let place = self.c_order(&selection)?;
        // SAFETY: in C order no two elements have the same place.
        unsafe { self.read_to(selection, out, place, streaming) }
    }

    /// Reads a region of fixed-size elements, as little-endian bytes, to places that the caller
    /// chooses: in Fortran order, say, or into part of a larger array.
    ///
    /// Element `i` of the region goes to byte `place.start + sum(i[k] * place.strides[k])` of
    /// `out`; bytes between elements are left as they are. No two elements may have the same place.
    /// After an error the content of the places is unspecified.
    ///
    /// ```
    /// # use shardine::{Array, Location, Placement};
    /// # let location = Location::memory();
    /// let array = Array::builder([2, 3], "uint8").create(&location)?;
    /// array.write(.., &[1u8, 2, 3, 4, 5, 6])?;
    /// let mut columns = [0; 6];
    /// let place = Placement::fortran(&[2, 3], 1).ok_or("too large")?;
    /// array.read_bytes_placed(.., &mut columns, &place)?;
    /// assert_eq!(columns, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_bytes_placed(
        &self,
        region: impl IntoRegion,
        out: &mut [u8],
        place: &Placement,
    ) -> Result<(), Error> {
        let selection = region.resolve_in(self.shape())?;
        let ElementSize::Fixed(element) = self.data_type().size() else {
            let reason = "elements of variable length have no places";
            return Err(RegionError::Places { reason }.into());
        };
        let counts: Option<Vec<usize>> =
            selection.axes.iter().map(|axis| usize::try_from(axis.count).ok()).collect();
        let counts = counts.ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })?;
        place
            .check_distinct(&counts, element, out.len())
            .map_err(|reason| RegionError::Places { reason })?;
        let streaming = out.len() >= STREAMED;
        // SAFETY: checked above: no two elements have the same place.
        unsafe { self.read_to(selection, out, place.clone(), streaming) }
    }

    /// The places of a selection's elements in C order.
    pub(super) fn c_order(&self, selection: &Selection) -> Result<Placement, RegionError> {
        let counts: SmallVec<[u64; 6]> = selection.axes.iter().map(|axis| axis.count).collect();
        let place = Placement::contiguous(&counts, self.chunks.layout.element_size());
        place.ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })
    }

    /// # Safety
    /// No two elements of the selection may have the same place.
    unsafe fn read_to(
        &self,
        selection: Selection,
        out: &mut [u8],
        place: Placement,
        streaming: bool,
    ) -> Result<(), Error> {
        let wanted = [(selection, place)];
        self.consistently(&wanted, &mut |array| {
            // SAFETY: passed on from the caller.
            unsafe { array.read_selections(&wanted, out, &VariableTable::default(), streaming) }
        })
    }

    /// Reads selections to their places in `out`, past the caches if `streaming`.
    ///
    /// # Safety
    /// No two elements may have the same place.
    pub(super) unsafe fn read_selections(
        &self,
        wanted: &[(Selection, Placement)],
        out: &mut [u8],
        table: &VariableTable,
        streaming: bool,
    ) -> Result<(), Error> {
        let mut target = Target::new(&self.chunks.layout, Window::new(out), table);
        if streaming {
            target = target.streaming();
        }
        // SAFETY: the window comes from an exclusive borrow, and the caller guarantees distinct
        // places.
        unsafe { self.chunks.read(wanted, &target) }?;
        Ok(())
    }

    /// Bytes that a selection occupies while it is read.
    pub(super) fn len_of(&self, selection: &Selection) -> Result<usize, RegionError> {
        let element = self.chunks.layout.element_size();
        let count = |n: usize, axis: &crate::Axis| n.checked_mul(usize::try_from(axis.count).ok()?);
        let len = selection.axes.iter().try_fold(element, count);
        len.filter(|&n| isize::try_from(n).is_ok())
            .ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })
    }
}
