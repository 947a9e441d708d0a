//! A figure's numbers as a table in the terminal: a row per x, a column per line.

use crate::frame::{Drawn, Panel, Scale};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// All panels, one table each, and the verdict.
pub fn text_table(drawn: &Drawn) -> String {
    let mut text = String::new();
    for panel in &drawn.panels {
        text += &format!("{} ({}); {}\n{}\n", panel.title, panel.source.word(), panel.y, table(panel));
    }
    let verdict = &drawn.verdict;
    text + &format!("Here this {}. {}\n", verdict.word(), verdict.sentence())
}

fn table(panel: &Panel) -> Table {
    let mut xs: Vec<f64> = panel.series.iter().flat_map(|series| series.points.iter().map(|p| p.0)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(
        std::iter::once(panel.x.clone()).chain(panel.series.iter().map(|series| series.name.clone())),
    );
    for x in xs {
        let cell = |series: &crate::frame::Series| {
            let point = series.points.iter().find(|point| point.0 == x);
            point.map_or_else(String::new, |point| number(point.1))
        };
        table.add_row(std::iter::once(x_text(panel, x)).chain(panel.series.iter().map(cell)));
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// An x value, or the name of the category it stands for.
pub fn x_text(panel: &Panel, x: f64) -> String {
    match panel.scale {
        Scale::Bars(names) => names.get(x as usize).map_or_else(|| number(x), |name| (*name).to_owned()),
        Scale::Linear | Scale::Doubling => number(x),
    }
}

/// Three digits that matter, and thousands as they are.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if value == value.trunc() && value.abs() < 1e15 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_short() {
        let shown = [1234567.0, 1234.56, 12.345, 1.2345, 0.01234].map(number);
        assert_eq!(shown, ["1234567", "1235", "12.3", "1.23", "0.0123"]);
    }
}
