//! `man`: the manual pages, made of what `--help` says.

use crate::failure::{Failure, Outcome};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  foreshore man | man -l -
  foreshore man --output ~/.local/share/man/man1 && man foreshore-scan";

/// Print the manual page, or write those of all commands
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ManArgs {
    /// Directory, made if absent, for foreshore.1, foreshore-scan.1 and so on, instead of printing the first
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Runs `man`.
pub fn run(args: &ManArgs) -> Outcome {
    let command = crate::command();
    match &args.output {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            Ok(std::io::stdout().write_all(&page)?)
        }
        Some(dir) => std::fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(command, dir))
            .map_err(|e| Failure::io(dir.display(), &e)),
    }
}
