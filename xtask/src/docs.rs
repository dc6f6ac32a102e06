//! The documentation, without warnings, and the public API of the library that it shows.
//!
//! The API is listed in `docs/public-api.txt`, so that a change to it is visible in review and
//! never an accident. The list is derived from rustdoc's HTML pages, which any stable toolchain
//! produces; they also show what comes from the crates below.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::shell::{Attempt, Cmd, Failure, Result, root, target_dir};
use crate::usage;

/// The list to compare with.
const STORED: &str = "docs/public-api.txt";

const HEAD: &str = "The public surface of the crate shardine, with all features. Made by `cargo xtask docs --accept`.\n";

/// Types of other projects that are only re-exported: their methods are not ours.
const FOREIGN: &[&str] = &["struct.Complex.html", "struct.bf16.html", "struct.f16.html"];

/// Lines of a difference that are shown before it is cut short.
const SHOWN: usize = 40;

pub fn main(args: &[String]) -> Result {
    let mut accept = false;
    for option in args {
        match option.as_str() {
            "--accept" => accept = true,
            _ => return Err(usage(format!("docs does not take \"{option}\""))),
        }
    }
    let now = build()?;
    let stored = root().join(STORED);
    if accept {
        fs::write(&stored, now).attempt(stored.display())?;
        println!("{STORED} is what the library has now");
        return Ok(());
    }
    compare(&fs::read_to_string(&stored).attempt(stored.display())?, &now)
}

/// Documents the workspace and fails if the public API is not the listed one.
pub fn check() -> Result {
    main(&[])
}

/// Builds the documentation and lists what it shows.
fn build() -> Result<String> {
    Cmd::cargo("doc --workspace --no-deps --features shardine/ndarray")
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    let pages = target_dir().join("doc/shardine");
    let page = |name: &str| {
        let path = pages.join(name);
        fs::read_to_string(&path).attempt(path.display())
    };
    // By module, then by name.
    let mut items: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut modules = BTreeSet::from([String::new()]);
    for link in links(&page("all.html")?) {
        let (module, name) = link.rsplit_once('/').unwrap_or(("", link));
        modules.insert(module.to_owned());
        let listed = match FOREIGN.contains(&name) {
            true => format!("{}\n", path_of(module, name)),
            false => item(&path_of(module, name), &page(link)?),
        };
        items.insert((module.to_owned(), name.to_owned()), listed);
    }
    for module in modules {
        let passed_on = reexports(&page(&Path::new(&module).join("index.html").to_string_lossy())?);
        if !passed_on.is_empty() {
            let path = path_of(&module, "mod..html");
            let lines: String = passed_on.iter().map(|line| format!("    {line}\n")).collect();
            items.insert((module, String::new()), format!("{path}\n{lines}"));
        }
    }
    if items.is_empty() {
        return Err(Failure::new("no public items were found in the pages of rustdoc"));
    }
    let items: Vec<String> = items.into_values().collect();
    Ok(format!("{HEAD}\n{}", items.join("\n")))
}

fn compare(stored: &str, now: &str) -> Result {
    if stored == now {
        println!("{} lines, as in {STORED}", now.lines().count());
        return Ok(());
    }
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) =
        (stored.lines().collect(), now.lines().collect());
    let gone = stored.lines().filter(|line| !after.contains(line)).map(|line| format!("- {line}"));
    let new = now.lines().filter(|line| !before.contains(line)).map(|line| format!("+ {line}"));
    let lines: Vec<String> = gone.chain(new).collect();
    lines.iter().take(SHOWN).for_each(|line| println!("{line}"));
    if lines.len() > SHOWN {
        println!("and {} more lines", lines.len() - SHOWN);
    }
    Err(Failure::new(format!(
        "the public surface differs from {STORED}; if that is meant, run\n  cargo xtask docs --accept"
    )))
}

/// The path of an item, from its page: `jobs` and `fn.copy.html` are `fn shardine::jobs::copy`.
fn path_of(module: &str, page: &str) -> String {
    let mut parts = page.split('.');
    let (kind, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let path = ["shardine"].into_iter().chain(module.split('/')).chain([name]);
    let path: Vec<&str> = path.filter(|part| !part.is_empty()).collect();
    format!("{kind} {}", path.join("::"))
}

/// The pages that a list of all items links to.
fn links(page: &str) -> Vec<&str> {
    let links = page.split("<li><a href=\"").skip(1);
    links.filter_map(|rest| rest.split('"').next()).filter(|link| link.ends_with(".html")).collect()
}

/// The re-exports of a module.
fn reexports(page: &str) -> Vec<String> {
    let entries = page.split("<dt id=\"reexport.").skip(1);
    let mut lines: Vec<String> = entries
        .filter_map(|rest| between(rest, "<code>", "</code>"))
        .map(|code| line(&text(code)))
        .collect();
    lines.sort();
    lines
}

/// An item: its declaration, its own methods, and the traits that it implements.
fn item(path: &str, page: &str) -> String {
    let mut lines = Vec::new();
    if let Some(code) = between(page, "item-decl\"><code>", "</code></pre>") {
        let declaration = text(code);
        lines.extend(declaration.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
    }
    let own = part(page, "id=\"implementations\"");
    lines.extend(headers(own, "h4").into_iter().map(|header| format!("    {header}")));
    let traits = headers(part(page, "id=\"trait-implementations\""), "h3");
    // Implemented by every derived PartialEq, and nothing that a program can name.
    lines.extend(traits.into_iter().filter(|header| !header.contains("StructuralPartialEq")));
    let lines: String = lines.iter().map(|line| format!("    {line}\n")).collect();
    format!("{path}\n{lines}")
}

/// The part of a page under a heading, up to the next one of its kind.
fn part<'a>(page: &'a str, heading: &str) -> &'a str {
    let Some((_, rest)) = page.split_once(heading) else { return "" };
    rest.split("<h2 ").next().unwrap_or_default()
}

/// The code in headers of this level.
fn headers(html: &str, level: &str) -> Vec<String> {
    let (open, close) = (format!("<{level} class=\"code-header\">"), format!("</{level}>"));
    let headers = html.split(open.as_str()).skip(1);
    headers
        .filter_map(|rest| rest.split(close.as_str()).next())
        .map(|code| line(&text(code)))
        .collect()
}

fn between<'a>(html: &'a str, open: &str, close: &str) -> Option<&'a str> {
    html.split_once(open)?.1.split(close).next()
}

/// The text on one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text of a piece of HTML.
fn text(html: &str) -> String {
    let mut text = String::new();
    for (i, piece) in html.split('<').enumerate() {
        // The text before the first tag.
        let (tag, rest) =
            if i == 0 { ("", piece) } else { piece.split_once('>').unwrap_or_default() };
        if tag == "/div" {
            text.push('\n');
        }
        text.push_str(rest);
    }
    for (name, c) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ] {
        text = text.replace(name, c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<h1>Struct</h1><pre class=\"rust item-decl\"><code><div class=\"code-attribute\">#[non_exhaustive]</div>\
        pub struct Axis {\n    pub start: <a href=\"x\">u64</a>,\n}</code></pre>\
        <h2 id=\"implementations\">Implementations</h2><section id=\"method.part\" class=\"method\">\
        <h4 class=\"code-header\">pub fn <a>part</a>&lt;T&gt;(\n    &amp;self,\n) -&gt; T</h4></section>\
        <h2 id=\"deref-methods\">Methods</h2><h4 class=\"code-header\">pub fn inherited()</h4>\
        <h2 id=\"trait-implementations\">Traits</h2><h3 class=\"code-header\">impl Debug for <a>Axis</a></h3>\
        <h4 class=\"code-header\">fn fmt()</h4>\
        <h2 id=\"synthetic-implementations\">Auto</h2><h3 class=\"code-header\">impl Send for Axis</h3>";

    #[test]
    fn a_page_becomes_its_declaration_methods_and_traits() {
        let expected = "struct shardine::Axis\n    #[non_exhaustive]\n    pub struct Axis {\n        pub start: u64,\n    }\n\
            \x20       pub fn part<T>( &self, ) -> T\n    impl Debug for Axis\n";
        assert_eq!(item("struct shardine::Axis", PAGE), expected);
    }

    #[test]
    fn paths_and_links_are_found() {
        assert_eq!(path_of("", "struct.Array.html"), "struct shardine::Array");
        assert_eq!(path_of("zarr/metadata", "fn.a.html"), "fn shardine::zarr::metadata::a");
        assert_eq!(path_of("zarr", "mod..html"), "mod shardine::zarr");
        let page = "<li><a href=\"struct.A.html\">A</a></li><li><a href=\"#x\">x</a></li>\
            <li><a href=\"b/fn.c.html\">c</a></li>";
        assert_eq!(links(page), ["struct.A.html", "b/fn.c.html"]);
        let page = "<dt id=\"reexport.B\"><code>pub use b::<a>B</a>;</code></dt>\
            <dt id=\"reexport.A\"><code>pub use a::<a>A</a>;</code></dt>";
        assert_eq!(reexports(page), ["pub use a::A;", "pub use b::B;"]);
    }

    #[test]
    fn a_change_of_the_surface_fails() {
        assert!(compare("a\nb\n", "a\nb\n").is_ok());
        assert!(compare("a\nb\n", "a\nc\n").is_err());
        // Even if only the order differs.
        assert!(compare("a\nb\n", "b\na\n").is_err());
    }
}
