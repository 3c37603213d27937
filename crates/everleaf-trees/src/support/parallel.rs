//! Work on several threads.

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

#[cfg(test)]
mod tests {
    use super::*;

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
