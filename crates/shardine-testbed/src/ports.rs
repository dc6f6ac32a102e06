//! Ports that nobody else on this machine is about to take.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

use crate::{BedError, Result};

/// Below the ports that the kernel assigns to outgoing connections, which come and go.
const RANGE: std::ops::Range<u16> = 10_000..32_000;

/// How many ports are tried for each one needed.
const TRIES: usize = 200;

/// TCP ports of 127.0.0.1 that were free a moment ago, and that no other test bed will choose.
///
/// A server binds its ports only some time after they were chosen. Until this is dropped, it holds
/// the UDP ports with the same numbers, which HTTP servers do not use: that keeps other test beds
/// away, in any process.
pub(crate) struct Ports {
    held: Vec<(u16, UdpSocket)>,
}

impl Ports {
    pub fn reserve(wanted: usize) -> Result<Self> {
        let mut held = Vec::with_capacity(wanted);
        for _ in 0..wanted.saturating_mul(TRIES) {
            if held.len() == wanted {
                break;
            }
            let port = fastrand::u16(RANGE);
            let addr = local(port);
            if let Ok(socket) = UdpSocket::bind(addr)
                && TcpListener::bind(addr).is_ok()
            {
                held.push((port, socket));
            }
        }
        if held.len() < wanted {
            return Err(BedError::NoPorts { wanted });
        }
        Ok(Self { held })
    }

    /// The numbers, in the order in which they were drawn.
    pub fn numbers<const N: usize>(&self) -> [u16; N] {
        std::array::from_fn(|i| self.held.get(i).map_or(0, |(port, _)| *port))
    }
}

/// A port on this machine.
pub(crate) fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_are_held_are_not_given_to_others() {
        let all: Vec<Ports> = (0..20).map(|_| Ports::reserve(10).unwrap()).collect();
        let mut numbers: Vec<u16> = all.iter().flat_map(Ports::numbers::<10>).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 200);
    }
}
