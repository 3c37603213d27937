//! Names for interleavings.

use std::fmt;
use std::str::FromStr;

/// A thread was made to wait right before one of its accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Preemption {
    /// The thread that waits.
    pub thread: u16,
    /// So many accesses it had made in this step.
    pub access: u32,
    /// The thread that runs instead.
    pub to: u16,
}

/// One order in which the accesses of the threads of a step are made. Given by the thread that runs
/// first and by the preemptions: otherwise a thread runs until it ends, or waits for another one in
/// a spin loop; then the next by number that has not ended takes over.
///
/// Written as `3:1,1@12>2,2@7>1`: in step 3 thread 1 runs first, before its access 12 thread 2,
/// before whose access 7 thread 1 again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interleaving {
    /// The step of the program.
    pub step: usize,
    /// The thread that runs first.
    pub first: u16,
    /// In the order in which they happen.
    pub preemptions: Vec<Preemption>,
}

impl fmt::Display for Interleaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.step, self.first)?;
        self.preemptions
            .iter()
            .try_for_each(|Preemption { thread, access, to }| write!(f, ",{thread}@{access}>{to}"))
    }
}

/// A text is not an interleaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an interleaving is written as STEP:THREAD and any number of ,THREAD@ACCESS>THREAD, such as \
    3:1,1@12>2"
)]
pub struct NoInterleaving;

impl FromStr for Interleaving {
    type Err = NoInterleaving;

    fn from_str(text: &str) -> Result<Self, NoInterleaving> {
        fn number<T: FromStr>(text: &str) -> Result<T, NoInterleaving> {
            text.parse().map_err(|_| NoInterleaving)
        }
        let mut parts = text.split(',');
        let (step, first) =
            parts.next().and_then(|start| start.split_once(':')).ok_or(NoInterleaving)?;
        let preemption = |part: &str| {
            let (thread, rest) = part.split_once('@').ok_or(NoInterleaving)?;
            let (access, to) = rest.split_once('>').ok_or(NoInterleaving)?;
            Ok(Preemption { thread: number(thread)?, access: number(access)?, to: number(to)? })
        };
        let preemptions = parts.map(preemption).collect::<Result<_, _>>()?;
        Ok(Self { step: number(step)?, first: number(first)?, preemptions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interleaving_reads_as_it_is_written() {
        for text in ["0:1", "3:1,1@12>2,2@7>1"] {
            assert_eq!(text.parse::<Interleaving>().unwrap().to_string(), text);
        }
        for text in
            ["", "1", "1:", "1:2,", "1:2,3@4", "1:2,3>4", "1:2 3@4>5", "x:1", "1:1,1@70000000000>2"]
        {
            assert_eq!(text.parse::<Interleaving>(), Err(NoInterleaving), "{text}");
        }
    }
}
