//! Which transactions are used, by name.

use everleaf::{InjectedAborts, Simulation, Transactions};

/// Transactions of inner nodes (engine fptree-c).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Rtm {
    /// Those of the processor, if it has them; else locks with versions.
    Auto,
    /// None: locks with versions.
    Off,
    /// Simulated ones, one at a time, on any processor: for tests.
    Simulated,
}

impl Rtm {
    /// As engines take them; simulated ones abort as invented.
    pub fn with(self, seed: u64, aborts: InjectedAborts) -> Transactions {
        match self {
            Self::Auto => Transactions::Auto,
            Self::Off => Transactions::Off,
            Self::Simulated => Transactions::Simulated(Simulation { seed, aborts }),
        }
    }
}
