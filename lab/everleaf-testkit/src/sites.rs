//! Every barrier of the pool and of the trees, as the build script finds them in their sources.

use everleaf::Engine;
use everleaf_pmem::Site;

// `POOL_SITES`, and `TREE_SITES` with the folders of their files.
include!(concat!(env!("OUT_DIR"), "/sites.rs"));

/// Every barrier of an engine's index, without those of the pool. None for what does not persist.
pub fn engine_sites(engine: Engine) -> impl Iterator<Item = Site> {
    let folders = engine.folders();
    TREE_SITES.iter().filter(move |(folder, _)| folders.contains(folder)).map(|(_, site)| *site)
}
