use shardine_store::Key;

/// Why a data set cannot be copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The source is empty.
    #[error("there is nothing at {at}")]
    Nothing {
        /// The source.
        at: String,
    },
    /// The source is a single object.
    #[error("{at} is a single object, not a data set")]
    SingleObject {
        /// The source.
        at: String,
    },
    /// Source and target overlap.
    #[error("{from} and {to} are the same location, or one is inside the other")]
    Overlap {
        /// The source.
        from: String,
        /// The target.
        to: String,
    },
    /// The source was changed, so what was copied may mix two states of it.
    #[error("the metadata of {at} changed during the copy; the copy was discarded")]
    SourceChanged {
        /// The source.
        at: String,
    },
    /// The source is itself an interrupted copy.
    #[error("{at} is an unfinished copy of another data set")]
    UnfinishedSource {
        /// The source.
        at: String,
    },
    /// The target is the unfinished result of another copy.
    #[error(
        "{at} is an unfinished copy of {from}{}",
        match (command, request) {
            (Some(command), _) => format!(", started by `{command}`"),
            (None, Some(_)) => ", with different options".to_owned(),
            (None, None) => String::new(),
        }
    )]
    OtherCopy {
        /// The target.
        at: String,
        /// What was being copied.
        from: String,
        /// What was requested, if its chunks were being repacked.
        request: Option<String>,
        /// By which command it was begun, if that is known.
        command: Option<String>,
    },
    /// The marker of the copy is invalid.
    #[error("\"{marker}\", which records an interrupted copy, is damaged")]
    Marker {
        /// The marker.
        marker: Key,
    },
    /// Another copy to the same target began at the same time.
    #[error("another copy to {at} has just started")]
    JustBegun {
        /// The target.
        at: String,
    },
    /// What is at the target is not known to be a data set, so it is not removed.
    #[error("refusing to overwrite {at}: it is not a data set")]
    NotADataSet {
        /// The target.
        at: String,
    },
    /// Another file system is mounted inside the folder to be removed.
    #[error("refusing to overwrite {at}: something is mounted inside it, at {mount}")]
    Mounted {
        /// The target.
        at: String,
        /// The folder.
        mount: String,
    },
    /// The source can neither be listed, nor does its metadata name all its objects.
    #[error("the objects of {at} cannot be listed, and {reason}")]
    Unlisted {
        /// The source.
        at: String,
        /// Why its metadata does not help.
        reason: String,
        /// What would help, apart from a URL that can be listed.
        advice: Option<&'static str>,
    },
    /// A document refers to a folder outside the source, which the copy would lack.
    #[error("\"{document}\" refers to \"{folder}\", which is outside {at} and would not be copied")]
    Outside {
        /// The source.
        at: String,
        /// The document.
        document: Key,
        /// The folder, as the document names it.
        folder: String,
    },
    /// Folders are nested without end.
    #[error("\"{folder}\" is nested too deeply: links may form a loop there")]
    TooDeep {
        /// The folder.
        folder: Key,
    },
    /// An object in the target does not have the length that was written.
    #[error(
        "\"{object}\" in the target should have {expected} bytes, but {}",
        match found { Some(found) => format!("has {found}; it was removed"), None => "is missing".to_owned() }
    )]
    Length {
        /// The object in the target.
        object: Key,
        /// Bytes written.
        expected: u64,
        /// Bytes in the target; `None` if it is missing.
        found: Option<u64>,
    },
    /// The target does not return the bytes that were written.
    #[error("\"{object}\" does not read back from the target as it was written; it was removed")]
    Content {
        /// The object in the target.
        object: Key,
    },
}

impl CopyError {
    /// What to do next, if anything.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::SingleObject { .. } => "name the folder or prefix that holds the data set".into(),
            Self::SourceChanged { .. } => "copy again when nothing is changing the source".into(),
            Self::UnfinishedSource { .. } => "finish that copy first".into(),
            Self::OtherCopy { from, .. } => {
                format!(
                    "finish it by copying {from} again, choose another location, or overwrite it"
                )
            }
            Self::Marker { .. } => "choose another location, or overwrite what is there".into(),
            Self::NotADataSet { .. } => "choose another location, or remove it yourself".into(),
            Self::Unlisted { advice, .. } => {
                let advice = advice.map(|advice| format!("{advice}, or ")).unwrap_or_default();
                format!("{advice}use a URL whose objects can be listed")
            }
            Self::Length { .. } | Self::Content { .. } => {
                "copy again; what was already copied is kept".into()
            }
            Self::Outside { .. } => "copy the folder above, which holds both".into(),
            Self::Mounted { .. } => "unmount it first, or choose another location".into(),
            Self::Nothing { .. }
            | Self::Overlap { .. }
            | Self::JustBegun { .. }
            | Self::TooDeep { .. } => return None,
        })
    }
}
