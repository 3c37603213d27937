//! What must hold of the source files of the crates below the store.

mod imports;

use std::path::{Path, PathBuf};

use everleaf::Engine;
use everleaf_testkit::{POOL_SITES, engine_sites};

use self::imports::{ModulePath, Sources};

/// The sources of a crate of the product.
fn sources_of(name: &str) -> Sources {
    let crates: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    Sources::read(&crates.join(name).join("src")).unwrap()
}

#[test]
fn no_files_of_a_folder_import_each_other_in_a_circle() {
    for name in ["everleaf-index", "everleaf-pmem", "everleaf-pool", "everleaf-trees"] {
        let sources = sources_of(name);
        assert!(sources.modules().count() > 1, "{name}");
        let circles = sources.circles();
        assert!(circles.is_empty(), "in {name}:\n{}", circles.join("\n"));
    }
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
