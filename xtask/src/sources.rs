//! What must not be in the sources: paths of somebody's machine, unsafe code without its argument, unfinished code, links
//! to nowhere.

use crate::{book, links};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::process::Command;

/// A file longer than this may hold a second concept; it is reported, not refused.
pub const LINES_MANY: usize = 800;

/// How far above an `unsafe` its argument may stand, in lines.
const ARGUMENT_WITHIN: usize = 8;

/// Something that must not be there.
pub struct Finding {
    file: String,
    line: usize,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// A file that git knows, or would know.
pub struct Source {
    pub name: String,
    pub text: String,
}

/// All text files of the repository, without lock files and recorded results.
///
/// Errors: git is missing or a file cannot be read.
pub fn all() -> io::Result<Vec<Source>> {
    let listed = Command::new("git").args(["ls-files", "-z", "-co", "--exclude-standard"]).output();
    let listed = listed.map_err(|e| io::Error::other(format!("git, which lists the sources: {e}")))?;
    if !listed.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&listed.stderr).into_owned()));
    }
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let kept =
        |name: &&str| !(name.is_empty() || name.ends_with(".lock") || name.starts_with("docs/results/"));
    let mut sources = Vec::new();
    for name in names.split('\0').filter(kept) {
        match std::fs::read(name) {
            Ok(bytes) => sources
                .extend(String::from_utf8(bytes).ok().map(|text| Source { name: name.to_owned(), text })),
            // Removed from the working tree, and git not yet told.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sources)
}

/// The step of CI: `Err` lists what was found.
pub fn check() -> Result<(), String> {
    let sources = all().map_err(|error| error.to_string())?;
    let mut findings: Vec<_> = sources.iter().flat_map(findings).collect();
    findings.extend(broken_links(&sources));
    findings.extend(wrong_in_book(&sources));
    findings.iter().for_each(|finding| println!("{finding}"));
    if findings.is_empty() { Ok(()) } else { Err(format!("{} findings, listed above", findings.len())) }
}

/// Links of pages to what is not there.
fn broken_links(sources: &[Source]) -> Vec<Finding> {
    let pages = sources.iter().filter(|source| source.name.ends_with(".md"));
    let texts: HashMap<_, _> =
        pages.clone().map(|page| (page.name.clone().into(), page.text.as_str())).collect();
    let finding = |page: &Source, (line, target)| Finding {
        file: page.name.clone(),
        line,
        what: format!("a link to what is not there: {target}"),
    };
    pages
        .flat_map(|page| {
            links::broken(&page.name, &page.text, &texts).into_iter().map(|found| finding(page, found))
        })
        .collect()
}

/// Pages and links that mdBook would lose.
fn wrong_in_book(sources: &[Source]) -> Vec<Finding> {
    let pages = sources.iter().filter(|source| source.name.ends_with(".md"));
    let wrong = book::wrong(pages.map(|page| (page.name.as_str(), page.text.as_str())));
    wrong.into_iter().map(|(file, line, what)| Finding { file: file.to_owned(), line, what }).collect()
}

/// What is wrong with one file.
pub fn findings(source: &Source) -> Vec<Finding> {
    let lines: Vec<_> = source.text.lines().collect();
    let mut findings = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let mut find =
            |what: String| findings.push(Finding { file: source.name.clone(), line: at + 1, what });
        if let Some(path) = path_of_a_machine(line) {
            find(format!("a path of somebody's machine: {path}"));
        }
        if source.name.ends_with(".rs") {
            if is_unsafe(line) && !is_argued(&lines[at.saturating_sub(ARGUMENT_WITHIN)..=at]) {
                find("unsafe without a SAFETY argument above".into());
            }
            if let Some(mark) = unfinished(line) {
                find(format!("unfinished: {mark}"));
            }
        }
    }
    findings
}

/// Absolute paths into home directories and work areas. (Spelled in pieces, or this file would find itself.)
fn path_of_a_machine(line: &str) -> Option<&str> {
    const ROOTS: [&str; 4] =
        [concat!("/", "home/"), concat!("/", "root/"), concat!("/", "Users/"), concat!("/", "work/")];
    let found = ROOTS.iter().flat_map(|root| line.match_indices(root));
    let at = found.map(|(at, _)| at).find(|&at| {
        // "…/homework/…" and "https://example.org/home/" are no roots: something stands before the slash.
        !line[..at].ends_with(|before: char| before.is_alphanumeric() || "._-}/$".contains(before))
    })?;
    line[at..].split_whitespace().next()
}

/// Does code on this line use `unsafe`? The type of a function pointer is no use: whoever calls it argues.
fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern"].iter().any(|usage| {
        code.find(usage).is_some_and(|at| {
            let pointer = code[at + usage.len()..].starts_with(" \"C\" fn(");
            !pointer && !code[..at].contains('"') && !code[..at].ends_with('_')
        })
    })
}

fn is_argued(above: &[&str]) -> bool {
    above.iter().any(|line| line.contains("SAFETY:") || line.contains("# Safety"))
}

fn unfinished(line: &str) -> Option<&'static str> {
    const MARKS: [&str; 4] =
        [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("TO", "DO"), concat!("FIX", "ME")];
    MARKS.into_iter().find(|mark| line.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<String> {
        findings(&Source { name: name.into(), text: text.into() }).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let path = ["", "home", "me", "data.csv"].join("/");
        assert_eq!(
            found("a.md", &format!("read {path} first\n")),
            [format!("a.md:1: a path of somebody's machine: {path}")]
        );
        assert!(found("a.md", "see https://example.org/home/page and src/tools/x").is_empty());
        assert_eq!(found("a.md", &format!("from https://example.org/home/page to {path}")).len(), 1);
    }

    #[test]
    fn unsafe_needs_an_argument() {
        let bare = format!("fn f() {{\n    {} {{ g() }}\n}}\n", "unsafe");
        assert_eq!(found("a.rs", &bare), ["a.rs:2: unsafe without a SAFETY argument above"]);
        let argued = bare.replace("    unsafe", "    // SAFETY: g asks for nothing.\n    unsafe");
        assert!(found("a.rs", &argued).is_empty());
        assert!(found("a.md", &bare).is_empty());
        let block = format!("{} extern \"C\"", "unsafe");
        assert!(found("a.rs", &format!("type F = {block} fn(u8);\n")).is_empty(), "a type is no use");
        assert_eq!(found("a.rs", &format!("{block} fn f() {{}}\n")).len(), 1);
        assert_eq!(found("a.rs", &format!("{block} {{\n")).len(), 1);
    }

    #[test]
    fn unfinished_code_is_found() {
        let text = format!("fn f() {{ {}!() }}\n", "todo");
        assert_eq!(found("a.rs", &text).len(), 1);
    }
}
