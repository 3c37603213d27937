//! Any script of the explorer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| everleaf_fuzz::text::script(bytes));
