//! From one format to another.

use shardine::jobs::{
    ConvertOptions, VolumeForm, ZarrForm, convert_to_ome, convert_to_volume, convert_to_zarr,
};
use shardine::plan::VolumePacking;
use shardine::{Location, Packing};

use super::Convert;
use super::report::{Form, told};
use crate::cli::Machine;
use crate::create::{Triple, parse_sharding};
use crate::failure::Failure;

/// From a volume to a group of arrays.
pub fn to_zarr(args: &Convert, source: &Location, machine: &Machine) -> Result<(), Failure> {
    if let Some(name) = args.volume.given() {
        return Err(Failure::new(format!("{name}: only applies with --to precomputed")));
    }
    let asked = args.layout.asked(args.packing());
    let options = asked.options(Packing::Keep)?;
    let mut form = ZarrForm::new().packing(options.packing);
    form.index = options.index;
    form.codecs = options.codecs;
    run(args, source, machine, &Form::Zarr(form), options.chunk.as_deref())
}

/// From an array, or a group of levels, to a volume.
pub fn to_volume(args: &Convert, source: &Location, machine: &Machine) -> Result<(), Failure> {
    let asked = args.layout.asked(args.packing());
    let of_zarr = [
        ("--index", asked.index.is_some()),
        ("--codec", !asked.codec.is_empty()),
        ("--codecs", asked.codecs.is_some()),
    ];
    if let Some((name, _)) = of_zarr.into_iter().find(|(_, given)| *given) {
        return Err(Failure::new(format!("{name}: does not apply to precomputed volumes"))
            .hint("use --encoding and --data-encoding to set how its chunks are encoded"));
    }
    let chunk = asked.chunk.map(<[u64]>::to_vec);
    let given = &args.volume;
    let mut form = VolumeForm::new();
    form.kind = given.kind.clone();
    form.resolution = given.resolution.map(|Triple(values)| values);
    form.voxel_offset = given.voxel_offset.map(|Triple(values)| values);
    form.data_encoding = given.data_encoding;
    form.encoding = given.chunk_encoding()?;
    form.packing = match (&given.sharding, asked.packing) {
        (Some(_), Some(_)) => {
            return Err(Failure::new("--sharding cannot be combined with another packing option"));
        }
        (Some(text), None) => Some(VolumePacking::Sharding(parse_sharding(text)?)),
        (None, Some(packing)) => Some(VolumePacking::try_from(&packing).map_err(Failure::new)?),
        (None, None) => None,
    };
    run(args, source, machine, &Form::Volume(form), chunk.as_deref())
}

/// Converts, and reports.
pub fn run(
    args: &Convert,
    source: &Location,
    machine: &Machine,
    form: &Form,
    chunk: Option<&[u64]>,
) -> Result<(), Failure> {
    let job = &args.job;
    let target = args.places.target(machine, &args.target)?;
    let engine = machine.engine()?;
    let mut options = ConvertOptions::new()
        .overwrite(job.overwrite)
        .restart(job.restart)
        .dry_run(job.dry_run)
        .store_empty(args.store_empty);
    options.check = job.check();
    options.take_over = job.take_over;
    options.part = job.part;
    options.chunk = chunk.map(<[u64]>::to_vec);
    told(args, form, &target, &engine, |context, tell| match form {
        Form::Zarr(form) => convert_to_zarr(context, source, &target, form, &options, tell),
        Form::Ome { form, .. } => convert_to_ome(context, source, &target, form, &options, tell),
        Form::Volume(form) => convert_to_volume(context, source, &target, form, &options, tell),
    })
}
