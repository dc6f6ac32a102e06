//! Imports a file of elements into a new OME-Zarr image.

use serde_json::json;

use super::fill::{FileOfElements, state};
use super::target::STREAM;
use super::{ImportOptions, check_parts, described, in_memory, packed, refuse_inside};
use crate::files::{Input, InputOptions};
use crate::jobs::JobContext;
use crate::jobs::convert::{ConvertOptions, ConvertSummary, ConvertedLevel, OmeForm, plan_to_ome};
use crate::jobs::rebuild::{Step, Work, document_hash};
use crate::jobs::span::job_span;
use crate::owner::Owner;
use crate::{Error, Location, Packing};

/// Makes a new OME-Zarr image from a file of elements, with lower levels if the form asks for them.
///
/// What concerns chunks, shards and codecs is said by [`ImportOptions::layout`], along the axes of the
/// file; the rest by the form, whose axes are those of the file and are put in the order of OME-Zarr.
/// The image appears when it is complete: until then there is nothing but
/// [`CONVERT_MARKER`](crate::zarr::CONVERT_MARKER) that says what is under way, and the same call
/// resumes a job that was stopped. `tell` is called with each level when it is done.
///
/// ```
/// use shardine::files::Input;
/// use shardine::jobs::{ImportOptions, LevelCount, OmeForm, import_to_ome};
/// use shardine::{Array, DataType, Engine, Location};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("eight.raw");
/// std::fs::write(&path, [8; 64])?;
/// let target = Location::parse(folder.path().join("eight.zarr").to_str().ok_or("not UTF-8")?)?;
/// let form = OmeForm::new().axes(["y", "x"]).scale(&[0.5, 0.5]).levels(LevelCount::Number(2));
/// let options = ImportOptions::new().raw(&[8, 8], DataType::parse_name("uint8")?);
/// let input = Input::open(&path)?;
/// import_to_ome(&Engine::shared()?, input, &target, &form, &options, &mut |_| ())?;
/// assert_eq!(Array::open(&target.join("1")?)?.read::<u8>(..)?, [8; 16]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn import_to_ome(
    context: impl Into<JobContext>,
    input: Input,
    target: &Location,
    form: &OmeForm,
    options: &ImportOptions,
    tell: &mut dyn FnMut(ConvertedLevel),
) -> Result<ConvertSummary, Error> {
    let _span = job_span("import_to_ome", target);
    let context = &context.into();
    if let (Some(folders), Some(path)) = (target.store.folders(), input.path()) {
        refuse_inside(folders, path, target)?;
    }
    let (shape, data_type) = described(options, &input)?;
    let found = input.found()?;
    if options.part.is_some() {
        form.check_parts()?;
        check_parts(options, found.is_some())?;
    }
    // An array that nobody else sees is planned for in the place of the file.
    let unseen = in_memory(context, packed(context, options, &shape, &data_type, &input)?)?;
    let packing = if unseen.shard_shape().is_some() { Packing::Keep } else { Packing::Unsharded };
    let form = &form.clone().packing(packing);
    let mut convert = ConvertOptions::new().overwrite(options.overwrite);
    convert.take_over = options.take_over;
    convert.part = options.part;
    let mut planned = plan_to_ome(context, unseen.location(), target, form, &convert)?;
    let plan = &mut planned.plan;
    plan.others = None;
    plan.source_name = Some(found.as_ref().map_or(STREAM, |found| &found.name).to_owned());
    plan.request["file"] = match &found {
        Some(found) => json!({ "bytes": found.bytes, "modified": found.modified }),
        // Never the same twice, so that no run adopts what another one left.
        None => json!({ "stream": Owner::fresh_id() }),
    };
    plan.request["cast"] = json!(options.cast);
    // How it is stored is not part of the form.
    plan.request["documents"] = json!(document_hash(plan));
    let (name, path) = (input.name().to_owned(), input.path().map(ToOwned::to_owned));
    let with = InputOptions::new().cast(options.cast).memory(options.memory);
    let mut source = Some(input.source(&unseen, &shape, &with)?);
    let from_file = |step: Step| {
        let work = match (step.work, source.take()) {
            // The only array.
            (Work::Array { axes, new, .. }, Some(source)) => {
                let (name, path) = (name.clone(), path.clone());
                Work::File { from: FileOfElements { source, axes, path, name }, new }
            }
            (Work::Levels { levels, .. }, _) => {
                Work::Levels { levels, state: Some(state(found.as_ref())) }
            }
            (work, _) => work,
        };
        Step { work, ..step }
    };
    plan.steps = std::mem::take(&mut plan.steps).into_iter().map(from_file).collect();
    for level in planned.reports.iter_mut().flatten() {
        level.moves = false;
    }
    planned.run(context, unseen.location(), target, &convert, tell)
}
