//! Keyword arguments as options by name.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

/// The pairs: `True` becomes `true`, anything else what `str` makes of it. `None` is an option not given.
pub fn pairs(options: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, String)>> {
    let Some(options) = options else { return Ok(Vec::new()) };
    let given = options.iter().filter(|(_, value)| !value.is_none());
    given
        .map(|(name, value)| {
            let text = match value.cast::<PyBool>() {
                Ok(flag) => flag.is_true().to_string(),
                Err(_) => value.str()?.to_string(),
            };
            Ok((name.extract()?, text))
        })
        .collect()
}
