//! What docs/format.md says of the pool: tables that follow from the layouts.

use everleaf_pmem::{Field, Layout};

use crate::Record;
use crate::classes::Class;
use crate::layout::{
    CHUNK, ChunkLine, FIRST_EXTENT_CHUNK, Header, INDEX_ROOT_OFFSET, INTENTS_OFFSET, Identity,
    Intent, MIN_POOL_BYTES, WORKER_SLOTS,
};

/// What docs/format.md shows of the pool: its parts, its own structures, and the sizes of blocks.
pub fn layouts() -> (Vec<Layout>, &'static [u64]) {
    let part = |name: &str, offset: u64, bytes: u64, what: &str| Field {
        name: name.to_owned(),
        kind: "bytes".to_owned(),
        offset: offset as usize,
        bytes: bytes as usize,
        what: what.to_owned(),
    };
    let pool = Layout {
        name: "Pool",
        bytes: MIN_POOL_BYTES as usize,
        fields: vec![
            part("header", 0, size_of::<Header>() as u64, "`Header`."),
            part(
                "intents",
                INTENTS_OFFSET,
                (WORKER_SLOTS * size_of::<Intent>()) as u64,
                "64 of `Intent`, one a worker.",
            ),
            part("index", INDEX_ROOT_OFFSET, CHUNK, "The root `index`; zeros at first."),
            part(
                "extents",
                FIRST_EXTENT_CHUNK * CHUNK,
                MIN_POOL_BYTES - FIRST_EXTENT_CHUNK * CHUNK,
                "To the end, at least so many bytes.",
            ),
        ],
    };
    let structures = [
        Identity::layout(),
        Header::layout(),
        Intent::layout(),
        ChunkLine::layout(),
        Record::layout(),
    ];
    (std::iter::once(pool).chain(structures).collect(), Class::sizes())
}
