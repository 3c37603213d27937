//! Counts words: `cargo run --release -p everleaf --example words -- POOL < TEXT`. Run it again,
//! and it goes on counting.

use std::io::BufRead;

use everleaf::Store;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("give the path of a pool")?;
    let store = Store::open_or_create(path)?;
    let counts = store.default_tree().typed::<String, u64>()?;
    for line in std::io::stdin().lock().lines() {
        for word in line?.split_whitespace() {
            // Durable when it returns.
            counts.update(word, |count| Some(count.unwrap_or(0) + 1))?;
        }
    }
    for entry in &counts {
        let (word, count) = entry?;
        println!("{word} {count}");
    }
    store.close()?;
    Ok(())
}
