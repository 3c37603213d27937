//! Requests and replies of a protocol. What a value is follows from its key, so every reply is
//! known before it comes.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::requests::Request;
use crate::BenchError;

/// What is spoken to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// The text protocol of memcached.
    Memcached,
    /// Redis' protocol, version 2.
    Redis,
}

impl Protocol {
    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memcached => "memcached",
            Self::Redis => "redis",
        }
    }

    /// A request that every server answers with one line.
    pub(super) const fn greeting(self) -> &'static [u8] {
        match self {
            Self::Memcached => b"version\r\n",
            Self::Redis => b"PING\r\n",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Protocol {
    type Err = BenchError;

    fn from_str(name: &str) -> Result<Self, BenchError> {
        let known = [Self::Memcached, Self::Redis].into_iter().find(|one| one.name() == name);
        let choices = "memcached, redis".into();
        known.ok_or_else(|| BenchError::Unknown { what: "protocol", name: name.into(), choices })
    }
}

/// The pieces that requests and replies are made of.
pub struct Wire {
    value_bytes: usize,
    /// Before the key, and between key and value.
    set: [Vec<u8>; 2],
    stored: &'static [u8],
    /// Before the key.
    get: &'static [u8],
    /// Before the key, between key and value, and behind it.
    found: [Vec<u8>; 3],
    /// Whether the reply to a GET names the key.
    names_key: bool,
}

impl Wire {
    pub fn new(protocol: Protocol, value_bytes: usize) -> Self {
        let bytes = |text: &str| text.as_bytes().to_vec();
        match protocol {
            Protocol::Memcached => Self {
                value_bytes,
                set: [bytes("set "), bytes(&format!(" 0 0 {value_bytes}\r\n"))],
                stored: b"STORED\r\n",
                get: b"get ",
                found: [
                    bytes("VALUE "),
                    bytes(&format!(" 0 {value_bytes}\r\n")),
                    bytes("\r\nEND\r\n"),
                ],
                names_key: true,
            },
            Protocol::Redis => Self {
                value_bytes,
                set: [
                    bytes("*3\r\n$3\r\nSET\r\n$16\r\n"),
                    bytes(&format!("\r\n${value_bytes}\r\n")),
                ],
                stored: b"+OK\r\n",
                get: b"*2\r\n$3\r\nGET\r\n$16\r\n",
                found: [bytes(&format!("${value_bytes}\r\n")), Vec::new(), bytes("\r\n")],
                names_key: false,
            },
        }
    }

    /// Appends a request, and its reply to what is expected.
    pub fn put(&self, request: &Request, out: &mut Vec<u8>, expected: &mut Vec<u8>) {
        let key = &request.key;
        if request.stores {
            out.extend_from_slice(&self.set[0]);
            out.extend_from_slice(key);
            out.extend_from_slice(&self.set[1]);
            self.put_value(key, out);
            out.extend_from_slice(b"\r\n");
            expected.extend_from_slice(self.stored);
        } else {
            out.extend_from_slice(self.get);
            out.extend_from_slice(key);
            out.extend_from_slice(b"\r\n");
            expected.extend_from_slice(&self.found[0]);
            if self.names_key {
                expected.extend_from_slice(key);
            }
            expected.extend_from_slice(&self.found[1]);
            self.put_value(key, expected);
            expected.extend_from_slice(&self.found[2]);
        }
    }

    /// The value of a key: the key again and again.
    fn put_value(&self, key: &[u8], to: &mut Vec<u8>) {
        let end = to.len() + self.value_bytes;
        while to.len() < end {
            to.extend_from_slice(&key[..key.len().min(end - to.len())]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(protocol: Protocol, stores: bool) -> (String, String) {
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        let request = Request { key: *b"0123456789abcdef", stores };
        Wire::new(protocol, 18).put(&request, &mut out, &mut expected);
        (String::from_utf8(out).unwrap(), String::from_utf8(expected).unwrap())
    }

    #[test]
    fn requests_and_replies_are_those_of_the_protocols() {
        let (set, stored) = exchange(Protocol::Memcached, true);
        assert_eq!(set, "set 0123456789abcdef 0 0 18\r\n0123456789abcdef01\r\n");
        assert_eq!(stored, "STORED\r\n");
        let (get, found) = exchange(Protocol::Memcached, false);
        assert_eq!(get, "get 0123456789abcdef\r\n");
        assert_eq!(found, "VALUE 0123456789abcdef 0 18\r\n0123456789abcdef01\r\nEND\r\n");
        let (set, stored) = exchange(Protocol::Redis, true);
        let value = "$18\r\n0123456789abcdef01\r\n";
        assert_eq!(set, format!("*3\r\n$3\r\nSET\r\n$16\r\n0123456789abcdef\r\n{value}"));
        assert_eq!(stored, "+OK\r\n");
        let (get, found) = exchange(Protocol::Redis, false);
        assert_eq!(get, "*2\r\n$3\r\nGET\r\n$16\r\n0123456789abcdef\r\n");
        assert_eq!(found, value);
    }
}
