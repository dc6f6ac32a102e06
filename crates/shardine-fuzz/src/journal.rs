//! A file with a hostile journal beside it: it is recovered, or left unchanged.
//!
//! Input: the mode (one byte), the file's length (one byte, times eight), its bytes, the journal's.
//! In mode 0 the journal is used unchanged. In the others its checksums are corrected, and in mode
//! 2 also its digests of the file, to get past the parser.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, io, process};

use shardine::store::{
    DiskObserver, DiskStep, FileStore, Key, ReadRange, Recovery, Store, StoreError, Verdict,
};

use crate::memory;

const MAGIC: &[u8] = b"SHRDJNL1";

/// Bytes of an intent, and of a switch before its runs.
const INTENT: usize = 32;
const SWITCH: usize = 40;

pub fn run(input: &[u8]) {
    let Some((&[mode, len], rest)) = input.split_first_chunk() else { return };
    let Some((file, journal)) = rest.split_at_checked(usize::from(len) * 8) else { return };
    let journal = match mode {
        0 => journal.to_vec(),
        mode => mended(file, journal, mode == 2),
    };
    memory::bounded(64 * (file.len() + journal.len()) + (1 << 20), || check(file, &journal));
}

/// The journal with valid records.
fn mended(file: &[u8], journal: &[u8], digests: bool) -> Vec<u8> {
    let (intent, switch) = journal.split_at(journal.len().min(INTENT));
    let mut bytes = MAGIC.to_vec();
    for (payload, numbers) in [(intent, INTENT), (switch, SWITCH)] {
        let mut payload = payload.to_vec();
        if digests && payload.len() >= numbers {
            let number = |at: usize| {
                payload[at..at + 8].try_into().map(u64::from_le_bytes).unwrap_or_default() as usize
            };
            let (start, len) = (number(8), number(16));
            if let Some(range) = start.checked_add(len).and_then(|end| file.get(start..end)) {
                let digest = fnv(range);
                payload[24..32].copy_from_slice(&digest.to_le_bytes());
            }
        }
        if !payload.is_empty() {
            bytes.extend((payload.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&payload);
            bytes.extend(crc32c::crc32c(&payload).to_le_bytes());
        }
    }
    bytes
}

fn fnv(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    bytes.iter().fold(start, |d, &byte| (d ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A folder, in memory if possible, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let shm = Path::new("/dev/shm");
        let parent = if shm.is_dir() { shm.to_owned() } else { env::temp_dir() };
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("shardine-fuzz-{}-{count}", process::id()));
        fs::create_dir(&path).map(|()| Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Refuses every change.
#[derive(Debug)]
struct ReadOnly;

impl DiskObserver for ReadOnly {
    fn before(&self, _: DiskStep<'_>) -> Verdict {
        Verdict::Fail(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

fn check(file: &[u8], journal: &[u8]) {
    if let Err(error) = try_check(file, journal) {
        panic!("{error}");
    }
}

fn try_check(file: &[u8], journal: &[u8]) -> Result<(), StoreError> {
    let wrong = |source| StoreError::Io { operation: "prepare", path: String::new(), source };
    let folder = Folder::new().map_err(wrong)?;
    let key = Key::new("a")?;
    let path = folder.0.join("a");
    let beside = folder.0.join(".shardine-a.journal");
    fs::write(&path, file).map_err(wrong)?;
    fs::write(&beside, journal).map_err(wrong)?;
    let found = || fs::read(&path).map_err(wrong);

    let before =
        match FileStore::observed(&folder.0, std::sync::Arc::new(ReadOnly)).recover(&key)? {
            Recovery::Before(view) => Some(view.read(ReadRange::All)?.to_vec()),
            _ => None,
        };
    assert!(found()? == file, "a reader changed the file");
    assert!(before.as_ref().is_none_or(|before| before.len() <= file.len()), "more than there is");

    let store = FileStore::new(&folder.0);
    let recovered = store.recover(&key)?;
    let mended = found()?;
    assert!(mended.len() <= file.len(), "the file grew");
    match recovered {
        Recovery::Nothing => assert!(mended == file && before.is_none(), "changed for no reason"),
        Recovery::Done => {
            let changed = mended.iter().zip(file).any(|(a, b)| a != b);
            assert!(!changed || journal.len() > MAGIC.len() + INTENT + SWITCH, "out of nothing");
            if let Some(before) = before.filter(|_| !changed) {
                assert!(before == mended, "not what the reader saw");
            }
        }
        Recovery::Before(_) => panic!("nobody else was there"),
    }
    assert!(!beside.exists(), "the journal stayed");
    assert!(matches!(store.recover(&key)?, Recovery::Nothing), "there is no end to it");
    let edit = store.edit(&key)?;
    assert!(*edit.object.read(ReadRange::All)? == *mended && found()? == mended);
    Ok(())
}

pub fn seeds() -> Vec<Vec<u8>> {
    let file: Vec<u8> = (0..128).collect();
    let numbers =
        |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
    // Guarded at the start and at the end; before, after and between; longer than it was.
    let run = [numbers(&[2, 2]), vec![2, 3, 9, 3]].concat();
    let torn = [numbers(&[2, 2]), vec![8, 3, 2, 9]].concat();
    let common = fnv(&[&file[..2], &file[4..16]].concat());
    let journals = [
        numbers(&[128, 0, 16, 0]),
        numbers(&[96, 80, 16, 0]),
        numbers(&[96, 80, 16, 0, 128, 112, 16, 0, 1]),
        [numbers(&[96, 0, 16, 0, 128, 0, 16, 1, common]), run].concat(),
        [numbers(&[96, 0, 16, 7, 128, 0, 16, 7, common]), torn].concat(),
        numbers(&[u64::MAX, u64::MAX, u64::MAX, 0, u64::MAX, 1, u64::MAX, 0, 0]),
    ];
    let mut seeds = Vec::new();
    for (mode, journal) in
        journals.iter().enumerate().flat_map(|(i, j)| [(1 + i % 2, j), (1, j), (2, j)])
    {
        seeds.push([&[mode as u8, 16][..], &file, journal].concat());
    }
    let whole = mended(&file, &journals[2], true);
    seeds.push([&[0, 16][..], &file, &whole].concat());
    seeds
}
