//! `--profile` and `--favour`: what `foreshore tune` found, for commands that create tables.

use crate::failure::{Failure, Outcome};
use crate::output::tell;
use clap::{Args, ValueEnum};
use foreshore::{Builder, Favour, Profile};
use foreshore_index::calibrate::Machine;
use std::path::{Path, PathBuf};

/// Which profile, and what is asked of it.
#[derive(Args, Clone, Debug)]
pub struct ProfileArgs {
    /// Take the leaf size of new tables from a profile that `foreshore tune` wrote
    #[arg(long, value_name = "FILE", env = "FORESHORE_PROFILE")]
    profile: Option<PathBuf>,
    /// What the profile is asked for
    #[arg(long, value_enum, default_value_t = Favoured::Balanced, requires = "profile")]
    favour: Favoured,
}

/// What a profile is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Favoured {
    /// Lookups
    Lookups,
    /// Inserts
    Inserts,
    /// Lookups, inserts and scans alike
    Balanced,
}

impl Favoured {
    /// The library's word for it.
    pub fn favour(self) -> Favour {
        match self {
            Self::Lookups => Favour::Lookups,
            Self::Inserts => Favour::Inserts,
            Self::Balanced => Favour::Balanced,
        }
    }
}

impl ProfileArgs {
    /// Options that follow the profile, if one is named, where they name nothing themselves.
    pub fn advise(&self, builder: Builder) -> Outcome<Builder> {
        Ok(match &self.profile {
            Some(path) => builder.profile(&load(path)?, self.favour.favour()),
            None => builder,
        })
    }
}

/// Reads a profile; says so if it is of another machine.
pub fn load(path: &Path) -> Outcome<Profile> {
    let profile = Profile::load(path).map_err(|e| Failure::usage(e.to_string()))?;
    if !profile.machine.is_like(&Machine::this()) {
        tell(format_args!(
            "note: the profile {} is of another machine, {}",
            path.display(),
            profile.machine.processor
        ));
    }
    Ok(profile)
}
