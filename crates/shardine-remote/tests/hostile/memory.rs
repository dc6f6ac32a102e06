//! Uploads use no more memory than allowed.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardine_store::{CreateOptions, Store as _};

use super::common::s3_options;
use super::server::answer;
use super::{in_child, key, store, told, within};

const MEMORY: u64 = 16 << 20;
const OBJECT: u64 = 200 << 20;

/// A server that slowly accepts parts and discards them. Records the maximum number of bytes that
/// were in transit to it at the same time.
fn sink() -> (std::net::SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let most = Arc::new(AtomicU64::new(0));
    let (peak, now) = (Arc::clone(&most), Arc::new(AtomicU64::new(0)));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (peak, now) = (Arc::clone(&peak), Arc::clone(&now));
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap().to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: u64 = length.map_or(0, |text| text.parse().unwrap());
                peak.fetch_max(now.fetch_add(length, Ordering::SeqCst) + length, Ordering::SeqCst);
                std::io::copy(&mut (&stream).take(length), &mut std::io::sink()).unwrap();
                std::thread::sleep(Duration::from_millis(20));
                now.fetch_sub(length, Ordering::SeqCst);
                let text = if head.contains("?uploads") {
                    "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
                } else {
                    "<CompleteMultipartUploadResult><ETag>&quot;a&quot;</ETag></CompleteMultipartUploadResult>"
                };
                drop(stream.write_all(&answer("200 OK", &[("ETag", "\"a\"")], text.as_bytes())));
            });
        }
    });
    (addr, most)
}

#[test]
fn a_large_object_is_written_in_bounded_memory() {
    within(60, || {
        let (addr, most) = sink();
        let text = in_child("memory::write_much", &[("HOSTILE_ADDR", &addr.to_string())]);
        let number = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse().unwrap()
        };
        let most = most.load(Ordering::SeqCst);
        assert!(most <= MEMORY && most > MEMORY / 2, "{most} bytes were on their way at once");
        // One part is filled in the meantime, and bytes pass through buffers.
        let grown = number("after:") - number("before:");
        assert!(grown < MEMORY + (24 << 20), "{} MiB", grown >> 20);
    });
}

/// The peak memory of this process.
pub fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn write_much() {
    let Some(addr) = told("HOSTILE_ADDR") else { return };
    let options = s3_options(addr.parse().unwrap()).with("part_size", "5242880").memory(MEMORY);
    let store = store("s3://bucket/data", &options);
    let piece = vec![7; 1 << 20];
    println!("\nbefore:{}", peak());
    let head = CreateOptions { head: 1000, ..CreateOptions::default() };
    let writer = store.create(&key("o"), head).unwrap();
    for _ in 0..OBJECT / piece.len() as u64 {
        writer.append(&piece).unwrap();
    }
    store.publish(vec![writer.finish(&[1; 1000]).unwrap()]).unwrap();
    println!("after:{}", peak());
}
