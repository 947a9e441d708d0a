//! The book as mdBook sees it: a page that `docs/SUMMARY.md` does not list is not built, and what lies outside of `docs/` is
//! not there. Both look well on GitHub, so nobody would notice.

use crate::links::{resolve, targets};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

const BOOK: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";

/// What is wrong with the book, as page, line and complaint; `pages` are all pages of the repository but recorded results, by
/// name.
pub fn wrong<'p>(pages: impl Iterator<Item = (&'p str, &'p str)> + Clone) -> Vec<(&'p str, usize, String)> {
    let summary = pages.clone().find(|(name, _)| *name == SUMMARY).map_or("", |(_, text)| text);
    let listed: HashSet<PathBuf> =
        targets(summary).into_iter().map(|(_, target)| resolve(SUMMARY, target)).collect();
    let mut wrong = Vec::new();
    for (name, text) in pages.filter(|(name, _)| Path::new(name).starts_with(BOOK) && *name != SUMMARY) {
        if !listed.contains(&PathBuf::from(name)) {
            wrong.push((name, 1, format!("a page that {SUMMARY} does not list")));
        }
        let inside = targets(text).into_iter().filter(|(_, target)| !target.contains("://"));
        for (line, target) in inside {
            let page = resolve(name, target.split('#').next().unwrap_or_default());
            if !page.starts_with(BOOK) {
                wrong.push((name, line, format!("a link out of the book: {target}")));
            } else if page.extension().is_some_and(|end| end == "md") && !listed.contains(&page) {
                wrong.push((name, line, format!("a link to a page that is not built: {target}")));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_pages_and_links_out_of_the_book_are_found() {
        let pages = [
            ("README.md", "[a](docs/a.md)\n"),
            (SUMMARY, "- [A](a.md)\n- [B](b.md)\n"),
            (
                "docs/a.md",
                "[b](b.md) [self](#x) [part](b.md#x) [figures](results/a.csv) [web](https://example.org)\n",
            ),
            ("docs/b.md", "\n[code](../crates/a.rs)\n"),
            ("docs/c.md", "[a](a.md)\n[rows](results/a/README.md)\n"),
        ];
        let found: Vec<_> =
            wrong(pages.into_iter()).into_iter().map(|(name, line, _)| (name, line)).collect();
        assert_eq!(found, [("docs/b.md", 2), ("docs/c.md", 1), ("docs/c.md", 2)]);
    }
}
