//! Lines of a script that hold other operations: `thread N OP...` and `batch OP; OP; ..`; and the
//! steps that lines make up.

use everleaf::Engine;
use everleaf_crash::{Step, ThreadOperations};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::script::{parse_operation, random_write, script_key};
use crate::{Operation, Scenario, ScriptError, ScriptKeys};

/// The greatest number of a thread, and the most threads of one step.
const MAX_THREADS: u16 = 16;
/// Keys of random programs of several threads: so few that threads meet, and more than a leaf of
/// the smallest size holds.
const SHARED_KEYS: u64 = 8;

/// The operations of a line `batch OP; OP; ..`, in words.
pub(crate) fn batch_operations<'a>(words: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut operations = vec![Vec::new()];
    for word in words {
        let (bare, ends) = word.strip_suffix(';').map_or((*word, false), |bare| (bare, true));
        if let Some(operation) = operations.last_mut().filter(|_| !bare.is_empty()) {
            operation.push(bare);
        }
        if ends {
            operations.push(Vec::new());
        }
    }
    operations.retain(|operation| !operation.is_empty());
    operations
}

/// What follows the word `batch`.
pub(crate) fn parse_batch(
    line: usize,
    words: &[&str],
    keys: ScriptKeys,
) -> Result<Operation, ScriptError> {
    let form = || ScriptError::Form {
        line,
        form: "batch OP; OP; .., where OP is insert, update, upsert or remove",
    };
    let mut operations = Vec::new();
    for words in batch_operations(words) {
        let writes = matches!(words[0], "insert" | "update" | "upsert" | "remove");
        let operation = if writes { parse_operation(line, &words, keys)? } else { None };
        operations.push(operation.ok_or_else(form)?);
    }
    if operations.is_empty() { Err(form()) } else { Ok(Operation::Batch(operations)) }
}

/// What follows the word `thread`; `round` numbers the groups of such lines.
pub(crate) fn parse_thread(
    line: usize,
    words: &[&str],
    keys: ScriptKeys,
    round: usize,
) -> Result<Operation, ScriptError> {
    let form = || ScriptError::Form {
        line,
        form: "thread N OP.., where N is 1 to 16 and OP is get, scan, insert, update, upsert, \
            remove, batch, move, copy, claim, sync or epoch",
    };
    let [number, words @ ..] = words else { return Err(form()) };
    let thread =
        number.parse().ok().filter(|thread| (1..=MAX_THREADS).contains(thread)).ok_or_else(form)?;
    let runs = matches!(
        words.first(),
        Some(
            &("get"
                | "scan"
                | "insert"
                | "update"
                | "upsert"
                | "remove"
                | "batch"
                | "move"
                | "copy"
                | "claim"
                | "sync"
                | "epoch")
        )
    );
    let operation = if runs { parse_operation(line, words, keys)? } else { None };
    Ok(Operation::Thread { thread, round, operation: Box::new(operation.ok_or_else(form)?) })
}

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

    /// Whether there is a batch or a transaction, so that only a store can run it.
    pub fn has_batches(&self) -> bool {
        fn is_batch(operation: &Operation) -> bool {
            match operation {
                Operation::Thread { operation, .. } | Operation::Refused(operation) => {
                    is_batch(operation)
                }
                operation => matches!(
                    operation,
                    Operation::Batch(_)
                        | Operation::Move(..)
                        | Operation::Copy(..)
                        | Operation::Claim(..)
                ),
            }
        }
        let cut = self.cut.iter().map(|cut| &cut.operation);
        self.prepare.iter().chain(&self.explore).chain(cut).any(is_batch)
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

    /// A program of `threads` threads, 2 to 16, drawn from a seed: some operations that prepare,
    /// then rounds in which each thread runs one operation, `count` in all, on few keys.
    pub fn random_threads(keys: ScriptKeys, count: usize, threads: usize, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut draw = |kind: u32| {
            let key = script_key(keys, rng.random_range(0..SHARED_KEYS));
            let value = rng.random_range(0..4u64).wrapping_sub(1);
            match if kind == 0 { rng.random_range(0..13) } else { kind } {
                10.. => Operation::Get(key),
                kind => random_write(kind, key, value),
            }
        };
        let prepare = (0..SHARED_KEYS as usize).map(|_| draw(1)).collect();
        let thread = |i: usize| Operation::Thread {
            thread: (i % threads) as u16 + 1,
            round: i / threads,
            operation: Box::new(draw(0)),
        };
        Self { keys, prepare, cut: None, explore: (0..count).map(thread).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

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
    fn a_batch_is_read_with_or_without_spaces_before_its_semicolons() {
        let scenario = Scenario::parse("batch insert 1 2; remove 3 ;upsert 4 5;", None);
        assert!(
            matches!(scenario, Err(ScriptError::Form { line: 1, .. })),
            "`;upsert` is no operation"
        );
        let scenario = Scenario::parse("batch insert 1 2; remove 3 ; upsert 4 5;", None).unwrap();
        let (insert, remove) = (Operation::Insert(Key::U64(1), 2), Operation::Remove(Key::U64(3)));
        assert_eq!(
            scenario.explore,
            [Operation::Batch(vec![insert, remove, Operation::Upsert(Key::U64(4), 5)])]
        );
        assert_eq!(scenario.explore[0].to_string(), "batch insert 1 2; remove 3; upsert 4 5");
        assert_eq!(
            Scenario::parse("batch remove 1; remove b", None).unwrap().keys,
            ScriptKeys::Bytes
        );
        assert_eq!(Scenario::parse("thread 1 remove b", None).unwrap().keys, ScriptKeys::Bytes);
    }

    #[test]
    fn what_makes_no_sense_on_a_thread_or_in_a_batch_is_named() {
        for text in [
            "thread",
            "thread 1",
            "thread 0 get 1",
            "thread 17 get 1",
            "thread x get 1",
            "thread 1 crash",
            "thread 1 thread 2 get 1",
        ] {
            assert!(
                matches!(Scenario::parse(text, None), Err(ScriptError::Form { line: 1, .. })),
                "{text}"
            );
        }
        for text in ["batch", "batch get 1", "batch ;", "batch sync", "batch insert 1"] {
            assert!(
                matches!(Scenario::parse(text, None), Err(ScriptError::Form { line: 1, .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn an_engine_refuses_what_it_cannot_do() {
        let check = |text: &str, engine| {
            Scenario::parse(text, None).unwrap().check_for(engine).map_err(|e| e.to_string())
        };
        let threads = "thread 1 insert 1 1\nthread 2 get 1";
        assert_eq!(
            check(threads, Engine::FpTree),
            Err("fptree is single-threaded; remove `thread` from the script, or choose a \
                concurrent engine"
                .to_owned())
        );
        assert_eq!(check(threads, Engine::FpTreeConcurrent), Ok(()));
        let has_batches = |text: &str| Scenario::parse(text, None).unwrap().has_batches();
        assert!(
            has_batches("batch remove 1; remove 2")
                && has_batches("thread 1 batch remove 1")
                && !has_batches(threads)
        );
    }

    #[test]
    fn random_programs_have_rounds_of_their_threads() {
        let scenario = Scenario::random_threads(ScriptKeys::Bytes, 7, 3, 1);
        assert_eq!(scenario, Scenario::random_threads(ScriptKeys::Bytes, 7, 3, 1));
        let one = |first: usize| {
            Step::Concurrent((0..3).map(|i| on(i as u16 + 1, &[first + i])).collect())
        };
        assert_eq!(scenario.steps(), [one(0), one(3), Step::Concurrent(vec![on(1, &[6])])]);
        assert!(scenario.check_for(Engine::FpTreeConcurrent).is_ok());
    }
}
