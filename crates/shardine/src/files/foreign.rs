//! File formats that are recognised by name, but not written.

/// A file format that is recognised by name, but not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignFile {
    /// What it is called.
    pub format: &'static str,
    /// What to do instead.
    pub advice: &'static str,
}

const IMAGE: &str = "convert to .npy, then create the image from it with another tool";
const SCIENCE: &str = "convert to Zarr or .npy, then create the file from it with xarray or h5py";
const ARCHIVE: &str = "convert to a folder, then pack its contents with `zip -0 -r`";

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

/// The file format that the extension of a path or URL names, if it is one that is not written.
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
