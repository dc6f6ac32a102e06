//! The pages that newcomers follow, run from top to bottom as they would type them.
//!
//! ```` ```console ```` blocks of a page are a session in one fresh folder. A line that begins with
//! `$ ` is a command of bash, `> ` continues it, and the lines after that are what it prints: they
//! are compared with what it really prints, except for times and speeds. A line `...` stands for any
//! number of lines. A command that is shown without output is run, and must succeed.
//!
//! A block that cannot run here has `<!-- not run: REASON -->` on the line above it.
//!
//! After a change of a message, `UPDATE_PAGES=1 cargo test -p shardine-cli --test pages` writes what
//! is printed now into the pages; look at the difference before you commit it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod compare;
mod links;
mod page;
mod session;

use std::path::{Path, PathBuf};

use page::Page;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs a page of the repository, and fails with everything that is not as the page shows it.
fn check(name: &str) {
    let path = root().join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let page = Page::parse(&text).unwrap_or_else(|error| panic!("{name}:{error}"));
    let ran = session::run(&page);
    let skipped: Vec<&str> = page.skipped.iter().map(String::as_str).collect();
    println!(
        "{name}: {} commands run, {} blocks skipped ({})",
        ran.len(),
        skipped.len(),
        skipped.join("; ")
    );
    let wrong = compare::wrong(&page, &ran);
    if wrong.is_empty() {
        return;
    }
    if std::env::var_os("UPDATE_PAGES").is_some() {
        let (updated, left) = compare::updated(&text, &page, &ran);
        std::fs::write(&path, updated).unwrap();
        assert!(left.is_empty(), "change these by hand:\n{}", left.join("\n"));
        return;
    }
    let wrong: Vec<String> = wrong.iter().map(|wrong| format!("{name}:{wrong}")).collect();
    panic!("{}\nUPDATE_PAGES=1 updates the page", wrong.join("\n"));
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    check("README.md");
}

#[test]
fn the_page_on_microscopy_shows_what_the_program_prints() {
    check("docs/microscopy.md");
}

#[test]
fn the_page_on_ome_zarr_shows_what_the_program_prints() {
    check("docs/ome-zarr.md");
}

#[test]
fn the_page_on_connectomics_shows_what_the_program_prints() {
    check("docs/connectomics.md");
}

#[test]
fn the_page_on_climate_shows_what_the_program_prints() {
    check("docs/climate.md");
}

#[test]
fn a_link_between_pages_leads_somewhere() {
    let broken = links::broken(&root());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
