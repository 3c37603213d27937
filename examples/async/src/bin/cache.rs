//! A cache that survives restarts: what was fetched lives for a time, and a thread of the store
//! removes what has expired.
//!
//! `cargo run --bin cache`

use std::time::Duration;

use everleaf::{DurabilityMode, OpenOptions, Result, Store, Tree};
use everleaf_async_examples::off;

#[derive(Clone)]
struct Cache {
    pages: Tree<String, String>,
    life: Duration,
}

impl Cache {
    /// The page of an address, from here if it is known and fresh, else fetched. Two tasks that
    /// miss at the same time both fetch; the last one is kept.
    async fn get<E: From<everleaf::Error>>(
        &self,
        address: &str,
        fetch: impl Future<Output = std::result::Result<String, E>>,
    ) -> std::result::Result<String, E> {
        if let Some(page) = self.pages.get(address)? {
            return Ok(page);
        }
        let page = fetch.await?;
        let (pages, life) = (self.pages.clone(), self.life);
        let (address, stored) = (address.to_owned(), page.clone());
        off(move || pages.put_for(address, stored, life)).await?;
        Ok(page)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("cache.pool");
    Store::create(&path)?.close()?;
    // What a crash takes of a cache is fetched again: nobody waits for a disk.
    let options = OpenOptions::new().relaxed_durability(DurabilityMode::buffered());
    let store = options.open(&path)?;
    store.sweep_every(Some(Duration::from_secs(60)))?;
    let cache = Cache { pages: store.typed_tree("pages")?, life: Duration::from_millis(300) };

    let mut fetched = 0;
    for _ in 0..3 {
        let page = cache.get("/start", async {
            fetched += 1;
            Ok::<_, everleaf::Error>("welcome".to_owned())
        });
        assert_eq!(page.await?, "welcome");
    }
    assert_eq!(fetched, 1, "it was known then");
    store.close()?;

    let store = Store::open(&path)?;
    let cache = Cache { pages: store.typed_tree("pages")?, ..cache };
    println!("after a restart: {:?}", cache.pages.get("/start")?);
    tokio::time::sleep(cache.life).await;
    assert_eq!(cache.pages.get("/start")?, None, "it has expired");
    store.close()?;
    Ok(())
}
