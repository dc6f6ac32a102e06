//! Sharded chunk storage.
