//! A figure as SVG: its panels one below the other, so that the page can be read on a phone.

use crate::frame::table::{number, x_text};
use crate::frame::{Drawn, LabError, Panel, Scale};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::ops::Range;

const WIDTH: u32 = 720;
const PANEL_HEIGHT: u32 = 400;
const FONT: (&str, u32) = ("sans-serif", 16);

/// Told apart by people who see red and green alike, too.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x80, 0x50, 0x30),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The text of an SVG file.
///
/// Errors: a panel without points cannot be drawn.
pub fn svg(drawn: &Drawn) -> Result<String, LabError> {
    let mut text = String::new();
    {
        let size = (WIDTH, PANEL_HEIGHT * drawn.panels.len().max(1) as u32);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        for (panel, area) in drawn.panels.iter().zip(area.split_evenly((drawn.panels.len().max(1), 1))) {
            match panel.scale {
                Scale::Bars(names) => bars(panel, names.len(), &area)?,
                Scale::Linear | Scale::Doubling => lines(panel, &area)?,
            }
        }
        area.present().map_err(failed)?;
    }
    Ok(text)
}

fn failed(error: impl std::fmt::Display) -> LabError {
    LabError::Chart(error.to_string())
}

fn points(panel: &Panel) -> impl Iterator<Item = (f64, f64)> + '_ {
    panel.series.iter().flat_map(|series| series.points.iter().copied())
}

/// The extent of y: from 0, with room above for the legend.
fn height(panel: &Panel) -> Result<Range<f64>, LabError> {
    let top = points(panel).map(|point| point.1).fold(0.0, f64::max);
    if points(panel).next().is_none() {
        return Err(LabError::Chart(format!("{} has no points", panel.title)));
    }
    Ok(0.0..if top > 0.0 { 1.3 * top } else { 1.0 })
}

/// A chart with its caption, and room for the axes' labels.
fn frame<'a, 'b>(panel: &Panel, area: &'a Area<'b>) -> ChartBuilder<'a, 'a, SVGBackend<'b>> {
    let mut chart = ChartBuilder::on(area);
    chart
        .caption(format!("{} ({})", panel.title, panel.source.word()), (FONT.0, 19))
        .margin(10)
        .set_label_area_size(LabelAreaPosition::Left, 72)
        .set_label_area_size(LabelAreaPosition::Bottom, 42);
    chart
}

/// Which colour is whose, in a corner.
fn draw_legend<'a, 'b: 'a, X: CoordTranslate>(
    chart: &mut ChartContext<'a, SVGBackend<'b>, X>,
) -> Result<(), LabError> {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(TRANSPARENT)
        .label_font(FONT)
        .draw()
        .map_err(failed)
}

fn lines(panel: &Panel, area: &Area<'_>) -> Result<(), LabError> {
    let least = points(panel).map(|point| point.0).fold(f64::INFINITY, f64::min);
    let most = points(panel).map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
    let most = if most > least { most } else { least + 1.0 };
    match panel.scale {
        Scale::Doubling => draw_lines(
            panel,
            area,
            (least..most).log_scale().base(2.0).with_key_points(doublings(least, most)),
        ),
        _ => draw_lines(panel, area, RangedCoordf64::from(least..most)),
    }
}

fn doublings(least: f64, most: f64) -> Vec<f64> {
    std::iter::successors(Some(least), |x| Some(2.0 * x)).take_while(|x| *x <= most).collect()
}

fn draw_lines<X>(panel: &Panel, area: &Area<'_>, x: X) -> Result<(), LabError>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = frame(panel, area).build_cartesian_2d(x, height(panel)?).map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc(panel.x.as_str())
        .y_desc(panel.y.as_str())
        .label_style(FONT)
        .axis_desc_style(FONT)
        .x_label_formatter(&|x| x_text(panel, *x))
        .y_label_formatter(&|y| number(*y))
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(failed)?;
    for (at, series) in panel.series.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let line = LineSeries::new(series.points.iter().copied(), colour.stroke_width(2)).point_size(3);
        let drawn = chart.draw_series(line).map_err(failed)?;
        drawn
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)));
    }
    draw_legend(&mut chart)
}

/// Bars beside each other, in groups: a group per category.
fn bars(panel: &Panel, categories: usize, area: &Area<'_>) -> Result<(), LabError> {
    let mut chart =
        frame(panel, area).build_cartesian_2d(Centred(categories), height(panel)?).map_err(failed)?;
    chart
        .configure_mesh()
        .y_desc(panel.y.as_str())
        .label_style(FONT)
        .axis_desc_style(FONT)
        .disable_x_mesh()
        .x_label_formatter(&|x| x_text(panel, x.round()))
        .y_label_formatter(&|y| number(*y))
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(failed)?;
    let width = 0.8 / panel.series.len().max(1) as f64;
    for (at, series) in panel.series.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let left = |x: f64| x - 0.4 + width * at as f64;
        let bar = |&(x, y): &(f64, f64)| {
            Rectangle::new([(left(x), 0.0), (left(x) + 0.9 * width, y)], colour.filled())
        };
        let drawn = chart.draw_series(series.points.iter().map(bar)).map_err(failed)?;
        drawn
            .label(&series.name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
    }
    draw_legend(&mut chart)
}

/// So many categories, each with its name under its middle.
struct Centred(usize);

impl Ranged for Centred {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value + 0.5) / self.0 as f64;
        limit.0 + (share * f64::from(limit.1 - limit.0)) as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        (0..self.0).map(|at| at as f64).collect()
    }

    fn range(&self) -> Range<f64> {
        -0.5..self.0 as f64 - 0.5
    }
}

impl ValueFormatter<f64> for Centred {}
