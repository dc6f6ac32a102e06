//! A folder to work in, and the program to run there.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_shardine");

pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// A document of metadata.
    pub fn document(&self, name: &str) -> Value {
        serde_json::from_slice(&self.get(name)).unwrap()
    }

    pub fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// The names in the folder.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs what must succeed, and returns what it printed.
    pub fn ok(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        output.stdout
    }

    pub fn text(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.ok(arguments)).unwrap()
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_slice(&self.ok(arguments)).unwrap()
    }

    /// Runs what must be refused: status 2, nothing on standard output, one line that says why and at most
    /// one that says what to do; with `--json` one line of JSON with both. Returns them.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert_eq!(output.stdout, b"", "{arguments:?}");
        let lines: Vec<&str> = errors.lines().collect();
        if arguments.contains(&"--json") {
            let error: Value = serde_json::from_str(lines[0]).unwrap();
            assert!(error["error"].is_string() && lines.len() == 1, "{errors}");
            return errors;
        }
        assert!(lines[0].starts_with("error: "), "{errors}");
        assert!(
            lines.len() == 1 || (lines.len() == 2 && lines[1].starts_with("hint: ")),
            "{errors}"
        );
        errors
    }

    pub fn ok_with_input(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        output.stdout
    }
}

/// A `.npy` file, made without the program's own code.
pub fn npy(version: u8, descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let mut text = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}");
    while (text.len() + 13) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((text.len() as u16).to_le_bytes()),
        _ => bytes.extend((text.len() as u32).to_le_bytes()),
    }
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    bytes
}

/// The header and the elements of a `.npy` file.
pub fn split_npy(file: &[u8]) -> (String, &[u8]) {
    assert_eq!(&file[..8], b"\x93NUMPY\x01\x00");
    let end = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
    assert_eq!(end % 64, 0);
    (String::from_utf8(file[10..end].to_vec()).unwrap().trim_end().to_owned(), &file[end..])
}

pub fn u16s(values: impl IntoIterator<Item = u16>) -> Vec<u8> {
    values.into_iter().flat_map(u16::to_le_bytes).collect()
}

/// A folder with `w`, an array of webknossos-wrap: two raw files of 8 voxels along each edge.
pub fn wkw() -> Folder {
    let folder = Folder::new();
    let header = |offset: u8| [b'W', b'K', b'W', 1, 0x12, 1, 1, 1, offset, 0, 0, 0, 0, 0, 0, 0];
    std::fs::create_dir_all(folder.path("w/z0/y0")).unwrap();
    folder.put("w/header.wkw", &header(0));
    for (x, value) in [(0, 7), (1, 9)] {
        let file = [&header(16)[..], &[value; 512]].concat();
        folder.put(&format!("w/z0/y0/x{x}.wkw"), &file);
    }
    folder
}

/// Four shards of four chunks, under a checksum each.
pub fn written() -> Folder {
    let folder = Folder::new();
    folder.ok(&[
        "create", "a", "--shape", "8,8", "--dtype", "uint8", "--chunk", "2,2", "--shard", "4,4",
        "--codec", "crc32c",
    ]);
    folder.put("in.raw", &[7; 64]);
    folder.ok(&["write", "a", "in.raw"]);
    folder
}

/// Flips a bit of a file.
pub fn flip(folder: &Folder, name: &str, at: usize) {
    let mut bytes = folder.get(name);
    bytes[at] ^= 1;
    folder.put(name, &bytes);
}
