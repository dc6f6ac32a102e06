//! Remote stores on real servers keep the promises of every store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::{azure, fresh, s3};
use shardine_store::conformance;

#[test]
fn s3_keeps_the_promises() {
    for check in conformance::checks() {
        // S3 has no folders, but this server does, and lists an empty one for a while.
        if check.name != "the_name_of_a_removed_folder_is_free_for_an_object" {
            (check.run)(&|| Box::new(s3(&fresh("s3"))));
        }
    }
}

#[test]
fn azure_keeps_the_promises() {
    conformance::run(|| Box::new(azure(&fresh("azure"))));
}
