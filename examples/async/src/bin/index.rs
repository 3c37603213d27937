//! People by number, and an index of their towns that a transaction keeps: no reader and no crash
//! finds the one without the other, however many tasks change the same person.
//!
//! `cargo run --bin index`

use everleaf::{Result, Store, Tree};
use everleaf_async_examples::off;

/// Clones are the same people.
#[derive(Clone)]
struct People {
    store: Store,
    /// Name and town.
    by_number: Tree<u64, (String, String)>,
    by_town: Tree<(String, u64), ()>,
}

impl People {
    fn over(store: Store) -> Result<Self> {
        let by_number = store.typed_tree("people")?;
        Ok(Self { by_number, by_town: store.typed_tree("people by town")?, store })
    }

    /// Lets a person live in a town; runs again by itself where another task was quicker.
    async fn put(&self, number: u64, name: &str, town: &str) -> Result<()> {
        let (people, name, town) = (self.clone(), name.to_owned(), town.to_owned());
        off(move || {
            people.store.transaction(|tx| {
                let before = tx.on(&people.by_number)?.insert(number, (&name, &town))?;
                if let Some((_, before)) = before {
                    tx.on(&people.by_town)?.delete((before, number))?;
                }
                tx.on(&people.by_town)?.put((&town, number), ())?;
                Ok(())
            })
        })
        .await
    }

    fn in_town(&self, town: &str) -> Result<Vec<u64>> {
        self.by_town.prefix((town,)).map(|entry| entry.map(|((_, number), ())| number)).collect()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let people = People::over(Store::open_or_create(folder.path().join("people.pool"))?)?;
    let moves = (0..40).map(|n| {
        let people = people.clone();
        tokio::spawn(async move {
            people.put(n % 4, "Ann", ["Bath", "York", "Hull"][n as usize % 3]).await
        })
    });
    for step in moves.collect::<Vec<_>>() {
        step.await??;
    }
    // Each of the four lives in one town, and there the index has it.
    assert_eq!((people.by_number.len()?, people.by_town.len()?), (4, 4));
    for entry in &people.by_number {
        let (number, (_, town)) = entry?;
        assert!(people.in_town(&town)?.contains(&number));
    }
    println!("four people in {} towns", ["Bath", "York", "Hull"].len());
    people.store.close()?;
    Ok(())
}
