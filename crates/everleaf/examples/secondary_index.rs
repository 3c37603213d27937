//! People by number, and an index of their towns: both change in one transaction, so neither ever
//! speaks of what the other does not know, and threads that change the same person take turns.
//!
//! `cargo run -p everleaf --example secondary_index`

use everleaf::{Result, Store, Tree};

struct People {
    store: Store,
    /// Number to "name, town".
    by_number: Tree<u64, String>,
    /// Town and number; no value.
    by_town: Tree<(String, u64), ()>,
}

impl People {
    fn over(store: Store) -> Result<Self> {
        Ok(Self {
            by_number: store.typed_tree("people")?,
            by_town: store.typed_tree("people by town")?,
            store,
        })
    }

    fn put(&self, number: u64, name: &str, town: &str) -> Result<()> {
        self.store.transaction(|tx| {
            let (people, towns) = (tx.on(&self.by_number)?, tx.on(&self.by_town)?);
            let before = people.insert(number, format!("{name}, {town}"))?;
            if let Some((_, before)) = before.as_deref().and_then(|text| text.split_once(", ")) {
                towns.delete((before, number))?;
            }
            towns.put((town, number), ())?;
            Ok(())
        })
    }

    /// The numbers of those who live in a town, at one moment.
    fn living_in(&self, town: &str) -> Result<Vec<u64>> {
        let snapshot = self.store.snapshot()?;
        let index = snapshot.of(&self.by_town)?;
        let found = index.range((town, 0)..=(town, u64::MAX));
        found.map(|entry| entry.map(|((_, number), ())| number)).collect()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let people = People::over(Store::create(folder.path().join("people.pool"))?)?;
    people.put(1, "Ann", "Bath")?;
    people.put(2, "Bob", "York")?;
    people.put(3, "Cid", "Bath")?;
    assert_eq!(people.living_in("Bath")?, [1, 3]);
    people.put(1, "Ann", "York")?;
    assert_eq!((people.living_in("Bath")?, people.living_in("York")?), (vec![3], vec![1, 2]));
    for number in people.living_in("York")? {
        println!("{number}: {}", people.by_number.get(number)?.unwrap_or_default());
    }
    people.store.close()?;
    Ok(())
}
