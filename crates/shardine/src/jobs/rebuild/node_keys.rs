//! What in the folder of a Zarr hierarchy belongs to its nodes, and what merely lies there.

use std::collections::BTreeMap;

use shardine_store::FolderPart;

use crate::zarr::metadata::ChunkKeyEncoding;
use crate::zarr::{DOCUMENT, V2_DOCUMENTS, grid_folder};

/// The nodes of a hierarchy by path, and for arrays how their objects are named.
#[derive(Debug, Default)]
pub(in crate::jobs) struct NodeKeys {
    nodes: BTreeMap<String, Option<Named>>,
}

/// How the objects of an array are named, before and after, and how many axes it has.
#[derive(Debug, Clone, Copy)]
struct Named {
    encodings: [ChunkKeyEncoding; 2],
    rank: usize,
}

impl NodeKeys {
    /// Adds a group; where there is an array, it is not one in the source.
    pub fn add_group(&mut self, path: &str) {
        self.nodes.entry(path.to_owned()).or_insert(None);
    }

    /// Adds an array whose objects are named by the first of two encodings, and will be by the
    /// second.
    pub fn add_array(&mut self, path: &str, encodings: [ChunkKeyEncoding; 2], rank: usize) {
        self.nodes.insert(path.to_owned(), Some(Named { encodings, rank }));
    }

    /// Adds an array that is made in a place where the source may have another one, whose objects do
    /// not become those of the new one.
    pub fn add_new_array(&mut self, path: &str, encoding: ChunkKeyEncoding, rank: usize) {
        match self.nodes.get_mut(path) {
            Some(Some(old)) => old.encodings[1] = encoding,
            _ => self.add_array(path, [encoding; 2], rank),
        }
    }

    /// What happens to something in the source, by its path.
    pub fn part(&self, path: &str, is_folder: bool) -> FolderPart {
        if is_folder && self.leads_to_node(path) {
            return FolderPart::Inside;
        }
        let Some((rest, array)) = self.around(path) else { return FolderPart::Carried };
        let is_document = rest == DOCUMENT || V2_DOCUMENTS.contains(&rest);
        let of_grid = array.is_some_and(|Named { encodings, rank }| {
            encodings.iter().any(|encoding| match is_folder {
                true => grid_folder(encoding, rest, rank).is_some(),
                false => encoding.parse(rest, rank).is_some(),
            })
        });
        match of_grid || is_document && !is_folder {
            true => FolderPart::Left,
            false => FolderPart::Carried,
        }
    }

    /// Whether a folder is a node or has one in it.
    fn leads_to_node(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        let next = self.nodes.range(inside.clone()..).next();
        self.nodes.contains_key(path) || next.is_some_and(|(node, _)| node.starts_with(&inside))
    }

    /// The innermost node that a path is in, with the path below it.
    fn around<'a>(&self, path: &'a str) -> Option<(&'a str, Option<Named>)> {
        let ends = path.match_indices('/').map(|(at, _)| at).rev();
        let mut inner = ends.map(|at| (&path[..at], &path[at + 1..]));
        let found = inner.find_map(|(node, rest)| Some((rest, *self.nodes.get(node)?)));
        found.or_else(|| Some((path, *self.nodes.get("")?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_documents_of_nodes_are_told_from_what_lies_beside_them() {
        let mut keys = NodeKeys::default();
        let v2 = ChunkKeyEncoding::V2 { separator: crate::zarr::metadata::Separator::Slash };
        keys.add_group("");
        keys.add_group("a");
        keys.add_array("a/0", [v2, ChunkKeyEncoding::default()], 2);
        keys.add_array("a-b", [v2, v2], 1);
        for (path, is_folder, expected) in [
            ("a", true, FolderPart::Inside),
            ("a/0", true, FolderPart::Inside),
            ("a/0/1", true, FolderPart::Left),
            ("a/0/c", true, FolderPart::Left),
            ("a/0/1/2", false, FolderPart::Left),
            ("a/0/c/1/2", false, FolderPart::Left),
            ("a/0/.zarray", false, FolderPart::Left),
            ("a/0/notes", true, FolderPart::Carried),
            ("a/0/notes/zarr.json", false, FolderPart::Carried),
            ("a/1", true, FolderPart::Carried),
            ("a/.zattrs", false, FolderPart::Left),
            ("zarr.json", false, FolderPart::Left),
            ("readme.txt", false, FolderPart::Carried),
            ("a-b/3", false, FolderPart::Left),
            ("a-c", true, FolderPart::Carried),
        ] {
            assert_eq!(keys.part(path, is_folder), expected, "{path}");
        }
        // One that is left out, and another one is made there.
        keys.add_new_array("a/0", ChunkKeyEncoding::default(), 2);
        assert_eq!(keys.part("a/0/1", true), FolderPart::Left);
        keys.add_new_array("a/7", ChunkKeyEncoding::default(), 2);
        assert_eq!(keys.part("a/7/c", true), FolderPart::Left);
        // An array alone.
        let mut keys = NodeKeys::default();
        keys.add_array("", [v2, v2], 1);
        assert_eq!(keys.part("3", false), FolderPart::Left);
        assert_eq!(keys.part("x", false), FolderPart::Carried);
        keys.add_group("");
        assert_eq!(keys.part("3", false), FolderPart::Left);
    }
}
