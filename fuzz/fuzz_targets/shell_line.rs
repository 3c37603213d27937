//! Any lines of the shell.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| everleaf_fuzz::text::shell(bytes));
