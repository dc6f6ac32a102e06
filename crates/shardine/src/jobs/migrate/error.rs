/// Why a hierarchy cannot be migrated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// Some nodes have no equivalent in the new version, or cannot be read. Nothing was written.
    #[error(
        "{} cannot be migrated, so nothing was written; the first: {}",
        counted(nodes),
        first(nodes)
    )]
    Refused {
        /// All of them.
        nodes: Vec<RefusedNode>,
    },
    /// The documents of the two versions disagree, so those of version 2 are not removed.
    #[error(
        "the metadata of {at} differs between version 2 and version 3 ({what}), so version 2 is \
         not removed"
    )]
    Differs {
        /// Which node.
        at: String,
        /// What differs.
        what: &'static str,
    },
    /// Folders are nested deeper than in any hierarchy.
    #[error("{at} is nested more than {most} groups deep")]
    TooDeep {
        /// Where.
        at: String,
        /// The deepest level that is visited.
        most: usize,
    },
    /// The version of OME-Zarr is not one of Zarr version 3.
    #[error("OME-Zarr {version} is not a version of Zarr v3, so nothing can be migrated to it")]
    Version {
        /// The version.
        version: String,
    },
    /// It belongs to a hierarchy that would have two versions then.
    #[error("{at} belongs to {above}, which is OME-Zarr {has}: it cannot become {wanted} alone")]
    PartOf {
        /// The part.
        at: String,
        /// The hierarchy.
        above: String,
        /// The version of the hierarchy.
        has: String,
        /// The version that the part would get.
        wanted: String,
    },
    /// Several groups would have to change in one step, which only files can.
    #[error("{groups} groups of {at} would change, and this store cannot change them in one step")]
    NotTogether {
        /// The hierarchy.
        at: String,
        /// How many.
        groups: usize,
    },
    /// Another process has written another document.
    #[error("another process has given {at} other metadata in the meantime")]
    Taken {
        /// Which node.
        at: String,
    },
}

/// A node that cannot be migrated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedNode {
    /// Where it is.
    pub at: String,
    /// Why not.
    pub reason: String,
}

fn counted(nodes: &[RefusedNode]) -> String {
    match nodes.len() {
        1 => "1 node".into(),
        count => format!("{count} nodes"),
    }
}

fn first(nodes: &[RefusedNode]) -> &str {
    nodes.first().map_or("", |node| &node.reason)
}

impl MigrateError {
    /// What to do next.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Refused { .. } => {
                "correct these nodes, or migrate the others one by one; --ome-version none leaves \
                 OME-Zarr metadata as it is"
                    .into()
            }
            Self::Differs { .. } => {
                "check which of the two is right, and remove the other's documents by hand; or use \
                 --keep-v2"
                    .into()
            }
            Self::TooDeep { .. } => "look for a link that leads back to a folder above it".into(),
            Self::Version { .. } => {
                "choose 0.5 or 0.6, or use `shardine convert --to ome-zarr` for older versions"
                    .into()
            }
            Self::PartOf { above, .. } => format!("migrate {above}"),
            Self::NotTogether { .. } => {
                "use `shardine convert --to ome-zarr` to make a new hierarchy, or migrate a copy \
                 on files"
                    .into()
            }
            Self::Taken { .. } => "let only one process migrate it".into(),
        }
    }
}
