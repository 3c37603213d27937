//! People by number, and an index of their towns: both change in one batch, so neither ever speaks
//! of what the other does not know.
//!
//! `cargo run -p everleaf --example secondary_index`

use everleaf::{Error, Key, KeyType, Store, Tree};

struct People {
    store: Store,
    /// Number to "name, town".
    by_number: Tree,
    /// Town, a zero byte, and the number, big-endian so that numbers are in order; no value.
    by_town: Tree,
}

impl People {
    fn over(store: Store) -> Result<Self, Error> {
        Ok(Self {
            by_number: store.tree_with("people", KeyType::U64)?,
            by_town: store.tree("people by town")?,
            store,
        })
    }

    fn index_key(town: &str, number: u64) -> Vec<u8> {
        [town.as_bytes(), &[0], &number.to_be_bytes()].concat()
    }

    fn town(&self, number: u64) -> Result<Option<String>, Error> {
        let text =
            self.by_number.get(number)?.map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok(text.and_then(|text| text.split_once(", ").map(|(_, town)| town.to_owned())))
    }

    /// One thread changes a person at a time; several would keep each other out by
    /// `compare_and_swap` on the person.
    fn put(&self, number: u64, name: &str, town: &str) -> Result<(), Error> {
        let mut batch = self.store.batch();
        if let Some(before) = self.town(number)? {
            batch.on(&self.by_town)?.delete(&Self::index_key(&before, number))?;
        }
        batch.on(&self.by_number)?.put(number, format!("{name}, {town}").as_bytes())?;
        batch.on(&self.by_town)?.put(&Self::index_key(town, number), b"")?;
        batch.commit().map(drop)
    }

    /// The numbers of those who live in a town, at one moment.
    fn living_in(&self, town: &str) -> Result<Vec<u64>, Error> {
        let snapshot = self.store.snapshot()?;
        let index = snapshot.of(&self.by_town)?;
        let number = |entry: everleaf::Entry| match entry.0.as_ref() {
            Key::Bytes(key) => key.last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)),
            Key::U64(number) => number,
        };
        index.prefix([town.as_bytes(), &[0]].concat()).map(|entry| entry.map(number)).collect()
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
        println!(
            "{number}: {}",
            String::from_utf8(people.by_number.get(number)?.unwrap_or_default())?
        );
    }
    people.store.close()?;
    Ok(())
}
