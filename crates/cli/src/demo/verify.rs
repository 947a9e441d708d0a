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
pub fn all_there(db: &Database, dataset: &Dataset, acks: &Acks) -> Outcome {
    let tables = dataset.open_tables(db)?;
    let (mut wrong, mut first) = (0, None);
    for number in (0..dataset.len()).filter(|number| acks.has(*number)) {
        let row = dataset.row(number);
        let found = tables[row.table].get(&row.key)?;
        if found.as_ref() != Some(&row.value) {
            wrong += 1;
            first.get_or_insert_with(|| difference(dataset, row, found.as_deref()));
        }
    }
    first.map_or(Ok(()), |first| Err(lost(wrong, &first)))
}

/// Every expected row must have been met by a scan as well.
///
/// Errors: corruption, as [`all_there`].
pub fn met_by_scan(dataset: &Dataset, expected: &Acks, present: &Acks) -> Outcome {
    let mut lost_rows = (0..dataset.len()).filter(|number| expected.has(*number) && !present.has(*number));
    match lost_rows.next() {
        None => Ok(()),
        Some(first) => {
            Err(lost(1 + lost_rows.count() as u64, &difference(dataset, dataset.row(first), None)))
        }
    }
}

fn lost(rows: u64, first: &str) -> Failure {
    Failure::corrupt(format!("{} acknowledged rows were lost or changed; {first}", grouped(rows)))
}

/// Scans all tables and returns the rows that are there.
///
/// Errors: corruption, if a row is not one of the dataset's, is out of order, or has another content.
pub fn scan(db: &Database, dataset: &Dataset) -> Outcome<Acks> {
    let present = Acks::none(dataset.len());
    for (at, table) in dataset.open_tables(db)?.iter().enumerate() {
        let mut rest = dataset.of_table(at);
        let mut fault = None;
        table.scan(.., |key, value| {
            match rest.find(|number| dataset.row(*number).key == key) {
                Some(number) if dataset.row(number).value == value => {
                    present.add(number);
                    return ControlFlow::Continue(());
                }
                Some(number) => fault = Some(difference(dataset, dataset.row(number), Some(value))),
                None => {
                    fault = Some(format!("a row of {:?} is out of order, or was never put", table.name()))
                }
            }
            ControlFlow::Break(())
        })?;
        if let Some(fault) = fault {
            return Err(Failure::corrupt(format!("a scan gives something else than was loaded: {fault}")));
        }
    }
    Ok(present)
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
    if found.as_ref() == loaded.has(number).then_some(&row.value) {
        return Ok(());
    }
    Err(Failure::corrupt(difference(dataset, row, found.as_deref())))
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
