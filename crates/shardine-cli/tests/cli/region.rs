//! Regions by the names of axes, and in the coordinates of a volume.

use serde_json::json;

use crate::support::{Folder, npy};

fn array(folder: &Folder) {
    let elements: Vec<u8> = (0..4 * 5 * 6).collect();
    folder.put("in.npy", &npy(1, "'|u1'", false, "(4, 5, 6)", &elements));
    folder.ok(&["convert", "in.npy", "a", "--dims", "z,y,x", "--chunk", "2,3,4"]);
    folder.ok(&["convert", "in.npy", "unnamed"]);
}

#[test]
fn items_find_their_axes_by_name() {
    let folder = Folder::new();
    array(&folder);
    let read = |region: &str| folder.ok(&["read", "a", "--region", region, "-o", "-"]);
    assert_eq!(read("x=5,z=1:3"), read("1:3,:,5"));
    assert_eq!(read("y=-1"), read(":,-1"));
    assert_eq!(read("z=0,y=0,x=::2"), [0, 2, 4]);
    folder.put("two.raw", &[200, 201]);
    folder.ok(&["write", "a", "--region", "x=2,y=1,z=1:3", "two.raw"]);
    assert_eq!(read("1:3,1,2"), [200, 201]);
    // JSON tells what was read.
    let told = folder.json(&["read", "a", "--region", "x=0,y=0", "--json"]);
    assert_eq!((&told["shape"], &told["values"][3]), (&json!([4, 1, 1]), &json!([[90]])));
}

#[test]
fn a_name_that_is_not_there_is_told_with_those_that_are() {
    let folder = Folder::new();
    array(&folder);
    let refused = |url: &str, region: &str| folder.refused(&["read", url, "--region", region]);
    assert!(refused("a", "w=1").contains("the axes are z, y, x"));
    assert!(refused("a", "z=1,2").contains("either every item names its axis"));
    assert!(refused("a", "z=1,z=2").contains("twice"));
    assert!(refused("a", "z=9").contains("axis 0, which has 4 elements"));
    assert!(refused("unnamed", "z=1").contains("no names"));
    let offset = folder.refused(&["read", "a", "--region", "z=1", "--offset"]);
    assert!(offset.contains("no coordinates") && offset.contains("omit --offset"), "{offset}");
}

#[test]
fn coordinates_of_a_volume_begin_at_its_offset() {
    let folder = Folder::new();
    folder.ok(&[
        "create",
        "v",
        "--to",
        "precomputed",
        "--shape",
        "10,8,6",
        "--dtype",
        "uint8",
        "--chunk",
        "4,4,4",
        "--resolution",
        "8,8,40",
        "--voxel-offset",
        "-3,0,1000",
    ]);
    folder.put("one.raw", &[7]);
    folder.ok(&["write", "v", "--region", "-3,0,1000", "--offset", "one.raw"]);
    folder.put("one.raw", &[9]);
    folder.ok(&["write", "v", "--region", "z=1005,x=6,y=7", "--offset", "one.raw"]);
    assert_eq!(folder.ok(&["read", "v", "--region", "0,0,0", "-o", "-"]), [7]);
    assert_eq!(folder.ok(&["read", "v", "--region", "9,7,5", "-o", "-"]), [9]);
    assert_eq!(folder.ok(&["read", "v", "--region", "z=-1,x=-1,y=-1", "-o", "-"]), [9]);
    let read = |region: &str| folder.ok(&["read", "v", "--region", region, "--offset", "-o", "-"]);
    assert_eq!(read("x=-3:-1,y=0,z=1000"), [7, 0]);
    assert_eq!(read("z=1005:9999,x=6,y=7,channel=0"), [9]);
    let refused = |region: &str| folder.refused(&["read", "v", "--region", region, "--offset"]);
    assert!(refused("z=5").contains("the coordinates 1000:1006"));
    assert!(refused("x=7").contains("the coordinates -3:7"));
    assert!(refused("x=-4:").contains("coordinate -4"));
    assert!(folder.text(&["info", "v"]).contains("or here with --offset"));
}

#[test]
fn types_are_taken_as_numpy_names_them() {
    let folder = Folder::new();
    for (given, name) in
        [("<u2", "uint16"), ("f4", "float32"), ("|b1", "bool"), ("float", "float64")]
    {
        let made = folder.json(&["create", name, "--shape", "4", "--dtype", given, "--json"]);
        assert_eq!(made["dtype"], name);
        let plan = folder.json(&["plan", "--shape", "4,4", "--dtype", given, "--json"]);
        assert!(plan.to_string().contains(&format!("\"dtype\":\"{name}\"")), "{plan}");
    }
    let refused = folder.refused(&["create", "x", "--shape", "4", "--dtype", ">u2"]);
    assert!(refused.contains("uint16") && refused.contains("big endian"), "{refused}");
}

#[test]
fn a_file_of_a_format_that_is_not_written_is_not_made_a_folder() {
    let folder = Folder::new();
    array(&folder);
    for target in ["s.tif", "S.TIFF", "s.h5", "s.nc", "s.png", "s.zip", "s.ozx"] {
        for source in ["in.npy", "a"] {
            let refused = folder.refused(&["convert", source, target]);
            assert!(
                refused.contains("cannot be written") && refused.contains("hint: "),
                "{refused}"
            );
            assert!(!folder.exists(target));
        }
    }
    folder.ok(&["convert", "a", "s.tif.zarr"]);
}

#[test]
fn nodes_are_listed_with_their_whole_paths() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("g/s")).unwrap();
    for name in ["g", "g/s"] {
        folder.put(&format!("{name}/zarr.json"), br#"{"zarr_format": 3, "node_type": "group"}"#);
    }
    folder.ok(&["create", "g/s/a", "--shape", "4", "--dtype", "u1"]);
    let listed = folder.json(&["ls", "g", "-r", "--json"]);
    let inner = &listed[0]["children"][0];
    assert_eq!((&listed[0]["path"], &inner["path"]), (&json!("s"), &json!("s/a")));
    assert_eq!((&inner["name"], &inner["dtype"]), (&json!("a"), &json!("uint8")));
    assert_eq!(folder.json(&["info", "g", "--json"])["children"][0]["path"], "s");
}
