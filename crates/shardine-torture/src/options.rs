use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use crate::Result;

/// Options without a value.
const FLAGS: &[&str] = &["plain", "midway", "vanish"];

/// The options of a command, all of the form `--name value` or `--flag`.
#[derive(Debug, Default)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = BTreeMap::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or_else(|| format!("\"{word}\" is no option"))?;
            let value = if FLAGS.contains(&name) {
                String::new()
            } else {
                words.next().ok_or_else(|| format!("{word} needs a value"))?
            };
            options.insert(name.to_owned(), value);
        }
        Ok(Self(options))
    }

    pub fn is_set(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn get<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>> {
        let parse = |text: &String| text.parse().map_err(|e| format!("--{name} {text}: {e}"));
        self.0.get(name).map(parse).transpose()
    }

    pub fn need<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T> {
        self.get(name)?.ok_or_else(|| format!("--{name} is missing"))
    }

    pub fn path(&self, name: &str) -> Result<PathBuf> {
        self.need::<PathBuf>(name)
    }
}
