//! Any pool file, opened and used.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| everleaf_fuzz::pool::open_and_use(bytes));
