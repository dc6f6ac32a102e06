//! Files of elements, `.npy` or raw bytes, as the source of a write and as the target of a read.
//!
//! A file is read box by box and is never in memory as a whole, so it may be larger than memory.
//!
//! ```
//! use shardine::files::Input;
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("six.raw");
//! std::fs::write(&path, [1, 2, 3, 4, 5, 6])?;
//! let input = Input::open(&path)?;
//! assert!(input.header().is_none(), "raw bytes do not say what they are");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod array_file;
mod cast;
mod error;
mod foreign;
mod input;
mod output_file;
mod raw_variable;
mod slabs;
mod stored_type;

pub use error::FileError;
pub use foreign::{ForeignFile, foreign_file};
pub use input::{FoundFile, Input, InputOptions, is_element_file, is_npy};
pub use output_file::{IfExists, OutputFile, check_free, is_device};
pub use raw_variable::RawError;
pub use shardine_npy::{Descr, Header, NpyError};
pub use stored_type::{TypeError, npy_descr, type_of_npy};

pub(crate) use error::{elements, shown};
pub(crate) use input::check_cast_of_raw;
pub(crate) use raw_variable::{Framing, Writer};
pub(crate) use slabs::{Order, Slab, plan as cut_into_slabs};
