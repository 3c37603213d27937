//! A queue of jobs: each is done, and after a crash of a worker done again. A job is in one of two
//! trees at any moment, and a transaction moves it.
//!
//! `cargo run --bin job_queue`

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use everleaf::{Result, Store, Tree};
use everleaf_async_examples::off;
use tokio::sync::Notify;

/// Clones are the same queue.
#[derive(Clone)]
struct Queue {
    store: Store,
    /// By number: the first come is the first served.
    waiting: Tree<u64, String>,
    /// By the moment from which on the worker counts as dead, and the number.
    running: Tree<(SystemTime, u64), String>,
    /// A number for the next job.
    next: Tree<String, u64>,
    added: Arc<Notify>,
}

/// How long a worker may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What tells a worker's job from all others.
type Ticket = (SystemTime, u64);

impl Queue {
    fn over(store: Store) -> Result<Self> {
        let queue = Self {
            waiting: store.typed_tree("jobs waiting")?,
            running: store.typed_tree("jobs running")?,
            next: store.typed_tree("jobs next")?,
            store,
            added: Arc::new(Notify::new()),
        };
        Ok(queue)
    }

    async fn add(&self, job: String) -> Result<u64> {
        let queue = self.clone();
        let number = off(move || {
            queue.store.transaction(|tx| {
                let next = tx.on(&queue.next)?.update("job", |next| Some(next.unwrap_or(0) + 1))?;
                let number = next.unwrap_or(0);
                tx.on(&queue.waiting)?.put(number, &job)?;
                Ok(number)
            })
        });
        let number = number.await?;
        self.added.notify_one();
        Ok(number)
    }

    /// The next job, if there is any; it is this worker's until the patience ends.
    async fn take(&self) -> Result<Option<(Ticket, String)>> {
        let queue = self.clone();
        off(move || {
            queue.store.transaction(|tx| {
                let Some((number, job)) = tx.on(&queue.waiting)?.pop_first()? else {
                    return Ok(None);
                };
                let ticket = (SystemTime::now() + PATIENCE, number);
                tx.on(&queue.running)?.put(ticket, &job)?;
                Ok(Some((ticket, job)))
            })
        })
        .await
    }

    /// The job is done; false if it was given to another worker meanwhile.
    async fn done(&self, ticket: Ticket) -> Result<bool> {
        let running = self.running.clone();
        off(move || running.delete(ticket)).await
    }

    /// Gives the jobs of workers that must be dead to others; how many.
    async fn give_back(&self, now: SystemTime) -> Result<usize> {
        let queue = self.clone();
        off(move || {
            let mut late = 0;
            // A transaction a job: each is short, and none meets another worker's.
            for entry in queue.running.range(..(now, 0)) {
                let (ticket, _) = entry?;
                late += queue.store.transaction(|tx| {
                    let Some(job) = tx.on(&queue.running)?.remove(ticket)? else { return Ok(0) };
                    tx.on(&queue.waiting)?.put(ticket.1, job)?;
                    Ok(1)
                })?;
            }
            Ok(late)
        })
        .await
    }
}

/// Does jobs until there are none.
async fn work(queue: Queue) -> Result<u32> {
    let mut done = 0;
    loop {
        let added = queue.added.notified();
        match queue.take().await? {
            Some((ticket, _job)) => done += u32::from(queue.done(ticket).await?),
            None if tokio::time::timeout(Duration::from_millis(200), added).await.is_err() => {
                return Ok(done);
            }
            None => {}
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let queue = Queue::over(Store::open_or_create(folder.path().join("jobs.pool"))?)?;
    for number in 0..20 {
        queue.add(format!("job {number}")).await?;
    }
    // This worker dies with its job.
    let (_, lost) = queue.take().await?.ok_or("there is no job")?;
    assert_eq!(lost, "job 0");
    let workers: Vec<_> = (0..3).map(|_| tokio::spawn(work(queue.clone()))).collect();
    let mut done = 0;
    for worker in workers {
        done += worker.await??;
    }
    assert_eq!((done, queue.running.len()?), (19, 1));
    assert_eq!(queue.give_back(SystemTime::now()).await?, 0, "it may live still");
    assert_eq!(queue.give_back(SystemTime::now() + 2 * PATIENCE).await?, 1);
    assert_eq!(work(queue.clone()).await?, 1);
    assert!(queue.waiting.is_empty()? && queue.running.is_empty()?);
    println!("20 jobs done, one of them by a second worker");
    queue.store.close()?;
    Ok(())
}
