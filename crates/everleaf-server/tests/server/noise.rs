//! Bytes that no client sends: pieces of requests and noise, drawn from a seed. Nothing panics, and
//! how the bytes are cut changes nothing of what is answered.

use std::sync::Arc;

use everleaf::{Clock, CreateOptions};
use everleaf_server::{Database, ServeOptions, Served, Shared, Then, memcached, redis};

const SEEDS: std::ops::Range<u64> = 0..40;
const PIECES: usize = 400;

const MEMCACHED: &[&[u8]] = &[
    b"get ",
    b"gets ",
    b"set ",
    b"cas ",
    b"append ",
    b"incr ",
    b"delete ",
    b"touch ",
    b"gat ",
    b"mg ",
    b"ms ",
    b"md ",
    b"ma ",
    b"me ",
    b"mn",
    b"a",
    b"b",
    b"Zm9v",
    b" 0 0 1",
    b" 0 -1 2",
    b" 1",
    b" 3",
    b" v",
    b" t",
    b" k b",
    b" N30",
    b" I",
    b" q",
    b" MA",
    b" S",
    b" noreply",
    b"\r\n",
    b"\r\n",
    b"\r\n",
    b"\n",
    b" ",
    b"x",
    b"xy",
    b"\xff",
    b"flush_all",
    b"lru_crawler metadump all",
    b" 99999999999999999999",
    b" -1",
    b"verbosity 1",
];

const REDIS: &[&[u8]] = &[
    b"*1\r\n",
    b"*2\r\n",
    b"*3\r\n",
    b"$3\r\n",
    b"$1\r\n",
    b"GET",
    b"SET",
    b"DEL",
    b"\r\n",
    b"\r\n",
    b"\r\n",
    b"GET a",
    b"SET a 1",
    b"APPEND a x",
    b"HSET h a 1",
    b"HGETALL h",
    b"ZADD z 1 a",
    b"ZRANGE z 0 -1",
    b"ZRANGE z ( [ BYLEX",
    b"LPUSH l a",
    b"LTRIM l 5 1",
    b"LINSERT l BEFORE a b",
    b"SPOP s 9",
    b"SADD s a",
    b"MULTI",
    b"EXEC",
    b"WATCH a",
    b"SCAN 0",
    b"HELLO 3",
    b"HELLO",
    b"CLIENT",
    b"COMMAND DOCS",
    b"CONFIG GET *",
    b"\"",
    b"'",
    b"\\x",
    b"\xff",
    b"\0",
    b" ",
    b"OBJECT ENCODING a",
    b"EXPIRE a 1",
    b"SETRANGE a 99999999999 x",
    b"GETRANGE a -9223372036854775808 9223372036854775807",
    b"LRANGE l -9223372036854775808 -1",
    b"INCRBYFLOAT a 1e308",
    b"ZINCRBY z inf a",
    b"SELECT 9",
    b"RENAME l a",
    b"COPY z s REPLACE",
];

/// Numbers from a seed (splitmix64).
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % limit as u64) as usize
    }
}

fn noise(pieces: &[&[u8]], seed: u64) -> Vec<u8> {
    let mut draws = Draws(seed);
    (0..PIECES).flat_map(|_| pieces[draws.below(pieces.len())]).copied().collect()
}

fn shared(folder: &std::path::Path) -> Arc<Shared> {
    let others = std::fs::read_dir(folder).unwrap().count();
    let pool = folder.join(format!("{others}.pool"));
    let clock = Clock::manual(1_700_000_000_000);
    let create = CreateOptions::new().size_bytes(4 << 20).clock(clock.clone());
    let data = Database::over(create.create(pool).unwrap(), clock).unwrap();
    Shared::new(Arc::new(data), ServeOptions::default())
}

/// The replies when the bytes come in pieces of `cut`, until the session closes.
fn replies(
    mut serve: impl FnMut(&[u8], &mut Vec<u8>) -> Served,
    input: &[u8],
    cut: usize,
) -> Vec<u8> {
    let (mut out, mut start) = (Vec::new(), 0);
    for end in (0..input.len()).step_by(cut).skip(1).chain([input.len()]) {
        loop {
            let mut some = Vec::new();
            let served = serve(&input[start..end], &mut some);
            assert!(served.consumed <= end - start);
            start += served.consumed;
            out.extend(some);
            match served.then {
                Then::Close | Then::Leave => return out,
                Then::Write | Then::Long | Then::Locked | Then::Script => continue,
                Then::Read | Then::Wait(_) => break,
            }
        }
    }
    out
}

#[test]
fn noise_is_answered_the_same_however_it_is_cut() {
    for seed in SEEDS {
        eprintln!("seed {seed}");
        for is_redis in [false, true] {
            let input = noise(if is_redis { REDIS } else { MEMCACHED }, seed);
            let folder = tempfile::tempdir().unwrap();
            let mut all = [input.len(), 7, 1].map(|cut| {
                let shared = shared(folder.path());
                match is_redis {
                    true => {
                        let mut session = redis::Session::new(shared);
                        replies(|input, out| session.serve_long(input, out), &input, cut)
                    }
                    false => {
                        let mut session = memcached::Session::new(shared);
                        replies(|input, out| session.serve(input, out), &input, cut)
                    }
                }
            });
            let whole = std::mem::take(&mut all[0]);
            for other in &all[1..] {
                assert!(*other == whole, "seed {seed}: {} and {}", other.len(), whole.len());
            }
        }
    }
}
