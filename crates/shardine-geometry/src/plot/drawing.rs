//! What a picture consists of, in pixels, whatever it becomes.

use super::Plot;

/// A colour as red, green and blue.
pub(super) type Colour = [u8; 3];

pub(super) const INK: Colour = [0x33, 0x33, 0x33];
pub(super) const FAINT: Colour = [0xdd, 0xdd, 0xdd];
pub(super) const DATA: Colour = [0x1f, 0x5f, 0xa8];

const LEFT: f64 = 80.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 60.0;
/// The longer side of the area with data, and the least of the shorter.
const LONG: f64 = 800.0;
const SHORT: f64 = 240.0;
/// The height of a line of the legend, and of the room between it and the axis.
const LINE: f64 = 18.0;

/// Where text stands relative to its position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Something to draw.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Dot([f64; 2]),
    Line([f64; 2], [f64; 2], Colour),
    Text([f64; 2], Anchor, String),
}

/// A picture.
pub(super) struct Drawing {
    pub width: f64,
    pub height: f64,
    pub shapes: Vec<Shape>,
}

/// The axis of a picture: part of the data's range, and where it is in pixels.
struct Scale {
    name: String,
    first: f64,
    last: f64,
    start: f64,
    /// Pixels of a unit; negative if it grows upwards.
    per_unit: f64,
}

impl Scale {
    fn at(&self, x: f64) -> f64 {
        self.start + (x - self.first) * self.per_unit
    }

    /// Round numbers along the axis, and how many decimals they have.
    fn ticks(&self) -> (Vec<f64>, usize) {
        let span = self.last - self.first;
        let rough = span / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let first = (self.first / step).ceil();
        let count = (self.last / step).floor() - first;
        // Past the precision of floats there are no round numbers.
        let count = if count.is_finite() { count.clamp(0.0, 20.0) as u32 } else { 0 };
        let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        ((0..=count).map(|n| (first + f64::from(n)) * step).collect(), decimals)
    }
}

/// A number as short as it goes.
fn label(x: f64, decimals: usize) -> String {
    match x.abs() {
        large if large >= 1e7 => format!("{x:.3e}"),
        small if small > 0.0 && small < 1e-4 => format!("{x:.1e}"),
        _ => {
            let text = format!("{x:.decimals$}");
            if text.trim_start_matches('-').trim_matches(['0', '.']).is_empty() {
                return "0".to_owned();
            }
            text
        }
    }
}

impl Drawing {
    pub fn new(plot: &Plot) -> Self {
        let legend = plot.legend();
        let axes = plot.bounds.len();
        let span = |axis: usize| {
            let (least, most) = plot.bounds[axis];
            if most >= least { most - least } else { 0.0 }
        };
        // The two longest, in the order of the axes. The sort keeps the first of equal ones.
        let mut longest: Vec<usize> = (0..axes).collect();
        longest.sort_by(|&a, &b| span(b).total_cmp(&span(a)));
        longest.truncate(2);
        longest.sort_unstable();
        let range = |axis: Option<&usize>| {
            let (least, most) = axis.map_or((0.0, 0.0), |&axis| plot.bounds[axis]);
            match most - least {
                span if span > 0.0 && span.is_finite() => (least, most),
                // Room around a single value, enough for floats to tell its ends apart.
                span if span == 0.0 && least.abs() < 1e300 => {
                    let room = (least.abs() * 1e-6).max(0.5);
                    (least - room, least + room)
                }
                _ => (0.0, 1.0),
            }
        };
        let (across, up) = (longest.first(), longest.get(1));
        let ((x0, x1), (y0, y1)) = (range(across), range(up));
        // One scale for both, unless one is so short that nothing would be seen of it.
        let per_unit = LONG / (x1 - x0).max(y1 - y0);
        let wide = ((x1 - x0) * per_unit).max(SHORT);
        let high = ((y1 - y0) * per_unit).max(SHORT);
        let name = |axis: Option<&usize>| match axis.and_then(|&axis| plot.schema.axes.get(axis)) {
            Some(axis) => match &axis.unit {
                Some(unit) => format!("{} ({unit})", axis.name),
                None => axis.name.clone(),
            },
            None => String::new(),
        };
        let top = TOP + LINE * legend.len() as f64;
        let x = Scale {
            name: name(across),
            first: x0,
            last: x1,
            start: LEFT,
            per_unit: wide / (x1 - x0),
        };
        let y = Scale {
            name: name(up),
            first: y0,
            last: y1,
            start: top + high,
            per_unit: -high / (y1 - y0),
        };
        let mut shapes = Vec::new();
        frame(&mut shapes, &x, &y, [wide, high], top);
        for (line, text) in legend.into_iter().enumerate() {
            let at = [LEFT, TOP + LINE * line as f64];
            shapes.push(Shape::Text(at, Anchor::Start, text));
        }
        let place = |vertex: usize| {
            let coordinate = |axis: Option<&usize>| match axis {
                Some(&axis) => plot.positions.get(vertex * axes + axis).copied(),
                None => Some(0.0),
            };
            let at = [x.at(coordinate(across)?), y.at(coordinate(up)?)];
            at.iter().all(|x| x.is_finite()).then_some(at)
        };
        let dots = plot.schema.kind.link_width() == 0 && !plot.schema.kind.has_objects();
        for &[a, b] in &plot.marks {
            match (place(a), place(b)) {
                (Some(at), _) if dots => shapes.push(Shape::Dot(at)),
                (Some(a), Some(b)) => shapes.push(Shape::Line(a, b, DATA)),
                _ => {}
            }
        }
        Self { width: LEFT + wide + RIGHT, height: top + high + BOTTOM, shapes }
    }
}

/// The axes with numbers, lines through these, and names.
fn frame(shapes: &mut Vec<Shape>, x: &Scale, y: &Scale, [wide, high]: [f64; 2], top: f64) {
    let bottom = top + high;
    let right = LEFT + wide;
    let (ticks, decimals) = x.ticks();
    for tick in ticks {
        let at = x.at(tick);
        shapes.push(Shape::Line([at, top], [at, bottom], FAINT));
        let text = label(tick, decimals);
        shapes.push(Shape::Text([at, bottom + 18.0], Anchor::Middle, text));
    }
    if !y.name.is_empty() {
        let (ticks, decimals) = y.ticks();
        for tick in ticks {
            let at = y.at(tick);
            shapes.push(Shape::Line([LEFT, at], [right, at], FAINT));
            let text = label(tick, decimals);
            shapes.push(Shape::Text([LEFT - 8.0, at + 4.0], Anchor::End, text));
        }
    }
    for (from, to) in [
        ([LEFT, top], [LEFT, bottom]),
        ([LEFT, bottom], [right, bottom]),
        ([right, top], [right, bottom]),
        ([LEFT, top], [right, top]),
    ] {
        shapes.push(Shape::Line(from, to, INK));
    }
    let middle = LEFT + wide / 2.0;
    shapes.push(Shape::Text([middle, bottom + 42.0], Anchor::Middle, x.name.clone()));
    shapes.push(Shape::Text([LEFT - 8.0, top - 10.0], Anchor::End, y.name.clone()));
}
