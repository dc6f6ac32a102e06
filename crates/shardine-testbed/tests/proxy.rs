//! Each fault really happens, and the record says so. The server is nginx.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use shardine_testbed::{Answer, Fault, Nginx, NginxOptions, Proxy, ProxyOptions, Rule, request};
use tempfile::TempDir;

/// A folder with an object of 100 000 bytes, a server, and a proxy in front of it.
struct Bed {
    proxy: Proxy,
    _nginx: Nginx,
    folder: TempDir,
}

const SIZE: usize = 100_000;

fn bed(options: ProxyOptions) -> Bed {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("object"), vec![b'x'; SIZE]).unwrap();
    let nginx = NginxOptions { tls: false, writable: true };
    let nginx = Nginx::start(folder.path(), &nginx).unwrap();
    let proxy = Proxy::start(nginx.addr(), options).unwrap();
    Bed { proxy, _nginx: nginx, folder }
}

impl Bed {
    fn with(rule: Rule) -> Self {
        bed(ProxyOptions { faults: rule.into(), ..ProxyOptions::default() })
    }

    fn get(&self) -> std::io::Result<Answer> {
        request(self.proxy.addr(), "GET", "/object", &[], b"")
    }

    fn put(&self, body: &[u8]) -> std::io::Result<Answer> {
        request(self.proxy.addr(), "PUT", "/new", &[("x-amz-meta-id", "7")], body)
    }

    fn new_object(&self) -> Option<Vec<u8>> {
        fs::read(self.folder.path().join("new")).ok()
    }
}

#[test]
fn requests_pass_and_are_recorded() {
    let bed = bed(ProxyOptions::default());
    assert_eq!(bed.get().unwrap().body.len(), SIZE);
    let range = [("Range", "bytes=10-19"), ("Accept", "*/*")];
    let answer = request(bed.proxy.addr(), "GET", "/object?a=b", &range, b"").unwrap();
    assert_eq!((answer.status, answer.body.len()), (206, 10));
    let answer = request(bed.proxy.addr(), "HEAD", "/object", &[], b"").unwrap();
    assert_eq!((answer.header("content-length"), answer.body.len()), (Some("100000"), 0));
    let etag = [("If-None-Match", answer.header("etag").unwrap())];
    let answer = request(bed.proxy.addr(), "GET", "/object", &etag, b"").unwrap();
    assert_eq!(answer.status, 304);
    assert_eq!(bed.put(&[b'y'; 3000]).unwrap().status, 201);
    assert_eq!(bed.new_object().unwrap().len(), 3000);

    let all = bed.proxy.requests();
    let seen: Vec<_> =
        all.iter().map(|r| (r.method.as_str(), r.status.unwrap(), r.sent, r.received)).collect();
    let size = SIZE as u64;
    assert_eq!(
        seen,
        [
            ("GET", 200, 0, size),
            ("GET", 206, 0, 10),
            ("HEAD", 200, 0, 0),
            ("GET", 304, 0, 0),
            ("PUT", 201, 3000, 0)
        ]
    );
    assert_eq!(all[1].headers, [("range".to_owned(), "bytes=10-19".to_owned())]);
    assert_eq!((all[1].path(), all[1].target.as_str()), ("/object", "/object?a=b"));
    assert_eq!(all[4].header("x-amz-meta-id"), Some("7"));
    assert_eq!((bed.proxy.count(), bed.proxy.count_of("GET")), (5, 3));
    assert_eq!((bed.proxy.bytes_sent(), bed.proxy.bytes_received()), (3000, size + 10));

    let log = request(bed.proxy.addr(), "GET", "/__proxy/log", &[], b"").unwrap();
    let log: serde_json::Value = serde_json::from_slice(&log.body).unwrap();
    assert_eq!(log.as_array().unwrap().len(), 5);
    assert_eq!(log[1]["headers"]["range"], "bytes=10-19");
    request(bed.proxy.addr(), "GET", "/__proxy/reset", &[], b"").unwrap();
    assert_eq!(bed.proxy.count(), 0);
}

#[test]
fn one_connection_carries_many_requests_chunks_and_expectations() {
    let bed = bed(ProxyOptions::default());
    let mut stream = TcpStream::connect(bed.proxy.addr()).unwrap();
    // Waits for the server's `100 Continue` before it sends the body.
    stream
        .write_all(
            b"PUT /new HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        )
        .unwrap();
    let mut line = [0; 25];
    stream.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"first").unwrap();
    // Two more in one piece, one of them in chunks.
    stream
        .write_all(
            b"PUT /new HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
              3\r\nsec\r\n3\r\nond\r\n0\r\n\r\n\
              GET /new HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest.matches("HTTP/1.1 20").count(), 3, "{rest}");
    assert!(rest.ends_with("\r\n\r\nsecond"), "{rest}");
    let sent: Vec<u64> = bed.proxy.requests().iter().map(|r| r.sent).collect();
    assert_eq!(sent, [5, 6, 0]);
}

#[test]
fn latency_is_added_once_to_each_answer_and_side_by_side() {
    let bed = bed(ProxyOptions::default());
    let timed = || {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| bed.get().unwrap());
            }
        });
        start.elapsed()
    };
    bed.proxy.set_latency(Duration::from_millis(300));
    let late = timed();
    assert!(late >= Duration::from_millis(300), "{late:?}");
    assert!(late < Duration::from_secs(3), "twenty at once took {late:?}");
    assert!(bed.proxy.requests().iter().all(|r| r.took >= Duration::from_millis(300)));
}

#[test]
fn bandwidth_is_limited_for_one_and_for_all() {
    let size = SIZE as u64;
    let one = bed(ProxyOptions { connection_bandwidth: Some(size * 5), ..Default::default() });
    let start = Instant::now();
    one.get().unwrap();
    assert!(start.elapsed() >= Duration::from_millis(180), "{:?}", start.elapsed());

    let all = bed(ProxyOptions { total_bandwidth: Some(size * 10), ..Default::default() });
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| all.get().unwrap());
        }
    });
    assert!(start.elapsed() >= Duration::from_millis(380), "{:?}", start.elapsed());
}

#[test]
fn a_dropped_request_does_not_reach_the_server() {
    let bed = Bed::with(Rule::new(Fault::Drop).method("PUT").nth(2));
    bed.put(b"one").unwrap();
    bed.put(b"two").unwrap_err();
    assert_eq!(bed.new_object().unwrap(), b"one");
    bed.put(b"three").unwrap();
    let all = bed.proxy.requests();
    assert_eq!((all[1].fault, all[1].status, all[1].upstream_status), (Some("drop"), None, None));
}

#[test]
fn half_of_an_upload_changes_nothing() {
    let bed = Bed::with(Rule::new(Fault::DropMiddle));
    bed.put(&vec![b'y'; 2_000_000]).unwrap_err();
    assert_eq!(bed.new_object(), None);
    assert_eq!(bed.proxy.requests()[0].sent, 1_000_000);
    bed.get().unwrap_err();
}

#[test]
fn the_server_has_done_what_it_was_asked_when_an_answer_is_lost() {
    let bed = Bed::with(Rule::new(Fault::LostAnswer));
    bed.put(b"new").unwrap_err();
    assert_eq!(bed.new_object().unwrap(), b"new");
    let all = bed.proxy.requests();
    assert_eq!((all[0].status, all[0].upstream_status), (None, Some(201)));
}

#[test]
fn a_storm_of_refusals_passes() {
    let refusal = |code, retry_after| Rule::new(Fault::Status { code, retry_after }).times(2);
    let bed = Bed::with(refusal(503, Some(3)));
    for _ in 0..2 {
        let answer = bed.put(&vec![b'y'; 1_000_000]).unwrap();
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("3")));
        assert!(answer.text().contains("SlowDown"));
    }
    assert_eq!(bed.new_object(), None);
    assert_eq!(bed.put(b"new").unwrap().status, 201);
    assert_eq!(bed.proxy.count_where(|r| r.upstream_status.is_none()), 2);

    bed.proxy.set_faults(refusal(429, None).into());
    let answer = bed.get().unwrap();
    assert_eq!((answer.status, answer.header("retry-after")), (429, None));
    bed.proxy.set_faults(refusal(500, None).into());
    let answer = request(bed.proxy.addr(), "HEAD", "/object", &[], b"").unwrap();
    assert_eq!((answer.status, answer.body.len()), (500, 0));
}

#[test]
fn a_truncated_answer_promises_more_than_comes() {
    let bed = Bed::with(Rule::new(Fault::Truncate));
    let mut stream = TcpStream::connect(bed.proxy.addr()).unwrap();
    stream.write_all(b"GET /object HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let text = String::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Content-Length: 100000"), "{head}");
    assert_eq!(body.len(), SIZE / 2);
    bed.get().unwrap_err();
}

#[test]
fn slow_and_stalled_answers_are_whole() {
    let slow = Fault::Slow { piece: SIZE / 10, pause: Duration::from_millis(20) };
    let bed = Bed::with(Rule::new(slow));
    let timed = || {
        let start = Instant::now();
        assert_eq!(bed.get().unwrap().body.len(), SIZE);
        start.elapsed()
    };
    // Ten pieces, and nine pauses between them.
    assert!(timed() >= Duration::from_millis(180));
    bed.proxy.set_faults(Rule::new(Fault::Stall(Duration::from_millis(250))).into());
    assert!(timed() >= Duration::from_millis(250));
}

#[test]
fn a_proxy_that_is_gone_answers_no_more() {
    let bed = bed(ProxyOptions::default());
    let addr = bed.proxy.addr();
    let mut idle = TcpStream::connect(addr).unwrap();
    bed.get().unwrap();
    drop(bed.proxy);
    assert_eq!(idle.read(&mut [0]).unwrap_or(0), 0);
    request(addr, "GET", "/object", &[], b"").unwrap_err();
}
