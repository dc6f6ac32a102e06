//! What is to be written, object by object.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use crate::layout::SourceView;
use crate::selection::{Cell, Selection};
use crate::source::Source;

/// Elements for a selection of an array.
pub struct Patch<'a> {
    /// Which elements are written.
    pub selection: Selection,
    /// Where they come from.
    pub source: &'a dyn Source,
}

/// One object of the grid, and all that goes into it.
pub(super) struct Task<'a> {
    /// Its place in the grid.
    pub index: SmallVec<[u64; 4]>,
    /// What goes into it, one after the other.
    pub parts: SmallVec<[TaskPart<'a>; 1]>,
}

/// What one patch has for an object.
pub(super) struct TaskPart<'a> {
    pub source: &'a dyn Source,
    pub cell: Cell,
}

impl<'a> TaskPart<'a> {
    /// The source as it is seen from the object.
    pub fn view(&self) -> SourceView<'a> {
        SourceView::new(self.source, self.cell.at.iter().copied().collect())
    }
}

impl<'a> Task<'a> {
    /// An object into which nothing goes.
    pub fn nothing(index: &[u64]) -> Self {
        Self { index: index.iter().copied().collect(), parts: SmallVec::new() }
    }

    fn new(mut parts: SmallVec<[TaskPart<'a>; 1]>, bounds: &[u64]) -> Option<Self> {
        let index = parts.first()?.cell.index.clone();
        // What comes before a part that covers everything is not seen.
        if let Some(last) = parts.iter().rposition(|part| part.cell.selection.covers(bounds)) {
            parts.drain(..last);
        }
        Some(Self { index, parts })
    }

    /// Whether nothing of what the object was before is left; `bounds` is how much of it lies inside the array.
    pub fn covers(&self, bounds: &[u64]) -> bool {
        self.parts.iter().any(|part| part.cell.selection.covers(bounds))
    }

    /// Bytes of elements that are written.
    pub fn bytes(&self, element: usize) -> u64 {
        self.parts.iter().map(|part| part.cell.selection.bytes(element)).sum()
    }
}

/// The objects that patches touch, each once.
///
/// Of one patch they are worked out one after the other; of several all at once, so that each object is changed in
/// one step.
pub(super) fn tasks<'a>(
    patches: &'a [Patch<'a>],
    cell_shape: &'a [u64],
    bounds: impl Fn(&[u64]) -> SmallVec<[u64; 6]> + Send + 'a,
) -> Box<dyn Iterator<Item = Task<'a>> + Send + 'a> {
    let task = move |parts: SmallVec<[TaskPart<'a>; 1]>| {
        let bounds = parts.first().map(|part| bounds(&part.cell.index)).unwrap_or_default();
        Task::new(parts, &bounds)
    };
    if let [Patch { selection, source }] = patches {
        let part = |cell| smallvec![TaskPart { source: *source, cell }];
        return Box::new(selection.cells(cell_shape).filter_map(move |cell| task(part(cell))));
    }
    let mut objects: BTreeMap<SmallVec<[u64; 4]>, SmallVec<[TaskPart<'a>; 1]>> = BTreeMap::new();
    for Patch { selection, source } in patches {
        for cell in selection.cells(cell_shape) {
            let parts = objects.entry(cell.index.clone()).or_default();
            parts.push(TaskPart { source: *source, cell });
        }
    }
    Box::new(objects.into_values().filter_map(task))
}
