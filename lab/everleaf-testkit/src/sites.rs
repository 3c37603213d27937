//! Every barrier of the pool and of the trees, as the build script finds them in their sources.

use everleaf_pmem::Site;

// `POOL_SITES`, and `TREE_SITES` with the folders of their files.
include!(concat!(env!("OUT_DIR"), "/sites.rs"));
