//! Planted mistakes: whether the tests notice what a programmer could have done wrong.
//!
//! A place of the code where a mistake can be planted asks for its number, and does the wrong thing
//! if that is the one that `EVERLEAF_PLANTED` names. Only a build with `--cfg planted` knows of it;
//! `lab/everleaf-testkit/planted.tsv` lists the mistakes, and `planted.sh` makes them.

/// Whether the mistake of this number is to be made: never, and nothing of it is compiled.
#[cfg(not(planted))]
#[doc(hidden)]
#[inline(always)]
pub const fn planted(_: u32) -> bool {
    false
}

/// Whether the mistake of this number is to be made.
#[cfg(planted)]
#[doc(hidden)]
pub fn planted(number: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
    let chosen = || std::env::var("EVERLEAF_PLANTED").ok().and_then(|text| text.parse().ok());
    *CHOSEN.get_or_init(chosen) == Some(number)
}

/// What is done for the mistake of this number only.
#[doc(hidden)]
#[macro_export]
macro_rules! planted {
    ($number:literal, $wrong:expr) => {
        if $crate::planted($number) {
            $wrong;
        }
    };
}

/// What is done, and left out for the mistake of this number.
#[doc(hidden)]
#[macro_export]
macro_rules! unless_planted {
    ($number:literal, $right:expr) => {
        if !$crate::planted($number) {
            $right;
        }
    };
}
