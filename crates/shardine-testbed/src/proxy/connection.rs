//! A client's connection, and the corresponding connection to the server.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::fault::Fault;
use super::pace::Pace;
use super::record::Recorded;
use super::{Shared, lock};
use crate::message::{Framing, Head, Messages};

/// How long a server may take to ask for a body; some never do.
const CONTINUE: Duration = Duration::from_secs(1);

/// The index of each direction's bandwidth.
const UP: usize = 0;
const DOWN: usize = 1;

/// What comes after a request.
#[derive(PartialEq, Eq)]
enum Next {
    Request,
    Close,
}

/// Forwards requests until one of the two sides, or a fault, ends the connection.
pub(super) fn serve(client: TcpStream, shared: &Shared) {
    if client.set_nodelay(true).is_err() {
        return;
    }
    let pace = || shared.connection_bandwidth.map(Pace::new);
    let mut connection = Connection {
        shared,
        client: Messages::new(client),
        upstream: None,
        pace: [pace(), pace()],
    };
    while let Ok(Next::Request) = connection.request() {}
    // Both ends notice immediately, although the proxy keeps another handle of the client's socket.
    let _ = connection.client.stream.shutdown(Shutdown::Both);
}

struct Connection<'a> {
    shared: &'a Shared,
    client: Messages<TcpStream>,
    upstream: Option<Messages<TcpStream>>,
    pace: [Option<Pace>; 2],
}

impl Connection<'_> {
    fn request(&mut self) -> io::Result<Next> {
        let Some(head) = self.client.head()? else { return Ok(Next::Close) };
        if let Some(command) = head.word(1).strip_prefix("/__proxy/") {
            return self.command(command, &head);
        }
        let fault = lock(&self.shared.plan).decide(head.word(0), head.word(1));
        let record = Recorded::new(&head, fault.as_ref().map(Fault::name));
        let number = lock(&self.shared.log).add(record);
        let next = self.pass(number, &head, fault.as_ref());
        // The request ends here, even if it had no body.
        self.change(number, |_| {});
        next
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Recorded)) {
        lock(&self.shared.log).change(number, change);
    }

    fn pass(&mut self, number: u64, head: &Head, fault: Option<&Fault>) -> io::Result<Next> {
        match fault {
            Some(Fault::Drop) => return Ok(Next::Close),
            // There is no middle: nothing must reach the server either.
            Some(Fault::DropMiddle) if head.request_framing()? == Framing::Length(0) => {
                return Ok(Next::Close);
            }
            Some(&Fault::Status { code, retry_after }) => {
                return self.refuse(number, head, code, retry_after);
            }
            _ => {}
        }
        if let Some(next) = self.send(number, head, fault)? {
            return Ok(next);
        }
        let Some(answer) = self.final_head()? else { return Ok(Next::Close) };
        self.answer(number, head, &answer, fault)
    }

    /// Forwards the request. Returns something if there is no answer to wait for.
    fn send(
        &mut self,
        number: u64,
        head: &Head,
        fault: Option<&Fault>,
    ) -> io::Result<Option<Next>> {
        let framing = head.request_framing()?;
        self.connect()?.stream.write_all(&head.raw)?;
        if head.says("expect", "100-continue")
            && let Some(refusal) = self.wait_for_continue()?
        {
            // The server does not want the body. How the client reacts to that is unknown.
            self.answer(number, head, &refusal, fault)?;
            return Ok(Some(Next::Close));
        }
        let cut = match (fault, framing) {
            (Some(Fault::DropMiddle), Framing::Length(length)) => Some(length / 2),
            (Some(Fault::DropMiddle), _) => Some(1),
            _ => None,
        };
        let Some(upstream) = &self.upstream else { return Ok(Some(Next::Close)) };
        let (shared, pace) = (self.shared, &self.pace);
        let mut sent = 0u64;
        let mut gone = false;
        let result = self.client.body(framing, |piece, content| {
            let piece = cut_off(piece, sent, cut);
            sent += content.min(piece.len() as u64);
            lock(&shared.log).change(number, |record| record.sent = sent);
            wait_for(shared, pace, UP, piece.len());
            // A server may answer and close before it has read everything. The client is read to
            // the end nevertheless: otherwise it would not receive the answer.
            gone = gone || (&upstream.stream).write_all(piece).is_err();
            if cut.is_some_and(|cut| sent >= cut) { Err(fault_happened()) } else { Ok(()) }
        });
        if cut.is_some() {
            return Ok(Some(Next::Close));
        }
        result.map(|()| None)
    }

    /// The connection to the server: a new one if there is none, or if the server has closed it in
    /// the meantime.
    fn connect(&mut self) -> io::Result<&mut Messages<TcpStream>> {
        if self.upstream.as_ref().is_some_and(|upstream| !is_open(&upstream.stream)) {
            self.upstream = None;
        }
        let upstream = match self.upstream.take() {
            Some(upstream) => upstream,
            None => {
                let stream = TcpStream::connect(self.shared.upstream)?;
                stream.set_nodelay(true)?;
                Messages::new(stream)
            }
        };
        Ok(self.upstream.insert(upstream))
    }

    /// Waits for the server to ask for the body. Returns its answer if it does not.
    fn wait_for_continue(&mut self) -> io::Result<Option<Head>> {
        let Some(upstream) = &mut self.upstream else { return Ok(None) };
        upstream.stream.set_read_timeout(Some(CONTINUE))?;
        let head = upstream.head();
        upstream.stream.set_read_timeout(None)?;
        match head {
            Ok(Some(head)) if head.status()? == 100 => {
                self.delay();
                self.client.stream.write_all(&head.raw)?;
                Ok(None)
            }
            Ok(Some(head)) => Ok(Some(head)),
            Ok(None) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                self.client.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The head of the server's answer; interim answers are passed on.
    fn final_head(&mut self) -> io::Result<Option<Head>> {
        let Some(upstream) = &mut self.upstream else { return Ok(None) };
        loop {
            let Some(head) = upstream.head()? else { return Ok(None) };
            if head.status()? >= 200 {
                return Ok(Some(head));
            }
            self.client.stream.write_all(&head.raw)?;
        }
    }

    /// Passes on the answer.
    fn answer(
        &mut self,
        number: u64,
        request: &Head,
        answer: &Head,
        fault: Option<&Fault>,
    ) -> io::Result<Next> {
        let status = answer.status()?;
        self.change(number, |record| record.upstream_status = Some(status));
        let framing = answer.answer_framing(request.word(0))?;
        let Some(upstream) = &mut self.upstream else { return Ok(Next::Close) };
        if fault == Some(&Fault::LostAnswer) {
            upstream.body(framing, |_, _| Ok(()))?;
            return Ok(Next::Close);
        }
        if let Some(&Fault::Stall(time)) = fault {
            std::thread::sleep(time);
        }
        self.delay();
        self.change(number, |record| record.status = Some(status));
        let cut = match (fault, framing) {
            (Some(Fault::Truncate), Framing::Length(length)) if length > 0 => Some(length / 2),
            (Some(Fault::Truncate), Framing::Chunked | Framing::Close) => Some(1),
            _ => None,
        };
        let (shared, pace) = (self.shared, &self.pace);
        let mut client = &self.client.stream;
        // The head is sent with the first piece: most answers are one packet, as they were from the
        // server.
        let mut first = answer.raw.clone();
        let mut received = 0u64;
        let Some(upstream) = &mut self.upstream else { return Ok(Next::Close) };
        let result = upstream.body(framing, |piece, content| {
            let piece = cut_off(piece, received, cut);
            received += content.min(piece.len() as u64);
            lock(&shared.log).change(number, |record| record.received = received);
            if let Some(&Fault::Slow { piece: size, pause }) = fault {
                client.write_all(&std::mem::take(&mut first))?;
                for part in piece.chunks(size.max(1)) {
                    client.write_all(part)?;
                    std::thread::sleep(pause);
                }
            } else {
                wait_for(shared, pace, DOWN, piece.len());
                if first.is_empty() {
                    client.write_all(piece)?;
                } else {
                    first.extend_from_slice(piece);
                    client.write_all(&std::mem::take(&mut first))?;
                }
            }
            if cut.is_some_and(|cut| received >= cut) { Err(fault_happened()) } else { Ok(()) }
        });
        if cut.is_some() {
            return Ok(Next::Close);
        }
        result?;
        if !first.is_empty() {
            client.write_all(&first)?;
        }
        let last = request.is_last() || answer.is_last() || framing == Framing::Close;
        Ok(if last { Next::Close } else { Next::Request })
    }

    fn delay(&self) {
        let latency = *lock(&self.shared.latency);
        std::thread::sleep(latency);
    }

    /// Answers without asking the server.
    fn refuse(
        &mut self,
        number: u64,
        head: &Head,
        code: u16,
        retry_after: Option<u32>,
    ) -> io::Result<Next> {
        let waits = head.says("expect", "100-continue");
        if !waits {
            let (shared, mut sent) = (self.shared, 0);
            self.client.body(head.request_framing()?, |_, content| {
                sent += content;
                lock(&shared.log).change(number, |record| record.sent = sent);
                Ok(())
            })?;
        }
        self.delay();
        let name = if matches!(code, 429 | 503) { "SlowDown" } else { "InternalError" };
        let body = format!("<?xml version=\"1.0\"?><Error><Code>{name}</Code></Error>");
        let retry_after =
            retry_after.map_or(String::new(), |seconds| format!("Retry-After: {seconds}\r\n"));
        let received = if head.word(0) == "HEAD" { 0 } else { body.len() as u64 };
        self.change(number, |record| {
            record.status = Some(code);
            record.received = received;
        });
        let last = waits || head.is_last();
        let extra = format!("{retry_after}{}", if last { "Connection: close\r\n" } else { "" });
        self.reply(head, &format!("{code} {name}"), "application/xml", &extra, &body)?;
        Ok(if last { Next::Close } else { Next::Request })
    }

    /// Answers a request to the proxy itself.
    fn command(&mut self, command: &str, head: &Head) -> io::Result<Next> {
        self.client.body(head.request_framing()?, |_, _| Ok(()))?;
        let (status, body) = match command {
            "log" => ("200 OK", lock(&self.shared.log).to_json()),
            "reset" => {
                lock(&self.shared.log).reset();
                ("200 OK", "[]".to_owned())
            }
            _ => ("404 Not Found", "null".to_owned()),
        };
        self.reply(head, status, "application/json", "", &body)?;
        Ok(if head.is_last() { Next::Close } else { Next::Request })
    }

    fn reply(
        &mut self,
        head: &Head,
        status: &str,
        kind: &str,
        extra: &str,
        body: &str,
    ) -> io::Result<()> {
        let shown = if head.word(0) == "HEAD" { "" } else { body };
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{extra}\r\n{shown}"
        );
        self.client.stream.write_all(text.as_bytes())
    }
}

/// The part of a piece that may pass if nothing may pass beyond `cut`.
fn cut_off(piece: &[u8], passed: u64, cut: Option<u64>) -> &[u8] {
    let left = cut.map_or(u64::MAX, |cut| cut.saturating_sub(passed));
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    piece.get(..left).unwrap_or(piece)
}

/// Ends a body; never visible outside.
fn fault_happened() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

fn wait_for(shared: &Shared, own: &[Option<Pace>; 2], direction: usize, bytes: usize) {
    for pace in [&own[direction], &shared.total[direction]].into_iter().flatten() {
        pace.pass(bytes);
    }
}

/// Whether the other side has neither closed an idle connection nor sent something unsolicited.
fn is_open(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    let quiet = matches!(
        stream.peek(&mut [0]),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock
    );
    stream.set_nonblocking(false).is_ok() && quiet
}
