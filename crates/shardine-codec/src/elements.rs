/// Elements of a variable-length type: `offsets[i]..offsets[i + 1]` of `bytes` is element `i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableElements {
    offsets: Vec<usize>,
    bytes: Vec<u8>,
}

impl Default for VariableElements {
    fn default() -> Self {
        Self { offsets: vec![0], bytes: Vec::new() }
    }
}

impl VariableElements {
    /// No elements.
    pub fn new() -> Self {
        Self::default()
    }

    /// No elements, with room for `elements` of them with `bytes` bytes in total.
    pub fn with_capacity(elements: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(elements.saturating_add(1));
        offsets.push(0);
        Self { offsets, bytes: Vec::with_capacity(bytes) }
    }

    /// Appends an element.
    pub fn push(&mut self, element: &[u8]) {
        self.bytes.extend_from_slice(element);
        self.offsets.push(self.bytes.len());
    }

    /// Removes all elements but keeps the memory.
    pub fn clear(&mut self) {
        self.offsets.truncate(1);
        self.bytes.clear();
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Total bytes of all elements.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Element `i`, or `None` past the end.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let end = *self.offsets.get(i.checked_add(1)?)?;
        self.bytes.get(self.offsets[i]..end)
    }

    /// The elements in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.offsets.windows(2).map(|w| &self.bytes[w[0]..w[1]])
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for VariableElements {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut out = Self::new();
        for element in elements {
            out.push(element.as_ref());
        }
        out
    }
}

/// Elements in C order: little-endian bytes for fixed-size types, a table otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Elements {
    /// `n * size` bytes.
    Fixed(Vec<u8>),
    /// One entry per element.
    Variable(VariableElements),
}

impl Elements {
    /// A borrowed view.
    pub fn as_ref(&self) -> ElementsRef<'_> {
        match self {
            Self::Fixed(bytes) => ElementsRef::Fixed(bytes),
            Self::Variable(elements) => ElementsRef::Variable(elements),
        }
    }

    /// The bytes of fixed-size elements, `None` for variable-length ones.
    pub fn into_fixed(self) -> Option<Vec<u8>> {
        match self {
            Self::Fixed(bytes) => Some(bytes),
            Self::Variable(_) => None,
        }
    }
}

/// A borrowed [`Elements`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementsRef<'a> {
    /// `n * size` bytes.
    Fixed(&'a [u8]),
    /// One entry per element.
    Variable(&'a VariableElements),
}
