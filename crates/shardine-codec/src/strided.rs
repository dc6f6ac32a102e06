//! Copies between strided boxes of elements.
