//! What must hold of the source files of all crates.

mod imports;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use everleaf::Engine;
use everleaf_log::Weak;
use everleaf_testkit::{POOL_SITES, engine_sites};

use self::imports::{ModulePath, Sources};

/// The folders of all crates.
fn crates() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["crates", "crates/trees", "lab", "bindings"].into_iter().flat_map(|folder| {
        fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path())
    });
    folders.filter(|folder| folder.join("Cargo.toml").exists()).collect()
}

/// The sources of a crate of the product.
fn sources_of(name: &str) -> Sources {
    let folder = crates().into_iter().find(|folder| folder.ends_with(name)).unwrap();
    Sources::read(&folder.join("src")).unwrap()
}

#[test]
fn no_files_of_a_folder_import_each_other_in_a_circle() {
    let mut count = 0;
    for folder in crates() {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let circles = sources_of(name).circles();
        assert!(circles.is_empty(), "in {name}:\n{}", circles.join("\n"));
        count += 1;
    }
    assert!(count > 10, "only {count} crates were found");
}

#[test]
fn layouts_import_nothing_of_their_family() {
    let mut count = 0;
    for folder in crates() {
        let family = folder.parent().is_some_and(|around| around.ends_with("trees"));
        let name = folder.file_name().unwrap().to_str().unwrap();
        if !family && name != "everleaf-baselines" {
            continue;
        }
        let sources = sources_of(name);
        let layouts = sources.modules().filter(|module| module.ends_with(&["layout".to_owned()]));
        for module in layouts {
            let mut imports = sources.imports(module);
            imports.retain(|import| family || import.first() == module.first());
            assert_eq!(imports, Vec::<ModulePath>::new(), "{name}: {module:?}");
            count += 1;
        }
    }
    assert!(count > 8, "only {count} layouts were found");
}

#[test]
fn barriers_are_those_of_the_code_and_not_of_its_tests() {
    assert!(
        POOL_SITES.len() > 50 && POOL_SITES.iter().all(|site| site.name().starts_with("pool."))
    );
    let names: Vec<&str> =
        engine_sites(Engine::of(&everleaf_engines::FASTFAIR)).map(|site| site.name()).collect();
    for name in ["sorted.update.P1.fence", "fastfair.insert.F1.fence", "fastfair.remove.X1.order"] {
        assert!(names.contains(&name), "{name} is none of {names:?}");
    }
    let families = ["sorted.", "fastfair."];
    assert!(names.iter().all(|name| families.iter().any(|family| name.starts_with(family))));
    assert_eq!(engine_sites(Engine::of(&everleaf_engines::BTREEMAP)).count(), 0);
}

/// The files of a folder and of those below it.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// The mistakes of `planted(NUMBER)`, `planted!(NUMBER, ..)` and `unless_planted!(NUMBER, ..)`.
fn planted_in(code: &str) -> impl Iterator<Item = u32> {
    let after = code.split("planted").skip(1);
    let numbers = after.filter_map(|after| after.trim_start_matches('!').strip_prefix('('));
    numbers.filter_map(|after| after[..after.find([',', ')'])?].trim().parse().ok())
}

#[test]
fn planted_mistakes_are_where_their_table_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = include_str!("../../../planted.tsv");
    let row = |line: &str| {
        let [number, file, what, killer] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("no row: {line}");
        };
        assert!(!what.is_empty() && killer.split(' ').count() >= 3, "{line}");
        (number.parse().unwrap(), file.to_owned())
    };
    let rows: BTreeSet<(u32, String)> = table.lines().skip(1).map(row).collect();
    assert_eq!(rows.len(), table.lines().count() - 1, "a number is there twice");
    let mut found = BTreeSet::new();
    for path in crates().iter().flat_map(|folder| files_below(&folder.join("src"))) {
        let file = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        // The rules of the log have their numbers by their order.
        let rules = if file.ends_with("weak.rs") { Weak::ALL.len() } else { 0 };
        let code = fs::read_to_string(&path).unwrap();
        let numbers = (1..).take(rules).chain(planted_in(&code));
        found.extend(numbers.map(|number| (number, file.clone())));
    }
    assert_eq!(found, rows);
}
