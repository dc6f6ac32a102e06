//! The `shardine` command.
fn main() {}
