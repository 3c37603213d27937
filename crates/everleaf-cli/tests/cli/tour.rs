//! The tour runs without a terminal, says what it did, and leaves nothing behind.

use crate::common::Bench;

#[test]
fn the_tour_does_what_it_says_and_removes_what_it_made() {
    let bench = Bench::new();
    let said = bench.ok(["tour", "--pool", "toured"]);
    for sentence in [
        "Loaded 52,872 English words",
        "killed it (SIGKILL)",
        "left by a crash",
        "acknowledged inserts are there",
        "all is well",
        "Removed",
    ] {
        assert!(said.contains(sentence), "{sentence}: {said}");
    }
    assert!(!bench.path("toured").exists());
}

#[test]
fn the_tour_finds_a_place_of_its_own() {
    let bench = Bench::new();
    let said = bench.ok(["tour"]);
    let path = said
        .lines()
        .find_map(|line| line.strip_prefix("1. Made the pool "))
        .and_then(|line| line.split(' ').next())
        .unwrap();
    assert!(
        !std::path::Path::new(path).exists()
            && !std::path::Path::new(path).parent().unwrap().exists(),
        "{path}"
    );
}

#[test]
fn the_tour_leaves_a_file_that_exists_alone() {
    let bench = Bench::new();
    bench.write("mine", "precious");
    assert!(bench.fails(["tour", "--pool", "mine"]).contains("exists already"));
    assert_eq!(crate::common::content(&bench.path("mine")), b"precious");
}
