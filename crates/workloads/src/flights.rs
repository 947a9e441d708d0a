//! Real flights: the two on-time tables (Houston 2011, Pacific Northwest 2014) as keyed rows.
//!
//! Source: US Bureau of Transportation Statistics, by way of two CC0 R packages: `hflights` (227,496 rows) and
//! `pnwflights14` (162,049 rows). Their column names differ; both spellings are known here. The natural key, checked to be
//! unique over both tables, is (date, carrier, flight number, origin).

use crate::source;
use std::io::Read;
use std::path::Path;

/// The carriers of both tables, sorted: their rank is part of [`FlightKey::packed`].
const CARRIERS: [&str; 17] =
    ["AA", "AS", "B6", "CO", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "XE", "YV"];

/// The airports that flights of the tables leave from, sorted.
const ORIGINS: [&str; 4] = ["HOU", "IAH", "PDX", "SEA"];

/// Why a flight table cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlightError {
    /// Not such a table: a column is missing.
    #[error("no column named {}", .0.join(" or "))]
    Column(&'static [&'static str]),
    /// A field that the key needs is unreadable.
    #[error("line {line}: {column} is {field:?}")]
    Field {
        /// Line in the file, from 1.
        line: u64,
        /// Column name.
        column: &'static str,
        /// What stands there.
        field: String,
    },
    /// Not CSV, or not readable.
    #[error(transparent)]
    Csv(#[from] csv::Error),
    /// The file cannot be opened.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// What tells one flight from all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlightKey {
    /// Year, 2011 or 2014 in the real tables.
    pub year: u16,
    /// Month, 1..=12.
    pub month: u8,
    /// Day of the month, 1..=31.
    pub day: u8,
    /// Two-letter carrier code.
    pub carrier: String,
    /// Flight number.
    pub flight: u16,
    /// Airport of departure.
    pub origin: String,
}

/// A flight: its key, and its whole line as it stands in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The natural key.
    pub key: FlightKey,
    /// All fields, joined by commas (no field of these tables needs quotes).
    pub row: String,
}

impl FlightKey {
    /// The key in 30 bits, unique over both tables: day of the year, carrier's rank, flight, origin's rank, year.
    ///
    /// `None` for a flight that is not of these tables.
    pub fn packed(&self) -> Option<u32> {
        let carrier = CARRIERS.binary_search(&self.carrier.as_str()).ok()? as u32;
        let origin = ORIGINS.binary_search(&self.origin.as_str()).ok()? as u32;
        let table = match self.year {
            2011 => 0,
            2014 => 1,
            _ => return None,
        };
        let fits = self.flight < 1 << 13;
        fits.then(|| {
            self.day_of_year() << 21 | carrier << 16 | u32::from(self.flight) << 3 | origin << 1 | table
        })
    }

    /// 1 for 1 January. Neither table's year is a leap year.
    fn day_of_year(&self) -> u32 {
        const DAYS_BEFORE: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        DAYS_BEFORE[usize::from(self.month) - 1] + u32::from(self.day)
    }
}

/// Reads a flight table, gzipped or not.
///
/// Errors: [`FlightError`] at once for a file that is no flight table, later for a line that cannot be read.
pub fn open(path: &Path) -> Result<Flights<Box<dyn Read + Send>>, FlightError> {
    Flights::new(source::open(path)?)
}

/// The flights of one table, in file order.
pub struct Flights<R> {
    csv: csv::Reader<R>,
    columns: Columns,
    record: csv::StringRecord,
}

/// Where the parts of the key stand.
struct Columns {
    year: usize,
    month: usize,
    day: usize,
    carrier: usize,
    flight: usize,
    origin: usize,
}

impl Columns {
    fn find(header: &csv::StringRecord) -> Result<Self, FlightError> {
        let at = |names: &'static [&'static str]| {
            header.iter().position(|name| names.contains(&name)).ok_or(FlightError::Column(names))
        };
        Ok(Self {
            year: at(&["Year", "year"])?,
            month: at(&["Month", "month"])?,
            day: at(&["DayofMonth", "day"])?,
            carrier: at(&["UniqueCarrier", "carrier"])?,
            flight: at(&["FlightNum", "flight"])?,
            origin: at(&["Origin", "origin"])?,
        })
    }
}

impl<R: Read> Flights<R> {
    /// Reads the header.
    ///
    /// Errors: [`FlightError::Column`] if this is another table.
    pub fn new(input: R) -> Result<Self, FlightError> {
        let mut csv = csv::Reader::from_reader(input);
        let columns = Columns::find(csv.headers()?)?;
        Ok(Self { csv, columns, record: csv::StringRecord::new() })
    }

    fn flight(&self) -> Result<Flight, FlightError> {
        let columns = &self.columns;
        let month = self.number("month", columns.month)?;
        let day = self.number("day", columns.day)?;
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(self.bad_field("month or day", columns.month));
        }
        let key = FlightKey {
            year: self.number("year", columns.year)?,
            month,
            day,
            carrier: self.record[columns.carrier].to_owned(),
            flight: self.number("flight", columns.flight)?,
            origin: self.record[columns.origin].to_owned(),
        };
        Ok(Flight { key, row: self.record.iter().collect::<Vec<_>>().join(",") })
    }

    fn number<N: std::str::FromStr>(&self, column: &'static str, at: usize) -> Result<N, FlightError> {
        self.record[at].parse().map_err(|_| self.bad_field(column, at))
    }

    fn bad_field(&self, column: &'static str, at: usize) -> FlightError {
        let line = self.record.position().map_or(0, csv::Position::line);
        FlightError::Field { line, column, field: self.record[at].to_owned() }
    }
}

impl<R: Read> Iterator for Flights<R> {
    type Item = Result<Flight, FlightError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.csv.read_record(&mut self.record) {
            Ok(true) => Some(self.flight()),
            Ok(false) => None,
            Err(error) => Some(Err(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSTON: &str = "Year,Month,DayofMonth,DayOfWeek,DepTime,UniqueCarrier,FlightNum,Origin,Dest\n\
                           2011,1,1,6,1400,AA,428,IAH,DFW\n2011,12,31,6,,XE,7290,HOU,DFW\n";
    const NORTHWEST: &str = "year,month,day,carrier,flight,origin,dest\n2014,1,1,AS,145,PDX,ANC\n";

    #[test]
    fn both_tables_are_understood() {
        let houston: Vec<_> = Flights::new(HOUSTON.as_bytes()).unwrap().map(Result::unwrap).collect();
        assert_eq!(houston[0].row, "2011,1,1,6,1400,AA,428,IAH,DFW");
        assert_eq!(houston[0].key.packed(), Some(1 << 21 | 428 << 3 | 1 << 1));
        assert_eq!(houston[1].key.packed(), Some(365 << 21 | 15 << 16 | 7290 << 3));
        let northwest = Flights::new(NORTHWEST.as_bytes()).unwrap().next().unwrap().unwrap();
        assert_eq!(northwest.key.packed(), Some(1 << 21 | 1 << 16 | 145 << 3 | 2 << 1 | 1));
    }

    #[test]
    fn other_tables_and_bad_lines_are_refused_by_name() {
        assert!(matches!(Flights::new("a,b\n1,2\n".as_bytes()), Err(FlightError::Column(["Year", "year"]))));
        let bad = NORTHWEST.replace("145", "AS145");
        let error = Flights::new(bad.as_bytes()).unwrap().next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "line 2: flight is \"AS145\"");
    }
}
