//! A shop's carts: stock and carts in trees of their own, changed together or not at all; carts
//! that are never paid for expire.
//!
//! `cargo run -p everleaf --example shopping_cart`

use std::time::Duration;

use everleaf::{Error, Store, Tree};

/// Carts are kept so long after the last change.
const KEPT: Duration = Duration::from_secs(30 * 60);

struct Shop {
    store: Store,
    stock: Tree,
    carts: Tree,
}

impl Shop {
    fn open(path: &std::path::Path) -> Result<Self, Error> {
        let store = if path.exists() { Store::open(path)? } else { Store::create(path)? };
        store.sweep_every(Some(Duration::from_secs(60)))?;
        Ok(Self { stock: store.tree("stock")?, carts: store.tree("carts")?, store })
    }

    /// How many there are of an article.
    fn in_stock(&self, article: &str) -> Result<u64, Error> {
        Ok(self.stock.get(article)?.map_or(0, |count| number(&count)))
    }

    /// Takes one from the stock and puts it into a cart. Two customers who want the last one: one
    /// of them gets it.
    fn take(&self, customer: &str, article: &str) -> Result<bool, Error> {
        loop {
            let Some(before) = self.stock.get(article)?.filter(|count| number(count) > 0) else {
                return Ok(false);
            };
            let after = (number(&before) - 1).to_le_bytes();
            if self.stock.compare_and_swap(article, Some(&before), Some(&after))? {
                let line = format!("{customer}/{article}");
                let already = self.carts.get(&line)?.map_or(0, |count| number(&count));
                self.carts.put_for(&line, &(already + 1).to_le_bytes(), KEPT)?;
                return Ok(true);
            }
        }
    }

    /// The lines of a cart.
    fn cart(&self, customer: &str) -> Result<Vec<(String, u64)>, Error> {
        let prefix = format!("{customer}/");
        let line = |(key, count): everleaf::Entry| match key.as_ref() {
            everleaf::Key::Bytes(key) => {
                (String::from_utf8_lossy(&key[prefix.len()..]).into_owned(), number(&count))
            }
            everleaf::Key::U64(_) => unreachable!("the keys of this tree are byte strings"),
        };
        self.carts.prefix(&prefix).map(|entry| entry.map(line)).collect()
    }

    /// Makes an order of a cart: the order is there and the cart is empty, or neither, whatever
    /// happens.
    fn order(&self, customer: &str, number: u64) -> Result<(), Error> {
        let orders = self.store.tree_with("orders", everleaf::KeyType::U64)?;
        let mut batch = self.store.batch();
        let mut text = String::new();
        for (article, count) in self.cart(customer)? {
            text += &format!("{count} x {article}\n");
            batch.on(&self.carts)?.delete(&format!("{customer}/{article}"))?;
        }
        batch.on(&orders)?.insert(number, text.as_bytes())?;
        batch.commit().map(drop)
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let shop = Shop::open(&folder.path().join("shop.pool"))?;
    shop.stock.put_many([("apple", 2u64.to_le_bytes()), ("pear", 1u64.to_le_bytes())])?;
    for (customer, article) in
        [("ann", "apple"), ("ann", "pear"), ("bob", "pear"), ("ann", "apple"), ("bob", "apple")]
    {
        let taken = if shop.take(customer, article)? { "takes" } else { "finds no" };
        println!("{customer} {taken} {article}");
    }
    assert_eq!(shop.cart("ann")?, [("apple".to_owned(), 2), ("pear".to_owned(), 1)]);
    assert_eq!(shop.in_stock("apple")?, 0);
    shop.order("ann", 1)?;
    assert!(shop.cart("ann")?.is_empty());
    println!(
        "order 1:\n{}",
        String::from_utf8(
            shop.store.tree_with("orders", everleaf::KeyType::U64)?.get(1)?.unwrap_or_default()
        )?
    );
    shop.store.close()?;
    Ok(())
}
