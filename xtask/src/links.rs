//! Links between pages: whether what they point at is there. Links to elsewhere are not followed.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

/// The targets of the links of a page, each with its line, code left out.
pub fn targets(page: &str) -> Vec<(usize, &str)> {
    let (mut targets, mut is_code) = (Vec::new(), false);
    for (at, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let parts = line.split("](").skip(1).filter_map(|part| part.split_once(')'));
            targets.extend(parts.map(|(target, _)| (at + 1, target)));
        }
    }
    targets
}

/// The names that links give to a page's headings, as GitHub and mdBook make them.
fn anchors(page: &str) -> HashSet<String> {
    let mut is_code = false;
    let heading = |line: &str| {
        is_code ^= line.starts_with("```");
        let text = line.trim_start_matches('#');
        let is_heading = !is_code && text.len() < line.len() && text.starts_with(' ');
        is_heading.then(|| anchor(text.trim()))
    };
    page.lines().filter_map(heading).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// What is wrong with the links of `page`, in the file `name`; `pages` has the text of all pages, by name.
pub fn broken(name: &str, page: &str, pages: &HashMap<PathBuf, &str>) -> Vec<(usize, String)> {
    let is_broken = |target: &str| {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = if path.is_empty() { name.into() } else { resolve(name, path) };
        let has_anchor = || pages.get(&file).is_some_and(|page| anchors(page).contains(anchor));
        !file.exists() && !pages.contains_key(&file) || !anchor.is_empty() && !has_anchor()
    };
    let inside = targets(page).into_iter().filter(|(_, target)| !target.contains("://"));
    inside.filter(|(_, target)| is_broken(target)).map(|(line, target)| (line, target.to_owned())).collect()
}

/// The path that a relative link in the file `name` means.
pub fn resolve(name: &str, path: &str) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in Path::new(name).parent().unwrap_or(Path::new("")).join(path).components() {
        match part {
            Component::ParentDir => _ = resolved.pop(),
            Component::CurDir => {}
            part => resolved.push(part),
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_found() {
        let here = "[a](there.md) [b](there.md#two-words-of-it) [c](#here)\n# Here\n```\n[d](absent.md)\n```\n\
                    [e](absent.md) [f](there.md#three) [g](https://example.org/x)\n";
        let there = "# There\n## Two words, `of` it\n";
        let pages = HashMap::from([("d/here.md".into(), here), ("d/there.md".into(), there)]);
        let found = broken("d/here.md", here, &pages);
        assert_eq!(found, [(6, "absent.md".to_owned()), (6, "there.md#three".to_owned())]);
    }
}
