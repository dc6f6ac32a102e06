//! A disk that forgets: what a power failure may leave of steps that were recorded.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use shardine::store::{DiskObserver, DiskStep, Verdict};

/// A fast and poor random number generator.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }

    fn flip(&mut self) -> bool {
        self.next(2) == 0
    }
}

/// A recorded [`DiskStep`]; paths are relative to the root.
#[derive(Clone)]
pub enum Step {
    Create(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    Resize(PathBuf, u64),
    SyncFile(PathBuf),
    /// The kernel reported it once and forgot: what was to be synced is not retried.
    SyncFailed(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    CreateFolder(PathBuf),
    RemoveFolder(PathBuf),
    SyncFolder(PathBuf),
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(path) => write!(f, "create {}", path.display()),
            Self::Write(path, at, data) => {
                write!(f, "write {} at {at}, {} bytes", path.display(), data.len())
            }
            Self::Resize(path, len) => write!(f, "resize {} to {len}", path.display()),
            Self::SyncFile(path) => write!(f, "sync {}", path.display()),
            Self::SyncFailed(path) => write!(f, "sync {} in vain", path.display()),
            Self::Rename(from, to) => write!(f, "rename {} to {}", from.display(), to.display()),
            Self::Remove(path) => write!(f, "remove {}", path.display()),
            Self::CreateFolder(path) => write!(f, "create the folder {}", path.display()),
            Self::RemoveFolder(path) => write!(f, "remove the folder {}", path.display()),
            Self::SyncFolder(path) => write!(f, "sync the folder {}", path.display()),
        }
    }
}

/// Records each step and lets it happen, except for one.
#[derive(Debug)]
pub struct Recorder {
    root: PathBuf,
    /// The step that fails if it is the sync of a file.
    fails: Option<usize>,
    log: Mutex<Vec<Step>>,
}

impl Recorder {
    pub fn new(root: &Path, fails: Option<usize>) -> Arc<Self> {
        Arc::new(Self { root: root.to_owned(), fails, log: Mutex::default() })
    }

    pub fn len(&self) -> usize {
        self.log.lock().unwrap().len()
    }

    pub fn take(&self) -> Vec<Step> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

impl DiskObserver for Recorder {
    fn before(&self, step: DiskStep<'_>) -> Verdict {
        let own = |path: &Path| path.strip_prefix(&self.root).unwrap().to_owned();
        let step = match step {
            DiskStep::Create { path } => Step::Create(own(path)),
            DiskStep::Write { path, offset, data } => Step::Write(own(path), offset, data.to_vec()),
            DiskStep::Resize { path, len } => Step::Resize(own(path), len),
            DiskStep::SyncFile { path } => Step::SyncFile(own(path)),
            DiskStep::Rename { from, to } => Step::Rename(own(from), own(to)),
            DiskStep::Remove { path } => Step::Remove(own(path)),
            DiskStep::CreateFolder { path } => Step::CreateFolder(own(path)),
            DiskStep::RemoveFolder { path } => Step::RemoveFolder(own(path)),
            DiskStep::SyncFolder { path } => Step::SyncFolder(own(path)),
            other => panic!("a step that the disk does not know: {other:?}"),
        };
        let mut log = self.log.lock().unwrap();
        match step {
            Step::SyncFile(path) if self.fails == Some(log.len()) => {
                log.push(Step::SyncFailed(path));
                // EIO.
                Verdict::Fail(io::Error::from_raw_os_error(5))
            }
            step => {
                log.push(step);
                Verdict::Go
            }
        }
    }
}

/// What a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Folder,
    File(usize),
}

/// A change of names that is not durable yet.
#[derive(Debug, Clone)]
enum Naming {
    Add(PathBuf, Node),
    Move(PathBuf, PathBuf, usize),
    Drop(PathBuf),
}

impl Naming {
    fn folder(&self) -> &Path {
        let (Self::Add(path, _) | Self::Move(_, path, _) | Self::Drop(path)) = self;
        path.parent().unwrap()
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            Self::Add(path, node) => {
                names.insert(path.clone(), *node);
            }
            Self::Move(from, to, file) => {
                if names.get(from) == Some(&Node::File(*file)) {
                    names.remove(from);
                }
                names.insert(to.clone(), Node::File(*file));
            }
            Self::Drop(path) => {
                names.remove(path);
            }
        }
    }
}

/// A change of a file that is not durable yet.
#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Resize(usize),
}

#[derive(Debug, Clone, Default)]
struct Contents {
    durable: Vec<u8>,
    pending: Vec<Change>,
}

/// How much of the unsynced data survives the failure.
#[derive(Debug, Clone, Copy)]
pub enum Kept {
    All,
    Nothing,
    /// Names as everybody saw them, but no bytes; and vice versa.
    Names,
    Bytes,
    /// Any part of it, torn at blocks of this many bytes.
    Some(u64, usize),
}

/// Files and folders with their bytes, as a failure left them.
pub type Image = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// A disk with a cache.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    files: Vec<Contents>,
    /// As every program sees them.
    seen: BTreeMap<PathBuf, Node>,
    durable: BTreeMap<PathBuf, Node>,
    pending: Vec<Naming>,
}

impl Disk {
    /// A disk with everything durable.
    pub fn new(image: &Image) -> Self {
        let mut disk = Self::default();
        for (path, contents) in image {
            let node = match contents {
                None => Node::Folder,
                Some(bytes) => {
                    disk.files.push(Contents { durable: bytes.clone(), pending: Vec::new() });
                    Node::File(disk.files.len() - 1)
                }
            };
            disk.seen.insert(path.clone(), node);
        }
        disk.durable = disk.seen.clone();
        disk
    }

    fn file(&self, path: &Path) -> usize {
        match self.seen.get(path) {
            Some(Node::File(file)) => *file,
            other => panic!("{} is {other:?}", path.display()),
        }
    }

    fn name(&mut self, naming: Naming) {
        naming.apply(&mut self.seen);
        self.pending.push(naming);
    }

    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Create(path) => {
                self.files.push(Contents::default());
                self.name(Naming::Add(path.clone(), Node::File(self.files.len() - 1)));
            }
            Step::Write(path, offset, data) => {
                let file = self.file(path);
                self.files[file].pending.push(Change::Write(*offset as usize, data.clone()));
            }
            Step::Resize(path, len) => {
                let file = self.file(path);
                self.files[file].pending.push(Change::Resize(*len as usize));
            }
            Step::SyncFile(path) => {
                let file = self.file(path);
                let contents = &mut self.files[file];
                contents.durable = left(contents, Kept::All, &mut Random(0));
                contents.pending.clear();
            }
            Step::SyncFailed(path) => {
                let file = self.file(path);
                self.files[file].pending.clear();
            }
            Step::Rename(from, to) => {
                let file = self.file(from);
                self.name(Naming::Move(from.clone(), to.clone(), file));
            }
            // Someone tried.
            Step::Remove(path) if !self.seen.contains_key(path) => {}
            Step::RemoveFolder(path)
                if self.seen.keys().any(|name| name.parent() == Some(path)) => {}
            Step::Remove(path) | Step::RemoveFolder(path) => self.name(Naming::Drop(path.clone())),
            Step::CreateFolder(path) if self.seen.contains_key(path) => {}
            Step::CreateFolder(path) => self.name(Naming::Add(path.clone(), Node::Folder)),
            Step::SyncFolder(path) => {
                let (now, later) =
                    self.pending.drain(..).partition(|naming: &Naming| naming.folder() == path);
                self.pending = later;
                let now: Vec<Naming> = now;
                now.iter().for_each(|naming| naming.apply(&mut self.durable));
            }
        }
    }

    /// How many changes are not durable.
    pub fn pending(&self) -> usize {
        self.pending.len() + self.files.iter().map(|file| file.pending.len()).sum::<usize>()
    }

    /// What the failure leaves.
    pub fn fail(&self, kept: Kept) -> Image {
        let mut random = match kept {
            Kept::Some(seed, _) => Random(seed),
            _ => Random(0),
        };
        let mut names = self.durable.clone();
        for naming in &self.pending {
            let there = match kept {
                Kept::All | Kept::Names => true,
                Kept::Nothing | Kept::Bytes => false,
                Kept::Some(..) => random.flip(),
            };
            if there {
                naming.apply(&mut names);
            }
        }
        let mut image = Image::new();
        for (path, node) in &names {
            // The contents of a lost folder are lost.
            let folders = path.ancestors().skip(1).filter(|folder| *folder != Path::new(""));
            if folders.into_iter().all(|folder| names.get(folder) == Some(&Node::Folder)) {
                let bytes = match node {
                    Node::Folder => None,
                    Node::File(file) => Some(left(&self.files[*file], kept, &mut random)),
                };
                image.insert(path.clone(), bytes);
            }
        }
        image
    }
}

/// What is left of a file's bytes.
fn left(file: &Contents, kept: Kept, random: &mut Random) -> Vec<u8> {
    let mut bytes = file.durable.clone();
    let block = match kept {
        Kept::All | Kept::Bytes => 0,
        Kept::Nothing | Kept::Names => return bytes,
        Kept::Some(_, block) => block,
    };
    let mut lens = vec![bytes.len()];
    let mut len = bytes.len();
    for change in &file.pending {
        match change {
            Change::Resize(to) => {
                len = *to;
                if block == 0 || random.flip() {
                    bytes.resize(*to, 0);
                }
            }
            Change::Write(offset, data) => {
                let end = offset + data.len();
                len = len.max(end);
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                let mut at = *offset;
                while at < end {
                    let next = at.checked_div(block).map_or(end, |n| end.min((n + 1) * block));
                    if block == 0 || random.flip() {
                        bytes[at..next].copy_from_slice(&data[at - offset..next - offset]);
                    }
                    at = next;
                }
            }
        }
        lens.push(len);
    }
    if block != 0 {
        // Any length that it had in between; what was not written is zero.
        len = lens[random.next(lens.len() as u64) as usize];
    }
    bytes.resize(len, 0);
    bytes
}

/// Writes an image to an empty folder.
pub fn put(image: &Image, root: &Path) {
    for (path, contents) in image {
        match contents {
            None => fs::create_dir_all(root.join(path)).unwrap(),
            Some(bytes) => fs::write(root.join(path), bytes).unwrap(),
        }
    }
}

/// What is in a folder.
pub fn image(root: &Path) -> Image {
    let mut image = Image::new();
    let mut todo = vec![root.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let own = path.strip_prefix(root).unwrap().to_owned();
            if path.is_dir() {
                image.insert(own, None);
                todo.push(path);
            } else {
                image.insert(own, Some(fs::read(&path).unwrap()));
            }
        }
    }
    image
}
