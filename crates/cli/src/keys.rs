//! Which rows of a table a command means.

use crate::failure::{Failure, Outcome};
use crate::rows::Shape;
use clap::Args;
use foreshore::RawBounds;
use std::ops::Bound;

/// A range of keys.
#[derive(Args, Debug)]
pub struct Between {
    /// First key, or its leading columns; included
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Key to stop before, or its leading columns
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub to: Option<String>,
}

/// A range of keys, or all that begin alike.
#[derive(Args, Debug)]
pub struct KeyRange {
    #[command(flatten)]
    between: Between,
    /// Only keys that begin so, or with these leading columns
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
}

impl Between {
    /// The keys that it spells.
    pub fn keys(&self, shape: &Shape) -> Outcome<RawBounds> {
        let bound = |text: &Option<String>| text.as_ref().map(|text| shape.end(text)).transpose();
        let from = bound(&self.from)?.map_or(Bound::Unbounded, Bound::Included);
        let to = bound(&self.to)?.map_or(Bound::Unbounded, Bound::Excluded);
        Ok((from, to))
    }
}

impl KeyRange {
    /// The keys that it spells.
    pub fn keys(&self, shape: &Shape) -> Outcome<RawBounds> {
        match &self.prefix {
            Some(prefix) => shape.beginning(prefix),
            None => self.between.keys(shape),
        }
    }
}

/// A range of keys whose rows are to go, or all.
#[derive(Args, Debug)]
pub struct RemovedKeys {
    #[command(flatten)]
    range: KeyRange,
    /// All rows; the table stays
    #[arg(long, conflicts_with_all = ["from", "to", "prefix"])]
    all: bool,
}

impl RemovedKeys {
    /// The keys that it spells.
    ///
    /// Errors: usage, if these are all without its saying so: who forgot to say which, or whose script found nothing to put
    /// behind --prefix, does not mean all rows.
    pub fn keys(&self, shape: &Shape) -> Outcome<RawBounds> {
        let keys = self.range.keys(shape)?;
        let begins_at_first = match &keys.0 {
            Bound::Included(key) => key.is_empty(),
            Bound::Excluded(_) => false,
            Bound::Unbounded => true,
        };
        if begins_at_first && keys.1 == Bound::Unbounded && !self.all {
            return Err(Failure::usage(
                "say which rows: --from, --to or --prefix, or --all; `drop` removes the table, too",
            ));
        }
        Ok(keys)
    }
}
