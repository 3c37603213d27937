//! Fewer operations that still break.

use std::ops::ControlFlow::Break;

use crate::explorer::{Explorer, Failure};
use crate::trace::record;
use crate::{Options, Subject};

/// Drops operations before the one that breaks as long as something still breaks. Returns the
/// operations that are left and their failure, in the reduced numbering; `None` if nothing could be
/// dropped. `plainly` as [`Explorer::plainly`].
pub(crate) fn fewer_operations<S: Subject>(
    subject: &S,
    options: &Options,
    last: usize,
    plainly: bool,
) -> Option<(Vec<usize>, S, Failure)> {
    let mut kept: Vec<usize> = (0..=last).collect();
    let mut best = None;
    let mut chunk = last.max(1);
    loop {
        let mut from = 0;
        while from < kept.len() {
            let to = (from + chunk).min(kept.len());
            let rest: Vec<usize> = [&kept[..from], &kept[to..]].concat();
            match fails(subject, options, &rest, plainly, false) {
                Some(reduced) if !rest.is_empty() => {
                    best = Some(reduced);
                    kept = rest;
                }
                _ => from = to,
            }
        }
        if chunk == 1 {
            break;
        }
        chunk = chunk.div_ceil(2);
    }
    best?;
    let (smaller, failure) = fails(subject, options, &kept, plainly, true)?;
    Some((kept, smaller, failure))
}

/// The first failure of a part of the operations.
fn fails<S: Subject>(
    subject: &S,
    options: &Options,
    operations: &[usize],
    plainly: bool,
    reduces: bool,
) -> Option<(S, Failure)> {
    let smaller = subject.subset(operations)?;
    let recording = record(&smaller, options).ok()?;
    let explorer = Explorer::new(&smaller, options);
    let explorer = if plainly { explorer.plainly() } else { explorer };
    let mut explorer = if reduces { explorer } else { explorer.only_looking() };
    let mut failure = None;
    explorer.explore(&recording, 0, &mut |_| {}, &mut |found| {
        failure = Some(found);
        Break(())
    });
    failure.map(|failure| (smaller, failure))
}
