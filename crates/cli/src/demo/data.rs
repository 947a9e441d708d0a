//! The rows of the demonstration: TPC-H ORDERS, and flights if given. Made anew, and alike, by parent and child.

use crate::demo::LoadSpec;
use crate::failure::{Failure, Outcome};
use crate::load::Rows;
use crate::schema::Schema;
use foreshore::{ByteTable, Database};
use foreshore_workloads::random::Permutation;
use foreshore_workloads::source;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;
use tpchgen::csv::OrderCsv;
use tpchgen::distribution::Distributions;
use tpchgen::generators::OrderGenerator;
use tpchgen::text::TextPool;

const ORDERS_PER_SCALE: f64 = 1_500_000.0;

/// The text that comments are cut from. `dbgen` has 300 MiB of it, whose making would take both processes seconds.
const TEXT_BYTES: i32 = 8 << 20;

/// How the flight tables spell their natural key: Houston's, and the Pacific Northwest's.
const FLIGHT_KEYS: [[&str; 6]; 2] = [
    ["Year", "Month", "DayofMonth", "UniqueCarrier", "FlightNum", "Origin"],
    ["year", "month", "day", "carrier", "flight", "origin"],
];

/// A row; its number is its place in the dataset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// Which table: an index into [`Dataset::tables`].
    pub table: usize,
    /// Encoded key.
    pub key: Vec<u8>,
    /// The record as CSV.
    pub value: Vec<u8>,
}

/// All rows, sorted by table and key, and so at the same time the model of what the database must hold.
pub struct Dataset {
    /// Names and shapes.
    pub tables: Vec<(String, Schema)>,
    rows: Vec<Row>,
    order: Permutation,
}

impl Dataset {
    /// Generates and reads.
    ///
    /// Errors: I/O or usage, if a flights file is none.
    pub fn make(spec: &LoadSpec) -> Outcome<Self> {
        let mut dataset =
            Self { tables: Vec::new(), rows: Vec::new(), order: Permutation::new(1, spec.seed) };
        dataset.add_orders(spec.rows)?;
        spec.flights.iter().try_for_each(|path| dataset.add_flights(path))?;
        dataset.rows.sort_unstable();
        dataset.rows.dedup_by(|later, first| (later.table, &later.key) == (first.table, &first.key));
        dataset.order = Permutation::new(dataset.rows.len() as u64, spec.seed);
        Ok(dataset)
    }

    fn add_orders(&mut self, rows: u64) -> Outcome {
        // One row more, since the generator rounds down; and not so few that there would be no customers.
        let scale = ((rows + 1) as f64 / ORDERS_PER_SCALE).max(0.001);
        let words = Distributions::static_default();
        let text = TextPool::new(TEXT_BYTES, words);
        let orders = OrderGenerator::new_with_distributions_and_text_pool(scale, 1, 1, words, &text);
        let mut csv = format!("{}\n", OrderCsv::header());
        for order in orders.iter().take(rows as usize) {
            writeln!(csv, "{}", OrderCsv::new(order)).expect("strings grow");
        }
        self.add_table("orders".into(), csv.as_bytes(), &["o_orderkey".into()])
    }

    fn add_flights(&mut self, path: &Path) -> Outcome {
        let input = || source::open(path).map_err(|e| Failure::io(path.display(), &e));
        let header: BTreeSet<String> = {
            let mut csv = csv::Reader::from_reader(input()?);
            csv.headers()?.iter().map(String::from).collect()
        };
        let key = FLIGHT_KEYS.iter().find(|key| key.iter().all(|name| header.contains(*name)));
        let key = key.ok_or_else(|| {
            let expected = FLIGHT_KEYS.map(|key| key.join(",")).join(" or ");
            Failure::usage(format!("{} is no flight table: it has no columns {expected}", path.display()))
        })?;
        let name = path.file_name().map_or("flights".into(), |name| name.to_string_lossy());
        let name = name.split('.').next().unwrap_or("flights").to_string();
        self.add_table(name, input()?, &key.map(String::from))
    }

    fn add_table(&mut self, name: String, csv: impl Read, key: &[String]) -> Outcome {
        if self.tables.iter().any(|(other, _)| *other == name) {
            return Err(Failure::usage(format!("two files are named {name}; rename one")));
        }
        let mut rows = Rows::new(csv, key)?;
        let table = self.tables.len();
        self.tables.push((name, rows.schema.clone()));
        while let Some(row) = rows.next()? {
            self.rows.push(Row { table, key: row.key, value: row.value });
        }
        Ok(())
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        self.rows.iter().map(|row| (row.key.len() + row.value.len()) as u64).sum()
    }

    /// Row number `number`.
    pub fn row(&self, number: usize) -> &Row {
        &self.rows[number]
    }

    /// The number of the row that is loaded at `place`: a random order, all tables mixed.
    pub fn at(&self, place: usize) -> usize {
        self.order.at(place as u64) as usize
    }

    /// The numbers of a table's rows, in key order.
    pub fn of_table(&self, table: usize) -> std::ops::Range<usize> {
        let before = |bound: usize| self.rows.partition_point(|row| row.table < bound);
        before(table)..before(table + 1)
    }

    /// Opens the tables, and declares their shapes so that `get` and `scan` understand them.
    pub fn open_tables(&self, db: &Database) -> Outcome<Vec<ByteTable>> {
        let open = |(name, schema): &(String, Schema)| {
            schema.declare(db, name)?;
            Ok(db.byte_table(name)?)
        };
        self.tables.iter().map(open).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        spec: LoadSpec,
    }

    /// Parent and child compare row by row, so they must make the same rows.
    #[test]
    fn two_processes_make_the_same_rows() {
        let spec = Line::parse_from(["demo", "--rows", "500"]).spec;
        let (one, other) = (Dataset::make(&spec).unwrap(), Dataset::make(&spec).unwrap());
        assert_eq!(one.len(), 500);
        assert_eq!(one.rows, other.rows);
        let mut order: Vec<_> = (0..500).map(|place| one.at(place)).collect();
        assert_eq!(order, (0..500).map(|place| other.at(place)).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..500).collect::<Vec<_>>());
    }

    #[test]
    fn any_number_of_rows_can_be_asked_for() {
        for rows in ["1", "7", "1499", "1501"] {
            let spec = Line::parse_from(["demo", "--rows", rows]).spec;
            assert_eq!(Dataset::make(&spec).unwrap().len().to_string(), rows);
        }
    }
}
