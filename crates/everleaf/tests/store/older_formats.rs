//! Pools of the formats before: each is refused with a sentence that tells how to bring it over,
//! and what the sentence tells works.
//!
//! `fixtures/format-N.bin.gz` is a pool that the last release of format N made, and
//! `fixtures/format-N.dump` what its `everleaf dump` wrote. Raising the format adds both.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::common::folder;
use crate::kept_formats::unpacked;
use everleaf::{CreateOptions, Error, PoolError, salvage_with};

/// The formats before this one that pools were made in.
const OLDER: [u64; 3] = [2, 3, 4];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn a_pool_of_an_older_format_is_refused_and_left_as_it_is() {
    let folder = folder();
    for version in OLDER {
        let (path, salvaged) = (folder.path().join("old.pool"), folder.path().join("new.pool"));
        let before = unpacked(&fixture(&format!("format-{version}.bin.gz")));
        std::fs::write(&path, &before).unwrap();
        let refusals = [
            crate::common::opening().open(&path).map(|_| ()),
            crate::common::opening().read_only(true).open(&path).map(|_| ()),
            salvage_with(&path, &salvaged, |_| ControlFlow::Continue(())).map(|_| ()),
        ];
        for refused in refusals {
            let Err(Error::Pool(error @ PoolError::OlderVersion { found, .. })) = refused else {
                panic!("version {version}: {refused:?}");
            };
            let said = error.to_string();
            assert_eq!(found, version);
            for step in ["everleaf dump", "everleaf create", "everleaf restore", "release"] {
                assert!(said.contains(step), "{step} is not in: {said}");
            }
        }
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}

#[test]
fn what_an_older_release_dumped_is_restored() {
    let folder = folder();
    for version in OLDER {
        let path = folder.path().join(format!("{version}.pool"));
        let store = CreateOptions::new().size_bytes(64 << 10).create(&path).unwrap();
        let mut dump = File::open(fixture(&format!("format-{version}.dump"))).unwrap();
        store.restore_with(&mut dump, |_| ControlFlow::Continue(())).unwrap();
        let entries: Vec<_> = store.iter().collect::<Result<_, _>>().unwrap();
        let expected = [("apple", "red"), ("cherry", "dark"), ("long key with spaces", "a value")];
        let expected = expected.map(|(key, value)| (key.into(), value.as_bytes().to_vec()));
        assert_eq!(entries, expected);
        assert!(store.check().unwrap().ok);
    }
}
