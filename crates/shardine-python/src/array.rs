//! `ArrayBase`: what the class `Array` of the package is made of.
//!
//! Reading by integers and slices is one call into here. Everything else that numpy can index with
//! is brought into a simple form by `shardine._indexing` first.

use std::sync::{Arc, Mutex, PoisonError};

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyEllipsis, PyList, PySlice, PyString, PyTuple};
use shardine::codec_words::show_chain;
use shardine::zarr::{ArrayNode, SliceOptions, SliceWriter};
use shardine::{
    Array, Axis, ElementSize, Elements, ElementsRef, Error, Kind, Pick, Placement, Region,
    RegionAxes, RegionText, Selection, Source, SourceError, Strategy, VariableElements,
    WriteOptions, WriteReport,
};
use shardine_codec::strided;

use crate::engine::{self, Inherited};
use crate::index::{self, Basic, Dimension};
use crate::memory::{self, Memory};
use crate::place::Place;
use crate::{dtype, error, place, run};

/// Local calls that touch at most this many bytes of decoded chunks run on the calling thread: they
/// end before anyone could press a key.
const SHORT_READ: u64 = 16 << 20;

/// The same for writes, which take longer.
const SHORT_WRITE: u64 = 1 << 20;

/// Elements along one axis, as Python passes them: start, step, count.
type AxisTuple = (u64, u64, u64);

/// An array of any format: a handle that is opened again in a process that has inherited it.
#[pyclass(subclass, module = "shardine._shardine", frozen)]
pub struct ArrayBase {
    place: Place,
    level: usize,
    state: Mutex<State>,
}

/// What is known about the array while it is open.
struct State {
    array: Inherited<Arc<Array>>,
    dtype: Py<PyAny>,
}

/// An open array, its type for numpy, and the size of an element, 0 if it varies.
struct Open<'py> {
    array: Arc<Array>,
    dtype: Bound<'py, PyAny>,
    element: usize,
}

impl ArrayBase {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open array, opened again if another process opened it.
    fn open<'py>(&self, py: Python<'py>) -> PyResult<Open<'py>> {
        let known = {
            let state = self.state();
            let array = state.array.get().map(Arc::clone);
            array.map(|array| (array, state.dtype.bind(py).clone()))
        };
        let (array, dtype) = match known {
            Some(known) => known,
            None => self.reopen(py)?,
        };
        let element = match array.data_type().size() {
            ElementSize::Fixed(element) => element,
            ElementSize::Variable => 0,
        };
        Ok(Open { array, dtype, element })
    }

    /// Opens what is at the place now.
    fn reopen<'py>(&self, py: Python<'py>) -> PyResult<(Arc<Array>, Bound<'py, PyAny>)> {
        let (array, dtype) = open_array(py, &self.place, self.level)?;
        let state =
            State { array: Inherited::new(Arc::clone(&array)), dtype: dtype.clone().unbind() };
        *self.state() = state;
        Ok((array, dtype))
    }

    /// The Zarr array, for what only Zarr can do.
    fn node(&self, py: Python<'_>) -> PyResult<ArrayNode> {
        let array = self.open(py)?.array;
        let engine = engine::current(py)?;
        place::on(py, array.location(), || match ArrayNode::open(&engine, array.location()) {
            Err(Error::NoNode { at } | Error::NotAnArray { at }) => Err(Error::Unsupported {
                at,
                reason: "only a Zarr array can grow; this is a level of another data set"
                    .to_owned(),
            }),
            opened => opened,
        })
    }
}

/// Opens a level of what is at a place.
fn open_array<'py>(
    py: Python<'py>,
    place: &Place,
    level: usize,
) -> PyResult<(Arc<Array>, Bound<'py, PyAny>)> {
    let set = place.open(py)?;
    let location = set.location().clone();
    let array = place::on(py, &location, || {
        // A plain array has one level, which counts from 0 as all do.
        let array = set.array(level)?;
        match (set.kind(), level) {
            (shardine::SetKind::Array, 1..) => {
                Err(Error::NoLevel { at: location.to_string(), level, levels: 1 })
            }
            _ => Ok(array),
        }
    })?;
    let dtype = dtype::of(py, array.data_type())?;
    Ok((Arc::new(array), dtype))
}

impl Open<'_> {
    /// Runs a call that touches the chunks of these selections.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        touched: u64,
        short: u64,
        work: impl FnOnce(&Array) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let array = &*self.array;
        match touched <= short && array.location().store.read_cost().local {
            true => run::short(py, || work(array)),
            false => run::long(py, |_| work(array)),
        }
    }

    /// Bytes of the decoded chunks that a selection touches, or more.
    fn touched(&self, selection: &Selection) -> u64 {
        let axes = selection.axes.iter().zip(self.array.chunk_shape());
        let axes = axes.map(|(axis, &chunk)| {
            let span = axis.count.saturating_sub(1).saturating_mul(axis.step);
            let chunks = (axis.start % chunk + span) / chunk + 1;
            chunks.min(axis.count).saturating_mul(chunk)
        });
        axes.fold(self.element.max(1) as u64, u64::saturating_mul)
    }

    /// A selection of the array from what Python passes.
    fn selection(&self, axes: &[AxisTuple]) -> PyResult<Selection> {
        if axes.len() != self.array.shape().len() {
            return Err(PyValueError::new_err("one range is needed for each axis"));
        }
        let axes = axes.iter().map(|&(start, step, count)| Axis { start, step, count });
        Ok(Selection { axes: axes.collect() })
    }

    fn check_fixed(&self) -> PyResult<()> {
        match self.element {
            0 => Err(PyTypeError::new_err("elements of variable length have no places")),
            _ => Ok(()),
        }
    }

    /// Reads a selection into an array in memory with the same axes.
    fn read_into(
        &self,
        py: Python<'_>,
        selection: &Selection,
        out: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        let Memory { bytes, place } =
            // SAFETY: `out` lives until this returns. It is new, or the caller has given it to be
            // filled, and is told not to use it meanwhile.
            unsafe { memory::mutable(out, self.element) }?;
        if selection.is_empty() {
            return Ok(());
        }
        let in_c_order = out.is_c_contiguous();
        self.run(py, self.touched(selection), SHORT_READ, |array| match in_c_order {
            true => array.read_bytes_into(selection, bytes),
            false => array.read_bytes_placed(selection, bytes, &place),
        })
    }
}

/// Elements of an array in memory, with its own strides.
struct StridedSource<'a> {
    bytes: &'a [u8],
    place: Placement,
    element: usize,
}

impl Source for StridedSource<'_> {
    fn element_size(&self) -> Option<usize> {
        Some(self.element)
    }

    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError> {
        let at = start.iter().zip(&self.place.strides).map(|(&i, &stride)| i as usize * stride);
        let from = Placement {
            start: self.place.start + at.sum::<usize>(),
            strides: self.place.strides.clone(),
        };
        let shape: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        strided::copy(&shape, self.element, self.bytes, &from, target, to)?;
        Ok(())
    }

    fn variable_box(&self, _: &[u64], _: &[u64]) -> Result<VariableElements, SourceError> {
        Err("elements of variable length have no places".into())
    }
}

/// What a write did, as a dictionary.
fn report<'py>(py: Python<'py>, report: &WriteReport) -> PyResult<Bound<'py, PyDict>> {
    let counts = PyDict::new(py);
    counts.set_item("objects_written", report.objects_written)?;
    counts.set_item("objects_removed", report.objects_removed)?;
    counts.set_item("chunks_encoded", report.chunks_encoded)?;
    counts.set_item("chunks_kept", report.chunks_kept)?;
    counts.set_item("chunks_empty", report.chunks_empty)?;
    counts.set_item("bytes_written", report.bytes_written)?;
    Ok(counts)
}

/// The options of a write.
fn write_options(
    py: Python<'_>,
    strategy: Option<&str>,
    store_empty: bool,
) -> PyResult<WriteOptions> {
    let mut options = WriteOptions::new();
    options.store_empty = store_empty;
    if let Some(name) = strategy {
        options.strategy = match name {
            "auto" => Strategy::Auto,
            "rewrite" => Strategy::Rewrite,
            "in-place" => Strategy::InPlace,
            "append" => Strategy::Append,
            _ => {
                let message = format!("strategy={name:?}: there is no such strategy");
                let hint = "use \"auto\", \"rewrite\", \"in-place\" or \"append\"";
                return Err(error::request(py, &message, Some(hint)));
            }
        };
    }
    Ok(options)
}

/// What is picked along each dimension, as Python passes it: a range of an axis, or axes and one
/// array of positions for each.
#[derive(FromPyObject)]
enum PickTuple<'py> {
    Range(usize, u64, u64, u64),
    Points(Vec<usize>, Vec<Bound<'py, PyUntypedArray>>),
}

impl PickTuple<'_> {
    fn pick(&self) -> PyResult<Pick> {
        Ok(match self {
            &Self::Range(axis, start, step, count) => {
                Pick::Range { axis, range: Axis { start, step, count } }
            }
            Self::Points(axes, lists) => Pick::Points {
                axes: axes.clone(),
                lists: lists.iter().map(positions).collect::<PyResult<_>>()?,
            },
        })
    }
}

/// The positions in an array of 64-bit integers.
fn positions(list: &Bound<'_, PyUntypedArray>) -> PyResult<Vec<u64>> {
    let list = list.cast::<numpy::PyArray1<u64>>()?;
    let list = numpy::PyArrayMethods::try_readonly(list)?;
    let mut positions = Vec::new();
    if positions.try_reserve_exact(list.as_array().len()).is_err() {
        return Err(pyo3::exceptions::PyMemoryError::new_err("too many positions"));
    }
    positions.extend(list.as_array().iter().copied());
    Ok(positions)
}

/// Bytes of decoded chunks that picks touch, roughly: as if each point were in a chunk of its own.
fn touched_by(picks: &[Pick], array: &Array, element: usize) -> u64 {
    let along = |axis: usize| array.chunk_shape().get(axis).copied().unwrap_or(1);
    let bytes = picks.iter().map(|pick| match pick {
        Pick::Range { axis, range } => {
            let span = range.count.saturating_mul(range.step);
            span.div_ceil(along(*axis)).saturating_add(1).saturating_mul(along(*axis))
        }
        Pick::Points { axes, .. } => {
            axes.iter().map(|&axis| along(axis)).fold(pick.count(), u64::saturating_mul)
        }
    });
    bytes.fold(element as u64, u64::saturating_mul)
}

#[pymethods]
impl ArrayBase {
    /// Opens an array: a level of the data set at a URL.
    #[new]
    #[pyo3(signature = (url, level, options))]
    fn new(
        py: Python<'_>,
        url: String,
        level: usize,
        options: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let place = Place::new(url, options)?;
        let (array, dtype) = open_array(py, &place, level)?;
        let state = Mutex::new(State { array: Inherited::new(array), dtype: dtype.unbind() });
        Ok(Self { place, level, state })
    }

    /// Elements along each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.open(py)?.array.shape())
    }

    /// The type of its elements.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.open(py)?.dtype)
    }

    /// The number of axes.
    #[getter]
    fn ndim(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.open(py)?.array.shape().len())
    }

    /// The shape of its chunks: the innermost ones, where it is sharded.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.open(py)?.array.chunk_shape())
    }

    /// The shape of its shards; `None` if it is not sharded, or if the chunks of a shard do not form
    /// a box.
    #[getter]
    fn shards<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let shards = self.open(py)?.array.shard_shape().map(<[u64]>::to_vec);
        shards.map(|shape| PyTuple::new(py, shape)).transpose()
    }

    /// The level of the data set that it is; 0 is the finest.
    #[getter]
    fn level(&self) -> usize {
        self.level
    }

    /// The names of its axes; `None` if its format does not name them.
    #[getter]
    fn dims(&self, py: Python<'_>) -> PyResult<Option<Vec<Option<String>>>> {
        Ok(self.open(py)?.array.axis_names().map(<[Option<String>]>::to_vec))
    }

    /// Whether its store is on this machine.
    #[getter]
    fn _is_local(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.open(py)?.array.location().store.read_cost().local)
    }

    /// Bytes of a fill element, or of a variable-length one.
    #[getter]
    fn _fill<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.open(py)?.array.fill().0))
    }

    /// `"string"` or `"bytes"` if elements have variable lengths.
    #[getter]
    fn _variable(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        Ok(match self.open(py)?.array.data_type().kind() {
            Kind::Text => Some("string"),
            Kind::Bytes => Some("bytes"),
            _ => None,
        })
    }

    /// The type of its elements as metadata has it, as JSON.
    #[getter]
    fn _data_type(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.open(py)?.array.data_type().to_json().to_string())
    }

    /// The codecs of a chunk in few words.
    #[getter]
    fn _codecs(&self, py: Python<'_>) -> PyResult<String> {
        Ok(show_chain(self.open(py)?.array.codecs()))
    }

    /// The absolute URL of the data set that it is a level of.
    #[getter]
    fn url(&self, py: Python<'_>) -> PyResult<String> {
        let location = self.place.location(py)?;
        Ok(location.url().unwrap_or_else(|| location.to_string()))
    }

    /// The URL or absolute path as given, with what `url` leaves out: user and password.
    #[getter]
    fn _given_url(&self) -> &str {
        self.place.url()
    }

    /// The absolute URL of the data set whose documents describe it: its own, if it has any.
    #[getter]
    fn _array_url(&self, py: Python<'_>) -> PyResult<String> {
        let array = self.open(py)?.array;
        Ok(array.location().url().unwrap_or_else(|| array.location().to_string()))
    }

    /// Opens what is at the URL now, such as a shape that another process has changed.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.reopen(py).map(drop)
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let open = slf.get().open(py)?;
        let basic = match open.element {
            0 => None,
            _ => index::parse(key, open.array.shape())?,
        };
        let Some(Basic { selection, dimensions }) = basic else {
            return slf.call_method1("_get", (key,));
        };
        let counts = |dimension: &Dimension| match dimension {
            Dimension::Axis { axis, .. } => selection.axes[*axis].count,
            Dimension::New => 1,
        };
        let shape: Vec<u64> = dimensions.iter().map(counts).collect();
        let out = memory::empty(py, &shape, &open.dtype)?;
        // Axes with an integer and new axes have one element: in C order they make no difference.
        let Memory { bytes, .. } =
            // SAFETY: the array is new and lives until this returns.
            unsafe { memory::mutable(&out, open.element) }?;
        if !selection.is_empty() {
            let touched = open.touched(&selection);
            open.run(py, touched, SHORT_READ, |array| array.read_bytes_into(&selection, bytes))?;
        }
        let reversed = |d: &Dimension| matches!(d, Dimension::Axis { reversed: true, .. });
        if dimensions.iter().any(reversed) {
            let step = |d: &Dimension| {
                PySlice::full(py).getattr("__class__").and_then(|slice| match reversed(d) {
                    true => slice.call1((py.None(), py.None(), -1)),
                    false => slice.call1((py.None(),)),
                })
            };
            let steps = dimensions.iter().map(step).collect::<PyResult<Vec<_>>>()?;
            return out.as_any().get_item(PyTuple::new(py, steps)?);
        }
        match dimensions.is_empty() {
            // A single element is a scalar, unless an ellipsis asks for an array.
            true if !has_ellipsis(key) => out.as_any().get_item(PyTuple::empty(py)),
            _ => Ok(out.into_any()),
        }
    }

    /// Fills an array in memory, whose axes are those of the array, from a range of each.
    fn _read(
        &self,
        py: Python<'_>,
        axes: Vec<AxisTuple>,
        out: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        let open = self.open(py)?;
        open.check_fixed()?;
        let selection = open.selection(&axes)?;
        check_counts(out, selection.axes.iter().map(|axis| axis.count))?;
        open.read_into(py, &selection, out)
    }

    /// Writes an array in memory, whose axes are those of the array, to a range of each.
    #[pyo3(signature = (axes, value, strategy=None, store_empty=false))]
    fn _write<'py>(
        &self,
        py: Python<'py>,
        axes: Vec<AxisTuple>,
        value: &Bound<'_, PyUntypedArray>,
        strategy: Option<&str>,
        store_empty: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let open = self.open(py)?;
        open.check_fixed()?;
        let selection = open.selection(&axes)?;
        check_counts(value, selection.axes.iter().map(|axis| axis.count))?;
        let options = write_options(py, strategy, store_empty)?;
        if selection.is_empty() {
            return report(py, &WriteReport::default());
        }
        let Memory { bytes, place } =
            // SAFETY: `value` lives until this returns; the caller does not change it meanwhile.
            unsafe { memory::shared(value, open.element) }?;
        let source = StridedSource { bytes, place, element: open.element };
        let done = open.run(py, open.touched(&selection), SHORT_WRITE, |array| {
            array.write_from(&selection, &source, &options)
        })?;
        report(py, &done)
    }

    /// Checks what a write of no elements can get wrong, and reports that nothing was written.
    #[pyo3(signature = (strategy=None))]
    fn _write_nothing<'py>(
        &self,
        py: Python<'py>,
        strategy: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        write_options(py, strategy, false)?;
        report(py, &WriteReport::default())
    }

    /// Fills an array in memory with picked elements, one axis for each pick.
    fn _read_picks(
        &self,
        py: Python<'_>,
        picks: Vec<PickTuple<'_>>,
        out: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        let open = self.open(py)?;
        open.check_fixed()?;
        let picks = picks.iter().map(PickTuple::pick).collect::<PyResult<Vec<_>>>()?;
        check_counts(out, picks.iter().map(Pick::count))?;
        let Memory { bytes, place } =
            // SAFETY: as in `Open::read_into`.
            unsafe { memory::mutable(out, open.element) }?;
        let touched = touched_by(&picks, &open.array, open.element);
        open.run(py, touched, SHORT_READ, |array| array.read_picks(&picks, bytes, &place))
    }

    /// Writes an array in memory to picked elements, one axis for each pick.
    #[pyo3(signature = (picks, value, strategy=None, store_empty=false))]
    fn _write_picks<'py>(
        &self,
        py: Python<'py>,
        picks: Vec<PickTuple<'_>>,
        value: &Bound<'_, PyUntypedArray>,
        strategy: Option<&str>,
        store_empty: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let open = self.open(py)?;
        open.check_fixed()?;
        let picks = picks.iter().map(PickTuple::pick).collect::<PyResult<Vec<_>>>()?;
        check_counts(value, picks.iter().map(Pick::count))?;
        let options = write_options(py, strategy, store_empty)?;
        let Memory { bytes, place } =
            // SAFETY: as in `_write`.
            unsafe { memory::shared(value, open.element) }?;
        let touched = touched_by(&picks, &open.array, open.element);
        let done = open.run(py, touched, SHORT_WRITE, |array| {
            array.write_picks(&picks, bytes, &place, &options)
        })?;
        report(py, &done)
    }

    /// Reads elements of variable length, in C order: strings or bytes.
    fn _read_variable<'py>(
        &self,
        py: Python<'py>,
        axes: Vec<AxisTuple>,
    ) -> PyResult<Bound<'py, PyList>> {
        let open = self.open(py)?;
        let selection = open.selection(&axes)?;
        let is_text = open.array.data_type().kind() == Kind::Text;
        if selection.is_empty() {
            return Ok(PyList::empty(py));
        }
        let touched = open.touched(&selection);
        let elements =
            open.run(py, touched, SHORT_READ, |array| array.read_elements(&selection))?;
        let Elements::Variable(elements) = elements else {
            return Err(PyTypeError::new_err("its elements have a fixed length"));
        };
        let list = PyList::empty(py);
        for element in elements.iter() {
            match is_text {
                true => list.append(PyString::from_bytes(py, element)?)?,
                false => list.append(PyBytes::new(py, element))?,
            }
        }
        Ok(list)
    }

    /// Writes elements of variable length to ranges, each as UTF-8 or bytes in C order.
    #[pyo3(signature = (parts, store_empty=false))]
    fn _write_variable<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<(Vec<AxisTuple>, Vec<Bound<'py, PyAny>>)>,
        store_empty: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let open = self.open(py)?;
        let mut regions = Vec::with_capacity(parts.len());
        for (axes, values) in &parts {
            let selection = open.selection(axes)?;
            if selection.is_empty() {
                continue;
            }
            let mut elements = VariableElements::new();
            for value in values {
                match value.cast::<PyBytes>() {
                    Ok(bytes) => elements.push(bytes.as_bytes()),
                    Err(_) => elements.push(value.cast::<PyString>()?.to_cow()?.as_bytes()),
                }
            }
            regions.push((Region::from(&selection), elements));
        }
        if regions.is_empty() {
            return report(py, &WriteReport::default());
        }
        let options = write_options(py, None, store_empty)?;
        let done = open.run(py, u64::MAX, SHORT_WRITE, |array| {
            let parts: Vec<(&Region, ElementsRef<'_>)> = regions
                .iter()
                .map(|(region, elements)| (region, ElementsRef::Variable(elements)))
                .collect();
            array.write_many_elements(&parts, &options)
        })?;
        report(py, &done)
    }

    /// The ranges that the text of a region selects, as on the command line.
    fn _region(&self, py: Python<'_>, text: &str) -> PyResult<Vec<AxisTuple>> {
        let array = self.open(py)?.array;
        let (shape, names) = (array.shape(), array.axis_names());
        let selection = text
            .parse::<RegionText>()
            .and_then(|text| text.region(&RegionAxes { shape, names, origin: None }))
            .and_then(|region| region.resolve(shape));
        let selection = selection.map_err(|error| error::to_py(py, &error.into()))?;
        Ok(selection.axes.iter().map(|axis| (axis.start, axis.step, axis.count)).collect())
    }

    /// Changes the shape; what lies outside the new one is removed, or hidden until it grows again.
    fn resize(&self, py: Python<'_>, shape: Vec<u64>) -> PyResult<()> {
        let mut node = self.node(py)?;
        run::long(py, |_| node.resize(&shape))?;
        self.refresh(py)
    }

    /// Appends planes along an axis, and makes them visible.
    fn _append<'py>(
        &self,
        py: Python<'py>,
        axis: usize,
        value: &Bound<'py, PyUntypedArray>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let open = self.open(py)?;
        open.check_fixed()?;
        let node = self.node(py)?;
        let Memory { bytes, place } =
            // SAFETY: as in `_write`.
            unsafe { memory::shared(value, open.element) }?;
        let planes = value.shape().get(axis).map_or(0, |&n| n as u64);
        let source = StridedSource { bytes, place, element: open.element };
        let done = run::long(py, |_| {
            let mut writer = SliceWriter::new(node, axis, SliceOptions::new())?;
            writer.push_from(0..planes, &source)?;
            let report = writer.report();
            writer.finish()?;
            Ok(report)
        })?;
        self.refresh(py)?;
        report(py, &done)
    }

    /// The objects of the array that exist: their cells in the grid, and their bytes.
    fn _objects(&self, py: Python<'_>) -> PyResult<Vec<(Vec<u64>, u64)>> {
        let open = self.open(py)?;
        let objects = open.run(py, u64::MAX, 0, Array::objects)?;
        Ok(objects.into_iter().map(|object| (object.cell, object.len)).collect())
    }
}

/// Whether an index has an ellipsis.
fn has_ellipsis(key: &Bound<'_, PyAny>) -> bool {
    match key.cast::<PyTuple>() {
        Ok(items) => items.iter().any(|item| item.is_instance_of::<PyEllipsis>()),
        Err(_) => key.is_instance_of::<PyEllipsis>(),
    }
}

/// Checks the shape of an array in memory.
fn check_counts(
    array: &Bound<'_, PyUntypedArray>,
    counts: impl Iterator<Item = u64>,
) -> PyResult<()> {
    let counts: Vec<u64> = counts.collect();
    if array.shape().iter().map(|&n| n as u64).eq(counts.iter().copied()) {
        return Ok(());
    }
    let message =
        format!("the array in memory has shape {:?}, but {counts:?} is needed", array.shape());
    Err(PyValueError::new_err(message))
}
