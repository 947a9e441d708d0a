//! Progress on stderr: a bar on a terminal, a line every few seconds in a log.

use crate::output::{grouped, tell};
use foreshore_workloads::kv::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const LINE_EVERY: Duration = Duration::from_secs(5);

/// How far a long step is.
pub struct Meter {
    label: String,
    bar: ProgressBar,
    last_line: Cell<Option<Instant>>,
}

impl Meter {
    /// A bar over `total` units, or a spinner if nobody knows how many there will be.
    pub fn new(label: &str, total: Option<u64>) -> Self {
        let bar = match total {
            Some(total) => ProgressBar::new(total)
                .with_style(style("{prefix:<10} {wide_bar} {percent:>3} %  {msg}  {elapsed} of {duration}")),
            None => ProgressBar::new_spinner().with_style(style("{prefix:<10} {spinner} {msg}  {elapsed}")),
        };
        bar.set_prefix(label.to_string());
        let last_line = Cell::new((!std::io::stderr().is_terminal()).then(Instant::now));
        Self { label: label.to_string(), bar, last_line }
    }

    /// A spinner for a step that tells nothing before it ends.
    pub fn waiting(label: &str) -> Self {
        let meter = Self::new(label, None);
        meter.bar.enable_steady_tick(Duration::from_millis(200));
        meter
    }

    /// `done` units so far; `text` says it in words.
    pub fn set(&self, done: u64, text: impl FnOnce() -> String) {
        match self.last_line.get() {
            None => {
                self.bar.set_message(text());
                self.bar.set_position(done);
            }
            Some(last) if last.elapsed() >= LINE_EVERY => {
                self.last_line.set(Some(Instant::now()));
                tell(format_args!("{}: {}", self.label, text()));
            }
            Some(_) => {}
        }
    }

    /// Time since the step began.
    pub fn elapsed(&self) -> Duration {
        self.bar.elapsed()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A meter for each phase of a workload, told by any of its threads.
#[derive(Default)]
pub struct Phases(Mutex<Option<(&'static str, Meter)>>);

impl Phases {
    /// Shows progress; a new phase begins a new meter.
    pub fn tell(&self, progress: &Progress) {
        let mut meter = self.0.lock().expect("progress does not panic");
        if meter.as_ref().is_none_or(|(phase, _)| *phase != progress.phase) {
            *meter = Some((progress.phase, Meter::new(progress.phase, progress.total)));
        }
        if let Some((_, meter)) = meter.as_ref() {
            meter.set(progress.done, || grouped(progress.done));
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is valid")
}
