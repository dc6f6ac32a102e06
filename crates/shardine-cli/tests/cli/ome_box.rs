//! Reading and writing by physical coordinates.

use serde_json::json;

use crate::ome_support::{BOTH, Version};
use crate::support::{Folder, u16s};

/// Elements of a box, and the region that it is.
fn read(folder: &Folder, arguments: &[&str]) -> (Vec<u8>, String) {
    let read = ["read", "-o", "part.raw", "--overwrite", "--json"];
    let report = folder.json(&[&read, arguments].concat());
    (folder.get("part.raw"), report["region"].as_str().unwrap().to_owned())
}

#[test]
fn a_box_is_read_by_micrometers_on_every_level() {
    for version in BOTH {
        let folder = Folder::new();
        version.image(&folder, "i", "tczyx", &[3, 2, 8, 16, 16], 2);
        // Voxels of 2 x 0.5 x 0.5 micrometers, the first with its centre at 0.
        let (elements, region) = read(&folder, &["i", "--box", "z=4:8um,y=1um:,x=0.5:0.9,c=1,t=0"]);
        assert_eq!(region, "0:1,1:2,2:4,2:16,1:2");
        assert_eq!(elements, folder.ok(&["read", "i", "--region", "0,1,2:4,2:,1", "-o", "-"]));
        // Of level 1 the first voxel is at 1, 0.25, 0.25.
        let (_, region) =
            read(&folder, &["i", "--level", "1", "--box", "z=4:8um,y=1um:,x=0.5:1.3"]);
        assert_eq!(region, "0:3,0:2,1:2,1:8,1:2");
        let (_, region) = read(&folder, &["i", "--box", "t=1.5:4.5s"]);
        assert_eq!(region, "1:3,0:2,0:8,0:16,0:16");
        // A position is one voxel.
        let text = folder.text(&["read", "i", "--box", "z=6900nm,y=2.6um,x=1um,c=0,t=2"]);
        assert_eq!(text, format!("{}\n", 2 * 2 * 8 * 256 + 3 * 256 + 5 * 16 + 2));
    }
}

#[test]
fn what_was_read_by_a_box_can_be_written_back_by_it() {
    let folder = Folder::new();
    Version::V05.image(&folder, "i", "zyx", &[8, 16, 16], 1);
    folder.put("in.raw", &u16s([7; 4]));
    let report = folder.json(&["write", "i", "--box", "z=2um,y=1:2um,x=1:2um", "in.raw", "--json"]);
    assert_eq!(report["region"], "1:2,2:4,2:4");
    assert_eq!(folder.text(&["read", "i", "--region", "1,2:4,2:4"]), "7 7\n7 7\n");
}

#[test]
fn a_volume_and_an_image_of_the_same_place_are_read_by_the_same_box() {
    let folder = Folder::new();
    // Corners at -300 nm, so that the centre of the first voxel is at -250 nm.
    folder.ok(&[
        "create",
        "v",
        "--to",
        "precomputed",
        "--shape",
        "8,6,4",
        "--dtype",
        "uint16",
        "--chunk",
        "4,4,4",
        "--resolution",
        "100,100,200",
        "--voxel-offset",
        "-3,0,5",
    ]);
    folder.put("v.raw", &u16s(0..8 * 6 * 4));
    folder.ok(&["write", "v", "v.raw"]);
    let axis = |name: &str| json!({ "name": name, "type": "space", "unit": "micrometer" });
    let image = json!({ "multiscales": [{
        "axes": [axis("x"), axis("y"), axis("z")],
        "datasets": [{ "path": "0", "coordinateTransformations": [
            { "type": "scale", "scale": [0.1, 0.1, 0.2] },
            { "type": "translation", "translation": [-0.25, 0.05, 1.1] },
        ] }],
    }] });
    Version::V05.group(&folder, "i", image);
    folder.ok(&["create", "i/0", "--shape", "8,6,4", "--dtype", "uint16", "--chunk", "4,4,4"]);
    folder.ok(&["-q", "write", "i", "v.raw"]);
    for text in [
        "x=0:0.2um,y=100nm:400nm,z=1.2um:",
        "x=-0.3um:0um",
        "x=-300nm,y=0nm,z=1000nm",
        "x=0nm:1nm,y=599nm",
        "z=1.1um:1.3um",
    ] {
        let volume = folder.run(&["read", "v", "--box", text, "-o", "-"]);
        let image = folder.run(&["read", "i", "--box", text, "-o", "-"]);
        // No centre is in the last nanometer of a voxel.
        assert_eq!(volume.status.success(), text != "x=0nm:1nm,y=599nm", "{text}");
        assert_eq!((volume.status, volume.stdout), (image.status, image.stdout), "{text}");
    }
    // Voxels are cut at their corners, and selected by their centres.
    let (_, region) = read(&folder, &["v", "--box", "x=-300:-100nm,channel=0"]);
    assert_eq!(region, "0:2,0:6,0:4,0:1");
    let (_, region) = read(&folder, &["v", "--box", "x=-251nm:-249nm,y=50:51,z=1.1um"]);
    assert_eq!(region, "0:1,0:1,0:1,0:1");
}

#[test]
fn a_box_that_means_nothing_is_refused() {
    let folder = Folder::new();
    Version::V05.image(&folder, "i", "czyx", &[2, 8, 16, 16], 1);
    folder.ok(&["create", "a", "--shape", "8", "--dtype", "uint8", "--dims", "x"]);
    for (arguments, expected) in [
        (&["i", "--box", "z=20um:30um"][..], "their centres are from 0 to 14 micrometer"),
        (&["i", "--box", "c=2"], "counted from 0 to 1"),
        (&["i", "--box", "z=0:5s"], "is in micrometer, which s cannot be converted to"),
        (&["i", "--box", "c=0:5um"], "has no unit"),
        (&["i", "--box", "q=1"], "the axes are c, z, y, x"),
        (&["i", "--box", "z=1Mm"], "\"Mm\" is not a unit"),
        (&["i", "--box", "0:5"], "such as z=0:20um"),
        (&["i/0", "--box", "z=0:5"], "hint: name the group of an OME-Zarr image"),
        (&["a", "--box", "x=0:5"], "does not say where its elements are"),
        (&["i", "--box", "z=0:5", "--region", "0"], "cannot be used with"),
    ] {
        let told = folder.refused(&[&["read"], arguments].concat());
        assert!(told.contains(expected), "{arguments:?}: {told}");
    }
    // Without transformations there are only indexes.
    let axes = json!([{ "name": "x", "type": "space" }]);
    let image = json!({ "multiscales": [{ "axes": axes, "datasets": [{ "path": "0" }] }] });
    Version::V05.group(&folder, "plain", image);
    folder.ok(&["create", "plain/0", "--shape", "8", "--dtype", "uint8"]);
    assert!(folder.refused(&["read", "plain", "--box", "x=0:5"]).contains("does not say where"));
    assert_eq!(folder.json(&["info", "plain", "--json"])["ome"]["levels"][0]["scale"], json!(null));
}
