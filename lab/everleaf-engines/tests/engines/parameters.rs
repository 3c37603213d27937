//! Sizes of nodes as they stand in the header of a pool.

use std::collections::BTreeSet;

use everleaf_crash::{Instrumented, Traced};
use everleaf_engines::{BTREEMAP, ENTRIES, all, named, pools};
use everleaf_pmem::{Mapped, Media};
use everleaf_pool::{Format, KeyType};
use everleaf_tree::{EngineParameters, Engines};

use super::Engine;

#[test]
fn names_are_distinct_and_fit_the_header_of_a_pool() {
    assert!(ENTRIES.iter().all(|entry| entry.name.len() <= 24));
    assert_eq!(ENTRIES.iter().map(|entry| entry.name).collect::<BTreeSet<_>>().len(), 24);
    assert_eq!(named("fastfair").unwrap().name, "fastfair");
    let refused = named("volatile-std").unwrap_err();
    assert!(refused.starts_with("engine volatile-std is not available"), "{refused}");
}

#[test]
fn the_parameters_of_a_pool_are_those_that_it_was_made_with() {
    for engine in ENTRIES.into_iter().filter(|engine| **engine != BTREEMAP) {
        let mut chosen = EngineParameters::default().leaf_slots(engine.min_leaf_slots);
        if engine.parameters.contains(&EngineParameters::INNER_KEYS) {
            chosen = chosen.inner_keys(4);
        }
        if engine.parameters.contains(&EngineParameters::GROUP_BYTES) {
            chosen = chosen.group_bytes(8192);
        }
        let packed = (engine.pack)(&chosen, 1).unwrap();
        assert_eq!((engine.unpack)(packed).unwrap(), chosen, "{engine}");
        assert!((engine.pack)(&chosen, engine.max_value_words as u64).is_ok(), "{engine}");
        assert!((engine.pack)(&chosen, engine.max_value_words as u64 + 1).is_err(), "{engine}");
    }
    assert!((BTREEMAP.pack)(&EngineParameters::default(), 1).is_err());
}

/// Smallest and tuned leaves, numbers and byte strings.
fn formats(engine: Engine) -> Vec<Format> {
    let small = EngineParameters::default().leaf_slots(engine.min_leaf_slots);
    let packed = [small, EngineParameters::default()].map(|sizes| (engine.pack)(&sizes, 1));
    let kinds = [(KeyType::U64, true), (KeyType::Bytes, engine.bytes_keys)];
    let kinds = kinds.into_iter().filter(|(_, has)| *has).map(|(kind, _)| kind);
    let format = |key_type| {
        packed.iter().map(move |parameters| Format {
            engine: engine.name.to_owned(),
            key_type,
            parameters: *parameters.as_ref().unwrap(),
        })
    };
    kinds.flat_map(format).collect()
}

#[test]
fn every_media_has_code_for_every_size_on_offer() {
    fn has_all<M: Media>(engines: Engines<M>) {
        for format in pools().flat_map(formats) {
            let code = engines.code(&format).map(|code| code.map(|code| code.entry.name));
            assert_eq!(code.unwrap().unwrap(), format.engine);
        }
    }
    has_all(all::<Traced>());
    has_all(all::<Instrumented>());
    has_all(all::<Mapped>());
}
