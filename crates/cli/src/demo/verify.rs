//! Comparing the database with what it must hold.

use crate::demo::acks::Acks;
use crate::demo::data::{Dataset, Row};
use crate::demo::steps::Steps;
use crate::failure::{Failure, Outcome};
use crate::output::grouped;
use crate::text::for_people;
use foreshore::{ByteTable, Database};
use foreshore_workloads::random::Random;
use serde_json::json;
use std::ops::ControlFlow;
use std::time::Instant;

const LOOKUPS: u64 = 100_000;
const RANGES: u64 = 2_000;
const RANGE_ROWS: u64 = 100;

/// Looks every acknowledged row up and compares its content.
///
/// Errors: corruption, with the number of rows lost or changed and the first of them.
pub fn acknowledged(db: &Database, dataset: &Dataset, acks: &Acks) -> Outcome {
    let tables = dataset.open_tables(db)?;
    let mut wrong = 0;
    let mut first = None;
    for number in (0..dataset.len()).filter(|number| acks.has(*number)) {
        let row = dataset.row(number);
        let found = tables[row.table].get(&row.key)?;
        if found.as_ref() != Some(&row.value) {
            wrong += 1;
            first.get_or_insert_with(|| difference(dataset, row, found.as_deref()));
        }
    }
    match first {
        None => Ok(()),
        Some(first) => Err(Failure::corrupt(format!(
            "{} acknowledged rows were lost or changed; {first}",
            grouped(wrong)
        ))),
    }
}

/// Scans all tables: every row must be one that was loaded, in its place, with its content. With `loaded`, exactly
/// those rows must be there. Returns how many rows there are.
pub fn nothing_else(db: &Database, dataset: &Dataset, loaded: Option<&Acks>) -> Outcome<u64> {
    let mut found = 0;
    for (at, table) in dataset.open_tables(db)?.iter().enumerate() {
        let mut expected = dataset.of_table(at);
        let mut fault = None;
        table.scan(.., |key, value| {
            let row = expected.by_ref().find(|number| {
                let row = dataset.row(*number);
                loaded.is_some_and(|loaded| loaded.has(*number)) || row.key == key
            });
            found += 1;
            match row.map(|number| dataset.row(number)) {
                Some(row) if row.key == key && row.value == value => ControlFlow::Continue(()),
                Some(row) => {
                    fault = Some(difference(dataset, row, Some(value)));
                    ControlFlow::Break(())
                }
                None => {
                    fault = Some(format!("a row of {:?} was never loaded, or is out of order", table.name()));
                    ControlFlow::Break(())
                }
            }
        })?;
        let is_missing = |number: usize| loaded.is_some_and(|loaded| loaded.has(number));
        let missing = expected.find(|number| is_missing(*number));
        let missing = missing.map(|number| difference(dataset, dataset.row(number), None));
        if let Some(fault) = fault.or(missing) {
            return Err(Failure::corrupt(format!("a scan gives something else than was loaded: {fault}")));
        }
    }
    Ok(found)
}

/// Point lookups and ranges in both directions, of rows chosen by chance; every answer is compared.
pub fn questions(db: &Database, dataset: &Dataset, loaded: &Acks, seed: u64, steps: &mut Steps) -> Outcome {
    let tables = dataset.open_tables(db)?;
    let mut random = Random::new(seed, 0);

    let started = Instant::now();
    for _ in 0..LOOKUPS {
        lookup(dataset, &tables, loaded, random.below(dataset.len() as u64) as usize)?;
    }
    let elapsed = started.elapsed();
    let rate = grouped((LOOKUPS as f64 / elapsed.as_secs_f64()) as u64);
    let text = format!("{} right answers, {rate} lookups/s on one thread", grouped(LOOKUPS));
    steps.done("lookups", elapsed, text, json!({"lookups": LOOKUPS, "wrong": 0}));

    let started = Instant::now();
    let mut rows = 0;
    for question in 0..RANGES {
        let from = random.below(dataset.len() as u64) as usize;
        rows += range(dataset, &tables, loaded, from, question % 2 == 1)?;
    }
    let elapsed = started.elapsed();
    let text = format!(
        "{} ranges of up to {RANGE_ROWS} rows, half of them backwards: {} right rows",
        grouped(RANGES),
        grouped(rows)
    );
    steps.done("ranges", elapsed, text, json!({"ranges": RANGES, "rows": rows, "wrong": 0}));
    Ok(())
}

fn lookup(dataset: &Dataset, tables: &[ByteTable], loaded: &Acks, number: usize) -> Outcome {
    let row = dataset.row(number);
    let found = tables[row.table].get(&row.key)?;
    match found.as_deref() {
        Some(value) if value == row.value => Ok(()),
        // The load was cut short, and this row was not among those acknowledged.
        None if !loaded.has(number) => Ok(()),
        other => Err(Failure::corrupt(difference(dataset, row, other))),
    }
}

/// Asks for the rows from number `from` on, and compares them one by one.
fn range(dataset: &Dataset, tables: &[ByteTable], loaded: &Acks, from: usize, reverse: bool) -> Outcome<u64> {
    let first = dataset.row(from);
    let end = dataset.of_table(first.table).end.min(from + RANGE_ROWS as usize);
    let last = dataset.row(end - 1);
    let mut expected: Vec<&Row> =
        (from..end).filter(|number| loaded.has(*number)).map(|n| dataset.row(n)).collect();
    let rows = tables[first.table].range(first.key.as_slice()..=last.key.as_slice());
    let found: Vec<_> = if reverse {
        expected.reverse();
        rows.rev().collect::<Result<_, _>>()?
    } else {
        rows.collect::<Result<_, _>>()?
    };
    let is_right = found.len() == expected.len()
        && found.iter().zip(&expected).all(|((key, value), row)| *key == row.key && *value == row.value);
    if is_right {
        return Ok(found.len() as u64);
    }
    Err(Failure::corrupt(format!(
        "a range of {:?} gives {} rows instead of {}, or other ones; seed and row {from} repeat it",
        dataset.tables[first.table].0,
        found.len(),
        expected.len()
    )))
}

fn difference(dataset: &Dataset, row: &Row, found: Option<&[u8]>) -> String {
    let table = &dataset.tables[row.table].0;
    let found = found.map_or("nothing".to_string(), for_people);
    format!("{table:?} should hold {}, it has {found}", for_people(&row.value))
}
