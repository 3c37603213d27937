//! A damaged pool gives errors: never a panic, never a hang, never the value of another key.
//!
//! `random` is the property, over thousands of seeds: `EVERLEAF_DAMAGE_SEEDS=100000` runs more of
//! them, `EVERLEAF_DAMAGE_SEEDS=17..18` one again. `words` goes through single words: header,
//! allocator, records, entries. Map of the files: `images` (pools to be damaged) · `harm` (what is
//! done to them) · `random` · `words` · `pages` (every command of every engine ends).

mod harm;
mod images;
mod pages;
mod random;
mod words;
