//! docs/format.md: its tables are those of the code, and a pool can be read by it alone.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{folder, key, value};
use everleaf::{CreateOptions, Engine, KeyType, OwnedKey};

/// The page with its tables as the code has them.
fn with_tables(page: &str) -> String {
    let (pool, sizes) = everleaf_pool::layouts();
    let mut tables: BTreeMap<&str, String> = BTreeMap::new();
    for layout in pool.into_iter().chain(everleaf_engines::layouts()) {
        let size = if layout.name == "Pool" { "at least " } else { "" };
        let head = format!("`{}`, {size}{} bytes:", layout.name, layout.bytes);
        tables.insert(layout.name, format!("{head}\n\n{}", layout.to_markdown()));
    }
    let line = |sizes: &[u64]| sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let lines: Vec<String> = sizes.chunks(20).map(line).collect();
    tables.insert("sizes", lines.join(",\n") + "\n");
    let (mut made, mut rest) = (String::new(), page);
    while let Some(at) = rest.find("<!-- table ") {
        let (before, table) = rest.split_at(at);
        let (name, behind) =
            table["<!-- table ".len()..].split_once(" -->\n").expect("the name of a table");
        let content = tables.remove(name).unwrap_or_else(|| panic!("no table `{name}`, or twice"));
        made += &format!("{before}<!-- table {name} -->\n{content}");
        rest = &behind[behind.find("<!-- end -->").expect("the end of a table")..];
    }
    assert!(tables.is_empty(), "docs/format.md lacks {:?}", tables.keys());
    made + rest
}

#[test]
fn the_tables_are_those_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let made = with_tables(&page);
    if std::env::var_os("EVERLEAF_WRITE_FORMAT").is_some() {
        std::fs::write(&path, made).unwrap();
        return;
    }
    let differs = page.lines().zip(made.lines()).find(|(is, should)| is != should);
    assert!(
        page == made,
        "docs/format.md is out of date (its head tells how to make it anew): {differs:?}"
    );
}

/// The hash of a byte-string key.
fn hash(key: &[u8]) -> u64 {
    let golden = 0x9e37_79b9_7f4a_7c15u64;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let mixed = key.chunks(8).fold(key.len() as u64, |hash, bytes| {
        let product = (hash ^ word(bytes)).wrapping_mul(golden);
        product ^ product >> 32
    });
    mixed.wrapping_mul(golden)
}

/// A reader that knows the page and nothing else.
struct Reader {
    pool: Vec<u8>,
}

impl Reader {
    fn word(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.bytes(at, 8).try_into().unwrap())
    }

    fn bytes(&self, at: u64, count: u64) -> &[u8] {
        &self.pool[at as usize..(at + count) as usize]
    }

    fn sealed(&self, at: u64) -> u64 {
        let (word, content) = (self.word(at), self.word(at) & ((1 << 48) - 1));
        let m = (content ^ content >> 23).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let checksum = ((m ^ m >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 48) ^ 0x5ea1;
        assert_eq!(word >> 48, checksum, "the word at {at:#x} is not sealed");
        content
    }

    /// Offsets and lengths of the runs of nodes; whether the block at an offset is allocated to a
    /// record.
    fn runs(&self, mut is_record: impl FnMut(u64)) -> Vec<(u64, u64)> {
        let sizes = everleaf_pool::layouts().1;
        let (mut runs, mut start) = (Vec::new(), 3u64);
        for extent in 0..456 {
            let (chunks, table) =
                (self.sealed(256 + extent * 8) & 0x3fff_ffff, self.sealed(256 + extent * 8) >> 30);
            if chunks == 0 {
                break;
            }
            let mut chunk = if table == 0 { chunks.div_ceil(64) } else { table };
            while chunk < chunks {
                let (line, offset) = (start * 4096 + chunk * 64, (start + chunk) * 4096);
                let (tag, argument) = (self.sealed(line) & 15, self.sealed(line) >> 4);
                // Nodes have their kind in the lowest byte.
                let argument = if tag == 1 || tag == 3 { argument >> 8 } else { argument };
                match tag {
                    2 => {
                        let size = sizes[argument as usize];
                        let allocated =
                            |i: &u64| self.sealed(line + 8 + i / 48 * 8) >> (i % 48) & 1 == 1;
                        (0..4096 / size)
                            .filter(allocated)
                            .for_each(|i| is_record(offset + i * size));
                    }
                    3 => runs.push((offset, argument * 4096)),
                    4 => is_record(offset),
                    _ => {}
                }
                chunk += if tag > 2 { argument } else { 1 };
            }
            start += chunks;
        }
        runs
    }

    fn record(&self, at: u64) -> &[u8] {
        let (low_half, checksum) = (self.word(at) as u32, (self.word(at) >> 32) as u32);
        let content = self.bytes(at + 8, u64::from(low_half & 0x7fff_ffff));
        let found = crc32c::crc32c_append(crc32c::crc32c(&low_half.to_le_bytes()), content);
        assert_eq!(found, checksum, "the record at {at:#x}");
        content
    }

    /// Everything in a closed pool of the tuned sizes.
    fn content(&self, engine: Engine, key_type: KeyType) -> BTreeMap<OwnedKey, Vec<u8>> {
        assert_eq!(&self.pool[..8], b"Everleaf");
        assert_eq!(self.word(184), u64::from(crc32fast::hash(&self.pool[..184])));
        assert_eq!(self.bytes(32, engine.name().len() as u64), engine.name().as_bytes());
        assert_eq!((self.word(8), self.sealed(192)), (5, 1), "version 5, closed");
        assert_eq!(self.word(64 + 6 * 8) == 1, key_type == KeyType::Bytes, "one record an entry");
        assert_eq!((self.word(56) == 1), (key_type == KeyType::Bytes));
        let fingerprints = engine == Engine::FPTREE;
        let (slots, leaf_bytes) = if fingerprints { (56, 1024) } else { (32, 640) };
        assert_eq!(self.word(64), slots);
        let mut records = Vec::new();
        let runs = self.runs(|record| records.push(record));
        let (mut content, mut reached) = (BTreeMap::new(), 0);
        let leaves = runs.iter().flat_map(|(start, bytes)| {
            (0..bytes / leaf_bytes).map(move |i| start + i * leaf_bytes)
        });
        for leaf in leaves {
            let live = |slot: &u64| self.word(leaf) >> slot & 1 == 1;
            reached += usize::from(
                key_type == KeyType::Bytes
                    && (0..slots).any(|s| live(&s))
                    && self.word(leaf + 64) != 0,
            );
            for slot in (0..slots).filter(live) {
                let key_at = leaf + 128 + if fingerprints { slot * 16 } else { slot * 8 };
                let value_at = if fingerprints { key_at + 8 } else { leaf + 128 + 256 + slot * 8 };
                let record = self.record(self.word(value_at));
                assert!(records.contains(&self.word(value_at)));
                let (head, rest) = record.split_first_chunk::<4>().unwrap();
                let head = u32::from_le_bytes(*head);
                assert_eq!(
                    (head >> 24, head >> 17 & 0x7f),
                    (u32::from(b'V'), 0),
                    "a value that does not expire"
                );
                let (in_record, value) = rest.split_at(head as usize & 0x1_ffff);
                let key = match key_type {
                    KeyType::U64 => {
                        assert_eq!(in_record, self.word(key_at).to_be_bytes());
                        OwnedKey::U64(self.word(key_at))
                    }
                    KeyType::Bytes => {
                        assert_eq!(self.word(key_at), hash(in_record));
                        OwnedKey::from(in_record)
                    }
                };
                reached += 1;
                content.insert(key, value.to_vec());
            }
        }
        assert_eq!(records.len(), reached, "every allocated record is a value or a bound");
        content
    }
}

#[test]
fn a_pool_can_be_read_by_the_page_alone() {
    let folder = folder();
    for engine in [Engine::FPTREE, Engine::of(&everleaf_engines::PTREE)] {
        for key_type in [KeyType::U64, KeyType::Bytes] {
            let path = folder.path().join(format!("{engine}-{key_type:?}.pool"));
            // It grows, so that there are several extents; one value is a run.
            let store = CreateOptions::new()
                .engine(engine)
                .key_type(key_type)
                .engines(everleaf_engines::all())
                .size_bytes(128 << 10)
                .create(&path)
                .unwrap();
            let mut expected = BTreeMap::new();
            for n in 0..1500 {
                let value = value(n, if n == 77 { 20_000 } else { (n * 7 % 300) as usize });
                store.put(key(key_type, n), &value).unwrap();
                expected.insert(key(key_type, n), value);
            }
            for n in (0..1500).step_by(7) {
                store.delete(key(key_type, n)).unwrap();
                expected.remove(&key(key_type, n));
            }
            // Until there is an extent of which there is only a part yet.
            for n in (1500..).take_while(|_| std::fs::metadata(&path).unwrap().len() <= 16 << 20) {
                store.put(key(key_type, n), value(n, 100_000)).unwrap();
                expected.insert(key(key_type, n), value(n, 100_000));
            }
            store.close().unwrap();
            let reader = Reader { pool: std::fs::read(&path).unwrap() };
            assert!(
                (1..456).any(|at| reader.sealed(256 + at * 8) >> 30 > 0),
                "an extent whose table has lines for more chunks"
            );
            assert!(reader.content(engine, key_type) == expected, "{engine}, {key_type:?}");
        }
    }
}
