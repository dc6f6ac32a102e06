//! Stores on real servers.
#![allow(dead_code, reason = "each test uses some of it")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use shardine_remote::{RemoteStore, StoreOptions};
use shardine_testbed::{Azurite, Proxy, ProxyOptions, SeaweedFs};

pub const BUCKET: &str = "tests";

/// A prefix that no other test of this or another run uses.
pub fn fresh(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{}-{number}", std::process::id())
}

pub fn seaweed() -> &'static SeaweedFs {
    static BUCKET_MADE: std::sync::OnceLock<()> = std::sync::OnceLock::new();
    let server = SeaweedFs::shared().unwrap();
    BUCKET_MADE.get_or_init(|| server.create_bucket(BUCKET).unwrap());
    server
}

/// Options for S3 at an address.
pub fn s3_options(addr: SocketAddr) -> StoreOptions {
    StoreOptions::new()
        .with("aws_endpoint", &format!("http://{addr}"))
        .with("aws_access_key_id", "testkey")
        .with("aws_secret_access_key", "testsecret")
        .with("aws_region", "us-east-1")
        .with("retry_timeout", "60")
}

/// A store below its own prefix on S3.
pub fn s3(prefix: &str) -> RemoteStore {
    let url = format!("s3://{BUCKET}/{prefix}");
    RemoteStore::new(&url, &s3_options(seaweed().addr())).unwrap()
}

/// A proxy in front of S3.
pub fn s3_proxy() -> Proxy {
    Proxy::start(seaweed().addr(), ProxyOptions::default()).unwrap()
}

/// The same store through a proxy.
pub fn s3_through(proxy: &Proxy, prefix: &str) -> RemoteStore {
    RemoteStore::new(&format!("s3://{BUCKET}/{prefix}"), &s3_options(proxy.addr())).unwrap()
}

pub fn azurite() -> &'static Azurite {
    static CONTAINER_MADE: std::sync::OnceLock<()> = std::sync::OnceLock::new();
    let server = Azurite::shared().unwrap();
    CONTAINER_MADE.get_or_init(|| server.create_container(BUCKET).unwrap());
    server
}

/// A store below its own prefix on Azure.
pub fn azure(prefix: &str) -> RemoteStore {
    let server = azurite();
    let options = StoreOptions::new()
        .with("azure_storage_account_name", Azurite::ACCOUNT)
        .with("azure_storage_account_key", Azurite::KEY)
        .with("azure_storage_endpoint", &server.endpoint());
    RemoteStore::new(&format!("az://{BUCKET}/{prefix}"), &options).unwrap()
}
