//! Any bytes as a script of a Redis client.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| everleaf_fuzz::server::lua(bytes));
