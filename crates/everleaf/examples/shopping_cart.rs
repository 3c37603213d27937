//! A shop's carts: stock and carts in trees of their own, changed together or not at all; carts
//! that are never paid for expire.
//!
//! `cargo run -p everleaf --example shopping_cart`

use std::time::Duration;

use everleaf::{Result, Store, Tree};

/// Carts are kept so long after the last change.
const KEPT: Duration = Duration::from_secs(30 * 60);
/// No article has a greater name.
const LAST: &str = "\u{10ffff}";

struct Shop {
    store: Store,
    stock: Tree<String, u64>,
    /// Customer and article, to how many.
    carts: Tree<(String, String), u64>,
    orders: Tree<u64, String>,
}

impl Shop {
    fn open(path: &std::path::Path) -> Result<Self> {
        let store = Store::open_or_create(path)?;
        store.sweep_every(Some(Duration::from_secs(60)))?;
        Ok(Self {
            stock: store.typed_tree("stock")?,
            carts: store.typed_tree("carts")?,
            orders: store.typed_tree("orders")?,
            store,
        })
    }

    /// Takes one from the stock and puts it into a cart: both or neither, whatever happens. Of two
    /// customers who want the last one, one gets it.
    fn take(&self, customer: &str, article: &str) -> Result<bool> {
        self.store.transaction(|tx| {
            let left = tx.on(&self.stock)?.get(article)?.unwrap_or(0);
            if left == 0 {
                return Ok(false);
            }
            tx.on(&self.stock)?.put(article, left - 1)?;
            let carts = tx.on(&self.carts)?;
            let already = carts.get((customer, article))?.unwrap_or(0);
            carts.put_for((customer, article), already + 1, KEPT)?;
            Ok(true)
        })
    }

    /// The lines of a cart.
    fn cart(&self, customer: &str) -> Result<Vec<(String, u64)>> {
        let mut lines = Vec::new();
        for entry in self.carts.range((customer, "")..) {
            let ((of, article), count) = entry?;
            if of != customer {
                break;
            }
            lines.push((article, count));
        }
        Ok(lines)
    }

    /// Makes an order of a cart: the order is there and the cart is empty, or neither, whatever
    /// happens, and nothing that is put into the cart meanwhile is lost.
    fn order(&self, customer: &str, number: u64) -> Result<()> {
        self.store.transaction(|tx| {
            let mut text = String::new();
            let (carts, orders) = (tx.on(&self.carts)?, tx.on(&self.orders)?);
            for line in carts.range((customer, "")..=(customer, LAST)) {
                let ((_, article), count) = line?;
                text += &format!("{count} x {article}\n");
                carts.delete((customer, article))?;
            }
            orders.put(number, text)?;
            Ok(())
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let shop = Shop::open(&folder.path().join("shop.pool"))?;
    shop.stock.put_many([("apple", 2), ("pear", 1)])?;
    for (customer, article) in
        [("ann", "apple"), ("ann", "pear"), ("bob", "pear"), ("ann", "apple"), ("bob", "apple")]
    {
        let taken = if shop.take(customer, article)? { "takes" } else { "finds no" };
        println!("{customer} {taken} {article}");
    }
    assert_eq!(shop.cart("ann")?, [("apple".to_owned(), 2), ("pear".to_owned(), 1)]);
    assert_eq!(shop.stock.get("apple")?, Some(0));
    shop.order("ann", 1)?;
    assert!(shop.cart("ann")?.is_empty());
    println!("order 1:\n{}", shop.orders.get(1)?.unwrap_or_default());
    shop.store.close()?;
    Ok(())
}
