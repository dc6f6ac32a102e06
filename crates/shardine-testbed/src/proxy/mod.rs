//! A network between a client and a server: far away, narrow, and failing on demand.

mod connection;
mod fault;
mod pace;
mod record;

use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Result;
use crate::error::Attempt as _;
use crate::ports::local;

pub use fault::{Fault, Faults, Rule};
pub use record::Recorded;

use fault::Plan;
use pace::Pace;
use record::Log;

/// The properties of the network.
#[derive(Debug, Clone, Default)]
pub struct ProxyOptions {
    /// The port to listen on; 0 for any free one.
    pub port: u16,
    /// How long each answer is held back before its first byte is passed on. Requests on different
    /// connections do not delay each other.
    pub latency: Duration,
    /// Bandwidth of each connection, in bytes per second and direction.
    pub connection_bandwidth: Option<u64>,
    /// Bandwidth of all connections together, in bytes per second and direction.
    pub total_bandwidth: Option<u64>,
    /// The faults to inject.
    pub faults: Faults,
}

/// An HTTP/1.1 proxy on 127.0.0.1 in front of one server.
///
/// Messages pass unchanged, with the client's `Host` header, so that the server can check
/// signatures made for the proxy's address. Each client connection has a thread, and one connection
/// to the server that is kept as long as the client's. Bodies pass in pieces of up to 256 KiB.
///
/// `GET /__proxy/log` returns the recorded requests as JSON, and `/__proxy/reset` forgets them;
/// neither is recorded or delayed. Dropping the proxy closes all connections.
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// The state shared by the threads of a proxy.
struct Shared {
    upstream: SocketAddr,
    stopped: AtomicBool,
    latency: Mutex<Duration>,
    connection_bandwidth: Option<u64>,
    total: [Option<Pace>; 2],
    plan: Mutex<Plan>,
    log: Mutex<Log>,
    /// The sockets of clients, to close them at the end.
    open: Mutex<HashMap<u64, TcpStream>>,
}

/// The value in a mutex, even if a thread died while holding it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// Listens, and forwards everything to `upstream`.
    pub fn start(upstream: SocketAddr, options: ProxyOptions) -> Result<Self> {
        let listener = TcpListener::bind(local(options.port)).attempt("cannot listen")?;
        let addr = listener.local_addr().attempt("cannot listen")?;
        let pace = || options.total_bandwidth.map(Pace::new);
        let shared = Arc::new(Shared {
            upstream,
            stopped: AtomicBool::new(false),
            latency: Mutex::new(options.latency),
            connection_bandwidth: options.connection_bandwidth,
            total: [pace(), pace()],
            plan: Mutex::new(Plan::new(options.faults)),
            log: Mutex::new(Log::new()),
            open: Mutex::new(HashMap::new()),
        });
        let acceptor = std::thread::Builder::new()
            .name("proxy".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || accept(&listener, &shared)
            })
            .attempt("cannot start a thread")?;
        Ok(Self { addr, shared, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// All requests since the start or the last [`reset`](Self::reset), in the order in which their
    /// heads arrived. A request whose answer has reached the client is complete here.
    pub fn requests(&self) -> Vec<Recorded> {
        lock(&self.shared.log).all()
    }

    /// The number of requests.
    pub fn count(&self) -> usize {
        self.count_where(|_| true)
    }

    /// The number of requests with this method.
    pub fn count_of(&self, method: &str) -> usize {
        self.count_where(|request| request.method == method)
    }

    /// The number of requests that satisfy a condition.
    pub fn count_where(&self, condition: impl Fn(&Recorded) -> bool) -> usize {
        lock(&self.shared.log).iter().filter(|request| condition(request)).count()
    }

    /// The bytes of bodies passed on to clients.
    pub fn bytes_received(&self) -> u64 {
        lock(&self.shared.log).iter().map(|request| request.received).sum()
    }

    /// The bytes of bodies sent by clients.
    pub fn bytes_sent(&self) -> u64 {
        lock(&self.shared.log).iter().map(|request| request.sent).sum()
    }

    /// Forgets all requests. The counters of rules are kept.
    pub fn reset(&self) {
        lock(&self.shared.log).reset();
    }

    /// Replaces the faults from the next request on; counting starts over.
    pub fn set_faults(&self, faults: Faults) {
        *lock(&self.shared.plan) = Plan::new(faults);
    }

    /// Sets how long answers are held back, from the next one on.
    pub fn set_latency(&self, latency: Duration) {
        *lock(&self.shared.latency) = latency;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Only a connection wakes up the acceptor.
        let _ = TcpStream::connect(self.addr);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        for (_, socket) in lock(&self.shared.open).drain() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut number = 0u64;
    loop {
        let accepted = listener.accept();
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok((client, _)) = accepted else {
            // Too many open files, most likely.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        number += 1;
        if let Ok(handle) = client.try_clone() {
            lock(&shared.open).insert(number, handle);
        }
        let (shared, id) = (Arc::clone(shared), number);
        let serve = move || {
            connection::serve(client, &shared);
            lock(&shared.open).remove(&id);
        };
        if std::thread::Builder::new().name("proxy connection".into()).spawn(serve).is_err() {
            return;
        }
    }
}
