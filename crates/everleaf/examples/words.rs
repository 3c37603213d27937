//! Counts words: `cargo run --release -p everleaf --example words -- POOL < TEXT`. Run it again,
//! and it goes on counting.

use std::io::BufRead;
use std::path::Path;

use everleaf::{Error, Store};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("give the path of a pool")?;
    let store = if Path::new(&path).exists() { Store::open(&path)? } else { Store::create(&path)? };
    for line in std::io::stdin().lock().lines() {
        for word in line?.split_whitespace() {
            count(&store, word)?;
        }
    }
    for entry in &store {
        let (word, count) = entry?;
        println!("{} {}", word.as_ref(), number(&count));
    }
    store.close()?;
    Ok(())
}

/// One more; durable on return.
fn count(store: &Store, word: &str) -> Result<(), Error> {
    let before = store.get_with(word, number)?.unwrap_or(0);
    store.put(word, &(before + 1).to_le_bytes())?;
    Ok(())
}

fn number(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_le_bytes)
}
