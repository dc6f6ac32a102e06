//! What holds however large the array is.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::process::{Command, Output, Stdio};

use crate::support::{Folder, PROGRAM};

const MIB: u64 = 1 << 20;

/// Runs the program with a hard limit on the memory that it may have for data, stacks of threads included.
fn limited(folder: &Folder, kib: u64, arguments: &str) -> Output {
    let script = format!("ulimit -d {kib} && exec \"$0\" {arguments}");
    let mut command = Command::new("sh");
    command.args(["-c", &script, PROGRAM]).current_dir(folder.path("")).stdin(Stdio::null());
    command.output().unwrap()
}

fn succeeds(output: &Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
}

#[test]
fn an_array_larger_than_the_budget_is_written_and_read() {
    let folder = Folder::new();
    // 256 MiB of elements in shards of 16 MiB, with 32 MiB of memory and a limit of 96 MiB.
    folder.ok(&[
        "create",
        "a",
        "--shape",
        "8192,16384",
        "--dtype",
        "uint16",
        "--chunk",
        "256,256",
        "--shard",
        "2048,4096",
        "--codec",
        "zstd:1",
    ]);
    let file = File::create(folder.path("in.raw")).unwrap();
    file.set_len(256 * MIB).unwrap();
    // A few elements that are not zero, at both ends.
    for offset in [0, 128 * MIB + 12, 256 * MIB - 2] {
        std::os::unix::fs::FileExt::write_all_at(&file, &[7], offset).unwrap();
    }
    let options = "--memory 32MiB --threads 2";
    let limit = 96 * 1024;
    succeeds(&limited(&folder, limit, &format!("write a in.raw --store-empty {options}")));
    succeeds(&limited(&folder, limit, &format!("read a -o out.raw {options}")));
    let output = limited(&folder, limit, &format!("read a -o - {options} | cmp - in.raw"));
    succeeds(&output);
    succeeds(&limited(&folder, limit, &format!("bench a --repeats 1 --json {options}")));
    let same =
        Command::new("cmp").args(["in.raw", "out.raw"]).current_dir(folder.path("")).status();
    assert!(same.unwrap().success());
}
