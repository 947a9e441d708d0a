//! `shell`: the database by hand, line by line, with transactions; or by a script.
//!
//! ```text
//! line ── words (shlex) ── statement (clap) ── session ── rows in one of three modes
//! ```

mod complete;
mod interactive;
mod interrupt;
pub mod print;
mod script;
mod session;
mod statement;

use crate::args::{DbArgs, engine_durability};
use crate::failure::Outcome;
use crate::profile::ProfileArgs;
use clap::Args;
use foreshore_workloads::Durability;
use print::Mode;
use script::Script;
use session::Session;
use std::io::IsTerminal;

const EXAMPLES: &str = "\
Examples:
  foreshore shell                       .help lists the commands, Tab completes
  foreshore shell -c 'put ports SEA Seattle' -c 'scan ports'
  foreshore shell --dir bank.db < transfer.txt
  foreshore shell --json -c 'prefix flights 2011,12,24,WN --limit 5'
  foreshore shell -c '.types users str u64' -c 'get users ada'
                                        of a program's typed table

A script, one command a line, # before a comment, words quoted as in sh:
  begin
  put accounts ada 70
  put accounts ben 30
  commit

Without a terminal, the first command that fails ends the shell with its exit
code, and the message names the line; a transaction that is still open then is
rolled back. Commands outside a transaction are each one of their own.

At a terminal, Ctrl-C drops the line, or stops a command that walks rows; the
transaction goes on. Pressed twice while a command runs, or where lines cannot
be edited (TERM=dumb), it ends the shell.";

/// Read and write by hand, in transactions if you like, or by a script
///
/// Creates the database if there is none. The history of lines is kept in ~/.foreshore_history, or where
/// $FORESHORE_HISTORY says.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ShellArgs {
    #[command(flatten)]
    db: DbArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    /// Run this line instead of asking for some; may be given several times
    #[arg(short = 'c', long = "command", value_name = "LINE")]
    commands: Vec<String>,
    /// Go on after a command that failed; the exit code is that of the first
    #[arg(long)]
    keep_going: bool,
    /// What a commit survives once it returns
    #[arg(long, value_enum, default_value_t = Durability::Sync)]
    durability: Durability,
}

/// Runs `shell`.
pub fn run(args: &ShellArgs) -> Outcome {
    let builder = args.profile.advise(args.db.builder())?;
    let db = args.db.open_or_create(builder.durability(engine_durability(args.durability)))?;
    let mode = if args.db.json { Mode::Json } else { Mode::Table };
    let mut session = Session::new(db.clone(), mode);
    let script = Script::new(args.keep_going);
    let ended = if !args.commands.is_empty() {
        script.run_lines(&mut session, &args.commands)
    } else if std::io::stdin().is_terminal() {
        interactive::run(&mut session, &args.db.dir)
    } else {
        script.run_stdin(&mut session)
    };
    drop(session);
    let closed = db.close();
    ended.and(closed.map_err(Into::into))
}
