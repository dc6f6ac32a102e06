//! Runs the workloads that are measured.

use std::sync::Arc;

use shardine::store::CountingStore;
use shardine::{Array, ElementSize, Elements, Engine, Location};

use super::boxes::Piece;
use super::measure::{CountedStore, Meter, Run};
use super::source::Source;
use super::subject::{Picked, Subject};
use crate::cli::Machine;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::units;

/// The most random chunks in a run.
const CHUNKS: u64 = 2000;

/// The most random regions in a run.
const REGIONS: u64 = 200;

/// What was measured.
#[derive(Debug)]
pub struct Workload {
    /// Its name for programs.
    pub name: &'static str,
    /// What each call did, for display.
    pub what: String,
    /// The shape that a call read or wrote; less at the edge.
    pub shape: Vec<u64>,
    /// The axis that a plane is across.
    pub axis: Option<usize>,
    /// Whether all of the array (or of the plane) was touched, or only what the limit allowed.
    pub complete: bool,
    /// The first run.
    pub first: Run,
    /// The runs after it; at least one.
    pub repeats: Vec<Run>,
}

/// The name of a workload, and what each of its calls does.
#[derive(Debug)]
pub struct Title {
    pub name: &'static str,
    pub what: String,
}

/// Where elements are read to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// Fresh memory for each call.
    Fresh,
    /// One buffer for all calls.
    Reused,
}

/// Whether an array has its indexes cached when a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Indexes {
    Unknown,
    /// Not even when a call begins.
    ReadForEach,
    Known,
}

/// Measures workloads of one array.
#[derive(Debug)]
pub struct Runner<'a> {
    pub machine: &'a Machine,
    pub location: &'a Location,
    pub subject: &'a Subject,
    pub repeats: u64,
}

/// A location whose store counts calls.
pub fn counted(location: &Location) -> (CountedStore, Location) {
    let store = CountingStore::new(Arc::clone(&location.store));
    let store = store.passing_folders().passing_above();
    let location = location.clone().with_store(Arc::new(store.clone()));
    (store, location)
}

impl Runner<'_> {
    pub fn whole(&self) -> Result<Workload, Failure> {
        let picked = self.subject.whole();
        let what = match picked.pieces.len() {
            1 if picked.complete => "the whole array in one read, into fresh memory".to_owned(),
            n => format!("{}, each into fresh memory", units::count(n as u64, "large part")),
        };
        let title = Title { name: "whole", what: self.partly(&picked, what) };
        self.read(title, &picked, &self.machine.engine()?, Memory::Fresh, Indexes::Unknown)
    }

    pub fn shards(&self) -> Result<Workload, Failure> {
        let (picked, cut) = self.subject.shards();
        let n = picked.pieces.len() as u64;
        let count = match (cut, self.subject.array.shard_shape().is_some()) {
            (false, true) => units::count(n, "shard"),
            (false, false) => units::count(n, "chunk"),
            (true, _) => format!("{} of shards", units::count(n, "part")),
        };
        let mut what = format!("{count}, one by one, into one buffer");
        if self.subject.array.data_type().size() == ElementSize::Variable {
            what = format!("{count}, one by one");
        }
        if self.subject.cells.is_empty() {
            what.push_str("; none are stored");
        }
        let title = Title { name: "shards", what: self.partly(&picked, what) };
        self.read(title, &picked, &self.machine.engine()?, Memory::Reused, Indexes::Unknown)
    }

    /// Single chunks, first reading an index for each, then with all indexes cached.
    pub fn chunks(&self) -> Result<Vec<Workload>, Failure> {
        let most = self.subject.shards_with_indexes_in(self.machine.memory / 8);
        let cells = self.subject.some_cells(most);
        let picked = self.subject.chunks(&cells, CHUNKS)?;
        let what = units::count(picked.pieces.len() as u64, "random chunk");
        if !self.subject.has_indexes() {
            let title = Title { name: "chunks", what };
            let engine = self.machine.engine()?;
            return Ok(vec![self.read(
                title,
                &picked,
                &engine,
                Memory::Reused,
                Indexes::Unknown,
            )?]);
        }
        let indexes = self.subject.memory_for_indexes(cells.len() as u64);
        let title = Title { name: "chunks", what: format!("{what}, the index read for each") };
        let engine = self.machine.engine_with_indexes(0)?;
        let cold = self.read(title, &picked, &engine, Memory::Reused, Indexes::ReadForEach)?;
        let title = Title { name: "chunks_cached", what: format!("{what}, all indexes cached") };
        let engine = self.machine.engine_with_indexes(indexes)?;
        let warm = self.read(title, &picked, &engine, Memory::Reused, Indexes::Known)?;
        Ok(vec![cold, warm])
    }

    pub fn regions(&self) -> Result<Workload, Failure> {
        let picked = self.subject.regions(REGIONS);
        let count = units::count(picked.pieces.len() as u64, "random region");
        let shape = units::shape(&picked.pieces[0].shape);
        let title = Title { name: "regions", what: format!("{count} of {shape}") };
        self.read(title, &picked, &self.machine.engine()?, Memory::Reused, Indexes::Unknown)
    }

    pub fn plane(&self) -> Result<Workload, Failure> {
        let (picked, axis) = self.subject.plane();
        let shape = units::shape(&picked.pieces[0].shape);
        let part = if picked.complete { "the" } else { "the middle of the" };
        let what = match axis {
            Some(axis) => format!("{part} plane in the middle of axis {axis}, {shape}"),
            None => "the only element".to_owned(),
        };
        let title = Title { name: "planes", what };
        let engine = self.machine.engine()?;
        let mut plane = self.read(title, &picked, &engine, Memory::Reused, Indexes::Unknown)?;
        plane.axis = axis;
        Ok(plane)
    }

    /// Says how much of the array that is.
    fn partly(&self, picked: &Picked, what: String) -> String {
        if picked.complete {
            return what;
        }
        let elements = picked.pieces.iter().map(Piece::elements).fold(0, u64::saturating_add);
        let all = units::elements(self.subject.array.shape());
        let size = |elements| units::size(self.subject.bytes(elements));
        format!("{what}: {} of {}, evenly spread", size(elements), size(all))
    }

    fn read(
        &self,
        title: Title,
        picked: &Picked,
        engine: &Arc<Engine>,
        memory: Memory,
        indexes: Indexes,
    ) -> Result<Workload, Failure> {
        let (store, location) = counted(self.location);
        let mut buffer = self.buffer(picked, memory)?;
        let source = Source::open(engine, &location, self.subject.level)?;
        let mut array = source.array()?;
        if indexes == Indexes::Known {
            let mut unmeasured = Meter::start(&store);
            for piece in &picked.pieces {
                read_piece(&mut unmeasured, &array, piece, buffer.as_deref_mut())?;
            }
        }
        self.measure(title, picked, |progress| {
            if indexes != Indexes::Known {
                // A reopened array has no cached index.
                array = source.array()?;
            }
            let mut meter = Meter::start(&store);
            for piece in &picked.pieces {
                if indexes == Indexes::ReadForEach {
                    // The engine keeps none, but arrays of some formats keep their own.
                    array = source.array()?;
                }
                read_piece(&mut meter, &array, piece, buffer.as_deref_mut())?;
                progress.add(1);
            }
            Ok(meter.stop())
        })
    }

    /// The buffer of a workload that uses one.
    fn buffer(&self, picked: &Picked, memory: Memory) -> Result<Option<Vec<u8>>, Failure> {
        let ElementSize::Fixed(size) = self.subject.array.data_type().size() else {
            return Ok(None);
        };
        if memory == Memory::Fresh {
            return Ok(None);
        }
        let most = picked.pieces.iter().map(Piece::elements).max().unwrap_or(0);
        let bytes = most.saturating_mul(size as u64);
        let lacks = || {
            Failure::new(format!("not enough memory for {} of elements", units::size(bytes)))
                .hint("use a smaller --limit")
        };
        let len = usize::try_from(bytes).map_err(|_| lacks())?;
        // Checked first, since a failed allocation ends the program.
        Vec::<u8>::new().try_reserve_exact(len).map_err(|_| lacks())?;
        Ok(Some(vec![0; len]))
    }

    /// Repeats a run as often as requested. It makes a call for every box, and reports each when it
    /// is done.
    pub fn measure(
        &self,
        title: Title,
        picked: &Picked,
        mut run: impl FnMut(&Progress) -> Result<Run, Failure>,
    ) -> Result<Workload, Failure> {
        let calls = picked.pieces.len() as u64;
        let progress = Progress::things(title.name, calls.saturating_mul(self.repeats + 1));
        let first = run(&progress)?;
        let repeats = (0..self.repeats).map(|_| run(&progress)).collect::<Result<_, _>>()?;
        progress.finish();
        let Title { name, what } = title;
        let largest = picked.pieces.iter().max_by_key(|piece| piece.elements());
        let shape = largest.map(|piece| piece.shape.clone()).unwrap_or_default();
        Ok(Workload { name, what, shape, axis: None, complete: picked.complete, first, repeats })
    }
}

fn read_piece(
    meter: &mut Meter,
    array: &Array,
    piece: &Piece,
    buffer: Option<&mut [u8]>,
) -> Result<(), Failure> {
    let region = piece.region();
    let (ElementSize::Fixed(size), Some(buffer)) = (array.data_type().size(), buffer) else {
        let elements = meter.time(|| array.read_elements(&region))?;
        meter.decoded(byte_len(&elements));
        return Ok(());
    };
    // The buffer was made for the largest box.
    let len = (piece.elements() as usize).saturating_mul(size).min(buffer.len());
    let out = &mut buffer[..len];
    meter.time(|| array.read_bytes_into(&region, out))?;
    meter.decoded(len as u64);
    Ok(())
}

/// Bytes of elements.
pub fn byte_len(elements: &Elements) -> u64 {
    match elements {
        Elements::Fixed(bytes) => bytes.len() as u64,
        Elements::Variable(elements) => elements.byte_len() as u64,
    }
}
