//! An interleaving that went wrong, in words.

use super::history::{Call, Stage};
use super::interleaving::Interleaving;
use super::subject::{ConcurrentSubject, MAX_THREAD, Step, ThreadOperations};
use crate::explorer::Failure;
use crate::violation::Violation;

/// The violation that a failure is, or an error without any crash, in a step with these calls,
/// after the steps before it.
pub(crate) fn violation<S: ConcurrentSubject>(
    subject: &S,
    before: &[Step],
    calls: &[Call<S::Outcome>],
    interleaving: Option<Interleaving>,
    failure: Result<&Failure, String>,
) -> Violation {
    let crashed =
        failure.as_ref().ok().and_then(|failure| failure.crashes.first()).map(|crash| crash.event);
    let threads: Vec<ThreadOperations> = before.iter().flat_map(Step::threads).collect();
    let mut operations: Vec<usize> =
        threads.iter().flat_map(|thread| thread.operations.iter().copied()).collect();
    let mut descriptions: Vec<String> =
        operations.iter().map(|operation| subject.describe_operation(*operation)).collect();
    let mut acknowledged = operations.len();
    for call in calls {
        let stage = crashed.map_or(
            if call.returned.is_some() { Stage::Returned } else { Stage::InFlight },
            |event| call.stage(event),
        );
        let stage = match (stage, &call.returned) {
            (Stage::Returned, Some((_, outcome))) => {
                acknowledged += 1;
                format!("returned {outcome:?}")
            }
            (Stage::Ahead, _) => "not begun".to_owned(),
            _ => "in flight".to_owned(),
        };
        operations.push(call.operation);
        let what = subject.describe_operation(call.operation);
        descriptions.push(if call.thread > MAX_THREAD {
            format!("{what}: {stage}")
        } else {
            format!("thread {}: {what}: {stage}", call.thread)
        });
    }
    let (crashes, error) = match failure {
        Ok(failure) => (failure.crashes.clone(), failure.error.clone()),
        Err(error) => (Vec::new(), error),
    };
    Violation {
        operations,
        descriptions,
        acknowledged,
        cut: None,
        crashes,
        error,
        interleaving,
        found_in: None,
    }
}
