//! Servers that lie: the result is an error or the truth, never a wrong byte, a panic, or exhausted
//! memory.

use std::io::Write as _;
use std::time::{Duration, Instant};

use shardine_remote::{RemoteStore, StoreOptions};
use shardine_store::{Buffer, Condition, ReadRange, Store as _, StoreError, StoreExt as _};

use super::server::{Request, Server, answer};
use super::{key, pattern, store, within};

const LEN: u64 = 1000;

fn options() -> StoreOptions {
    StoreOptions::new()
        .with("max_retries", "1")
        .with("retry_timeout", "5")
        .with("read_timeout", "2")
}

fn over_http(server: &Server) -> RemoteStore {
    store(&server.url(), &options())
}

fn over_s3(server: &Server) -> RemoteStore {
    let options = options()
        .with("aws_endpoint", &server.url())
        .with("aws_access_key_id", "k")
        .with("aws_secret_access_key", "s3cr3t")
        .with("aws_region", "us-east-1");
    store("s3://bucket/data", &options)
}

/// All kinds of reads that could get a wrong answer.
fn reads() -> Vec<ReadRange> {
    vec![
        ReadRange::All,
        ReadRange::Bounded(100..200),
        ReadRange::Suffix(100),
        ReadRange::Head { need: 10, most: 100 },
        ReadRange::Tail { need: 10, most: 100 },
        ReadRange::Bounded(5..5),
    ]
}

/// What a read must return if it returns anything.
fn truth(range: &ReadRange) -> Vec<u8> {
    let range = range.resolve(&key("o"), LEN).unwrap();
    pattern(LEN as usize, 1)[range.start as usize..range.end as usize].to_vec()
}

/// The answer of a well-behaved server.
fn honest(request: &Request, etag: &str) -> Vec<u8> {
    let data = pattern(LEN as usize, 1);
    let mut headers = vec![("Last-Modified", "Mon, 16 Nov 2026 00:00:00 GMT".to_owned())];
    if !etag.is_empty() {
        headers.push(("ETag", etag.to_owned()));
    }
    let (mut status, mut range) = ("200 OK", 0..LEN);
    if let Some((from, to)) = asked(request) {
        range = match (from, to) {
            (Some(from), to) => from..to.map_or(LEN, |to| LEN.min(to + 1)),
            (None, to) => LEN - to.unwrap_or(LEN).min(LEN)..LEN,
        };
        status = "206 Partial Content";
        headers.push(("Content-Range", format!("bytes {}-{}/{LEN}", range.start, range.end - 1)));
    }
    let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let body = &data[range.start as usize..range.end as usize];
    let mut text = answer(status, &headers, body);
    if request.method == "HEAD" {
        text.truncate(text.len() - body.len());
    }
    text
}

fn asked(request: &Request) -> Option<(Option<u64>, Option<u64>)> {
    let (from, to) = request.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
    Some((from.parse().ok(), to.parse().ok()))
}

/// Makes all kinds of reads. Each is correct or fails, and none takes long. Returns the results.
fn judged(name: &str, server: Server) -> Vec<(ReadRange, Result<Buffer, StoreError>)> {
    let mut all = Vec::new();
    for store in [over_http(&server), over_s3(&server)] {
        for range in reads() {
            let start = Instant::now();
            let object = store.open(&key("o"), None).unwrap();
            let answer = object.read(range.clone());
            if let Ok(bytes) = &answer {
                assert_eq!(**bytes, truth(&range), "{name}: {range:?}");
            }
            // Later reads of the same object are correct as well.
            if let Ok(bytes) = object.read(ReadRange::Bounded(50..150)) {
                assert_eq!(*bytes, truth(&ReadRange::Bounded(50..150)), "{name} after {range:?}");
            }
            assert!(start.elapsed() < Duration::from_secs(25), "{name}: {range:?}");
            all.push((range, answer));
        }
    }
    all
}

/// All reads that need bytes fail.
fn fails(name: &str, server: Server) {
    for (range, answer) in judged(name, server) {
        if range != ReadRange::Bounded(5..5) {
            let error = answer.map(|bytes| bytes.len()).unwrap_err();
            assert!(error.to_string().contains("/o\""), "{name}: {range:?}: {error}");
        }
    }
}

/// A server that changes its answer to a range; the rest is honest.
fn twisted(twist: impl Fn(u64, u64) -> (String, Vec<u8>) + Send + Sync + 'static) -> Server {
    Server::start(move |request, stream| {
        let text = match asked(request) {
            Some((from, to)) if request.method == "GET" => {
                let from_end = LEN - to.unwrap_or(0).min(LEN);
                let to = if from.is_some() { to.unwrap_or(LEN - 1) } else { LEN - 1 };
                let (range, body) = twist(from.unwrap_or(from_end), to.min(LEN - 1));
                let headers = [
                    ("ETag", "\"a\""),
                    ("Content-Range", &range),
                    ("Last-Modified", "Mon, 16 Nov 2026 00:00:00 GMT"),
                ];
                answer("206 Partial Content", &headers, &body)
            }
            _ => honest(request, "\"a\""),
        };
        stream.write_all(&text)
    })
}

fn bytes_of(from: u64, to: u64) -> Vec<u8> {
    pattern(LEN as usize, 1)[from as usize..=to as usize].to_vec()
}

#[test]
fn an_honest_server_is_believed() {
    within(60, || {
        for etag in ["\"a\"", "W/\"a\"", ""] {
            let server =
                Server::start(move |request, stream| stream.write_all(&honest(request, etag)));
            for (range, answer) in judged("honest", server) {
                assert!(answer.is_ok(), "{etag} {range:?}: {answer:?}");
            }
        }
    });
}

/// Judges reads of ranges only; `All` is answered honestly by twisted servers.
fn ranges_fail(name: &'static str, server: Server) {
    for (range, answer) in judged(name, server) {
        let asks = !matches!(range, ReadRange::All | ReadRange::Bounded(_))
            || range == ReadRange::Bounded(100..200);
        assert_eq!(answer.is_err(), asks, "{name}: {range:?}: {answer:?}");
    }
}

#[test]
fn ranges_that_were_not_asked_for_are_refused() {
    let of = |from: u64, to: u64| format!("bytes {from}-{to}/{LEN}");
    let cases: Vec<(&str, Server)> = vec![
        (
            "another range",
            twisted(move |from, to| {
                (of(from - from.min(1), to - 1), bytes_of(from - from.min(1), to - 1))
            }),
        ),
        ("shorter than claimed", twisted(move |from, to| (of(from, to), bytes_of(from, to - 1)))),
        (
            "longer than claimed",
            twisted(move |from, to| (of(from, to), [bytes_of(from, to), vec![7; 50]].concat())),
        ),
        ("a shorter range", twisted(move |from, to| (of(from, to - 1), bytes_of(from, to - 1)))),
        (
            "a range that ends before it begins",
            twisted(move |from, to| (of(to, from), bytes_of(from, to))),
        ),
        (
            "a range to the end of numbers",
            twisted(move |from, to| {
                (format!("bytes {from}-{}/{}", u64::MAX, u64::MAX), bytes_of(from, to))
            }),
        ),
        (
            "an object of another length",
            twisted(move |from, to| {
                (format!("bytes {from}-{to}/{}", to.max(from)), bytes_of(from, to))
            }),
        ),
        ("no numbers", twisted(move |from, to| ("bytes a-b/c".to_owned(), bytes_of(from, to)))),
        (
            "an unknown length",
            twisted(move |from, to| (format!("bytes {from}-{to}/*"), bytes_of(from, to))),
        ),
        (
            "another unit",
            twisted(move |from, to| (format!("lines {from}-{to}/{LEN}"), bytes_of(from, to))),
        ),
        ("nothing", twisted(move |from, to| (of(from, to), Vec::new()))),
    ];
    within(110, move || side_by_side(cases, ranges_fail));
}

fn side_by_side(cases: Vec<(&'static str, Server)>, judge: fn(&'static str, Server)) {
    std::thread::scope(|scope| {
        for (name, server) in cases {
            scope.spawn(move || judge(name, server));
        }
    });
}

#[test]
fn a_server_without_ranges_is_said_to_be_one() {
    within(60, || {
        let server = Server::start(|request, stream| {
            let plain = Request { headers: Vec::new(), ..request.clone() };
            stream.write_all(&honest(&plain, "\"a\""))
        });
        for (range, answer) in judged("no ranges", server) {
            if let Err(error) = &answer {
                let text = error.to_string().to_lowercase();
                assert!(text.contains("range"), "{range:?}: {text}");
            }
        }
    });
}

#[test]
fn what_is_no_answer_is_an_error() {
    let endless = || {
        Server::start(|_, stream| {
            stream.write_all(
                b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\nTransfer-Encoding: chunked\r\n\r\n",
            )?;
            loop {
                stream.write_all(b"400\r\n")?;
                stream.write_all(&[0x55; 0x400])?;
                stream.write_all(b"\r\n")?;
            }
        })
    };
    let head = "Last-Modified: Mon, 16 Nov 2026 00:00:00 GMT\r\nETag: \"a\"\r\n";
    let absurd = |status: &str, range: &str| {
        Server::saying(format!(
            "HTTP/1.1 {status}\r\n{head}{range}Content-Length: 1000000000000000000\r\n\r\nxyz"
        ))
    };
    let cases = vec![
        ("garbage", Server::saying("\0\u{1}\u{2} this is not HTTP\r\n\r\n")),
        ("silence", Server::saying("")),
        ("half a head", Server::saying("HTTP/1.1 200 OK\r\nContent-Le")),
        (
            "a head without an end",
            Server::start(|_, stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
                for i in 0.. {
                    write!(stream, "X-Header-{i}: {i}\r\n")?;
                }
                Ok(())
            }),
        ),
        ("an endless body", endless()),
        ("no length", Server::saying(format!("HTTP/1.1 200 OK\r\n{head}\r\nabc"))),
        ("an absurd length", absurd("200 OK", "")),
        (
            "an absurd range",
            absurd(
                "206 Partial Content",
                "Content-Range: bytes 0-999999999999999999/1000000000000000000\r\n",
            ),
        ),
        (
            "two lengths",
            Server::saying(format!(
                "HTTP/1.1 200 OK\r\n{head}Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde"
            )),
        ),
        (
            "a negative length",
            Server::saying(format!("HTTP/1.1 200 OK\r\n{head}Content-Length: -3\r\n\r\nabc")),
        ),
        (
            "a redirect to itself",
            Server::start(|request, stream| {
                let target = format!("/again{}", request.target);
                stream.write_all(&answer("302 Found", &[("Location", &target)], b""))
            }),
        ),
        ("a redirect to nowhere", Server::saying(answer("302 Found", &[], b""))),
        ("416 without a length", Server::saying(answer("416 Range Not Satisfiable", &[], b""))),
        (
            "416 with a length",
            Server::saying(answer(
                "416 Range Not Satisfiable",
                &[("Content-Range", "bytes */1000"), ("ETag", "\"a\"")],
                b"",
            )),
        ),
        ("204", Server::saying("HTTP/1.1 204 No Content\r\nETag: \"a\"\r\n\r\n")),
        ("304", Server::saying("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n")),
        ("999", Server::saying("HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n")),
        ("only 100", Server::saying("HTTP/1.1 100 Continue\r\n\r\n")),
        (
            "a date that is none",
            Server::saying(answer("200 OK", &[("Last-Modified", "yesterday")], &[1; 999])),
        ),
    ];
    within(110, move || side_by_side(cases, fails));
}

#[test]
fn an_endless_error_takes_no_more_memory_than_it_says() {
    within(60, || {
        let server = Server::start(|_, stream| {
            stream.write_all(b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            loop {
                stream.write_all(b"10000\r\n")?;
                stream.write_all(&[0x55; 0x10000])?;
                stream.write_all(b"\r\n")?;
            }
        });
        for store in [over_http(&server), over_s3(&server)] {
            let error = store.get(&key("o")).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("403") && text.len() < 2000, "{text}");
        }
        let s3 = over_s3(&server);
        s3.put(&key("o"), b"abc", Condition::None).unwrap_err();
        s3.delete(&key("o"), &Condition::None).unwrap_err();
        s3.list(None).unwrap_err();
    });
}

#[test]
fn a_page_that_is_no_text_does_not_hide_the_status() {
    within(30, || {
        let server =
            Server::saying(answer("404 Not Found", &[], b"Seite nicht gefunden: \xfc\xff"));
        for store in [over_http(&server), over_s3(&server)] {
            assert!(store.get(&key("o")).unwrap().is_none());
        }
    });
}

#[test]
fn a_version_that_changes_with_each_answer_is_noticed() {
    within(60, || {
        let server = Server::start(|request, stream| {
            stream.write_all(&honest(request, &format!("\"{}\"", request.number)))
        });
        for store in [over_http(&server), over_s3(&server)] {
            let object = store.open(&key("o"), None).unwrap();
            object.read(ReadRange::Bounded(0..10)).unwrap();
            let error = object.read(ReadRange::Bounded(10..20)).unwrap_err();
            assert!(matches!(error, StoreError::Changed { .. }), "{error:?}");
        }
        // Between two pieces of one read as well: a body that breaks off is not resumed from
        // another version.
        let server = Server::start(|request, stream| {
            let text = honest(request, &format!("\"{}\"", request.number));
            let cut = if request.method == "GET" { text.len() - 300 } else { text.len() };
            stream.write_all(&text[..cut])
        });
        for store in [over_http(&server), over_s3(&server)] {
            store.open(&key("o"), None).unwrap().read(ReadRange::All).unwrap_err();
        }
    });
}

#[test]
fn answers_to_writes_that_say_nothing_are_no_success_of_others() {
    within(60, || {
        // Answers 200 to everything, without an ETag, and never has anything.
        let server = Server::saying(answer("200 OK", &[], b""));
        let store = over_s3(&server);
        store.put(&key("o"), b"abc", Condition::Absent).unwrap_err();
        store.put(&key("o"), b"abc", Condition::None).unwrap_err();
        store.put(&key("o"), &pattern(9 << 20, 1), Condition::None).unwrap_err();
        store.list(None).unwrap_err();
        let server = Server::saying("");
        let store = over_s3(&server);
        store.put(&key("o"), b"abc", Condition::None).unwrap_err();
        store.put(&key("o"), b"abc", Condition::Absent).unwrap_err();
        store.delete(&key("o"), &Condition::None).unwrap_err();
        store.list(None).unwrap_err();
    });
}
