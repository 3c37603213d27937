//! What users write: dumps, files of `load`, scripts of the explorer, lines of the shell.

use everleaf::{Clock, KeyType, MAX_KEY_BYTES, Store};
use everleaf_cli::internal::{Lines, Records, Rows, Session, Tsv};
use everleaf_testkit::{Scenario, ScriptKeys};

use crate::store::{in_memory, read};

/// The longest line or row.
const LINE: usize = 1 << 20;

fn store(key_type: KeyType) -> Store {
    in_memory(key_type, &Clock::manual(0))
}

/// A dump, or a file of `load`; the first byte says which.
pub fn load(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let text = || Box::new(std::io::Cursor::new(rest.to_vec()));
    match kind % 7 {
        0 => restore(KeyType::Bytes, rest),
        1 => restore(KeyType::Bytes, &framed(KeyType::Bytes, rest)),
        2 => restore(KeyType::U64, &framed(KeyType::U64, rest)),
        3 => records(Lines::new(text(), MAX_KEY_BYTES)),
        4 => records(Tsv::new(text(), LINE, false)),
        5 => records(Tsv::new(text(), LINE, true)),
        _ => {
            let (column, table) = rest.split_at(rest.iter().position(|b| *b == b'\n').unwrap_or(0));
            let table = Box::new(std::io::Cursor::new(table.get(1..).unwrap_or_default().to_vec()));
            let column = String::from_utf8_lossy(column);
            let _ = Rows::new(table, &column, LINE as u64).map(records);
        }
    }
}

/// A store that takes a dump whole or not at all.
fn restore(key_type: KeyType, dump: &[u8]) {
    let store = store(key_type);
    if store.restore(dump).is_err() {
        assert_eq!(store.len_of_all_trees().ok(), Some(0), "something is left of a refused dump");
    }
    read(&store);
}

/// A dump whose checksums are right: the input is frames, each behind its length in one byte.
fn framed(key_type: KeyType, input: &[u8]) -> Vec<u8> {
    let head = [&b"EVLFDUMP"[..], &[1, 0, 0, 0, u8::from(key_type == KeyType::Bytes), 0, 0, 0]];
    let mut dump = head.concat();
    dump.extend(crc32fast::hash(&dump).to_le_bytes());
    let mut rest = input;
    while let Some((length, behind)) = rest.split_first() {
        let (frame, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        let frame = [&(frame.len() as u32).to_le_bytes(), frame].concat();
        dump.extend_from_slice(&frame[..4]);
        dump.extend(crc32fast::hash(&frame).to_le_bytes());
        dump.extend_from_slice(&frame[4..]);
        rest = behind;
    }
    dump
}

/// All records of a file, up to what is wrong.
fn records(mut records: impl Records) {
    while let Ok(Some(_)) = records.next() {}
}

/// A script, with the keys that it says and with each kind.
pub fn script(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for keys in [None, Some(ScriptKeys::U64), Some(ScriptKeys::Bytes)] {
        let _ = Scenario::parse(&text, keys);
    }
}

/// Lines of the shell; those that would make a file are left out.
pub fn shell(input: &[u8]) {
    let Some((kind, lines)) = input.split_first() else { return };
    let store = store(if kind % 2 == 0 { KeyType::Bytes } else { KeyType::U64 });
    let mut session = Session::new(&store);
    for line in String::from_utf8_lossy(lines).lines() {
        let first = shell_words::split(line).ok().and_then(|words| words.into_iter().next());
        if first.is_none_or(|word| !word.ends_with("copy")) {
            let _ = session.run(line, &mut Vec::new());
        }
    }
    session.end();
    assert!(store.check().is_ok_and(|outcome| outcome.ok), "the shell did damage");
}
