//! Strings that are stored with the length of the longest.

use super::invalid;
use crate::GeometryError;

/// The strings of a column, by the codes that they have in gathered rows.
///
/// A string is stored as numpy has it in memory, `<U8`: four bytes for each character, and zeros up
/// to the length of the longest. One that is missing is an empty one.
#[derive(Debug)]
pub(super) struct FixedText {
    words: Vec<String>,
    characters: usize,
}

impl FixedText {
    /// The strings of `column`; an error if one has more than `most` characters, or ends in zeros,
    /// which would be lost.
    pub fn new(words: Vec<String>, column: &str, most: usize) -> Result<Self, GeometryError> {
        let refuse = |reason: String| Err(invalid(format!("column {column}"), reason));
        let longest = words.iter().map(|word| word.chars().count()).max().unwrap_or(0);
        if longest > most {
            return refuse(format!(
                "has a string of {longest} characters; up to {most} can be stored, and every string \
                 of a column takes as much room as its longest"
            ));
        }
        if let Some(word) = words.iter().find(|word| word.ends_with('\0')) {
            let shown: String = word.chars().take(20).collect();
            return refuse(format!("has the string {shown:?}, whose last character is a zero"));
        }
        Ok(Self { words, characters: longest.max(1) })
    }

    /// Its type, as numpy names it.
    pub fn dtype(&self) -> String {
        format!("<U{}", self.characters)
    }

    /// Bytes of a stored string.
    pub fn size(&self) -> usize {
        4 * self.characters
    }

    /// Appends the string with a code; an empty one if there is none.
    pub fn push(&self, code: Option<u32>, out: &mut Vec<u8>) {
        let end = out.len() + self.size();
        let word = code.and_then(|code| self.words.get(code as usize)).map_or("", String::as_str);
        word.chars().for_each(|each| out.extend(u32::from(each).to_le_bytes()));
        out.resize(end, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn strings_are_as_long_as_the_longest_and_a_missing_one_is_empty() {
        let text = FixedText::new(words(&["a", "ünï"]), "c", 3).unwrap();
        assert_eq!((text.dtype(), text.size()), ("<U3".to_owned(), 12));
        let mut out = Vec::new();
        text.push(Some(1), &mut out);
        text.push(Some(0), &mut out);
        text.push(None, &mut out);
        let characters: Vec<u32> =
            out.as_chunks::<4>().0.iter().map(|one| u32::from_le_bytes(*one)).collect();
        assert_eq!(characters, [0xfc, 0x6e, 0xef, 0x61, 0, 0, 0, 0, 0]);
        // A type without characters is none that numpy can read rows of.
        assert_eq!(FixedText::new(Vec::new(), "c", 3).unwrap().dtype(), "<U1");
    }

    #[test]
    fn strings_that_would_not_come_back_are_refused() {
        let error = FixedText::new(words(&["four"]), "c", 3).unwrap_err().to_string();
        assert!(error.contains("column c") && error.contains("of 4 characters"), "{error}");
        let error = FixedText::new(words(&["a\0"]), "c", 3).unwrap_err().to_string();
        assert!(error.contains("whose last character is a zero"), "{error}");
        assert!(FixedText::new(words(&["\0a"]), "c", 3).is_ok());
    }
}
