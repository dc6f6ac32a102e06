//! A page of Markdown: its commands, and what it says they print.

/// What a page asks to be run.
#[derive(Debug, Default)]
pub struct Page {
    pub commands: Vec<Shown>,
    /// Why blocks are not run, one reason for each.
    pub skipped: Vec<String>,
}

/// A command as the page shows it.
#[derive(Debug)]
pub struct Shown {
    /// The lines of the command, without prompts.
    pub command: String,
    /// The line of the page with its prompt, counted from 1.
    pub line: usize,
    /// The line of the page after the command, and before its output, counted from 0.
    pub output_at: usize,
    /// What it prints; empty lines at the end of a block are not part of it.
    pub output: Vec<String>,
}

const NOT_RUN: &str = "<!-- not run";

impl Page {
    /// The commands of a page, or the line that is wrong and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut page = Self::default();
        let mut lines = text.lines().enumerate();
        let mut reason = None;
        while let Some((at, line)) = lines.next() {
            let number = at + 1;
            if let Some(why) = line.strip_prefix(NOT_RUN) {
                let why = why.strip_prefix(": ");
                let why = why.and_then(|why| why.strip_suffix("-->")).map_or("", str::trim);
                if why.is_empty() {
                    return Err(format!("{number}: say why: {NOT_RUN}: REASON -->"));
                }
                reason = Some(why.to_owned());
                continue;
            }
            let info = line.strip_prefix("```");
            let skip = reason.take();
            if skip.is_some() && info != Some("console") {
                return Err(format!("{number}: no ```console block below the comment"));
            }
            let Some(info) = info else { continue };
            let mut block = Vec::new();
            loop {
                match lines.next() {
                    None => return Err(format!("{number}: this block has no end")),
                    Some((_, "```")) => break,
                    Some(inside) => block.push(inside),
                }
            }
            match skip {
                Some(why) => page.skipped.push(why),
                None if info == "console" => page.block(&block)?,
                None => {}
            }
        }
        match reason {
            Some(_) => Err("no ```console block below the last comment".to_owned()),
            None => Ok(page),
        }
    }

    fn block(&mut self, block: &[(usize, &str)]) -> Result<(), String> {
        let mut lines = block.iter().peekable();
        let first = self.commands.len();
        while let Some(&(at, line)) = lines.next() {
            if let Some(command) = line.strip_prefix("$ ") {
                let mut shown = Shown {
                    command: command.to_owned(),
                    line: at + 1,
                    output_at: at + 1,
                    output: Vec::new(),
                };
                while let Some(more) = lines.peek().and_then(|(_, line)| continued(line)) {
                    shown.command = format!("{}\n{more}", shown.command);
                    shown.output_at += 1;
                    lines.next();
                }
                self.commands.push(shown);
                continue;
            }
            match self.commands[first..].last_mut() {
                Some(shown) => shown.output.push(line.to_owned()),
                None => return Err(format!("{}: output without a command", at + 1)),
            }
        }
        Ok(())
    }
}

/// The rest of a line that continues a command.
fn continued(line: &str) -> Option<&str> {
    line.strip_prefix("> ").or_else(|| (line == ">").then_some(""))
}

#[test]
fn commands_and_outputs_are_told_apart() {
    let page = "text\n```console\n$ cat <<E\n> a\n>\n> E\na\n\n$ true\n```\n```rust\n$ no\n```\n";
    let page = Page::parse(page).unwrap();
    let shown: Vec<_> = page.commands.iter().map(|c| (c.command.as_str(), c.line)).collect();
    assert_eq!(shown, [("cat <<E\na\n\nE", 3), ("true", 9)]);
    assert_eq!(page.commands[0].output, ["a", ""]);
    assert_eq!(page.commands[0].output_at, 6);
    assert!(page.commands[1].output.is_empty());
}

#[test]
fn a_block_is_skipped_only_for_a_reason() {
    let block = "```console\n$ false\n```\n";
    let page = Page::parse(&format!("<!-- not run: needs a bucket -->\n{block}")).unwrap();
    assert_eq!(page.skipped, ["needs a bucket"]);
    assert!(page.commands.is_empty());
    for comment in ["<!-- not run -->", "<!-- not run: -->", "<!-- not run:  -->"] {
        assert!(Page::parse(&format!("{comment}\n{block}")).is_err(), "{comment}");
    }
    assert!(Page::parse(&format!("<!-- not run: x -->\n\n{block}")).is_err());
    assert!(Page::parse("<!-- not run: x -->\n```rust\n```\n").is_err());
    assert!(Page::parse("<!-- not run: x -->").is_err());
}

#[test]
fn a_block_that_is_not_a_session_is_refused() {
    assert!(Page::parse("```console\nno prompt\n```\n").is_err());
    assert!(Page::parse("```console\n$ true\n").is_err());
}
