//! A picture as PNG.

use png::{BitDepth, ColorType, Encoder, EncodingError};

use super::drawing::{Anchor, Colour, DATA, Drawing, INK, Shape};
use super::font;

/// Rows of pixels, three bytes each.
struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Canvas {
    /// Mixes a colour into a pixel.
    fn blend(&mut self, x: i64, y: i64, colour: Colour, share: f64) {
        let inside = |at: i64, size: usize| usize::try_from(at).ok().filter(|at| *at < size);
        let (Some(x), Some(y)) = (inside(x, self.width), inside(y, self.height)) else { return };
        let at = 3 * (y * self.width + x);
        for (pixel, new) in self.pixels[at..at + 3].iter_mut().zip(colour) {
            let mixed = f64::from(*pixel) * (1.0 - share) + f64::from(new) * share;
            *pixel = mixed.round() as u8;
        }
    }

    /// A line one pixel wide: the two pixels nearest to it along its shorter direction share it.
    fn line(&mut self, [x0, y0]: [f64; 2], [x1, y1]: [f64; 2], colour: Colour) {
        let steep = (y1 - y0).abs() > (x1 - x0).abs();
        let turn = |x: f64, y: f64| if steep { (y, x) } else { (x, y) };
        let ((mut a, mut b), (mut c, mut d)) = (turn(x0, y0), turn(x1, y1));
        if a > c {
            (a, b, c, d) = (c, d, a, b);
        }
        let slope = if c > a { (d - b) / (c - a) } else { 0.0 };
        let (first, last) = (a.round() as i64, c.round() as i64);
        // Nothing outside of the canvas takes time.
        let size = (if steep { self.height } else { self.width }) as i64;
        for along in first.max(0)..=last.min(size - 1) {
            let beside = b + slope * (along as f64 - a).clamp(0.0, c - a);
            let low = beside.floor();
            for (at, share) in [(low, 1.0 - (beside - low)), (low + 1.0, beside - low)] {
                let (x, y) = if steep { (at as i64, along) } else { (along, at as i64) };
                self.blend(x, y, colour, share);
            }
        }
    }

    fn dot(&mut self, [x, y]: [f64; 2]) {
        let (column, row) = (x.floor() as i64, y.floor() as i64);
        for dy in -2..=2 {
            for dx in -2..=2 {
                let (px, py) = ((column + dx) as f64 + 0.5, (row + dy) as f64 + 0.5);
                let share = (2.0 - (px - x).hypot(py - y)).clamp(0.0, 1.0);
                self.blend(column + dx, row + dy, DATA, share);
            }
        }
    }

    fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, text: &str) {
        let width = (text.chars().count() * font::ADVANCE) as f64;
        let left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        let (mut column, top) = (left.round() as i64, y.round() as i64 - font::HEIGHT as i64);
        for c in text.chars() {
            for (row, bits) in font::glyph(c).into_iter().enumerate() {
                for bit in 0..font::WIDTH {
                    if bits >> (font::WIDTH - 1 - bit) & 1 == 1 {
                        self.blend(column + bit as i64, top + row as i64, INK, 1.0);
                    }
                }
            }
            column += font::ADVANCE as i64;
        }
    }
}

/// The file.
pub(super) fn png(drawing: &Drawing) -> Result<Vec<u8>, EncodingError> {
    let (width, height) = (drawing.width.ceil() as usize, drawing.height.ceil() as usize);
    let mut canvas = Canvas { width, height, pixels: vec![255; 3 * width * height] };
    for shape in &drawing.shapes {
        match shape {
            Shape::Dot(at) => canvas.dot(*at),
            Shape::Line(from, to, colour) => canvas.line(*from, *to, *colour),
            Shape::Text(at, anchor, text) => canvas.text(*at, *anchor, text),
        }
    }
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width as u32, height as u32);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&canvas.pixels)?;
    writer.finish()?;
    Ok(bytes)
}
