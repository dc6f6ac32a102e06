//! The cost of requests to a store, measured while they are made.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The weight of a new measurement.
const WEIGHT: f64 = 0.2;

/// The size in bytes from which an answer says something about bandwidth.
const TELLING: u64 = 128 << 10;

/// The bounds, in bytes, of what a request is considered worth: a measurement may be a fluke; bytes
/// read in vain cost money, if not time; and the work of both machines for a request has its cost
/// at any distance.
const WORTH: (f64, f64) = (524_288.0, 4_194_304.0);

/// The latency and bandwidth of the connection to a store.
#[derive(Debug)]
pub(crate) struct Cost(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Seconds from a request to the head of its answer.
    latency: f64,
    /// Bytes per second, of all concurrent answers together.
    bandwidth: f64,
    measured: bool,
    /// Answers whose bodies are arriving.
    arriving: u32,
}

impl Default for Cost {
    /// Typical of a large store in the same region, until measured.
    fn default() -> Self {
        Self(Mutex::new(State { latency: 0.025, bandwidth: 80e6, measured: false, arriving: 0 }))
    }
}

impl Cost {
    /// Bytes that arrive in the time of a request's overhead.
    pub fn request_in_bytes(&self) -> u64 {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (state.latency * state.bandwidth).clamp(WORTH.0, WORTH.1) as u64
    }

    /// Records how long after the request the head of its answer arrived.
    pub fn head(&self, after: Duration) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let weight = if state.measured { WEIGHT } else { 1.0 };
        state.latency += weight * (after.as_secs_f64() - state.latency);
        state.measured = true;
    }

    /// Records that a body begins to arrive.
    pub fn arriving(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).arriving += 1;
    }

    /// Records that the body of an answer arrived, or will not.
    pub fn body(&self, bytes: u64, took: Duration) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let beside = f64::from(state.arriving.max(1));
        state.arriving = state.arriving.saturating_sub(1);
        if bytes >= TELLING {
            // Concurrent bodies share the connection.
            let bandwidth = bytes as f64 / took.as_secs_f64().max(1e-6) * beside;
            state.bandwidth += WEIGHT * (bandwidth.min(1e10) - state.bandwidth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_store_makes_gaps_worth_reading_and_a_near_one_does_not() {
        let (near, far) = (Cost::default(), Cost::default());
        for _ in 0..50 {
            near.head(Duration::from_micros(500));
            near.arriving();
            near.body(1 << 20, Duration::from_millis(10));
            far.head(Duration::from_millis(80));
            far.arriving();
            far.body(1 << 20, Duration::from_millis(40));
        }
        assert_eq!(near.request_in_bytes(), 524_288);
        let expected = 0.08 * (1u64 << 20) as f64 / 0.04;
        let worth = far.request_in_bytes() as f64;
        assert!((worth / expected - 1.0).abs() < 0.01, "{worth}");
    }

    #[test]
    fn bodies_that_come_at_once_share_the_way() {
        let cost = Cost::default();
        for _ in 0..50 {
            cost.head(Duration::from_millis(10));
            (0..4).for_each(|_| cost.arriving());
            cost.body(1 << 20, Duration::from_millis(40));
            (0..3).for_each(|_| cost.body(0, Duration::ZERO));
        }
        let expected = 0.01 * 4.0 * (1u64 << 20) as f64 / 0.04;
        assert!((cost.request_in_bytes() as f64 / expected - 1.0).abs() < 0.01);
    }
}
