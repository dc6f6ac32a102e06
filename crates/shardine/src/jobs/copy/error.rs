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
    /// The source is one object.
    #[error("{at} is a single object, not a data set")]
    SingleObject {
        /// The source.
        at: String,
    },
    /// One of the two lies in the other.
    #[error("{from} and {to} are the same place, or one lies in the other")]
    Overlap {
        /// The source.
        from: String,
        /// The target.
        to: String,
    },
    /// Somebody changed the source, so that what was copied may be of two states of it.
    #[error("the metadata of {at} was changed while it was copied; nothing of the copy is kept")]
    SourceChanged {
        /// The source.
        at: String,
    },
    /// The source is itself what a copy left when it was interrupted.
    #[error("{at} is the unfinished copy of another data set")]
    UnfinishedSource {
        /// The source.
        at: String,
    },
    /// The target is the unfinished result of another copy.
    #[error(
        "{at} is the unfinished copy of {from}{}",
        match (command, request) {
            (Some(command), _) => format!(", begun by `{command}`"),
            (None, Some(_)) => ", which asked for something else".to_owned(),
            (None, None) => String::new(),
        }
    )]
    OtherCopy {
        /// The target.
        at: String,
        /// What was being copied.
        from: String,
        /// What was asked for, if its chunks were to be packed anew.
        request: Option<String>,
        /// By which command it was begun, if that is known.
        command: Option<String>,
    },
    /// The object that says what is being copied makes no sense.
    #[error("\"{marker}\", which tells of a copy that was interrupted, is damaged")]
    Marker {
        /// The object.
        marker: Key,
    },
    /// Another copy to the same target began at the same time.
    #[error("another copy to {at} has just begun")]
    JustBegun {
        /// The target.
        at: String,
    },
    /// What is at the target is not known to be a data set, so it is not removed.
    #[error("what is at {at} is not a data set, and is not overwritten")]
    NotADataSet {
        /// The target.
        at: String,
    },
    /// Another file system is mounted inside of what is to be removed.
    #[error("{at} is not overwritten, as something is mounted inside of it, at {mount}")]
    Mounted {
        /// The target.
        at: String,
        /// The folder.
        mount: String,
    },
    /// The source can neither be listed, nor does its metadata tell all its objects.
    #[error("the objects of {at} cannot be listed, and {reason}")]
    Unlisted {
        /// The source.
        at: String,
        /// Why its metadata does not help.
        reason: String,
        /// What would, beside an address that can be listed.
        advice: Option<&'static str>,
    },
    /// A document tells of a folder that is not below the source, so that the copy would lack it.
    #[error(
        "\"{document}\" tells of \"{folder}\", which lies outside of {at} and would not be copied"
    )]
    Outside {
        /// The source.
        at: String,
        /// The document.
        document: Key,
        /// The folder, as the document names it.
        folder: String,
    },
    /// Folders in folders without an end.
    #[error("\"{folder}\" lies too deep: the links around it may be a loop")]
    TooDeep {
        /// The folder.
        folder: Key,
    },
    /// The target does not have an object with the length that was written.
    #[error(
        "\"{object}\" in the target should have {expected} bytes, but {}",
        match found { Some(found) => format!("has {found}; it was removed"), None => "is not there".to_owned() }
    )]
    Length {
        /// The object in the target.
        object: Key,
        /// Bytes that were written.
        expected: u64,
        /// Bytes that the target tells of.
        found: Option<u64>,
    },
    /// The target does not give back the bytes that were written.
    #[error("\"{object}\" does not read back from the target as it was written; it was removed")]
    Content {
        /// The object in the target.
        object: Key,
    },
}

impl CopyError {
    /// What to do next, where there is something to be said.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::SingleObject { .. } => "name the folder or prefix that holds the data set".into(),
            Self::SourceChanged { .. } => "copy again, when nothing changes the source".into(),
            Self::UnfinishedSource { .. } => "finish that copy first".into(),
            Self::OtherCopy { from, .. } => {
                format!("finish it by copying {from} again, choose another place, or overwrite it")
            }
            Self::Marker { .. } => "choose another place, or overwrite what is there".into(),
            Self::NotADataSet { .. } => "choose another place, or remove it yourself".into(),
            Self::Unlisted { advice, .. } => {
                let advice = advice.map(|advice| format!("{advice}, or ")).unwrap_or_default();
                format!("{advice}use an address whose objects can be listed")
            }
            Self::Length { .. } | Self::Content { .. } => {
                "copy again: what is there already is kept".into()
            }
            Self::Outside { .. } => "copy the folder above, which holds both".into(),
            Self::Mounted { .. } => "unmount it first, or choose another place".into(),
            Self::Nothing { .. }
            | Self::Overlap { .. }
            | Self::JustBegun { .. }
            | Self::TooDeep { .. } => return None,
        })
    }
}
