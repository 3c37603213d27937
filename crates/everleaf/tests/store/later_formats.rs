//! Files of releases that come later: what they tell this one is obeyed, in the pool, its log and
//! in dumps. This release writes no such words, so the tests do, where docs/format.md and
//! docs/log.md say.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use crate::common::folder;
use crate::logged::{log_of, ordinary};
use everleaf::{CreateOptions, Error, LogError, Newer, PoolError, Result, Store, salvage_with};

/// Release 1.2.3, as it stands in files.
const RELEASE: u64 = 0x01_02_03;
/// What each sentence of refusal ends with.
const USE: &str = "use Everleaf 1.2.3 or later";

/// Who may open what has these words: the format's number above the known one, and features that
/// all, readers and nobody may ignore.
struct Case {
    above: u64,
    features: [u64; 3],
    read: bool,
    write: bool,
}

const CASES: [Case; 6] = [
    Case { above: 0, features: [0, 0, 0], read: true, write: true },
    Case { above: 0, features: [u64::MAX, 0, 0], read: true, write: true },
    Case { above: 0, features: [1, 1 << 63, 0], read: true, write: false },
    Case { above: 0, features: [0, 0, 1 << 40], read: false, write: false },
    Case { above: 0, features: [0, 1, 1], read: false, write: false },
    Case { above: 1, features: [0, 0, 0], read: false, write: false },
];

fn put(bytes: &mut [u8], at: usize, words: &[u64]) {
    for (place, word) in bytes[at..].as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().unwrap())
}

fn newer_of(error: &Error) -> Newer {
    match error {
        Error::Pool(PoolError::Newer(newer)) => *newer,
        Error::Log { source, .. } => match **source {
            LogError::Newer(newer) => newer,
            _ => panic!("{error:?}"),
        },
        _ => panic!("{error:?}"),
    }
}

/// Opens the pool in both ways; whoever may not is refused with the sentence.
fn opens(path: &Path, case: &Case) {
    for (writes, allowed) in [(false, case.read), (true, case.write)] {
        let opened = crate::common::opening().read_only(!writes).open(path);
        if allowed {
            let store = opened.unwrap();
            assert_eq!(store.get("oak").unwrap().as_deref(), Some(&b"Quercus"[..]));
            continue;
        }
        let error = opened.map(|_| ()).unwrap_err();
        assert!(error.to_string().ends_with(USE), "{error}");
        match newer_of(&error) {
            Newer::Format { .. } => assert_eq!(case.above, 1),
            Newer::FeaturesOfWriters { .. } => assert!(writes && case.read),
            Newer::Features { .. } => assert!(!case.read && case.above == 0),
            newer => panic!("{newer:?}"),
        }
    }
}

#[test]
fn the_words_of_a_pool_are_obeyed() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = CreateOptions::new().size_bytes(64 << 10).create(&path).unwrap();
    store.put("oak", "Quercus").unwrap();
    store.close().unwrap();
    let sound = fs::read(&path).unwrap();
    assert_eq!(sound[136..184], [0; 48], "this release has no features");
    for case in CASES {
        let mut bytes = sound.clone();
        put(&mut bytes, 8, &[word(&sound, 8) + case.above]);
        put(&mut bytes, 136, &[RELEASE]);
        put(&mut bytes, 144, &case.features);
        let crc = u64::from(crc32fast::hash(&bytes[..184]));
        put(&mut bytes, 184, &[crc]);
        fs::write(&path, &bytes).unwrap();
        opens(&path, &case);
        let saved = folder.path().join("saved.pool");
        let salvaged = salvage_with(&path, &saved, |_| ControlFlow::Continue(()));
        assert_eq!(salvaged.is_ok(), case.read, "a salvage reads");
        let _ = (fs::remove_file(log_of(&saved)), fs::remove_file(&saved));
        let now = fs::read(&path).unwrap();
        assert_eq!(now[..192], bytes[..192], "nobody changes them");
        assert!(case.write || now == bytes, "nothing was written");
    }
}

#[test]
fn the_words_of_a_log_are_obeyed_and_kept() {
    let Some(folder) = ordinary() else { return };
    let path = folder.path().join("a.pool");
    let control = log_of(&path).join("control");
    for case in CASES {
        let store = CreateOptions::new().create(&path).unwrap();
        store.put("oak", "Quercus").unwrap();
        store.close().unwrap();
        let mut bytes = fs::read(&control).unwrap();
        for block in bytes.as_chunks_mut::<4096>().0 {
            assert_eq!(block[59 * 8..], [0; 4096 - 59 * 8], "this release has no features");
            let [a, b, c] = case.features;
            let features = [RELEASE, a, b, c];
            let crc = crc32c::crc32c(features.map(u64::to_le_bytes).as_flattened());
            put(block, 59 * 8, &features);
            put(block, 63 * 8, &[crc.into()]);
            put(block, 8, &[if case.above == 0 { 3 } else { 5 }]);
            let crc = crc32c::crc32c(&block[..17 * 8]);
            put(block, 17 * 8, &[crc.into()]);
        }
        fs::write(&control, &bytes).unwrap();
        opens(&path, &case);
        for block in fs::read(&control).unwrap().as_chunks::<4096>().0 {
            assert_eq!(block[59 * 8..512], bytes[59 * 8..512], "nobody changes them");
        }
        fs::remove_file(&path).unwrap();
        fs::remove_dir_all(log_of(&path)).unwrap();
    }
}

#[test]
fn the_head_of_a_dump_is_obeyed() {
    let folder = folder();
    let made = |name| CreateOptions::new().size_bytes(64 << 10).create(folder.path().join(name));
    let (store, mut sound) = (made("a.pool").unwrap(), Vec::new());
    store.put("oak", "Quercus").unwrap();
    store.dump(&mut sound).unwrap();
    assert_eq!(sound[8..16], [1, 0, 0, 0, 1, 0, 0, 0], "this release has no features");
    let restore = |head: [u8; 8]| -> Result<()> {
        let mut dump = sound.clone();
        dump[8..16].copy_from_slice(&head);
        let crc = crc32fast::hash(&dump[..16]);
        dump[16..20].copy_from_slice(&crc.to_le_bytes());
        let restored: Store = made("b.pool")?;
        let outcome = restored.restore(&*dump);
        assert_eq!(restored.len()?, outcome.as_ref().map_or(0, |progress| progress.entries));
        std::fs::remove_file(folder.path().join("b.pool")).unwrap();
        outcome.map(|_| ())
    };
    restore([1, 3, 2, 1, 1, 0xff, 0, 0]).unwrap();
    for head in [
        [2, 3, 2, 1, 1, 0, 0, 0],
        [1, 3, 2, 1, 1, 0, 1, 0],
        [1, 3, 2, 1, 1, 0, 0, 0x80],
        [2, 3, 2, 1, 7, 0, 0, 0],
    ] {
        let refused = restore(head).unwrap_err().to_string();
        assert!(refused.contains("1.2.3") && refused.contains(USE), "{refused}");
    }
    assert!(restore([1, 0, 0, 0, 2, 0, 0, 0]).unwrap_err().to_string().contains("kind of keys"));
}
