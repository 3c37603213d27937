//! Any bytes of a memcached client.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| everleaf_fuzz::server::memcached(bytes));
