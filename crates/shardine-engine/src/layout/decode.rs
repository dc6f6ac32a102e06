use std::sync::{Mutex, PoisonError};

use shardine_codec::strided::{self, Axes, OutOfMemory, Placement, Stores, Window};
use shardine_codec::{CodecError, Context, ElementSize, FillValue, VariableElements};

use super::{Layout, Leaf, ShardLayout, StagedLayout, select};
use crate::selection::Selection;
use crate::shard::ShardError;

/// Bytes of a handle, which stands for a variable-length element while elements are moved into
/// place.
pub const HANDLE: usize = 8;

/// The handle of the fill value.
const FILL_HANDLE: [u8; HANDLE] = [0xFF; HANDLE];

/// Why encoded bytes could not be decoded.
#[derive(Debug, Clone, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum DecodeError {
    /// A codec refused the bytes of a chunk.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// A shard contradicts its format.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// A chunk inside a shard cannot be decoded.
    #[error("chunk {entry} of the inner shard: {source}")]
    Nested {
        /// Its number in the index.
        entry: usize,
        /// What is wrong with it.
        source: Box<DecodeError>,
    },
    /// A chunk does not fit the memory it goes to; a bug here, not in the data.
    #[error(transparent)]
    Place(#[from] OutOfMemory),
    /// There are more variable-length elements than handles.
    #[error("too many variable-length elements for one read")]
    TooManyElements,
}

/// The destination of decoded elements.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The memory that elements go to.
    pub window: Window<'a>,
    /// Bytes of an element or of a handle.
    pub element: usize,
    /// The fill value for absent elements, or its handle.
    pub fill: &'a [u8],
    /// For variable-length types: holds the elements behind the handles.
    pub table: Option<&'a VariableTable>,
    /// Which kind of stores writes them.
    pub stores: Stores,
}

/// The elements behind the handles of one read, chunk by chunk.
#[derive(Debug, Default)]
pub struct VariableTable {
    chunks: Mutex<Vec<VariableElements>>,
}

impl VariableTable {
    /// Adds elements and returns the handle of the first; the others follow it.
    fn add(&self, elements: VariableElements) -> Result<u64, DecodeError> {
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let number = u32::try_from(chunks.len()).map_err(|_| DecodeError::TooManyElements)?;
        if number == u32::MAX || u32::try_from(elements.len()).is_err() {
            return Err(DecodeError::TooManyElements);
        }
        chunks.push(elements);
        Ok(u64::from(number) << 32)
    }

    /// The elements that a run of handles stands for.
    pub fn resolve(&self, handles: &[u8], fill: &FillValue) -> VariableElements {
        let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = VariableElements::new();
        let (handles, _) = handles.as_chunks::<HANDLE>();
        for handle in handles {
            let element = if *handle == FILL_HANDLE {
                None
            } else {
                let handle = u64::from_le_bytes(*handle);
                let chunk = chunks.get((handle >> 32) as usize);
                chunk.and_then(|c| c.get((handle & 0xFFFF_FFFF) as usize))
            };
            out.push(element.unwrap_or(&fill.0));
        }
        out
    }
}

impl<'a> Target<'a> {
    /// A target for elements of this layout's type.
    pub fn new(layout: &'a Layout, window: Window<'a>, table: &'a VariableTable) -> Self {
        let spec = layout.spec();
        let stores = Stores::Cached;
        match spec.data_type.size() {
            ElementSize::Fixed(element) => {
                Self { window, element, fill: &spec.fill.0, table: None, stores }
            }
            ElementSize::Variable => {
                Self { window, element: HANDLE, fill: &FILL_HANDLE, table: Some(table), stores }
            }
        }
    }

    /// Stores elements past the caches: for a large target that has been used before.
    pub fn streaming(self) -> Self {
        Self { stores: Stores::Streaming, ..self }
    }

    /// Writes the fill value to every selected place.
    ///
    /// # Safety
    /// Nobody else may touch the box at the same time.
    pub unsafe fn fill(&self, selection: &Selection, place: &Placement) -> Result<(), DecodeError> {
        // SAFETY: upheld by the caller.
        unsafe { strided::fill_into(&counts(selection), self.fill, &self.window, place)? };
        Ok(())
    }
}

pub(super) fn counts(selection: &Selection) -> Axes<usize> {
    selection.axes.iter().map(|a| a.count as usize).collect()
}

/// The place of the first element of a part.
pub fn advance(place: &Placement, at: &[u64]) -> Placement {
    let ahead: usize = at.iter().zip(&place.strides).map(|(&i, &s)| i as usize * s).sum();
    Placement { start: place.start + ahead, strides: place.strides.clone() }
}

impl Layout {
    /// Decodes the selected elements of an encoded chunk or shard into place.
    ///
    /// # Safety
    /// Nobody else may touch the box at `place` at the same time.
    pub unsafe fn decode(
        &self,
        context: &mut Context,
        encoded: &[u8],
        selection: &Selection,
        target: &Target<'_>,
        place: &Placement,
    ) -> Result<(), DecodeError> {
        match self {
            // SAFETY: upheld by the caller.
            Self::Chunk(leaf) => unsafe { leaf.decode(context, encoded, selection, target, place) },
            // SAFETY: as above.
            Self::Shard(shard) => unsafe {
                shard.decode(context, encoded, selection, target, place)
            },
            // SAFETY: as above.
            Self::Staged(staged) => unsafe {
                staged.decode(context, encoded, selection, target, place)
            },
        }
    }

    /// Decodes all elements into `out`, in C order along the axes of the array.
    pub fn decode_whole(
        &self,
        context: &mut Context,
        encoded: &[u8],
        out: &mut [u8],
    ) -> Result<(), DecodeError> {
        let spec = self.spec();
        let table = VariableTable::default();
        let place = Placement::contiguous(&spec.shape, self.element_size()).ok_or(OutOfMemory)?;
        let target = Target::new(self, Window::new(out), &table);
        // SAFETY: the window is an exclusive borrow that only this call uses.
        unsafe { self.decode(context, encoded, &Selection::whole(&spec.shape), &target, &place) }
    }
}

impl Leaf {
    /// The placement of the selected elements in the decoded chunk, by axis of the array.
    pub fn selected(&self, selection: &Selection) -> Placement {
        select(&self.strides, selection)
    }

    /// # Safety
    /// Nobody else may touch the box at `place` at the same time.
    unsafe fn decode(
        &self,
        context: &mut Context,
        encoded: &[u8],
        selection: &Selection,
        target: &Target<'_>,
        place: &Placement,
    ) -> Result<(), DecodeError> {
        let shape = counts(selection);
        let from = self.selected(selection);
        if let Some(table) = target.table {
            let all = self.codec.decode_variable(context, encoded)?;
            let mut selected = VariableElements::new();
            for_each_offset(&shape, &from, |at| {
                selected.push(all.get(at / HANDLE).unwrap_or_default());
            });
            let count = selected.len() as u64;
            let first = table.add(selected)?;
            let handles: Vec<u8> = (first..first + count).flat_map(u64::to_le_bytes).collect();
            let source = Placement::contiguous(&selection.shape(), HANDLE).ok_or(OutOfMemory)?;
            // SAFETY: upheld by the caller.
            unsafe {
                strided::copy_into(&shape, HANDLE, &handles, &source, &target.window, place)?
            };
            return Ok(());
        }
        if selection.covers(&self.codec.spec().shape) && from.strides == place.strides {
            let len = self.codec.stored().byte_len().ok_or(OutOfMemory)?;
            // SAFETY: the whole chunk is contiguous at `place`, which belongs to the caller alone.
            let out = unsafe { target.window.slice(place.start, len) }.ok_or(OutOfMemory)?;
            return Ok(self.codec.decode_into(context, encoded, out)?);
        }
        let decoded = self.codec.decode(context, encoded)?;
        // SAFETY: upheld by the caller.
        unsafe {
            strided::copy_into_with(
                &shape,
                target.element,
                decoded.as_ref(),
                &from,
                &target.window,
                place,
                target.stores,
            )?;
        }
        decoded.recycle(context);
        Ok(())
    }
}

/// Calls `visit` with the offset of each element of a box, in C order.
pub fn for_each_offset(shape: &[usize], place: &Placement, mut visit: impl FnMut(usize)) {
    if shape.contains(&0) {
        return;
    }
    let mut counters: Axes<usize> = Axes::from_elem(0, shape.len());
    let mut at = place.start;
    loop {
        visit(at);
        let mut k = shape.len();
        loop {
            if k == 0 {
                return;
            }
            k -= 1;
            counters[k] += 1;
            at += place.strides[k];
            if counters[k] < shape[k] {
                break;
            }
            at -= place.strides[k] * shape[k];
            counters[k] = 0;
        }
    }
}

impl ShardLayout {
    /// # Safety
    /// Nobody else may touch the box at `place` at the same time.
    unsafe fn decode(
        &self,
        context: &mut Context,
        encoded: &[u8],
        selection: &Selection,
        target: &Target<'_>,
        place: &Placement,
    ) -> Result<(), DecodeError> {
        let shard = self.after.decode(context, encoded)?;
        let bytes = shard.as_ref();
        let len = bytes.len() as u64;
        let range = self.index.range(len)?;
        let index_bytes = &bytes[range.start as usize..range.end as usize];
        let index = self.index.decode(context, index_bytes, len)?;
        let place = self.placement_to_stored(place);
        for cell in self.selection_to_stored(selection).cells(&self.chunk_shape) {
            let entry = self.entry(&cell.index);
            let place = advance(&place, &cell.at);
            match index.get(entry)? {
                // SAFETY: each cell's box is part of the caller's box.
                None => unsafe { target.fill(&cell.selection, &place)? },
                Some(range) => {
                    let chunk = &bytes[range.start as usize..range.end as usize];
                    // SAFETY: as above.
                    let result = unsafe {
                        self.inner.decode(context, chunk, &cell.selection, target, &place)
                    };
                    result.map_err(|e| DecodeError::Nested { entry, source: Box::new(e) })?;
                }
            }
        }
        shard.recycle(context);
        Ok(())
    }
}

impl StagedLayout {
    /// Decodes all elements, in C order along the axes of the array.
    pub fn decode_elements(
        &self,
        context: &mut Context,
        encoded: &[u8],
    ) -> Result<Vec<u8>, DecodeError> {
        let len = self.inner.spec().byte_len().ok_or(OutOfMemory)?;
        let mut elements = context.take_filled(len)?;
        self.inner.decode_whole(context, encoded, &mut elements)?;
        Ok(self.stages.decode(context, elements)?)
    }

    /// # Safety
    /// Nobody else may touch the box at `place` at the same time.
    unsafe fn decode(
        &self,
        context: &mut Context,
        encoded: &[u8],
        selection: &Selection,
        target: &Target<'_>,
        place: &Placement,
    ) -> Result<(), DecodeError> {
        let elements = self.decode_elements(context, encoded)?;
        let all = Placement::contiguous(&self.spec.shape, target.element).ok_or(OutOfMemory)?;
        let from = select(&all.strides, selection);
        let shape = counts(selection);
        // SAFETY: upheld by the caller.
        unsafe {
            strided::copy_into(&shape, target.element, &elements, &from, &target.window, place)?;
        }
        Ok(())
    }
}
