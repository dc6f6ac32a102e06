//! What a page shows beside what was printed.

use crate::page::{Page, Shown};
use crate::session::Ran;

/// Stands for any number of lines.
const ANY: &str = "...";

/// One message for each command that did not do what the page shows.
pub fn wrong(page: &Page, ran: &[Ran]) -> Vec<String> {
    page.commands.iter().zip(ran).filter_map(|(shown, ran)| wrong_of(shown, ran)).collect()
}

fn wrong_of(shown: &Shown, ran: &Ran) -> Option<String> {
    let head = format!("{}: $ {}", shown.line, shown.command);
    if shown.output.is_empty() {
        let printed = ran.output.join("\n");
        return (ran.status != 0)
            .then(|| format!("{head}\nended with status {}:\n{printed}\n", ran.status));
    }
    if is_shown(&shown.output, &ran.output) {
        return None;
    }
    let expected = shown.output.join("\n");
    let printed = ran.output.join("\n");
    Some(format!("{head}\n--- the page shows\n{expected}\n--- it printed\n{printed}\n---\n"))
}

/// Whether what was printed is what is shown.
fn is_shown(shown: &[String], printed: &[String]) -> bool {
    let varies = |lines: &[String]| lines.iter().any(|line| fixed(line) != words(line));
    let varies = varies(shown) || varies(printed);
    let comparable = |lines: &[String]| -> Vec<String> {
        let lines = without_end(lines).iter();
        lines.map(|line| if varies { fixed(line) } else { line.trim_end().to_owned() }).collect()
    };
    matches(&comparable(shown), &comparable(printed))
}

fn matches(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == ANY => {
            (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..]))
        }
        Some((first, rest)) => {
            printed.split_first().is_some_and(|(line, after)| line == first && matches(rest, after))
        }
    }
}

/// Lines without the empty ones at the end, which separate commands in a page.
fn without_end(lines: &[String]) -> &[String] {
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |at| at + 1);
    &lines[..end]
}

/// A line with single spaces.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A line with what differs from run to run replaced: times, speeds, and the spread of times. The
/// columns of a table are as wide as such numbers, so where there are any, spaces do not count.
fn fixed(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut fixed = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let unit = words.get(at + 1).copied().unwrap_or_default();
        let bare = unit.trim_end_matches([',', ';', ':', '.', ')']);
        let varies = is_time(bare) || bare.ends_with("B/s");
        if is_number(words[at].trim_start_matches('(')) && varies {
            let open = if words[at].starts_with('(') { "(" } else { "" };
            let kind = if is_time(bare) { "TIME" } else { "SPEED" };
            fixed.push(format!("{open}{kind}{}", &unit[bare.len()..]));
            at += 2;
            continue;
        }
        fixed.push(match words[at].strip_prefix('±').and_then(|rest| rest.strip_suffix('%')) {
            Some(share) if is_number(share) => "SPREAD".to_owned(),
            _ => without_seconds(words[at]),
        });
        at += 1;
    }
    fixed.join(" ")
}

fn is_time(unit: &str) -> bool {
    matches!(unit, "s" | "ms" | "µs" | "ns" | "min")
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit() || c == b'.')
}

/// JSON without the value of `seconds`.
fn without_seconds(word: &str) -> String {
    const MEMBER: &str = "\"seconds\":";
    match word.split_once(MEMBER) {
        Some((before, after)) => {
            let value = after.trim_start_matches(|c: char| c.is_ascii_digit() || ".e-".contains(c));
            format!("{before}{MEMBER}TIME{value}")
        }
        None => word.to_owned(),
    }
}

/// The page with what was printed wherever it shows something else, and what has to be changed by
/// hand: outputs that are shortened, and commands that failed.
pub fn updated(text: &str, page: &Page, ran: &[Ran]) -> (String, Vec<String>) {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut left = Vec::new();
    // From the end, so that the numbers of the lines before stay right.
    for (shown, ran) in page.commands.iter().zip(ran).rev() {
        let Some(wrong) = wrong_of(shown, ran) else { continue };
        if shown.output.is_empty() || shown.output.iter().any(|line| line == ANY) {
            left.insert(0, wrong);
            continue;
        }
        let end = shown.output_at + without_end(&shown.output).len();
        lines
            .splice(shown.output_at..end, ran.output.iter().map(|line| line.trim_end().to_owned()));
    }
    (lines.join("\n") + "\n", left)
}

#[cfg(test)]
fn compared(shown: &str, printed: &str) -> bool {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    is_shown(&lines(shown), &lines(printed))
}

#[test]
fn a_wrong_output_is_noticed() {
    for (shown, printed) in [
        ("3 chunks", "4 chunks"),
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("a", ""),
        ("a  b", "a b"),
        ("...\nb", "a\nc"),
        ("a\n...", "b\na"),
        ("28 KiB in 3 ms", "29 KiB in 3 ms"),
        ("{\"n\":1,\"seconds\":0.5}", "{\"n\":2,\"seconds\":0.5}"),
        ("3 s", "done"),
    ] {
        assert!(!compared(shown, printed), "{shown:?} {printed:?}");
    }
}

#[test]
fn times_speeds_and_left_out_lines_are_not_compared() {
    for (shown, printed) in [
        ("3.4 ms: 2 shards", "17 s: 2 shards"),
        ("speed  n\n3 MiB/s  1", "   speed  n\n3.5 MiB/s  1"),
        ("a in 47 ms (1.1 MiB/s); b", "a in 2.0 s (12 KiB/s); b"),
        ("whole   1  8.2 ms  ±7%  976 MiB/s   -", "whole   1  824 µs  ±17%     9 GiB/s   -"),
        ("{\"n\":1,\"seconds\":0.5}", "{\"n\":1,\"seconds\":1e-3}"),
        ("a\n...\nz", "a\nz"),
        ("a\n...\nz", "a\nb\nz\nz"),
        ("a\n\n", "a"),
        ("...", ""),
    ] {
        assert!(compared(shown, printed), "{shown:?} {printed:?}");
    }
}

#[test]
fn a_command_without_output_must_succeed() {
    let text = "```console\n$ false\n$ true\n```\n";
    let page = Page::parse(text).unwrap();
    let ran = crate::session::run(&page);
    assert_eq!(wrong(&page, &ran).len(), 1);
}

#[test]
fn an_update_replaces_only_what_is_wrong() {
    let text =
        "a\n```console\n$ echo 1; echo 2\n1\n\n$ echo 5 ms\n3 ms\n$ echo x\ny\n...\n```\nb\n";
    let page = Page::parse(text).unwrap();
    let ran = crate::session::run(&page);
    let (updated, left) = updated(text, &page, &ran);
    assert_eq!(updated, text.replace("1\n\n", "1\n2\n\n"));
    assert_eq!(left.len(), 1);
}
