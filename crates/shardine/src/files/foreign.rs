//! Formats of files that are known by their names, and not written here.

/// A format of files that no array becomes here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignFile {
    /// What it is called.
    pub format: &'static str,
    /// What to do instead.
    pub advice: &'static str,
}

const IMAGE: &str = "convert to .npy, and let a program for images make the file of that";
const SCIENCE: &str = "convert to Zarr or .npy, and let xarray or h5py make the file of that";
const ARCHIVE: &str = "convert to a folder, and pack what is in it with `zip -0 -r`";

/// The endings of names, in lower case.
const ENDINGS: [(&str, &str, &str); 14] = [
    ("tif", "TIFF", IMAGE),
    ("tiff", "TIFF", IMAGE),
    ("png", "PNG", IMAGE),
    ("jpg", "JPEG", IMAGE),
    ("jpeg", "JPEG", IMAGE),
    ("nii", "NIfTI", IMAGE),
    ("nrrd", "NRRD", IMAGE),
    ("mrc", "MRC", IMAGE),
    ("h5", "HDF5", SCIENCE),
    ("hdf5", "HDF5", SCIENCE),
    ("nc", "NetCDF", SCIENCE),
    ("npz", "numpy's archive", SCIENCE),
    ("zip", "zip", ARCHIVE),
    ("ozx", "zipped OME-Zarr", ARCHIVE),
];

/// The format that the ending of a path or URL names, if that is one of files that are not written
/// here.
///
/// ```
/// use shardine::files::foreign_file;
///
/// assert_eq!(foreign_file("scan.ome.TIFF").map(|file| file.format), Some("TIFF"));
/// assert_eq!(foreign_file("scan.tif.zarr"), None);
/// assert_eq!(foreign_file("scan.npy"), None);
/// ```
pub fn foreign_file(name: &str) -> Option<ForeignFile> {
    let last = name.trim_end_matches('/').rsplit('/').next()?;
    let (_, ending) = last.rsplit_once('.')?;
    let found = ENDINGS.iter().find(|(known, ..)| ending.eq_ignore_ascii_case(known));
    found.map(|&(_, format, advice)| ForeignFile { format, advice })
}
