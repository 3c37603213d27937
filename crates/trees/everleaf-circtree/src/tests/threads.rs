//! Threads that each have keys of their own, in every kind of nodes.

use everleaf_conformance::threads::work_together;
use everleaf_conformance::{TestedTree, assert_sound};
use everleaf_index::{BytesKeys, U64Keys};
use everleaf_pmem::{Cpu, Mapped, Region};
use everleaf_pool::{Pool, Shutdown};
use everleaf_tree::key::TestKey;

use super::{Tested, Variant, ascending};

fn run<K: TestKey>(slots: u64, variant: Variant) {
    let tested = Tested(variant, slots);
    let region = Region::anonymous(64 << 10, 256 << 20).unwrap();
    let media = Mapped::new(region, &Cpu::detect()).unwrap();
    let pool = Pool::create(media, &TestedTree::<K>::format(tested)).unwrap();
    let tree = TestedTree::<K>::open(tested, &pool, Shutdown::Clean.into()).unwrap();
    work_together(&*tree, ascending::<K>, 20_000, 100 * slots);
    assert_sound(&pool, &*tree);
}

#[test]
fn threads_do_not_lose_each_others_keys() {
    for slots in [4, 8, 32] {
        for variant in [Variant::CircTree, Variant::FastFair] {
            run::<U64Keys>(slots, variant);
            run::<BytesKeys>(slots, variant);
        }
    }
}
