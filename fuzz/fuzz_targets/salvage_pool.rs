//! Any pool file, salvaged.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| everleaf_fuzz::pool::salvage(bytes));
