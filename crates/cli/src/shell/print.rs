//! How the shell, and `scan --csv`, show rows: a table for people, JSON objects or CSV for programs.

use crate::failure::Outcome;
use crate::output::{Output, empty_table, grouped};
use crate::rows::Shape;
use crate::schema::to_csv;
use crate::text::{for_people, hex};
use clap::ValueEnum;
use foreshore::Stats;
use serde_json::Value;
use std::io::Write;

/// A table is as wide as its widest cells, so it waits for its rows: for at most so many, and so many bytes.
const ROWS_PER_TABLE: usize = 1000;
const BYTES_PER_TABLE: usize = 1 << 20;

/// How rows are shown.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Mode {
    /// A table, its columns as wide as they need; on a terminal, long cells go on in the next line
    Table,
    /// One JSON object per line
    Json,
    /// CSV with a header
    Csv,
}

/// Rows on their way to stdout.
pub struct Rows {
    mode: Mode,
    shape: Shape,
    out: Output,
    /// Rows that wait for their table.
    waiting: Vec<Vec<String>>,
    waiting_bytes: usize,
    /// Was the header of CSV written?
    has_header: bool,
}

impl Rows {
    /// Rows of one table.
    pub fn new(mode: Mode, shape: Shape) -> Self {
        let out = Output::new(mode == Mode::Json);
        Self { mode, shape, out, waiting: Vec::new(), waiting_bytes: 0, has_header: false }
    }

    /// One more row.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        match self.mode {
            Mode::Json => return self.shape.object(&mut self.out, key, value),
            Mode::Table => {
                let cells = self.cells(key, value, for_people)?;
                self.waiting_bytes += cells.iter().map(String::len).sum::<usize>();
                self.waiting.push(cells);
                if self.waiting.len() == ROWS_PER_TABLE || self.waiting_bytes >= BYTES_PER_TABLE {
                    self.write_table()?;
                }
            }
            Mode::Csv => {
                // Quotes are enough for programs: what the field holds is what they get.
                let cells = self.cells(key, value, <[u8]>::to_vec)?;
                self.write_header()?;
                self.write_csv(&cells)?;
            }
        }
        Ok(())
    }

    /// No more rows.
    pub fn finish(mut self) -> Outcome {
        self.write_table()?;
        if self.mode == Mode::Csv {
            self.write_header()?;
        }
        self.out.finish()
    }

    fn write_header(&mut self) -> Outcome {
        if std::mem::replace(&mut self.has_header, true) {
            return Ok(());
        }
        let header = self.header();
        self.write_csv(&header)
    }

    fn header(&self) -> Vec<String> {
        match &self.shape {
            Shape::Csv(schema, _) => schema.columns.clone(),
            Shape::Text | Shape::Hex | Shape::Typed(_) => vec!["key".into(), "value".into()],
        }
    }

    fn cells<T: From<String>>(
        &mut self,
        key: &[u8],
        value: &[u8],
        spelled: impl Fn(&[u8]) -> T,
    ) -> Outcome<Vec<T>> {
        Ok(match &mut self.shape {
            Shape::Csv(schema, records) => records.read(schema, value)?.iter().map(spelled).collect(),
            Shape::Text => vec![spelled(key), spelled(value)],
            Shape::Hex => vec![hex(key).into(), hex(value).into()],
            Shape::Typed(typed) => {
                let (key, value) = typed.shown(key, value)?;
                vec![spelled(&key), spelled(&value)]
            }
        })
    }

    fn write_csv<T: AsRef<[u8]>>(&mut self, cells: &[T]) -> Outcome {
        self.out.raw().write_all(&to_csv(cells.iter().map(AsRef::as_ref)))?;
        Ok(self.out.raw().write_all(b"\n")?)
    }

    fn write_table(&mut self) -> Outcome {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut table = empty_table();
        table.set_header(self.header().into_iter().map(|column| for_people(column.as_bytes())));
        table.add_rows(self.waiting.drain(..));
        self.waiting_bytes = 0;
        self.out.line(table)
    }
}

/// The counters that are not 0, what they gained, and who waited for what.
pub fn print_stats(out: &mut Output, now: &Stats, before: &Stats) -> Outcome {
    let (now, before) = (fields(now)?, fields(before)?);
    let row = |(name, value): (&String, &Value)| {
        let (value, old) = (value.as_u64()?, before.get(name).and_then(Value::as_u64).unwrap_or(0));
        let gained = if value > old { format!("+{}", grouped(value - old)) } else { String::new() };
        (value > 0).then(|| [name.clone(), grouped(value), gained])
    };
    let rows: Vec<_> = now.iter().filter_map(row).collect();
    out.table(["counter", "value", "since last shown"], &rows)?;
    let waits = now.get("waits").and_then(Value::as_array).into_iter().flatten();
    for wait in waits.filter(|wait| wait["count"].as_u64() > Some(0)) {
        let (what, count) = (wait["what"].as_str().unwrap_or_default(), wait["count"].as_u64().unwrap_or(0));
        let ms = wait["ns"].as_f64().unwrap_or(0.0) / 1e6;
        out.line(format!("waited for {what}: {} times, {ms:.1} ms in all", grouped(count)))?;
    }
    Ok(())
}

fn fields(stats: &Stats) -> Outcome<serde_json::Map<String, Value>> {
    match serde_json::to_value(stats).map_err(std::io::Error::from)? {
        Value::Object(fields) => Ok(fields),
        _ => Ok(serde_json::Map::new()),
    }
}
