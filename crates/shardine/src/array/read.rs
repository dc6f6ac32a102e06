//! Reading regions.

use shardine_codec::strided::{Placement, Window};
use shardine_codec::{ElementSize, Elements};
use smallvec::SmallVec;

use super::Array;
use crate::Error;
use crate::layout::{Target, VariableTable};
use crate::selection::{Region, RegionError, Selection};

/// Bytes from which on a caller's buffer is filled past the caches.
const STREAMED: usize = 16 << 20;

impl Array {
    /// Reads a region into fresh memory.
    ///
    /// Costs one request for an index that is not known yet and one for each run of chunks; the
    /// memory of the region and what the engine's budget allows beside it.
    pub fn read(&self, region: &Region) -> Result<Elements, Error> {
        let selection = region.resolve(self.shape())?;
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

    /// Reads many regions in one go, each into memory of its own.
    ///
    /// They are planned together: each shard index is read once for all of them, neighbouring
    /// chunks are merged into one read, and a remote store is asked in parallel. Many small regions
    /// cost little more than one large one.
    pub fn read_many(&self, regions: &[Region]) -> Result<Vec<Elements>, Error> {
        let mut wanted = Vec::with_capacity(regions.len());
        let mut ends = Vec::with_capacity(regions.len());
        let mut end = 0usize;
        for region in regions {
            let selection = region.resolve(self.shape())?;
            let mut place = self.c_order(&selection)?;
            place.start = end;
            let next =
                self.len_of(&selection)?.checked_add(end).filter(|&n| isize::try_from(n).is_ok());
            end = next.ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })?;
            ends.push(end);
            wanted.push((selection, place));
        }
        let too_large = || RegionError::TooLarge { shape: vec![end as u64] };
        let mut out = self.engine().memory_for_result(end).ok_or_else(too_large)?;
        self.consistently(&wanted, &mut |array| {
            let table = VariableTable::default();
            // SAFETY: in C order no two elements have the same place, and each region begins where
            // the last one ends.
            unsafe { array.read_selections(&wanted, &mut out, &table, false) }?;
            let mut start = 0;
            let parts = ends.iter().map(|&end| &out[std::mem::replace(&mut start, end)..end]);
            Ok(match array.data_type().size() {
                ElementSize::Fixed(_) => parts.map(|part| Elements::Fixed(part.to_vec())).collect(),
                ElementSize::Variable => {
                    let fill = array.fill();
                    parts.map(|part| Elements::Variable(table.resolve(part, fill))).collect()
                }
            })
        })
    }

    /// Reads a region of fixed-size elements into the caller's buffer, in C order.
    ///
    /// The buffer must have exactly the region's size. After an error its content is unspecified.
    pub fn read_into(&self, region: &Region, out: &mut [u8]) -> Result<(), Error> {
        let selection = region.resolve(self.shape())?;
        let expected = match self.data_type().size() {
            ElementSize::Fixed(_) => self.len_of(&selection)?,
            ElementSize::Variable => 0,
        };
        if expected != out.len() || self.data_type().size() == ElementSize::Variable {
            let (expected, actual) = (expected as u64, out.len() as u64);
            return Err(RegionError::BufferSize { expected, actual }.into());
        }
        let place = self.c_order(&selection)?;
        // SAFETY: in C order no two elements have the same place.
        unsafe { self.read_to(selection, out, place) }
    }

    /// Reads a region of fixed-size elements to places of the caller's choice: in Fortran order, or
    /// into a part of a larger array.
    ///
    /// Element `i` of the region goes to byte `place.start + sum(i[k] * place.strides[k])` of
    /// `out`; bytes between elements are left as they are. No two elements may have the same place.
    /// After an error the content of the places is unspecified.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use shardine::{ArrayNode, Engine, Location, Placement, Region, zarr::metadata::NodeMetadata};
    /// # let document = br#"{
    /// #     "zarr_format": 3, "node_type": "array", "shape": [2, 3], "data_type": "uint8",
    /// #     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}},
    /// #     "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [{"name": "bytes"}]
    /// # }"#;
    /// # let NodeMetadata::Array(metadata) = NodeMetadata::parse(document)? else { unreachable!() };
    /// # let location = Location::root(Arc::new(shardine::store::MemoryStore::new()));
    /// # let array = ArrayNode::create(&Engine::shared()?, &location, metadata, false)?;
    /// # let elements = shardine::Elements::Fixed(vec![1, 2, 3, 4, 5, 6]);
    /// # array.write(&Region::all(), elements.as_ref(), &Default::default())?;
    /// let mut columns = [0; 6];
    /// let place = Placement::fortran(&[2, 3], 1).ok_or("too large")?;
    /// array.read_placed(&Region::all(), &mut columns, &place)?;
    /// assert_eq!(columns, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_placed(
        &self,
        region: &Region,
        out: &mut [u8],
        place: &Placement,
    ) -> Result<(), Error> {
        let selection = region.resolve(self.shape())?;
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
        // SAFETY: it was checked that no two elements have the same place.
        unsafe { self.read_to(selection, out, place.clone()) }
    }

    /// The places of a selection's elements in C order.
    fn c_order(&self, selection: &Selection) -> Result<Placement, RegionError> {
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
    ) -> Result<(), Error> {
        let wanted = [(selection, place)];
        // What is larger than a cache would only push out of it what is needed there.
        let streaming = out.len() >= STREAMED;
        self.consistently(&wanted, &mut |array| {
            // SAFETY: passed on from the caller.
            unsafe { array.read_selections(&wanted, out, &VariableTable::default(), streaming) }
        })
    }

    /// Reads selections to their places in `out`, past the caches with `streaming`.
    ///
    /// # Safety
    /// No two elements may have the same place.
    unsafe fn read_selections(
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
        // SAFETY: the window is of a borrow that nobody else has, and the caller says that places are distinct.
        unsafe { self.chunks.read(wanted, &target) }?;
        Ok(())
    }

    /// Bytes that a selection takes while it is read.
    fn len_of(&self, selection: &Selection) -> Result<usize, RegionError> {
        let element = self.chunks.layout.element_size();
        let count = |n: usize, axis: &crate::Axis| n.checked_mul(usize::try_from(axis.count).ok()?);
        let len = selection.axes.iter().try_fold(element, count);
        len.filter(|&n| isize::try_from(n).is_ok())
            .ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })
    }
}
