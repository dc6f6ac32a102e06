//! An object kept on disk until it is sent in one request.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::try_unfold;
use shardine_store::COPY_PIECE;

/// A file without a name, in the folder for temporary files. It goes away with its owner, however
/// that ends.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    len: u64,
    /// SHA-256 of all bytes, which S3's signature covers.
    digest: OnceLock<[u8; 32]>,
    /// Bytes handed over for sending, in all attempts.
    sent: AtomicU64,
}

impl Spool {
    /// An empty spool whose first `head` bytes are written later.
    pub fn new(head: u64) -> io::Result<Self> {
        let file = tempfile::tempfile()?;
        Ok(Self { file, len: head, digest: OnceLock::new(), sent: AtomicU64::new(0) })
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Appends bytes.
    pub fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, self.len)?;
        self.len += data.len() as u64;
        Ok(())
    }

    /// Writes bytes of the head.
    pub fn write_head(&mut self, at: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, at)
    }

    /// How many bytes have been taken for sending so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    fn piece(&self, at: u64) -> io::Result<Bytes> {
        let mut piece = vec![0; COPY_PIECE.min(self.len.saturating_sub(at)) as usize];
        self.file.read_exact_at(&mut piece, at)?;
        Ok(piece.into())
    }

    /// SHA-256 of all bytes. Reads them the first time.
    pub async fn digest(self: &Arc<Self>) -> io::Result<[u8; 32]> {
        if let Some(digest) = self.digest.get() {
            return Ok(*digest);
        }
        let spool = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            let mut context = ring::digest::Context::new(&ring::digest::SHA256);
            let mut at = 0;
            while at < spool.len {
                let piece = spool.piece(at)?;
                context.update(&piece);
                at += piece.len() as u64;
            }
            <[u8; 32]>::try_from(context.finish().as_ref()).map_err(io::Error::other)
        });
        let digest = read.await.map_err(io::Error::other)??;
        Ok(*self.digest.get_or_init(|| digest))
    }

    /// All bytes, from the start.
    pub fn stream(self: &Arc<Self>) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        try_unfold((Arc::clone(self), 0), |(spool, at)| async move {
            if at >= spool.len {
                return Ok(None);
            }
            let reader = Arc::clone(&spool);
            let piece = tokio::task::spawn_blocking(move || reader.piece(at)).await;
            let piece = piece.map_err(io::Error::other)??;
            spool.sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
            let next = at + piece.len() as u64;
            Ok(Some((piece, (spool, next))))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::TryStreamExt as _;

    #[test]
    fn what_was_written_is_sent_and_digested() {
        let mut spool = Spool::new(3).unwrap();
        let data: Vec<u8> = (0..3 * COPY_PIECE + 17).map(|i| (i % 251) as u8).collect();
        for part in data.chunks(700_000) {
            spool.append(part).unwrap();
        }
        spool.write_head(0, b"abc").unwrap();
        let all = [b"abc".as_slice(), &data].concat();
        assert_eq!(spool.len(), all.len() as u64);
        let spool = Arc::new(spool);
        let (sent, digest) = crate::runtime::run({
            let spool = Arc::clone(&spool);
            async move {
                let pieces: Vec<Bytes> = spool.stream().try_collect().await.unwrap();
                (pieces.concat(), spool.digest().await.unwrap())
            }
        })
        .unwrap();
        assert!(sent == all);
        assert_eq!(digest, ring::digest::digest(&ring::digest::SHA256, &all).as_ref());
        assert_eq!(spool.sent(), all.len() as u64);
    }
}
