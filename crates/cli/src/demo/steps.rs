//! What the demonstration did: told as it happens on stderr, and on stdout as JSON lines, or as a table at the end.

use crate::failure::Outcome;
use crate::output::{Output, grouped, tell};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;

/// The steps so far.
pub struct Steps {
    out: Output,
    rows: Vec<[String; 3]>,
}

impl Steps {
    /// No step yet.
    pub fn new(json: bool) -> Self {
        Self { out: Output::new(json), rows: Vec::new() }
    }

    /// Notes a finished step: in words for people, as fields for programs.
    ///
    /// Errors: of the output.
    pub fn done(&mut self, step: &'static str, elapsed: Duration, text: String, fields: Value) -> Outcome {
        let seconds = elapsed.as_secs_f64();
        tell(format_args!("{step}: {text} ({seconds:.2} s)"));
        if self.out.is_json() {
            self.object(step, seconds, fields)?;
        }
        self.rows.push([step.to_string(), text, format!("{seconds:.2}")]);
        Ok(())
    }

    fn object(&mut self, step: &str, seconds: f64, fields: Value) -> Outcome {
        let mut object = json!({"demo": step, "seconds": seconds});
        if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
            object.extend(fields);
        }
        self.out.object(&object)?;
        Ok(self.out.raw().flush()?)
    }

    /// Prints all steps and the verdict. Reached only if nothing was lost.
    pub fn finish(mut self, acknowledged: usize) -> Outcome {
        if !self.out.is_json() {
            self.out.table(["step", "result", "seconds"], &self.rows)?;
            let acknowledged = grouped(acknowledged as u64);
            self.out.line(format!(
                "nothing was lost: all {acknowledged} acknowledged transactions are there, and none by halves"
            ))?;
        }
        self.out.finish()
    }
}
