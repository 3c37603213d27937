//! What others change between two steps of an operation.

use everleaf_crash::{Access, Interleaved};
use everleaf_pmem::Mapped;

use super::*;

type Interrupted = ConcurrentFpTree<U64Keys, Interleaved, Flexible<true>>;

/// A tree of one leaf, which is full.
fn full_leaf() -> (Arc<Pool<Interleaved>>, Arc<Interrupted>) {
    let parameters = parameters(4, 4, 1);
    let region = Region::anonymous(256 << 10, 1 << 20).unwrap();
    let media = Interleaved::new(Mapped::new(region, &Cpu::detect()).unwrap());
    let format = TestedTree::<U64Keys>::format(Tested(Variant::Concurrent, parameters));
    let pool = Pool::create(media, &format).unwrap();
    let shape = <Flexible<true> as crate::Shape>::of(4, 1, false).unwrap();
    let tree = Interrupted::open(&pool, shape, parameters, Shutdown::Crash.into()).unwrap();
    [10, 20, 30, 40].iter().for_each(|key| assert!(Index::insert(&tree, *key, *key).unwrap()));
    (pool, Arc::new(tree))
}

/// The way down ends with the prefetch of the leaf. Before its version is read the upper half of
/// the leaf moves to another one.
#[test]
fn a_leaf_that_is_split_before_its_version_is_read_is_looked_for_again() {
    type Operation = fn(&dyn Index<U64Keys>);
    let operations: [Operation; 6] = [
        |tree| assert_eq!(tree.get(40).unwrap(), Some(40)),
        |tree| {
            let mut values = [None; 2];
            tree.get_many(&[40, 20], &mut values).unwrap();
            assert_eq!(values, [Some(40), Some(20)]);
        },
        |tree| assert!(tree.insert(45, 45).unwrap()),
        |tree| assert_eq!(tree.update(40, 41).unwrap(), Some(40)),
        |tree| assert_eq!(tree.remove(40).unwrap(), Some(40)),
        |tree| {
            let mut shown = Vec::new();
            let show = &mut |key: u64, _: &[u64]| {
                shown.push(key);
                ControlFlow::Continue(())
            };
            tree.scan(Bound::Included(20), Direction::Forward, show).unwrap();
            assert_eq!(shown, [20, 30, 40]);
        },
    ];
    for operation in operations {
        let (pool, tree) = full_leaf();
        let others = Arc::clone(&tree);
        let split = move || assert!(Index::insert(&*others, 15, 15).unwrap());
        pool.media().after_next(Access::Prefetch, split);
        operation(&*tree);
        assert!(pool.media().has_interleaved());
        assert_sound(&pool, &*tree);
    }
}
