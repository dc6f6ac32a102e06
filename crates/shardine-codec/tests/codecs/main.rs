//! The codecs against their promises: round trips, damage, limits, configurations, and the bytes
//! that numcodecs writes.

mod golden;
mod round_trip;
mod support;
