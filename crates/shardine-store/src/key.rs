use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::StoreError;

/// The name of an object in a store: parts joined by `/`, none of them empty, `.` or `..`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// Checks that `text` is a key, which cannot leave the root of a store.
    pub fn new(text: &str) -> Result<Self, StoreError> {
        let refuse = |reason| Err(StoreError::Key { text: text.to_owned(), reason });
        if text.is_empty() {
            return refuse("it is empty");
        }
        if text.contains(['\0', '\\']) {
            return refuse("it contains a NUL or a backslash");
        }
        for part in text.split('/') {
            match part {
                "" => return refuse("one of its parts is empty"),
                "." | ".." => return refuse("a part may not be . or .."),
                _ => {}
            }
        }
        Ok(Self(text.into()))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key `text` below this one.
    pub fn join(&self, text: &str) -> Result<Self, StoreError> {
        Self::new(&format!("{self}/{text}"))
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_leaves_the_root() {
        for text in
            ["", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/./b", "a\\b", "a\0b"]
        {
            assert!(matches!(Key::new(text), Err(StoreError::Key { .. })), "{text:?}");
        }
    }

    #[test]
    fn dots_inside_a_part_are_ordinary() {
        for text in ["...", "a..b", ".zarray", "c/0.0/..x"] {
            assert_eq!(Key::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn what_is_joined_is_checked_too() {
        let key = Key::new("array").unwrap();
        assert_eq!(key.join("c/0").unwrap().as_str(), "array/c/0");
        for text in ["", "/c", "..", "c/../.."] {
            assert!(key.join(text).is_err(), "{text:?}");
        }
    }
}
