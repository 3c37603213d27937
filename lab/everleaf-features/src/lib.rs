//! Nothing but its dependencies: the features that the packages of the product ask of crates which
//! several of them have. Each package's tests depend on it, so the tests of all share one build of
//! the store; without it `cargo test -p everleaf-c` and `cargo test -p everleaf-server` would each
//! compile their own.
