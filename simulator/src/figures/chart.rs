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
    /// Which colour it has: lines that belong together share one.
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
    /// Dots joined by a line: simulated.
    Dots,
    /// A line: computed.
    Line,
    /// A dashed line: a bound, or a line the paper describes.
    Dashed,
    /// Crosses: numbers from the paper's text.
    Published,
}

const SIZE: (u32, u32) = (860, 560);
/// Where the first line of the legend is, and how far the next is below it.
const LEGEND: i32 = 96;
const LINE: i32 = 20;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(0x22, 0x2b, 0x36);
const PALE: RGBColor = RGBColor(0xe3, 0xe7, 0xec);
const WARNING: RGBColor = RGBColor(0xc0, 0x39, 0x2b);
/// Told apart by colour-blind readers, too (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
];

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
        root.draw(&Text::new(self.subtitle, (24, 44), left(14)))?;
        root.draw(&Text::new(self.warning, (24, 64), left(14).color(&WARNING)))?;
        for (place, series) in self.series.iter().enumerate() {
            let (column, line) = (place % self.columns(), place / self.columns());
            self.draw_legend(root, (24 + 420 * column as i32, LEGEND + LINE * line as i32), series)?;
        }
        let (x, y) = self.ranges();
        let mut area = ChartBuilder::on(root)
            .margin(14)
            .margin_top(LEGEND + LINE * self.series.len().div_ceil(self.columns()) as i32)
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
                area.draw_series(points.iter().map(|&point| Circle::new(point, 4, colour.filled())))?;
                area.draw_series(LineSeries::new(points, line))?
            }
            Look::Line => area.draw_series(LineSeries::new(points, line))?,
            Look::Dashed => area.draw_series(DashedLineSeries::new(points, 7, 5, line))?,
            Look::Published => {
                area.draw_series(points.into_iter().map(|at| Cross::new(at, 6, colour.stroke_width(3))))?
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
                root.draw(&line(0, 26))?;
                root.draw(&Circle::new((x + 13, y), 4, series.colour().filled()))?;
            }
            Look::Line => root.draw(&line(0, 26))?,
            Look::Dashed => [0, 10, 20].into_iter().try_for_each(|from| root.draw(&line(from, from + 6)))?,
            Look::Published => root.draw(&Cross::new((x + 13, y), 6, style.stroke_width(3)))?,
        }
        let style = (FONT, 14).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(series.label.as_str(), (x + 36, y), style))?;
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

    fn ranges(&self) -> ((f64, f64), (f64, f64)) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let bands = self.series.iter().flat_map(|series| &series.band);
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
        let x = (least(&mut points().map(|p| p.0)), most(&mut points().map(|p| p.0)));
        let heights: Vec<_> = points().map(|p| p.1).chain(bands.flat_map(|&(low, high)| [low, high])).collect();
        let (low, high) = (least(&mut heights.iter().copied()), most(&mut heights.iter().copied()));
        let y = if self.log {
            (self.height(low).floor(), self.height(high).ceil())
        } else {
            (1.06 * low.min(0.0), 1.06 * high)
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

impl Series {
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
