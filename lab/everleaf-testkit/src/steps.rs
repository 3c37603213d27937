//! The steps that the lines of a script make up, and what a script asks of an engine.

use everleaf::Engine;
use everleaf_crash::{Step, ThreadOperations};

use crate::{Operation, Scenario, ScriptError};

impl Scenario {
    /// The explored operations as steps of a program: what consecutive lines `thread N` say runs
    /// concurrently.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut open = None;
        for (i, operation) in self.explore.iter().enumerate() {
            let Operation::Thread { thread, round, .. } = operation else {
                open = None;
                steps.push(if *operation == Operation::Crash {
                    Step::Crash
                } else {
                    Step::Alone(i)
                });
                continue;
            };
            if open != Some(*round) {
                open = Some(*round);
                steps.push(Step::Concurrent(Vec::new()));
            }
            let Some(Step::Concurrent(threads)) = steps.last_mut() else { continue };
            match threads.iter_mut().find(|other| other.thread == *thread) {
                Some(known) => known.operations.push(i),
                None => threads.push(ThreadOperations { thread: *thread, operations: vec![i] }),
            }
        }
        steps
    }

    /// Whether operations run concurrently.
    pub fn has_threads(&self) -> bool {
        self.explore.iter().any(|operation| matches!(operation, Operation::Thread { .. }))
    }

    /// Every operation of it.
    fn operations(&self) -> impl Iterator<Item = &Operation> {
        let cut = self.cut.iter().map(|cut| &cut.operation);
        self.prepare.iter().chain(&self.explore).chain(cut)
    }

    /// Whether only a store can run it.
    pub fn is_of_store(&self) -> bool {
        self.operations().any(Operation::is_of_store)
    }

    /// Whether values have lives.
    pub(crate) fn has_expiry(&self) -> bool {
        self.operations().any(Operation::expires)
    }

    /// Refuses what `engine` cannot do.
    ///
    /// # Errors
    /// [`ScriptError::SingleThreaded`]; [`ScriptError::NotWithThreads`] if other lines do not go
    /// together with threads.
    pub fn check_for(&self, engine: Engine) -> Result<(), ScriptError> {
        if self.has_threads() && !engine.is_concurrent() {
            return Err(ScriptError::SingleThreaded { engine });
        }
        let alone = |operation: &&Operation| {
            matches!(
                operation,
                Operation::Close | Operation::Open | Operation::Create | Operation::Refused(_)
            )
        };
        let found = self.cut.as_ref().map(|cut| format!("cut {} {}", cut.site, cut.operation));
        let found = found.or_else(|| {
            self.prepare.iter().chain(&self.explore).find(alone).map(ToString::to_string)
        });
        match found.filter(|_| self.has_threads()) {
            Some(operation) => Err(ScriptError::NotWithThreads { operation }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScriptKeys;

    fn on(thread: u16, operations: &[usize]) -> ThreadOperations {
        ThreadOperations { thread, operations: operations.to_vec() }
    }

    #[test]
    fn lines_of_threads_run_concurrently_until_a_line_without_one() {
        let text = "insert 1 1\nexplore\nthread 1 insert 2 2\nthread 2 get 2\n# no line\nthread 1 \
            remove 2\nepoch\nthread 3 sync\nthread 2 epoch\ncrash\nget 1\n";
        let scenario = Scenario::parse(text, None).unwrap();
        assert_eq!(
            (scenario.keys, scenario.prepare.len(), scenario.has_threads()),
            (ScriptKeys::U64, 1, true)
        );
        let first = Step::Concurrent(vec![on(1, &[0, 2]), on(2, &[1])]);
        let second = Step::Concurrent(vec![on(3, &[4]), on(2, &[5])]);
        let expected = [first, Step::Alone(3), second, Step::Crash, Step::Alone(7)];
        assert_eq!(scenario.steps(), expected);
        assert_eq!(scenario.explore[1].to_string(), "thread 2 get 2");
        assert!(!Scenario::parse("get 1\ncrash", None).unwrap().has_threads());
    }

    #[test]
    fn an_engine_refuses_what_it_cannot_do() {
        let check = |text: &str, engine| {
            Scenario::parse(text, None).unwrap().check_for(engine).map_err(|e| e.to_string())
        };
        let threads = "thread 1 insert 1 1\nthread 2 get 1";
        assert_eq!(
            check(threads, Engine::FPTREE),
            Err("fptree is single-threaded; remove `thread` from the script, or choose a \
                concurrent engine"
                .to_owned())
        );
        assert_eq!(check(threads, Engine::FPTREE_C), Ok(()));
        let is_of_store = |text: &str| Scenario::parse(text, None).unwrap().is_of_store();
        for text in ["batch remove 1", "thread 1 batch remove 1", "cut a sweep", "get tree:k"] {
            assert!(is_of_store(text), "{text}");
        }
        assert!(!is_of_store(threads));
    }
}
