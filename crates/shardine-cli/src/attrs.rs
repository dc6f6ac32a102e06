//! `shardine attrs`: the attributes of an array or a group.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use shardine::zarr::{attributes, change_attributes};
use shardine::{Error, Location};

use crate::cli::Machine;
use crate::failure::{Failure, quoted};
use crate::{consolidate, said};

const EXAMPLES: &str = "\
Examples:
  shardine attrs get image.zarr
  shardine attrs get image.zarr units
  shardine attrs set image.zarr units=\"micrometer\" offset=[0,0,12.5] exposure_ms=20
  shardine attrs set image.zarr --from attributes.json
  shardine attrs rm image.zarr exposure_ms

A value that is valid JSON is stored as JSON, anything else as a string. All other metadata is kept,
and consolidated metadata of the groups above is updated.";

/// Show, set or remove the attributes of an array or group
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Attrs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print all attributes, or one of them, as JSON
    Get {
        /// Path or URL of the array or group
        #[arg(value_name = "URL")]
        url: String,
        /// Attribute to print, or a JSON pointer such as /multiscales/0/axes
        #[arg(value_name = "NAME")]
        name: Option<String>,
    },
    /// Set attributes, and keep all others
    Set {
        /// Path or URL of the array or group
        #[arg(value_name = "URL")]
        url: String,
        /// Attributes to set, with their values
        #[arg(value_name = "NAME=VALUE", value_parser = parse_pair, required_unless_present = "from")]
        pairs: Vec<(String, Value)>,
        /// Set the members of the JSON object in this file
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// Remove attributes
    Rm {
        /// Path or URL of the array or group
        #[arg(value_name = "URL")]
        url: String,
        /// Attributes to remove
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}

fn parse_pair(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    if name.is_empty() {
        return Err("expected NAME=VALUE".to_owned());
    }
    Ok((name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value))))
}

pub fn run(args: &Attrs, machine: &Machine) -> Result<(), Failure> {
    match &args.action {
        Action::Get { url, name } => get(&machine.location(url)?, url, name.as_deref()),
        Action::Set { url, pairs, from } => {
            let mut values = match from {
                Some(path) => object_in(path)?,
                None => Map::new(),
            };
            values.extend(pairs.iter().cloned());
            change(&machine.location(url)?, &|attributes| attributes.extend(values.clone()))?;
            let names: Vec<&str> = values.keys().map(String::as_str).collect();
            writeln!(said::words(), "{url}: set {}", names.join(", "))?;
            Ok(())
        }
        Action::Rm { url, names } => {
            let location = machine.location(url)?;
            let known = read(&location)?;
            if let Some(missing) = names.iter().find(|name| !known.contains_key(*name)) {
                return Err(no_attribute(url, missing));
            }
            change(&location, &|attributes| {
                names.iter().for_each(|name| drop(attributes.shift_remove(name)));
            })?;
            writeln!(said::words(), "{url}: removed {}", names.join(", "))?;
            Ok(())
        }
    }
}

fn get(location: &Location, url: &str, name: Option<&str>) -> Result<(), Failure> {
    let attributes = Value::Object(read(location)?);
    let value = match name {
        None => Some(&attributes),
        Some(name) => attributes.get(name).or_else(|| attributes.pointer(name)),
    };
    let value = value.ok_or_else(|| no_attribute(url, name.unwrap_or_default()))?;
    writeln!(said::out(true), "{value:#}")?;
    Ok(())
}

fn read(location: &Location) -> Result<Map<String, Value>, Failure> {
    attributes(location).map_err(failure)
}

fn change(location: &Location, how: &dyn Fn(&mut Map<String, Value>)) -> Result<(), Failure> {
    consolidate::warn(&change_attributes(location, how).map_err(failure)?);
    Ok(())
}

fn failure(error: Error) -> Failure {
    match error {
        error @ Error::NoNode { .. } => {
            Failure::new(error).hint("only Zarr arrays and groups have attributes")
        }
        error => error.into(),
    }
}

fn no_attribute(url: &str, name: &str) -> Failure {
    Failure::new(format!("{url} has no attribute \"{name}\""))
        .hint(format!("`shardine attrs get {}` prints all of them", quoted(url)))
}

fn object_in(path: &PathBuf) -> Result<Map<String, Value>, Failure> {
    let text = std::fs::read(path).map_err(|error| Failure::file(path, &error))?;
    match serde_json::from_slice(&text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Failure::new(format!("{} does not hold a JSON object", path.display()))),
        Err(error) => Err(Failure::new(format!("{} is not valid JSON: {error}", path.display()))),
    }
}
