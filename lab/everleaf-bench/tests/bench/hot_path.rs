//! Counting costs a timed run nothing: on `Mapped`, the operations that count compile to no
//! instructions.
//!
//! Pairs of functions, one that calls an operation that counts and one that does not, are compared
//! by their machine code, which is read from the symbols of this very program. The same pairs on
//! `Instrumented` differ, so the comparison can fail.

use std::hint::black_box;

use everleaf_crash::Instrumented;
use everleaf_pmem::{Counter, Cpu, Mapped, Media, PCell, PPtr, Region, site};
use object::{Object, ObjectSection, ObjectSymbol};

/// Functions of a media: with an operation that counts, and without.
macro_rules! pairs {
    ($($media:ty: $counting:ident $quiet:ident $named:ident $otherwise_named:ident;)*) => {$(
        #[inline(never)]
        fn $counting(media: &$media, cell: &PCell<u64>) -> u64 {
            let value = media.load(cell);
            media.count(Counter::LeafProbes, 1);
            media.count(Counter::EntriesShifted, value);
            value.wrapping_mul(3)
        }
        #[inline(never)]
        fn $quiet(media: &$media, cell: &PCell<u64>) -> u64 {
            let value = media.load(cell);
            value.wrapping_mul(3)
        }
        #[inline(never)]
        fn $named(media: &$media, cell: &PCell<u64>) {
            media.store(cell, 7);
            media.flush(site!("test.hot_path.one"), cell);
            media.fence(site!("test.hot_path.two"));
            media.end_operation();
        }
        #[inline(never)]
        fn $otherwise_named(media: &$media, cell: &PCell<u64>) {
            media.store(cell, 7);
            media.flush(site!("test.hot_path.a_site_of_another_length"), cell);
            media.fence(site!("test.hot_path.three"));
        }
    )*};
}

pairs! {
    Mapped: hardware_counting hardware_quiet hardware_named hardware_otherwise_named;
    Instrumented: counted_counting counted_quiet counted_named counted_otherwise_named;
}

/// `lea rcx, [rip + ...]`: the place of a jump table is told by its distance, which depends on
/// where the function stands.
const TABLE: [u8; 3] = [0x48, 0x8d, 0x0d];

/// `call [rip + ...]`: of a function that was not inlined.
const CALL: [u8; 2] = [0xff, 0x15];

/// The machine code of the function whose symbol has this word in it, without distances to jump
/// tables. None if it has no symbol: an optimising build keeps one of two functions that are the
/// same.
fn code_of(program: &object::File<'_>, name: &str) -> Option<Vec<u8>> {
    let word = format!("{}{name}", name.len()); // As symbols spell names: `15hardware_quiet`.
    let symbol =
        program.symbols().find(|symbol| symbol.name().is_ok_and(|spelt| spelt.contains(&word)))?;
    let section = program.section_by_index(symbol.section_index().unwrap()).unwrap();
    let mut code = section.data_range(symbol.address(), symbol.size()).unwrap().unwrap().to_vec();
    assert!(!code.is_empty(), "{name}");
    for place in 0..code.len().saturating_sub(TABLE.len() + 4) {
        if code[place..].starts_with(&TABLE) {
            code[place + TABLE.len()..][..4].fill(0);
        }
    }
    // What is called through a table of addresses is told by its place, not by its distance.
    for place in 0..code.len().saturating_sub(CALL.len() + 4) {
        if code[place..].starts_with(&CALL) {
            let distance = &mut code[place + CALL.len()..][..4];
            let behind = (symbol.address() as u32).wrapping_add(place as u32 + 6);
            let ahead = u32::from_le_bytes(distance.try_into().unwrap());
            distance.copy_from_slice(&behind.wrapping_add(ahead).to_le_bytes());
        }
    }
    Some(code)
}

/// Whether two functions are the same instructions; at least one of them must be there.
fn are_same(program: &object::File<'_>, one: &str, other: &str) -> bool {
    match (code_of(program, one), code_of(program, other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => panic!("no symbol of {one} nor of {other}"),
        _ => true,
    }
}

#[test]
fn operations_that_count_are_no_instructions_in_a_timed_run() {
    let cpu = Cpu::detect();
    let region = || Region::anonymous(1 << 16, 1 << 20).unwrap();
    let hardware = Mapped::new(region(), &cpu).unwrap();
    let counted = Instrumented::counting(Mapped::new(region(), &cpu).unwrap());
    // All of them are called, so that all of them are there.
    for _ in 0..2 {
        let cell = hardware.region().get::<PCell<u64>>(PPtr::at(64)).unwrap();
        assert_eq!(
            black_box(hardware_counting)(&hardware, cell),
            black_box(hardware_quiet)(&hardware, cell)
        );
        black_box(hardware_named)(&hardware, cell);
        black_box(hardware_otherwise_named)(&hardware, cell);
        let cell = counted.region().get::<PCell<u64>>(PPtr::at(64)).unwrap();
        assert_eq!(
            black_box(counted_counting)(&counted, cell),
            black_box(counted_quiet)(&counted, cell)
        );
        black_box(counted_named)(&counted, cell);
        black_box(counted_otherwise_named)(&counted, cell);
    }
    assert_eq!(counted.counts().event(Counter::LeafProbes), 2);

    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let program = object::File::parse(&*bytes).unwrap();
    let same = |one, other| are_same(&program, one, other);
    assert!(same("hardware_counting", "hardware_quiet"), "counting an event");
    assert!(
        same("hardware_named", "hardware_otherwise_named"),
        "names of sites, and the end of an operation"
    );
    assert!(
        !same("counted_counting", "counted_quiet"),
        "otherwise nothing would have been compared"
    );
    assert!(
        !same("counted_named", "counted_otherwise_named"),
        "otherwise nothing would have been compared"
    );
}
