//! The objects that webknossos-wrap documents describe, and the folders that they name.

use shardine_store::{Key, Listing, StoreError};

use super::array::packing;
use super::layers::LayerPlace;
use super::properties::Mag;
use super::{Described, HEADER, PROPERTIES, find, read_properties};
use crate::engine::{Cells, SharedPacking};
use crate::format::{Contents, ContentsError, PossibleKey, folder_within};
use crate::shard::wkw::WkwHeader;
use crate::{Error, Location};

/// The largest document that is searched for the folders that it names; they usually have a few
/// KiB.
const LARGEST_DOCUMENT: u64 = 4 << 20;

/// The objects of a data set, a layer or a magnification; `None` if there is none. One read for
/// each magnification, or two if its folder has the longer name.
pub(super) fn contents(location: &Location) -> Result<Option<Contents>, ContentsError> {
    let mut contents = Contents::default();
    match find(location)? {
        None => return Ok(None),
        Some(Described::DataSet(properties)) => {
            contents.needs(location.key(PROPERTIES)?);
            for layer in &properties.layers {
                if layer.mags.is_empty() {
                    continue;
                }
                if !layer.is_wkw() {
                    return Err(ContentsError::Untold {
                        reason: "one of its layers is in another format, so its document does not list them",
                        advice: Some("copy its layers one by one"),
                    });
                }
                let place = LayerPlace::new(location, &properties, layer)?;
                add_layer(&mut contents, location, &place)?;
            }
        }
        Some(Described::Layer(place)) => {
            add_layer(&mut contents, &place.root.join(&place.layer.name)?, &place)?;
        }
        Some(Described::Magnification(header, Some(extent))) => {
            add_files(&mut contents, location, &header, extent.size())?;
        }
        Some(Described::Magnification(_, None)) => {
            return Err(ContentsError::Untold {
                reason: "no datasource-properties.json above gives their extent",
                advice: Some("copy the data set that it is part of"),
            });
        }
    }
    Ok(Some(contents))
}

/// Adds the magnifications of a layer, which must lie `within` a location of the data set.
fn add_layer(
    contents: &mut Contents,
    within: &Location,
    place: &LayerPlace,
) -> Result<(), ContentsError> {
    for mag in place.layer.mags.iter().filter(|mag| !mag.is_elsewhere()) {
        check_mag(within, &place.root, &place.layer.name, mag)?;
        let (folder, header) = place.header(mag)?;
        add_files(contents, &folder, &header, place.extent(mag).size())?;
    }
    Ok(())
}

fn add_files(
    contents: &mut Contents,
    folder: &Location,
    header: &WkwHeader,
    size: [u64; 3],
) -> Result<(), Error> {
    contents.needs(folder.key(HEADER)?);
    let packing = packing(folder, header, size)?;
    let keys = Cells::new(packing.cubes().to_vec()).filter_map(move |place| {
        let object = packing.object_at(&place)?;
        Some(packing.object_key(object).map(PossibleKey::new))
    });
    contents.grid(folder, keys);
    Ok(())
}

fn check_mag(
    within: &Location,
    root: &Location,
    layer: &str,
    mag: &Mag,
) -> Result<(), ContentsError> {
    let mut folders = mag.folders(layer).into_iter();
    folders.try_for_each(|folder| folder_within(within, root, PROPERTIES, &folder).map(drop))
}

/// Refuses a folder with a document whose magnifications lie outside `within`. One read if there is
/// such a document.
pub(super) fn check_listed(
    within: &Location,
    folder: &Location,
    listing: &Listing,
) -> Result<(), ContentsError> {
    let document = folder.key(PROPERTIES)?;
    let is_looked_at = |(key, len): &(Key, u64)| *key == document && *len <= LARGEST_DOCUMENT;
    if !listing.objects.iter().any(is_looked_at) {
        return Ok(());
    }
    let properties = match read_properties(folder) {
        Ok(Some(properties)) => properties,
        // An invalid document describes nothing.
        Ok(None) | Err(Error::WkwProperties { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for layer in &properties.layers {
        for mag in layer.mags.iter().filter(|mag| !mag.is_elsewhere()) {
            match check_mag(within, folder, &layer.name, mag) {
                Err(ContentsError::Other(Error::Store(StoreError::Key { .. }))) => {}
                checked => checked?,
            }
        }
    }
    Ok(())
}
