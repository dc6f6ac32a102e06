//! What the tests and benchmarks of remote stores run against: real servers on this machine, and a
//! network that is far away and fails on demand.
//!
//! [`SeaweedFs`] (S3), [`Azurite`] (Azure) and [`Nginx`] (plain HTTP) are processes that end when
//! their value is dropped, and also when the process that started them dies in any way. They listen
//! on 127.0.0.1 only. `cargo xtask servers` installs them.
//!
//! A [`Proxy`] can be put in front of any of them: it records requests, adds latency, limits
//! bandwidth and injects faults.

mod azurite;
mod error;
mod http;
mod message;
mod nginx;
mod ports;
mod process;
mod program;
mod proxy;
mod seaweed;

pub use azurite::Azurite;
pub use error::BedError;
pub use http::{Answer, request};
pub use nginx::{Nginx, NginxOptions};
pub use proxy::{Fault, Faults, Proxy, ProxyOptions, Recorded, Rule};
pub use seaweed::SeaweedFs;

/// The result of an operation on a test bed.
pub type Result<T> = std::result::Result<T, BedError>;
