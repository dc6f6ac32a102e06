//! The messages of an Arrow IPC stream, looked at before they are decoded.

use std::io::Read;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{Endianness, Message, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};

/// What comes before the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// The end of a stream: a message of no length.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Zstandard writes 128 KiB of one value in no fewer than four bytes.
const MOST_PER_BYTE: u64 = 1 << 16;
/// Far above any real column of a batch.
const MOST: u64 = 1 << 32;

/// The batches of a stream.
///
/// Nothing is allocated for a length in the file before it has been compared with what the file can
/// hold, which the decoder leaves out for compressed columns.
pub(super) struct Messages<R> {
    input: R,
    /// Bytes that the input still has.
    left: u64,
    decoder: StreamDecoder,
    waiting: Buffer,
    ended: bool,
    /// A batch that came along with the schema.
    first: Option<RecordBatch>,
}

impl<R: Read> Messages<R> {
    /// Reads the schema from an input of so many bytes.
    pub fn open(input: R, left: u64) -> Result<(Self, SchemaRef), ArrowError> {
        let decoder = StreamDecoder::new();
        let waiting = Buffer::from_vec(Vec::<u8>::new());
        let mut messages = Self { input, left, decoder, waiting, ended: false, first: None };
        // The decoder takes note of a message without a body when the next one comes.
        messages.first = messages.next_decoded()?;
        match messages.decoder.schema() {
            Some(schema) => Ok((messages, schema)),
            None => Err(ArrowError::IpcError("there is no schema".to_owned())),
        }
    }

    /// The next batch; `None` after the last.
    pub fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.next_decoded(),
        }
    }

    fn next_decoded(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        loop {
            while !self.waiting.is_empty() {
                if let Some(batch) = self.decoder.decode(&mut self.waiting)? {
                    return Ok(Some(batch));
                }
            }
            if self.ended {
                return Ok(None);
            }
            self.waiting = Buffer::from_vec(self.message()?);
        }
    }

    /// The bytes of the next message, or of the end.
    fn message(&mut self) -> Result<Vec<u8>, ArrowError> {
        let mut length = [0; 4];
        let taken = (&mut self.input).take(4).read(&mut length[..])?;
        self.input.read_exact(&mut length[taken..]).or_else(|error| match taken {
            // A stream may end without a message that says so.
            0 => Ok(()),
            _ => Err(error),
        })?;
        if taken > 0 && length == CONTINUATION {
            self.input.read_exact(&mut length)?;
        }
        if length == [0; 4] {
            self.ended = true;
            return Ok(END.to_vec());
        }
        let mut bytes = [CONTINUATION, length].concat();
        self.read(&mut bytes, u64::from(u32::from_le_bytes(length)))?;
        let message = parse(&bytes)?;
        let body = u64::try_from(message.bodyLength())
            .map_err(|_| ArrowError::IpcError("a message has a negative length".to_owned()))?;
        if let Some(schema) = message.header_as_schema()
            && schema.endianness() != Endianness::Little
        {
            return Err(ArrowError::IpcError("the numbers are big-endian".to_owned()));
        }
        let compressed = compressed(&message);
        let start = bytes.len();
        self.read(&mut bytes, body)?;
        compressed.into_iter().try_for_each(|buffer| check(&bytes[start..], buffer))?;
        Ok(bytes)
    }

    /// Appends so many bytes of the input.
    fn read(&mut self, bytes: &mut Vec<u8>, length: u64) -> Result<(), ArrowError> {
        let short = || ArrowError::IpcError("the file has been cut short".to_owned());
        self.left = self.left.checked_sub(length).ok_or_else(short)?;
        let taken = (&mut self.input).take(length).read_to_end(bytes)?;
        if taken as u64 == length { Ok(()) } else { Err(short()) }
    }
}

fn parse(bytes: &[u8]) -> Result<Message<'_>, ArrowError> {
    root_as_message(&bytes[8..]).map_err(|error| ArrowError::IpcError(error.to_string()))
}

/// Where the compressed columns of a message are in its body, and how long they are there.
fn compressed(message: &Message<'_>) -> Vec<(i64, i64)> {
    let dictionary = message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
    let batch = message.header_as_record_batch().or(dictionary);
    let batch = batch.filter(|batch| batch.compression().is_some());
    let buffers = batch.and_then(|batch| batch.buffers());
    buffers.iter().flatten().map(|buffer| (buffer.offset(), buffer.length())).collect()
}

/// Compares the length that a column will have with its length now.
fn check(body: &[u8], (offset, length): (i64, i64)) -> Result<(), ArrowError> {
    let start = usize::try_from(offset).ok();
    let claimed = start.and_then(|start| body.get(start..)?.first_chunk::<8>());
    // A column without bytes has no such length: what is there belongs to the next one.
    let claimed = claimed.filter(|_| length > 0);
    // One that is missing or outside of the body is the decoder's to refuse; -1 is uncompressed.
    let claimed = claimed.map_or(0, |bytes| i64::from_le_bytes(*bytes));
    let most = u64::try_from(length).unwrap_or(0).saturating_mul(MOST_PER_BYTE).min(MOST);
    match u64::try_from(claimed) {
        Ok(claimed) if claimed > most => Err(ArrowError::IpcError(format!(
            "a column of {length} bytes claims to hold {claimed} bytes"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_claims_too_much_is_refused() {
        let body = |claimed: i64| [&claimed.to_le_bytes()[..], &[0; 8]].concat();
        for (claimed, fits) in [(-1, true), (0, true), (100, true), (1 << 20, true)] {
            assert_eq!(check(&body(claimed), (0, 16)).is_ok(), fits);
        }
        assert!(check(&body(24), (0, 0)).is_ok());
        for claimed in [(16 << 16) + 1, 1 << 40, i64::MAX] {
            let error = check(&body(claimed), (0, 16)).unwrap_err().to_string();
            assert!(error.contains(&format!("claims to hold {claimed} bytes")), "{error}");
        }
        assert!(check(&body(1 << 40), (9, i64::MAX)).is_ok(), "there is no length at its end");
    }
}
