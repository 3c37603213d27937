//! Commands that took long: the last of them are remembered.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Arguments of a command that are kept, and bytes of each.
const KEPT_ARGUMENTS: usize = 32;
const KEPT_BYTES: usize = 128;

/// A command that took long.
pub struct Slow {
    /// How many there were before it.
    pub number: u64,
    /// When it ended.
    pub at_ms: u64,
    /// How long it took.
    pub took: Duration,
    /// What is kept of its arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Where its client is.
    pub peer: String,
    /// What the client calls itself.
    pub name: Vec<u8>,
}

/// The last of them; the latest is the first.
#[derive(Default)]
pub struct Slowlog {
    inner: Mutex<(u64, VecDeque<Arc<Slow>>)>,
}

fn kept(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let shown = if args.len() > KEPT_ARGUMENTS { KEPT_ARGUMENTS - 1 } else { args.len() };
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for arg in &args[..shown] {
        kept.push(match arg.get(KEPT_BYTES..) {
            Some(cut) if !cut.is_empty() => {
                let more = format!("... ({} more bytes)", cut.len());
                [&arg[..KEPT_BYTES], more.as_bytes()].concat()
            }
            _ => arg.to_vec(),
        });
    }
    if shown < args.len() {
        kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    kept
}

impl Slowlog {
    /// Adds a command, and forgets the oldest beyond `limit`.
    pub fn add(
        &self,
        args: &[&[u8]],
        took: Duration,
        at_ms: u64,
        (peer, name): (&str, &[u8]),
        limit: u64,
    ) {
        let mut inner = self.inner.lock();
        let (next, log) = &mut *inner;
        let slow = Slow {
            number: *next,
            at_ms,
            took,
            arguments: kept(args),
            peer: peer.to_owned(),
            name: name.to_vec(),
        };
        *next += 1;
        log.push_front(Arc::new(slow));
        log.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.inner.lock().1.len()
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        self.inner.lock().1.clear();
    }

    /// The last ones, the latest first.
    pub fn latest(&self, count: usize) -> Vec<Arc<Slow>> {
        self.inner.lock().1.iter().take(count).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_command_is_bounded() {
        let long = [b'x'; 1000];
        let args = vec![&long[..]; 40];
        let kept = kept(&args);
        assert_eq!(kept.len(), KEPT_ARGUMENTS);
        assert!(kept[0].ends_with(b"x... (872 more bytes)"));
        assert_eq!(kept[31], b"... (9 more arguments)");
    }
}
