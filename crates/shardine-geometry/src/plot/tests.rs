use std::io::Cursor;

use super::drawing::Shape;
use super::*;
use crate::files::{CsvReader, ReadOptions};
use crate::{Axis, GeometrySource};

fn plot(kind: GeometryKind, text: String) -> Plot {
    let options = ReadOptions::new(kind).batch_rows(1000);
    let mut source = CsvReader::open(Cursor::new(text), &options).unwrap();
    let mut plot = Plot::new(source.schema());
    while let Some(batch) = source.next_batch().unwrap() {
        plot.push(&batch).unwrap();
    }
    plot
}

/// The texts of a picture, and how many dots and lines of data it has.
fn seen(plot: &mut Plot) -> (Vec<String>, usize, usize) {
    let drawing = plot.drawing();
    let (mut texts, mut dots, mut lines) = (Vec::new(), 0, 0);
    for shape in &drawing.shapes {
        match shape {
            Shape::Dot([x, y]) => {
                assert!((0.0..drawing.width).contains(x) && (0.0..drawing.height).contains(y));
                dots += 1;
            }
            Shape::Line(_, _, colour) => lines += usize::from(*colour == drawing::DATA),
            Shape::Text(_, _, text) => texts.push(text.clone()),
        }
    }
    (texts, dots, lines)
}

#[test]
fn the_two_longest_axes_are_shown() {
    let mut plot = plot(GeometryKind::Points, "x,y,z\n0,0,0\n1,10,100\n".to_owned());
    plot.schema.axes[2].unit = Some("nanometer".to_owned());
    let (texts, dots, _) = seen(&mut plot);
    assert_eq!(dots, 2);
    for text in ["y", "z (nanometer)", "2 points", "100", "10"] {
        assert!(texts.iter().any(|seen| seen == text), "{texts:?} lacks {text}");
    }
    assert!(!texts.contains(&"x".to_owned()));
}

#[test]
fn too_many_are_thinned_and_the_legend_says_so() {
    let mut text = "x,y,object_id\n".to_owned();
    for row in 0..100_001 {
        text.push_str(&format!("{row},{},{}\n", row % 100, row / 11));
    }
    let mut points = plot(GeometryKind::Points, text.clone());
    let (texts, dots, _) = seen(&mut points);
    assert_eq!(dots, MOST);
    assert!(texts.contains(&"100,001 points".to_owned()), "{texts:?}");
    assert!(texts.contains(&"20,000 of them drawn".to_owned()), "{texts:?}");
    let mut paths = plot(GeometryKind::Polylines, text);
    let (texts, _, lines) = seen(&mut paths);
    assert_eq!(lines, MOST);
    assert!(texts.contains(&"9,091 objects".to_owned()), "{texts:?}");
    assert!(texts.contains(&"90,910 segments".to_owned()), "{texts:?}");
    assert!(paths.positions.len() < 5 * 2 * 2 * MOST, "memory follows what is drawn");
}

#[test]
fn odd_sets_are_drawn_too() {
    for text in [
        "x,y\n",
        "x\n5\n",
        "x,y\n1,1\n",
        "x,y\nnan,inf\n",
        "x,y\n-1e308,0\n1e308,1e-300\n",
        "x,y\n1e15,1\n1000000000000000.1,2\n",
    ] {
        let svg = plot(GeometryKind::Points, text.to_owned()).svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
        let png = plot(GeometryKind::Points, text.to_owned()).png().unwrap();
        assert!(png.starts_with(b"\x89PNG"));
    }
}

#[test]
fn names_do_not_become_markup() {
    let mut plot = plot(GeometryKind::Points, "x,y\n0,0\n1,1\n".to_owned());
    plot.schema.axes[0] = Axis { name: "<script>".to_owned(), unit: Some("a&b\u{7}".to_owned()) };
    let svg = plot.svg();
    assert!(svg.contains("&lt;script&gt; (a&amp;b )"), "{svg}");
}

#[test]
fn the_sides_of_triangles_are_drawn() {
    let text = "v 0 0 0\nv 4 0 0\nv 0 3 0\nf 1 2 3\n";
    let options = ReadOptions::new(GeometryKind::Mesh);
    let mut source = crate::files::ObjReader::open(text.as_bytes(), &options).unwrap();
    let mut plot = Plot::new(source.schema());
    while let Some(batch) = source.next_batch().unwrap() {
        plot.push(&batch).unwrap();
    }
    assert_eq!(seen(&mut plot).2, 3);
}
