//! The help of the verbs, wrapped to the terminal.

use clap::{Command, CommandFactory};

use crate::cli::Cli;

/// The command line. Paragraphs of its help are one line each, which clap wraps to the width of the
/// terminal; the lines of the source would be wrapped one by one.
pub fn command() -> Command {
    flowing(Cli::command())
}

fn flowing(command: Command) -> Command {
    let help = command.get_after_help().map(|help| paragraphs(&help.to_string()));
    let command = match help {
        Some(help) => command.after_help(help),
        None => command,
    };
    let verbs: Vec<String> =
        command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    verbs.into_iter().fold(command, |command, verb| command.mut_subcommand(verb, flowing))
}

/// Joins the lines of each paragraph. Indented lines are examples and tables, and stay.
fn paragraphs(text: &str) -> String {
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut joined = String::new();
    let mut before = "";
    for (at, line) in text.lines().enumerate() {
        if at > 0 {
            joined.push(if is_prose(before) && is_prose(line) { ' ' } else { '\n' });
        }
        joined.push_str(line);
        before = line;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_joined_and_examples_stay() {
        let text = "Examples:\n  a b\n  c\n\nOne line\nand the next.\n\nTwo:\n  t  1\n     2\nend";
        let joined = "Examples:\n  a b\n  c\n\nOne line and the next.\n\nTwo:\n  t  1\n     2\nend";
        assert_eq!(paragraphs(text), joined);
    }

    #[test]
    fn every_verb_keeps_its_examples() {
        let mut command = command();
        for verb in command.get_subcommands_mut() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let first = help.lines().next().unwrap_or_default();
            assert!(first.is_empty() || first == "Examples:", "{}: {first}", verb.get_name());
        }
    }
}
