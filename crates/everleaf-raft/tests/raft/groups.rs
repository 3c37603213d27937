//! Which groups count.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use everleaf_raft::{C, Entry, Group, LeaderId, LogId, Member, Pools, Rows, State};
use futures_util::stream;
use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, Membership};
use uuid::Uuid;

use crate::disks::Disks;

pub fn log_id(term: u64, index: u64) -> LogId {
    LogId { leader_id: LeaderId { term, node_id: 1 }, index }
}

pub async fn apply(state: &mut State, entries: Vec<Entry>) -> io::Result<()> {
    let entries = entries.into_iter().map(|entry| Ok((entry, None)));
    RaftStateMachine::<C>::apply(state, stream::iter(entries)).await
}

/// The rows of a state, without the words of this crate.
pub fn rows(state: &State) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let tree = state.tree();
    let entries = tree.iter().map(|entry| entry.unwrap());
    let entries = entries.map(|(key, value)| (key.as_bytes().unwrap().to_vec(), value));
    entries.filter(|(key, _)| !key.starts_with(b"\0raft")).collect()
}

fn group(index: u64, reign: u64, number: u64, key: &str) -> Entry {
    let mut rows = Rows::new();
    rows.push(key.as_bytes(), Some(b""));
    let group = Group { reign, number, clock_ms: 100 - index, rows };
    Entry { log_id: log_id(1, index), payload: EntryPayload::Normal(group) }
}

#[test]
fn a_group_counts_directly_behind_its_predecessor_only() {
    let pools = Pools::create_at(std::sync::Arc::new(Disks::new()), Uuid::nil(), 1).unwrap();
    let mut state = pools.state();
    let entries = vec![
        group(1, 5, 1, "first"),
        group(2, 5, 3, "a gap"),
        group(3, 5, 2, "second"),
        group(4, 5, 2, "twice"),
        group(5, 4, 1, "an earlier reign"),
        group(6, 7, 2, "not the first of its reign"),
        group(7, 6, 1, "the next reign"),
        group(8, 5, 3, "the reign has ended"),
        group(9, 6, 2, "its second"),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(apply(&mut state, entries)).unwrap();
    let expected = ["first", "its second", "second", "the next reign"];
    assert!(rows(&state).keys().eq(expected.iter().map(|key| key.as_bytes())));
    let applied = state.applied();
    assert_eq!((applied.reign, applied.number, applied.passed_over), (6, 2, 5));
    assert_eq!((applied.log_id, applied.clock_ms), (Some(log_id(1, 9)), 99));
}

#[test]
fn entries_are_read_as_they_were_written_and_nothing_else_is() {
    use everleaf_raft::EntryBytes;

    let members = BTreeMap::from([(7, Member { raft: "a:1".to_owned(), ..Member::default() })]);
    let members = Membership::new(vec![BTreeSet::from([7])], members).unwrap();
    let mut rows = Rows::new();
    rows.push(b"key", Some(b"value"));
    rows.push(b"", None);
    rows.push(&[255; 300], Some(b""));
    let group = Group { reign: 1, number: u64::MAX, clock_ms: 3, rows };
    for payload in
        [EntryPayload::Blank, EntryPayload::Normal(group), EntryPayload::Membership(members)]
    {
        let entry = Entry { log_id: log_id(u64::MAX, 9), payload };
        let mut bytes = Vec::new();
        entry.write_to(&mut bytes);
        assert_eq!(Entry::read(&bytes), Ok(entry.clone()));
        for length in 0..bytes.len() {
            let cut = Entry::read(&bytes[..length]);
            let whole_rows = matches!(&entry.payload, EntryPayload::Normal(_)) && cut.is_ok();
            assert!(cut != Ok(entry.clone()) && (cut.is_err() || whole_rows), "{length}");
        }
        if !matches!(entry.payload, EntryPayload::Normal(_)) {
            assert!(Entry::read(&[&bytes[..], b"x"].concat()).is_err());
        }
        for (at, wrong) in [(0, 2), (1, 3)] {
            bytes[at] = wrong;
            assert!(Entry::read(&bytes).is_err());
            bytes[at] = 1;
        }
    }
}
