//! `bench space`: bytes of a pool for each byte that a user gave: after a random load, with half of
//! it deleted, filled up again, and after many cycles of deleting and filling, over which a pool
//! must not grow without bound.

use std::str::FromStr;

use everleaf::{CreateOptions, Engine, KeyType, OwnedKey, Store};
use everleaf_engines::all;
use serde::Serialize;

use crate::keys::{KeySequence, Shuffle, mix};
use crate::place::{Need, Place, without_log};
use crate::plan::within;
use crate::{BenchError, Order, Progress, Scratch};

/// Bytes of a pool at first; it grows.
const FROM_BYTES: u64 = 1 << 20;
/// Records that are put or removed between two looks at the progress.
const STRETCH: usize = 1 << 14;

/// A key and a value, by their bytes: `16/100`. A key of 8 bytes is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordBytes {
    /// Bytes of the key: 8, or at least 16.
    pub key: u32,
    /// Bytes of the value.
    pub value: u32,
}

impl FromStr for RecordBytes {
    type Err = BenchError;

    fn from_str(name: &str) -> Result<Self, BenchError> {
        let parsed = name
            .split_once('/')
            .and_then(|(key, value)| Some((key.parse().ok()?, value.parse().ok()?)));
        match parsed {
            Some((key @ (8 | 16..=1024), value @ 0..=1_048_576)) => Ok(Self { key, value }),
            _ => Err(BenchError::Unknown {
                what: "record",
                name: name.into(),
                choices: "K/V with 8 or 16 to 1024 bytes of key, and up to a MiB of value".into(),
            }),
        }
    }
}

impl std::fmt::Display for RecordBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{}/{}", self.key, self.value))
    }
}

impl RecordBytes {
    fn key_type(self) -> KeyType {
        if self.key == 8 { KeyType::U64 } else { KeyType::Bytes }
    }

    /// A number in hexadecimal digits, filled up behind.
    fn key_of(self, number: u64) -> OwnedKey {
        match self.key_type() {
            KeyType::U64 => OwnedKey::U64(number),
            KeyType::Bytes => {
                OwnedKey::from(format!("{number:016x}{}", ".".repeat(self.key as usize - 16)))
            }
        }
    }
}

/// What `bench space` measures.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceOptions {
    /// The engine of the stores.
    pub engine: Engine,
    /// The sizes of records, one store after the other.
    pub records: Vec<RecordBytes>,
    /// Records in a store when it is full.
    pub keys: u64,
    /// Cycles of deleting and filling.
    pub cycles: u32,
    /// Decides the keys.
    pub seed: u64,
    /// Where the pool is made (and removed); none is /dev/shm, or the temporary folder if there is
    /// no room.
    pub pool: Scratch,
}

impl Default for SpaceOptions {
    fn default() -> Self {
        let record = |key, value| RecordBytes { key, value };
        Self {
            engine: Engine::default(),
            records: vec![record(8, 8), record(16, 100), record(24, 1000)],
            keys: 1_000_000,
            cycles: 100,
            seed: 1,
            pool: Scratch::default(),
        }
    }
}

/// What `bench space` prints for a moment of a store. Serialised, it is one JSON object whose keys
/// are these fields in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpaceRow {
    /// The engine of the store.
    pub engine: String,
    /// Bytes of a key and of a value.
    pub record: String,
    /// When: `loaded`, `half deleted`, `refilled`, `cycle N`.
    pub moment: String,
    /// Records that are there.
    pub keys: u64,
    /// Bytes of their keys and values.
    pub user_bytes: u64,
    /// Bytes of the pool in use.
    pub used_bytes: u64,
    /// Bytes of the pool's file.
    pub pool_bytes: u64,
    /// Bytes of DRAM.
    pub dram_bytes: u64,
    /// `used_bytes` to `user_bytes`.
    pub used_per_user_byte: f64,
    /// `pool_bytes` to `user_bytes`.
    pub pool_per_user_byte: f64,
    /// Part of the free bytes that lies between records.
    pub fragmentation: f64,
}

/// Fills and empties a store for each size of records.
///
/// # Errors
/// [`BenchError`]; what is wrong with the options is said before any work is done.
///
/// # Examples
/// ```
/// use everleaf_bench::{SpaceOptions, run_space_with_progress};
///
/// let options = SpaceOptions { keys: 2000, cycles: 10, ..SpaceOptions::default() };
/// let rows = run_space_with_progress(&options, &mut |_| {})?;
/// assert_eq!((rows.len(), &*rows[0].moment, &*rows[3].moment), (3 * 4, "loaded", "cycle 10"));
/// # Ok::<(), everleaf_bench::BenchError>(())
/// ```
pub fn run_space_with_progress(
    options: &SpaceOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<SpaceRow>, BenchError> {
    within("keys", options.keys, 2, 1 << 32)?;
    within("cycles", options.cycles.into(), 0, 100_000)?;
    within("records", options.records.len() as u64, 1, 100)?;
    let largest = options
        .records
        .iter()
        .map(|record| u64::from(record.key + record.value))
        .max()
        .unwrap_or(0);
    let need = Need {
        pool_bytes: options.keys * (largest * 2 + 200) + (64 << 20),
        dram_bytes: options.keys * 16 + (64 << 20),
    };
    let place = Place::find(need, &options.pool)?;
    let mut rows = Vec::new();
    let mut told = 0;
    // A cycle writes about two thirds of the records, and removes as many.
    let work =
        |records: usize| records as u64 * options.keys * (3 + u64::from(options.cycles) * 4 / 3);
    for record in &options.records {
        let folder = place.create_folder()?;
        let create = CreateOptions::new()
            .engines(all())
            .engine(options.engine)
            .key_type(record.key_type())
            .size_bytes(FROM_BYTES);
        let create = without_log(create);
        let store = folder.fill(|path| create.create(path.join("pool")))?;
        let total = work(options.records.len());
        let mut tell = |count: u64, doing: &str| {
            told += count;
            progress(Progress {
                done: told.min(total),
                total,
                doing: format!("{record}: {doing}"),
            });
        };
        let mut churn = Churn {
            options,
            record: *record,
            store,
            present: Vec::new(),
            next: 0,
            rows: &mut rows,
            tell: &mut tell,
        };
        churn.run()?;
    }
    Ok(rows)
}

/// A store that is filled and emptied.
struct Churn<'c> {
    options: &'c SpaceOptions,
    record: RecordBytes,
    store: Store,
    /// The places of the present keys in the sequence of all keys.
    present: Vec<u64>,
    next: u64,
    rows: &'c mut Vec<SpaceRow>,
    tell: &'c mut dyn FnMut(u64, &str),
}

impl Churn<'_> {
    fn run(&mut self) -> Result<(), BenchError> {
        self.fill("filling")?;
        self.note("loaded".into())?;
        self.keep(self.options.keys / 2, "deleting")?;
        self.note("half deleted".into())?;
        self.fill("filling up")?;
        self.note("refilled".into())?;
        for cycle in 1..=self.options.cycles {
            // Now half of them, now all but a tenth, now everything.
            let kept = [self.options.keys / 2, self.options.keys / 10, 0][cycle as usize % 3];
            let doing = format!("cycle {cycle}");
            self.keep(kept, &doing)?;
            self.fill(&doing)?;
            if cycle == 10 || cycle == self.options.cycles {
                self.note(doing)?;
            }
        }
        Ok(())
    }

    fn key(&self, place: u64) -> OwnedKey {
        let sequence = KeySequence::new(Order::Random, u64::BITS, u64::MAX, self.options.seed);
        self.record.key_of(sequence.number(place))
    }

    /// Puts new keys until there are as many as there should be.
    fn fill(&mut self, doing: &str) -> Result<(), BenchError> {
        let value = vec![0x5a; self.record.value as usize];
        while (self.present.len() as u64) < self.options.keys {
            let count = (self.options.keys - self.present.len() as u64).min(STRETCH as u64);
            for place in self.next..self.next + count {
                self.store.put(self.key(place), &value)?;
                self.present.push(place);
            }
            self.next += count;
            (self.tell)(count, doing);
        }
        Ok(())
    }

    /// Removes all but `kept` of the keys, in random order.
    fn keep(&mut self, kept: u64, doing: &str) -> Result<(), BenchError> {
        let order = Shuffle::new(self.present.len() as u64, mix(self.options.seed ^ self.next));
        let shuffled: Vec<u64> =
            (0..self.present.len() as u64).map(|i| self.present[order.at(i) as usize]).collect();
        let (stay, go) = shuffled.split_at(kept as usize);
        for places in go.chunks(STRETCH) {
            for place in places {
                self.store.delete(self.key(*place))?;
            }
            (self.tell)(places.len() as u64, doing);
        }
        self.present = stay.to_vec();
        Ok(())
    }

    fn note(&mut self, moment: String) -> Result<(), BenchError> {
        let statistics = self.store.statistics()?;
        let user_bytes = statistics.entries * u64::from(self.record.key + self.record.value);
        let per_user_byte = |bytes: u64| bytes as f64 / user_bytes.max(1) as f64;
        self.rows.push(SpaceRow {
            engine: self.options.engine.to_string(),
            record: self.record.to_string(),
            moment,
            keys: statistics.entries,
            user_bytes,
            used_bytes: statistics.used_bytes,
            pool_bytes: statistics.total_bytes,
            dram_bytes: statistics.dram_bytes,
            used_per_user_byte: per_user_byte(statistics.used_bytes),
            pool_per_user_byte: per_user_byte(statistics.total_bytes),
            fragmentation: statistics.fragmentation,
        });
        Ok(())
    }
}

impl SpaceRow {
    /// The heading of the table for people, whose rows [`table_row`](Self::table_row) gives.
    pub fn table_heading() -> String {
        format!(
            "{:<10} {:<9} {:<13} {:>10} {:>13} {:>13} {:>13} {:>9} {:>9} {:>13}",
            "engine",
            "record",
            "when",
            "keys",
            "user bytes",
            "used bytes",
            "pool bytes",
            "used/user",
            "pool/user",
            "fragmentation"
        )
    }

    /// One row of the table for people.
    pub fn table_row(&self) -> String {
        format!(
            "{:<10} {:<9} {:<13} {:>10} {:>13} {:>13} {:>13} {:>9.2} {:>9.2} {:>13.2}",
            self.engine,
            self.record,
            self.moment,
            self.keys,
            self.user_bytes,
            self.used_bytes,
            self.pool_bytes,
            self.used_per_user_byte,
            self.pool_per_user_byte,
            self.fragmentation
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_does_not_grow_over_a_hundred_cycles() {
        let options = SpaceOptions { keys: 3000, cycles: 100, ..SpaceOptions::default() };
        let rows = run_space_with_progress(&options, &mut |progress| {
            assert!(progress.done <= progress.total)
        })
        .unwrap();
        for rows in rows.chunks(5) {
            let moments: Vec<&str> = rows.iter().map(|row| row.moment.as_str()).collect();
            assert_eq!(moments, ["loaded", "half deleted", "refilled", "cycle 10", "cycle 100"]);
            assert!(
                rows.iter().all(|row| row.table_row().len() == SpaceRow::table_heading().len()),
                "{}",
                rows[0].table_row()
            );
            let [loaded, half, .., tenth, last] = rows else { panic!("five rows") };
            assert_eq!((loaded.keys, half.keys, last.keys), (3000, 1500, 3000));
            assert!(half.used_bytes < loaded.used_bytes, "{half:?}");
            // Ninety cycles more take no more of the file, and what is in use stays within a tenth.
            assert_eq!(last.pool_bytes, tenth.pool_bytes, "{last:?} {tenth:?}");
            assert!(last.used_bytes * 10 <= tenth.used_bytes * 11, "{last:?} {tenth:?}");
        }
    }

    #[test]
    fn records_are_told_apart_by_name() {
        assert_eq!("24/1000".parse::<RecordBytes>().unwrap(), RecordBytes { key: 24, value: 1000 });
        assert_eq!(RecordBytes { key: 8, value: 0 }.to_string(), "8/0");
        for wrong in ["", "8", "8/", "/8", "9/8", "15/8", "8/1048577", "8/x", "2048/1"] {
            assert!(wrong.parse::<RecordBytes>().unwrap_err().is_wrong_usage(), "{wrong}");
        }
    }
}
