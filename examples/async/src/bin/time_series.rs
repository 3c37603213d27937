//! Measurements of many sensors: they are gathered for a moment and stored as batches, read by
//! sensor and time, and the old ones go.
//!
//! `cargo run --bin time_series`

use std::time::Duration;

use everleaf::{Result, Store, Tree};
use everleaf_async_examples::off;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// By sensor and second.
type Series = Tree<(String, u64), f64>;
/// A sensor, a second, and what was measured.
type Measurement = (String, u64, f64);

/// How long measurements may wait for others: so much a power failure takes.
const GATHERED: Duration = Duration::from_millis(50);

/// Stores what comes, in batches that are there whole or not at all.
async fn store_all(series: Series, mut given: mpsc::Receiver<Measurement>) -> Result<u32> {
    let mut batches = 0;
    while let Some(first) = given.recv().await {
        let (mut batch, end) = (vec![first], Instant::now() + GATHERED);
        while batch.len() < 1000
            && let Ok(Some(next)) = timeout_at(end, given.recv()).await
        {
            batch.push(next);
        }
        let series = series.clone();
        off(move || {
            series.put_many(batch.into_iter().map(|(sensor, time, value)| ((sensor, time), value)))
        })
        .await?;
        batches += 1;
    }
    Ok(batches)
}

/// The mean of a sensor from one second to before another; a scan of many values waits for pages
/// of the disk.
async fn mean(series: &Series, sensor: &'static str, from: u64, to: u64) -> Result<Option<f64>> {
    let series = series.clone();
    off(move || {
        let (mut sum, mut count) = (0.0, 0u32);
        for entry in series.range((sensor, from)..(sensor, to)) {
            sum += entry?.1;
            count += 1;
        }
        Ok((count > 0).then(|| sum / f64::from(count)))
    })
    .await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::open_or_create(folder.path().join("series.pool"))?;
    let series: Series = store.typed_tree("measurements")?;
    let (sensor, given) = mpsc::channel(1000);
    let storing = tokio::spawn(store_all(series.clone(), given));
    for second in 0..3000u64 {
        for name in ["inside", "outside"] {
            sensor.send((name.to_owned(), second, second as f64 / 100.0)).await?;
        }
    }
    drop(sensor);
    let batches = storing.await??;
    assert_eq!((series.len()?, batches < 6000), (6000, true));
    let found = mean(&series, "inside", 1000, 2000).await?.ok_or("nothing was measured")?;
    assert!((found - 14.995).abs() < 1e-9, "{found}");
    let old = off({
        let series = series.clone();
        move || series.delete_range(("inside", 0)..("inside", 1000))
    });
    println!("{batches} batches, mean {found}, {} old ones removed", old.await?);
    assert_eq!(series.first()?.map(|(key, _)| key), Some(("inside".to_owned(), 1000)));
    store.close()?;
    Ok(())
}
