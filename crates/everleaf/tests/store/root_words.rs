//! Damage where an index begins: no opening takes what is left for a store without keys.

use std::path::{Path, PathBuf};

use crate::common::{folder, key, value};
use everleaf::{CreateOptions, Engine, EngineParameters, KeyType, Store};

/// Where the root of an index is, and its bytes (docs/format.md).
const ROOT: u64 = 8192;
const ROOT_BYTES: u64 = 4096;
const KEYS: u64 = 300;

/// Each engine with each kind of keys that it has.
fn kinds() -> impl Iterator<Item = (Engine, KeyType)> {
    let kinds = [KeyType::U64, KeyType::Bytes];
    let all = Engine::available().flat_map(move |engine| kinds.map(|kind| (engine, kind)));
    all.filter(|(engine, kind)| engine.has_keys(*kind))
}

/// An empty store in a file.
fn created(path: &Path, (engine, key_type): (Engine, KeyType)) -> Store {
    let parameters = EngineParameters::default().atomic_line(engine == Engine::CLFTREE_APPEND);
    let options = CreateOptions::new().engine(engine).key_type(key_type).size_bytes(1 << 20);
    options.parameters(parameters).create(path).unwrap()
}

/// Both ways in which a session may leave what `work` has done.
fn left(folder: &Path, kind: (Engine, KeyType), work: impl Fn(&Store)) -> [PathBuf; 2] {
    let (closed, killed) = (folder.join("closed"), folder.join("killed"));
    let store = created(&closed, kind);
    work(&store);
    store.sync().unwrap();
    std::fs::copy(&closed, &killed).unwrap();
    store.close().unwrap();
    [closed, killed]
}

fn put_all(store: &Store) {
    for n in 0..KEYS {
        store.put(key(store.key_type(), n), value(n, 20)).unwrap();
    }
}

/// What is wrong with what an opening says.
fn judged(path: &Path, read_only: bool) -> Result<(), String> {
    let Ok(store) = crate::common::opening().read_only(read_only).open(path) else { return Ok(()) };
    let all = (0..KEYS).all(
        |n| matches!(store.get(key(store.key_type(), n)), Ok(Some(found)) if found == value(n, 20)),
    );
    match store.check() {
        _ if all => Ok(()),
        _ if store.iter().next().is_none() => Err("empty, and opened".into()),
        Ok(checked) if checked.ok => Err(format!("sound, with {:?} keys", store.len())),
        _ => Ok(()),
    }
}

#[test]
fn a_damaged_root_makes_no_store_look_empty_or_sound() {
    let folder = folder();
    let damaged = folder.path().join("damaged");
    for kind in kinds() {
        let here = tempfile::tempdir_in(folder.path()).unwrap();
        for path in left(here.path(), kind, put_all) {
            let content = std::fs::read(&path).unwrap();
            let word = |at: u64| {
                let bytes = content.get(at as usize..at as usize + 8)?;
                Some(u64::from_le_bytes(bytes.try_into().unwrap()))
            };
            let root: Vec<u64> = (ROOT..ROOT + ROOT_BYTES).step_by(8).collect();
            let mut places: Vec<u64> =
                root.into_iter().filter(|at| word(*at).is_some_and(|word| word != 0)).collect();
            // And the first line of what the first of them leads to.
            let first = places.first().and_then(|at| word(*at)).map(|word| word & !63);
            let leads = first.filter(|at| *at >= ROOT + ROOT_BYTES && word(*at).is_some());
            places.extend(leads.into_iter().flat_map(|at| (at..at + 64).step_by(8)));
            for place in places {
                let before = word(place).unwrap();
                for after in [0, before ^ 1, before ^ 1 << 12] {
                    for read_only in [true, false] {
                        let mut changed = content.clone();
                        changed[place as usize..][..8].copy_from_slice(&u64::to_le_bytes(after));
                        std::fs::write(&damaged, changed).unwrap();
                        if let Err(wrong) = judged(&damaged, read_only) {
                            panic!(
                                "{kind:?} {path:?}: {before:#x} at {place} := {after:#x}: {wrong}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_store_whose_keys_were_all_removed_is_opened_as_an_empty_one() {
    for kind in kinds() {
        let works: [&dyn Fn(&Store); 3] = [
            &|_| {},
            &|store| {
                put_all(store);
                store.delete_range(..).unwrap();
            },
            &|store| {
                for round in 0..3 {
                    put_all(store);
                    (0..KEYS).for_each(|n| {
                        store.delete(key(store.key_type(), n ^ round)).unwrap();
                    });
                }
            },
        ];
        for work in works {
            let here = folder();
            for path in left(here.path(), kind, work) {
                for read_only in [true, false] {
                    let store = crate::common::opening().read_only(read_only).open(&path).unwrap();
                    assert!(store.is_empty().unwrap(), "{kind:?} {path:?}");
                    assert!(store.check().unwrap().ok, "{kind:?} {path:?}");
                }
                let store = crate::common::open(&path).unwrap();
                put_all(&store);
                assert_eq!(store.len().unwrap(), KEYS);
            }
        }
    }
}
