//! What must hold of the source files themselves.

use std::path::Path;

use everleaf_pmem::{ModulePath, Sources, undeclared_sites};

use crate::{fptree, masstree, nvtree, sorted};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

#[test]
fn every_barrier_is_declared_once_and_is_in_the_list_of_its_tree() {
    let lists = [
        fptree::sites(fptree::Variant::FpTree),
        fptree::sites(fptree::Variant::Concurrent),
        sorted::sites(sorted::Variant::CircTree),
        sorted::sites(sorted::Variant::FastFair),
        masstree::SITES,
        nvtree::sites(nvtree::Variant::Serial),
    ];
    assert_eq!(undeclared_sites(Path::new(SOURCES), &lists).unwrap(), Vec::<String>::new());
}

#[test]
fn layouts_import_nothing_of_their_family() {
    let sources = Sources::read(Path::new(SOURCES)).unwrap();
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
