//! What a signal that ends a command leaves behind: nothing that the command made for itself.

use crate::common::Bench;
use crate::common::ended::{SIGTERM, interrupt, made_and_removed};

#[test]
fn commands_that_are_ended_remove_what_they_made_at_a_given_place() {
    made_and_removed(&["torture", "--kills", "1000000", "--pool", "scratch"], SIGTERM);
    made_and_removed(&["bench", "space", "--keys", "200000", "--pool", "scratch"], interrupt());
    made_and_removed(&["bench", "growth", "--to", "1GiB", "--pool", "scratch"], SIGTERM);
    made_and_removed(&["bench", "report", "--output", "page.html"], SIGTERM);
    made_and_removed(&["bench", "figure", "fptree-7", "--folder", "new/below"], interrupt());
    // A folder with files, which only the peers have.
    let store = if cfg!(feature = "peers") { "fjall" } else { "store" };
    made_and_removed(
        &["bench", "stores", "--engines", store, "--keys", "200000", "--pool", "scratch"],
        SIGTERM,
    );
}

#[test]
fn what_somebody_else_has_at_the_place_is_left_alone() {
    let bench = Bench::new();
    bench.write("scratch", "precious");
    assert!(
        bench.fails(["torture", "--kills", "1", "--pool", "scratch"]).contains("exists already")
    );
    assert_eq!(crate::common::content(&bench.path("scratch")), b"precious");
}
