//! Any log beside a pool, opened, read and salvaged.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| everleaf_fuzz::log::open_and_salvage(bytes));
