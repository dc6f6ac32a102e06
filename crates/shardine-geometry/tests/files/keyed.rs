//! Tables whose rows are named by numbers.

use std::io::Cursor;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use shardine_geometry::files::{FileFormat, ReadOptions};
use shardine_geometry::{GROUP, GeometryKind, OBJECT_ID};

use crate::converted;

fn table(format: FileFormat, bytes: &[u8], keys: &[&str]) -> Result<Vec<RecordBatch>, String> {
    let told = |error: shardine_geometry::GeometryError| error.to_string();
    let mut table = format.open_table(Cursor::new(bytes.to_vec()), keys).map_err(told)?;
    let mut found = Vec::new();
    while let Some(rows) = table.next_rows().map_err(told)? {
        assert_eq!(rows.schema(), *table.columns());
        found.push(rows);
    }
    Ok(found)
}

#[test]
fn the_columns_that_name_rows_come_first_in_every_format() {
    let text = "w,word,object_id,x\n0.5,a,7,1\n,,-9,2\n";
    let options = ReadOptions::new(GeometryKind::Points);
    for format in [FileFormat::Csv, FileFormat::Parquet, FileFormat::ArrowIpc] {
        let bytes = match format {
            FileFormat::Csv => text.as_bytes().to_vec(),
            _ => match converted(text.as_bytes(), FileFormat::Csv, format, &options) {
                Ok(bytes) => bytes,
                // A program without these formats.
                Err(_) if cfg!(not(feature = "tables")) => continue,
                Err(error) => panic!("{error}"),
            },
        };
        let found = table(format, &bytes, &[OBJECT_ID]).unwrap();
        assert_eq!(found.len(), 1);
        let rows = &found[0];
        assert_eq!(rows.schema().field(0).name(), OBJECT_ID);
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[7, -9]);
        let w = rows.column_by_name("w").unwrap().as_primitive::<Float64Type>();
        assert_eq!((w.value(0), w.is_null(1)), (0.5, true));
        assert!(rows.column_by_name("word").unwrap().is_null(1), "an empty cell is no value");
    }
}

#[test]
fn rows_without_a_name_are_refused_with_their_place() {
    let refused = |text: &str, keys: &[&str]| table(FileFormat::Csv, text.as_bytes(), keys).err();
    for (text, keys, reason) in [
        ("id,v\n1,2\n", &[OBJECT_ID][..], "column object_id: it is not among: id, v"),
        ("object_id,v\n1.5,2\n", &[OBJECT_ID], "line 2, column object_id"),
        ("object_id,v\n,2\n", &[OBJECT_ID], "line 2, column object_id: the value is missing"),
        ("object_id,v,v\n1,2,3\n", &[OBJECT_ID], "two columns have this name"),
        ("object_id\n1\n", &[GROUP, OBJECT_ID], "column group: it is not among: object_id"),
    ] {
        let error = refused(text, keys).unwrap();
        assert!(error.contains(reason), "{error}");
    }
    let error = table(FileFormat::Npy, b"", &[OBJECT_ID]).unwrap_err();
    assert!(error.contains("cannot hold a table"), "{error}");
}
