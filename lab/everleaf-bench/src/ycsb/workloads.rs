//! YCSB's core workloads: their operations, distributions and records.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::BenchError;
use crate::key::{String16, UserKey};

/// A core workload of YCSB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Half reads, half updates.
    A,
    /// 95 percent reads, 5 percent updates.
    B,
    /// Reads.
    C,
    /// 95 percent reads, 5 percent inserts; the latest records are the most wanted.
    D,
    /// 95 percent scans of 1 to 100 records, 5 percent inserts.
    E,
    /// Half reads, half updates of what was read before.
    F,
}

/// Something that is done to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Read all of it.
    Read,
    /// Change it.
    Update,
    /// Add one.
    Insert,
    /// Read up to so many records from it on.
    Scan,
    /// Read it, and change it.
    ReadModifyWrite,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] =
        [Kind::Read, Kind::Update, Kind::Insert, Kind::Scan, Kind::ReadModifyWrite];

    /// The name in tables; in JSON it has `_` between words.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Update => "update",
            Kind::Insert => "insert",
            Kind::Scan => "scan",
            Kind::ReadModifyWrite => "read-modify-write",
        }
    }
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<K> {
    pub key: K,
    pub kind: Kind,
    /// Records that a scan reads.
    pub records: u8,
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 6] =
        [Workload::A, Workload::B, Workload::C, Workload::D, Workload::E, Workload::F];

    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        ["a", "b", "c", "d", "e", "f"][self as usize]
    }

    /// Operations of which kinds it has, and how many in a hundred.
    pub const fn mix(self) -> [(Kind, u64); 2] {
        match self {
            Workload::A => [(Kind::Read, 50), (Kind::Update, 50)],
            Workload::B => [(Kind::Read, 95), (Kind::Update, 5)],
            Workload::C => [(Kind::Read, 100), (Kind::Update, 0)],
            Workload::D => [(Kind::Read, 95), (Kind::Insert, 5)],
            Workload::E => [(Kind::Scan, 95), (Kind::Insert, 5)],
            Workload::F => [(Kind::Read, 50), (Kind::ReadModifyWrite, 50)],
        }
    }

    /// The distribution that YCSB gives it.
    pub const fn distribution(self) -> Distribution {
        if matches!(self, Workload::D) { Distribution::Latest } else { Distribution::Zipfian }
    }

    /// How many of `operations` are of the second kind of its mix; the others are of the first.
    pub const fn second_kind(self, operations: u64) -> u64 {
        (operations as u128 * self.mix()[1].1 as u128 / 100) as u64
    }

    /// How many of `operations` insert.
    pub const fn inserts(self, operations: u64) -> u64 {
        if matches!(self.mix()[1].0, Kind::Insert) { self.second_kind(operations) } else { 0 }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Workload {
    type Err = BenchError;

    fn from_str(name: &str) -> Result<Self, BenchError> {
        let known = Self::ALL.into_iter().find(|workload| workload.name() == name);
        known.ok_or_else(|| BenchError::Unknown {
            what: "workload",
            name: name.into(),
            choices: "a, b, c, d, e, f".into(),
        })
    }
}

/// Which records are wanted how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// By Zipf's law with exponent 0.99; which records are the wanted ones is decided by the seed.
    Zipfian,
    /// By the same law, the record that was inserted last the most.
    Latest,
    /// Around the middle of all records in the order of their keys, with this standard deviation as
    /// a part of all records.
    Normal {
        /// 0.1 is a tenth of all records.
        deviation: f64,
    },
}

impl Distribution {
    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipfian => "zipfian",
            Distribution::Latest => "latest",
            Distribution::Normal { .. } => "normal",
        }
    }

    /// By its name; `deviation` is used by `normal` alone.
    ///
    /// # Errors
    /// [`BenchError::Unknown`], or a deviation that is none.
    pub fn named(name: &str, deviation: f64) -> Result<Self, BenchError> {
        match name {
            "uniform" => Ok(Self::Uniform),
            "zipfian" => Ok(Self::Zipfian),
            "latest" => Ok(Self::Latest),
            "normal" if deviation > 0.0 && deviation <= 10.0 => Ok(Self::Normal { deviation }),
            "normal" => Err(BenchError::Deviation { deviation }),
            _ => {
                let choices = "uniform, zipfian, latest, normal".into();
                Err(BenchError::Unknown { what: "distribution", name: name.into(), choices })
            }
        }
    }
}

/// The shape of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Ten fields of 100 bytes under a key of 24 bytes, as YCSB has them. An update reads the
    /// record, changes one field and writes it back.
    Fields,
    /// A `u64` key and so many bytes.
    U64(u32),
    /// A key of 16 bytes and so many bytes.
    String16(u32),
}

impl Record {
    /// Bytes of the value.
    pub const fn value_bytes(self) -> u32 {
        match self {
            Record::Fields => 1000,
            Record::U64(bytes) | Record::String16(bytes) => bytes,
        }
    }

    /// Bytes of an operation that was drawn.
    pub(super) const fn operation_bytes(self) -> u64 {
        let bytes = match self {
            Record::Fields => size_of::<Operation<UserKey>>(),
            Record::U64(_) => size_of::<Operation<u64>>(),
            Record::String16(_) => size_of::<Operation<String16>>(),
        };
        bytes as u64
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Record::Fields => f.pad("fields"),
            Record::U64(bytes) => f.pad(&format!("8/{bytes}")),
            Record::String16(bytes) => f.pad(&format!("16/{bytes}")),
        }
    }
}

impl FromStr for Record {
    type Err = BenchError;

    fn from_str(name: &str) -> Result<Self, BenchError> {
        let known = match name.split_once('/') {
            None if name == "fields" => Some(Record::Fields),
            Some(("8", bytes)) => bytes.parse().ok().map(Record::U64),
            Some(("16", bytes)) => bytes.parse().ok().map(Record::String16),
            _ => None,
        };
        known.ok_or_else(|| BenchError::Unknown {
            what: "record",
            name: name.into(),
            choices: "fields, 8/B, 16/B (bytes of the key and of the value)".into(),
        })
    }
}
