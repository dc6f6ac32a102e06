//! zarr-python, in a long-lived process.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Result;
use crate::setup::Shape;

const SCRIPT: &str = include_str!("../../../peers/torture_reader.py");

/// A reader of another implementation.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    pub fn start(python: &Path) -> Result<Self> {
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().map_err(|e| format!("cannot start {}: {e}", python.display()))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => {
                Ok(Self { child, input, output: BufReader::new(output) })
            }
            _ => Err("no pipes to Python".to_owned()),
        }
    }

    /// The crc32 of each chunk of an array.
    pub fn read(&mut self, folder: &Path) -> Result<Vec<u32>> {
        let mut answer = String::new();
        writeln!(self.input, "{}", folder.display())
            .and_then(|()| self.output.read_line(&mut answer))
            .map_err(|e| format!("Python: {e}"))?;
        let answer: serde_json::Value =
            serde_json::from_str(&answer).map_err(|e| format!("Python said {answer:?}: {e}"))?;
        if let Some(error) = answer["error"].as_str() {
            return Err(format!("zarr-python: {error}"));
        }
        let chunks = answer["chunks"].as_array().ok_or("Python said nothing of chunks")?;
        Ok(chunks.iter().filter_map(|crc| crc.as_u64()).map(|crc| crc as u32).collect())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The crc32 of each chunk of elements.
pub fn checksums(elements: &[u32], shape: &Shape) -> Vec<u32> {
    let table: Vec<u32> = (0..256u32)
        .map(|n| (0..8).fold(n, |n, _| if n & 1 == 1 { 0xedb8_8320 ^ (n >> 1) } else { n >> 1 }))
        .collect();
    let add = |crc: u32, byte: u8| table[((crc ^ u32::from(byte)) & 0xff) as usize] ^ (crc >> 8);
    let of = |chunk: &[u32]| !chunk.iter().flat_map(|n| n.to_le_bytes()).fold(!0, add);
    elements.chunks(shape.chunk).map(of).collect()
}
