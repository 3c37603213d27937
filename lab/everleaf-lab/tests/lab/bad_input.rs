//! Wrong usage that all commands have in common.

use crate::common::Bench;

#[test]
fn an_unknown_engine_and_parameters_that_it_has_not_are_wrong_usage() {
    let bench = Bench::new();
    let with = |engine: &'static str| {
        [
            vec!["bench", "micro", "--keys", "10", "--engine", engine],
            vec!["explore", "--ops", "1", "--seed", "1", "--engine", engine],
            vec!["torture", "--kills", "1", "--engine", engine],
        ]
    };
    for (engine, said) in [("", "without a name"), ("bogus", "bogus")] {
        for command in with(engine) {
            let complaint = bench.refused(&command);
            assert!(
                complaint.contains(said) && complaint.contains("; choose "),
                "{command:?}: {complaint}"
            );
        }
    }
    let compare = ["bench", "compare", "--keys", "10", "--engines"];
    let complaint = bench.refused(compare.iter().chain(&["fptree,bogus"]));
    assert!(complaint.contains("bogus") && complaint.contains("; choose "), "{complaint}");
    let mixed = bench.refused(compare.iter().chain(&["btreemap,fptree", "--inner-keys", "64"]));
    assert!(mixed.contains("no parameter inner-keys"), "{mixed}");
    let explore = ["explore", "--ops", "1", "--seed", "1", "--engine", "fptree"];
    let tiny = bench.refused(explore.iter().chain(&["--leaf-slots", "5"]));
    assert!(tiny.contains("choose one of"), "{tiny}");
}

#[test]
fn help_shows_an_example_and_what_is_unknown_is_wrong_usage() {
    let bench = Bench::new();
    for command in ["bench", "explore", "torture"] {
        let help = bench.ok([command, "--help"]);
        assert!(help.contains("Example") && help.contains(&format!("everleaf-lab {command}")));
        bench.refused([command, "--nosuch-option", "a", "b", "c", "d"]);
    }
    bench.refused(["nosuch"]);
    assert!(bench.ok(["--version"]).starts_with("everleaf-lab "));
}
