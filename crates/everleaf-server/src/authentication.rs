//! Names and passwords, how they are compared, and how long who gives wrong ones has to wait.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::setting_file::read_setting_file;

/// Who may use the server.
#[derive(Clone, Debug, Default)]
pub struct Users {
    entries: Vec<Vec<u8>>,
}

impl Users {
    /// Reads a file with a line `name:password` for each user.
    ///
    /// # Errors
    /// What the system says, or a sentence about the file's form.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = read_setting_file(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let users = Self::parse(&text);
        if users.entries.is_empty() {
            return Err(format!(
                "{} names no user; write a line name:password for each user",
                path.display()
            ));
        }
        Ok(users)
    }

    fn parse(text: &[u8]) -> Self {
        let lines = text.split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end());
        let entry = |line: &[u8]| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let mut entry = line.to_vec();
            entry[colon] = b' ';
            Some(entry)
        };
        Self { entries: lines.filter_map(entry).collect() }
    }

    /// Whether a name, a blank and a password are those of a user. It takes the same time
    /// wherever they differ.
    pub fn know(&self, given: &[u8]) -> bool {
        let same = |entry: &Vec<u8>| same_bytes(entry, given);
        self.entries.iter().map(same).fold(false, |any, this| any | this)
    }
}

/// Whether two strings are the same, in a time that depends on their lengths only.
pub fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differences) == 0 && a.len() == b.len()
}

// ---- wrong ones
// -------------------------------------------------------------------------------------------------

/// Bytes that may wait behind a password that waits.
pub const UNAUTHENTICATED_BYTES: usize = 1 << 20;
/// How long the next password waits behind a first wrong one. Each further one doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(10);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// After so much time without a wrong password a place is as good as any other.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// Places that are remembered, at most: of others wrong passwords are not noticed.
const PLACES: usize = 1 << 16;

/// Where a client is: an address of the network, of IPv6 the network of 64 bits that it is in.
/// Clients of a socket in the file system, which its permissions guard, have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientPlace(Option<IpAddr>);

impl ClientPlace {
    /// Of an address with its port.
    pub fn of(peer: &str) -> Self {
        let address = peer.parse::<SocketAddr>().ok().map(|peer| peer.ip().to_canonical());
        Self(address.map(|address| match address {
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                IpAddr::V6(network.into())
            }
            address => address,
        }))
    }
}

/// Wrong passwords that came from a place.
#[derive(Clone, Copy, Debug)]
struct Wrong {
    times: u32,
    last: Instant,
}

impl Wrong {
    fn waits_until(&self) -> Instant {
        let doubled = 1_u32.checked_shl(self.times.saturating_sub(1)).unwrap_or(u32::MAX);
        self.last + FIRST_WAIT.saturating_mul(doubled).min(LONGEST_WAIT)
    }

    fn is_forgotten(&self) -> bool {
        self.last.elapsed() > FORGOTTEN
    }
}

/// Who has given wrong passwords. From a place where some came from one password is looked at in a
/// while, on however many connections they come: the connection waits, and no thread does. Other
/// places, and clients that have given their password, notice nothing of it.
#[derive(Debug, Default)]
pub struct Attempts {
    wrong: Mutex<HashMap<ClientPlace, Wrong>>,
}

impl Attempts {
    /// Until when a password from there has to wait; none: it can be looked at.
    pub fn wait(&self, place: ClientPlace) -> Option<Instant> {
        let until = self.wrong.lock().get(&place)?.waits_until();
        (until > Instant::now()).then_some(until)
    }

    /// A wrong one came from there.
    pub fn failed(&self, place: ClientPlace) {
        if place.0.is_none() {
            return;
        }
        let mut wrong = self.wrong.lock();
        if wrong.len() >= PLACES && !wrong.contains_key(&place) {
            wrong.retain(|_, wrong| !wrong.is_forgotten());
            if wrong.len() >= PLACES {
                return;
            }
        }
        let now = Instant::now();
        let times = wrong.get(&place).filter(|wrong| !wrong.is_forgotten()).map_or(0, |w| w.times);
        wrong.insert(place, Wrong { times: times.saturating_add(1), last: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_password_from_a_place_lets_the_next_wait_longer() {
        let attempts = Attempts::default();
        let [here, there] = ["[::ffff:10.0.0.1]:1", "10.0.0.2:1"].map(ClientPlace::of);
        assert_eq!(ClientPlace::of("10.0.0.1:2"), here);
        let [one, same] = ["[2001:db8::1]:1", "[2001:db8::2:3]:7"].map(ClientPlace::of);
        assert!(one == same && one != ClientPlace::of("[2001:db8:0:1::1]:1"));
        assert_eq!(attempts.wait(here), None);
        let mut last = Duration::ZERO;
        for times in 1..40 {
            attempts.failed(here);
            let waits = attempts.wrong.lock()[&here].waits_until() - Instant::now();
            assert!(waits > last || times > 8 && waits > LONGEST_WAIT / 2, "{times}: {waits:?}");
            assert!(waits <= LONGEST_WAIT);
            last = if times < 8 { waits } else { last };
        }
        assert!(attempts.wait(here).is_some());
        assert_eq!(attempts.wait(there), None);
        attempts.failed(ClientPlace::of("unix:0"));
        assert_eq!(attempts.wait(ClientPlace::of("unix:0")), None);
    }

    #[test]
    fn users_are_known_by_name_and_password() {
        let users = Users::parse(b"ann:one:two\r\nbob:three\n\nnonsense\n");
        assert!(users.know(b"ann one:two") && users.know(b"bob three"));
        for no in [&b"ann one"[..], b"ann:one:two", b"bob three ", b"", b"nonsense"] {
            assert!(!users.know(no), "{no:?}");
        }
    }
}
