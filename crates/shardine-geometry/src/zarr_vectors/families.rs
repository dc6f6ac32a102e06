//! The families of arrays in a level of a store.

/// Whether the array at this path below a level is one of *cells*: its grid is that of the chunks
/// of space, and each element is what one chunk holds. All others are tables, with a row for each
/// object or group.
pub fn holds_cells(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["vertices" | "vertex_fragments" | "link_fragments"] => true,
        [composite] => composite.starts_with("vertices_"),
        ["vertex_attributes" | "fragment_attributes", _] => true,
        ["links", _, _] | ["link_attributes", _, _, _] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_told_apart_by_name_and_depth() {
        for cells in [
            "vertices",
            "vertices_mesh",
            "vertex_fragments",
            "link_fragments",
            "vertex_attributes/radius",
            "fragment_attributes/kind",
            "links/0/0.0.0",
            "links/+1/+1.0.-1",
            "link_attributes/weight/0/0.0.0",
        ] {
            assert!(holds_cells(cells), "{cells}");
        }
        for table in [
            "links",
            "links/0",
            "vertex_attributes",
            "object_index/manifests",
            "object_index/object_ids",
            "object_attributes/length",
            "groups",
            "group_attributes/name",
            "vertices/0",
            "",
        ] {
            assert!(!holds_cells(table), "{table}");
        }
    }
}
