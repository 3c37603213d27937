//! What is asked for.

use super::workloads::{Distribution, Kind, Record, Workload};
use crate::plan::{MAX_REPLACED, MAX_VALUE_BYTES, MOST, Plan, within};
use crate::{BenchError, BenchKeyType, MicroOptions, Phase};

/// What `bench ycsb` measures.
#[derive(Clone, Debug, PartialEq)]
pub struct YcsbOptions {
    /// Names of engines; the others are compared with the first.
    pub engines: Vec<String>,
    /// The workload.
    pub workload: Workload,
    /// Which records are wanted; none is the workload's own distribution.
    pub distribution: Option<Distribution>,
    /// The shape of a record.
    pub record: Record,
    /// Operations.
    pub operations: u64,
    /// How often each engine is measured.
    pub rounds: u32,
    /// Records that are loaded (`keys`), threads, instructions and latencies, seed and place.
    pub micro: MicroOptions,
}

impl YcsbOptions {
    /// The distribution that is used.
    pub fn distribution(&self) -> Distribution {
        self.distribution.unwrap_or(self.workload.distribution())
    }

    /// Operations of all runs, loading included.
    pub(crate) fn all_operations(&self) -> u64 {
        (self.micro.keys + self.operations) * self.engines.len() as u64 * u64::from(self.rounds + 1)
    }

    /// Of one engine and round. Finds everything that is wrong before any work is done.
    pub(crate) fn plan(&self, engine: &str, round: u32) -> Result<Plan, BenchError> {
        within("keys", self.micro.keys, 1, MOST)?;
        within("operations", self.operations, 1, MOST)?;
        if !(8..=MAX_VALUE_BYTES).contains(&u64::from(self.record.value_bytes())) {
            return Err(BenchError::RecordBytes { record: self.record, most: MAX_VALUE_BYTES });
        }
        let key_type = if matches!(self.record, Record::U64(_)) {
            BenchKeyType::U64
        } else {
            BenchKeyType::String16
        };
        let inserts = self.workload.inserts(self.operations);
        let micro = MicroOptions {
            engine: engine.to_owned(),
            warm: self.micro.keys,
            keys: inserts.max(1),
            phases: vec![Phase::Insert],
            key_type,
            value_bytes: Some(self.record.value_bytes()),
            key_bits: 64,
            seed: self.micro.seed.wrapping_add(round.into()),
            ..self.micro.clone()
        };
        let [_, (second, _)] = self.workload.mix();
        let replaced = match second {
            Kind::Update | Kind::ReadModifyWrite => self.workload.second_kind(self.operations),
            Kind::Read | Kind::Insert | Kind::Scan => 0,
        };
        let mut plan = Plan::new(&micro).map_err(|error| match error {
            BenchError::ValueBytes { engine } => {
                BenchError::RecordWords { engine, record: self.record }
            }
            other => other,
        })?;
        let sorted_places = if matches!(self.distribution(), Distribution::Normal { .. }) {
            8 * self.micro.keys
        } else {
            0
        };
        plan.replaced = replaced.min(micro.epoch_ops.unwrap_or(MAX_REPLACED));
        plan.drawn_bytes = self.operations * self.record.operation_bytes() + sorted_places;
        Ok(plan)
    }
}
