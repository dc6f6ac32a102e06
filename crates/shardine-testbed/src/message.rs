//! HTTP/1.1 messages in transit: heads are parsed, bodies only measured.

use std::io::{self, Read};

/// No head is longer than this.
const MAX_HEAD: usize = 256 << 10;

/// How much of a body is moved at a time.
const BUFFER: usize = 256 << 10;

/// The first lines of a message, up to the empty one.
pub(crate) struct Head {
    /// The lines as received.
    pub raw: Vec<u8>,
    /// The first line.
    pub line: String,
    /// With names in lower case.
    pub headers: Vec<(String, String)>,
}

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    /// The body ends with the connection.
    Close,
}

impl Head {
    fn parse(raw: Vec<u8>) -> io::Result<Self> {
        let text = String::from_utf8_lossy(&raw);
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap_or_default().to_owned();
        let mut headers = Vec::new();
        for header in lines.filter(|line| !line.is_empty()) {
            let (name, value) =
                header.split_once(':').ok_or_else(|| malformed("a header without a colon"))?;
            headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Self { line, headers, raw })
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Whether a header has a word in its list.
    pub fn says(&self, name: &str, word: &str) -> bool {
        self.get(name)
            .is_some_and(|value| value.split(',').any(|w| w.trim().eq_ignore_ascii_case(word)))
    }

    /// Word `n` of the first line.
    pub fn word(&self, n: usize) -> &str {
        self.line.split(' ').nth(n).unwrap_or_default()
    }

    /// Whether the connection is closed after this message.
    pub fn is_last(&self) -> bool {
        self.says("connection", "close") || self.line.contains("HTTP/1.0")
    }

    fn framing(&self, otherwise: Framing) -> io::Result<Framing> {
        if self.says("transfer-encoding", "chunked") {
            return Ok(Framing::Chunked);
        }
        match self.get("content-length") {
            Some(text) => {
                text.parse().map(Framing::Length).map_err(|_| malformed("a wrong Content-Length"))
            }
            None => Ok(otherwise),
        }
    }

    pub fn request_framing(&self) -> io::Result<Framing> {
        self.framing(Framing::Length(0))
    }

    /// The status of an answer.
    pub fn status(&self) -> io::Result<u16> {
        self.word(1).parse().map_err(|_| malformed("a wrong status"))
    }

    pub fn answer_framing(&self, method: &str) -> io::Result<Framing> {
        let status = self.status()?;
        if method == "HEAD" || status < 200 || status == 204 || status == 304 {
            return Ok(Framing::Length(0));
        }
        self.framing(Framing::Close)
    }
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads messages from a connection.
pub(crate) struct Messages<R> {
    pub stream: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl<R: Read> Messages<R> {
    pub fn new(stream: R) -> Self {
        Self { stream, buffer: vec![0; BUFFER].into_boxed_slice(), start: 0, end: 0 }
    }

    fn buffered(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Refills a buffer that has been used up; false at the end of the connection.
    fn refill(&mut self) -> io::Result<bool> {
        loop {
            match self.stream.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(n) => {
                    (self.start, self.end) = (0, n);
                    return Ok(n > 0);
                }
            }
        }
    }

    /// Bytes up to and including the next `end`; `None` if the connection ends before the first
    /// byte.
    fn read_until(&mut self, end: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            if self.start == self.end && !self.refill()? {
                if bytes.is_empty() {
                    return Ok(None);
                }
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let old = bytes.len();
            bytes.extend_from_slice(self.buffered());
            // The end may have begun in the bytes read before.
            let from = old.saturating_sub(end.len());
            let tail = bytes.get(from..).unwrap_or_default();
            if let Some(at) = tail.windows(end.len()).position(|window| window == end) {
                let length = from + at + end.len();
                self.start += length - old;
                bytes.truncate(length);
                return Ok(Some(bytes));
            }
            self.start = self.end;
            if bytes.len() > MAX_HEAD {
                return Err(malformed("a head without an end"));
            }
        }
    }

    /// The next head; `None` if the connection ends before it.
    pub fn head(&mut self) -> io::Result<Option<Head>> {
        self.read_until(b"\r\n\r\n")?.map(Head::parse).transpose()
    }

    /// Passes on a body piece by piece, as it is on the wire. With each piece comes the number of
    /// its bytes that are content, not chunk framing.
    pub fn body(
        &mut self,
        framing: Framing,
        mut sink: impl FnMut(&[u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        match framing {
            Framing::Length(length) => self.pieces(length, true, &mut sink),
            Framing::Close => {
                while self.start < self.end || self.refill()? {
                    sink(self.buffered(), self.buffered().len() as u64)?;
                    self.start = self.end;
                }
                Ok(())
            }
            Framing::Chunked => loop {
                let line = self.line()?;
                sink(&line, 0)?;
                let text = String::from_utf8_lossy(&line);
                let digits = text.split(';').next().unwrap_or_default().trim();
                let size = u64::from_str_radix(digits, 16)
                    .map_err(|_| malformed("a chunk without a size"))?;
                if size == 0 {
                    // Trailers, then an empty line.
                    loop {
                        let line = self.line()?;
                        sink(&line, 0)?;
                        if line == b"\r\n" {
                            return Ok(());
                        }
                    }
                }
                self.pieces(size, true, &mut sink)?;
                self.pieces(2, false, &mut sink)?;
            },
        }
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        self.read_until(b"\r\n")?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn pieces(
        &mut self,
        mut length: u64,
        content: bool,
        sink: &mut impl FnMut(&[u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        while length > 0 {
            if self.start == self.end && !self.refill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let take = self.buffered().len().min(usize::try_from(length).unwrap_or(usize::MAX));
            let piece = self.buffered().get(..take).unwrap_or_default();
            sink(piece, if content { take as u64 } else { 0 })?;
            self.start += take;
            length -= take as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte at a time.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let one = buffer.len().min(1);
            self.0.read(&mut buffer[..one])
        }
    }

    #[test]
    fn messages_are_found_however_they_are_cut() {
        let wire = b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
            3;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nT: 1\r\n\r\n\
            GET /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi";
        let mut messages = Messages::new(Drops(wire));
        let head = messages.head().unwrap().unwrap();
        assert_eq!((head.word(0), head.word(1)), ("PUT", "/a"));
        let (mut raw, mut content) = (Vec::new(), 0);
        let framing = head.request_framing().unwrap();
        messages
            .body(framing, |piece, n| {
                raw.extend_from_slice(piece);
                content += n;
                Ok(())
            })
            .unwrap();
        assert_eq!(content, 19);
        assert!(raw.starts_with(b"3;x=y\r\nabc") && raw.ends_with(b"T: 1\r\n\r\n"));

        let head = messages.head().unwrap().unwrap();
        assert_eq!(head.request_framing().unwrap(), Framing::Length(2));
        messages.body(Framing::Length(2), |_, _| Ok(())).unwrap();
        assert!(messages.head().unwrap().is_none());
    }

    #[test]
    fn answers_without_a_body_have_none() {
        let head = |line: &str| {
            let raw = format!("HTTP/1.1 {line}\r\nContent-Length: 5\r\n\r\n");
            Head::parse(raw.into_bytes()).unwrap()
        };
        assert_eq!(head("200 OK").answer_framing("GET").unwrap(), Framing::Length(5));
        assert_eq!(head("200 OK").answer_framing("HEAD").unwrap(), Framing::Length(0));
        assert_eq!(head("304 Not Modified").answer_framing("GET").unwrap(), Framing::Length(0));
    }
}
