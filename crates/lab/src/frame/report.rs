//! `index.html`: every recorded figure on one page that needs nothing beside itself.

use crate::frame::LabError;
use crate::frame::page;
use crate::frame::results::{Record, write};
use std::fs;
use std::path::{Path, PathBuf};

/// The records of one machine.
pub struct HostRecords {
    /// Its directory's name.
    pub name: String,
    /// In the order asked for.
    pub records: Vec<Record>,
}

/// Builds `<results>/index.html` from the figures kept there; returns its path.
///
/// `order` gives the figures' order; those it does not name come last. Directories without figures are passed over.
///
/// Errors: there is no figure, a file cannot be read, is not one of the laboratory's, or the page cannot be written.
pub fn build(results: &Path, order: &[&str]) -> Result<PathBuf, LabError> {
    let mut hosts = Vec::new();
    let dirs = if results.exists() { entries(results)? } else { Vec::new() };
    for dir in dirs {
        if !dir.is_dir() {
            continue;
        }
        let mut records = Vec::new();
        for path in entries(&dir)? {
            if path.extension().is_some_and(|e| e == "csv") && path.with_extension("svg").exists() {
                records.push(Record::read(&path)?);
            }
        }
        let place = |record: &Record| {
            order.iter().position(|name| *name == record.get("figure")).unwrap_or(order.len())
        };
        records.sort_by_key(place);
        if !records.is_empty() {
            let name = dir.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            hosts.push(HostRecords { name, records });
        }
    }
    if hosts.is_empty() {
        return Err(LabError::Undrawn { results: results.to_owned() });
    }
    let path = results.join("index.html");
    write(&path, &page::page(&hosts))?;
    Ok(path)
}

/// What is in a directory, in the order of names.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, LabError> {
    let failed = |source| LabError::File { path: dir.to_owned(), source };
    let found: Result<Vec<_>, _> = fs::read_dir(dir).map_err(failed)?.collect();
    let mut paths: Vec<_> = found.map_err(failed)?.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}
