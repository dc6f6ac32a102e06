//! Why a verb failed.

use std::fmt::Display;
use std::io;
use std::path::Path;

use shardine::files::{FileError, TypeError};
use shardine::jobs::{ConvertError, CopyError, ImportError, RepackError};
use shardine::plan::{ArrayLayoutError, LayoutPart};
use shardine::store::StoreError;
use shardine::zarr::metadata::MetadataError;
use shardine::{DataType, DataTypeError};

use crate::{no_data_set, units};

/// How a verb ends that fails.
#[derive(Debug)]
pub enum Failure {
    /// An error message for the user.
    Told {
        /// One line: what is wrong.
        message: String,
        /// One line: what to do next.
        hint: Option<String>,
    },
    /// The reader of standard output has gone (`| head`): nobody is left to report to, and nothing
    /// is wrong.
    NobodyReads,
    /// A check has found damage, and has already reported it.
    Damage,
    /// A comparison has found a difference, which its report shows.
    Differs,
    /// Stopped by Ctrl-C.
    Interrupted,
}

impl Failure {
    pub fn new(message: impl Display) -> Self {
        Self::Told { message: one_line(&message.to_string()), hint: None }
    }

    /// Adds what to do next.
    pub fn hint(self, hint: impl Display) -> Self {
        match self {
            Self::Told { message, .. } => {
                Self::Told { message, hint: Some(one_line(&hint.to_string())) }
            }
            other => other,
        }
    }

    /// What is wrong, in one line.
    pub fn message(&self) -> &str {
        match self {
            Self::Told { message, .. } => message,
            Self::NobodyReads => "the output was closed",
            Self::Damage => "damage was found",
            Self::Differs => "the data sets differ",
            Self::Interrupted => "interrupted",
        }
    }

    /// An I/O error on a file.
    pub fn file(path: &Path, error: &io::Error) -> Self {
        let failure = Self::new(format!("{}: {error}", path.display()));
        match missing_folder(path, error) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// A command line that cannot be parsed. The parser's own report is a page; this is its first
    /// paragraph.
    pub fn from_usage(error: &clap::Error) -> Self {
        if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return Self::new("no verb given").hint(
                "run `shardine demo` for a tour, or `shardine --help` for the list of verbs",
            );
        }
        let text = error.to_string();
        let mut paragraph = text.lines().take_while(|line| !line.trim().is_empty());
        let first = paragraph.next().unwrap_or_default();
        let rest: Vec<&str> = paragraph.map(str::trim).collect();
        let message = format!("{first} {}", rest.join(", "));
        let message = message.strip_prefix("error: ").unwrap_or(&message);
        let verb = text
            .lines()
            .find_map(|line| line.strip_prefix("Usage: shardine "))
            .and_then(|usage| usage.split_whitespace().next())
            .filter(|verb| verb.starts_with(|c: char| c.is_ascii_lowercase()));
        let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
        let see = match verb {
            Some(verb) => format!("see `shardine {verb} --help`"),
            None => "see `shardine --help`".to_owned(),
        };
        Self::new(message).hint(match tip {
            Some(tip) => format!("{tip}; {see}"),
            None => see,
        })
    }
}

/// The hint for a file whose folder does not exist.
fn missing_folder(path: &Path, error: &io::Error) -> Option<String> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty())?;
    let missing = error.kind() == io::ErrorKind::NotFound && no_data_set::is_missing(parent);
    missing.then(|| format!("the folder {} does not exist", parent.display()))
}

/// The data type that an option names.
pub fn data_type(text: &str) -> Result<DataType, Failure> {
    DataType::parse_name(text).map_err(|error| {
        let failure = Failure::new(format!("--dtype: {error}"));
        match error {
            DataTypeError::Unknown { .. } => failure.hint(
                "use bool, int8 to int64, uint8 to uint64, float16 to float64, complex64, complex128, string, bytes, \
                 numpy.datetime64[ns], r16 or a numpy name such as <u2",
            ),
            _ => failure,
        }
    })
}

/// A name as one shell word.
pub fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:@%".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

/// Messages may contain names from files; a line break in one must not look like a second message.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split(['\n', '\r']).map(str::trim).collect();
    words.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(" ")
}

impl From<shardine::Error> for Failure {
    fn from(error: shardine::Error) -> Self {
        let error = match error {
            shardine::Error::Cancelled => return Self::Interrupted,
            shardine::Error::ArrayLayout(error) => return layout_failure(&error),
            error => error,
        };
        let failure = match with_option(&error) {
            Some(message) => Self::new(message),
            None => Self::new(&error),
        };
        // An option or verb that helps is named here; otherwise use the library's own hint.
        let hint = match &error {
            shardine::Error::Exists { .. } => {
                Some("choose another name, or use --overwrite".to_owned())
            }
            shardine::Error::NotAnArray { at } => {
                let at = quoted(at);
                Some(format!("name one of its arrays; run `shardine ls {at}` to list them"))
            }
            shardine::Error::NoNode { at } => Some(no_data_set::hint(at)),
            shardine::Error::Copy(error) => copy_hint(error),
            shardine::Error::Repack(error) => repack_hint(error),
            shardine::Error::File(error) => file_hint(error),
            shardine::Error::Import(error) => import_hint(error),
            shardine::Error::Convert(error) => convert_hint(error),
            shardine::Error::ZarrV2 { at, .. } => Some(format!(
                "run `shardine migrate {}` to write version 3 metadata; the chunks stay where they are",
                quoted(at)
            )),
            shardine::Error::Store(StoreError::Io { path, source, .. }) if path.contains("://") => {
                remote_hint(path, source)
            }
            _ => error.hint(),
        };
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// What to do about a remote store that denies access, does not answer, or was not asked for lack of
/// credentials.
fn remote_hint(path: &str, error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {}
        io::ErrorKind::NotConnected => {
            return Some(
                "nothing answers there: check the name and the network; for a server of your own, set \
                 --store-option endpoint=URL"
                    .to_owned(),
            );
        }
        _ => return None,
    }
    let scheme = path.split_once("://").map_or("", |(scheme, _)| scheme);
    let credentials = match scheme.to_ascii_lowercase().as_str() {
        "s3" | "s3a" => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_PROFILE is not read: \
             `eval \"$(aws configure export-credentials --format env)\"` sets both from a profile), and \
             --store-option endpoint=URL for a server other than Amazon's"
        }
        "gs" | "gcs" => "set GOOGLE_APPLICATION_CREDENTIALS to the path of a key file",
        "az" | "azure" | "abfs" | "abfss" => {
            "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"
        }
        "http" | "https" => {
            return Some(
                "put the user and password into the URL, https://USER:PASSWORD@HOST/PATH; for a private \
                 bucket, use the scheme of its store, such as s3://"
                    .to_owned(),
            );
        }
        _ => return None,
    };
    Some(format!(
        "for a public bucket use --anonymous; otherwise {credentials}; on a cloud machine with a role, set \
         SHARDINE_INSTANCE_CREDENTIALS=true; see docs/remote.md"
    ))
}

/// What to do about a refused job, where an option or a verb helps.
fn repack_hint(error: &RepackError) -> Option<String> {
    match error {
        RepackError::NeedsTarget { .. } => {
            Some("use -o DST to write the result elsewhere".to_owned())
        }
        RepackError::BothVersions { at } => Some(format!(
            "run `shardine migrate {} --remove-v2` to remove the v2 metadata, or use -o DST to write the result elsewhere",
            quoted(at)
        )),
        RepackError::ZarrV2 { at } => Some(format!(
            "use -o DST to write the result elsewhere, or convert it to version 3 first with `shardine migrate {} --remove-v2`",
            quoted(at)
        )),
        RepackError::OtherJob { command: Some(command), .. } => {
            Some(format!("finish it with `{command}`, or use --restart to start over"))
        }
        RepackError::OtherJob { .. } | RepackError::Marker { .. } => {
            Some("finish that job, or use --restart to start over".to_owned())
        }
        _ => error.hint(),
    }
}

/// What to do about a refused copy, where an option helps.
fn copy_hint(error: &CopyError) -> Option<String> {
    match error {
        CopyError::OtherCopy { request: Some(_), command: Some(command), .. } => {
            Some(format!("finish it with `{command}`, choose another name, or use --restart"))
        }
        CopyError::OtherCopy { request: Some(_), .. } => {
            Some("finish it, choose another name, or use --restart".to_owned())
        }
        CopyError::OtherCopy { at, from, .. } => Some(format!(
            "finish it with `shardine copy {} {}`, choose another name, or use --overwrite",
            quoted(from),
            quoted(at)
        )),
        CopyError::Overlap { .. } => {
            Some("choose a target outside the source that does not contain it".to_owned())
        }
        CopyError::Marker { .. } => Some("choose another name, or use --overwrite".to_owned()),
        CopyError::Length { .. } | CopyError::Content { .. } => {
            Some("run the same command again to copy it again; everything else is kept".to_owned())
        }
        _ => error.hint(),
    }
}

/// The message, where an option is part of it.
fn with_option(error: &shardine::Error) -> Option<String> {
    match error {
        shardine::Error::File(error) => match error {
            FileError::Type { source: TypeError::Uncast { .. }, .. } => {
                Some(format!("{error}; use --cast to convert"))
            }
            FileError::CastOfRaw { name } => {
                Some(format!("{name}: raw bytes have no type, so --cast cannot convert them"))
            }
            _ => None,
        },
        shardine::Error::Import(ImportError::Shape { name, found, asked }) => Some(format!(
            "{name}: has the shape {}, but --shape is {}",
            units::shape(found),
            units::shape(asked)
        )),
        _ => None,
    }
}

/// What to do about a file, where an option helps.
fn file_hint(error: &FileError) -> Option<String> {
    match error {
        FileError::Exists { .. } => Some("choose another name, or use --overwrite".to_owned()),
        FileError::Io { name, source } => missing_folder(Path::new(name), source),
        FileError::CastOfRaw { .. } => Some("use a .npy file, or omit --cast".to_owned()),
        FileError::Shape { .. } => {
            Some("use --region to select the part of the array that the file is for".to_owned())
        }
        _ => error.hint(),
    }
}

/// What to do about a refused conversion, where an option helps.
fn convert_hint(error: &ConvertError) -> Option<String> {
    let hint = match error {
        ConvertError::ImageAxes { .. } => {
            "name the axes of the source with --axes, such as --axes tczyx"
        }
        ConvertError::OtherVersion { .. } => {
            "use --to ome-zarr --ome-version 0.4, which is Zarr version 2"
        }
        ConvertError::Metadata { source, .. } => match &**source {
            MetadataError::NotInV2 { member, .. } if member.starts_with("codecs") => {
                "use --codec to re-encode it, such as --codec zstd:3"
            }
            _ => return error.hint(),
        },
        _ => return error.hint(),
    };
    Some(hint.to_owned())
}

/// What to do about a refused conversion of a file, where an option helps.
fn import_hint(error: &ImportError) -> Option<String> {
    match error {
        ImportError::Undescribed { .. } => Some("use --shape and --dtype".to_owned()),
        ImportError::DamagedMarker { .. } => {
            Some("choose another name, or use --overwrite".to_owned())
        }
        ImportError::LeftByStream { .. } => Some("use --overwrite to start over".to_owned()),
        ImportError::OtherOptions { command: Some(command), .. }
        | ImportError::OtherFile { command: Some(command), .. } => {
            Some(format!("finish it with `{command}`, or use --overwrite to start over"))
        }
        ImportError::OtherOptions { .. } => {
            Some("use the same options as before, or --overwrite to start over".to_owned())
        }
        ImportError::OtherFile { at, name, .. } => Some(format!(
            "finish it with `shardine convert {} {}` and the same options as before, or use --overwrite",
            quoted(name),
            quoted(at)
        )),
        _ => error.hint(),
    }
}

/// A refused layout of a new array, in terms of its options.
fn layout_failure(error: &ArrayLayoutError) -> Failure {
    match error {
        ArrayLayoutError::Rank { what, given, rank } => {
            let option = match what {
                LayoutPart::Chunk => "--chunk",
                LayoutPart::Shard => "--shard",
                _ => "--chunks-per-shard",
            };
            let given = units::shape_argument(given);
            Failure::new(format!(
                "{option} {given}: needs one length above 0 for each of the {rank} axes"
            ))
        }
        ArrayLayoutError::PartOfChunk { fitting, .. } => {
            Failure::new(error).hint(format!("use --shard {}", units::shape_argument(fitting)))
        }
        ArrayLayoutError::TooLong { .. } => Failure::new(format!("--chunks-per-shard: {error}")),
        ArrayLayoutError::Codecs { .. } => Failure::new(format!("--codec: {error}"))
            .hint("use --codecs for any codec in its JSON form"),
        ArrayLayoutError::NoIndex => {
            Failure::new("--index-codecs: without shards there is no index")
        }
        ArrayLayoutError::Fill { source } => Failure::new(format!("--fill: {source}")),
        ArrayLayoutError::Names { .. } => Failure::new(format!("--dims: {error}")),
        _ => Failure::new(error),
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        shardine::Error::from(error).into()
    }
}

/// For standard output; errors on files are made with [`Failure::file`], which names the file.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::NobodyReads,
            _ => Self::new(format!("cannot write to standard output: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_is_in_it() {
        let Failure::Told { message, hint } = Failure::new("a\r\nb\n\n c").hint("d\ne") else {
            panic!("it is told");
        };
        assert_eq!((message.as_str(), hint.as_deref()), ("a b c", Some("d e")));
    }

    #[test]
    fn a_name_is_one_word() {
        assert_eq!(quoted("a/b-1.zarr"), "a/b-1.zarr");
        assert_eq!(quoted("it's mine"), "'it'\\''s mine'");
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error() {
        let gone = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(matches!(Failure::from(gone), Failure::NobodyReads));
    }
}
