//! The barriers that both designs have, by name.

use everleaf_pmem::{Site, site};

/// In the order of the code.
const SHARED: [Site; 31] = [
    site!("sorted.update.P1.value"),
    site!("sorted.update.P1.fence"),
    site!("sorted.split.C1.entries"),
    site!("sorted.split.C1.header"),
    site!("sorted.split.C1.log"),
    site!("sorted.split.C1.fence"),
    site!("sorted.split.C4.order"),
    site!("sorted.split.C4.log"),
    site!("sorted.split.C4.fence"),
    site!("sorted.root.G1.entry"),
    site!("sorted.root.G1.header"),
    site!("sorted.root.G1.fence"),
    site!("sorted.root.G2.root"),
    site!("sorted.root.G2.fence"),
    site!("sorted.merge.M1.order"),
    site!("sorted.merge.M1.log"),
    site!("sorted.merge.M1.entries"),
    site!("sorted.merge.M1.fence"),
    site!("sorted.merge.M2.order"),
    site!("sorted.merge.M2.header"),
    site!("sorted.merge.M2.fence"),
    site!("sorted.merge.D1.fence"),
    site!("sorted.merge.D2.root"),
    site!("sorted.recover.R2.next"),
    site!("sorted.recover.R3.order"),
    site!("sorted.recover.R3.log"),
    site!("sorted.recover.R3.fence"),
    site!("sorted.recover.R4.log"),
    site!("sorted.recover.R4.fence"),
    site!("sorted.close.T1.totals"),
    site!("sorted.close.T1.fence"),
];

/// Those of a design, and the shared ones behind them; `N` is the number of both.
pub(crate) const fn with_shared<const OWN: usize, const N: usize>(own: [Site; OWN]) -> [Site; N] {
    assert!(OWN + SHARED.len() == N);
    let mut all = [SHARED[0]; N];
    let mut i = 0;
    while i < N {
        all[i] = if i < OWN { own[i] } else { SHARED[i - OWN] };
        i += 1;
    }
    all
}
