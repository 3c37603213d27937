//! Commands of the laboratory's program.

use std::os::unix::fs::PermissionsExt;

use crate::common::{Bench, Ran};

/// A copy of the program in the folder, so that what lies beside it is the test's.
fn copy(bench: &Bench) {
    std::fs::copy(crate::PROGRAM, bench.path("everleaf")).unwrap();
}

fn run(bench: &Bench, arguments: &[&str]) -> Ran {
    let mut command = std::process::Command::new(bench.path("everleaf"));
    Ran::new(command.args(arguments).env("PATH", bench.path("bin")).output().unwrap())
}

fn program(bench: &Bench, name: &str, mode: u32) {
    bench.write(name, "#!/bin/sh\necho \"$0\" \"$@\"\nexit 7\n");
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(bench.path(name), permissions).unwrap();
}

#[test]
fn commands_of_the_laboratory_run_its_program_beside_this_one_or_on_path() {
    let bench = Bench::new();
    copy(&bench);
    std::fs::create_dir(bench.path("bin")).unwrap();
    for command in ["bench", "explore", "torture"] {
        let sentence = run(&bench, &[command, "--help"]).failed();
        assert!(sentence.contains("cargo build --release -p everleaf-lab"), "{sentence}");
    }
    program(&bench, "bin/everleaf-lab", 0o755);
    program(&bench, "everleaf-lab", 0o644); // Nothing that can be run.
    for (place, mode) in [("bin/everleaf-lab", 0o644), ("everleaf-lab", 0o755)] {
        let ran = run(&bench, &["bench", "micro", "--help", "-x", "--", "y"]);
        let said = String::from_utf8(ran.stdout).unwrap();
        assert_eq!(
            said.trim(),
            format!("{} bench micro --help -x -- y", bench.path(place).display())
        );
        assert_eq!(ran.code, Some(7));
        program(&bench, "everleaf-lab", 0o755);
        program(&bench, "bin/everleaf-lab", mode);
    }
}
