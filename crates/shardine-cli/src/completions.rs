//! `shardine completions`: shell completion scripts.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  shardine completions bash > ~/.local/share/bash-completion/completions/shardine
  shardine completions zsh > \"${fpath[1]}/_shardine\"
  shardine completions fish > ~/.config/fish/completions/shardine.fish";

/// Print a shell completion script
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// Shell to print the script for
    shell: Shell,
}

pub fn run(args: &Completions) -> Result<(), Failure> {
    // Made in memory first: the generator does not handle errors of its writer well.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "shardine", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(())
}
