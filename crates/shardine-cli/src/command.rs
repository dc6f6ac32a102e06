//! The command line that was given, to be given again.

use crate::failure::quoted;

/// Options that decide how a job begins or what it says, and not what it makes: without them the
/// command resumes it.
const LEFT_OUT: [&str; 7] =
    ["--json", "--quiet", "-q", "--restart", "--overwrite", "--take-over", "--dry-run"];

/// Options whose values may be secret.
const SECRET: [&str; 3] = ["--store-option", "--source-option", "--target-option"];

/// The command that resumes what this one has begun, without secrets.
pub fn given() -> String {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    shown(&words)
}

fn shown(words: &[String]) -> String {
    let mut command = "shardine".to_owned();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if SECRET.contains(&word.as_str()) {
            words.next();
            continue;
        }
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        if LEFT_OUT.contains(&word.as_str()) || SECRET.contains(&name) {
            continue;
        }
        command.push(' ');
        command.push_str(&quoted(&without_secrets(word)));
    }
    command
}

/// An address as a word of a command, without secrets.
pub fn address(url: &str) -> String {
    quoted(&without_secrets(url))
}

/// An address without user, password and query.
fn without_secrets(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let rest = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // Of Azure, what is before the @ is a container.
    let is_azure = ["az", "abfs", "abfss"].iter().any(|name| scheme.ends_with(name));
    let host = match host.rsplit_once('@') {
        Some((container, _)) if is_azure && !container.contains(':') => host,
        Some((_, host)) => host,
        None => host,
    };
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_without_secrets_and_so_that_it_resumes() {
        for (given, expected) in [
            (
                &["reshard", "my data", "--chunks-per-shard", "4", "--restart", "--json"][..],
                "shardine reshard 'my data' --chunks-per-shard 4",
            ),
            (
                &["convert", "https://me:secret@host/a?key=1", "b", "--store-option", "k=secret"],
                "shardine convert https://host/a b",
            ),
            (
                &["copy", "abfss://data@account.dfs.core.windows.net/x", "b#c://d#e"],
                "shardine copy abfss://data@account.dfs.core.windows.net/x 'b#c://d'",
            ),
            (
                &["copy", "--source-option=k=secret", "s3://bucket/a", "b"],
                "shardine copy s3://bucket/a b",
            ),
        ] {
            let words: Vec<String> = given.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(shown(&words), expected);
        }
    }
}
