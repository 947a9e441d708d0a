//! What the demonstration did: told as it happens on stderr, and as a table (or JSON lines) on stdout.

use crate::failure::Outcome;
use crate::output::Output;
use serde_json::{Value, json};
use std::time::Duration;

/// The steps so far.
pub struct Steps {
    out: Output,
    rows: Vec<[String; 3]>,
    objects: Vec<Value>,
}

impl Steps {
    /// No step yet.
    pub fn new(json: bool) -> Self {
        Self { out: Output::new(json), rows: Vec::new(), objects: Vec::new() }
    }

    /// Says something before the first step.
    pub fn headline(&self, text: &str) {
        eprintln!("{text}");
    }

    /// Notes a finished step: in words for people, as fields for programs.
    pub fn done(&mut self, step: &'static str, elapsed: Duration, text: String, fields: Value) {
        let seconds = elapsed.as_secs_f64();
        eprintln!("{step}: {text} ({seconds:.2} s)");
        let mut object = json!({"demo": step, "seconds": seconds});
        if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
            object.extend(fields);
        }
        self.objects.push(object);
        self.rows.push([step.to_string(), text, format!("{seconds:.2}")]);
    }

    /// Prints all steps. Reached only if nothing was lost.
    pub fn finish(mut self) -> Outcome {
        if self.out.is_json() {
            self.objects.iter().try_for_each(|object| self.out.object(object))?;
        } else {
            self.out.table(["step", "result", "seconds"], &self.rows)?;
            self.out.line("nothing was lost")?;
        }
        self.out.finish()
    }
}
