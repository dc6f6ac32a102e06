//! The keywords of a job.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use serde_json::Value;
use shardine::jobs::{Part, RepackCheck};
use shardine::shard::IndexLocation;
use shardine::shard::uint64::Sharding;
use shardine::zarr::ZarrFormat;
use shardine::zarr::metadata::codec_specs_from_json;
use shardine::{
    CodecChoice, DataType, Engine, EngineOptions, Location, Packing, StoreOptions, units,
};

use super::json;
use crate::{engine, error};

/// The keywords of a job, by name. One that is missing or `None` is not given.
pub struct Options<'py>(Bound<'py, PyDict>);

impl<'py> Options<'py> {
    pub fn new(options: Bound<'py, PyDict>) -> Self {
        Self(options)
    }

    /// The value of a keyword, if it is given.
    pub fn value(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    /// An error in the value of a keyword.
    pub fn wrong(&self, name: &str, reason: impl Display) -> PyErr {
        error::request(self.0.py(), &format!("{name}: {reason}"), None)
    }

    /// The value of a keyword of one type.
    pub fn get<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<Option<T>> {
        let Some(value) = self.value(name)? else { return Ok(None) };
        match value.extract() {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let error: PyErr = error.into();
                let shown = value.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
                Err(self
                    .wrong(name, format!("{shown} cannot be used: {}", error.value(value.py()))))
            }
        }
    }

    pub fn flag(&self, name: &str) -> PyResult<bool> {
        Ok(self.get(name)?.unwrap_or(false))
    }

    /// A word that stands for something.
    pub fn parsed<T: FromStr>(&self, name: &str) -> PyResult<Option<T>>
    where
        T::Err: Display,
    {
        let Some(text) = self.get::<String>(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|error| self.wrong(name, error))
    }

    /// A word, one of some.
    pub fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> PyResult<Option<T>> {
        let Some(text) = self.get::<String>(name)? else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text);
        let known = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        match found {
            Some((_, value)) => Ok(Some(*value)),
            None => Err(self.wrong(name, format!("\"{text}\" is not one of {}", known()))),
        }
    }

    /// A number of bytes, or text such as `64MiB`.
    pub fn size(&self, name: &str) -> PyResult<Option<u64>> {
        let Some(value) = self.value(name)? else { return Ok(None) };
        match value.extract::<String>() {
            Ok(text) => units::parse_size(&text).map(Some).map_err(|e| self.wrong(name, e)),
            Err(_) => self.get(name),
        }
    }

    /// A share from 0 to 1, or text such as `25%`.
    pub fn share(&self, name: &str) -> PyResult<Option<f64>> {
        let Some(value) = self.value(name)? else { return Ok(None) };
        let share = match value.extract::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            Ok(share) => Err(format!("{share} is not a share from 0 to 1")),
            Err(_) => units::parse_share(&self.get::<String>(name)?.unwrap_or_default()),
        };
        share.map(Some).map_err(|error| self.wrong(name, error))
    }

    /// One number, or several.
    pub fn numbers<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<Option<Vec<T>>> {
        let Some(value) = self.value(name)? else { return Ok(None) };
        match value.extract::<T>() {
            Ok(one) => Ok(Some(vec![one])),
            Err(_) => self.get(name),
        }
    }

    /// Numbers, or the word `auto`, which is the same as not given.
    pub fn unless_auto<T>(
        &self,
        name: &str,
        get: impl FnOnce() -> PyResult<Option<T>>,
    ) -> PyResult<Option<T>> {
        match self.value(name)?.and_then(|value| value.extract::<String>().ok()) {
            Some(text) if text == "auto" => Ok(None),
            _ => get(),
        }
    }

    /// The first of these keywords that is given.
    pub fn given<'n>(&self, names: &[&'n str]) -> PyResult<Option<&'n str>> {
        for name in names {
            let Some(value) = self.value(name)? else { continue };
            if value.cast::<PyBool>().is_ok_and(|flag| !flag.is_true()) {
                continue;
            }
            return Ok(Some(name));
        }
        Ok(None)
    }

    /// Refuses keywords that do not apply.
    pub fn refuse(&self, names: &[&str], reason: &str) -> PyResult<()> {
        match self.given(names)? {
            Some(name) => Err(self.wrong(name, reason)),
            None => Ok(()),
        }
    }

    /// The engine that was asked for, or that of the process.
    pub fn engine(&self, py: Python<'_>) -> PyResult<Arc<Engine>> {
        let (threads, memory) = (self.get::<usize>("threads")?, self.size("memory")?);
        if threads.is_none() && memory.is_none() {
            return engine::current(py);
        }
        let mut options = EngineOptions::new().threads(threads.unwrap_or(0));
        options.memory = memory.unwrap_or(options.memory);
        Engine::new(&options).map_err(|error| error::to_py(py, &error.into()))
    }

    /// The location that a keyword names, if it is given. `own` are options of its store beside
    /// those of all.
    pub fn location_if_given(&self, name: &str, own: &str) -> PyResult<Option<Location>> {
        let Some(url) = self.get::<String>(name)? else { return Ok(None) };
        let mut options = StoreOptions::new().single_writer(self.flag("single_writer")?);
        options.pairs = self.pairs("store_options")?;
        if self.flag("anonymous")? {
            options = options.anonymous();
        }
        options.pairs.extend(self.pairs(own)?);
        let format = match self.get::<u8>("zarr_format")? {
            None => None,
            Some(2) => Some(ZarrFormat::V2),
            Some(3) => Some(ZarrFormat::V3),
            Some(other) => return Err(self.wrong("zarr_format", format!("{other} is not 2 or 3"))),
        };
        let location = Location::with_options(&url, &options);
        let location = location.map_err(|error| error::to_py(self.0.py(), &error))?;
        Ok(Some(location.with_format(format)))
    }

    /// The location that a keyword names.
    pub fn location(&self, name: &str, own: &str) -> PyResult<Location> {
        self.location_if_given(name, own)?
            .ok_or_else(|| self.wrong(name, "a path or URL is needed"))
    }

    fn pairs(&self, name: &str) -> PyResult<Vec<(String, String)>> {
        let Some(dict) = self.get::<Bound<'_, PyDict>>(name)? else { return Ok(Vec::new()) };
        let pair = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let value = match value.cast::<PyBool>() {
                Ok(flag) => flag.is_true().to_string(),
                Err(_) => value.str()?.to_string(),
            };
            Ok((key.str()?.to_string(), value))
        };
        dict.iter().map(pair).collect()
    }

    pub fn part(&self) -> PyResult<Option<Part>> {
        let Some(value) = self.value("part")? else { return Ok(None) };
        let text = match value.extract::<(u32, u32)>() {
            Ok((index, count)) => format!("{index}/{count}"),
            Err(_) => self.get::<String>("part")?.unwrap_or_default(),
        };
        text.parse().map(Some).map_err(|error| self.wrong("part", error))
    }

    /// How chunks are to be packed, if that is given.
    pub fn packing(&self) -> PyResult<Option<Packing>> {
        let ways = ["chunks_per_shard", "shard", "target_size"];
        let mut given = Vec::new();
        for way in ways {
            given.extend(self.value(way)?.map(|value| (way, value)));
        }
        let [(way, value)] = &given[..] else {
            return match given.first() {
                None => Ok(None),
                Some((way, _)) => {
                    Err(self.wrong(way, "cannot be combined with another way to give shards"))
                }
            };
        };
        if *way == "target_size" {
            return Ok(self.size(way)?.map(Packing::TargetSize));
        }
        if value.extract::<String>().is_ok_and(|text| text == "none") {
            return Ok(Some(Packing::Unsharded));
        }
        let numbers = self.numbers::<u64>(way)?.unwrap_or_default();
        if numbers.is_empty() || numbers.contains(&0) {
            return Err(self.wrong(way, "needs numbers above 0, or \"none\""));
        }
        Ok(Some(match *way {
            "chunks_per_shard" => Packing::ChunksPerShard(numbers),
            _ => Packing::Shard(numbers),
        }))
    }

    /// The codecs of chunks, in words or as in the metadata.
    pub fn codecs(&self) -> PyResult<Option<CodecChoice>> {
        let words = match self.value("codec")? {
            None => None,
            Some(value) => match value.extract::<String>() {
                Ok(one) => Some(vec![one]),
                Err(_) => self.get::<Vec<String>>("codec")?,
            },
        };
        match (words, self.document("codecs")?) {
            (Some(_), Some(_)) => Err(self.wrong("codec", "cannot be combined with codecs")),
            (Some(words), None) => Ok(Some(CodecChoice::Words(words))),
            (None, Some(document)) => codec_specs_from_json(&document)
                .map(|codecs| Some(CodecChoice::Codecs(codecs)))
                .map_err(|error| self.wrong("codecs", error)),
            (None, None) => Ok(None),
        }
    }

    /// Data as in a JSON document, or the text of one.
    pub fn document(&self, name: &str) -> PyResult<Option<Value>> {
        let Some(value) = self.value(name)? else { return Ok(None) };
        if let Ok(text) = value.extract::<String>() {
            return serde_json::from_str(&text)
                .map(Some)
                .map_err(|error| self.wrong(name, format!("not valid JSON: {error}")));
        }
        let document = json::from_python(&value);
        document.map(Some).ok_or_else(|| self.wrong(name, "holds something that JSON has not"))
    }

    pub fn sharding(&self) -> PyResult<Option<Sharding>> {
        let Some(document) = self.document("sharding")? else { return Ok(None) };
        Sharding::from_json(&document).map(Some).map_err(|error| self.wrong("sharding", error))
    }

    pub fn index(&self) -> PyResult<Option<IndexLocation>> {
        self.word("index", &[("start", IndexLocation::Start), ("end", IndexLocation::End)])
    }

    pub fn data_type(&self) -> PyResult<Option<DataType>> {
        let Some(value) = self.value("dtype")? else { return Ok(None) };
        // A dtype of numpy, a class such as `float`, or the name of a type.
        let name = match value.extract::<String>() {
            Ok(name) => name,
            Err(_) => {
                value.py().import("numpy")?.call_method1("dtype", (&value,))?.str()?.to_string()
            }
        };
        DataType::parse_name(&name).map(Some).map_err(|error| self.wrong("dtype", error))
    }

    pub fn wait(&self) -> PyResult<Option<Duration>> {
        let Some(seconds) = self.get::<f64>("wait")? else { return Ok(None) };
        Duration::try_from_secs_f64(seconds).map(Some).map_err(|error| self.wrong("wait", error))
    }

    /// How the result of a job is checked, if that is given.
    pub fn check(&self) -> PyResult<Option<RepackCheck>> {
        self.word(
            "verify",
            &[
                ("none", RepackCheck::None),
                ("content", RepackCheck::Bytes),
                ("elements", RepackCheck::Elements),
            ],
        )
    }
}
