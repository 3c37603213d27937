//! Any dump, and any file of `load`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| everleaf_fuzz::text::load(bytes));
