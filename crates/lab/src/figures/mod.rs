//! The registry: every figure that can be drawn.

mod damon;
mod multicore;
mod o2;
mod o2_queue;
mod o2_stores;
mod olfit;
mod primitives;
mod shore;
mod study;

use crate::frame::{Figure, LabError};

/// All figures, paper by paper.
pub fn all() -> impl Iterator<Item = &'static Figure> {
    [
        olfit::FIGURES,
        damon::FIGURES,
        multicore::FIGURES,
        o2::FIGURES,
        o2_stores::FIGURES,
        o2_queue::FIGURES,
        shore::FIGURES,
        primitives::FIGURES,
    ]
    .into_iter()
    .flatten()
}

/// The figure of this name.
///
/// Errors: [`LabError::Unknown`].
pub fn named(name: &str) -> Result<&'static Figure, LabError> {
    all().find(|figure| figure.name == name).ok_or_else(|| LabError::Unknown { name: name.to_owned() })
}
