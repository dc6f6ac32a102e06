//! The encodings of objects, as stated by their headers, and the headers themselves.

use std::io::{self, Read as _};

use object_store::{Attribute, Attributes};
use shardine_store::{HeaderName, Headers};

use crate::commit::WRITES;
use crate::place::Kind;

/// An encoding of the bytes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Gzip,
    Brotli,
    Zstd,
}

/// More than one is unusual, and many are an attack.
const MOST: usize = 3;

impl Encoding {
    /// The encodings that a `Content-Encoding` names, in the order in which they were applied; the
    /// text, if one is unknown.
    pub fn all(header: &str) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        for name in header.split(',').map(|name| name.trim().to_ascii_lowercase()) {
            all.push(match name.as_str() {
                // `aws-chunked` is how an upload was signed; some clients and stores leave it
                // there.
                "" | "identity" | "aws-chunked" => continue,
                "gzip" | "x-gzip" => Self::Gzip,
                "br" => Self::Brotli,
                "zstd" => Self::Zstd,
                _ => return Err(header.to_owned()),
            });
        }
        if all.len() > MOST { Err(header.to_owned()) } else { Ok(all) }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    fn decode(self, bytes: &[u8], limit: u64) -> Result<Vec<u8>, NotDecoded> {
        let broken = |error: io::Error| NotDecoded::Broken(self.name(), error.to_string());
        let mut out = Vec::new();
        let most = limit.saturating_add(1);
        match self {
            Self::Gzip => flate2::read::MultiGzDecoder::new(bytes).take(most).read_to_end(&mut out),
            Self::Brotli => brotli_decompressor::Decompressor::new(bytes, 1 << 16)
                .take(most)
                .read_to_end(&mut out),
            Self::Zstd => unzstd(bytes, most, &mut out).map(|()| 0),
        }
        .map_err(broken)?;
        if out.len() as u64 > limit { Err(NotDecoded::TooLong) } else { Ok(out) }
    }
}

/// Decodes zstd frames, into at most `most` bytes.
fn unzstd(bytes: &[u8], most: u64, out: &mut Vec<u8>) -> io::Result<()> {
    let refused = |code| io::Error::other(zstd_safe::get_error_name(code));
    let mut context =
        zstd_safe::DCtx::try_create().ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut input = zstd_safe::InBuffer::around(bytes);
    let mut piece = vec![0; zstd_safe::DCtx::out_size()];
    loop {
        let mut output = zstd_safe::OutBuffer::around(piece.as_mut_slice());
        // A hint how much more input is needed, 0 at the end of a frame.
        let hint = context.decompress_stream(&mut output, &mut input).map_err(refused)?;
        let filled = output.as_slice();
        out.extend_from_slice(filled);
        let (made, all_read) = (filled.len(), input.pos == bytes.len());
        if out.len() as u64 >= most || (all_read && hint == 0) {
            return Ok(());
        }
        if all_read && made < zstd_safe::DCtx::out_size() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Why bytes were not decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotDecoded {
    /// The result is longer than allowed.
    TooLong,
    /// The bytes are not in the stated encoding.
    Broken(&'static str, String),
}

/// Undoes encodings. No step produces more than `limit` bytes.
pub(crate) fn decode(all: &[Encoding], bytes: &[u8], limit: u64) -> Result<Vec<u8>, NotDecoded> {
    let mut all = all.iter().rev();
    let Some(last) = all.next() else { return Ok(bytes.to_vec()) };
    let mut decoded = last.decode(bytes, limit)?;
    for encoding in all {
        decoded = encoding.decode(&decoded, limit)?;
    }
    Ok(decoded)
}

/// The headers among the attributes of an object, without those that Shardine itself adds.
pub(crate) fn headers_of(attributes: &Attributes) -> Headers {
    let mut headers = Headers::default();
    for (name, value) in attributes {
        let name = match name {
            Attribute::CacheControl => HeaderName::CacheControl,
            Attribute::ContentDisposition => HeaderName::ContentDisposition,
            Attribute::ContentEncoding => HeaderName::ContentEncoding,
            Attribute::ContentLanguage => HeaderName::ContentLanguage,
            Attribute::ContentType => HeaderName::ContentType,
            Attribute::Metadata(name) if name != WRITES => {
                HeaderName::Metadata(name.clone().into_owned())
            }
            _ => continue,
        };
        headers.insert(name, value.to_string());
    }
    headers
}

/// Bytes of metadata that every store accepts.
const METADATA: usize = 2048;

/// The bytes that user metadata takes.
pub(crate) fn metadata_len(headers: &Headers) -> usize {
    let lengths = headers.iter().map(|(name, value)| match name {
        HeaderName::Metadata(name) => name.len() + value.len(),
        _ => 0,
    });
    lengths.sum()
}

/// The bytes left for our own metadata.
pub(crate) fn room_beside(headers: &Headers) -> usize {
    METADATA.saturating_sub(metadata_len(headers) + WRITES.len())
}

/// The headers as attributes, without those that the store does not accept.
pub(crate) fn attributes_of(headers: &Headers, kind: Kind) -> Attributes {
    let mut attributes = Attributes::new();
    for (name, value) in headers.iter() {
        let name = match name {
            HeaderName::CacheControl => Attribute::CacheControl,
            HeaderName::ContentDisposition => Attribute::ContentDisposition,
            HeaderName::ContentEncoding => Attribute::ContentEncoding,
            HeaderName::ContentLanguage => Attribute::ContentLanguage,
            HeaderName::ContentType => Attribute::ContentType,
            HeaderName::Metadata(name) if kind != Kind::Azure || is_identifier(name) => {
                Attribute::Metadata(name.clone().into())
            }
            _ => continue,
        };
        attributes.insert(name, value.to_owned().into());
    }
    attributes
}

/// Whether Azure accepts this as a metadata name.
fn is_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(data: &[u8]) -> Vec<u8> {
        let mut out = vec![0; zstd_safe::compress_bound(data.len())];
        let len = zstd_safe::compress(out.as_mut_slice(), data, 3).unwrap();
        out.truncate(len);
        out
    }

    /// "shardine" and a line feed, compressed by Node's `zlib.brotliCompressSync`.
    const BROTLI: [u8; 13] =
        [0x0b, 0x04, 0x80, 0x73, 0x68, 0x61, 0x72, 0x64, 0x69, 0x6e, 0x65, 0x0a, 0x03];

    #[test]
    fn headers_name_encodings_in_order() {
        use Encoding::*;
        for (header, expected) in [
            ("gzip", vec![Gzip]),
            ("GZip , br", vec![Gzip, Brotli]),
            ("aws-chunked", vec![]),
            ("x-gzip,aws-chunked", vec![Gzip]),
            ("identity", vec![]),
            ("zstd", vec![Zstd]),
        ] {
            assert_eq!(Encoding::all(header), Ok(expected), "{header}");
        }
        for header in ["deflate", "gzip, compress", "gzip,gzip,gzip,gzip"] {
            assert_eq!(Encoding::all(header), Err(header.to_owned()));
        }
    }

    #[test]
    fn encodings_are_undone_in_turn_and_up_to_a_limit() {
        let data: Vec<u8> = (0..300_000u32).map(|i| (i / 1000) as u8).collect();
        let two = zstd(&gzip(&data));
        assert!(decode(&[Encoding::Gzip, Encoding::Zstd], &two, 300_000).unwrap() == data);
        for (encoding, bytes) in [(Encoding::Gzip, gzip(&data)), (Encoding::Zstd, zstd(&data))] {
            assert!(decode(&[encoding], &bytes, 300_000).unwrap() == data);
            assert_eq!(decode(&[encoding], &bytes, 299_999), Err(NotDecoded::TooLong));
            let doubled = [bytes.as_slice(), &bytes].concat();
            assert_eq!(decode(&[encoding], &doubled, 1 << 20).unwrap().len(), 600_000);
            for cut in [1, 5, bytes.len() / 2, bytes.len() - 1] {
                let broken = decode(&[encoding], &bytes[..cut], 1 << 20);
                assert!(matches!(broken, Err(NotDecoded::Broken(..))), "{encoding:?} {cut}");
            }
        }
        assert_eq!(decode(&[Encoding::Brotli], &BROTLI, 100).unwrap(), b"shardine\n");
        assert_eq!(decode(&[Encoding::Brotli], &BROTLI, 8), Err(NotDecoded::TooLong));
        for cut in [1, 6, 12] {
            let broken = decode(&[Encoding::Brotli], &BROTLI[..cut], 100);
            assert!(matches!(broken, Err(NotDecoded::Broken(..))), "{cut}: {broken:?}");
        }
    }

    #[test]
    fn azure_gets_only_the_names_that_it_takes() {
        let mut headers = Headers::default();
        for name in ["plain", "with-hyphen", "1st"] {
            headers.insert(HeaderName::Metadata(name.into()), "x".into());
        }
        assert_eq!(attributes_of(&headers, Kind::S3).len(), 3);
        assert_eq!(attributes_of(&headers, Kind::Azure).len(), 1);
    }
}
