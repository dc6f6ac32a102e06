//! Reading and writing elements as Rust values.

use std::borrow::Cow;

use shardine_codec::strided;
use shardine_codec::{Element, ElementsRef};

use super::Array;
use super::read::STREAMED;
use crate::Error;
use crate::engine::{WriteOptions, WriteReport};
use crate::selection::{IntoRegion, RegionError, Selection};

impl Array {
    /// Reads a region into fresh memory, in C order.
    ///
    /// `T` must be the type that the array holds, see [`Element`]; otherwise the error is
    /// [`Error::ElementType`], which names both. See [`IntoRegion`] for what a region can be.
    ///
    /// Costs one request for each index that is not cached and one for each run of chunks, and
    /// memory for the region plus what the engine's budget allows. Chunks are decoded in parallel,
    /// straight into the result.
    ///
    /// ```
    /// # use shardine::{Array, Location};
    /// let array = Array::builder([100, 100], "uint16").create(&Location::memory())?;
    /// array.write((10..12, 5..8), &[1u16, 2, 3, 4, 5, 6])?;
    /// assert_eq!(array.read::<u16>((11, 4..9))?, [0, 4, 5, 6, 0]);
    /// assert_eq!(array.read::<u16>("10:12, 6")?, [2, 5]);
    ///
    /// let refused = array.read::<f32>(..).unwrap_err();
    /// assert!(refused.to_string().ends_with("holds uint16, not f32"));
    /// # Ok::<(), shardine::Error>(())
    /// ```
    pub fn read<T: Element>(&self, region: impl IntoRegion) -> Result<Vec<T>, Error> {
        self.check_type::<T>()?;
        let selection = region.resolve_in(self.shape())?;
        self.read_selection(selection)
    }

    /// Reads a selection of elements whose type was checked.
    pub(super) fn read_selection<T: Element>(&self, selection: Selection) -> Result<Vec<T>, Error> {
        // Limited in bytes too.
        let count = self.len_of(&selection)? / size_of::<T>();
        let memory = self.engine().memory_for_result::<T::Memory>(count);
        let mut memory =
            memory.ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })?;
        let bytes = bytemuck::must_cast_slice_mut(&mut memory);
        self.read_in_c_order(selection, bytes, false)?;
        self.swap_on_big_endian(bytes);
        self.valid(T::from_memory(memory))
    }

    /// Reads a region into the caller's memory, in C order.
    ///
    /// The slice must have exactly as many elements as the region. After an error its content is
    /// unspecified. `bool` elements go through a buffer, all others are decoded straight into the
    /// slice.
    ///
    /// ```
    /// # use shardine::{Array, Location};
    /// let array = Array::builder([4, 4], "float32").fill(0.5).create(&Location::memory())?;
    /// let mut row = [0.0f32; 4];
    /// array.read_into(2, &mut row)?;
    /// assert_eq!(row, [0.5; 4]);
    /// # Ok::<(), shardine::Error>(())
    /// ```
    pub fn read_into<T: Element>(
        &self,
        region: impl IntoRegion,
        out: &mut [T],
    ) -> Result<(), Error> {
        self.check_type::<T>()?;
        let selection = region.resolve_in(self.shape())?;
        self.check_count(&selection, out)?;
        T::fill(out, |bytes| {
            let streaming = bytes.len() >= STREAMED;
            self.read_in_c_order(selection, bytes, streaming)?;
            self.swap_on_big_endian(bytes);
            Ok(())
        })
        .map_err(|failure| match failure {
            Failure::Read(error) => error,
            Failure::Invalid(source) => self.invalid(source),
        })
    }

    /// Reads many regions in one call, each into memory of its own.
    ///
    /// They are planned together: each shard index is read once for all of them, neighbouring
    /// chunks are merged into one read, and requests to a remote store run in parallel. Many small
    /// regions cost little more than one large one. All of them are briefly in memory twice.
    ///
    /// ```
    /// # use shardine::{Array, Location};
    /// let array = Array::builder([8], "int32").create(&Location::memory())?;
    /// array.write(.., &[0, 1, 2, 3, 4, 5, 6, 7])?;
    /// let parts = array.read_many::<i32>([2..4, 6..8])?;
    /// assert_eq!(parts, [[2, 3], [6, 7]]);
    /// # Ok::<(), shardine::Error>(())
    /// ```
    pub fn read_many<T: Element>(
        &self,
        regions: impl IntoIterator<Item: IntoRegion>,
    ) -> Result<Vec<Vec<T>>, Error> {
        self.check_type::<T>()?;
        let regions = self.one_after_another(regions)?;
        let count = regions.end() / size_of::<T>();
        let memory = self.engine().memory_for_result::<T::Memory>(count);
        let too_large = || RegionError::TooLarge { shape: vec![count as u64] };
        let mut memory = memory.ok_or_else(too_large)?;
        let bytes = bytemuck::must_cast_slice_mut(&mut memory);
        self.read_one_after_another(&regions, bytes, |_, _, _| ())?;
        self.swap_on_big_endian(bytes);
        let parts = regions.ranges().map(|range| {
            let part = &memory[range.start / size_of::<T>()..range.end / size_of::<T>()];
            self.valid(T::from_memory(part.to_vec()))
        });
        parts.collect()
    }

    /// Writes a region from memory, in C order.
    ///
    /// `T` must be the type that the array holds, and there must be exactly as many elements as in
    /// the region.
    ///
    /// Each shard changes atomically. A shard that is only partly covered is rewritten, its other
    /// chunks copied as bytes, or updated in place; [`write_with`](Self::write_with) takes the
    /// strategy. Concurrent writers of a shard wait for each other; if another writer got there
    /// first, its change is kept and this one is applied on top of it.
    ///
    /// ```
    /// # use shardine::{Array, Location};
    /// let array = Array::builder([100, 100], "uint8").create(&Location::memory())?;
    /// let report = array.write((90.., 90..), &[7u8; 100])?;
    /// assert_eq!(report.objects_written, 1);
    /// assert_eq!(array.read::<u8>((89..91, 99))?, [0, 7]);
    /// # Ok::<(), shardine::Error>(())
    /// ```
    pub fn write<T: Element>(
        &self,
        region: impl IntoRegion,
        elements: &[T],
    ) -> Result<WriteReport, Error> {
        self.write_with(region, elements, &WriteOptions::new())
    }

    /// Writes a region from memory with these options. See [`write`](Self::write).
    pub fn write_with<T: Element>(
        &self,
        region: impl IntoRegion,
        elements: &[T],
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        self.format.check_writable(&self.location)?;
        self.check_type::<T>()?;
        let selection = region.resolve_in(self.shape())?;
        self.check_count(&selection, elements)?;
        let bytes = self.little_endian(elements);
        self.write_selection(selection, ElementsRef::Fixed(&bytes), options)
    }

    /// Writes many regions from memory in one call; where they overlap, later ones win.
    ///
    /// Each shard changes once and atomically, however many regions touch it. Costs what the
    /// regions would cost one by one, except that shards they share are written once. A chunk that
    /// several regions touch is encoded once, unless its elements have variable lengths or a codec
    /// encodes whole shards: then once for each of them.
    ///
    /// ```
    /// # use shardine::{Array, Location, WriteOptions};
    /// let array = Array::builder([4], "uint8").create(&Location::memory())?;
    /// let parts = [(0..3, &[1u8, 1, 1][..]), (2..3, &[2])];
    /// array.write_many(parts, &WriteOptions::new())?;
    /// assert_eq!(array.read::<u8>(..)?, [1, 1, 2, 0]);
    /// # Ok::<(), shardine::Error>(())
    /// ```
    pub fn write_many<'a, T: Element>(
        &self,
        parts: impl IntoIterator<Item = (impl IntoRegion, &'a [T])>,
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        self.format.check_writable(&self.location)?;
        self.check_type::<T>()?;
        let mut owned = Vec::new();
        for (region, elements) in parts {
            let selection = region.resolve_in(self.shape())?;
            self.check_count(&selection, elements)?;
            owned.push((selection, self.little_endian(elements)));
        }
        let parts: Vec<_> = owned
            .iter()
            .map(|(selection, bytes)| (selection.clone(), ElementsRef::Fixed(bytes)))
            .collect();
        self.write_selections(&parts, options)
    }

    /// An error if the elements are not values of this type.
    pub(crate) fn check_type<T: Element>(&self) -> Result<(), Error> {
        if T::is_in(self.data_type()) {
            return Ok(());
        }
        Err(Error::ElementType {
            at: self.location.to_string(),
            held: self.data_type().clone(),
            asked: T::NAME,
        })
    }

    fn check_count<T>(&self, selection: &Selection, elements: &[T]) -> Result<(), RegionError> {
        let expected = self.len_of(selection)? / size_of::<T>();
        if expected == elements.len() {
            return Ok(());
        }
        let (shape, actual) = (selection.shape(), elements.len() as u64);
        Err(RegionError::ElementCount { shape, expected: expected as u64, actual })
    }

    /// Elements in the byte order that the engine takes.
    pub(crate) fn little_endian<'a, T: Element>(&self, elements: &'a [T]) -> Cow<'a, [u8]> {
        let mut bytes = Cow::Borrowed(T::as_bytes(elements));
        if cfg!(target_endian = "big") {
            self.swap_on_big_endian(bytes.to_mut());
        }
        bytes
    }

    /// Swaps the bytes of elements on big-endian machines, since the engine's are little-endian.
    fn swap_on_big_endian(&self, bytes: &mut [u8]) {
        if cfg!(target_endian = "big") {
            let element = self.chunks.layout.element_size();
            strided::swap_units(bytes, element, self.data_type().swap_units());
        }
    }

    fn valid<T>(&self, elements: Result<T, shardine_codec::InvalidElement>) -> Result<T, Error> {
        elements.map_err(|source| self.invalid(source))
    }

    fn invalid(&self, source: shardine_codec::InvalidElement) -> Error {
        Error::InvalidElement { at: self.location.to_string(), source }
    }
}

/// Why elements could not be read into the caller's memory.
enum Failure {
    Read(Error),
    Invalid(shardine_codec::InvalidElement),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

impl From<shardine_codec::InvalidElement> for Failure {
    fn from(source: shardine_codec::InvalidElement) -> Self {
        Self::Invalid(source)
    }
}
