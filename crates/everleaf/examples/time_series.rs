//! Measurements by time: appended in batches, read by range, and the old ones removed by range.
//!
//! `cargo run -p everleaf --example time_series`

use everleaf::{CreateOptions, KeyType, Scan};

/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store =
        CreateOptions::new().key_type(KeyType::U64).create(folder.path().join("series.pool"))?;

    // A measurement a minute for ten days. A batch costs less than its entries one by one, and a
    // crash leaves no hour in part.
    for hour in 0..10 * 24u64 {
        let minutes = (0..60).map(|minute| hour * 3600 + minute * 60);
        let measured = |time: u64| (time as f64 / DAY as f64 * std::f64::consts::TAU).sin();
        store.put_many(minutes.map(|time| (time, measured(time).to_le_bytes())))?;
    }
    let last = store.last()?.map(|(time, _)| time);
    println!("{} measurements, the last at {last:?}", store.len()?);

    // The mean of the third day's morning.
    let (mut sum, mut count) = (0.0, 0);
    for entry in store.range(2 * DAY..2 * DAY + DAY / 2) {
        sum += f64::from_le_bytes(entry?.1.try_into().map_err(|_| "no measurement")?);
        count += 1;
    }
    println!("mean of {count}: {:.3}", sum / f64::from(count));
    assert_eq!(count, 12 * 60);

    // Only the last week is kept.
    let used = store.statistics()?.used_bytes;
    let removed = store.delete_range(..3 * DAY)?;
    assert_eq!((removed, store.count_in(Scan::all())?), (3 * 24 * 60, 7 * 24 * 60));
    println!("{removed} removed; {used} bytes before, {} after", store.statistics()?.used_bytes);
    store.close()?;
    Ok(())
}
