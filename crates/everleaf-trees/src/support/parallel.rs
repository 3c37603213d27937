//! Work on several threads.

use parking_lot::Mutex;

/// Does each of the works, the first on this thread and the others on one of their own, and returns what they made, in their order. A panic in
/// one of them goes on here.
pub fn each_on_a_thread<T: Send>(works: Vec<impl FnOnce() -> T + Send>) -> Vec<T> {
    let mut works = works.into_iter();
    let Some(first) = works.next() else { return Vec::new() };
    std::thread::scope(|scope| {
        let others: Vec<_> = works.map(|work| scope.spawn(work)).collect();
        let mut made = vec![first()];
        made.extend(others.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))));
        made
    })
}

/// Does works, which come with a weight each, on so many threads, this one among them: whenever one is done with a work it takes the heaviest of those
/// that wait, so that all end at about the same time. Returns what they made, in the order of the works. A panic in one of them goes on here.
pub fn shared_out<T: Send>(threads: usize, works: Vec<(usize, impl FnOnce() -> T + Send)>) -> Vec<T> {
    let threads = threads.clamp(1, works.len().max(1));
    let mut waiting: Vec<_> = works.into_iter().enumerate().collect();
    waiting.sort_by_key(|(_, (weight, _))| *weight); // The heaviest is popped first.
    let waiting = Mutex::new(waiting);
    let work = || {
        let next = || waiting.lock().pop();
        std::iter::from_fn(next).map(|(number, (_, work))| (number, work())).collect::<Vec<_>>()
    };
    let mut made: Vec<_> = each_on_a_thread(vec![&work; threads]).into_iter().flatten().collect();
    made.sort_unstable_by_key(|(number, _)| *number);
    made.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_that_are_shared_out_are_all_done_and_keep_their_order() {
        for threads in [0, 1, 2, 3, 100] {
            let works: Vec<_> = (0..50).map(|number| (number % 7, move || number * number)).collect();
            assert_eq!(shared_out(threads, works), (0..50).map(|number| number * number).collect::<Vec<_>>());
        }
        assert!(shared_out(3, Vec::<(usize, fn())>::new()).is_empty());
    }

    #[test]
    fn heavy_works_are_begun_first() {
        let begun = Mutex::new(Vec::new());
        let work = |weight| {
            let begun = &begun;
            (weight, move || begun.lock().push(weight))
        };
        shared_out(1, [3, 1, 4, 1, 5].map(work).into());
        assert_eq!(begun.into_inner(), [5, 4, 3, 1, 1]);
    }

    #[test]
    fn who_is_done_takes_the_next_work() {
        let done = std::sync::atomic::AtomicUsize::new(0);
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        let works: Vec<_> = (0..9)
            .map(|number| {
                let done = &done;
                let work = move || {
                    while number == 0 && done.load(relaxed) < 8 {
                        std::thread::yield_now(); // The first work ends when all others were done by the other thread.
                    }
                    done.fetch_add(1, relaxed);
                };
                (9 - number, work)
            })
            .collect();
        assert_eq!(shared_out(2, works).len(), 9);
    }

    #[test]
    #[should_panic(expected = "in a work")]
    fn a_panic_in_a_work_goes_on() {
        let works: Vec<_> = (0..3).map(|number| (1, move || assert!(number != 1, "in a work"))).collect();
        shared_out(2, works);
    }

    #[test]
    fn results_come_in_the_order_of_the_works() {
        let works: Vec<_> = (0..5).map(|number| move || (number, std::thread::current().id())).collect();
        let made = each_on_a_thread(works);
        assert_eq!(made.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(made[0].1, std::thread::current().id());
        assert!(each_on_a_thread(Vec::<fn()>::new()).is_empty());
    }

    #[test]
    #[should_panic(expected = "in a share")]
    fn a_panic_goes_on() {
        each_on_a_thread(vec![|| (), || panic!("in a share")]);
    }
}
