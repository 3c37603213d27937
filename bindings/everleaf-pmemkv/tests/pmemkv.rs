//! The header declares what the library has, and a C program that includes it works.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The functions that a header declares: what is called so and is followed by arguments.
fn declared(header: &str) -> BTreeSet<String> {
    let (_, declarations) = header.split_once("extern \"C\"").unwrap();
    let called = declarations.split("pmemkv_").skip(1).filter_map(|rest| rest.split_once('('));
    called
        .map(|(name, _)| format!("pmemkv_{name}"))
        .filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .filter(|name| !name.ends_with("_callback") && !name.ends_with("_function"))
        .collect()
}

#[test]
fn the_header_and_the_library_have_the_same_68_functions() {
    let header = std::fs::read_to_string(Path::new(HERE).join("include/libpmemkv.h")).unwrap();
    let declared = declared(&header);
    assert_eq!(declared.len(), 68);
    let Ok(listed) = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output()
    else {
        return eprintln!("skipped: there is no `nm`");
    };
    let listed = String::from_utf8(listed.stdout).unwrap();
    let symbols = listed.lines().filter_map(|line| line.rsplit(' ').next());
    let defined = symbols.filter(|name| name.starts_with("pmemkv_")).map(str::to_owned);
    assert_eq!(defined.collect::<BTreeSet<_>>(), declared);
}

#[test]
fn a_c_program_does_what_pmemkv_does() {
    if Command::new("cc").arg("--version").output().is_err() {
        return eprintln!("skipped: there is no C compiler `cc`");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    run(Command::new("cc")
        .current_dir(HERE)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-Iinclude", "tests/pmemkv.c", "-o"])
        .arg(&program)
        .arg(library())
        .arg(format!("-Wl,-rpath,{}", library().parent().unwrap().display())));
    let ran = run(Command::new(&program).current_dir(folder.path()));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "all is well\n");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap()).collect();
    let names: BTreeSet<_> = left.iter().filter_map(|f| f.file_name().into_string().ok()).collect();
    assert!(
        names.is_subset(&BTreeSet::from(["program", "a.pool", "a.pool.log"].map(String::from)))
    );
}

/// What this test was built with.
fn library() -> std::path::PathBuf {
    std::env::current_exe().unwrap().with_file_name("libeverleaf_pmemkv.so")
}

fn run(command: &mut Command) -> Output {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    ran
}
