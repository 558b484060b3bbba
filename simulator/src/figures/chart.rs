//! Charts as SVG, alone or several on a sheet.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A chart.
pub struct Chart<'a> {
    /// What is shown.
    pub title: &'a str,
    /// How it was made, below the title.
    pub subtitle: &'a str,
    /// Said in red beside the title; empty for nothing.
    pub warning: &'a str,
    /// What the x axis counts, with its unit.
    pub x: &'a str,
    /// What the y axis counts, with its unit.
    pub y: &'a str,
    /// Whether the y axis is logarithmic.
    pub log: bool,
    /// Whether the x axis is linear; else it is logarithmic.
    pub is_linear: bool,
    /// What is drawn, in the order of the legend.
    pub series: Vec<Series>,
}

/// One line of a chart.
pub struct Series {
    /// What it shows.
    pub label: String,
    /// Which colour it has, and which mark and dashes: no two of a chart share one, but for one that belongs to
    /// another.
    pub colour: usize,
    /// How it is drawn.
    pub look: Look,
    /// Places on the two axes, such as number of nodes and value.
    pub points: Vec<(f64, f64)>,
    /// The lower and upper end of a band around each point; empty for none.
    pub band: Vec<(f64, f64)>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Marks joined by a line: simulated.
    Dots,
    /// A line: computed.
    Line,
    /// A dashed line: a bound, or a line the paper describes.
    Dashed,
    /// Marks that no line joins: moments.
    Marks,
    /// Each pair of points is a line of its own: spans of time.
    Pieces,
    /// Crosses: numbers from the paper's text. They set no scale: what is beyond it stands at the edge, with its value.
    Published,
}

const SIZE: (u32, u32) = (860, 560);
/// Where the first line below the title is, and how far the next is below it.
const SUBTITLE: i32 = 44;
const LINE: i32 = 20;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(0x22, 0x2b, 0x36);
const PALE: RGBColor = RGBColor(0xe3, 0xe7, 0xec);
const WARNING: RGBColor = RGBColor(0xc0, 0x39, 0x2b);
/// Told apart by colour-blind readers, too (Okabe and Ito); in grey by their marks and dashes.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
];

/// Length of a line in the legend.
const SAMPLE: i32 = 42;
/// Columns of a text of this size that fit beside the margins.
const COLUMNS: usize = 118;

type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Area<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), Box<dyn std::error::Error + Send + Sync>>;

impl Chart<'_> {
    /// The chart as the text of an SVG file.
    ///
    /// # Panics
    /// If there is no point to draw.
    #[must_use]
    pub fn svg(&self) -> String {
        sheet(std::slice::from_ref(self))
    }

    fn draw(&self, root: &Root<'_>) -> Drawn {
        let left = |size| (FONT, size).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Top));
        root.draw(&Text::new(self.title, (24, 16), left(21)))?;
        let (mut top, texts) = (SUBTITLE, [(self.subtitle, INK), (self.warning, WARNING)]);
        for (line, colour) in
            texts.iter().flat_map(|(text, colour)| wrapped(text).into_iter().map(move |line| (line, colour)))
        {
            root.draw(&Text::new(line, (24, top), left(14).color(colour)))?;
            top += LINE;
        }
        let legend = top + LINE / 2;
        for (place, series) in self.series.iter().enumerate() {
            let (column, line) = (place % self.columns(), place / self.columns());
            self.draw_legend(root, (24 + 420 * column as i32, legend + LINE * line as i32), series)?;
        }
        let (x, y) = self.ranges();
        let mut area = ChartBuilder::on(root)
            .margin(14)
            .margin_top(legend + LINE * self.series.len().div_ceil(self.columns()) as i32)
            .x_label_area_size(52)
            .y_label_area_size(72)
            .build_cartesian_2d(x.0..x.1, y.0..y.1)?;
        area.configure_mesh()
            .x_labels(if self.is_linear { 8 } else { (x.1 - x.0).ceil() as usize + 1 })
            .y_labels(if self.log { (y.1 - y.0).ceil() as usize + 1 } else { 8 })
            .x_label_formatter(&|value| if self.is_linear { grouped(*value as u64) } else { power_of_ten(*value) })
            .y_label_formatter(&|value| if self.log { power_of_ten(*value) } else { plain(*value) })
            .x_desc(self.x)
            .y_desc(self.y)
            .axis_desc_style((FONT, 15).into_font().color(&INK))
            .label_style((FONT, 13).into_font().color(&INK))
            .axis_style(INK.stroke_width(1))
            .bold_line_style(PALE)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for series in &self.series {
            self.draw_series(&mut area, series)?;
        }
        Ok(())
    }

    fn draw_series(&self, area: &mut Area<'_, '_>, series: &Series) -> Drawn {
        let colour = series.colour();
        let points: Vec<_> = series.points.iter().map(|&(x, y)| (self.place(x), self.height(y))).collect();
        if !series.band.is_empty() {
            let upper = points.iter().zip(&series.band).map(|(point, band)| (point.0, self.height(band.1)));
            let lower = points.iter().zip(&series.band).map(|(point, band)| (point.0, self.height(band.0))).rev();
            let outline: Vec<_> = upper.chain(lower).collect();
            area.draw_series(std::iter::once(Polygon::new(outline, colour.mix(0.15))))?;
        }
        let line = colour.stroke_width(2);
        match series.look {
            Look::Dots => {
                for &point in &points {
                    area.draw_series(std::iter::once(EmptyElement::at(point) + series.mark((0, 0))))?;
                }
                area.draw_series(LineSeries::new(points, line))?
            }
            Look::Line | Look::Dashed => match series.dashes() {
                Some((dash, gap)) => area.draw_series(DashedLineSeries::new(points, dash, gap, line))?,
                None => area.draw_series(LineSeries::new(points, line))?,
            },
            Look::Marks => {
                for &point in &points {
                    area.draw_series(std::iter::once(EmptyElement::at(point) + series.mark((0, 0))))?;
                }
                return Ok(());
            }
            Look::Pieces => {
                let pieces = points.chunks(2).map(|piece| PathElement::new(piece, colour.stroke_width(4)));
                area.draw_series(pieces)?;
                return Ok(());
            }
            Look::Published => {
                let (low, high) = self.ranges().1;
                for (&(x, y), &(_, value)) in points.iter().zip(&series.points) {
                    let at = (x, y.clamp(low, high));
                    area.draw_series(std::iter::once(Cross::new(at, 6, colour.stroke_width(3))))?;
                    if y > high || y < low {
                        // Beside the cross, inside of the picture.
                        let (to, down) = if x > self.middle() { (HPos::Right, -10) } else { (HPos::Left, 10) };
                        let style = (FONT, 14).into_font().color(&INK).pos(Pos::new(to, VPos::Center));
                        let text = Text::new(format!("at {}", plain(value)), (down, 0), style);
                        area.draw_series(std::iter::once(EmptyElement::at(at) + text))?;
                    }
                }
                return Ok(());
            }
        };
        Ok(())
    }

    /// One line of the legend, which is above the chart so that it covers nothing.
    fn draw_legend(&self, root: &Root<'_>, (x, y): (i32, i32), series: &Series) -> Drawn {
        let style = series.colour().stroke_width(2);
        let line = |from: i32, to: i32| PathElement::new([(x + from, y), (x + to, y)], style);
        match series.look {
            Look::Dots => {
                root.draw(&line(0, SAMPLE))?;
                root.draw(&series.mark((x + SAMPLE / 2, y)))?;
            }
            Look::Line | Look::Dashed => match series.dashes() {
                Some((dash, gap)) => (0..SAMPLE)
                    .step_by((dash + gap) as usize)
                    .try_for_each(|from| root.draw(&line(from, (from + dash as i32).min(SAMPLE))))?,
                None => root.draw(&line(0, SAMPLE))?,
            },
            Look::Marks => root.draw(&series.mark((x + SAMPLE / 2, y)))?,
            Look::Pieces => root.draw(&PathElement::new([(x, y), (x + SAMPLE, y)], style.stroke_width(4)))?,
            Look::Published => root.draw(&Cross::new((x + SAMPLE / 2, y), 6, style.stroke_width(3)))?,
        }
        let style = (FONT, 14).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(series.label.as_str(), (x + SAMPLE + 10, y), style))?;
        Ok(())
    }

    /// Of the legend.
    fn columns(&self) -> usize {
        if self.series.len() > 4 { 2 } else { 1 }
    }

    fn place(&self, x: f64) -> f64 {
        if self.is_linear { x } else { x.log10() }
    }

    fn height(&self, y: f64) -> f64 {
        if self.log { y.max(f64::MIN_POSITIVE).log10() } else { y }
    }

    /// Halfway along the x axis.
    fn middle(&self) -> f64 {
        let (first, last) = self.ranges().0;
        (first + last) / 2.0
    }

    fn ranges(&self) -> ((f64, f64), (f64, f64)) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        // A published point sets no scale, unless there is nothing else.
        let own = self.series.iter().filter(|series| series.look != Look::Published);
        let measured: Vec<_> = own.flat_map(|series| &series.points).copied().collect();
        let measured = if measured.is_empty() { points().copied().collect() } else { measured };
        let bands = self.series.iter().flat_map(|series| &series.band);
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
        let x = (least(&mut points().map(|p| p.0)), most(&mut points().map(|p| p.0)));
        let heights: Vec<_> = measured.iter().map(|p| p.1).chain(bands.flat_map(|&(low, high)| [low, high])).collect();
        let (low, high) = (least(&mut heights.iter().copied()), most(&mut heights.iter().copied()));
        let y = if self.log {
            (self.height(low).floor(), self.height(high).ceil())
        } else {
            // What is zero everywhere has a height, too.
            (1.06 * low.min(0.0), if high == 0.0 && low == 0.0 { 1.0 } else { 1.06 * high })
        };
        if self.is_linear {
            // One point has a width, too.
            return ((x.0, x.1.max(x.0 + 1.0)), y);
        }
        let x = (x.0.log10() - 0.05, x.1.log10() + 0.1);
        // Labels are powers of ten: at least one is needed.
        let has_label = x.0.ceil() <= x.1;
        (if has_label { x } else { (x.0.floor(), x.1.ceil()) }, y)
    }
}

/// Charts on one sheet as the text of an SVG file, two beside each other.
///
/// # Panics
/// If there is no chart, or one has no point to draw.
#[must_use]
pub fn sheet(charts: &[Chart<'_>]) -> String {
    let columns = charts.len().min(2);
    let rows = charts.len().div_ceil(columns);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (SIZE.0 * columns as u32, SIZE.1 * rows as u32));
        let root = root.into_drawing_area();
        root.fill(&WHITE).expect("drawing into memory cannot fail");
        for (chart, area) in charts.iter().zip(root.split_evenly((rows, columns))) {
            chart.draw(&area).expect("drawing into memory cannot fail");
        }
        root.present().expect("drawing into memory cannot fail");
    }
    text
}

/// A text in lines that fit.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= COLUMNS => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The corners of marks, around their middle.
const MARKS: [&[(i32, i32)]; 6] = [
    &[(-4, -2), (-2, -4), (2, -4), (4, -2), (4, 2), (2, 4), (-2, 4), (-4, 2)],
    &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
    &[(0, -5), (5, 4), (-5, 4)],
    &[(0, -6), (5, 0), (0, 6), (-5, 0)],
    &[(0, 5), (5, -4), (-5, -4)],
    &[(-6, -2), (6, -2), (6, 2), (-6, 2)],
];

/// Lengths of dashes and of the gaps between them, of what is dashed and of what is a line; the first line has none.
const DASHES: [(u32, u32); 6] = [(7, 5), (13, 4), (3, 3), (9, 9), (2, 6), (16, 9)];
const LINES: [Option<(u32, u32)>; 6] = [None, Some((18, 3)), Some((10, 2)), Some((28, 3)), Some((5, 2)), Some((22, 6))];

impl Series {
    /// The mark of its points, which differs with the colour.
    fn mark(&self, (x, y): (i32, i32)) -> Polygon<(i32, i32)> {
        let corners = MARKS[self.colour % MARKS.len()].iter().map(|(right, down)| (x + right, y + down));
        Polygon::new(corners.collect::<Vec<_>>(), self.colour().filled())
    }

    /// Lengths of its dashes and gaps, which differ with the colour; none if it is unbroken.
    fn dashes(&self) -> Option<(u32, u32)> {
        match self.look {
            Look::Line => LINES[self.colour % LINES.len()],
            _ => Some(DASHES[self.colour % DASHES.len()]),
        }
    }

    fn colour(&self) -> RGBColor {
        if self.look == Look::Published { INK } else { COLOURS[self.colour % COLOURS.len()] }
    }
}

/// A label for a power of ten; none for what lies between.
fn power_of_ten(exponent: f64) -> String {
    if (exponent - exponent.round()).abs() > 1e-6 {
        return String::new();
    }
    let value = 10_f64.powi(exponent.round() as i32);
    if value >= 1.0 { grouped(value as u64) } else { format!("{value}") }
}

fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number with commas between its thousands.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(title: &str, points: Vec<(f64, f64)>) -> Chart<'_> {
        let series = vec![Series { label: "a line".into(), colour: 0, look: Look::Line, points, band: vec![] }];
        Chart { title, subtitle: "", warning: "", x: "size", y: "gain", log: false, is_linear: false, series }
    }

    #[test]
    fn values_below_zero_are_inside() {
        let (_, y) = chart("", vec![(1.0, -3.0), (10.0, 5.0)]).ranges();
        assert!(y.0 <= -3.0 && y.1 >= 5.0, "{y:?}");
        let (_, y) = chart("", vec![(1.0, 2.0), (10.0, 5.0)]).ranges();
        assert_eq!(y.0, 0.0);
    }

    #[test]
    fn moments_and_spans_of_what_is_zero_are_drawn() {
        let mut one = chart("", vec![(1.0, 0.0), (2.0, 0.0)]);
        one.series[0].look = Look::Pieces;
        let marks = Series { label: "m".into(), colour: 1, look: Look::Marks, points: vec![(1.0, 0.0)], band: vec![] };
        one.series.push(marks);
        assert_eq!(one.ranges().1, (0.0, 1.0));
        assert!(one.svg().contains("<polygon"));
    }

    #[test]
    fn what_was_published_sets_no_scale_and_says_its_value_at_the_edge() {
        let mut one = chart("", vec![(1.0, 0.5), (1000.0, 1.0)]);
        let published =
            |points| Series { label: String::new(), colour: 0, look: Look::Published, points, band: vec![] };
        one.series.push(published(vec![(10.0, 50.0)]));
        assert_eq!(one.ranges().1, (0.0, 1.06));
        assert!(one.svg().contains(">\nat 50\n</text>"));
        one.series = vec![published(vec![(10.0, 50.0)])];
        assert_eq!(one.ranges().1, (0.0, 53.0), "it is alone");
    }

    #[test]
    fn a_long_subtitle_is_cut_nowhere() {
        let subtitle = "some words about where this was measured and how ".repeat(6);
        let text = Chart { subtitle: &subtitle, ..chart("", vec![(1.0, 2.0), (10.0, 5.0)]) }.svg();
        let lines: Vec<&str> =
            text.lines().filter(|line| line.contains("some words") || line.contains("measured")).collect();
        assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= COLUMNS), "{lines:?}");
        assert_eq!(lines.join(" "), subtitle.trim());
    }

    #[test]
    fn two_colours_have_two_marks_and_two_kinds_of_dashes() {
        for (place, one) in MARKS.iter().enumerate() {
            assert!(MARKS[..place].iter().all(|other| other != one));
            assert!(DASHES[..place].iter().all(|other| *other != DASHES[place]));
            assert!(LINES[..place].iter().all(|other| *other != LINES[place]));
        }
        assert_eq!((MARKS.len(), DASHES.len(), LINES.len()), (COLOURS.len(), COLOURS.len(), COLOURS.len()));
    }

    #[test]
    fn the_sizes_are_labelled_however_few_they_are() {
        for (points, label) in [(vec![(32.0, 1.0)], "100"), (vec![(2000.0, 1.0), (4000.0, 2.0)], "10,000")] {
            let text = chart("", points).svg();
            assert!(text.contains(&format!(">\n{label}\n</text>")), "{label} is not in {text}");
        }
    }

    #[test]
    fn a_sheet_shows_every_chart_in_a_place_of_its_own() {
        let charts = ["one", "two", "three"].map(|title| chart(title, vec![(1.0, 2.0), (10.0, 5.0)]));
        let text = sheet(&charts);
        let place = |title: &str| {
            let (before, _) = text.split_once(&format!(">\n{title}\n</text>")).expect("the title is there");
            before[before.rfind("<text").expect("in a text")..].chars().take(30).collect::<String>()
        };
        let places = [place("one"), place("two"), place("three")];
        assert!(places[0] != places[1] && places[1] != places[2] && places[0] != places[2], "{places:?}");
    }
}
