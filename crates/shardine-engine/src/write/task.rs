//! What to write, object by object.

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

/// One object of the grid, and everything that goes into it.
pub(super) struct Task<'a> {
    /// Its position in the grid.
    pub index: SmallVec<[u64; 4]>,
    /// What goes into it, in order.
    pub parts: SmallVec<[TaskPart<'a>; 1]>,
}

/// One patch's share of an object.
pub(super) struct TaskPart<'a> {
    pub source: &'a dyn Source,
    pub cell: Cell,
}

impl<'a> TaskPart<'a> {
    /// The source as seen from the object.
    pub fn view(&self) -> SourceView<'a> {
        SourceView::new(self.source, self.cell.at.iter().copied().collect())
    }
}

impl<'a> Task<'a> {
    /// An object that nothing is written to.
    pub fn nothing(index: &[u64]) -> Self {
        Self { index: index.iter().copied().collect(), parts: SmallVec::new() }
    }

    fn new(mut parts: SmallVec<[TaskPart<'a>; 1]>, bounds: &[u64]) -> Option<Self> {
        let index = parts.first()?.cell.index.clone();
        // Whatever comes before a part that covers everything is overwritten.
        if let Some(last) = parts.iter().rposition(|part| part.cell.selection.covers(bounds)) {
            parts.drain(..last);
        }
        Some(Self { index, parts })
    }

    /// Whether nothing of the object's previous contents remains; `bounds` is how much of it lies
    /// inside the array.
    pub fn covers(&self, bounds: &[u64]) -> bool {
        self.parts.iter().any(|part| part.cell.selection.covers(bounds))
    }

    /// Bytes of elements written.
    pub fn bytes(&self, element: usize) -> u64 {
        self.parts.iter().map(|part| part.cell.selection.bytes(element)).sum()
    }
}

/// The objects that patches touch, each once.
///
/// For one patch they are computed one by one; for several all together, so that each object
/// changes atomically.
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
