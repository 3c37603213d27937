//! What the catalog knows of the types of trees.

use crate::common::{folder, open, open_read_only, tiny};
use everleaf::internal::{tree_of_keys, types_of};
use everleaf::{Error, KeyType, OrderedKey, Store, StoredValue, salvage};

fn store(folder: &tempfile::TempDir) -> Store {
    tiny(KeyType::Bytes).create(folder.path().join("a.pool")).unwrap()
}

fn names(store: &Store, tree: &str) -> [Option<String>; 2] {
    types_of(store, tree.as_bytes()).unwrap().unwrap()
}

fn known(key: &str, value: &str) -> [Option<String>; 2] {
    [Some(key.to_owned()), Some(value.to_owned())]
}

#[test]
fn a_tree_is_refused_to_other_types_than_it_was_made_with() {
    let folder = folder();
    let store = store(&folder);
    store.typed_tree::<String, u64>("ages").unwrap().put("ann", 31).unwrap();
    let refused = store.typed_tree::<String, i64>("ages").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the tree `ages` has keys of type String and values of type u64; open it with these types"
    );
    assert!(matches!(store.typed_tree::<(String, u8), u64>("ages"), Err(Error::OtherTypes { .. })));
    let refused = store.typed_tree::<u64, u64>("ages").unwrap_err();
    assert!(matches!(refused, Error::WrongKeyType { .. }), "the index has other keys: {refused}");
    // Without types, and by other types on purpose, it is read as before.
    let untyped = store.tree("ages").unwrap();
    assert_eq!(untyped.get("ann").unwrap().unwrap(), 31u64.to_le_bytes());
    assert_eq!(untyped.typed::<String, i64>().unwrap().get("ann").unwrap(), Some(31));
    store.close().unwrap();
    for open in [open, open_read_only] {
        let store = open(folder.path().join("a.pool")).unwrap();
        assert!(matches!(store.typed_tree::<String, i8>("ages"), Err(Error::OtherTypes { .. })));
        assert_eq!(store.typed_tree::<String, u64>("ages").unwrap().get("ann").unwrap(), Some(31));
    }
}

#[test]
fn a_tree_that_was_made_without_names_gets_them_at_its_first_opening_for_writing() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = store(&folder);
    for name in ["ages", "scores"] {
        store.tree(name).unwrap().put("ann", 31u32.to_le_bytes()).unwrap();
    }
    assert_eq!(names(&store, "ages"), [None, None]);
    store.close().unwrap();
    // Two types are accepted one after the other, since nothing is written.
    let store = open_read_only(&path).unwrap();
    assert_eq!(store.typed_tree::<String, u32>("ages").unwrap().get("ann").unwrap(), Some(31));
    assert_eq!(store.typed_tree::<String, i32>("ages").unwrap().get("ann").unwrap(), Some(31));
    drop(store);
    let store = open(&path).unwrap();
    store.typed_tree::<String, i32>("ages").unwrap();
    assert_eq!(names(&store, "ages"), known("String", "i32"));
    // What is known of keys alone is completed.
    tree_of_keys::<f64>(&store, b"floats").unwrap();
    assert_eq!(names(&store, "floats"), [Some("f64".to_owned()), None]);
    tree_of_keys::<f64>(&store, b"floats").unwrap();
    assert!(matches!(store.typed_tree::<i64, u8>("floats"), Err(Error::OtherTypes { .. })));
    store.typed_tree::<f64, String>("floats").unwrap();
    assert_eq!(names(&store, "floats"), known("f64", "String"));
    tree_of_keys::<f64>(&store, b"floats").unwrap();
    store.close().unwrap();
    let store = open(&path).unwrap();
    assert!(matches!(store.typed_tree::<String, u32>("ages"), Err(Error::OtherTypes { .. })));
    assert_eq!(names(&store, "floats"), known("f64", "String"));
    assert_eq!(names(&store, "scores"), [None, None]);
    assert!(store.check().unwrap().ok);
}

#[test]
fn names_go_where_their_trees_go() {
    let folder = folder();
    let store = store(&folder);
    store.typed_tree::<(String, u64), Option<bool>>("votes").unwrap().put(("a", 1), None).unwrap();
    let expected = known("(String, u64)", "Option<bool>");
    store.copy(folder.path().join("copy.pool")).unwrap();
    let mut dump = Vec::new();
    store.dump(&mut dump).unwrap();
    let restored = tiny(KeyType::Bytes).create(folder.path().join("restored.pool")).unwrap();
    restored.restore(&dump[..]).unwrap();
    assert_eq!(names(&restored, "votes"), expected);
    store.close().unwrap();
    assert_eq!(names(&open(folder.path().join("copy.pool")).unwrap(), "votes"), expected);
    salvage(folder.path().join("a.pool"), folder.path().join("saved.pool")).unwrap();
    let saved = open(folder.path().join("saved.pool")).unwrap();
    assert_eq!(names(&saved, "votes"), expected);
    // A tree that is made again is another one.
    assert!(saved.drop_tree("votes").unwrap());
    assert_eq!(types_of(&saved, b"votes").unwrap(), None);
    saved.typed_tree::<String, u8>("votes").unwrap();
}

#[test]
fn a_full_pool_opens_a_tree_without_names_all_the_same() {
    let folder = folder();
    let store = tiny(KeyType::Bytes)
        .max_size_bytes(256 << 10)
        .create(folder.path().join("a.pool"))
        .unwrap();
    // Values of several lengths, so that no block of any size is left, and none of the reserve.
    let tree = store.tree("t").unwrap();
    for length in [4000, 900, 200, 60, 20, 1] {
        (0..).find(|n| tree.put(format!("{length}/{n}"), vec![b'v'; length]).is_err());
    }
    let typed = store.typed_tree::<String, Vec<u8>>("t").unwrap();
    assert!(typed.delete("4000/0").unwrap());
    store.typed_tree::<String, Vec<u8>>("t").unwrap();
    assert_eq!(names(&store, "t"), known("String", "Vec<u8>"));
}

/// Names of types of the program lie in the pool for years: they have no modules, and no
/// parameters of `Json`.
#[test]
fn types_of_the_program_are_known_by_their_names() {
    mod inner {
        #[derive(Debug)]
        pub struct Celsius(pub i16);
    }
    use inner::Celsius;
    impl everleaf::KeyFor<Celsius> for Celsius {
        fn encode(&self, bytes: &mut Vec<u8>) {
            self.0.encode(bytes);
        }
    }
    impl OrderedKey for Celsius {
        fn decode_part(bytes: &mut &[u8]) -> Option<Self> {
            i16::decode_part(bytes).map(Celsius)
        }
    }
    assert_eq!(<(Celsius, String) as OrderedKey>::type_name(), "(Celsius, String)");
    type Value = (Option<everleaf::Json<Vec<u8>>>, [u8; 2], char, usize, ());
    assert_eq!(
        <(Value, u8)>::type_names_of_parts(),
        ["Option<Json>", "[u8; 2]", "char", "u64", "()"]
    );
}

trait Parts {
    fn type_names_of_parts() -> Vec<String>;
}
impl<A: StoredValue, B: StoredValue, C: StoredValue, D: StoredValue, E: StoredValue, F> Parts
    for ((A, B, C, D, E), F)
{
    fn type_names_of_parts() -> Vec<String> {
        vec![A::type_name(), B::type_name(), C::type_name(), D::type_name(), E::type_name()]
    }
}

#[test]
fn floats_are_keys_in_the_order_of_numbers() {
    let folder = folder();
    let store = store(&folder);
    let scores = store.typed_tree::<f64, String>("scores").unwrap();
    let numbers = [0.5, -1.0, f64::INFINITY, 0.0, 1e300, f64::NAN, -2.5e-300, f64::NEG_INFINITY];
    for number in numbers {
        scores.put(number, number.to_string()).unwrap();
    }
    assert!(scores.put(-0.0, "nought").unwrap(), "it is 0.0");
    assert!(scores.put(-f64::NAN, "NaN").unwrap(), "there is one NaN");
    let read: Vec<String> = scores.iter().map(|entry| entry.unwrap().1).collect();
    let sorted = ["-inf", "-1", "-0.0", "nought", "0.5", "1e300", "inf", "NaN"];
    let sorted = sorted.map(|text| text.replace("-0.0", &(-2.5e-300f64).to_string()));
    let sorted = sorted.map(|text| if text == "1e300" { 1e300.to_string() } else { text });
    assert_eq!(read, sorted);
    let top: Vec<f64> = scores.range(0.25..f64::INFINITY).rev().map(|e| e.unwrap().0).collect();
    assert_eq!(top, [1e300, 0.5]);
    // Two parts: the first one is a float of fewer bits.
    let pairs = store.typed_tree::<(f32, String), ()>("pairs").unwrap();
    pairs.put_many([((1.5f32, "b"), ()), ((-1.5, "a"), ()), ((1.5, "a"), ())]).unwrap();
    assert_eq!(pairs.first().unwrap().unwrap().0, (-1.5, "a".to_owned()));
    assert_eq!(pairs.prefix((1.5f32,)).count(), 2);
}
