//! Pool files: who may open what, what opening leaves untouched, and what ends a store.

use everleaf_engines::all;
use std::path::Path;

use crate::common::{folder, key, tiny, value};
use everleaf::internal::create_on;
use everleaf::statistics::{FlushInstruction, InnerFrom, NoImage};
use everleaf::{
    CreateOptions, Durability, DurabilityMode, Engine, EngineParameters, Error, FlushChoice,
    IndexError, KeyType, MAX_KEY_BYTES, MAX_VALUE_BYTES, Medium, PoolError, Shutdown, Store,
};

fn filled(path: &Path, key_type: KeyType) -> Store {
    let store = tiny(key_type).create(path).unwrap();
    for n in 0..200 {
        store.put(key(key_type, n), value(n, (n * 7) as usize)).unwrap();
    }
    store
}

fn expect_filled(store: &Store, key_type: KeyType) {
    for n in 0..200 {
        assert_eq!(store.get(key(key_type, n)).unwrap().unwrap(), value(n, (n * 7) as usize));
    }
    assert_eq!(store.len().unwrap(), 200);
    assert!(store.check().unwrap().ok);
}

#[test]
fn reading_only_does_not_change_the_file() {
    let folder = folder();
    for key_type in [KeyType::U64, KeyType::Bytes] {
        for shutdown in [Shutdown::Clean, Shutdown::Crash] {
            let (path, copy) = (folder.path().join("a.pool"), folder.path().join("b.pool"));
            let store = filled(&path, key_type);
            if shutdown == Shutdown::Crash {
                std::fs::copy(&path, &copy).unwrap();
                drop(store);
                std::fs::rename(&copy, &path).unwrap();
            } else {
                store.close().unwrap();
            }
            let before = std::fs::read(&path).unwrap();
            let store = crate::common::open_read_only(&path).unwrap();
            assert_eq!(store.statistics().unwrap().shutdown, shutdown);
            expect_filled(&store, key_type);
            assert!(matches!(store.put(key(key_type, 1), b""), Err(Error::ReadOnly)));
            assert!(matches!(store.put_if_absent(key(key_type, 1), b""), Err(Error::ReadOnly)));
            assert!(matches!(store.delete(key(key_type, 1)), Err(Error::ReadOnly)));
            assert!(!store.capabilities().writable);
            store.sync().unwrap();
            let second = crate::common::open_read_only(&path).expect("readers share the file");
            assert!(
                matches!(crate::common::open(&path), Err(Error::Pool(PoolError::Locked { .. }))),
                "a writer does not"
            );
            drop(second);
            store.close().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), before, "reading only wrote to the file");
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn an_open_pool_is_locked() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = filled(&path, KeyType::Bytes);
    let error = crate::common::open(&path).unwrap_err();
    assert!(matches!(error, Error::Pool(PoolError::Locked { here: true, .. })), "{error}");
    assert!(error.to_string().contains("open in this process already"), "{error}");
    assert!(matches!(
        crate::common::open_read_only(&path),
        Err(Error::Pool(PoolError::Locked { .. }))
    ));
    drop(store);
    expect_filled(&crate::common::open(&path).unwrap(), KeyType::Bytes);
}

#[test]
fn dropping_closes_and_a_killed_process_does_not() {
    let folder = folder();
    let (path, image) = (folder.path().join("a.pool"), folder.path().join("killed.pool"));
    let store = filled(&path, KeyType::U64);
    assert_eq!(store.statistics().unwrap().shutdown, Shutdown::Clean, "just created");
    // The mapping is shared, so this is what the file holds when the process dies now.
    std::fs::copy(&path, &image).unwrap();
    drop(store);
    let store = crate::common::open(&path).unwrap();
    assert_eq!(store.statistics().unwrap().shutdown, Shutdown::Clean);
    let killed = crate::common::open(&image).unwrap();
    assert_eq!(killed.statistics().unwrap().shutdown, Shutdown::Crash);
    expect_filled(&killed, KeyType::U64);
    killed.close().unwrap();
    assert_eq!(
        crate::common::open(&image).unwrap().statistics().unwrap().shutdown,
        Shutdown::Clean
    );
}

#[test]
fn an_image_of_inner_nodes_is_used_once_and_void_before_the_first_change() {
    let folder = folder();
    let (path, killed) = (folder.path().join("a.pool"), folder.path().join("killed.pool"));
    let engines = [
        Engine::FPTREE,
        Engine::FPTREE_C,
        Engine::of(&everleaf_engines::PTREE),
        Engine::NVTREE,
        Engine::NVTREE_C,
    ];
    let from = |store: &Store| store.statistics().unwrap().inner_from;
    for (engine, key_type) in
        engines.into_iter().flat_map(|one| [(one, KeyType::U64), (one, KeyType::Bytes)])
    {
        let options = CreateOptions::new().engine(engine).key_type(key_type);
        let store = options
            .size_bytes(1 << 20)
            .max_size_bytes(1 << 30)
            .engines(all())
            .create(&path)
            .unwrap();
        for n in 0..2000 {
            store.put(key(key_type, n), value(n, 20)).unwrap();
        }
        store.close().unwrap();
        let reader = crate::common::open_read_only(&path).unwrap();
        assert_eq!(from(&reader), InnerFrom::Image, "{engine}, {key_type:?}");
        drop(reader);
        let store = crate::common::open(&path).unwrap();
        assert_eq!(from(&store), InnerFrom::Image, "{engine}, {key_type:?}");
        // Killed before its first change, and behind some.
        for changes in [0, 300] {
            for n in 2000..2000 + changes {
                store.put(key(key_type, n), value(n, 20)).unwrap();
            }
            std::fs::copy(&path, &killed).unwrap();
            let found = crate::common::open(&killed).unwrap();
            assert_eq!(from(&found), InnerFrom::Leaves(NoImage::Crash), "{engine}, {key_type:?}");
            assert_eq!(found.len().unwrap(), 2000 + changes);
            assert!(found.check().unwrap().ok);
            drop(found);
        }
        store.close().unwrap();
        let store = crate::common::open(&path).unwrap();
        assert_eq!(from(&store), InnerFrom::Image, "{engine}, {key_type:?}");
        for n in 0..2300 {
            assert_eq!(store.get(key(key_type, n)).unwrap().unwrap(), value(n, 20));
        }
        assert!(store.check().unwrap().ok);
        drop(store);
        for file in [&path, &killed] {
            std::fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn creation_refuses_what_it_cannot_do_and_leaves_no_file() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let refused = |options: CreateOptions, sentence: &str| {
        let error = options.create(&path).unwrap_err().to_string();
        assert!(error.contains(sentence), "{error}");
        assert!(!path.exists(), "{sentence}");
    };
    refused(
        CreateOptions::new().engine(Engine::of(&everleaf_engines::VOLATILE_CIRC)),
        "engine volatile-circ is not available in this release; choose one of ",
    );
    refused(
        CreateOptions::new().engine(Engine::of(&everleaf_engines::BTREEMAP)),
        "engine btreemap is not available",
    );
    refused(
        CreateOptions::new().engine(Engine::of(&everleaf_engines::WBTREE_SLOT)),
        "engine wbtree-slot is not available",
    );
    refused(
        CreateOptions::new().parameters(EngineParameters::default().leaf_slots(4)),
        "is not offered by this engine; choose one of 56",
    );
    refused(
        tiny(KeyType::U64).parameters(EngineParameters::default().leaf_slots(7)),
        "is not offered by this engine; choose one of",
    );
    refused(tiny(KeyType::U64).size_bytes(100), "too small");
    let large_groups = EngineParameters::default().group_bytes(256 << 10);
    let small =
        CreateOptions::new().engine(Engine::FPTREE).size_bytes(64 << 10).max_size_bytes(64 << 10);
    refused(small.parameters(large_groups), "the pool is full");
    let store = filled(&path, KeyType::U64);
    assert!(matches!(Store::create(&path), Err(Error::Pool(PoolError::Exists { .. }))));
    expect_filled(&store, KeyType::U64);
    assert!(matches!(
        crate::common::open(folder.path().join("b.pool")),
        Err(Error::Pool(PoolError::Missing { .. }))
    ));
    std::fs::write(folder.path().join("c.pool"), b"something else").unwrap();
    assert!(matches!(
        crate::common::open(folder.path().join("c.pool")),
        Err(Error::Pool(PoolError::NotAPool { .. }))
    ));
}

#[test]
fn byte_strings_for_an_engine_of_u64_keys_are_refused_before_there_is_a_file() {
    let folder = folder();
    let path = folder.path().join("encoded.pool");
    let options = CreateOptions::new().engine(Engine::CLFTREE_ENCODED).size_bytes(1 << 20);
    let error = options.clone().key_type(KeyType::Bytes).create(&path).unwrap_err();
    let sentence = "engine clftree-encoded has u64 keys only; choose these, or another engine for \
        byte strings";
    assert_eq!(error.to_string(), sentence);
    assert!(!path.exists());
    options.key_type(KeyType::U64).create(&path).unwrap().close().unwrap();
}

#[test]
fn every_available_engine_keeps_what_it_was_given() {
    let folder = folder();
    for engine in Engine::available() {
        for key_type in [KeyType::U64, KeyType::Bytes].into_iter().filter(|of| engine.has_keys(*of))
        {
            let path = folder.path().join(format!("{engine}-{key_type:?}.pool"));
            let store = CreateOptions::new()
                .engine(engine)
                .key_type(key_type)
                .size_bytes(1 << 20)
                .create(&path)
                .unwrap();
            (0..200).for_each(|n| {
                assert!(!store.put(key(key_type, n), value(n, (n * 7) as usize)).unwrap())
            });
            store.close().unwrap();
            let store = crate::common::opening().prefault(true).open(&path).unwrap();
            expect_filled(&store, key_type);
            let statistics = store.statistics().unwrap();
            assert_eq!((store.engine(), store.key_type()), (engine, key_type));
            assert_eq!(
                (statistics.engine, statistics.key_type, statistics.entries),
                (engine, key_type, 200)
            );
            assert!(statistics.pm_bytes > 0 && statistics.height > 0 && statistics.leaves > 0);
            assert_eq!(statistics.used_bytes + statistics.free_bytes, statistics.total_bytes);
            assert_eq!(statistics.durability, statistics.medium.durability());
        }
    }
}

#[test]
fn keys_and_values_that_are_too_long_and_keys_of_the_other_kind_are_refused() {
    let folder = folder();
    let store = tiny(KeyType::Bytes).create(folder.path().join("a.pool")).unwrap();
    let longest = vec![b'k'; MAX_KEY_BYTES];
    assert!(!store.put(&longest, b"").unwrap());
    assert_eq!(store.get(&longest).unwrap().as_deref(), Some(b"".as_slice()));
    let too_long = vec![b'k'; MAX_KEY_BYTES + 1];
    assert!(matches!(store.put(&too_long, b""), Err(Error::Index(IndexError::KeyTooLong { .. }))));
    assert!(matches!(store.get(&too_long), Err(Error::Index(IndexError::KeyTooLong { .. }))));
    let value = vec![0; MAX_VALUE_BYTES as usize + 1]; // Never touched, so never in memory.
    assert!(matches!(store.put("key", &value), Err(Error::ValueTooLong { .. })));
    let error = store.put(7u64, b"").unwrap_err();
    assert!(
        matches!(error, Error::WrongKeyType { expected: KeyType::Bytes })
            && error.to_string().contains("byte strings"),
        "{error}"
    );
    assert!(matches!(store.delete(7u64), Err(Error::WrongKeyType { .. })));
    assert!(matches!(store.contains_key(7u64), Err(Error::WrongKeyType { .. })));
    assert_eq!(store.len().unwrap(), 1);
    assert!(store.check().unwrap().ok, "what was refused left nothing");
}

#[test]
fn flushes_can_be_forced_and_promise_nothing_more() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    filled(&path, KeyType::U64).close().unwrap();
    for choice in
        [FlushChoice::Force(FlushInstruction::Clflush), FlushChoice::Force(FlushInstruction::None)]
    {
        let store = match crate::common::opening().flush(choice).open(&path) {
            Err(Error::Pool(PoolError::Map(error))) => {
                assert!(
                    error.to_string().contains("clflush"),
                    "only for want of the instruction: {error}"
                );
                continue;
            }
            store => store.unwrap(),
        };
        expect_filled(&store, KeyType::U64);
        assert!(store.capabilities().durability <= store.statistics().unwrap().medium.durability());
        assert!(
            store.capabilities().durability < Durability::PowerFail
                || choice != FlushChoice::Force(FlushInstruction::None)
        );
    }
}

/// A folder in memory, and one on an ordinary file system where the build has one.
fn media() -> [tempfile::TempDir; 2] {
    [folder(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()]
}

#[test]
fn a_pool_holds_what_was_chosen_and_what_its_medium_keeps_if_nothing_was() {
    for folder in media() {
        let path = folder.path().join("a.pool");
        for chosen in [None, Some(DurabilityMode::Process)] {
            let mut options = tiny(KeyType::Bytes);
            options.durability = chosen;
            let store = options.create(&path).unwrap();
            let (mode, survives) = match store.statistics().unwrap().durability {
                Durability::PowerFail => (DurabilityMode::Immediate, Durability::PowerFail),
                _ => (DurabilityMode::Process, Durability::ProcessCrash),
            };
            assert_eq!(store.statistics().unwrap().durability_mode, mode);
            assert_eq!(chosen.unwrap_or(mode), mode, "what was chosen holds");
            assert_eq!(store.capabilities().durability_mode, mode);
            store.put("key", b"value").unwrap();
            store.close().unwrap();
            for read_only in [false, true] {
                let store = crate::common::opening().read_only(read_only).open(&path).unwrap();
                let statistics = store.statistics().unwrap();
                assert_eq!((statistics.durability_mode, statistics.durability), (mode, survives));
                assert_eq!(statistics.engine, Engine::FPTREE);
                assert!(store.check().unwrap().ok);
            }
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn what_a_medium_cannot_keep_is_refused_when_a_pool_is_made_and_opened() {
    for folder in media() {
        let path = folder.path().join("a.pool");
        let store = tiny(KeyType::U64).create(&path).unwrap();
        let statistics = store.statistics().unwrap();
        if statistics.durability == Durability::PowerFail {
            return; // Both are kept here.
        }
        drop(store);
        for mode in [DurabilityMode::Immediate, DurabilityMode::buffered()] {
            let new = folder.path().join("new.pool");
            if statistics.medium == Medium::PageCache {
                // A log keeps it.
                let made = tiny(KeyType::U64).durability(mode).create(&new).unwrap();
                assert_eq!(made.capabilities().durability_mode, mode);
                drop(made);
                std::fs::remove_file(&new).unwrap();
                std::fs::remove_dir_all(folder.path().join("new.pool.log")).unwrap();
            } else {
                let error = tiny(KeyType::U64).durability(mode).create(&new).unwrap_err();
                assert!(matches!(error, Error::DurabilityOfMedium { .. }), "{error}");
                assert!(error.to_string().contains("choose `process`") && !new.exists(), "{error}");
            }
            let before = std::fs::read(&path).unwrap();
            let error = crate::common::opening().durability(mode).open(&path).unwrap_err();
            assert!(matches!(error, Error::DurabilityOfMedium { .. }), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), before, "it was written");
        }
        let store =
            crate::common::opening().durability(DurabilityMode::Process).open(&path).unwrap();
        assert_eq!(store.capabilities().durability_mode, DurabilityMode::Process);
    }
}

#[test]
fn a_choice_in_the_header_is_kept_apart_from_the_parameters_of_the_engine() {
    // Memory of the process stands for a medium that keeps nothing.
    for chosen in [None, Some(DurabilityMode::Process)] {
        let media = || {
            let region = everleaf_pmem::Region::anonymous(1 << 20, 1 << 20).unwrap();
            everleaf_pmem::Mapped::new(region, &everleaf_pmem::Cpu::detect()).unwrap()
        };
        let mut options = tiny(KeyType::U64);
        options.durability = chosen;
        let (store, pool) = create_on(all(), &options, media()).unwrap();
        let parameters = everleaf::internal::registry::parameters_of(options.engine, pool.format());
        assert_eq!(parameters, tiny(KeyType::U64).parameters);
        assert_eq!(store.capabilities().durability, Durability::None);
        assert_eq!(pool.format().parameters[7] != 0, chosen.is_some());
        let error =
            create_on(all(), &tiny(KeyType::U64).durability(DurabilityMode::Immediate), media());
        assert!(matches!(error, Err(Error::DurabilityOfMedium { .. })));
    }
}
