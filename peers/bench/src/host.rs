//! The machine that something was measured on, and the day.

use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::Result;

#[derive(Debug, Serialize, Deserialize)]
pub struct Host {
    pub date: String,
    pub processor: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub kernel: String,
    pub compiler: String,
}

impl Host {
    /// This machine, today.
    pub fn ask() -> Result<Self> {
        let processor = fs::read_to_string("/proc/cpuinfo")?;
        let model = processor.lines().find_map(|line| line.strip_prefix("model name"));
        let memory = fs::read_to_string("/proc/meminfo")?;
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let total = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        Ok(Self {
            date: said("date", &["+%F"]),
            processor: model.unwrap_or("unknown").trim_start_matches([' ', '\t', ':']).to_owned(),
            cores: std::thread::available_parallelism().map_or(0, std::num::NonZeroUsize::get),
            memory_gib: (total.unwrap_or(0) + (1 << 19)) >> 20,
            kernel: said("uname", &["-sr"]),
            compiler: said("rustc", &["--version"]),
        })
    }
}

/// What a program prints, or nothing if it cannot be asked.
pub fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}
