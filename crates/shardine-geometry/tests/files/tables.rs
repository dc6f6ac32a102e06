//! Parquet and Arrow IPC. What other programs write is in `peers/geometry_files_check.py`.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    DictionaryArray, FixedSizeListArray, Float32Array, Float64Array, Int32Array, RecordBatch,
    TimestampSecondArray,
};
use arrow_schema::{DataType, Field, Schema};
use shardine_geometry::GeometryKind;
use shardine_geometry::files::{FileFormat, ReadOptions};

use crate::{converted, read, refused};

const POINTS: &str = "\
x,y,object_id,n,w,flag,label
1,2,7,-4,1.5,true,left
3,4,7,,2.5,false,right
5,6,9,12,0.1,true,left
";

#[test]
fn rows_survive_both_formats_in_any_pieces() {
    let options = ReadOptions::new(GeometryKind::Points);
    let first = read(FileFormat::Csv, POINTS.as_bytes(), &options).unwrap();
    for format in [FileFormat::Parquet, FileFormat::ArrowIpc] {
        for (written, read_in) in [(100, 2), (1, 100), (2, 1)] {
            let pieces = options.clone().batch_rows(written);
            let bytes = converted(POINTS.as_bytes(), FileFormat::Csv, format, &pieces).unwrap();
            let found = read(format, &bytes, &options.clone().batch_rows(read_in)).unwrap();
            assert_eq!((&found.schema, &found.rows), (&first.schema, &first.rows));
        }
    }
}

/// An IPC stream of columns.
fn stream(columns: Vec<(&str, arrow_array::ArrayRef)>) -> Vec<u8> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(schema.clone(), arrays).unwrap();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &schema).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn a_file_with_room_after_its_magic_word_is_read() {
    let options = ReadOptions::new(GeometryKind::Points);
    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Float64, false)]));
    let x = Arc::new(Float64Array::from(vec![1.5, 2.5]));
    let batch = RecordBatch::try_new(schema.clone(), vec![x]).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &schema).unwrap();
    writer.write(&batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    let found = read(FileFormat::ArrowIpc, &bytes, &options).unwrap();
    assert_eq!(found.rows, ["x", "1.5", "2.5"]);
}

#[test]
fn types_of_tables_become_those_of_the_model() {
    let list = FixedSizeListArray::try_new(
        Arc::new(Field::new("item", DataType::Float32, false)),
        2,
        Arc::new(Float32Array::from(vec![0.5, 1.5, 2.5, 3.5])),
        None,
    );
    let words: DictionaryArray<Int8Type> = vec![Some("a"), None].into_iter().collect();
    let bytes = stream(vec![
        ("x", Arc::new(Float32Array::from(vec![1.0, 2.0]))),
        ("y", Arc::new(Int32Array::from(vec![3, 4]))),
        ("object_id", Arc::new(Float64Array::from(vec![5.0, -6.0]))),
        ("word", Arc::new(words)),
        ("pair", Arc::new(list.unwrap())),
    ]);
    let options = ReadOptions::new(GeometryKind::Points);
    let found = read(FileFormat::ArrowIpc, &bytes, &options).unwrap();
    assert_eq!(found.schema.coordinate, DataType::Float64);
    assert_eq!(
        found.rows,
        ["x,y,object_id,word,pair_0,pair_1", "1.0,3.0,5,a,0.5,1.5", "2.0,4.0,-6,,2.5,3.5"]
    );
    // Lists stay lists where there are any.
    let parquet = converted(&bytes, FileFormat::ArrowIpc, FileFormat::Parquet, &options).unwrap();
    let again = read(FileFormat::Parquet, &parquet, &options).unwrap();
    assert_eq!((again.schema, again.rows), (found.schema, found.rows));
}

#[test]
fn what_does_not_fit_the_model_is_named() {
    let x = || ("x", Arc::new(Float64Array::from(vec![Some(1.0), None])) as _);
    let error = refused(FileFormat::ArrowIpc, &stream(vec![x()]), GeometryKind::Points);
    assert_eq!(error, "Arrow IPC, row 2, column x: the value is missing");
    let x = ("x", Arc::new(Float64Array::from(vec![1.0])) as _);
    let time = ("when", Arc::new(TimestampSecondArray::from(vec![7])) as _);
    let error = refused(FileFormat::ArrowIpc, &stream(vec![x, time]), GeometryKind::Points);
    assert!(error.contains("column when: its type Timestamp"), "{error}");
    let x = ("x", Arc::new(Float64Array::from(vec![1.0])) as _);
    let half = ("object_id", Arc::new(Float64Array::from(vec![0.5])) as _);
    let error = refused(FileFormat::ArrowIpc, &stream(vec![x, half]), GeometryKind::Points);
    assert!(
        error.contains("row 1, column object_id: the value does not fit into Int64"),
        "{error}"
    );
}

#[test]
fn a_file_that_was_cut_short_is_refused() {
    let options = ReadOptions::new(GeometryKind::Points).batch_rows(1);
    for format in [FileFormat::Parquet, FileFormat::ArrowIpc] {
        let bytes = converted(POINTS.as_bytes(), FileFormat::Csv, format, &options).unwrap();
        assert!(read(format, &bytes, &options).is_ok());
        for cut in 0..bytes.len() {
            assert!(read(format, &bytes[..cut], &options).is_err(), "{format:?} cut at {cut}");
        }
    }
}

#[test]
fn damaged_files_are_answered() {
    let options = ReadOptions::new(GeometryKind::Points).batch_rows(2);
    for format in [FileFormat::Parquet, FileFormat::ArrowIpc] {
        let bytes = converted(POINTS.as_bytes(), FileFormat::Csv, format, &options).unwrap();
        for at in 0..bytes.len() {
            for value in [0, 0x7f, bytes[at] ^ 1] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let opened = format.open(Cursor::new(damaged), &options);
                let Ok(mut source) = opened else { continue };
                while let Ok(Some(_)) = source.next_batch() {}
            }
        }
    }
}

#[test]
fn halves_stay_halves() {
    let halves: Vec<half::f16> = [0.5, -2.0].map(half::f16::from_f32).to_vec();
    let column = Arc::new(arrow_array::Float16Array::from(halves));
    let x = Arc::new(Float64Array::from(vec![1.0, 2.0]));
    let bytes = stream(vec![("x", x), ("h", column)]);
    let options = ReadOptions::new(GeometryKind::Points);
    let found = read(FileFormat::ArrowIpc, &bytes, &options).unwrap();
    assert_eq!(*found.schema.vertex_attributes[0].data_type(), DataType::Float16);
    // As text they are the same numbers.
    assert_eq!(found.rows[1..], ["1.0,0.5", "2.0,-2.0"]);
}
