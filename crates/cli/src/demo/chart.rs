//! Throughput and commit latency over time, as an SVG.

use crate::demo::journal::Point;
use crate::failure::{Failure, Outcome};
use crate::output::grouped;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (960, 640);
const FONT: (&str, u32) = ("sans-serif", 14);
const MEDIAN: RGBColor = RGBColor(0x1f, 0x77, 0xb4);
const SLOWEST: RGBColor = RGBColor(0xd6, 0x5f, 0x1e);
const DOWN: RGBColor = RGBColor(0xc4, 0x1e, 0x3a);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>>;

/// What is drawn. Times are in seconds since the transactions began.
pub struct Chart<'a> {
    /// A line above it all.
    pub title: String,
    /// The points before the kill, and those after.
    pub lives: [&'a [Point]; 2],
    /// When the process was killed.
    pub killed_s: f64,
    /// When the database was open again.
    pub open_s: f64,
    /// When the clients went on, all being verified.
    pub resumed_s: f64,
}

/// A line: its name, colour, and value at a point.
type Series = (&'static str, RGBColor, fn(&Point) -> f64);

impl Chart<'_> {
    /// Writes the file.
    ///
    /// Errors: I/O.
    pub fn write(&self, path: &Path) -> Outcome {
        self.draw(&SVGBackend::new(path, SIZE).into_drawing_area())
            .map_err(|e| Failure::io(path.display(), &std::io::Error::other(e.to_string())))
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        area.fill(&WHITE)?;
        let area = area.titled(&self.title, (FONT.0, 18))?;
        let (above, below) = area.split_vertically(SIZE.1 / 2 - 16);
        self.panel(&above, "transactions/s", &[("transactions/s", MEDIAN, |point| point.tps)])?;
        self.panel(
            &below,
            "commit latency, ms",
            &[("p99", SLOWEST, |point| point.p99_us / 1e3), ("p50", MEDIAN, |point| point.p50_us / 1e3)],
        )?;
        area.present()
    }

    fn panel(&self, area: &Area<'_>, unit: &str, series: &[Series]) -> Drawn {
        // Room above the highest point for the legend and what the lines are called.
        let top = 1.25 * self.highest(series).max(1e-3);
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(36)
            .y_label_area_size(72)
            .build_cartesian_2d(0.0..self.end_s(), 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc("seconds")
            .y_desc(unit)
            .label_style(FONT)
            .x_label_formatter(&number)
            .y_label_formatter(&number)
            .draw()?;
        let band = [(self.killed_s, 0.0), (self.resumed_s, top)];
        chart.draw_series([Rectangle::new(band, DOWN.mix(0.08).filled())])?;
        let marks = [(self.killed_s, " kill -9", top), (self.open_s, " open again", 0.93 * top)];
        for (at, text, height) in marks {
            chart.draw_series([PathElement::new([(at, 0.0), (at, top)], DOWN)])?;
            chart.draw_series([Text::new(text, (at, height), FONT.into_font().color(&DOWN))])?;
        }
        for (name, colour, value) in series {
            for (life, points) in self.lives.iter().enumerate() {
                let line = points.iter().map(|point| (point.at_s, value(point)));
                let drawn = chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
                if series.len() > 1 && life == 0 {
                    drawn
                        .label(*name)
                        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
                }
            }
        }
        if series.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .background_style(WHITE)
                .border_style(TRANSPARENT)
                .label_font(FONT)
                .draw()?;
        }
        Ok(())
    }

    fn end_s(&self) -> f64 {
        let last = self.lives[1].last().map_or(0.0, |point| point.at_s);
        last.max(self.resumed_s)
    }

    fn highest(&self, series: &[Series]) -> f64 {
        let points = self.lives.iter().copied().flatten();
        let values = points.flat_map(|point| series.iter().map(|(_, _, value)| value(point)));
        values.fold(0.0, f64::max)
    }
}

/// An axis's number: `16,000`, or `0.5` where there are fractions.
fn number(value: &f64) -> String {
    if value.fract() == 0.0 { grouped(*value as u64) } else { format!("{value:.1}") }
}
