//! A server that answers whatever a test wants.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A request as received.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Its number, from 0.
    pub number: usize,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    pub fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }
}

/// The address of a server. Its threads end with the process.
pub struct Server {
    pub addr: SocketAddr,
}

impl Server {
    /// Each connection is for one request: `answer` writes whatever it likes, then the connection
    /// is closed.
    pub fn start(
        answer: impl Fn(&Request, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (answer, next) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, next) = (Arc::clone(&answer), Arc::clone(&next));
                std::thread::spawn(move || {
                    let mut stream = stream;
                    let Ok(Some(mut request)) = read(&stream) else { return };
                    request.number = next.fetch_add(1, Ordering::SeqCst);
                    // The client may already have closed the connection.
                    drop(answer(&request, &mut stream));
                    drop(stream.shutdown(std::net::Shutdown::Write));
                    drop(io::copy(&mut stream.take(1 << 20), &mut io::sink()));
                });
            }
        });
        Self { addr }
    }

    /// A server that gives everyone the same answer.
    pub fn saying(text: impl Into<Vec<u8>>) -> Self {
        let text = text.into();
        Self::start(move |_, stream| stream.write_all(&text))
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

fn read(stream: &TcpStream) -> io::Result<Option<Request>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Request { method, target, headers, body, number: 0 }))
}

/// An answer with a correct length.
pub fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let extra: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{extra}\r\n"
    );
    [head.as_bytes(), body].concat()
}
