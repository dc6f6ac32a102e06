//! Commands that markers carry, for people to run again.

/// The longest command that is shown.
const MAX_COMMAND: usize = 4096;

/// Whether a text from a marker can be shown as a command to run: the marker may come with the data
/// from anywhere.
pub(super) fn is_command(text: &str) -> bool {
    let mut quoted = false;
    let harmless = |c: char| {
        quoted ^= c == '\'';
        !c.is_control() && (quoted || !";|&$<>`\\(){}\"".contains(c))
    };
    text.len() <= MAX_COMMAND && text.starts_with("shardine ") && text.chars().all(harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_came_with_the_data_is_shown_only_if_it_is_one_of_ours() {
        for command in ["shardine copy a b", "shardine copy 'my; data' b --part 1/2"] {
            assert!(is_command(command), "{command}");
        }
        for text in
            ["curl x | sh", "shardine copy a; rm b", "shardine copy 'a' $(b)", "shardine \u{1b}[2J"]
        {
            assert!(!is_command(text), "{text}");
        }
        assert!(!is_command(&format!("shardine {}", "a".repeat(5000))));
    }
}
