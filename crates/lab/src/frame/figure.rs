//! A figure: which paper it stands in, what the paper found, how to draw it here, and whether the finding holds.

use crate::frame::Settings;
use std::io;
use std::path::PathBuf;

/// Why a figure could not be drawn or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A structure gave a wrong answer, so its speed means nothing: a bug, please report it with the seed.
    #[error("wrong answer: {0}")]
    Wrong(String),
    /// No figure of this name.
    #[error("no figure is called {name:?}; `foreshore lab list` names them all")]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A program that the figure runs was not built.
    #[error("{} is not there; build it: {build}", program.display())]
    Absent {
        /// The program.
        program: PathBuf,
        /// What builds it.
        build: &'static str,
    },
    /// A program that the figure runs failed.
    #[error("{name}: {what}")]
    Child {
        /// What was measured.
        name: String,
        /// What it said.
        what: String,
    },
    /// A file could not be written or read: make room, or choose another directory.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing to report on: draw a figure, or choose another directory.
    #[error("{} holds no figure yet; draw some first: `foreshore lab all --quick`", results.display())]
    Undrawn {
        /// Where they would be.
        results: PathBuf,
    },
    /// A file of results is not what this program writes: remove it, or draw its figure again.
    #[error("{}: {what}; draw the figure again, or remove the file", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
        /// What is missing in it.
        what: String,
    },
    /// The chart could not be drawn.
    #[error("drawing the chart: {0}")]
    Chart(String),
}

/// One of the papers, or the laboratory's own figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// Cha et al., VLDB 2001.
    Olfit,
    /// Samuel et al., DaMoN 2005.
    Damon,
    /// Guo et al., Chinese Journal of Computers 2010.
    Multicore,
    /// Ohene-Kwofie et al., ADC 2013.
    O2Tree,
    /// Johnson et al., EDBT 2009, for the primitives it replaces.
    ShoreMt,
}

impl Paper {
    /// How the paper is cited.
    pub fn citation(self) -> &'static str {
        match self {
            Self::Olfit => {
                "Cha, Hwang, Kim, Kwon: Cache-conscious concurrency control of main-memory indexes (OLFIT), VLDB 2001"
            }
            Self::Damon => "Samuel, Pedersen, Bonnet: Making CSB+-trees processor conscious, DaMoN 2005",
            Self::Multicore => {
                "Guo et al.: Performance analysis of main-memory indexes on multicore processors, 2010"
            }
            Self::O2Tree => {
                "Ohene-Kwofie, Otoo, Nimako: O2-Tree, a shared-memory resident index in multicore systems, ADC 2013"
            }
            Self::ShoreMt => {
                "Johnson et al.: Shore-MT, a scalable storage manager for the multicore era, EDBT 2009"
            }
        }
    }
}

/// Where a panel's numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Timed or counted on this machine.
    Measured,
    /// Computed by the cache and coherence model from the accesses of the same code.
    Modelled,
    /// Follows from a formula or a layout.
    Computed,
}

impl Source {
    /// The word in files and on charts.
    pub fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Modelled => "modelled",
            Self::Computed => "computed",
        }
    }
}

/// How the x axis is spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By powers of two.
    Doubling,
    /// Bars: each x is an index into the names of the categories.
    Bars(&'static [&'static str]),
}

/// A line: its name and its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it stands for.
    pub name: String,
    /// In the order of x.
    pub points: Vec<(f64, f64)>,
}

/// One diagram of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Above the diagram.
    pub title: String,
    /// Where the numbers come from.
    pub source: Source,
    /// The x axis: what, and its unit.
    pub x: String,
    /// The y axis: what, and its unit.
    pub y: String,
    /// How x is spaced.
    pub scale: Scale,
    /// The lines.
    pub series: Vec<Series>,
}

impl Panel {
    /// A panel without lines yet.
    pub fn new(title: impl Into<String>, source: Source, x: &str, y: &str, scale: Scale) -> Self {
        Self { title: title.into(), source, x: x.into(), y: y.into(), scale, series: Vec::new() }
    }

    /// Adds a point to the line of this name, which begins with its first point.
    pub fn add(&mut self, name: &str, x: f64, y: f64) {
        let at = self.series.iter().position(|series| series.name == name).unwrap_or_else(|| {
            self.series.push(Series { name: name.into(), points: Vec::new() });
            self.series.len() - 1
        });
        self.series[at].points.push((x, y));
    }

    /// The value of a line at x.
    ///
    /// Panics if there is none: verdicts ask for points that their own figure drew.
    pub fn at(&self, name: &str, x: f64) -> f64 {
        let series = self.series.iter().find(|series| series.name == name);
        let point = series.and_then(|series| series.points.iter().find(|point| point.0 == x));
        point.unwrap_or_else(|| panic!("{}: no point of {name} at {x}", self.title)).1
    }
}

/// Does the paper's finding hold here?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes; the sentence says by which numbers.
    Holds(String),
    /// In part.
    Partly(String),
    /// No; the sentence says what is seen instead.
    Differs(String),
}

impl Verdict {
    /// From the conditions that the finding consists of: all, some, or none of them hold.
    pub fn of(conditions: &[bool], sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        match conditions.iter().filter(|holds| **holds).count() {
            n if n == conditions.len() => Self::Holds(sentence),
            0 => Self::Differs(sentence),
            _ => Self::Partly(sentence),
        }
    }

    /// Does all of it hold?
    pub fn holds(&self) -> bool {
        matches!(self, Self::Holds(_))
    }

    /// The verdict in a word or two.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Holds(_) => "holds",
            Self::Partly(_) => "holds in part",
            Self::Differs(_) => "differs",
        }
    }

    /// The verdict in a sentence, with its numbers.
    pub fn sentence(&self) -> &str {
        match self {
            Self::Holds(sentence) | Self::Partly(sentence) | Self::Differs(sentence) => sentence,
        }
    }
}

/// A figure that was drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// Its diagrams.
    pub panels: Vec<Panel>,
    /// Does the finding hold?
    pub verdict: Verdict,
    /// What it was drawn with, beyond the seed: sizes, counts, the modelled machine.
    pub settings: Vec<(&'static str, String)>,
}

/// Is told how much of a figure is done (0..=1), and at what it is.
pub type Tell<'a> = &'a mut dyn FnMut(f64, &str);

/// A figure of a paper, and how to draw it here.
pub struct Figure {
    /// `olfit-fig7`: the paper and its number there.
    pub name: &'static str,
    /// Where it stands.
    pub paper: Paper,
    /// What it shows.
    pub title: &'static str,
    /// What the paper found.
    pub found: &'static str,
    /// How the experiment here differs from the paper's, and what explains a difference in the outcome.
    pub differs: &'static str,
    /// Draws it.
    pub(crate) draw: fn(&Settings, Tell<'_>) -> Result<Drawn, LabError>,
}

impl Figure {
    /// Draws the figure; `tell` hears of progress.
    ///
    /// Errors: [`LabError::Wrong`] if a structure under test errs.
    pub fn run(&self, settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
        (self.draw)(settings, tell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_counts_its_conditions() {
        assert!(Verdict::of(&[true, true], "").holds());
        assert_eq!(Verdict::of(&[true, false], "").word(), "holds in part");
        assert_eq!(Verdict::of(&[false, false], "").word(), "differs");
    }

    #[test]
    fn points_go_to_the_line_of_their_name() {
        let mut panel = Panel::new("t", Source::Computed, "x", "y", Scale::Linear);
        panel.add("a", 1.0, 10.0);
        panel.add("b", 1.0, 20.0);
        panel.add("a", 2.0, 30.0);
        assert_eq!(panel.series.len(), 2);
        assert_eq!((panel.at("a", 2.0), panel.at("b", 1.0)), (30.0, 20.0));
    }
}
