//! What must hold of the source files of the crates below the store.

use std::path::Path;

use everleaf_pmem::Sources;

#[test]
fn no_files_of_a_folder_import_each_other_in_a_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    for name in ["everleaf-index", "everleaf-pmem", "everleaf-pool", "everleaf-trees"] {
        let sources = Sources::read(&crates.join(name).join("src")).unwrap();
        assert!(sources.modules().count() > 1, "{name}");
        let circles = sources.circles();
        assert!(circles.is_empty(), "in {name}:\n{}", circles.join("\n"));
    }
}
