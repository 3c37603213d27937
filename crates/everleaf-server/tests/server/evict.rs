//! Eviction: a full pool takes what is new, and what is used stays.

use std::time::Duration;

use crate::keyspace::Pool;

/// Bytes of a pool that is soon full.
const SMALL: u64 = 8 << 20;

/// Fills it some times over; every hundredth key is read again and again.
fn fill(pool: &Pool, keys: usize) -> (usize, usize) {
    let mut client = pool.client();
    let value = "v".repeat(1000);
    for key in 0..keys {
        let reply = client.ask(&format!("SET key{key:06} {value}"));
        assert_eq!(reply, "+OK\r\n", "key {key}");
        if key % 100 == 0 {
            (0..=key).step_by(1000).for_each(|hot| drop(client.ask(&format!("GET key{hot:06}"))));
            std::thread::sleep(Duration::from_millis(30)); // The age is one of seconds.
        }
    }
    let mut there = |step| {
        let all: Vec<usize> = (0..keys).step_by(step).collect();
        let is_there = |key: &&usize| client.ask(&format!("EXISTS key{key:06}")) == ":1\r\n";
        100 * all.iter().filter(is_there).count() / all.len()
    };
    (there(1000), there(1))
}

#[test]
fn a_full_pool_refuses_nothing_and_keeps_what_is_used() {
    let pool = Pool::of(SMALL);
    pool.shared.data.evict_beyond(u64::MAX);
    let sweeper = pool.shared.data.sweep(Duration::from_millis(5));
    let (used, all) = fill(&pool, 20_000);
    drop(sweeper);
    assert!(used > 2 * all && all < 50, "{used} of 100 used keys are there, {all} of all");
    let mut client = pool.client();
    client.check();
    assert!(client.number("DBSIZE") > 3000);
    let evicted = pool.shared.data.evicted();
    let told = format!("evicted_keys:{evicted}\r\n");
    assert!(evicted > 10_000 && client.ask("INFO stats").contains(&told), "{told}");
}

#[test]
fn to_be_written_is_to_be_used() {
    let pool = Pool::of(SMALL);
    pool.shared.data.evict_beyond(u64::MAX);
    let _sweeper = pool.shared.data.sweep(Duration::from_millis(5));
    let (mut client, value) = (pool.client(), "v".repeat(1000));
    (0..6000).for_each(|key| drop(client.ask(&format!("SET old{key} {value}"))));
    (0..6000).for_each(|key| drop(client.ask(&format!("GET old{key}"))));
    std::thread::sleep(Duration::from_millis(2100)); // The age is one of seconds.
    (0..1500).for_each(|key| drop(client.ask(&format!("SET old{key}new {value}"))));
    let is_there = |key: &i32| client.ask(&format!("EXISTS old{key}new")) == ":1\r\n";
    let there = (0..1500).filter(is_there).count();
    assert!(there > 1400, "{there} of 1500 new keys are there");
}

#[test]
fn writes_find_room_by_themselves_in_transactions_and_for_collections_too() {
    let pool = Pool::of(SMALL);
    let mut client = pool.client();
    let value = "v".repeat(1000);
    let mut key = 0;
    while !client.ask(&format!("SET key{key:06} {value}")).starts_with('-') {
        key += 1;
    }
    pool.shared.data.evict_beyond(u64::MAX);
    for key in 0..200 {
        assert_eq!(client.ask(&format!("SET more{key} {value}")), "+OK\r\n");
        assert_eq!(client.ask(&format!("RPUSH list{key} {value} {value}")), ":2\r\n");
        client.ask("MULTI");
        client.ask(&format!("SET a{key} {value}"));
        client.ask("DBSIZE");
        client.ask(&format!("SET b{key} {value}"));
        let replies = client.ask("EXEC");
        assert!(replies.starts_with("*3\r\n+OK\r\n:"), "{replies}");
        // What one request writes is never evicted for it.
        assert_eq!(client.ask(&format!("EXISTS a{key} b{key}")), ":2\r\n");
    }
    client.check();
}

#[test]
fn a_limit_below_that_of_the_pool_is_kept_about() {
    let pool = Pool::of(8 * SMALL);
    pool.shared.data.evict_beyond(SMALL);
    let sweeper = pool.shared.data.sweep(Duration::from_millis(1));
    let mut client = pool.client();
    let value = "v".repeat(1000);
    let used = || pool.shared.data.store().statistics().unwrap().used_bytes;
    for key in 0..40_000 {
        assert_eq!(client.ask(&format!("SET key{key:06} {value}")), "+OK\r\n");
        if key % 1000 == 0 {
            std::thread::sleep(Duration::from_millis(30));
        }
    }
    let begun = std::time::Instant::now();
    while used() > SMALL + SMALL / 4 {
        assert!(begun.elapsed() < crate::common::PATIENCE, "{} bytes are used", used());
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(sweeper);
    client.check();
}

#[test]
fn a_limit_is_kept_by_collections_too_and_not_all_of_them_go() {
    let pool = Pool::of(8 * SMALL);
    pool.shared.data.evict_beyond(2 * SMALL);
    let mut client = pool.client();
    let value = "v".repeat(1000);
    let fields: Vec<String> = (0..100).map(|at| format!("f{at} {value}")).collect();
    let fields = fields.join(" ");
    for key in 0..400 {
        assert_eq!(client.ask(&format!("HSET hash{key:03} {fields}")), ":100\r\n");
    }
    let sweeper = pool.shared.data.sweep(Duration::from_millis(1));
    let used = || pool.shared.data.store().statistics().unwrap().used_bytes;
    let begun = std::time::Instant::now();
    while used() > 2 * SMALL + SMALL / 2 {
        assert!(begun.elapsed() < crate::common::PATIENCE, "{} bytes are used", used());
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(100));
    drop(sweeper);
    // 2 * SMALL are about 140 of them.
    let left = client.number("DBSIZE");
    assert!(left > 40, "{left} are left");
}
