//! What a signal that ends a command leaves behind: nothing that the command made for itself.

use std::process::Stdio;

use crate::common::ended::{SIGTERM, interrupt, made_and_removed, names};
use crate::common::{Bench, json};

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

#[test]
fn what_a_killed_benchmark_leaves_is_opened_again() {
    let bench = Bench::new();
    let stores = ["bench", "stores", "--durability", "buffered", "--keys", "200000"];
    for engine in if cfg!(feature = "peers") { &["store", "fjall", "lmdb"][..] } else { &["store"] }
    {
        let of = [&stores[..], &["--engines", engine]].concat();
        let given = [&of[..], &["--pool", engine]].concat();
        let mut child =
            bench.command(&given).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Before, the medium is looked at, by a file that goes.
        let is_filled = |name: &String| {
            name.starts_with(engine)
                && bench.path(name).read_dir().is_ok_and(|mut folder| folder.next().is_some())
        };
        let left = || names(&bench).into_iter().find(is_filled);
        while left().is_none() {
            assert!(child.try_wait().unwrap().is_none(), "{engine} ended");
            std::thread::yield_now();
        }
        // What is being made may not be a store yet.
        std::thread::sleep(std::time::Duration::from_millis(500));
        child.kill().unwrap();
        child.wait().unwrap();
        let left = left().unwrap();
        let opened = json(&bench.ok([&of[..], &["--json", "--reopen", &left]].concat()));
        assert!(opened["open_ms"].as_f64() > Some(0.0) && opened["keys"].is_u64(), "{opened:?}");
        assert!(bench.path(&left).exists());
    }
    let refused = |more: &[&str]| bench.refused([&stores[..], more].concat());
    assert!(refused(&["--reopen", "x"]).contains("--reopen is of one store"));
    let fails = |more: &[&str]| bench.fails([&stores[..], more].concat());
    assert!(fails(&["--engines", "store", "--reopen", "nowhere"]).contains("nowhere"));
}
