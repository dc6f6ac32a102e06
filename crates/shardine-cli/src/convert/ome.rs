//! To OME-Zarr, and to Zarr version 2.

use clap::Args;
use shardine::jobs::{LevelCount, OmeForm, ZarrForm};
use shardine::ome::{OmeRelease, OmeVersion};
use shardine::zarr::ZarrFormat;
use shardine::{DownsampleMethod, Location, Packing};

use super::Convert;
use super::report::Form;
use super::volume::run;
use crate::cli::Machine;
use crate::failure::Failure;
use crate::levels::{Factors, Levels, factors_argument, levels_argument};

/// What only images have.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "OME-Zarr")]
pub struct OmeArgs {
    /// Write this version: 0.4 (Zarr v2, without shards), 0.5, 0.6, or a draft such as 0.6rc0
    /// [default: 0.5]
    #[arg(long, value_name = "VERSION", value_parser = version)]
    ome_version: Option<OmeVersion>,
    /// Name the axes of the source, in its order, such as tczyx or t,c,z,y,x. Needed where nothing
    /// names them and there are more than two
    #[arg(long, value_name = "NAMES", value_parser = axes)]
    axes: Option<Axes>,
    /// Set the size of a voxel of the finest level, along the same axes [default: as the source
    /// says, or 1]
    #[arg(long, value_name = "N,N,..", value_parser = scale)]
    scale: Option<Scale>,
    /// Set the unit of the axes of space, such as micrometer
    #[arg(long, value_name = "UNIT")]
    unit: Option<String>,
    /// Name the image
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Which lower levels images get, and how what they have is stored.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "OME-Zarr")]
pub struct LevelArgs {
    /// Make the lower levels of images that have fewer than this many, counting the finest; `auto`
    /// makes them for images that have one, up to a level that fits one chunk
    #[arg(long, value_name = "N|auto", value_parser = levels_argument)]
    levels: Option<Levels>,
    /// Set by which factors each of these levels is smaller than the one before: one for each axis,
    /// or for each axis in space; `auto` halves the axes along which voxels are shortest
    #[arg(long, value_name = "N,N,..|auto", value_parser = factors_argument, requires = "levels")]
    factors: Option<Factors>,
    /// Set how elements become one: mean, mode, median, stride, max or min [default: mode for label
    /// images, mean for others]
    #[arg(long, value_name = "METHOD", requires = "levels")]
    method: Option<DownsampleMethod>,
    /// Keep codecs that not every reader of Zarr v3 knows, such as zlib, which otherwise becomes
    /// gzip, and lz4
    #[arg(long, conflicts_with_all = ["codec", "codecs"])]
    keep_codecs: bool,
}

impl LevelArgs {
    /// The first of these options that is given.
    pub fn given(&self) -> Option<&'static str> {
        let levels = self.levels.map(|_| "--levels");
        levels.or(self.keep_codecs.then_some("--keep-codecs"))
    }

    fn add_to(&self, form: &mut OmeForm) {
        form.levels = self.levels.map(|Levels(number)| match number {
            Some(number) => LevelCount::Number(number),
            None => LevelCount::Auto,
        });
        form.factors = self.factors.as_ref().and_then(|Factors(factors)| factors.clone());
        form.method = self.method;
        form.keep_codecs = self.keep_codecs;
    }
}

/// The parser would treat a bare `Vec` as an option that may be repeated.
#[derive(Debug, Clone)]
struct Axes(Vec<String>);

#[derive(Debug, Clone)]
struct Scale(Vec<f64>);

fn version(text: &str) -> Result<OmeVersion, String> {
    let version: OmeVersion = text.parse().map_err(|error| format!("{error}"))?;
    match version.release() < OmeRelease::V0_4 {
        true => Err("versions before 0.4 are only read".to_owned()),
        false => Ok(version),
    }
}

/// Names with commas between them, or of one letter each.
fn axes(text: &str) -> Result<Axes, String> {
    let names: Vec<String> = match text.contains(',') {
        true => text.split(',').map(|name| name.trim().to_owned()).collect(),
        false => text.chars().map(String::from).collect(),
    };
    match names.is_empty() || names.iter().any(String::is_empty) {
        true => Err(format!("\"{text}\" is not a list of axes such as tczyx")),
        false => Ok(Axes(names)),
    }
}

fn scale(text: &str) -> Result<Scale, String> {
    let numbers: Option<Vec<f64>> = text.split(',').map(|item| item.trim().parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.iter().all(|n| n.is_finite() && *n > 0.0));
    numbers.map(Scale).ok_or_else(|| format!("\"{text}\" is not a list of numbers above 0"))
}

impl OmeArgs {
    /// The first of these options that is given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--ome-version", self.ome_version.is_some()),
            ("--axes", self.axes.is_some()),
            ("--scale", self.scale.is_some()),
            ("--unit", self.unit.is_some()),
            ("--name", self.name.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// The form with what these options say.
    pub fn form(&self) -> OmeForm {
        let mut form = OmeForm::new();
        form.version = self.ome_version.clone().unwrap_or(form.version);
        form.axes = self.axes.as_ref().map(|Axes(names)| names.clone());
        form.scale = self.scale.as_ref().map(|Scale(numbers)| numbers.clone());
        form.unit.clone_from(&self.unit);
        form.name.clone_from(&self.name);
        form
    }
}

/// From anything to OME-Zarr.
pub fn to_ome(args: &Convert, source: &Location, machine: &Machine) -> Result<(), Failure> {
    only_with(args.volume.given(), "--to precomputed")?;
    let options = args.layout.asked(args.packing()).options(Packing::Keep)?;
    let mut form = image_form(args).packing(options.packing);
    form.index = options.index;
    form.codecs = options.codecs;
    let form = Form::Ome { form, from_file: false };
    run(args, source, machine, &form, options.chunk.as_deref())
}

/// The form of the images, as far as it does not concern how they are stored.
pub fn image_form(args: &Convert) -> OmeForm {
    let mut form = args.ome.form();
    args.levels.add_to(&mut form);
    form
}

/// From anything to Zarr version 2.
pub fn to_zarr2(args: &Convert, source: &Location, machine: &Machine) -> Result<(), Failure> {
    only_with(args.volume.given(), "--to precomputed")?;
    let options = args.layout.asked(args.packing()).options(Packing::Keep)?;
    let mut form = ZarrForm::new().packing(options.packing).zarr_format(ZarrFormat::V2);
    form.index = options.index;
    form.codecs = options.codecs;
    form.separator = args.layout.separator();
    run(args, source, machine, &Form::Zarr(form), options.chunk.as_deref())
}

/// Refuses an option of another target.
pub fn only_with(given: Option<&str>, target: &str) -> Result<(), Failure> {
    match given {
        Some(name) => Err(Failure::new(format!("{name}: only applies with {target}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_letters_or_words() {
        assert_eq!(axes("tczyx").unwrap().0, ["t", "c", "z", "y", "x"]);
        assert_eq!(axes("time, lat,lon").unwrap().0, ["time", "lat", "lon"]);
        for wrong in ["", ",", "a,,b"] {
            axes(wrong).unwrap_err();
        }
        for wrong in ["", "1,x", "0", "1,-1", "nan"] {
            scale(wrong).unwrap_err();
        }
        assert!(version("0.6rc0").is_ok() && version("0.3").is_err() && version("7").is_err());
    }
}
