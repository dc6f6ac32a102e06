//! A client for one request.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::message::Messages;

/// No server of a test bed takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An answer to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// In order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as it is on the wire: chunks keep their framing.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Makes one request over its own connection.
///
/// An answer that ends too early is an error, and so is none within 30 s.
pub fn request(
    addr: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&addr, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let extra: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\
         Content-Length: {}\r\n{extra}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut messages = Messages::new(stream);
    let head = messages.head()?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut body = Vec::new();
    messages.body(head.answer_framing(method)?, |piece, _| {
        body.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(Answer { status: head.status()?, headers: head.headers, body })
}

/// The answer to a GET if its status is below a limit; otherwise what is wrong.
pub(crate) fn get_below(addr: SocketAddr, target: &str, limit: u16) -> Result<Answer, String> {
    let answer = request(addr, "GET", target, &[], b"").map_err(|error| error.to_string())?;
    if answer.status < limit {
        return Ok(answer);
    }
    Err(format!("status {}: {}", answer.status, answer.text()))
}
