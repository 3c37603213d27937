//! The header is what cbindgen makes, and a C program that includes it works.

use std::path::Path;
use std::process::{Command, Output};

use everleaf_c::Status;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn the_header_is_up_to_date() {
    let header = Path::new(HERE).join("include/everleaf.h");
    let source = |name: &str| Path::new(HERE).join("src").join(name).with_extension("rs");
    let config = cbindgen::Config::from_root_or_default(HERE);
    let mut builder = cbindgen::Builder::new().with_config(config);
    let modules = [
        "boundary",
        "store",
        "tree",
        "keys",
        "iterator",
        "batch",
        "transaction",
        "snapshot",
        "maintenance",
    ]; // in the order of the header
    for module in modules {
        builder = builder.with_src(source(module));
    }
    let files = Path::new(HERE).join("src").read_dir().unwrap().count();
    assert_eq!(files, modules.len() + 1, "all modules and lib.rs");
    let bindings = builder.generate().expect("cbindgen reads the sources");
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).unwrap();
    if std::env::var_os("EVERLEAF_WRITE_HEADER").is_some() {
        std::fs::write(&header, &made).unwrap();
    }
    let current = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(
        current == made,
        "include/everleaf.h is not what the sources say; make it by\n  \
         EVERLEAF_WRITE_HEADER=1 cargo test -p everleaf-c --test c"
    );
}

/// Each program has a theme; together they call every function, with what is right and wrong.
#[test]
fn c_programs_use_every_function() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler `cc`");
        return;
    }
    for theme in ["store", "keys", "trees", "transactions", "maintenance"] {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        compile(&format!("tests/{theme}.c"), &program);
        let pool = folder.path().join("c.pool");
        // On a stack as small as the header says.
        let small = ["-c", "ulimit -s 512 && exec \"$0\" \"$1\""];
        let ran = run(Command::new("sh").args(small).arg(&program).arg(&pool));
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "all is well\n", "{theme}");
    }
}

#[test]
fn no_function_is_forgotten() {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let here = Path::new(HERE);
    let files = here.join("tests").read_dir().unwrap().map(|file| file.unwrap().path());
    let tests: String = files.map(|path| read(&path)).collect();
    let header = read(&here.join("include/everleaf.h"));
    let code = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words = code.flat_map(|line| line.split([' ', '*']));
    let functions: Vec<&str> = words
        .filter_map(|word| Some(word.split_once('(')?.0))
        .filter(|name| name.starts_with("everleaf_"))
        .collect();
    assert!(functions.len() > 50, "{functions:?}");
    for function in functions {
        assert!(tests.contains(&format!("{function}(")), "no test calls {function}");
    }
}

#[test]
fn the_examples_of_the_document_run() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler `cc`");
        return;
    }
    let document = Path::new(HERE).join("../../docs/languages.md");
    let document = std::fs::read_to_string(document).unwrap();
    let examples = document.split("```c\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let (functions, statements): (Vec<&str>, Vec<&str>) =
        examples.partition(|example| example.contains("\n}\n") && example.starts_with("//"));
    assert_eq!((functions.len(), statements.len()), (1, 2));
    let main = format!("int main(void) {{ {{ {} }} return 0; }}", statements.join("} {"));
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("examples.c"), folder.path().join("program"));
    std::fs::write(&source, format!("#include \"check.h\"\n{}{main}", functions.concat())).unwrap();
    compile(source.to_str().unwrap(), &program);
    let ran = run(Command::new(&program).current_dir(&folder));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "a blade of a plant\n");
    let store = everleaf::Store::open(folder.path().join("words.pool")).unwrap();
    let sold = store.tree("sold").unwrap();
    assert_eq!(store.get("apple").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(sold.get("apple").unwrap().as_deref(), Some(&b"to ann"[..]));
}

/// Trees whose keys are numbers can be made in Rust.
#[test]
fn keys_that_are_numbers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.pool");
    let store = everleaf::Store::create(&path).unwrap();
    store.tree_with("squares", everleaf::KeyType::U64).unwrap();
    store.close().unwrap();
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let (mut store, mut tree) = (std::ptr::null_mut(), std::ptr::null_mut());
    for open in [everleaf_c::everleaf_tree_open, everleaf_c::everleaf_tree_open_or_create] {
        // SAFETY: strings of ours, and what was handed out.
        let tried = unsafe {
            assert_eq!(everleaf_c::everleaf_open(path.as_ptr(), &mut store), Status::EverleafOk);
            let tried = open(store, c"squares".as_ptr(), &mut tree);
            everleaf_c::everleaf_close(store);
            tried
        };
        assert_eq!(tried, Status::EverleafInvalidArgument);
    }
}

/// A forked process can neither write to the pool of its parent nor mark it as closed: the parent,
/// which ends without closing it, leaves it to be recovered.
#[test]
fn a_forked_process_leaves_the_store_alone() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler `cc`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (program, pool) = (folder.path().join("program"), folder.path().join("forked.pool"));
    compile("tests/fork.c", &program);
    run(Command::new(&program).arg(&pool));
    let store = everleaf::Store::open(&pool).unwrap();
    assert_eq!(store.statistics().unwrap().shutdown, everleaf::Shutdown::Crash);
    assert_eq!(store.get("leaf").unwrap().as_deref(), Some(&b"of the parent"[..]));
    assert_eq!(store.get("late").unwrap().as_deref(), Some(&b"after the fork"[..]));
    assert!(store.check().unwrap().ok);
}

/// Compiles a program with the shared library that this test was built with.
fn compile(source: &str, program: &Path) {
    let test = std::env::current_exe().unwrap();
    let libraries = test.parent().unwrap();
    run(Command::new("cc")
        .current_dir(HERE)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-Itests", source, "-o"])
        .arg(program)
        .arg(libraries.join("libeverleaf_c.so"))
        .arg(format!("-Wl,-rpath,{}", libraries.display())));
}

fn run(command: &mut Command) -> Output {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    ran
}
