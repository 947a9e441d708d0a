//! What a figure is, apart from its contents: how it is asked for, drawn, kept and shown.

pub mod chart;
mod figure;
mod host;
mod page;
pub mod report;
pub mod results;
mod settings;
mod table;
mod timing;

pub use figure::{Drawn, Figure, LabError, Panel, Paper, Scale, Series, Source, Tell, Verdict};
pub use host::Host;
pub(crate) use settings::OF_FLIGHTS;
pub use settings::Settings;
pub use table::text_table;
pub(crate) use timing::{median, rounds, span_s};
