//! A new image with all its levels, from an array or an image with one level.

use serde_json::{Map, Value};
use shardine_store::{Key, StoreExt};

use super::build::{Build, PYRAMID_MARKER, Work, declare_in};
use super::image::PyramidImage;
use super::{PyramidError, PyramidLevel, PyramidOptions, PyramidSummary, pyramid};
use crate::jobs::JobContext;
use crate::jobs::convert::{ConvertOptions, OmeForm, convert_to_ome, plan_to_ome};
use crate::jobs::frame::JobError;
use crate::jobs::rebuild::{Document, OutPlan, is_complete};
use crate::jobs::span::job_span;
use crate::ome::OmeMetadata;
use crate::zarr::DOCUMENT;
use crate::zarr::metadata::{ArrayMetadata, NodeMetadata, ZarrFormat};
use crate::{ArrayNode, Error, Location};

/// Makes an OME-Zarr image with all its levels from an array of any format, or from an image that
/// has one level.
///
/// The finest level is moved there first ([`convert_to_ome`]), then the others are made from it
/// ([`pyramid`]). What concerns chunks, shards and codecs is said by the form: the other levels are
/// stored like the finest. The same call resumes a run that was killed in either half.
pub fn pyramid_to(
    context: impl Into<JobContext>,
    source: &Location,
    target: &Location,
    form: &OmeForm,
    options: &PyramidOptions,
    tell: &mut dyn FnMut(&PyramidLevel),
) -> Result<PyramidSummary, Error> {
    let _span = job_span("pyramid_to", source);
    let context = &context.into();
    if options.part.is_some() {
        let (option, reason) = ("a target", "convert it first, then make its levels");
        return Err(JobError::NotInParts { option, reason }.into());
    }
    let mut convert = ConvertOptions::new().overwrite(options.overwrite).restart(options.restart);
    convert.take_over = options.take_over;
    convert.chunk.clone_from(&options.chunk);
    let mut options = PyramidOptions { overwrite: false, chunk: None, ..options.clone() };
    let plan = plan_to_ome(context, source, target, form, &convert)?.plan;
    let image = planned_image(context, target, &plan, form)?;
    let found = image.image()?.levels.len();
    if found > 1 {
        return Err(PyramidError::Exists { at: source.to_string(), levels: found }.into());
    }
    // What cannot be done is refused before anything is.
    let levels = image.plan(context, &options)?;
    if options.dry_run {
        let build = Build { context, image: &image, plan: &levels, options: &options };
        return build.run(Work::All, tell);
    }
    let is_marked = target.store.get(&target.key(PYRAMID_MARKER)?)?.is_some();
    let is_converted = has_finest(&image, &plan)?
        && (is_marked
            || !convert.overwrite
                && (is_complete(target, &plan)? || is_declared(&image, &plan, &levels)?));
    let job = context.of_steps(2);
    job.begin_step(1, 0);
    if !is_converted {
        convert_to_ome(&job, source, target, form, &convert, &mut |_| ())?;
    }
    drop(plan);
    options.restart &= is_marked;
    job.begin_step(1, 0);
    pyramid(&job, target, &options, tell)
}

/// A planned document.
fn planned<'p>(plan: &'p OutPlan<'_>, key: &Key) -> Option<&'p [u8]> {
    let of_steps = plan.steps.iter().flat_map(|step| &step.documents);
    let found = of_steps.chain(&plan.documents).find(|document| document.key == *key);
    found.map(|Document { bytes, .. }| bytes.as_slice())
}

/// The attributes that the image is to have.
fn root_attributes(
    target: &Location,
    plan: &OutPlan<'_>,
    format: ZarrFormat,
) -> Result<Map<String, Value>, Error> {
    let name = if format == ZarrFormat::V2 { ".zattrs" } else { DOCUMENT };
    let document = planned(plan, &target.key(name)?).unwrap_or(b"{}");
    let document: Value = serde_json::from_slice(document).unwrap_or_default();
    let attributes = match format {
        ZarrFormat::V2 => document,
        ZarrFormat::V3 => document["attributes"].clone(),
    };
    Ok(attributes.as_object().cloned().unwrap_or_default())
}

/// The image that the conversion is to make.
fn planned_image(
    context: &JobContext,
    target: &Location,
    plan: &OutPlan<'_>,
    form: &OmeForm,
) -> Result<PyramidImage, Error> {
    let at = || target.to_string();
    let not_an_image = |found: &str| -> Error {
        PyramidError::NotAnImage { at: at(), found: found.to_owned() }.into()
    };
    let is_v3 = form.version.release().is_zarr3();
    let format = if is_v3 { ZarrFormat::V3 } else { ZarrFormat::V2 };
    let attributes = root_attributes(target, plan, format)?;
    let metadata = OmeMetadata::read(&attributes)
        .map_err(|source| Error::Ome { at: at(), source: Box::new(source) })?
        .ok_or_else(|| not_an_image("it would have no such metadata"))?;
    let path = metadata.image().and_then(|image| image.levels.first()).map(|l| l.path.clone());
    let path = path.ok_or_else(|| not_an_image("it would be a hierarchy of images"))?;
    let place = target.join(&path)?;
    let document = |name: &str| Ok::<_, Error>(planned(plan, &place.key(name)?));
    let object = place.key(if is_v3 { DOCUMENT } else { ".zarray" })?;
    let refused = |source| Error::Metadata { object, source };
    let (array, v2) = match format {
        ZarrFormat::V3 => match NodeMetadata::parse(document(DOCUMENT)?.unwrap_or_default()) {
            Ok(NodeMetadata::Array(array)) => (array, None),
            Ok(NodeMetadata::Group(_)) => return Err(not_an_image("its level is a group")),
            Err(error) => return Err(refused(Box::new(error))),
        },
        ZarrFormat::V2 => {
            let (zarray, zattrs) = (document(".zarray")?.unwrap_or_default(), document(".zattrs")?);
            let array =
                ArrayMetadata::parse_v2(zarray, zattrs).map_err(Box::new).map_err(refused)?;
            let json = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap_or_default();
            (array, Some((json(zarray), zattrs.map(json))))
        }
    };
    let finest = ArrayNode::from_metadata(context.engine(), &place, array)?;
    PyramidImage { location: target.clone(), format, metadata, finest, v2 }.checked()
}

/// Whether the target has the finest level as it is planned.
fn has_finest(image: &PyramidImage, plan: &OutPlan<'_>) -> Result<bool, Error> {
    let place = image.finest.location();
    let name = if image.format == ZarrFormat::V2 { ".zarray" } else { DOCUMENT };
    let key = place.key(name)?;
    let found = place.store.get(&key)?;
    Ok(found.is_some_and(|found| planned(plan, &key) == Some(&*found)))
}

/// Whether the target has the attributes of an image with all levels.
fn is_declared(
    image: &PyramidImage,
    plan: &OutPlan<'_>,
    levels: &super::image::Plan,
) -> Result<bool, Error> {
    let mut wanted = root_attributes(&image.location, plan, image.format)?;
    if declare_in(&mut wanted, &levels.levels, levels.method).is_err() {
        return Ok(false);
    }
    let location = image.location.clone().with_format(Some(image.format));
    match crate::zarr::attributes(&location) {
        Ok(found) => Ok(found == wanted),
        Err(Error::NoNode { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
