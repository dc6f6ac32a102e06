//! Nothing: the package exists for what it depends on.
