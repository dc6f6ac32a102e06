//! The record of what passed through a proxy.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::message::Head;

/// The headers that are recorded, besides `x-amz-meta-*` and `x-ms-meta-*`.
const KEPT: &[&str] = &["range", "if-match", "if-none-match", "if-modified-since", "x-ms-range"];

/// A request and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// The method, such as GET.
    pub method: String,
    /// The path, with the query.
    pub target: String,
    /// The headers that say what is requested: `range`, conditions, and metadata of objects.
    pub headers: Vec<(String, String)>,
    /// The status that the client received; `None` if it received none (yet).
    pub status: Option<u16>,
    /// The status that the server sent; `None` if it was not asked, or has not answered.
    pub upstream_status: Option<u16>,
    /// The bytes of its body that arrived.
    pub sent: u64,
    /// The bytes of the answer's body that were passed on.
    pub received: u64,
    /// The name of the fault that it got, as in the text form of [`Faults`](super::Faults).
    pub fault: Option<&'static str>,
    /// When it arrived, since the start of the proxy.
    pub start: Duration,
    /// How long it took; until its last piece if it is still in progress.
    pub took: Duration,
}

impl Recorded {
    pub(crate) fn new(head: &Head, fault: Option<&'static str>) -> Self {
        let kept = |name: &str| {
            KEPT.contains(&name)
                || name.starts_with("x-amz-meta-")
                || name.starts_with("x-ms-meta-")
        };
        Self {
            method: head.word(0).to_owned(),
            target: head.word(1).to_owned(),
            headers: head.headers.iter().filter(|(name, _)| kept(name)).cloned().collect(),
            status: None,
            upstream_status: None,
            sent: 0,
            received: 0,
            fault,
            start: Duration::ZERO,
            took: Duration::ZERO,
        }
    }

    /// The value of a recorded header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The path without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    fn to_json(&self) -> Value {
        let headers: serde_json::Map<String, Value> =
            self.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "method": self.method,
            "target": self.target,
            "headers": headers,
            "status": self.status,
            "upstream_status": self.upstream_status,
            "sent": self.sent,
            "received": self.received,
            "fault": self.fault,
            "start": self.start.as_secs_f64(),
            "took": self.took.as_secs_f64(),
        })
    }
}

/// The requests of a proxy.
pub(crate) struct Log {
    start: Instant,
    requests: Vec<Recorded>,
    /// The number of the first request: earlier ones were forgotten.
    first: u64,
}

impl Log {
    pub fn new() -> Self {
        Self { start: Instant::now(), requests: Vec::new(), first: 0 }
    }

    /// Adds a request that arrives now; returns its number.
    pub fn add(&mut self, mut request: Recorded) -> u64 {
        request.start = self.start.elapsed();
        self.requests.push(request);
        self.first + (self.requests.len() - 1) as u64
    }

    /// Changes a request, if it has not been forgotten.
    pub fn change(&mut self, number: u64, change: impl FnOnce(&mut Recorded)) {
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        if let Some(request) = at.and_then(|at| self.requests.get_mut(at)) {
            change(request);
            request.took = self.start.elapsed().saturating_sub(request.start);
        }
    }

    pub fn reset(&mut self) {
        self.first += self.requests.len() as u64;
        self.requests.clear();
    }

    pub fn all(&self) -> Vec<Recorded> {
        self.requests.clone()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Recorded> {
        self.requests.iter()
    }

    pub fn to_json(&self) -> String {
        Value::from(self.iter().map(Recorded::to_json).collect::<Vec<_>>()).to_string()
    }
}
