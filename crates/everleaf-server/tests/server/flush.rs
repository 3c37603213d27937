//! Emptying databases: all of them or none.

use std::sync::Arc;

use everleaf::{Clock, CreateOptions, DurabilityMode};
use everleaf_server::{Database, ServeOptions, Shared, redis};

/// Asks a session of Redis.
fn ask(session: &mut redis::Session, line: &str) -> String {
    let mut out = Vec::new();
    session.serve(format!("{line}\r\n").as_bytes(), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_flush_that_has_no_room_empties_nothing() {
    for spare in 0..24 {
        let folder = tempfile::tempdir().unwrap();
        let create = CreateOptions::new().size_bytes(1 << 20).max_size_bytes(1 << 20);
        let create = create.durability(DurabilityMode::Process);
        let store = create.create(folder.path().join("a.pool")).unwrap();
        let data = Arc::new(Database::over(store, Clock::system()).unwrap());
        let shared = Shared::new(Arc::clone(&data), ServeOptions::default());
        let mut redis = redis::Session::new(shared);
        for database in 0..16 {
            ask(&mut redis, &format!("SELECT {database}"));
            assert_eq!(ask(&mut redis, "SET here 1"), "+OK\r\n");
        }
        // What remains has the length of a database's word.
        let tree = data.store().tree("filler").unwrap();
        for length in [10_000, 1000, 100, 8] {
            let mut at = 0;
            while tree.put(format!("f{length:0>5}{at:0>6}"), vec![0; length]).is_ok() {
                at += 1;
            }
        }
        for at in 0..spare {
            tree.delete(format!("f00008{at:0>6}")).unwrap();
        }
        let flushed = ask(&mut redis, "FLUSHALL");
        for database in 0..16 {
            ask(&mut redis, &format!("SELECT {database}"));
            let there = if flushed == "+OK\r\n" { ":0\r\n" } else { ":1\r\n" };
            assert_eq!(ask(&mut redis, "EXISTS here"), there, "{database} of {spare}: {flushed}");
        }
    }
}
