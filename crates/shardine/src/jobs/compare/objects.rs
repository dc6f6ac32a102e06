//! The objects of two places against each other, byte for byte.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use shardine_store::{Key, Object, ReadRange, StoreError};

use super::{CompareError, CompareSide, not_walked};
use crate::engine::{Crew, tuning};
use crate::jobs::frame::place::is_object;
use crate::jobs::frame::{JobContext, JobProgress};
use crate::jobs::span::job_span;
use crate::jobs::whole::{check_whole, refuse};
use crate::{Error, Location};

/// Deeper than any hierarchy with its chunks that is not a loop of links.
const MAX_DEPTH: usize = 128;

/// Objects that are compared before their differences are reported in order.
const BATCH: usize = 256;

/// An object that is not the same in both.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectDifference {
    /// Only one of the places has it.
    OnlyIn {
        /// Which.
        side: CompareSide,
        /// Its key below the place.
        object: String,
        /// Its length in bytes.
        len: u64,
    },
    /// Its bytes differ.
    Bytes {
        /// Its key below both places; empty if these are objects themselves.
        object: String,
        /// The first byte that differs, or that only the longer one has.
        first: u64,
        /// Its length in A.
        len_a: u64,
        /// Its length in B.
        len_b: u64,
    },
}

impl ObjectDifference {
    /// Its name, which stays the same in all versions.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::OnlyIn { side: CompareSide::A, .. } => "only-in-a",
            Self::OnlyIn { side: CompareSide::B, .. } => "only-in-b",
            Self::Bytes { .. } => "bytes",
        }
    }

    /// The form in which programs get it; docs/compare.md describes it.
    pub fn to_json(&self) -> Value {
        let kind = self.kind();
        match self {
            Self::OnlyIn { object, len, .. } => {
                json!({ "kind": kind, "object": object, "length": len })
            }
            Self::Bytes { object, first, len_a, len_b } => json!({
                "kind": kind, "object": object, "first": first,
                "length_a": len_a, "length_b": len_b,
            }),
        }
    }
}

/// What came of comparing objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ObjectSummary {
    /// Objects that are in both.
    pub objects: u64,
    /// Bytes that were compared.
    pub bytes: u64,
    /// Differences that were reported.
    pub differences: u64,
}

impl ObjectSummary {
    /// Whether both places have the same objects with the same bytes.
    pub fn is_equal(&self) -> bool {
        self.differences == 0
    }
}

/// Compares all objects below two places byte for byte, whatever they are; or two objects.
///
/// `tell` is called with each object that only one has, or whose bytes differ, folder by folder in
/// the order of their names. What listings leave out, such as a link to a folder, is an error, and so
/// are a store that cannot list, and an object that changes or disappears meanwhile.
///
/// Costs a listing for each folder, and a read of each object that both have, up to the first
/// difference.
pub fn compare_objects(
    context: impl Into<JobContext>,
    a: &Location,
    b: &Location,
    tell: &mut dyn FnMut(ObjectDifference),
) -> Result<ObjectSummary, Error> {
    let _span = job_span("compare_objects", a);
    let context = &context.into();
    context.check()?;
    let mut walk = Walk { context, a, b, tell, summary: ObjectSummary::default(), found: 0 };
    match (is_object(a)?, is_object(b)?) {
        (true, true) => walk.single()?,
        (false, false) => {
            let _holds = (a.hold()?, b.hold()?);
            for place in [a, b] {
                check_whole(place, None).map_err(not_walked)?;
            }
            walk.folder(String::new(), 0)?;
        }
        (is_single, _) => {
            let (side, single, folder) = match is_single {
                true => (CompareSide::A, a, b),
                false => (CompareSide::B, b, a),
            };
            if list(folder, "")?.is_empty() {
                return Err(CompareError::Nothing { at: folder.to_string() }.into());
            }
            let len = length(&*open(single, "")?)?;
            walk.differ(ObjectDifference::OnlyIn { side, object: String::new(), len });
        }
    }
    Ok(walk.summary)
}

struct Walk<'a> {
    context: &'a JobContext,
    a: &'a Location,
    b: &'a Location,
    tell: &'a mut dyn FnMut(ObjectDifference),
    summary: ObjectSummary,
    /// Objects that are known so far.
    found: u64,
}

/// What one folder has: objects with their lengths, and folders, by name.
#[derive(Debug, Default)]
struct Names {
    objects: BTreeMap<String, u64>,
    folders: Vec<String>,
}

impl Names {
    fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.folders.is_empty()
    }
}

impl Walk<'_> {
    fn differ(&mut self, difference: ObjectDifference) {
        self.summary.differences += 1;
        (self.tell)(difference);
    }

    /// Two places that are objects.
    fn single(&mut self) -> Result<(), Error> {
        let (first, lens) = first_difference(self.a, self.b, "")?;
        self.summary.objects = 1;
        self.took(String::new(), first, lens);
        Ok(())
    }

    fn took(&mut self, object: String, first: Option<u64>, (len_a, len_b): (u64, u64)) {
        self.summary.bytes += first.unwrap_or(len_a);
        if let Some(first) = first {
            self.differ(ObjectDifference::Bytes { object, first, len_a, len_b });
        }
    }

    /// A folder below both places.
    fn folder(&mut self, path: String, depth: usize) -> Result<(), Error> {
        self.context.check()?;
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep { at: self.a.to_string(), most: MAX_DEPTH });
        }
        let (a, b) = (list(self.a, &path)?, list(self.b, &path)?);
        if depth == 0 {
            for (names, place) in [(&a, self.a), (&b, self.b)] {
                if names.is_empty() {
                    return Err(CompareError::Nothing { at: place.to_string() }.into());
                }
            }
        }
        let mut both = Vec::new();
        for (side, names, other) in [(CompareSide::A, &a, &b), (CompareSide::B, &b, &a)] {
            for (name, &len) in &names.objects {
                let object = below(&path, name);
                match other.objects.contains_key(name) {
                    true if side == CompareSide::A => both.push(object),
                    true => {}
                    false => self.differ(ObjectDifference::OnlyIn { side, object, len }),
                }
            }
        }
        self.found += both.len() as u64;
        for batch in both.chunks(BATCH) {
            self.batch(batch)?;
        }
        let mut folders: Vec<&String> = a.folders.iter().chain(&b.folders).collect();
        folders.sort_unstable();
        folders.dedup();
        for folder in folders {
            self.folder(below(&path, folder), depth + 1)?;
        }
        Ok(())
    }

    fn batch(&mut self, objects: &[String]) -> Result<(), Error> {
        let engine = self.context.engine();
        let memory = tuning::COMPARED * 2;
        let far = [self.a, self.b].into_iter().filter(|place| !place.store.read_cost().local);
        let far = far.map(|place| engine.at_once(&*place.store, memory)).min();
        let crew = match far {
            Some(most) => Crew::Waiting(most),
            None => Crew::Workers(engine.workers_within(memory)),
        };
        let done = Mutex::new(self.summary.objects);
        let mut outcomes = Vec::with_capacity(objects.len());
        let (context, a, b, total) = (self.context, self.a, self.b, self.found);
        let look = |i: usize| {
            context.check()?;
            let found = first_difference(a, b, &objects[i])?;
            if context.is_watched() {
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                *done += 1;
                context.report(JobProgress::steps("", *done, total));
            }
            Ok::<_, Error>(found)
        };
        engine.batch_in_order(crew, objects.len(), &|i, _| look(i), &mut |i, found| {
            outcomes.push((objects[i].clone(), found));
        });
        for (object, found) in outcomes {
            let (first, lens) = found?;
            self.summary.objects += 1;
            self.took(object, first, lens);
        }
        Ok(())
    }
}

/// The first byte in which an object differs, and its lengths.
fn first_difference(
    in_a: &Location,
    in_b: &Location,
    name: &str,
) -> Result<(Option<u64>, (u64, u64)), Error> {
    let (a, b) = (open(in_a, name)?, open(in_b, name)?);
    let (len_a, len_b) = (length(&*a)?, length(&*b)?);
    let both = len_a.min(len_b);
    let mut at = 0;
    while at < both {
        let end = both.min(at + tuning::COMPARED);
        let read = |object: &dyn Object| object.read(ReadRange::Bounded(at..end));
        let (piece_a, piece_b) = (read(&*a)?, read(&*b)?);
        if let Some(i) = piece_a.iter().zip(piece_b.iter()).position(|(a, b)| a != b) {
            return Ok((Some(at + i as u64), (len_a, len_b)));
        }
        at = end;
    }
    for object in [&a, &b] {
        object.check_unchanged()?;
    }
    Ok(((len_a != len_b).then_some(both), (len_a, len_b)))
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

/// Opens an object below a place, or without a name the one that the place is.
fn open(place: &Location, name: &str) -> Result<Arc<dyn Object>, Error> {
    match (&place.path, name) {
        (Some(path), "") => Ok(place.store.open(path, None)?),
        (None, "") => match place.parent()? {
            Some((above, name)) => Ok(above.store.open(&above.key(&name)?, None)?),
            None => Err(CompareError::Nothing { at: place.to_string() }.into()),
        },
        _ => Ok(place.store.open(&place.key(name)?, None)?),
    }
}

/// The length of an open object, if need be by a request.
fn length(object: &dyn Object) -> Result<u64, Error> {
    if object.len().is_none() {
        object.read(ReadRange::Bounded(0..0))?;
    }
    object.len().ok_or_else(|| {
        let (store, operation) = (format!("{object:?}"), "report its length");
        StoreError::Unsupported { store, operation }.into()
    })
}

/// What a folder below a place has.
fn list(place: &Location, path: &str) -> Result<Names, Error> {
    let folder = match path {
        "" => place.path.clone(),
        path => Some(place.key(path)?),
    };
    let listing = match place.store.list(folder.as_ref()) {
        Err(StoreError::Unsupported { .. }) => {
            return Err(CompareError::Unlisted { at: place.to_string() }.into());
        }
        listing => listing?,
    };
    refuse(place, &listing.unlisted, listing.more_unlisted).map_err(not_walked)?;
    let name = |key: &Key| key.as_str().rsplit('/').next().unwrap_or_default().to_owned();
    Ok(Names {
        objects: listing.objects.iter().map(|(key, len)| (name(key), *len)).collect(),
        folders: listing.folders.iter().map(name).collect(),
    })
}
