#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| shardine_fuzz::metadata_v2::run(input));
