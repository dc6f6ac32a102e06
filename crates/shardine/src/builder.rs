//! Creating a new Zarr array.

use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_codec::{CodecSpec, DataType, DataTypeError, Element};

use crate::plan::{ArrayLayout, FillChoice, Packing};
use crate::shard::IndexLocation;
use crate::zarr::metadata::{ArrayMetadata, ChunkKeyEncoding};
use crate::zarr::{ArrayNode, CreateOptions};
use crate::{Array, CodecChoice, Engine, Error, IntoLocation};

/// A new Zarr array: its shape and type, and how it is to be stored.
///
/// Returned by [`Array::builder`]. The defaults are chunks of about 64^3 elements, shards of about
/// 64 MiB before compression, zstd, and a fill value of zero. Settings that do not fit together are
/// an error of [`create`](Self::create), which says what and why.
///
/// ```
/// use shardine::{Array, Location};
///
/// let array = Array::builder([512, 1024, 1024], "uint16")
///     .chunks([64, 64, 64])
///     .shards([256, 256, 256])
///     .codec("blosc:lz4:5")
///     .fill(7)
///     .dimension_names(["z", "y", "x"])
///     .attribute("unit", "nm")
///     .create(&Location::memory())?;
/// assert_eq!(array.read::<u16>((500, 0, ..3))?, [7, 7, 7]);
///
/// let refused = Array::builder([100, 100], "uint16").chunks([64]).create(&Location::memory());
/// assert_eq!(
///     refused.unwrap_err().to_string(),
///     "a chunk of [64]: one length above 0 is needed for each of the 2 axes"
/// );
/// # Ok::<(), shardine::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is made before `create`"]
pub struct ArrayBuilder {
    shape: Vec<u64>,
    data_type: Result<DataType, DataTypeError>,
    layout: ArrayLayout,
    options: CreateOptions,
}

impl Array {
    /// Begins a new Zarr array of this shape and type.
    ///
    /// The type is a [`DataType`] or the name of one: `uint16`, `float32`, `bool`, `string`, or
    /// numpy's `<u2` and `f4`.
    pub fn builder(
        shape: impl Into<Vec<u64>>,
        data_type: impl TryInto<DataType, Error: Into<DataTypeError>>,
    ) -> ArrayBuilder {
        ArrayBuilder {
            shape: shape.into(),
            data_type: data_type.try_into().map_err(Into::into),
            layout: ArrayLayout::default(),
            options: CreateOptions::default(),
        }
    }

    /// Begins a new Zarr array whose elements are values of `T`.
    ///
    /// ```
    /// # use shardine::{Array, Location};
    /// let array = Array::builder_of::<f32>([10]).create(&Location::memory())?;
    /// assert_eq!(array.data_type().name(), "float32");
    /// # Ok::<(), shardine::Error>(())
    /// ```
    pub fn builder_of<T: Element>(shape: impl Into<Vec<u64>>) -> ArrayBuilder {
        Self::builder(shape, DataType::of::<T>())
    }
}

impl ArrayBuilder {
    /// Sets the shape of chunks, in elements.
    pub fn chunks(mut self, shape: impl Into<Vec<u64>>) -> Self {
        self.layout.chunk = Some(shape.into());
        self
    }

    /// Sets the shape of shards, in elements. They hold whole chunks.
    pub fn shards(self, shape: impl Into<Vec<u64>>) -> Self {
        self.packing(Packing::Shard(shape.into()))
    }

    /// Stores each chunk as an object of its own.
    pub fn unsharded(self) -> Self {
        self.packing(Packing::Unsharded)
    }

    /// Packs chunks into shards by number or by size; see [`Packing`].
    pub fn packing(mut self, packing: Packing) -> Self {
        self.layout.packing = packing;
        self
    }

    /// Adds a codec that chunks go through, after those of earlier calls: `zstd:3`, `gzip:6`,
    /// `blosc:lz4:5`, `crc32c`, `transpose:2,1,0`, or `none` for no codec at all. See
    /// [`codec_words`](crate::codec_words).
    pub fn codec(mut self, word: impl Into<String>) -> Self {
        match &mut self.layout.codecs {
            Some(CodecChoice::Words(words)) => words.push(word.into()),
            codecs => *codecs = Some(CodecChoice::Words(vec![word.into()])),
        }
        self
    }

    /// Sets the codecs that chunks go through, in the form that metadata has, including the one
    /// that turns elements into bytes.
    pub fn codecs(mut self, codecs: impl Into<Vec<CodecSpec>>) -> Self {
        self.layout.codecs = Some(CodecChoice::Codecs(codecs.into()));
        self
    }

    /// Puts the index of each shard at its start or at its end; the end is the default.
    pub fn index(mut self, location: IndexLocation) -> Self {
        self.layout.index = Some(location);
        self
    }

    /// Sets the value of elements that were never written: a number, a `bool`, JSON as in metadata,
    /// or text such as `"NaN"`.
    pub fn fill(mut self, value: impl Into<FillChoice>) -> Self {
        self.layout.fill = Some(value.into());
        self
    }

    /// Names the axes.
    pub fn dimension_names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names = names.into_iter().map(|name| Some(name.into()));
        self.layout.dimension_names = Some(names.collect());
        self
    }

    /// Adds an attribute to those of earlier calls.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.layout.attributes.insert(name.into(), value.into());
        self
    }

    /// Sets the attributes, replacing those of earlier calls.
    pub fn attributes(mut self, attributes: Map<String, Value>) -> Self {
        self.layout.attributes = attributes;
        self
    }

    /// Sets how objects are named.
    pub fn key_encoding(mut self, encoding: ChunkKeyEncoding) -> Self {
        self.layout.key_encoding = Some(encoding);
        self
    }

    /// Sets how the array is stored, replacing what earlier calls said.
    pub fn layout(mut self, layout: ArrayLayout) -> Self {
        self.layout = layout;
        self
    }

    /// Replaces an array that already exists. A group is never replaced.
    pub fn overwrite(mut self) -> Self {
        self.options = self.options.overwrite(true);
        self
    }

    /// The metadata that the array would get, or why it cannot be created.
    pub fn metadata(&self) -> Result<ArrayMetadata, Error> {
        let data_type = self.data_type.as_ref().map_err(DataTypeError::clone)?;
        Ok(self.layout.metadata(&self.shape, data_type)?)
    }

    /// Creates the array at a URL, a path or a [`Location`](crate::Location), on the shared engine.
    ///
    /// Nothing may be there already, unless it is to be [overwritten](Self::overwrite). Costs a
    /// listing and a write.
    pub fn create(&self, at: impl IntoLocation) -> Result<ArrayNode, Error> {
        self.create_in(&Engine::shared()?, at)
    }

    /// Creates the array on the caller's engine. See [`create`](Self::create).
    pub fn create_in(
        &self,
        engine: &Arc<Engine>,
        at: impl IntoLocation,
    ) -> Result<ArrayNode, Error> {
        let (metadata, location) = (self.metadata()?, at.into_location()?);
        ArrayNode::create_with(engine, &location, metadata, &self.options)
    }
}

macro_rules! fill_choices {
    ($($number:ty)*) => {$(
        impl From<$number> for FillChoice {
            fn from(value: $number) -> Self {
                Self::Json(value.into())
            }
        }
    )*};
}

fill_choices!(u8 u16 u32 u64 i8 i16 i32 i64 bool);

impl From<f32> for FillChoice {
    fn from(value: f32) -> Self {
        f64::from(value).into()
    }
}

impl From<f64> for FillChoice {
    /// The bits of a NaN are not kept: every NaN becomes `"NaN"`.
    fn from(value: f64) -> Self {
        let name = match value {
            value if value.is_nan() => "NaN",
            f64::INFINITY => "Infinity",
            f64::NEG_INFINITY => "-Infinity",
            value => return Self::Json(value.into()),
        };
        Self::Json(name.into())
    }
}

impl From<&str> for FillChoice {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for FillChoice {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Value> for FillChoice {
    fn from(json: Value) -> Self {
        Self::Json(json)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Location;

    fn refusal(builder: &ArrayBuilder) -> String {
        let location = Location::memory();
        let refused = builder.create(&location).unwrap_err();
        // A refused array leaves nothing behind.
        assert!(location.store.list(None).unwrap().is_empty());
        refused.to_string()
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let array = || Array::builder([100, 100], "uint16");
        for (builder, reason) in [
            (array().chunks([64]), "a chunk of [64]: one length above 0"),
            (array().chunks([64, 0]), "a chunk of [64, 0]: one length above 0"),
            (array().shards([64]), "a shard of [64]: one length above 0"),
            (array().chunks([64, 64]).shards([64, 100]), "axis 1 does not hold whole chunks of 64"),
            (array().codec("zstd:high"), "\"high\" in \"zstd:high\" is not a level"),
            (array().codec("none").codec("zstd"), "none cannot be combined"),
            (array().fill(-1), "fill value -1 is not legal for data type \"uint16\""),
            (array().fill(0.5), "fill value 0.5 is not legal"),
            (array().fill("seven"), "fill value \"seven\" is not legal"),
            (array().dimension_names(["x"]), "1 names, but the array has 2 axes"),
            (Array::builder([1], "uint17"), "unknown data type \"uint17\""),
            (Array::builder([1], ">u2"), "a type has no byte order"),
        ] {
            let refused = refusal(&builder);
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn types_are_named_in_every_way() {
        let uint16 = DataType::of::<u16>();
        for builder in [
            Array::builder([3], "uint16"),
            Array::builder([3], "<u2".to_owned()),
            Array::builder(vec![3], &uint16),
            Array::builder(&[3][..], uint16.clone()),
            Array::builder([3], json!({"name": "uint16"})),
            Array::builder_of::<u16>([3]),
        ] {
            assert_eq!(*builder.metadata().unwrap().data_type(), uint16);
        }
    }

    #[test]
    fn a_fill_value_is_that_of_rust() {
        let fill = |builder: ArrayBuilder| builder.metadata().unwrap().fill().0.clone();
        let float = || Array::builder([1], "float32");
        assert_eq!(fill(Array::builder([1], "int8").fill(-3)), [253]);
        assert_eq!(fill(Array::builder([1], "uint64").fill(u64::MAX)), [255; 8]);
        assert_eq!(fill(Array::builder([1], "bool").fill(true)), [1]);
        assert_eq!(fill(Array::builder([1], "string").fill("none")), b"none");
        assert_eq!(fill(float().fill(0.1f32)), 0.1f32.to_le_bytes());
        assert_eq!(fill(float().fill(3)), 3f32.to_le_bytes());
        assert_eq!(fill(float().fill(f64::NEG_INFINITY)), f32::NEG_INFINITY.to_le_bytes());
        assert!(f32::from_le_bytes(fill(float().fill(f32::NAN)).try_into().unwrap()).is_nan());
        assert_eq!(fill(Array::builder([1], "complex64").fill(json!([0, 0]))), [0; 8]);
    }

    #[test]
    fn an_array_is_replaced_only_if_that_is_said() {
        let location = Location::memory();
        let builder = Array::builder([3], "uint8").fill(1);
        builder.create(&location).unwrap();
        assert!(matches!(builder.create(&location), Err(Error::Exists { .. })));
        let array = builder.fill(2).overwrite().create(&location).unwrap();
        assert_eq!(array.read::<u8>(..).unwrap(), [2; 3]);
    }

    #[test]
    fn what_is_said_is_what_is_stored() {
        let array = Array::builder([20, 30], "u2")
            .chunks([2, 3])
            .shards([10, 30])
            .codec("transpose:1,0")
            .codec("gzip:1")
            .index(IndexLocation::Start)
            .dimension_names(["y", "x"])
            .attribute("a", 1)
            .attribute("b", "c")
            .create(Location::memory())
            .unwrap();
        assert_eq!((array.chunk_shape(), array.shard_shape()), (&[2, 3][..], Some(&[10, 30][..])));
        let codecs = crate::codec_words::show_chain(array.codecs());
        assert_eq!(codecs, "transpose:1,0 -> bytes -> gzip:1");
        let names = array.axis_names().unwrap().iter().flatten().collect::<Vec<_>>();
        assert_eq!(names, ["y", "x"]);
        assert_eq!(Value::Object(array.metadata().attributes().clone()), json!({"a": 1, "b": "c"}));
        assert!(array.metadata().to_bytes().windows(7).any(|text| text == b"\"start\""));
    }
}
