//! What Tab offers: commands, then tables, options, words or files, as the command asks.

use crate::shell::print::Mode;
use crate::shell::statement::{Level, Switch, names, options_of};
use crate::typed::Type;
use clap::ValueEnum;
use foreshore::Database;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

/// Completes the lines of a shell on this database.
pub struct Complete {
    db: Database,
    files: FilenameCompleter,
}

impl Complete {
    /// Tables are those that are there when Tab is pressed.
    pub fn new(db: Database) -> Self {
        Self { db, files: FilenameCompleter::new() }
    }

    /// What may follow these words; `None`: a file.
    fn offers(&self, words: &[&str], begun: &str) -> Option<Vec<String>> {
        Some(match words {
            [] | [".help"] => names(),
            [".read" | ".backup"] => return None,
            [".mode"] => spellings::<Mode>(),
            [".hex" | ".timer"] => spellings::<Switch>(),
            ["begin"] => spellings::<Level>(),
            [command, ..] if begun.starts_with('-') => options_of(command),
            [
                "get" | "put" | "insert" | "del" | "scan" | "prefix" | "count" | "delete" | "pop" | "drop"
                | "rename" | ".types",
            ] => self.tables(),
            [".types", _] | [".types", _, _] => Type::names().map(String::from).collect(),
            _ => Vec::new(),
        })
    }

    /// The tables as they would be typed.
    fn tables(&self) -> Vec<String> {
        let names = self.db.tables().unwrap_or_default();
        let quoted = names.iter().filter_map(|name| Some(shlex::try_quote(name).ok()?.into_owned()));
        quoted.collect()
    }
}

fn spellings<T: ValueEnum>() -> Vec<String> {
    let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    values.map(|value| value.get_name().to_string()).collect()
}

impl Completer for Complete {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, ctx: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..pos];
        let start = typed.rfind(' ').map_or(0, |blank| blank + 1);
        let (before, begun) = typed.split_at(start);
        let words: Vec<_> = before.split_whitespace().collect();
        let Some(offers) = self.offers(&words, begun) else { return self.files.complete(line, pos, ctx) };
        let fitting = offers.into_iter().filter(|offer| offer.starts_with(begun));
        let pairs = fitting.map(|offer| Pair { display: offer.clone(), replacement: offer + " " });
        Ok((start, pairs.collect()))
    }
}

impl Hinter for Complete {
    type Hint = String;
}

impl Highlighter for Complete {}
impl Validator for Complete {}
impl Helper for Complete {}

#[cfg(test)]
mod tests {
    use super::*;
    use rustyline::history::DefaultHistory;

    fn offered(line: &str) -> Vec<String> {
        let db = Database::in_memory().unwrap();
        for table in ["ports", "prices", "two words"] {
            db.byte_table(table).unwrap();
        }
        let history = DefaultHistory::new();
        let (start, pairs) = Complete::new(db).complete(line, line.len(), &Context::new(&history)).unwrap();
        assert!(line.is_char_boundary(start));
        pairs.into_iter().map(|pair| pair.replacement).collect()
    }

    #[test]
    fn commands_tables_options_and_words_are_offered() {
        assert_eq!(offered("sc"), ["scan "]);
        assert_eq!(offered(".t"), [".tables ", ".types ", ".timer "]);
        assert_eq!(offered(".types p"), ["ports ", "prices "]);
        assert_eq!(offered(".types ports by"), ["bytes "]);
        assert_eq!(offered("get p"), ["ports ", "prices "]);
        assert_eq!(offered("scan "), ["ports ", "prices ", "'two words' "]);
        assert_eq!(offered("scan ports --re"), ["--reverse "]);
        assert_eq!(offered("scan ports --limit 3 --f"), ["--from "]);
        assert_eq!(offered(".mode c"), ["csv "]);
        assert_eq!(offered("begin sn"), ["snapshot "]);
        assert_eq!(offered("get ports S"), [""; 0]);
        assert_eq!(offered("Zürich "), [""; 0]);
    }
}
