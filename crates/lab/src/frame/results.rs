//! Figures on disk: `<results>/<host>/<figure>.csv` and `.svg`.
//!
//! The CSV is the record: its header, lines of `# name: value`, says all that is needed to draw the figure again; each row
//! below is one point. The header says how many there are, so that a file of which only the beginning is left is not taken for
//! a record. The SVG is made from the same numbers.

use crate::frame::table::x_text;
use crate::frame::{Drawn, Figure, Host, LabError, Settings, chart};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The rows' columns.
pub const COLUMNS: [&str; 7] = ["panel", "source", "x_name", "y_name", "series", "x", "y"];

/// Makes the directory of this machine's figures. What takes an hour to draw should not fail to be kept only then.
///
/// Errors: no file can be written there.
pub fn prepare(results: &Path, host: &Host) -> Result<(), LabError> {
    let dir = results.join(host.directory());
    fs::create_dir_all(&dir).map_err(|source| LabError::File { path: dir.clone(), source })?;
    let trial = dir.join(format!("trial.{}", std::process::id()));
    write(&trial, "")?;
    fs::remove_file(&trial).map_err(|source| LabError::File { path: trial, source })
}

/// Writes both files of a figure; returns the path of the CSV.
///
/// Errors: the directory cannot be written, or the chart cannot be drawn.
pub fn keep(
    results: &Path,
    host: &Host,
    figure: &Figure,
    settings: &Settings,
    drawn: &Drawn,
) -> Result<PathBuf, LabError> {
    let dir = results.join(host.directory());
    fs::create_dir_all(&dir).map_err(|source| LabError::File { path: dir.clone(), source })?;
    let file = |extension: &str| dir.join(figure.name).with_extension(extension);
    write(&file("svg"), &chart::svg(drawn)?)?;
    write(&file("csv"), &csv(host, figure, settings, drawn))?;
    Ok(file("csv"))
}

/// Writes a text file, which has the old contents or the new ones: numbers cut short would look like others.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), LabError> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    fs::write(&new, text).and_then(|()| fs::rename(&new, path)).map_err(|source| {
        // It may not even be there.
        let _ = fs::remove_file(&new);
        LabError::File { path: path.to_owned(), source }
    })
}

/// The text of a figure's CSV.
pub fn csv(host: &Host, figure: &Figure, settings: &Settings, drawn: &Drawn) -> String {
    let mut text = String::new();
    for (name, value) in header(host, figure, settings, drawn) {
        writeln!(text, "# {name}: {value}").expect("strings take all");
    }
    let mut rows = csv::Writer::from_writer(Vec::new());
    rows.write_record(COLUMNS).expect("memory takes all");
    for panel in &drawn.panels {
        for series in &panel.series {
            for &(x, y) in &series.points {
                let (x, y) = (x_text(panel, x), y.to_string());
                let row = [&panel.title, panel.source.word(), &panel.x, &panel.y, &series.name, &x, &y];
                rows.write_record(row).expect("memory takes all");
            }
        }
    }
    let rows = rows.into_inner().expect("memory takes all");
    text + &String::from_utf8(rows).expect("made of strings")
}

fn header(host: &Host, figure: &Figure, settings: &Settings, drawn: &Drawn) -> Vec<(&'static str, String)> {
    let mut header = vec![
        ("figure", figure.name.to_owned()),
        ("paper", figure.paper.citation().to_owned()),
        ("title", figure.title.to_owned()),
        ("found", figure.found.to_owned()),
        ("differs", figure.differs.to_owned()),
        ("verdict", drawn.verdict.word().to_owned()),
        ("seen", drawn.verdict.sentence().to_owned()),
        ("points", points(drawn).to_string()),
        ("command", settings.command(figure.name)),
        ("seed", settings.seed.to_string()),
        ("quick", settings.quick.to_string()),
        ("cpu", host.cpu.clone()),
        ("cores", host.cores.to_string()),
        ("kernel", host.kernel.clone()),
        ("load", host.load.clone()),
        ("version", concat!("foreshore-lab ", env!("CARGO_PKG_VERSION")).to_owned()),
        // Without what was not committed then.
        ("commit", env!("FORESHORE_COMMIT").to_owned()),
        ("profile", if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned()),
    ];
    header.extend(drawn.settings.iter().cloned());
    header
}

fn points(drawn: &Drawn) -> usize {
    drawn.panels.iter().flat_map(|panel| &panel.series).map(|series| series.points.len()).sum()
}

/// A figure's record, read back.
#[derive(Clone, Debug)]
pub struct Record {
    header: Vec<(String, String)>,
    /// The points, in [`COLUMNS`].
    pub rows: Vec<[String; COLUMNS.len()]>,
    /// The chart.
    pub svg: String,
}

impl Record {
    /// Reads `<figure>.csv` and the chart beside it.
    ///
    /// Errors: a file is missing, or it is not what [`keep`] writes.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let read = |path: &Path| {
            fs::read_to_string(path).map_err(|source| LabError::File { path: path.to_owned(), source })
        };
        let text = read(path)?;
        let foreign = |what: String| LabError::Foreign { path: path.to_owned(), what };
        if !text.ends_with('\n') {
            return Err(foreign("its end is missing".into()));
        }
        let header: Vec<_> = text
            .lines()
            .map_while(|line| line.strip_prefix("# ")?.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let mut rows = Vec::new();
        for row in reader.records() {
            let row = row.map_err(|error| foreign(error.to_string()))?;
            let cells: Vec<String> = row.iter().map(str::to_owned).collect();
            rows.push(cells.try_into().map_err(|_| foreign("a row has other columns".into()))?);
        }
        let record = Self { header, rows, svg: read(&path.with_extension("svg"))? };
        for name in ["figure", "paper", "title", "found", "verdict", "seen", "command"] {
            if record.get(name).is_empty() {
                return Err(foreign(format!("its header does not say `{name}`")));
            }
        }
        // Records from before do not say how many there are.
        match record.get("points") {
            "" => {}
            points if points == record.rows.len().to_string() => {}
            points => return Err(foreign(format!("it has {} of {points} points", record.rows.len()))),
        }
        Ok(record)
    }

    /// A value of the header; empty if there is none.
    pub fn get(&self, name: &str) -> &str {
        self.header.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The header's lines, in their order.
    pub fn header(&self) -> &[(String, String)] {
        &self.header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    /// Whoever reads while a figure is drawn again, or after that was interrupted, reads one of the two.
    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("figure.csv");
        write(&path, "the old one").unwrap();
        let mut open = fs::File::open(&path).unwrap();
        write(&path, "new").unwrap();
        let mut read = String::new();
        open.read_to_string(&mut read).unwrap();
        assert_eq!((read.as_str(), fs::read_to_string(&path).unwrap().as_str()), ("the old one", "new"));

        assert!(matches!(write(dir.path(), "a directory"), Err(LabError::File { .. })));
        let beside = dir.path().parent().unwrap().read_dir().unwrap();
        let name = dir.path().file_name().unwrap().to_string_lossy().into_owned() + ".";
        let left = beside.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&name));
        assert_eq!((dir.path().read_dir().unwrap().count(), left.count()), (1, 0));
    }
}
