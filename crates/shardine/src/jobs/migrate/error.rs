/// Why a hierarchy cannot be migrated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// Some nodes have no equivalent in version 3, or cannot be read. Nothing was written.
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
                "rewrite these arrays with other types or codecs, or migrate \
                                     the others one by one"
            }
            Self::Differs { .. } => {
                "check which of the two is right, and remove the other's documents by hand"
            }
            Self::TooDeep { .. } => "look for a link that leads back to a folder above it",
        }
        .into()
    }
}
