//! Which transactions are used, by name.

use std::fmt;

use everleaf::Transactions;
use everleaf::internal::{InjectedAborts, Simulation};
use everleaf_pmem::Cpu;

use crate::failure::Failure;

/// Transactions of inner nodes (engine fptree-c).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Rtm {
    /// Those of the processor; refused if it has none.
    On,
    /// None: version locks.
    Off,
    /// Simulated ones, one at a time, on any processor: for tests.
    Simulated,
    /// Those of the processor if it has them, else version locks.
    Auto,
}

impl fmt::Display for Rtm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Simulated => "simulated",
            Self::Auto => "auto",
        })
    }
}

impl Rtm {
    /// As engines take them; simulated ones abort as is said.
    ///
    /// # Errors
    /// Wrong usage, if the processor lacks what is asked for.
    pub fn with(self, seed: u64, aborts: InjectedAborts) -> Result<Transactions, Failure> {
        match self {
            Self::On if Cpu::detect().rtm().is_none() => Err(Failure::usage(
                "this processor has no transactions (RTM); leave --rtm out, which gives version \
                 locks",
            )),
            Self::On | Self::Auto => Ok(Transactions::Auto),
            Self::Off => Ok(Transactions::Off),
            Self::Simulated => Ok(Transactions::Simulated(Simulation { seed, aborts })),
        }
    }
}
