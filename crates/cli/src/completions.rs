//! `completions`: what Tab does in the user's shell.

use crate::failure::Outcome;
use clap::Args;
use clap_complete::Shell;
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  foreshore completions bash \\
      > ~/.local/share/bash-completion/completions/foreshore
  foreshore completions fish > ~/.config/fish/completions/foreshore.fish
  foreshore completions zsh > ~/.zfunc/_foreshore

zsh looks there if ~/.zshrc has fpath+=~/.zfunc before compinit. The directory
must be there before.";

/// Print a script that completes commands and options on Tab
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell that reads it
    shell: Shell,
}

/// Runs `completions`.
pub fn run(args: &CompletionsArgs) -> Outcome {
    // Written at once: the generator panics where the reader has gone.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut offered(&crate::command()), "foreshore", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

/// What a person may type: the generators would offer what `--help` hides, too.
fn offered(command: &clap::Command) -> clap::Command {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    clap::Command::new("foreshore").version(env!("CARGO_PKG_VERSION")).subcommands(shown)
}
