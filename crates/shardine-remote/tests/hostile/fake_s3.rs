//! As much of S3 as a store needs, with conditions that are honoured or not.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use shardine_remote::{RemoteStore, StoreOptions};

use super::server::{Request, Server, answer};

/// Which conditions the server honours.
#[derive(Debug, Clone, Copy)]
pub struct Honours {
    pub writes: bool,
    pub completions: bool,
}

struct Stored {
    bytes: Vec<u8>,
    etag: String,
    writes: Option<String>,
    /// Those that a client sent, which are returned again.
    headers: Vec<(String, String)>,
}

/// By number.
type Parts = HashMap<u64, Vec<u8>>;

/// The parts of an upload, its writes, and its headers.
type Upload = (Parts, Option<String>, Vec<(String, String)>);

#[derive(Default)]
struct State {
    objects: HashMap<String, Stored>,
    /// With the future metadata.
    uploads: HashMap<String, Upload>,
    /// How many were started in total.
    begun: usize,
    next: u64,
}

pub struct FakeS3 {
    pub server: Server,
    state: Arc<Mutex<State>>,
}

const WRITES: &str = "x-amz-meta-shardinewrites";

impl FakeS3 {
    pub fn start(honours: Honours) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let server = Server::start(move |request, stream| {
            let state = &mut shared.lock().unwrap();
            respond(state, honours, request, stream)
        });
        Self { server, state }
    }

    pub fn store(&self, options: impl FnOnce(StoreOptions) -> StoreOptions) -> RemoteStore {
        let mut all = super::common::s3_options(self.server.addr);
        all = all.with("part_size", "5242880");
        RemoteStore::new("s3://bucket/data", &options(all)).unwrap()
    }

    /// Adds an object as if another client had written it.
    pub fn insert(&self, name: &str, bytes: Vec<u8>, headers: &[(&str, &str)]) {
        let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let state = &mut *self.state.lock().unwrap();
        state.next += 1;
        let etag = format!("\"{:032x}\"", state.next);
        let stored = Stored { bytes, etag, writes: None, headers };
        state.objects.insert(format!("/bucket/data/{name}"), stored);
    }

    /// The bytes of an object as they are stored, and its headers.
    pub fn stored(&self, name: &str) -> (Vec<u8>, Vec<(String, String)>) {
        let state = self.state.lock().unwrap();
        let stored = &state.objects[&format!("/bucket/data/{name}")];
        (stored.bytes.clone(), stored.headers.clone())
    }

    /// The names of all objects.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.state.lock().unwrap().objects.keys().cloned().collect();
        names.sort();
        names
    }

    /// How many multipart uploads were started.
    pub fn begun(&self) -> usize {
        self.state.lock().unwrap().begun
    }

    pub fn uploads(&self) -> usize {
        self.state.lock().unwrap().uploads.len()
    }
}

fn holds(state: &State, request: &Request) -> bool {
    let found = state.objects.get(request.path());
    let none_match = request.header("if-none-match");
    let matches = request.header("if-match");
    none_match.is_none_or(|_| found.is_none())
        && matches.is_none_or(|etag| found.is_some_and(|found| found.etag == etag))
}

fn respond(
    state: &mut State,
    honours: Honours,
    request: &Request,
    stream: &mut TcpStream,
) -> io::Result<()> {
    let path = request.path().to_owned();
    let query: HashMap<&str, &str> =
        request.query().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    let failed =
        answer("412 Precondition Failed", &[], b"<Error><Code>PreconditionFailed</Code></Error>");
    let none = answer("404 Not Found", &[], b"<Error><Code>NoSuchKey</Code></Error>");
    state.next += 1;
    let etag = format!("\"{:032x}\"", state.next);
    let writes = request.header(WRITES).map(str::to_owned);
    let is_kept = |name: &str| {
        (name.starts_with("x-amz-meta-") && name != WRITES)
            || (name.starts_with("content-") && name != "content-length")
            || name == "cache-control"
    };
    let headers: Vec<_> = request.headers.iter().filter(|(n, _)| is_kept(n)).cloned().collect();
    let upload = query.get("uploadId").map(|id| (*id).to_owned());
    let text = match (request.method.as_str(), upload) {
        ("PUT", Some(id)) => match state.uploads.get_mut(&id) {
            Some((parts, ..)) => {
                parts.insert(query["partNumber"].parse().unwrap(), request.body.clone());
                answer("200 OK", &[("ETag", &etag)], b"")
            }
            None => none,
        },
        ("DELETE", Some(id)) => {
            state.uploads.remove(&id);
            answer("204 No Content", &[], b"")
        }
        ("POST", Some(_)) if honours.completions && !holds(state, request) => failed,
        ("POST", Some(id)) => match state.uploads.remove(&id) {
            Some((parts, writes, headers)) => {
                let mut parts: Vec<_> = parts.into_iter().collect();
                parts.sort();
                let bytes = parts.into_iter().flat_map(|(_, bytes)| bytes).collect();
                state.objects.insert(path, Stored { bytes, etag: etag.clone(), writes, headers });
                let etag = etag.replace('"', "&quot;");
                let text = format!(
                    "<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
                );
                answer("200 OK", &[], text.as_bytes())
            }
            None => none,
        },
        ("POST", None) => {
            let id = format!("upload{}", state.next);
            state.uploads.insert(id.clone(), (HashMap::new(), writes, headers));
            state.begun += 1;
            let text = format!(
                "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
            );
            answer("200 OK", &[], text.as_bytes())
        }
        ("PUT", None) if honours.writes && !holds(state, request) => failed,
        ("PUT", None) => {
            let bytes = request.body.clone();
            state.objects.insert(path, Stored { bytes, etag: etag.clone(), writes, headers });
            answer("200 OK", &[("ETag", &etag)], b"")
        }
        ("DELETE", None) => {
            state.objects.remove(&path);
            answer("204 No Content", &[], b"")
        }
        (method, _) => match state.objects.get(&path) {
            Some(found) => show(found, method, request),
            None => none,
        },
    };
    stream.write_all(&text)
}

fn show(found: &Stored, method: &str, request: &Request) -> Vec<u8> {
    let len = found.bytes.len();
    let mut headers = vec![
        ("ETag", found.etag.clone()),
        ("Last-Modified", "Mon, 16 Nov 2026 00:00:00 GMT".to_owned()),
    ];
    headers.extend(found.writes.clone().map(|writes| (WRITES, writes)));
    headers.extend(found.headers.iter().map(|(name, value)| (name.as_str(), value.clone())));
    let mut bytes = found.bytes.as_slice();
    let mut status = "200 OK";
    if let Some(range) = request.header("range") {
        let (from, to) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let range = match (from.parse::<usize>(), to.parse::<usize>()) {
            (Ok(from), Ok(to)) => from..len.min(to.saturating_add(1)),
            (Ok(from), Err(_)) => from..len,
            (Err(_), to) => len.saturating_sub(to.unwrap())..len,
        };
        if range.start >= len {
            return answer("416 Range Not Satisfiable", &[], b"");
        }
        headers.push(("Content-Range", format!("bytes {}-{}/{len}", range.start, range.end - 1)));
        bytes = &bytes[range];
        status = "206 Partial Content";
    }
    let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let mut text = answer(status, &headers, bytes);
    if method == "HEAD" {
        text.truncate(text.len() - bytes.len());
    }
    text
}
