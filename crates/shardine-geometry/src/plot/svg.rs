//! A picture as SVG.

use std::fmt::Write;

use super::drawing::{Anchor, Colour, DATA, Drawing, INK, Shape};

/// The document.
pub(super) fn draw(drawing: &Drawing) -> String {
    let (width, height) = (drawing.width.ceil(), drawing.height.ceil());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for shape in &drawing.shapes {
        // Writing to a string cannot fail.
        let _ = match shape {
            Shape::Dot([x, y]) => writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.5\" fill=\"{}\"/>",
                hex(DATA)
            ),
            Shape::Line([x0, y0], [x1, y1], colour) => writeln!(
                svg,
                "<path d=\"M{x0:.1} {y0:.1}L{x1:.1} {y1:.1}\" stroke=\"{}\"/>",
                hex(*colour)
            ),
            Shape::Text([x, y], anchor, text) => writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\" fill=\"{}\">{}</text>",
                match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                },
                hex(INK),
                escaped(text)
            ),
        };
    }
    svg.push_str("</svg>\n");
    svg
}

fn hex([r, g, b]: Colour) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Names of axes and units come from files.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
