//! What a script can say: operations and their keys.

use std::fmt;

/// One operation on an index. Keys are text here; the key type decides what they mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Looks a key up.
    Get(Key),
    /// Visits everything, and finds each key that it has seen.
    Scan,
    /// Adds a key; refused if it is present.
    Insert(Key, u64),
    /// Replaces a value; refused if the key is absent.
    Update(Key, u64),
    /// Inserts or replaces.
    Upsert(Key, u64),
    /// Removes a key.
    Remove(Key),
    /// Removes a key and gives its value.
    Take(Key),
    /// Inserts or replaces; the value has a life that no script outlives.
    PutFor(Key, u64),
    /// Inserts or replaces; the life of the value has ended already.
    PutExpired(Key, u64),
    /// Removes what has expired.
    Sweep,
    /// Makes the second value of the first one; none is the key's absence.
    Swap(Key, Option<u64>, Option<u64>),
    /// Removes the entry at one end.
    Pop(End),
    /// Removes every key from the first up to the second, which is of the same tree.
    DeleteRange(Key, Key),
    /// Removes a named tree with all that is in it.
    DropTree(String),
    /// Visits everything as it is at one moment.
    Snapshot,
    /// Makes everything before it durable; nothing on a strict engine.
    Sync,
    /// Ends the epoch of a buffered engine; nothing on a strict one.
    Epoch,
    /// Crash here, recover, go on.
    Crash,
    /// Close cleanly, open again, go on.
    Reopen,
    /// Several writes that happen together or not at all.
    Batch(Vec<Operation>),
    /// Puts so many entries; keys and values count up from these. A part of a batch.
    Fill(Key, u16, u64),
    /// A transaction: the value of the first key becomes that of the second, if there is one.
    Move(Key, Key),
    /// A transaction: the value of the first key becomes that of the second as well, if there is
    /// one.
    Copy(Key, Key),
    /// A transaction: adds the third key if the store has none from the first up to the second.
    Claim(Key, Key, Key, u64),
    /// An operation of one of several threads.
    Thread {
        /// Its number, from 1.
        thread: u16,
        /// Consecutive operations of one round run concurrently.
        round: usize,
        /// What it does.
        operation: Box<Operation>,
    },
    /// Close cleanly.
    Close,
    /// Open what was closed, or what a crash left.
    Open,
    /// Make a new, empty pool, whatever the memory holds.
    Create,
    /// An operation that the pool has no room for: it must be refused and change nothing.
    Refused(Box<Operation>),
}

/// An operation that a power failure cuts in the preparation, so that the exploration begins with
/// the recovery from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The power fails when this barrier is first reached, everything stored before it being
    /// durable.
    pub site: String,
    /// What is cut.
    pub operation: Operation,
}

/// An end of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The least key.
    First,
    /// The greatest one.
    Last,
}

/// A key of a script, of either type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A number.
    U64(u64),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A byte string in the named tree.
    InTree(String, Vec<u8>),
}

impl Key {
    /// The tree that it is in, if that has a name.
    pub fn tree(&self) -> Option<&str> {
        match self {
            Key::InTree(tree, _) => Some(tree),
            Key::U64(_) | Key::Bytes(_) => None,
        }
    }

    /// The key that comes so many after this one in a row that is filled, if there is one.
    pub(crate) fn plus(&self, number: u64) -> Option<Self> {
        let counted = |key: &[u8]| [key, format!("{number:03}").as_bytes()].concat();
        Some(match self {
            Key::U64(key) => Key::U64(key.checked_add(number)?),
            Key::Bytes(key) => Key::Bytes(counted(key)),
            Key::InTree(tree, key) => Key::InTree(tree.clone(), counted(key)),
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::U64(key) => write!(f, "{key}"),
            Key::Bytes(key) => f.write_str(&String::from_utf8_lossy(key)),
            Key::InTree(tree, key) => write!(f, "{tree}:{}", String::from_utf8_lossy(key)),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Get(key) => write!(f, "get {key}"),
            Operation::Scan => f.write_str("scan"),
            Operation::Insert(key, value) => write!(f, "insert {key} {value}"),
            Operation::Update(key, value) => write!(f, "update {key} {value}"),
            Operation::Upsert(key, value) => write!(f, "upsert {key} {value}"),
            Operation::Remove(key) => write!(f, "remove {key}"),
            Operation::Take(key) => write!(f, "take {key}"),
            Operation::PutFor(key, value) => write!(f, "put_for {key} {value}"),
            Operation::PutExpired(key, value) => write!(f, "put_expired {key} {value}"),
            Operation::Sweep => f.write_str("sweep"),
            Operation::Swap(key, old, new) => {
                let [old, new] = [old, new]
                    .map(|value| value.map_or_else(|| "none".to_owned(), |v| v.to_string()));
                write!(f, "swap {key} {old} {new}")
            }
            Operation::Pop(End::First) => f.write_str("pop first"),
            Operation::Pop(End::Last) => f.write_str("pop last"),
            Operation::DeleteRange(from, below) => write!(f, "delete_range {from} {below}"),
            Operation::DropTree(name) => write!(f, "drop_tree {name}"),
            Operation::Snapshot => f.write_str("snapshot"),
            Operation::Fill(from, count, value) => write!(f, "fill {from} {count} {value}"),
            Operation::Sync => f.write_str("sync"),
            Operation::Epoch => f.write_str("epoch"),
            Operation::Crash => f.write_str("crash"),
            Operation::Reopen => f.write_str("reopen"),
            Operation::Batch(operations) => {
                let operations: Vec<String> = operations.iter().map(ToString::to_string).collect();
                write!(f, "batch {}", operations.join("; "))
            }
            Operation::Move(from, to) => write!(f, "move {from} {to}"),
            Operation::Copy(from, to) => write!(f, "copy {from} {to}"),
            Operation::Claim(from, to, key, value) => {
                write!(f, "claim {from} {to} {key} {value}")
            }
            Operation::Thread { thread, operation, .. } => write!(f, "thread {thread} {operation}"),
            Operation::Close => f.write_str("close"),
            Operation::Open => f.write_str("open"),
            Operation::Create => f.write_str("create"),
            Operation::Refused(operation) => write!(f, "refused {operation}"),
        }
    }
}

impl Operation {
    /// Whether it is within this one, or is this one.
    pub(crate) fn any(&self, is: &dyn Fn(&Operation) -> bool) -> bool {
        is(self)
            || match self {
                Operation::Batch(operations) => operations.iter().any(|part| part.any(is)),
                Operation::Thread { operation, .. } | Operation::Refused(operation) => {
                    operation.any(is)
                }
                _ => false,
            }
    }

    /// The keys that it names.
    pub(crate) fn keys(&self) -> Vec<&Key> {
        match self {
            Operation::Get(key)
            | Operation::Insert(key, _)
            | Operation::Update(key, _)
            | Operation::Upsert(key, _)
            | Operation::Remove(key)
            | Operation::Take(key)
            | Operation::PutFor(key, _)
            | Operation::PutExpired(key, _)
            | Operation::Swap(key, ..)
            | Operation::Fill(key, ..) => vec![key],
            Operation::Move(a, b) | Operation::Copy(a, b) | Operation::DeleteRange(a, b) => {
                vec![a, b]
            }
            Operation::Claim(a, b, c, _) => vec![a, b, c],
            Operation::Batch(operations) => operations.iter().flat_map(Self::keys).collect(),
            Operation::Thread { operation, .. } | Operation::Refused(operation) => operation.keys(),
            _ => Vec::new(),
        }
    }

    /// Whether a store alone can run it.
    pub(crate) fn is_of_store(&self) -> bool {
        self.any(&|operation| {
            matches!(
                operation,
                Operation::Take(_)
                    | Operation::PutFor(..)
                    | Operation::PutExpired(..)
                    | Operation::Sweep
                    | Operation::Swap(..)
                    | Operation::Pop(_)
                    | Operation::DeleteRange(..)
                    | Operation::DropTree(_)
                    | Operation::Snapshot
                    | Operation::Batch(_)
                    | Operation::Move(..)
                    | Operation::Copy(..)
                    | Operation::Claim(..)
            )
        }) || self.is_of_trees()
    }

    /// Whether it is about named trees.
    pub(crate) fn is_of_trees(&self) -> bool {
        let drops = |operation: &Operation| matches!(operation, Operation::DropTree(_));
        self.any(&drops) || self.keys().iter().any(|key| key.tree().is_some())
    }

    /// Whether a value has a life.
    pub(crate) fn expires(&self) -> bool {
        let expires =
            |part: &Operation| matches!(part, Operation::PutFor(..) | Operation::PutExpired(..));
        self.any(&expires)
    }
}

/// The entries of a [`Fill`](Operation::Fill).
pub(crate) fn filled(from: &Key, count: u16, value: u64) -> impl Iterator<Item = (Key, u64)> {
    (0..u64::from(count)).filter_map(move |i| Some((from.plus(i)?, value.wrapping_add(i))))
}
