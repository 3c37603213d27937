//! A persistent linked list, and every crash that it can suffer. `cargo run --example linked_list
//! [-- broken]`
//!
//! The list is a stack on bare recorded memory: line 1 holds the head, line `1 + n` the node that
//! the `n`-th push uses.

use std::process::ExitCode;

use everleaf_crash::{Options, Promise, Subject, Traced, explore};
use everleaf_pmem::{Media, PCell, PPtr, persistent, site};

persistent! {
    struct Node {
        value: PCell,
        next: PCell<PPtr<Node>>,
    }
}

struct List {
    /// Publish a node before it is durable, as so many have done.
    broken: bool,
    pushes: u64,
}

fn node(media: &Traced, pointer: PPtr<Node>) -> Result<&Node, String> {
    media.region().get(pointer).ok_or(format!("the pointer {pointer:?} leads nowhere"))
}

/// The head is the `next` of a node without a value.
fn head(media: &Traced) -> Result<&Node, String> {
    node(media, PPtr::at(64))
}

impl Subject for List {
    type State = Traced;

    fn prepare(&self, media: Traced) -> Result<Traced, String> {
        media.store(&head(&media)?.next, PPtr::NULL);
        media.flush(site!("list.create.head"), &head(&media)?.next);
        media.fence(site!("list.create.fence"));
        Ok(media)
    }

    fn operation_count(&self) -> usize {
        self.pushes as usize
    }

    fn run(&self, media: &mut Traced, operation: usize) -> Result<(), String> {
        let (head, at) = (head(media)?, PPtr::at(128 + 64 * operation as u64));
        // P1: the node. Crash: nothing points to it.
        let new = node(media, at)?;
        media.store(&new.value, operation as u64);
        media.store(&new.next, media.load(&head.next));
        if !self.broken {
            media.flush_object(site!("list.push.P1.node"), new);
            media.fence(site!("list.push.P1.fence"));
        }
        // P2 COMMIT: the head.
        media.store(&head.next, at);
        media.flush(site!("list.push.P2.head"), &head.next);
        media.fence(site!("list.push.P2.fence"));
        Ok(())
    }

    fn recover(&self, image: Traced) -> Result<Traced, String> {
        Ok(image)
    }

    fn verify(&self, media: &mut Traced, promise: &Promise) -> Result<(), String> {
        let (mut found, mut at) = (Vec::new(), media.load(&head(media)?.next));
        while !at.is_null() {
            let node = node(media, at)?;
            found.insert(0, media.load(&node.value));
            at = media.load(&node.next);
        }
        if promise.allows(found.len()) && found == (0..found.len() as u64).collect::<Vec<_>>() {
            Ok(())
        } else {
            Err(format!("{promise} pushes should be there, the list holds {found:?}"))
        }
    }

    fn describe_operation(&self, operation: usize) -> String {
        format!("push {operation}")
    }

    fn describe_line(&self, line: u64) -> Option<String> {
        Some(if line == 1 {
            "the head".to_string()
        } else {
            format!("the node of push {}", line - 2)
        })
    }
}

fn main() -> ExitCode {
    let broken = std::env::args().nth(1).is_some_and(|argument| argument == "broken");
    let options = Options { len: 4096, max_len: 4096, mutate: true, ..Options::default() };
    let report = explore(&List { broken, pushes: 5 }, &options).expect("a push does not fail");
    println!(
        "{} crash points, {} states, {} recoveries",
        report.crash_points, report.states, report.recoveries
    );
    match report.violations.first() {
        Some(violation) => print!("{violation}"),
        None => println!(
            "no violation; mutants killed: {:?} of {:?}",
            report.mutants_killed, report.mutants
        ),
    }
    if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
