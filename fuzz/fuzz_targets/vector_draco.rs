#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| shardine_fuzz::vector_draco::run(input));
