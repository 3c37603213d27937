//! Reading the lines of a script.

use crate::operation::filled;
use crate::{End, Key, Operation, ScriptError, ScriptKeys};

/// The greatest number of a thread, and the most threads of one step.
const MAX_THREADS: u16 = 16;
/// The most entries that are filled at once.
const MAX_FILLED: u16 = 1000;

/// How each line is written, by its first word.
const FORMS: &[(&str, &str)] = &[
    ("get", "get KEY"),
    ("scan", ALONE),
    ("snapshot", ALONE),
    ("insert", "insert KEY VALUE"),
    ("update", "update KEY VALUE"),
    ("upsert", "upsert KEY VALUE"),
    ("remove", "remove KEY"),
    ("take", "take KEY"),
    ("swap", "swap KEY OLD NEW, where OLD and NEW are values or none"),
    ("pop", "pop first, or pop last"),
    ("delete_range", "delete_range FROM BELOW, two keys of one tree"),
    ("put_for", "put_for KEY VALUE"),
    ("put_expired", "put_expired KEY VALUE"),
    ("sweep", ALONE),
    ("drop_tree", "drop_tree NAME"),
    ("batch", BATCH),
    ("move", "move KEY TO"),
    ("copy", "copy KEY TO"),
    ("claim", "claim FROM BELOW KEY VALUE, where FROM and BELOW are of one tree"),
    ("sync", ALONE),
    ("epoch", ALONE),
    ("crash", ALONE),
    ("reopen", ALONE),
    ("close", ALONE),
    ("open", ALONE),
    ("create", ALONE),
    (
        "refused",
        "refused OPERATION, where OPERATION is insert, update, upsert, put_for, put_expired or \
        batch",
    ),
    ("cut", "cut SITE OPERATION"),
    ("explore", ALONE),
    ("thread", THREAD),
];
const ALONE: &str = "the word alone";
const BATCH: &str = "batch OP; OP; .., where OP is insert, update, upsert, remove, put_for, \
    put_expired, or fill FROM COUNT VALUE for up to 1000 entries";
const THREAD: &str = "thread N OP.., where N is 1 to 16 and OP is get, scan, snapshot, insert, \
    update, upsert, remove, take, swap, pop, put_for, put_expired, sweep, batch, move, copy, \
    claim, sync or epoch, of the tree without a name";

/// The first words of all lines.
pub(crate) fn known_words() -> String {
    let words: Vec<&str> = FORMS.iter().map(|(word, _)| *word).collect();
    words.join(", ")
}

impl Operation {
    /// The word of its line in a script.
    pub(crate) fn word(&self) -> &'static str {
        let line = match self {
            Operation::Thread { operation, .. } => operation.to_string(),
            other => other.to_string(),
        };
        let is_first = |(word, _): &&(&str, &str)| line.split(' ').next() == Some(word);
        FORMS.iter().find(is_first).map_or("part of a batch", |(word, _)| word)
    }
}

fn wrong_form(line: usize, word: &str) -> ScriptError {
    match FORMS.iter().find(|(known, _)| *known == word) {
        Some((_, form)) => ScriptError::Form { line, form },
        None => ScriptError::UnknownOperation { line, word: word.into() },
    }
}

/// The operations of a line `batch OP; OP; ..`, in words.
fn batch_operations<'a>(words: &[&'a str]) -> Vec<Vec<&'a str>> {
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

/// The words of a line that are keys.
pub(crate) fn key_words<'a>(mut words: &[&'a str]) -> Vec<&'a str> {
    while let ["thread" | "cut", _, rest @ ..] | ["refused", rest @ ..] = words {
        words = rest;
    }
    let operations = match words {
        ["batch", operations @ ..] => batch_operations(operations),
        words => vec![words.to_vec()],
    };
    operations.iter().flat_map(|operation| keys_of(operation)).collect()
}

fn keys_of<'a>(operation: &[&'a str]) -> Vec<&'a str> {
    match *operation {
        [
            "get" | "insert" | "update" | "upsert" | "remove" | "take" | "swap" | "put_for"
            | "put_expired" | "fill",
            key,
            ..,
        ] => vec![key],
        ["move" | "copy" | "delete_range", from, to] => vec![from, to],
        ["claim", from, to, key, _] => vec![from, to, key],
        _ => Vec::new(),
    }
}

/// The operation of a line; none is on an empty one.
pub(crate) fn parse_operation(
    line: usize,
    words: &[&str],
    keys: ScriptKeys,
) -> Result<Option<Operation>, ScriptError> {
    let number =
        |word: &str| word.parse().map_err(|_| ScriptError::NotANumber { line, word: word.into() });
    let value = |word: &str| if word == "none" { Ok(None) } else { number(word).map(Some) };
    let key = |word: &str| {
        Ok(match (keys, word.split_once(':')) {
            (ScriptKeys::U64, _) => Key::U64(number(word)?),
            (ScriptKeys::Bytes, None) => Key::Bytes(word.as_bytes().to_vec()),
            (ScriptKeys::Bytes, Some((tree, key))) => {
                Key::InTree(tree.to_owned(), key.as_bytes().to_vec())
            }
        })
    };
    let operation = match *words {
        ["get", k] => Operation::Get(key(k)?),
        ["insert", k, value] => Operation::Insert(key(k)?, number(value)?),
        ["update", k, value] => Operation::Update(key(k)?, number(value)?),
        ["upsert", k, value] => Operation::Upsert(key(k)?, number(value)?),
        ["remove", k] => Operation::Remove(key(k)?),
        ["take", k] => Operation::Take(key(k)?),
        ["swap", k, old, new] => Operation::Swap(key(k)?, value(old)?, value(new)?),
        ["pop", "first"] => Operation::Pop(End::First),
        ["pop", "last"] => Operation::Pop(End::Last),
        ["delete_range", from, below] => Operation::DeleteRange(key(from)?, key(below)?),
        ["put_for", k, value] => Operation::PutFor(key(k)?, number(value)?),
        ["put_expired", k, value] => Operation::PutExpired(key(k)?, number(value)?),
        ["sweep"] => Operation::Sweep,
        ["drop_tree", name] => Operation::DropTree(name.to_owned()),
        ["move", from, to] => Operation::Move(key(from)?, key(to)?),
        ["copy", from, to] => Operation::Copy(key(from)?, key(to)?),
        ["claim", from, to, k, value] => {
            Operation::Claim(key(from)?, key(to)?, key(k)?, number(value)?)
        }
        ["scan"] => Operation::Scan,
        ["snapshot"] => Operation::Snapshot,
        ["sync"] => Operation::Sync,
        ["epoch"] => Operation::Epoch,
        ["crash"] => Operation::Crash,
        ["reopen"] => Operation::Reopen,
        ["close"] => Operation::Close,
        ["open"] => Operation::Open,
        ["create"] => Operation::Create,
        ["refused", ref operation @ ..] => {
            let form = || wrong_form(line, "refused");
            let adds = matches!(
                operation.first(),
                Some(&("insert" | "update" | "upsert" | "put_for" | "put_expired" | "batch"))
            );
            let operation = if adds { parse_operation(line, operation, keys)? } else { None };
            Operation::Refused(Box::new(operation.ok_or_else(form)?))
        }
        ["batch", ref operations @ ..] => parse_batch(line, operations, keys)?,
        [word, ..] => return Err(wrong_form(line, word)),
        [] => return Ok(None),
    };
    match &operation {
        Operation::DeleteRange(from, below) | Operation::Claim(from, below, ..)
            if from.tree() != below.tree() =>
        {
            Err(wrong_form(line, words[0]))
        }
        _ => Ok(Some(operation)),
    }
}

/// What follows the word `batch`.
fn parse_batch(line: usize, words: &[&str], keys: ScriptKeys) -> Result<Operation, ScriptError> {
    let form = || ScriptError::Form { line, form: BATCH };
    let mut operations = Vec::new();
    for words in batch_operations(words) {
        let operation = match words[..] {
            ["fill", from, count, value] => Some(parse_fill(line, [from, count, value], keys)?),
            ["insert" | "update" | "upsert" | "remove" | "put_for" | "put_expired", ..] => {
                parse_operation(line, &words, keys)?
            }
            _ => None,
        };
        operations.push(operation.ok_or_else(form)?);
    }
    if operations.is_empty() { Err(form()) } else { Ok(Operation::Batch(operations)) }
}

/// `fill FROM COUNT VALUE`: every key that is counted up to must be one.
fn parse_fill(
    line: usize,
    [from, count, value]: [&str; 3],
    keys: ScriptKeys,
) -> Result<Operation, ScriptError> {
    let Some(Operation::Upsert(from, value)) =
        parse_operation(line, &["upsert", from, value], keys)?
    else {
        return Err(ScriptError::Form { line, form: BATCH });
    };
    let count = count.parse().ok().filter(|count| (1..=MAX_FILLED).contains(count));
    let count = count.filter(|count| filled(&from, *count, value).count() == usize::from(*count));
    match count {
        Some(count) => Ok(Operation::Fill(from, count, value)),
        None => Err(ScriptError::Form { line, form: BATCH }),
    }
}

/// What follows the word `thread`; `round` numbers the groups of such lines.
pub(crate) fn parse_thread(
    line: usize,
    words: &[&str],
    keys: ScriptKeys,
    round: usize,
) -> Result<Operation, ScriptError> {
    let form = || ScriptError::Form { line, form: THREAD };
    let [number, words @ ..] = words else { return Err(form()) };
    let thread =
        number.parse().ok().filter(|thread| (1..=MAX_THREADS).contains(thread)).ok_or_else(form)?;
    let runs = !matches!(
        words.first(),
        None | Some(
            &("delete_range"
                | "drop_tree"
                | "crash"
                | "reopen"
                | "close"
                | "open"
                | "create"
                | "refused"
                | "cut"
                | "explore"
                | "thread")
        )
    );
    let operation = if runs { parse_operation(line, words, keys)? } else { None };
    let operation = operation.filter(|operation| !operation.is_of_trees()).ok_or_else(form)?;
    Ok(Operation::Thread { thread, round, operation: Box::new(operation) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    /// One line of each kind, each part as it is shown again.
    const LINES: &[&str] = &[
        "get k",
        "scan",
        "snapshot",
        "insert tree:k 1",
        "update k 1",
        "upsert k 1",
        "remove tree:",
        "take k",
        "swap k none 7",
        "swap :k 7 none",
        "pop first",
        "pop last",
        "delete_range tree:a tree:b",
        "put_for k 1",
        "put_expired k 1",
        "sweep",
        "drop_tree tree",
        "batch insert a 1; fill tree:b 300 7; put_for c 1; put_expired d 2",
        "move tree:k k",
        "copy k tree:k",
        "claim a b tree:c 4",
        "sync",
        "epoch",
        "crash",
        "reopen",
        "close",
        "open",
        "create",
        "refused batch fill a 2 3",
        "thread 2 swap k 1 2",
    ];

    #[test]
    fn every_line_is_shown_as_it_is_written_and_every_beginning_of_one_is_no_panic() {
        for line in LINES {
            let scenario = Scenario::parse(line, Some(ScriptKeys::Bytes)).unwrap();
            assert_eq!(scenario.explore[0].to_string(), *line);
            let words: Vec<&str> = line.split(' ').collect();
            for end in 0..words.len() {
                let _ = Scenario::parse(&words[..end].join(" "), None);
            }
        }
        let known = known_words();
        let shown = |word: &str| LINES.iter().any(|line| line.starts_with(word));
        let unshown: Vec<&str> = known.split(", ").filter(|word| !shown(word)).collect();
        assert_eq!(unshown, ["cut", "explore"]);
    }

    #[test]
    fn lines_that_nest_deeply_are_refused() {
        for word in ["refused", "batch", "thread", "cut"] {
            let text = format!("{word} ").repeat(1_000_000);
            assert!(Scenario::parse(&text, None).is_err(), "{word}");
        }
    }

    #[test]
    fn a_row_that_leaves_the_keys_or_is_too_long_is_refused() {
        let parse = |text: &str| Scenario::parse(text, None);
        assert!(parse(&format!("batch fill {} 2 1", u64::MAX - 1)).is_ok());
        for text in [
            &format!("batch fill {} 3 1", u64::MAX - 1),
            "batch fill 1 0 1",
            "batch fill 1 1001 1",
            "fill 1 2 3",
            "batch fill 1 2",
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                matches!(error, ScriptError::Form { .. } | ScriptError::UnknownOperation { .. }),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn a_range_lies_in_one_tree() {
        for text in ["delete_range a t:b", "delete_range t:a u:b", "claim t:a b c 1"] {
            let error = Scenario::parse(text, None);
            assert!(matches!(error, Err(ScriptError::Form { line: 1, .. })), "{text}");
        }
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
            "thread 1 drop_tree a",
            "thread 1 delete_range 1 2",
            "thread 1 get tree:1",
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
}
