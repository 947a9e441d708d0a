//! Results on stdout: JSON lines for programs, tables for people. Beside them what people are told on stderr.

use crate::failure::Outcome;
use crate::text::for_people;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{BufWriter, StdoutLock, Write};

/// Tells people something on stderr. Who has closed it hears nothing, and that is no failure.
pub fn tell(text: impl std::fmt::Display) {
    _ = writeln!(std::io::stderr(), "{text}");
}

/// A table to be filled. On a terminal, cells that would not fit go on in the next line.
pub fn empty_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    // A terminal of no width is one that does not know its own: a new one, or a container's.
    let arrangement =
        if table.width() == Some(0) { ContentArrangement::Disabled } else { ContentArrangement::Dynamic };
    table.set_content_arrangement(arrangement);
    table
}

/// Where results go, and in which form.
pub struct Output {
    json: bool,
    out: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// JSON lines, or text for people.
    pub fn new(json: bool) -> Self {
        Self { json, out: BufWriter::with_capacity(1 << 16, std::io::stdout().lock()) }
    }

    /// Is this run for a program?
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// The plain stream, for rows.
    pub fn raw(&mut self) -> &mut impl Write {
        &mut self.out
    }

    /// One JSON object on a line of its own.
    pub fn object(&mut self, object: &impl Serialize) -> Outcome {
        serde_json::to_writer(&mut self.out, object).map_err(std::io::Error::from)?;
        Ok(self.out.write_all(b"\n")?)
    }

    /// One line of text.
    pub fn line(&mut self, text: impl std::fmt::Display) -> Outcome {
        Ok(writeln!(self.out, "{text}")?)
    }

    /// How many rows of `table` something was done to, which `done` names, and the end of the results.
    pub fn rows_done(mut self, table: &str, done: &str, rows: u64) -> Outcome {
        if self.is_json() {
            self.object(&json!({"table": table, done: rows}))?;
        } else {
            self.line(rows)?;
        }
        self.finish()
    }

    /// A table with a header; columns are figures if all their cells look like some. On a terminal, cells that would not fit go on
    /// in the next line.
    pub fn table<const N: usize>(&mut self, header: [&str; N], rows: &[[String; N]]) -> Outcome {
        self.draw(&header, rows)
    }

    fn draw(&mut self, header: &[&str], rows: &[impl AsRef<[String]>]) -> Outcome {
        let mut table = empty_table();
        table.set_header(header.iter().copied());
        table.add_rows(rows.iter().map(|row| row.as_ref().iter().map(|cell| for_people(cell.as_bytes()))));
        for (at, column) in table.column_iter_mut().enumerate() {
            let mut cells = rows.iter().map(|row| &row.as_ref()[at]);
            if cells.all(|cell| cell.starts_with(|c: char| c.is_ascii_digit())) && !rows.is_empty() {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self.line(table)
    }

    /// A table of names and values from an object's fields, and below it one for each field that is a list of objects.
    pub fn fields(&mut self, object: &impl Serialize) -> Outcome {
        let value = serde_json::to_value(object).map_err(std::io::Error::from)?;
        let fields = value.as_object().into_iter().flatten();
        let (lists, figures): (Vec<_>, Vec<_>) = fields.partition(|(_, value)| value.is_array());
        let figures: Vec<_> = figures.into_iter().map(|(name, value)| [name.clone(), shown(value)]).collect();
        self.table(["name", "value"], &figures)?;
        lists.into_iter().try_for_each(|(name, list)| self.list(name, list))
    }

    fn list(&mut self, name: &str, list: &Value) -> Outcome {
        let objects: Vec<_> = list.as_array().into_iter().flatten().filter_map(Value::as_object).collect();
        let Some(first) = objects.first() else { return Ok(()) };
        // What is named comes first, then the figures.
        let (figures, names): (Vec<_>, Vec<_>) = first.keys().partition(|key| first[*key].is_number());
        let header: Vec<_> = names.into_iter().chain(figures).map(String::as_str).collect();
        let row = |object: &serde_json::Map<String, Value>| -> Vec<_> {
            header.iter().map(|key| shown(&object[*key])).collect()
        };
        self.line(format!("{name}:"))?;
        self.draw(&header, &objects.into_iter().map(row).collect::<Vec<_>>())
    }

    /// Sends what is buffered on its way: every command's last step, since dropping would swallow the error.
    pub fn finish(mut self) -> Outcome {
        Ok(self.out.flush()?)
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        _ => value.as_u64().map_or_else(|| value.to_string(), grouped),
    }
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

/// Bytes in the unit that leaves one to four digits before the point.
pub fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// Operations in so many seconds, per second.
pub fn rate(operations: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { (operations as f64 / seconds).round() } else { 0.0 }
}
