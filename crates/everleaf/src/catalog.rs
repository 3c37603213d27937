//! Named trees by their names: the catalog, whose entries say which number a tree has (`keyspace`),
//! and whether it is being dropped, and of which types its keys and values are.
//!
//! Order of persistence. Each change of the catalog is one write of one entry, durable before what
//! depends on it is done; so a crash leaves the entry before it, or the one behind it.
//! * A new tree: its entry, with the names of its types where they are known. COMMIT. Then its
//!   first key.
//! * A tree of which the names, or one of them, are not known, because an earlier build or an
//!   untyped call has made it: at its first opening by types the entry is replaced by one with the
//!   names. COMMIT. A crash before it leaves a tree without names, which the next opening gives
//!   them; nothing else depends on them. If there is no room, the tree stays without.
//! * A drop: the entry says so. COMMIT. Then the keys go, then the entry.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use everleaf_pool::KeyType;

use crate::core::keyspace::{CatalogEntry, Space, TypeNames};
use crate::core::tree_liveness::TreeLiveness;
use crate::handle::Handle;
use crate::transfer::Everything;
use crate::{Error, Key, OrderedKey, Result, Scan, Store, StoredValue, Tree};

/// What a store knows of its named trees.
#[derive(Default)]
pub(crate) struct NamedTrees {
    /// The lives of those that were asked for, by number.
    lives: HashMap<u16, TreeLiveness>,
    /// None before a tree is made: the catalog was not read then. None again when entries of it
    /// were written by other ways than these, or perhaps written.
    numbers: Option<TreeNumbers>,
}

impl NamedTrees {
    fn life(&mut self, number: u16) -> TreeLiveness {
        self.lives.entry(number).or_insert_with(TreeLiveness::of_tree).clone()
    }

    /// A number is free when the entry of its tree has left the catalog.
    fn set_free(&mut self, number: u16) {
        self.numbers.iter_mut().for_each(|numbers| numbers.set(number, false));
    }
}

/// The numbers of the trees in the catalog, those included that are being dropped: a bit for each.
struct TreeNumbers(Box<[u64]>);

impl TreeNumbers {
    fn read(catalog: &Tree) -> Result<Self> {
        let mut numbers = Self(vec![0; (1 << u16::BITS) / u64::BITS as usize].into());
        for entry in catalog.iter() {
            numbers.set(read_entry(&entry?.1)?.number, true);
        }
        Ok(numbers)
    }

    fn set(&mut self, number: u16, used: bool) {
        let word = &mut self.0[usize::from(number) / 64];
        let bit = 1 << (number % 64);
        *word = if used { *word | bit } else { *word & !bit };
    }

    /// The least number that no tree has.
    fn free(&self) -> Result<u16> {
        let free = self.0.iter().position(|word| *word != u64::MAX);
        let number = free.map(|at| at * 64 + self.0[at].trailing_ones() as usize);
        number.and_then(|number| u16::try_from(number).ok()).ok_or(Error::TooManyTrees)
    }
}

impl Store {
    /// The tree of that name, with the kind of keys that it has; if there is none, one with
    /// byte-string keys is made. Names are bytes, up to 65,534 of them; a store with byte-string
    /// keys has room for 65,536 trees, one with `u64` keys has none.
    ///
    /// # Errors
    /// [`Error::NoTrees`]; [`Error::NoSuchTree`] if it is not there and the store was opened
    /// read-only; as [`put`](Tree::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let (orders, customers) = (store.tree("orders")?, store.tree("customers")?);
    /// orders.put("1", "ann: 3 apples")?;
    /// customers.put("ann", "1")?;
    /// assert_eq!((orders.len()?, customers.len()?, store.len()?), (1, 1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tree(&self, name: impl AsRef<[u8]>) -> Result<Tree> {
        self.tree_of(name.as_ref(), None, None)
    }

    /// As [`tree`](Store::tree), with this kind of keys. A `u64` key of a named tree takes 12
    /// bytes.
    ///
    /// # Errors
    /// As [`tree`](Store::tree); [`Error::WrongKeyType`] if it is there with the other kind.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use everleaf::KeyType;
    ///
    /// let squares = store.tree_with("squares", KeyType::U64)?;
    /// squares.put(12, "144")?;
    /// assert_eq!(squares.first()?, Some((12.into(), b"144".to_vec())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tree_with(&self, name: impl AsRef<[u8]>, key_type: KeyType) -> Result<Tree> {
        self.tree_of(name.as_ref(), Some(key_type), None)
    }

    /// The tree of that name with keys and values of types, made if there is none. The names of the
    /// types are [recorded](OrderedKey::type_name), and the tree is refused to other types from
    /// then on: the first opening for writing records them for a tree that has none, as of earlier
    /// builds or made by [`tree`](Store::tree).
    ///
    /// # Errors
    /// As [`tree_with`](Store::tree_with): keys of type `u64` need a tree of `u64` keys, all others
    /// one of byte strings. [`Error::OtherTypes`] if it was made with others. To read it as others
    /// all the same, take [`tree`](Store::tree) and [`Tree::typed`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let ages = store.typed_tree::<String, u32>("ages")?;
    /// ages.put("ann", 31)?;
    /// ages.put("bob", 27)?;
    /// assert_eq!(ages.get("ann")?, Some(31));
    ///
    /// // The parts of a tuple are ordered one after the other.
    /// let visits = store.typed_tree::<(String, i64), String>("visits")?;
    /// visits.put(("ann", -5), "before the epoch")?;
    /// visits.put(("ann", 1_700_000_000), "long after it")?;
    /// let (when, what) = visits.range(("ann", i64::MIN)..("ann", 0)).next().transpose()?.unwrap();
    /// assert_eq!((when.1, what.as_str()), (-5, "before the epoch"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn typed_tree<K: OrderedKey, V: StoredValue>(
        &self,
        name: impl AsRef<[u8]>,
    ) -> Result<Tree<K, V>> {
        let types = TypeNames::new(K::type_name(), V::type_name());
        self.tree_of(name.as_ref(), Some(K::KEY_TYPE), Some(types))?.typed()
    }

    /// The tree of that name with keys of a type, and values of which nothing is said.
    pub(crate) fn tree_of_keys<K: OrderedKey>(&self, name: &[u8]) -> Result<Tree> {
        let types = TypeNames::new(K::type_name(), String::new());
        self.tree_of(name, Some(K::KEY_TYPE), Some(types))
    }

    /// The names of the types of a tree's keys and values, each none if it was not recorded; none
    /// if there is no such tree.
    pub(crate) fn types_of(&self, name: &[u8]) -> Result<Option<[Option<String>; 2]>> {
        let Ok(catalog) = self.catalog() else { return Ok(None) };
        let entry = catalog.get(name)?.map(|bytes| read_entry(&bytes)).transpose()?;
        let entry = entry.filter(|entry| !entry.dropping);
        let known = |name: String| Some(name).filter(|name| !name.is_empty());
        Ok(entry.map(|CatalogEntry { types, .. }| [known(types.key), known(types.value)]))
    }

    /// The tree of that name, made if there is none; none as its kind of keys: whichever it has.
    fn tree_of(
        &self,
        name: &[u8],
        wanted: Option<KeyType>,
        types: Option<TypeNames>,
    ) -> Result<Tree> {
        let catalog = self.catalog()?;
        self.backend().ready()?;
        let mut trees = self.named_trees().lock();
        let entry = match catalog.get(name)?.map(|bytes| read_entry(&bytes)).transpose()? {
            Some(entry) if !entry.dropping => entry,
            _ if !self.capabilities().writable => {
                return Err(Error::NoSuchTree { name: name.to_vec() });
            }
            cut => {
                if let Some(entry) = cut {
                    // What is put into the new tree must not go with the old one.
                    self.finish_drop(name, &entry)?;
                    trees.set_free(entry.number);
                }
                let mut numbers = match trees.numbers.take() {
                    Some(numbers) => numbers,
                    None => TreeNumbers::read(&catalog)?,
                };
                let number = numbers.free()?;
                let key_type = wanted.unwrap_or(KeyType::Bytes);
                let types = types.clone().unwrap_or_default();
                let entry = CatalogEntry { number, key_type, dropping: false, types };
                catalog.put_if_absent(name, entry.to_bytes())?;
                numbers.set(number, true);
                trees.numbers = Some(numbers);
                entry
            }
        };
        if wanted.is_some_and(|wanted| wanted != entry.key_type) {
            return Err(Error::WrongKeyType { expected: entry.key_type });
        }
        if let Some(types) = types {
            self.agree_on_types(name, &catalog, &entry, types)?;
        }
        let life = trees.life(entry.number);
        Ok(Tree::over(Handle::new(Arc::clone(self.backend()), entry.space(), life)))
    }

    /// Compares the types that a tree is opened with, and records those that are not known yet.
    fn agree_on_types(
        &self,
        name: &[u8],
        catalog: &Tree,
        entry: &CatalogEntry,
        mut wanted: TypeNames,
    ) -> Result<()> {
        let TypeNames { key, value } = &entry.types;
        for (recorded, wanted) in [(key, &mut wanted.key), (value, &mut wanted.value)] {
            if !recorded.is_empty() && !wanted.is_empty() && recorded != wanted {
                let made = Box::new([key.clone(), value.clone()]);
                return Err(Error::OtherTypes { name: name.to_vec(), made });
            }
            if wanted.is_empty() {
                wanted.clone_from(recorded);
            }
        }
        if wanted == entry.types || !self.capabilities().writable {
            return Ok(());
        }
        let entry = CatalogEntry { types: wanted, ..entry.clone() };
        match catalog.put(name, entry.to_bytes()) {
            // A full pool is read and emptied all the same.
            Err(error) if error.is_full() => Ok(()),
            recorded => recorded.map(drop),
        }
    }

    /// The tree of that name, if there is one.
    ///
    /// # Errors
    /// [`Error::is_corruption`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// assert!(store.existing_tree("words")?.is_none());
    /// store.tree("words")?;
    /// assert!(store.existing_tree("words")?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn existing_tree(&self, name: impl AsRef<[u8]>) -> Result<Option<Tree>> {
        let Ok(catalog) = self.catalog() else { return Ok(None) };
        self.backend().ready()?;
        let mut trees = self.named_trees().lock();
        let entry = catalog.get(name.as_ref())?.map(|bytes| read_entry(&bytes)).transpose()?;
        let Some(entry) = entry.filter(|entry| !entry.dropping) else { return Ok(None) };
        let life = trees.life(entry.number);
        Ok(Some(Tree::over(Handle::new(Arc::clone(self.backend()), entry.space(), life))))
    }

    /// The names of all trees, in order.
    ///
    /// # Errors
    /// [`Error::is_corruption`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.tree("words")?;
    /// store.tree("cities")?;
    /// assert_eq!(store.tree_names()?, [b"cities".to_vec(), b"words".to_vec()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tree_names(&self) -> Result<Vec<Vec<u8>>> {
        let Ok(catalog) = self.catalog() else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for entry in catalog.iter() {
            let (name, bytes) = entry?;
            if let (Key::Bytes(name), false) = (name.as_ref(), read_entry(&bytes)?.dropping) {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    /// Removes a tree with all that is in it; false if there is none. From the first moment on the
    /// tree is not there, at any crash point; its entries are then removed as by
    /// [`delete_range`](Tree::delete_range), by the next opening if a crash or an error comes in
    /// between. Handles of the tree, also those of other threads, give [`Error::TreeDropped`] from
    /// then on, and never read or write a tree that is made later.
    ///
    /// # Errors
    /// As [`delete_range`](Tree::delete_range).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.tree("words")?.put("leaf", "")?;
    /// assert!(store.drop_tree("words")?);
    /// assert!(!store.drop_tree("words")?, "it is gone");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drop_tree(&self, name: impl AsRef<[u8]>) -> Result<bool> {
        let name = name.as_ref();
        let Some(catalog) = self.catalog().ok().filter(|_| self.capabilities().writable) else {
            return if self.capabilities().writable { Ok(false) } else { Err(Error::ReadOnly) };
        };
        self.backend().ready()?;
        let mut trees = self.named_trees().lock();
        let Some(bytes) = catalog.get(name)? else { return Ok(false) };
        let entry = CatalogEntry { dropping: true, ..read_entry(&bytes)? };
        catalog.put(name, entry.to_bytes())?;
        if let Some(life) = trees.lives.remove(&entry.number) {
            life.end();
            self.backend().wait_for_others()?;
        }
        self.finish_drop(name, &entry)?;
        trees.set_free(entry.number);
        Ok(true)
    }

    fn finish_drop(&self, name: &[u8], entry: &CatalogEntry) -> Result<()> {
        let keys = Handle::new(Arc::clone(self.backend()), entry.space(), TreeLiveness::OF_STORE);
        keys.delete_in(Scan::all())?;
        self.catalog()?.delete(name).map(drop)
    }

    /// Ends the drops that a crash or an error cut. One that meets damage stays cut: what else is
    /// in the store must not be out of reach for it.
    pub(crate) fn finish_drops(&self) -> Result<()> {
        let Ok(catalog) = self.catalog() else { return Ok(()) };
        let mut cut = Vec::new();
        for entry in catalog.iter() {
            let entry = entry.and_then(|(name, bytes)| Ok((name, read_entry(&bytes)?)));
            match entry {
                Ok((name, entry)) if entry.dropping => cut.push((name, entry)),
                Ok(_) => {}
                Err(error) if error.is_corruption() => break,
                Err(error) => return Err(error),
            }
        }
        for (name, entry) in cut {
            let Key::Bytes(name) = name.as_ref() else { continue };
            self.finish_drop(name, &entry)
                .or_else(|error| if error.is_corruption() { Ok(()) } else { Err(error) })?;
        }
        Ok(())
    }

    /// The keys of the tree of that name as they are at one moment, and then its name; none if
    /// there is no such tree then.
    pub(crate) fn whole_tree(&self, name: &[u8]) -> Result<Option<Everything<'_>>> {
        if self.backend().key_type() == KeyType::U64 {
            return Ok(None);
        }
        let name = Space::Catalog.encode(Key::Bytes(name))?.as_key().to_owned();
        let name = (Bound::Included(name.clone()), Bound::Included(name));
        let mut moment = Everything::within(self.backend(), name.clone())?;
        let entry = moment.next()?.first().map(|entry| read_entry(&entry.value)).transpose()?;
        let Some(entry) = entry.filter(|entry| !entry.dropping) else { return Ok(None) };
        let bound = |lower| entry.space().encode_bound(Bound::Unbounded, lower);
        moment.show((bound(true)?, bound(false)?));
        moment.show(name);
        Ok(Some(moment))
    }

    /// For who writes entries of the catalog by other ways than by name.
    pub(crate) fn forget_tree_numbers(&self) {
        self.named_trees().lock().numbers = None;
    }

    pub(crate) fn catalog(&self) -> Result<Tree> {
        match self.backend().key_type() {
            KeyType::Bytes => {
                let backend = Arc::clone(self.backend());
                Ok(Tree::over(Handle::new(backend, Space::Catalog, TreeLiveness::OF_STORE)))
            }
            KeyType::U64 => Err(Error::NoTrees),
        }
    }
}

fn read_entry(bytes: &[u8]) -> Result<CatalogEntry> {
    CatalogEntry::read(bytes).ok_or(Error::corrupt(0, "an entry of the catalog of trees is none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_that_is_free_is_given_and_the_last_one_is_given_too() {
        let mut numbers = TreeNumbers(vec![0; 1024].into());
        for number in 0..=u16::MAX {
            assert_eq!(numbers.free().unwrap(), number);
            numbers.set(number, true);
        }
        assert!(matches!(numbers.free(), Err(Error::TooManyTrees)));
        for number in [65_535, 64, 63, 0] {
            numbers.set(number, false);
            assert_eq!(numbers.free().unwrap(), number);
        }
        numbers.set(0, true);
        assert_eq!(numbers.free().unwrap(), 63);
    }
    fn store(folder: &tempfile::TempDir, name: &str) -> Store {
        crate::CreateOptions::new().size_bytes(1 << 20).create(folder.path().join(name)).unwrap()
    }

    #[test]
    fn a_tree_is_made_opened_and_dropped_without_a_look_at_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder, "a.pool");
        store.tree("first").unwrap();
        // Who reads this one fails.
        store.catalog().unwrap().put("damaged", "no entry").unwrap();
        for name in ["second", "third", "first"] {
            store.tree(name).unwrap().put("key", name).unwrap();
        }
        assert!(store.drop_tree("second").unwrap());
        store.tree("fourth").unwrap().put("key", "fourth").unwrap();
        assert_eq!(store.tree("third").unwrap().get("key").unwrap().unwrap(), b"third");
        assert!(store.tree_names().unwrap_err().is_corruption());
        store.forget_tree_numbers();
        assert!(store.tree("fifth").unwrap_err().is_corruption());
    }

    #[test]
    fn a_number_is_given_again_when_its_tree_has_gone_and_not_while_it_may_have_entries() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder, "a.pool");
        let number = |name: &str| {
            store.tree(name).unwrap();
            let entry = store.catalog().unwrap().get(name).unwrap().unwrap();
            read_entry(&entry).unwrap().number
        };
        assert_eq!([number("a"), number("b"), number("c")], [0, 1, 2]);
        assert!(store.drop_tree("b").unwrap());
        assert_eq!([number("d"), number("a"), number("e")], [1, 0, 3]);
        // A drop that was cut: the number is not free before it is ended.
        let entry = CatalogEntry { dropping: true, ..CatalogEntry::untyped(1, KeyType::Bytes) };
        store.catalog().unwrap().put("d", entry.to_bytes()).unwrap();
        assert_eq!([number("f"), number("d"), number("g")], [4, 1, 5]);
    }

    #[test]
    fn a_tree_that_is_made_after_a_restore_has_no_number_of_a_restored_one() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (store(&folder, "a.pool"), store(&folder, "b.pool"));
        for name in ["a", "b"] {
            from.tree(name).unwrap().put("key", name).unwrap();
        }
        let mut dump = Vec::new();
        from.dump(&mut dump).unwrap();
        to.tree("made and dropped").unwrap();
        to.drop_tree("made and dropped").unwrap();
        to.restore(&dump[..]).unwrap();
        to.tree("c").unwrap().put("key", "c").unwrap();
        for name in ["a", "b", "c"] {
            assert_eq!(to.tree(name).unwrap().get("key").unwrap().unwrap(), name.as_bytes());
        }
    }
}
