//! What must hold of inner nodes.

use std::sync::atomic::Ordering::Acquire;

use super::Parents;

impl Parents {
    /// What is wrong, a sentence each. No other thread changes inner nodes.
    pub fn check(&self) -> Vec<String> {
        let mut found = Vec::new();
        let root = self.root_at(self.root.load(Acquire) as u32);
        let (mut keys, mut before, mut leaves): (Option<u64>, Option<u64>, usize) = (None, None, 0);
        for (at, (key, parent)) in root.entries().into_iter().enumerate() {
            let entries = self.parent(parent as u32).entries();
            if entries.is_empty() || entries.len() > self.fanout {
                found.push(format!("parent {at} has {} entries", entries.len()));
            }
            if entries.first().is_some_and(|(first, _)| *first < key) || (at == 0 && key != 0) {
                found.push(format!("the key of parent {at} is above its first entry"));
            }
            if keys.is_some_and(|before| before >= key) {
                found.push(format!("the key of parent {at} does not ascend"));
            }
            keys = Some(key);
            for (bound, _) in &entries {
                if before.is_some_and(|before| before >= *bound) {
                    found.push(format!("an entry of parent {at} does not ascend"));
                }
                before = Some(*bound);
            }
            leaves += entries.len();
        }
        let memory = self.memory.lock();
        if leaves != memory.leaves || memory.promised != 0 {
            let (counted, promised) = (memory.leaves, memory.promised);
            found.push(format!("{leaves} leaves, not {counted}; {promised} changes under way"));
        }
        found
    }
}
