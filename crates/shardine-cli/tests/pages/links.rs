//! Links from one page to another.

use std::path::{Path, PathBuf};

/// The links of all pages that lead to no file, or to no heading of it.
pub fn broken(root: &Path) -> Vec<String> {
    let mut pages = Vec::new();
    collect(root, &mut pages);
    collect(&root.join("docs"), &mut pages);
    for folder in ["docs/bench", "docs/design", "docs/format"] {
        collect(&root.join(folder), &mut pages);
    }
    assert!(pages.len() > 20, "{pages:?}");
    pages.iter().flat_map(|page| broken_in(root, page)).collect()
}

fn collect(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

fn broken_in(root: &Path, page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let name = page.strip_prefix(root).unwrap().display();
    targets(&text)
        .into_iter()
        .filter(|target| !leads_somewhere(page, &text, target))
        .map(|target| format!("{name}: {target}"))
        .collect()
}

/// What the links and pictures of a page lead to, except other sites.
fn targets(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for line in prose(text) {
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") {
                targets.push(target.to_owned());
            }
        }
    }
    targets
}

/// The lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

fn leads_somewhere(page: &Path, text: &str, target: &str) -> bool {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = page.parent().unwrap().join(file);
    if !file.is_empty() && !path.exists() {
        return false;
    }
    if anchor.is_empty() {
        return true;
    }
    let other =
        if file.is_empty() { text.to_owned() } else { std::fs::read_to_string(path).unwrap() };
    prose(&other).any(|line| line.starts_with('#') && anchor_of(line) == anchor)
}

/// The anchor of a heading, as GitHub and others make it.
fn anchor_of(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn a_broken_link_is_noticed() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let text =
        "# What `it` is, and why\n[a](b.md) [c](Cargo.toml) [d](#what-it-is-and-why) [e](#x)\n";
    let broken: Vec<String> =
        targets(text).into_iter().filter(|target| !leads_somewhere(&page, text, target)).collect();
    assert_eq!(broken, ["b.md", "#x"]);
}
