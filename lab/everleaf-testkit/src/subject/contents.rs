//! What operations leave, and what of it a crash may leave.

use std::borrow::Cow;

use everleaf::Contract;
use everleaf_crash::{Acknowledges, Promise, Restart};

use super::EngineSubject;
use crate::model::{Content, model, show};
use crate::{Operation, Scenario};

/// What an operation acknowledges when it returns.
pub(super) fn acknowledges(contract: Contract, operation: &Operation) -> Acknowledges {
    match operation {
        _ if contract == Contract::Strict => Acknowledges::Everything,
        Operation::Thread { operation, .. } => acknowledges(contract, operation),
        Operation::Epoch => Acknowledges::EndOfEpoch,
        Operation::Sync
        | Operation::Crash
        | Operation::Reopen
        | Operation::Close
        | Operation::Open
        | Operation::Create => Acknowledges::Everything,
        _ => Acknowledges::Nothing,
    }
}

/// What the preparation leaves. A crash in it finds on the medium all that was stored: a buffered
/// engine is as it was at the last end of an epoch.
fn prepared(scenario: &Scenario, contract: Contract) -> Content {
    let mut content = Content::new();
    let mut durable = content.clone();
    for operation in &scenario.prepare {
        match operation {
            Operation::Crash => content.clone_from(&durable),
            operation => model(&mut content, operation),
        }
        if acknowledges(contract, operation) != Acknowledges::Nothing {
            durable.clone_from(&content);
        }
    }
    content
}

/// Content after each number of explored operations, if the cut operation of the scenario has not
/// happened, and if it has.
pub(super) fn contents_of(scenario: &Scenario, contract: Contract) -> [Vec<Content>; 2] {
    let before_cut = prepared(scenario, contract);
    let mut after_cut = before_cut.clone();
    let cut = scenario.cut.iter().map(|cut| &cut.operation);
    cut.filter(|operation| acknowledges(contract, operation) != Acknowledges::Nothing)
        .for_each(|operation| model(&mut after_cut, operation));
    [before_cut, after_cut].map(|mut content| {
        let mut contents = vec![content.clone()];
        for operation in &scenario.explore {
            model(&mut content, operation);
            contents.push(content.clone());
        }
        contents
    })
}

impl EngineSubject {
    pub(super) fn contents(&self) -> &[Content] {
        &self.contents[usize::from(self.cut_happened.get() == Some(&true))]
    }

    /// The content after so many explored operations, of which these crashes have lost some.
    fn content_after(&self, operations: usize, restarts: &[Restart]) -> Cow<'_, Content> {
        let Some(last) = restarts.iter().rposition(|restart| restart.operation < operations) else {
            return Cow::Borrowed(&self.contents()[operations]);
        };
        let Restart { operation, survived } = restarts[last];
        let mut content = self.content_after(survived, &restarts[..last]).into_owned();
        let since = &self.scenario.explore[operation..operations];
        since.iter().for_each(|operation| model(&mut content, operation));
        Cow::Owned(content)
    }

    /// The greatest number of operations that is promised and that leaves what was found.
    pub(super) fn boundary(&self, found: &Content, promise: &Promise) -> Option<usize> {
        let leaves = |n: &usize| *self.content_after(*n, promise.restarts()) == *found;
        promise.boundaries().iter().copied().rev().find(leaves)
    }

    /// That what was found is nothing that was promised.
    pub(super) fn not_promised(&self, found: &Content, promise: &Promise) -> String {
        let mut promised: Vec<String> = Vec::new();
        for boundary in promise.boundaries() {
            let content = show(&*self.content_after(*boundary, promise.restarts()));
            if !promised.contains(&content) {
                promised.push(content);
            }
        }
        format!("the content is {} and should be {}", show(found), promised.join(" or "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Level};
    use everleaf::Engine;
    use everleaf_crash::{Options, explore};

    fn scenario(script: &str) -> Scenario {
        Scenario::parse(script, None).unwrap()
    }

    fn content(entries: &[(u64, u64)]) -> Content {
        entries.iter().map(|(key, value)| (Key::U64(*key), *value)).collect()
    }

    /// `FPTree`, judged by a contract that is not its own.
    fn judged(contract: Contract, script: &str) -> EngineSubject {
        let engine = Engine::FPTREE;
        let parameters = EngineSubject::tiny_parameters(engine);
        let subject = EngineSubject::new(engine, parameters, Level::Index, scenario(script));
        let contents = contents_of(&subject.scenario, contract);
        EngineSubject { contract, contents, ..subject }
    }

    #[test]
    fn a_crash_in_a_preparation_leaves_a_buffered_engine_at_the_end_of_an_epoch() {
        let script = "insert 1 1\nepoch\ninsert 2 2\ncrash\ninsert 3 3\nexplore\nget 1";
        let strict = prepared(&scenario(script), Contract::Strict);
        assert_eq!(strict, content(&[(1, 1), (2, 2), (3, 3)]));
        let buffered = prepared(&scenario(script), Contract::Buffered);
        assert_eq!(buffered, content(&[(1, 1), (3, 3)]));
    }

    #[test]
    fn what_a_crash_has_lost_is_not_there_after_what_follows_it() {
        let subject = judged(
            Contract::Buffered,
            "insert 1 1\nsync\ninsert 2 2\ncrash\ninsert 3 3\nsync\nremove 1\ncrash\nremove 3",
        );
        let restarts =
            [(3, 2), (7, 6)].map(|(operation, survived)| Restart { operation, survived });
        let after = |operations| subject.content_after(operations, &restarts).into_owned();
        assert_eq!(after(3), content(&[(1, 1), (2, 2)]), "before the crash");
        assert_eq!(after(4), content(&[(1, 1)]));
        assert_eq!(after(6), content(&[(1, 1), (3, 3)]));
        assert_eq!(after(7), content(&[(3, 3)]));
        assert_eq!(after(8), content(&[(1, 1), (3, 3)]));
        assert_eq!(after(9), content(&[(1, 1)]));
    }

    #[test]
    fn a_strict_engine_keeps_more_than_whole_epochs_and_less_is_not_asked_of_it() {
        let options = Options { len: 96 << 10, max_len: 96 << 10, ..Options::default() };
        let found = |contract, script| {
            let report = explore(&judged(contract, script), &options).expect("the operations run");
            report.violations.first().map(|violation| violation.error.clone())
        };
        let script = "insert 1 1\nsync\ninsert 2 2\nepoch";
        assert_eq!(found(Contract::Strict, script), None);
        let wrong = found(Contract::Buffered, script).expect("an epoch that has not ended");
        assert_eq!(wrong, "the content is {1=1} and should be {}");
        assert_eq!(found(Contract::Buffered, "sync\nepoch\nget 1\nsync"), None);
    }
}
