//! The program itself, for a moment. `cargo xtask torture` is what it is for.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::process::Command;

#[test]
fn two_writers_of_one_shard_lose_nothing() {
    let program = env!("CARGO_BIN_EXE_shardine-torture");
    let duel = ["duel", "--updates", "20", "--writers", "in-place,rewrite", "--seed", "3"];
    let output = Command::new(program).args(duel).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
