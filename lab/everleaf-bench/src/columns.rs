//! The database of FPTree's section 6.4: columnar, with dictionaries, under TATP's read-only
//! queries.
//!
//! A row is a code in each of its table's columns; a dictionary leads from a value to its code by
//! an index, the tree that is measured, and from a code to its value by an array. Codes and arrays
//! are words of persistent memory. The first column of a table is its key: its values are distinct,
//! so that their codes are the numbers of rows. All dictionaries share one index, whose keys begin
//! with the number of the column.
//!
//! TATP draws its rows at random; here they follow from their keys, so that answers can be checked.

use everleaf_crash::CacheModel;
use everleaf_pmem::{LINE, Media, Region};

use crate::BenchError;
use crate::keys::{Draws, mix};
use crate::target::Operations;

const WORD: u64 = size_of::<u64>() as u64;
/// A column's number stands above its values in the keys of the index.
const VALUE_BITS: u32 = 48;
/// The times of day that calls are forwarded from.
const STARTS: [u64; 3] = [0, 8, 16];
/// Five letters.
const LETTERS_5: u64 = 11_881_376;
const PLACES: u64 = u32::MAX as u64;

/// A table: for each column behind the key, how many values it has.
struct Table {
    values: &'static [u64],
    /// Of the key: from the subscriber to its rows.
    keys: fn(u64) -> Vec<u64>,
}

const SUBSCRIBER: usize = 0;
const ACCESS: usize = 1;
const FACILITY: usize = 2;
const FORWARDING: usize = 3;
const TABLES: [Table; 4] = [
    // The subscriber's telephone number, ten bits, ten digits, ten bytes, two places.
    Table {
        values: &[
            1 << 40,
            2,
            2,
            2,
            2,
            2,
            2,
            2,
            2,
            2,
            2,
            16,
            16,
            16,
            16,
            16,
            16,
            16,
            16,
            16,
            16,
            256,
            256,
            256,
            256,
            256,
            256,
            256,
            256,
            256,
            256,
            PLACES,
            PLACES,
        ],
        keys: |s_id| vec![s_id],
    },
    Table {
        values: &[256, 256, 26 * 26 * 26, LETTERS_5],
        keys: |s_id| of_kinds(ACCESS, s_id).collect(),
    },
    // Whether it is active is the first.
    Table { values: &[2, 256, 256, LETTERS_5], keys: |s_id| of_kinds(FACILITY, s_id).collect() },
    // Until when, and to which number.
    Table {
        values: &[24, 100_000_000_000_000],
        keys: |s_id| of_kinds(FACILITY, s_id).flat_map(forwarded).collect(),
    },
];

/// A number below `most` that follows from others.
fn drawn(table: usize, column: usize, key: u64, most: u64) -> u64 {
    mix(key ^ (table as u64 * 64 + column as u64) << VALUE_BITS) % most
}

/// The keys of a subscriber's 1 to 4 kinds of access, or of facilities.
fn of_kinds(table: usize, s_id: u64) -> impl Iterator<Item = u64> {
    (0..=drawn(table, 60, s_id, 4)).map(move |kind| of_kind(s_id, kind))
}

const fn of_kind(s_id: u64, kind: u64) -> u64 {
    s_id * 4 + kind
}

/// The keys of a facility's 0 to 3 rows of forwarding.
fn forwarded(facility: u64) -> impl Iterator<Item = u64> {
    let starts = drawn(FORWARDING, 61, facility, 4) as usize;
    STARTS.into_iter().take(starts).map(move |start| from_time(facility, start))
}

const fn from_time(facility: u64, start: u64) -> u64 {
    facility * 24 + start
}

/// The value in a row, by the key.
fn value(table: usize, column: usize, key: u64) -> u64 {
    let most = TABLES[table].values[column];
    match (table, column) {
        (FACILITY, 0) => u64::from(drawn(table, column, key, 100) < 85),
        (FORWARDING, 0) => key % 24 + 1 + drawn(table, column, key, 8),
        _ => drawn(table, column, key, most),
    }
}

/// Where a column lies, in words.
#[derive(Clone, Debug)]
struct Column {
    number: u64,
    codes: u64,
    values: u64,
    /// Values at most.
    most: u64,
}

/// Where all columns lie. The first words count the values of each.
#[derive(Clone, Debug)]
pub struct Layout {
    subscribers: u64,
    tables: [Vec<Column>; 4],
    words: u64,
    /// Entries of all dictionaries at most.
    pub entries: u64,
}

impl Layout {
    /// Of so many subscribers.
    pub fn new(subscribers: u64) -> Self {
        let mut rows = [0; 4];
        for s_id in 0..subscribers {
            for (rows, table) in rows.iter_mut().zip(&TABLES) {
                *rows += (table.keys)(s_id).len() as u64;
            }
        }
        Self::of_rows(subscribers, rows)
    }

    /// The same, without a look at the rows; it may be somewhat larger.
    pub fn estimate(subscribers: u64) -> Self {
        Self::of_rows(subscribers, [1, 3, 3, 5].map(|rows| rows * subscribers))
    }

    fn of_rows(subscribers: u64, rows: [u64; 4]) -> Self {
        let columns: usize = TABLES.iter().map(|table| 1 + table.values.len()).sum();
        let (mut number, mut words, mut entries) = (0, columns as u64, 0);
        let mut column = |rows: u64, most: u64| {
            let most = most.min(rows);
            let column = Column { number, codes: words, values: words + rows, most };
            (number, words, entries) = (number + 1, words + rows + most, entries + most);
            column
        };
        let tables = std::array::from_fn(|table| {
            let rows = rows[table];
            let values = TABLES[table].values.iter();
            [rows].iter().chain(values).map(|most| column(rows, *most)).collect()
        });
        Self { subscribers, tables, words, entries }
    }

    /// Bytes of the columns, with lines that fill the modelled cache.
    pub fn bytes(&self) -> u64 {
        self.cache_at() + CacheModel::BYTES
    }

    fn cache_at(&self) -> u64 {
        (self.words * WORD).next_multiple_of(LINE as u64)
    }
}

/// A query, and what it asks for.
#[derive(Clone, Copy, Debug)]
pub enum Query {
    /// GET_SUBSCRIBER_DATA: all columns of a subscriber.
    Subscriber { s_id: u64 },
    /// GET_ACCESS_DATA: the data of a kind of access.
    Access { key: u64 },
    /// GET_NEW_DESTINATION: where calls go that come in from `start` on, if they are forwarded
    /// beyond `end` and the facility is active.
    Destination { facility: u64, start: u64, end: u64 },
}

impl Query {
    /// One of TATP's mixture: 35, 35 and 10 in 80. Some subscribers are asked for more often than
    /// others.
    pub fn drawn(draws: &mut Draws, subscribers: u64) -> Self {
        let most = match subscribers {
            0..=1_000_000 => 65_535,
            1_000_001..=10_000_000 => 1_048_575,
            _ => 2_097_151,
        };
        let s_id = (draws.below(most + 1) | (1 + draws.below(subscribers))) % subscribers;
        let key = of_kind(s_id, draws.below(4));
        match draws.below(80) {
            0..35 => Self::Subscriber { s_id },
            35..70 => Self::Access { key },
            _ => {
                let start = STARTS[draws.below(STARTS.len() as u64) as usize];
                Self::Destination { facility: key, start, end: 1 + draws.below(24) }
            }
        }
    }

    /// What it must be answered: the sum of the values that it finds.
    pub fn expected(self) -> u64 {
        let is_there = |table: usize, key| of_kinds(table, key / 4).any(|other| other == key);
        let row = |table: usize, key| -> u64 {
            let columns = 0..TABLES[table].values.len();
            columns.fold(0, |sum: u64, column| sum.wrapping_add(value(table, column, key)))
        };
        match self {
            Self::Subscriber { s_id } => row(SUBSCRIBER, s_id),
            Self::Access { key } if is_there(ACCESS, key) => row(ACCESS, key),
            Self::Destination { facility, start, end }
                if is_there(FACILITY, facility) && value(FACILITY, 0, facility) == 1 =>
            {
                forwarded(facility)
                    .filter(|key| key % 24 <= start && value(FORWARDING, 0, *key) > end)
                    .fold(0, |sum, key| sum.wrapping_add(value(FORWARDING, 1, key)))
            }
            _ => 0,
        }
    }
}

/// The columns, and a way to read them.
pub struct Database<M> {
    media: M,
    layout: Layout,
}

impl<M: Media> Database<M> {
    /// In memory of the layout's size that is all zero.
    pub fn new(media: M, layout: Layout) -> Self {
        Self { media, layout }
    }

    fn cell(&self, word: u64) -> &everleaf_pmem::PCell {
        let region: &Region = self.media.region();
        region.at(word * WORD).expect("a word of the layout")
    }

    #[inline(always)]
    fn get(&self, word: u64) -> u64 {
        self.media.load(self.cell(word))
    }

    fn put(&self, word: u64, value: u64) {
        self.media.store(self.cell(word), value);
    }

    /// Adds all subscribers to all tables, in the sequence of their numbers.
    pub fn load<O: Operations<u64>>(&self, index: &mut O) -> Result<(), O::Failure> {
        let mut rows = [0; 4];
        for s_id in 0..self.layout.subscribers {
            for (table, row) in rows.iter_mut().enumerate() {
                for key in (TABLES[table].keys)(s_id) {
                    for (at, column) in self.layout.tables[table].iter().enumerate() {
                        let value = if at == 0 { key } else { value(table, at - 1, key) };
                        let code = self.encode(index, column, value)?;
                        self.put(column.codes + *row, code);
                    }
                    *row += 1;
                }
            }
        }
        Ok(())
    }

    /// The code of a value, which gets one if it has none.
    fn encode<O: Operations<u64>>(
        &self,
        index: &mut O,
        column: &Column,
        value: u64,
    ) -> Result<u64, O::Failure> {
        let key = column.number << VALUE_BITS | value;
        if let Some(code) = index.get(&key)? {
            return Ok(code);
        }
        let code = self.get(column.number);
        self.put(column.values + code, value);
        self.put(column.number, code + 1);
        index.insert(&key, code)?;
        Ok(code)
    }

    /// The row of a key.
    #[inline(always)]
    fn row<O: Operations<u64>>(
        &self,
        index: &mut O,
        table: usize,
        key: u64,
    ) -> Result<Option<u64>, O::Failure> {
        index.get(&(self.layout.tables[table][0].number << VALUE_BITS | key))
    }

    /// The value in a row of a column behind the key.
    #[inline(always)]
    fn value(&self, table: usize, column: usize, row: u64) -> u64 {
        let column = &self.layout.tables[table][column + 1];
        self.get(column.values + self.get(column.codes + row))
    }

    /// The sum of the values of a row behind the key; 0 of none.
    fn sum_of<O: Operations<u64>>(
        &self,
        index: &mut O,
        table: usize,
        key: u64,
    ) -> Result<u64, O::Failure> {
        let Some(row) = self.row(index, table, key)? else { return Ok(0) };
        let columns = 0..TABLES[table].values.len();
        Ok(columns.fold(0, |sum: u64, column| sum.wrapping_add(self.value(table, column, row))))
    }

    /// Answers a query: the sum of the values that it finds.
    #[inline]
    pub fn ask<O: Operations<u64>>(&self, index: &mut O, query: Query) -> Result<u64, O::Failure> {
        match query {
            Query::Subscriber { s_id } => self.sum_of(index, SUBSCRIBER, s_id),
            Query::Access { key } => self.sum_of(index, ACCESS, key),
            Query::Destination { facility, start, end } => {
                let row = self.row(index, FACILITY, facility)?;
                if row.is_none_or(|row| self.value(FACILITY, 0, row) == 0) {
                    return Ok(0);
                }
                let mut sum = 0u64;
                for from in STARTS.into_iter().filter(|from| *from <= start) {
                    let row = self.row(index, FORWARDING, from_time(facility, from))?;
                    if let Some(row) = row.filter(|row| self.value(FORWARDING, 0, *row) > end) {
                        sum = sum.wrapping_add(self.value(FORWARDING, 1, row));
                    }
                }
                Ok(sum)
            }
        }
    }

    /// Whether the counts of values are possible: what is looked at when the database is opened.
    pub fn is_sound(&self) -> bool {
        let mut columns = self.layout.tables.iter().flatten();
        columns.all(|column| self.get(column.number) <= column.most)
    }

    /// Makes all dictionaries again, from the arrays of their values.
    pub fn rebuild<O: Operations<u64>>(&self, index: &mut O) -> Result<(), O::Failure> {
        for column in self.layout.tables.iter().flatten() {
            for code in 0..self.get(column.number) {
                let value = self.get(column.values + code);
                index.insert(&(column.number << VALUE_BITS | value), code)?;
            }
        }
        Ok(())
    }

    /// Whether the dictionary has all values, with their codes.
    pub fn check<O: Operations<u64>>(&self, index: &mut O) -> Result<bool, BenchError> {
        for column in self.layout.tables.iter().flatten() {
            for code in 0..self.get(column.number) {
                let key = column.number << VALUE_BITS | self.get(column.values + code);
                if index.get(&key).map_err(Into::into)? != Some(code) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Reads other lines, until the modelled cache holds no column.
    pub fn cool(&self) {
        let first = self.layout.cache_at() / WORD;
        let lines = (0..CacheModel::BYTES / WORD).step_by(LINE / WORD as usize);
        lines.for_each(|word| _ = std::hint::black_box(self.get(first + word)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use everleaf_pmem::{Cpu, Mapped};

    use super::*;
    use crate::target::{MapTarget, Target};

    fn database(subscribers: u64) -> Database<Mapped> {
        let layout = Layout::new(subscribers);
        let region = Region::anonymous(layout.bytes(), layout.bytes()).unwrap();
        Database::new(Mapped::new(region, &Cpu::detect()).unwrap(), layout)
    }

    #[test]
    fn every_query_finds_what_it_must_before_a_restart_and_after_it() {
        let (subscribers, mut index) = (300, MapTarget::<u64, [u64; 1]>::new(8));
        let database = database(subscribers);
        let mut handles = index.handles(1);
        database.load(&mut handles[0]).unwrap();
        assert!(database.is_sound() && database.check(&mut handles[0]).unwrap());
        let mut again = MapTarget::<u64, [u64; 1]>::new(8);
        database.rebuild(&mut again.handles(1)[0]).unwrap();
        let (mut draws, mut found) = (Draws::new(5), BTreeMap::new());
        for _ in 0..4000 {
            let query = Query::drawn(&mut draws, subscribers);
            let answers = [
                database.ask(&mut handles[0], query).unwrap(),
                database.ask(&mut again.handles(1)[0], query).unwrap(),
            ];
            assert_eq!(answers, [query.expected(); 2], "{query:?}");
            let kind = std::mem::discriminant(&query);
            let counts: &mut [u32; 2] = found.entry(format!("{kind:?}")).or_default();
            counts[usize::from(answers[0] != 0)] += 1;
        }
        // All subscribers are there, five in eight kinds of access, and few destinations.
        let mut parts: Vec<f64> = found
            .values()
            .map(|[nothing, something]| f64::from(*something) / f64::from(nothing + something))
            .collect();
        parts.sort_by(f64::total_cmp);
        let due = [0.13, 0.625, 1.0];
        assert!(
            parts.len() == 3 && parts.iter().zip(due).all(|(part, due)| (part - due).abs() < 0.1)
        );
    }

    #[test]
    fn a_dictionary_that_lacks_a_value_or_has_another_code_is_found_out() {
        let database = database(10);
        let mut index = MapTarget::<u64, [u64; 1]>::new(8);
        let mut handles = index.handles(1);
        assert!(database.check(&mut handles[0]).unwrap(), "nothing is there yet");
        database.load(&mut handles[0]).unwrap();
        let key = 1 << VALUE_BITS | value(SUBSCRIBER, 0, 7);
        handles[0].update(&key, 8).unwrap();
        assert!(!database.check(&mut handles[0]).unwrap());
        handles[0].remove(&key).unwrap();
        assert!(!database.check(&mut handles[0]).unwrap());
    }

    #[test]
    fn an_estimate_has_room_for_all_rows() {
        for subscribers in [1000, 10_000] {
            let (exact, estimate) = (Layout::new(subscribers), Layout::estimate(subscribers));
            assert!(estimate.bytes() >= exact.bytes() && estimate.entries >= exact.entries);
            assert!(exact.entries <= subscribers * 30, "{}", exact.entries);
        }
    }
}
