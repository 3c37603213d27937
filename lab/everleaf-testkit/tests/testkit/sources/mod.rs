//! What must hold of the source files of all crates.

mod imports;

use std::fs;
use std::path::{Path, PathBuf};

use everleaf::Engine;
use everleaf_testkit::{POOL_SITES, engine_sites};

use self::imports::{ModulePath, Sources};

/// Crates in which files of a folder still import each other in a circle: the list only gets
/// shorter.
const CIRCULAR: &[&str] =
    &["everleaf-bench", "everleaf-crash", "everleaf-log", "everleaf-server", "everleaf-testkit"];

/// The folders of all crates.
fn crates() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["crates", "lab"].into_iter().flat_map(|folder| {
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
        if CIRCULAR.contains(&name) {
            assert!(!circles.is_empty(), "take {name} off the list");
        } else {
            assert!(circles.is_empty(), "in {name}:\n{}", circles.join("\n"));
        }
        count += 1;
    }
    assert!(count > 10, "only {count} crates were found");
}

#[test]
fn layouts_import_nothing_of_their_family() {
    let sources = sources_of("everleaf-trees");
    let layouts = sources.modules().filter(|module| module.ends_with(&["layout".to_owned()]));
    let mut count = 0;
    for module in layouts {
        let mut imports = sources.imports(module);
        imports.retain(|import| import.first() == module.first());
        assert_eq!(imports, Vec::<ModulePath>::new(), "{module:?}");
        count += 1;
    }
    assert!(count > 3, "only {count} layouts were found");
}

#[test]
fn barriers_are_those_of_the_code_and_not_of_its_tests() {
    assert!(
        POOL_SITES.len() > 50 && POOL_SITES.iter().all(|site| site.name().starts_with("pool."))
    );
    let names: Vec<&str> = engine_sites(Engine::FastFair).map(|site| site.name()).collect();
    for name in ["sorted.update.P1.fence", "fastfair.insert.F1.fence", "fastfair.remove.X1.order"] {
        assert!(names.contains(&name), "{name} is none of {names:?}");
    }
    let families = ["sorted.", "fastfair."];
    assert!(names.iter().all(|name| families.iter().any(|family| name.starts_with(family))));
    assert_eq!(engine_sites(Engine::BTreeMap).count(), 0);
}
