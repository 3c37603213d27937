//! What a structure has promised when the power fails: how many operations may be there.

use std::fmt;
use std::rc::Rc;

use crate::known::Moment;

/// What an operation that has returned has acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Acknowledges {
    /// Itself, and everything before it: a crash loses none of it from now on. So does every
    /// operation of a strict structure; of a buffered one, `sync`.
    #[default]
    Everything,
    /// That an epoch has ended: what is there now is whole, and a crash may leave it, as it may
    /// leave what was there at earlier ends of epochs that nothing has acknowledged since.
    EndOfEpoch,
    /// Nothing: no crash leaves what is there now, unless an epoch ends here later. So does an
    /// ordinary operation of a buffered structure.
    Nothing,
}

/// A crash among the operations, as it went when the operations were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Restart {
    /// The operation that is the crash.
    pub operation: usize,
    /// The recovery from it has found so many operations: those from here to the crash are lost,
    /// and what follows the crash goes on from there.
    pub survived: usize,
}

/// What may be there after a crash, in numbers of operations: that many of the first ones have
/// happened, and nothing else has.
///
/// A strict structure has one such number between two operations, and two while one is running. A
/// buffered structure has one for each end of an epoch since the last operation that acknowledged
/// [everything](Acknowledges::Everything).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// So many operations had returned.
    pub acknowledged: usize,
    /// This operation had begun and not returned.
    pub cut: Option<usize>,
    /// Ascending, never empty.
    boundaries: Vec<usize>,
    restarts: Rc<[Restart]>,
}

impl Promise {
    /// What is promised at a moment, if operations acknowledge what `acknowledges` says.
    pub(crate) fn at(
        moment: Moment,
        restarts: Rc<[Restart]>,
        acknowledges: &dyn Fn(usize) -> Acknowledges,
    ) -> Self {
        let Moment { acknowledged, cut, recovered } = moment;
        let mut boundaries = Vec::with_capacity(2);
        let ends = |operation: &usize| acknowledges(*operation) != Acknowledges::Nothing;
        boundaries.extend(cut.filter(ends).map(|cut| cut + 1));
        let mut first = acknowledged;
        while first > recovered && acknowledges(first - 1) != Acknowledges::Everything {
            if acknowledges(first - 1) == Acknowledges::EndOfEpoch {
                boundaries.push(first);
            }
            first -= 1;
        }
        boundaries.push(first);
        boundaries.reverse();
        Self { acknowledged, cut, boundaries, restarts }
    }

    /// At least so many operations are there.
    pub fn floor(&self) -> usize {
        self.boundaries[0]
    }

    /// At most so many are.
    pub fn ceiling(&self) -> usize {
        self.boundaries[self.boundaries.len() - 1]
    }

    /// All numbers that a crash may leave, ascending: the floor first, the ceiling last.
    pub fn boundaries(&self) -> &[usize] {
        &self.boundaries
    }

    /// Whether a crash may leave so many operations.
    pub fn allows(&self, operations: usize) -> bool {
        self.boundaries.contains(&operations)
    }

    /// The crashes among the operations that have lost some, in their order. There are none of a
    /// strict structure.
    pub fn restarts(&self) -> &[Restart] {
        &self.restarts
    }
}

/// The numbers, as they stand in a sentence: `3`, `3 or 4`, `3, 5 or 8`.
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.boundaries.len() - 1;
        for (i, boundary) in self.boundaries.iter().enumerate() {
            let before = if i == 0 {
                ""
            } else if i == last {
                " or "
            } else {
                ", "
            };
            write!(f, "{before}{boundary}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Acknowledges::{EndOfEpoch, Everything, Nothing};

    fn promised(program: &[Acknowledges], moment: Moment) -> Vec<usize> {
        Promise::at(moment, Rc::new([]), &|operation| program[operation]).boundaries
    }

    #[test]
    fn a_strict_structure_has_what_returned_and_perhaps_what_was_cut() {
        let program = [Everything; 3];
        assert_eq!(promised(&program, Moment::between(0)), [0]);
        assert_eq!(promised(&program, Moment::during(0)), [0, 1]);
        assert_eq!(promised(&program, Moment::between(2)), [2]);
        assert_eq!(promised(&program, Moment::during(2)), [2, 3]);
    }

    #[test]
    fn a_buffered_structure_has_an_end_of_an_epoch_since_the_last_acknowledgement() {
        let program = [Nothing, EndOfEpoch, Nothing, EndOfEpoch, Nothing, Everything, Nothing];
        assert_eq!(promised(&program, Moment::during(0)), [0], "what runs is of no whole epoch");
        assert_eq!(promised(&program, Moment::between(1)), [0]);
        assert_eq!(promised(&program, Moment::during(1)), [0, 2], "the epoch may have ended");
        assert_eq!(promised(&program, Moment::between(2)), [0, 2], "nobody waited for it");
        assert_eq!(promised(&program, Moment::between(5)), [0, 2, 4]);
        assert_eq!(promised(&program, Moment::during(5)), [0, 2, 4, 6]);
        assert_eq!(promised(&program, Moment::between(6)), [6]);
        assert_eq!(promised(&program, Moment::during(6)), [6]);
    }

    #[test]
    fn what_a_recovery_has_returned_is_the_floor_of_what_follows_it() {
        let program = [Nothing, EndOfEpoch, Nothing, EndOfEpoch, Nothing];
        let after = |moment: Moment| Moment { recovered: 2, ..moment };
        assert_eq!(promised(&program, after(Moment::between(2))), [2]);
        assert_eq!(promised(&program, after(Moment::during(2))), [2]);
        assert_eq!(promised(&program, after(Moment::during(3))), [2, 4]);
    }

    #[test]
    fn a_promise_reads_as_a_list() {
        let all = [EndOfEpoch; 3];
        let shown = |moment| Promise::at(moment, Rc::new([]), &|at| all[at]).to_string();
        assert_eq!(shown(Moment::between(0)), "0");
        assert_eq!(shown(Moment::between(1)), "0 or 1");
        assert_eq!(shown(Moment::during(2)), "0, 1, 2 or 3");
    }
}
