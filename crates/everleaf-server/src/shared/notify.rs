//! Notifications of what happens to keys, by messages of channels.

use std::sync::atomic::{AtomicU32, Ordering};

use super::channels::Channels;
use crate::data::key_of;

/// Classes of events, and the two kinds of channels, by the letters of the setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(u32);

/// In the order in which they are told.
const LETTERS: &[u8] = b"g$lshzxetdnKEm";
/// What A stands for.
const ALL: &[u8] = b"g$lshzxetd";

impl Classes {
    /// The class of a letter.
    pub fn of(letter: u8) -> Self {
        let at = LETTERS.iter().position(|other| *other == letter);
        Self(at.map_or(0, |at| 1 << at))
    }

    /// What the letters of the setting say; none: one is unknown.
    pub fn read(letters: &[u8]) -> Option<Self> {
        letters.iter().try_fold(Self(0), |all, letter| match letter {
            b'A' => Some(ALL.iter().fold(all, |all, letter| all.and(Self::of(*letter)))),
            letter if LETTERS.contains(letter) => Some(all.and(Self::of(*letter))),
            _ => None,
        })
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of these are among them.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The letters.
    pub fn text(self) -> String {
        let all = ALL.iter().fold(Self(0), |all, letter| all.and(Self::of(*letter)));
        let mut text = String::new();
        for letter in LETTERS.iter().filter(|letter| self.has(Self::of(**letter))) {
            let is_told = !self.has(all) || b"KEm".contains(letter);
            text.extend(is_told.then_some(*letter as char));
        }
        if self.has(all) { format!("A{text}") } else { text }
    }
}

/// Something that has happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The letter of its class.
    pub class: u8,
    /// What Redis calls it.
    pub name: &'static str,
    /// The row of the key.
    pub row: Vec<u8>,
}

/// Which events are told.
#[derive(Default)]
pub struct Notifications {
    classes: AtomicU32,
}

impl Notifications {
    /// Which ones.
    pub fn classes(&self) -> Classes {
        Classes(self.classes.load(Ordering::Relaxed))
    }

    /// Sets which ones.
    pub fn set(&self, classes: Classes) {
        self.classes.store(classes.0, Ordering::Relaxed);
    }

    /// Whether any are.
    pub fn is_on(&self) -> bool {
        let classes = self.classes();
        classes.has(Classes::of(b'K')) || classes.has(Classes::of(b'E'))
    }

    /// Tells of an event, if its class is told.
    pub fn tell(&self, channels: &Channels, event: &Event) {
        let classes = self.classes();
        let Some((database, key)) = key_of(&event.row) else { return };
        if !classes.has(Classes::of(event.class)) {
            return;
        }
        if classes.has(Classes::of(b'K')) {
            let channel = [format!("__keyspace@{database}__:").as_bytes(), key].concat();
            channels.publish([&channel, event.name.as_bytes()], None, true);
        }
        if classes.has(Classes::of(b'E')) {
            let channel = format!("__keyevent@{database}__:{}", event.name);
            channels.publish([channel.as_bytes(), key], None, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_told_as_redis_tells_them() {
        for (set, told) in [
            ("", ""),
            ("gKE", "gKE"),
            ("$lshzxeKE", "$lshzxeKE"),
            ("KA", "AK"),
            ("EA", "AE"),
            ("AKEn", "AKE"),
            ("mKn", "nKm"),
            ("AmE", "AEm"),
        ] {
            assert_eq!(Classes::read(set.as_bytes()).unwrap().text(), told);
        }
        assert!(Classes::read(b"Kq").is_none());
    }
}
