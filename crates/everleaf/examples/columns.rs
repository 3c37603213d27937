//! A columnar database with dictionaries: a value stands once, in the dictionary of its column, and
//! the rows are columns of codes. Its tables and read-only queries are TATP's, of a telephone
//! company's subscribers.
//!
//! `cargo run --release -p everleaf --example columns [SUBSCRIBERS]`

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::time::Instant;

use everleaf::{Batch, Result, Store, Tree};

/// Rows whose codes lie together.
const BLOCK: u64 = 256;
/// Bytes of a code.
const CODE: usize = size_of::<u32>();

struct Column {
    /// Value to code.
    dictionary: Tree<u64, u64>,
    /// Code to value.
    values: Tree<u64, u64>,
    /// Number of a block to the codes of its rows.
    codes: Tree<u64, Vec<u8>>,
}

impl Column {
    fn of(store: &Store, name: &str) -> Result<Self> {
        Ok(Self {
            dictionary: store.typed_tree(format!("{name}: dictionary"))?,
            values: store.typed_tree(format!("{name}: values"))?,
            codes: store.typed_tree(format!("{name}: codes"))?,
        })
    }

    /// The code that the next new value gets.
    fn next_code(&self) -> Result<u64> {
        Ok(self.values.last()?.map_or(0, |(last, _)| last + 1))
    }

    /// Appends values, the first of them in the row `first`, by a batch of all columns.
    fn append(
        &self,
        batch: &mut Batch,
        first: u64,
        values: impl Iterator<Item = u64>,
    ) -> Result<()> {
        let mut next = self.next_code()?;
        let (mut new, mut blocks) = (HashMap::new(), BTreeMap::new());
        for (row, value) in (first..).zip(values) {
            let known = match new.get(&value) {
                Some(code) => Some(*code),
                None => self.dictionary.get(value)?,
            };
            let code = known.unwrap_or(next);
            if known.is_none() {
                batch.on(&self.dictionary)?.put(value, code)?;
                batch.on(&self.values)?.put(code, value)?;
                new.insert(value, code);
                next += 1;
            }
            let number = row / BLOCK;
            let block: &mut Vec<u8> = match blocks.entry(number) {
                Entry::Occupied(block) => block.into_mut(),
                Entry::Vacant(vacant) => vacant.insert(self.codes.get(number)?.unwrap_or_default()),
            };
            block.extend((code as u32).to_le_bytes());
        }
        for (number, block) in blocks {
            batch.on(&self.codes)?.put(number, block)?;
        }
        Ok(())
    }

    /// The value in a row.
    fn value(&self, row: u64) -> Result<Option<u64>> {
        let block = self.codes.get(row / BLOCK)?.unwrap_or_default();
        match block.chunks_exact(CODE).nth((row % BLOCK) as usize) {
            Some(&[a, b, c, d]) => self.values.get(u64::from(u32::from_le_bytes([a, b, c, d]))),
            _ => Ok(None),
        }
    }
}

/// The first column is the key: its values are distinct, so that their codes count the rows.
struct Table {
    store: Store,
    columns: Vec<Column>,
}

impl Table {
    fn of(store: &Store, table: &str, columns: &[String]) -> Result<Self> {
        let column = |name: &String| Column::of(store, &format!("{table}.{name}"));
        Ok(Self {
            store: store.clone(),
            columns: columns.iter().map(column).collect::<Result<_>>()?,
        })
    }

    /// Appends rows: all of them, in all columns and dictionaries, or nothing.
    fn append(&self, rows: &[Vec<u64>]) -> Result<()> {
        let (mut batch, first) = (self.store.batch(), self.columns[0].next_code()?);
        for (at, column) in self.columns.iter().enumerate() {
            column.append(&mut batch, first, rows.iter().map(|row| row[at]))?;
        }
        batch.commit().map(drop)
    }

    /// The columns behind the key, in its row.
    fn find(&self, key: u64) -> Result<Option<Vec<u64>>> {
        let Some(row) = self.columns[0].dictionary.get(key)? else { return Ok(None) };
        let values = self.columns[1..].iter().map(|column| column.value(row));
        values.collect::<Result<Option<Vec<u64>>>>()
    }
}

/// TATP's rows are drawn at random; here they follow from their keys, so that they can be checked.
mod drawn {
    /// The times of a day at which calls are forwarded from.
    pub const STARTS: [u64; 3] = [0, 8, 16];

    /// Some number below `most`.
    pub fn number(key: u64, column: u64, most: u64) -> u64 {
        let mixed = (key << 6 | column).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) % most
    }

    fn numbers<const N: usize>(key: u64, most: [u64; N]) -> Vec<u64> {
        (1..).zip(most).map(|(column, most)| number(key, column, most)).collect()
    }

    /// `sub_nbr`, ten bits, ten digits, ten bytes, and two places.
    pub fn subscriber(s_id: u64) -> Vec<u64> {
        let mut most = [2; 32];
        most[10..20].fill(16);
        most[20..30].fill(256);
        most[30..].fill(u32::MAX.into());
        [vec![s_id], numbers(s_id, most)].concat()
    }

    /// How many kinds of access, or of facilities, a subscriber has: 1 to 4.
    pub fn kinds(s_id: u64, table: u64) -> u64 {
        1 + number(s_id, 40 + table, 4)
    }

    /// Two bytes, three letters, five letters.
    pub fn access(key: u64) -> Vec<u64> {
        numbers(key, [256, 256, 26 * 26 * 26, 11_881_376])
    }

    /// Whether it is active, mostly; two bytes, five letters.
    pub fn facility(key: u64) -> Vec<u64> {
        let is_active = u64::from(number(key, 50, 100) < 85);
        [vec![is_active], numbers(key, [256, 256, 11_881_376])].concat()
    }

    /// How many of the times of day calls are forwarded from.
    pub fn starts(facility: u64) -> usize {
        number(facility, 51, STARTS.len() as u64 + 1) as usize
    }

    /// Until when, and to which number.
    pub fn forwarding(key: u64, start: u64) -> Vec<u64> {
        vec![start + 1 + number(key, 1, 8), number(key, 2, 1_000_000_000_000_000)]
    }
}

/// A key of a subscriber and one of its kinds, 1 to 4, of access or of a facility.
const fn of_kind(s_id: u64, kind: u64) -> u64 {
    s_id * 4 + kind - 1
}

/// A key of a facility and the time of day that calls are forwarded from.
const fn from_time(facility: u64, start: u64) -> u64 {
    facility * 24 + start
}

struct Tatp {
    subscribers: Table,
    access: Table,
    facilities: Table,
    forwarding: Table,
}

impl Tatp {
    fn over(store: &Store) -> Result<Self> {
        let named =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let ten = |name: &str| (1..=10).map(|i| format!("{name}_{i}")).collect::<Vec<_>>();
        let (key, places) = (named(&["s_id", "sub_nbr"]), named(&["msc_location", "vlr_location"]));
        let columns = [key, ten("bit"), ten("hex"), ten("byte2"), places].concat();
        let table = |name: &str, columns: &[&str]| Table::of(store, name, &named(columns));
        let facility = ["s_id, sf_type", "is_active", "error_cntrl", "data_a", "data_b"];
        Ok(Self {
            subscribers: Table::of(store, "subscriber", &columns)?,
            access: table("access_info", &["s_id, ai_type", "data1", "data2", "data3", "data4"])?,
            facilities: table("special_facility", &facility)?,
            forwarding: table(
                "call_forwarding",
                &["s_id, sf_type, start_time", "end_time", "numberx"],
            )?,
        })
    }

    /// Adds the subscribers of these numbers to all tables.
    fn add(&self, s_ids: std::ops::Range<u64>) -> Result<()> {
        let row = |key: u64, values: Vec<u64>| [vec![key], values].concat();
        let of_kinds = |table: u64| {
            let kinds =
                move |s_id| (1..=drawn::kinds(s_id, table)).map(move |kind| of_kind(s_id, kind));
            s_ids.clone().flat_map(kinds)
        };
        let rows = s_ids.clone().map(|s_id| row(s_id, drawn::subscriber(s_id)));
        self.subscribers.append(&rows.collect::<Vec<_>>())?;
        let rows = of_kinds(0).map(|key| row(key, drawn::access(key)));
        self.access.append(&rows.collect::<Vec<_>>())?;
        let rows = of_kinds(1).map(|key| row(key, drawn::facility(key)));
        self.facilities.append(&rows.collect::<Vec<_>>())?;
        let starts = |facility| {
            let starts = drawn::STARTS.into_iter().take(drawn::starts(facility));
            starts.map(move |start| (from_time(facility, start), start))
        };
        let rows = of_kinds(1).flat_map(starts);
        let rows = rows.map(|(key, start)| row(key, drawn::forwarding(key, start)));
        self.forwarding.append(&rows.collect::<Vec<_>>())
    }

    /// GET_SUBSCRIBER_DATA: all columns of a subscriber.
    fn subscriber_data(&self, s_id: u64) -> Result<Option<Vec<u64>>> {
        self.subscribers.find(s_id)
    }

    /// GET_ACCESS_DATA: the data of a kind of access.
    fn access_data(&self, s_id: u64, ai_type: u64) -> Result<Option<Vec<u64>>> {
        self.access.find(of_kind(s_id, ai_type))
    }

    /// GET_NEW_DESTINATION: where calls go that come in from `start` on, if they are forwarded
    /// beyond `end` and the facility is active.
    fn new_destination(&self, s_id: u64, sf_type: u64, start: u64, end: u64) -> Result<Vec<u64>> {
        let facility = of_kind(s_id, sf_type);
        let mut numbers = Vec::new();
        if self.facilities.find(facility)?.is_none_or(|row| row[0] == 0) {
            return Ok(numbers);
        }
        for from in drawn::STARTS.into_iter().filter(|from| *from <= start) {
            let row = self.forwarding.find(from_time(facility, from))?;
            numbers.extend(row.filter(|row| row[0] > end).map(|row| row[1]));
        }
        Ok(numbers)
    }
}

/// What GET_NEW_DESTINATION must find.
fn destinations(s_id: u64, sf_type: u64, start: u64, end: u64) -> Vec<u64> {
    let facility = of_kind(s_id, sf_type);
    let is_there = sf_type <= drawn::kinds(s_id, 1) && drawn::facility(facility)[0] == 1;
    let starts = drawn::STARTS.into_iter().take(if is_there { drawn::starts(facility) } else { 0 });
    let rows = starts
        .filter(|from| *from <= start)
        .map(|from| drawn::forwarding(from_time(facility, from), from));
    rows.filter(|row| row[0] > end).map(|row| row[1]).collect()
}

/// TATP's read-only queries in its mixture, 35, 35 and 10 in 80, and how many found something.
fn ask(tatp: &Tatp, subscribers: u64, queries: u64) -> Result<u64> {
    let mut found = 0;
    for query in 0..queries {
        let draw = |column, most| drawn::number(query, column, most);
        let (s_id, kind) = (draw(1, subscribers), 1 + draw(2, 4));
        found += u64::from(match draw(3, 80) {
            0..35 => {
                let data = tatp.subscriber_data(s_id)?;
                assert_eq!(data, Some(drawn::subscriber(s_id)));
                true
            }
            35..70 => {
                let data = tatp.access_data(s_id, kind)?;
                let is_there = kind <= drawn::kinds(s_id, 0);
                assert_eq!(data, is_there.then(|| drawn::access(of_kind(s_id, kind))));
                is_there
            }
            _ => {
                let (start, end) = (drawn::STARTS[draw(4, 3) as usize], 1 + draw(5, 24));
                let numbers = tatp.new_destination(s_id, kind, start, end)?;
                assert_eq!(numbers, destinations(s_id, kind, start, end));
                !numbers.is_empty()
            }
        });
    }
    Ok(found)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let subscribers = std::env::args().nth(1).map_or(Ok(1000), |number| number.parse())?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("subscribers.pool");
    let store = Store::create(&path)?;
    let (tatp, start) = (Tatp::over(&store)?, Instant::now());
    for first in (0..subscribers).step_by(BLOCK as usize) {
        tatp.add(first..subscribers.min(first + BLOCK))?;
    }
    println!("{subscribers} subscribers in {:.1} s", start.elapsed().as_secs_f64());
    drop(tatp);
    store.close()?;

    let start = Instant::now();
    let store = Store::open(&path)?;
    let tatp = Tatp::over(&store)?;
    println!("opened in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let (queries, start) = (10 * subscribers, Instant::now());
    let found = ask(&tatp, subscribers, queries)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{queries} queries, {found} with a result, {:.0} a second", queries as f64 / seconds);
    drop(tatp);
    store.close()?;
    Ok(())
}
