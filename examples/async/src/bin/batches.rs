//! Many tasks write, and one sync of the disk serves all that came while the last one was waited
//! for: `Store::unsynced` makes the writes without waiting, and `Unsynced::wait` waits once.
//!
//! `cargo run --bin batches`

use everleaf::{Result, Store, Tree};
use everleaf_async_examples::off;
use tokio::sync::{mpsc, oneshot};

/// A write that somebody waits for.
struct Put {
    key: u64,
    value: String,
    done: oneshot::Sender<Result<bool>>,
}

/// Writes that wait in the queue at most: then those who ask wait, too.
const QUEUED: usize = 1024;

/// Does the writes of the queue, those together that are there together; how many syncs it took.
async fn write_all(store: Store, tree: Tree<u64, String>, mut queue: mpsc::Receiver<Put>) -> u64 {
    let mut syncs = 0;
    loop {
        let mut puts = Vec::new();
        if queue.recv_many(&mut puts, QUEUED).await == 0 {
            return syncs;
        }
        let (store, tree) = (store.clone(), tree.clone());
        let written = off(move || {
            let (results, unsynced) = store.unsynced(|| {
                puts.into_iter()
                    .map(|put| (put.done, tree.put(put.key, put.value)))
                    .collect::<Vec<_>>()
            });
            // Nobody is told of a write before it is durable.
            match unsynced.wait() {
                Ok(()) => results.into_iter().for_each(|(done, result)| drop(done.send(result))),
                // Whoever waits finds its sender gone: it is not known whether it was written.
                Err(error) => return Err(error),
            }
            Ok(())
        });
        if let Err(error) = written.await {
            eprintln!("writes are lost: {error}");
            return syncs;
        }
        syncs += 1;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::open_or_create(folder.path().join("batches.pool"))?;
    let tree = store.typed_tree::<u64, String>("names")?;
    let (queue, given) = mpsc::channel(QUEUED);
    let writer = tokio::spawn(write_all(store.clone(), tree.clone(), given));

    let tasks = (0..500u64).map(|key| {
        let queue = queue.clone();
        tokio::spawn(async move {
            let (done, answer) = oneshot::channel();
            let put = Put { key, value: format!("name {key}"), done };
            queue.send(put).await.map_err(|_| "the writer has ended")?;
            answer.await.map_err(|_| "it may not be durable")?.map_err(|_| "it was refused")
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        let replaced: Result<bool, &str> = task.await?;
        assert!(!replaced?);
    }
    drop(queue);
    let syncs = writer.await?;
    println!("{} writes, {syncs} syncs", tree.len()?);
    assert!(tree.len()? == 500 && syncs < 500);
    store.close()?;
    Ok(())
}
