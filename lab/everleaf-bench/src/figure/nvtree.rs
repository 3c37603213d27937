//! The figures of NV-Tree's slides.

use super::axis::{Axis, Kind, Measure};
use super::entry::{Entry, SMALLER, SWEEP};
use super::sweep::Sweep;
use super::ycsb::{OfYcsb, Shown};
use super::{claims, nvtree_flushes, nvtree_rebuild, served};
use crate::ycsb::{Distribution, Record, Workload};
use crate::{Flush, Phase};

const OF_NVTREE: &str = "Yang et al., NV-Tree, FAST 2015 (slides)";

const ENGINES: &[&str] = &["nvtree", "lcbtree", "cdds", "fptree"];
/// Every flush is the slides' `clflush`.
const BY_NODE: Sweep = Sweep {
    engines: ENGINES,
    axis: Axis::NodeBytes(&[512, 1024, 2048, 4096]),
    flush: Flush::Clflush,
    warmed: false,
    ..SWEEP
};
const NODE_UNSAID: &str = "the slides print 8 times the LCB+Tree and 12 times the CDDS-Tree, \
    without saying with which node";

/// By the slides' table of media, the upper ends of its ranges, beyond its 15 ns of DRAM.
const KINDS: &[Kind] = &[
    Kind { name: "DRAM", read_ns: 0, write_ns: 0 },
    Kind { name: "STT-MRAM", read_ns: 15, write_ns: 85 },
    Kind { name: "PCM", read_ns: 55, write_ns: 205 },
];
const SHORT: &[(Phase, Measure)] =
    &[(Phase::Insert, Measure::MeanNs), (Phase::Find, Measure::MeanNs)];

const STORES: OfYcsb = OfYcsb {
    engines: &["store:nvtree-c", "store:nvtree", "store"],
    workloads: &[Workload::D],
    distributions: &[Distribution::Latest],
    record: Record::Fields,
    axis: Some(Axis::ThreadsUpTo(8)),
    node_bytes: None,
    flush: Flush::Clwb,
    flush_ns: 0,
    shown: Shown::Throughput,
    claims: claims::none,
};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "nvtree-motivation",
        title: "what consistency costs a B+-tree",
        source: OF_NVTREE,
        notes: &[SMALLER, "volatile-std is the sorted tree that nothing makes consistent"],
        measure: |options, drawing| {
            Sweep {
                engines: &["volatile-std", "lcbtree", "cdds", "nvtree"],
                phases: &[Phase::Insert],
                shown: &[(Phase::Insert, Measure::MeanNs)],
                claims: claims::nvtree_motivation,
                ..BY_NODE
            }
            .measure(options, drawing)
        },
    },
    Entry {
        name: "nvtree-insert",
        title: "insertions by size of a node, and by number of keys",
        source: OF_NVTREE,
        notes: &[SMALLER, NODE_UNSAID],
        measure: |options, drawing| {
            let by_node = Sweep {
                phases: &[Phase::Insert],
                shown: &[(Phase::Insert, Measure::MeanNs), (Phase::Insert, Measure::Flushes)],
                ..BY_NODE
            };
            let shown = &[(Phase::Insert, Measure::MeanNs)];
            let by_keys = Sweep {
                axis: Axis::KeysOver(&[100, 10, 1]),
                shown,
                claims: claims::nvtree_insert,
                ..by_node
            };
            by_node.measure(options, drawing)?;
            by_keys.measure(options, drawing)
        },
    },
    Entry {
        name: "nvtree-flushes",
        title: "lines flushed by an insertion, by size of a node and by what they are for",
        source: OF_NVTREE,
        notes: &[
            "exact counters of the trees, without the pool's; elements have 24 bytes, in cdds 32: \
            they have versions",
            "the slides print 82 to 96 percent fewer, without saying than which tree and with \
            which node, or what a record of the log has; and that sorting a leaf causes up to more \
            than 90 percent of a tree's flushes",
        ],
        measure: nvtree_flushes::measure,
    },
    Entry {
        name: "nvtree-mixed",
        title: "mixtures of insertions and searches",
        source: OF_NVTREE,
        notes: &[SMALLER],
        measure: |options, drawing| {
            Sweep {
                engines: &["nvtree", "lcbtree", "cdds", "fptree", "fptree-c"],
                axis: Axis::Inserts(&[90, 70, 50, 30, 10]),
                phases: &[Phase::Mixed],
                shown: &[(Phase::Mixed, Measure::Throughput)],
                flush: Flush::Clflush,
                claims: claims::nvtree_mixed,
                ..SWEEP
            }
            .measure(options, drawing)
        },
    },
    Entry {
        name: "nvtree-operations",
        title: "updates, deletions and searches by size of a node",
        source: OF_NVTREE,
        notes: &[SMALLER, "the slides do not say with which node updates are 5.6 and 8.5 times"],
        measure: |options, drawing| {
            Sweep {
                phases: &[Phase::Find, Phase::Update, Phase::Delete],
                shown: &[
                    (Phase::Update, Measure::MeanNs),
                    (Phase::Update, Measure::Flushes),
                    (Phase::Delete, Measure::MeanNs),
                    (Phase::Delete, Measure::Flushes),
                    (Phase::Find, Measure::MeanNs),
                ],
                warmed: true,
                claims: claims::nvtree_operations,
                ..BY_NODE
            }
            .measure(options, drawing)
        },
    },
    Entry {
        name: "nvtree-misses",
        title: "lines read and missed by insertions and searches",
        source: OF_NVTREE,
        notes: &[
            SMALLER,
            "lines that an operation reads stand for LOADs, and the modelled cache of 16 MiB for \
            the processor's; both of persistent memory alone: inner nodes in DRAM are not counted",
        ],
        measure: |options, drawing| {
            Sweep {
                phases: &[Phase::Insert, Phase::Find],
                shown: &[
                    (Phase::Insert, Measure::LinesRead),
                    (Phase::Insert, Measure::Misses),
                    (Phase::Find, Measure::LinesRead),
                    (Phase::Find, Measure::Misses),
                ],
                claims: claims::nvtree_misses,
                ..BY_NODE
            }
            .measure(options, drawing)
        },
    },
    Entry {
        name: "nvtree-rebuild",
        title: "rebuilding the inner nodes, by size of a node",
        source: OF_NVTREE,
        notes: &[
            "our tree shares entries among neighbouring parents, and rebuilds all inner nodes only \
            when it has grown by a quarter: here a rebuild is forced after the insertions, and all \
            rebuilds of the tree together are at most five times it",
        ],
        measure: nvtree_rebuild::measure,
    },
    Entry {
        name: "nvtree-media",
        title: "insertions and searches by kind of memory and by instruction",
        source: OF_NVTREE,
        notes: &[
            SMALLER,
            "reads that miss and flushes take what the slides' table says beyond DRAM",
        ],
        measure: |options, drawing| {
            let by_kind = Sweep {
                axis: Axis::Kinds(KINDS),
                phases: &[Phase::Insert, Phase::Find],
                shown: SHORT,
                ..BY_NODE
            };
            by_kind.measure(options, drawing)?;
            let instructions = &[Flush::Clflush, Flush::ClflushOpt, Flush::Clwb];
            Sweep { axis: Axis::Instructions(instructions), ..by_kind }.measure(options, drawing)
        },
    },
    Entry {
        name: "nvtree-stores",
        title: "YCSB's StatusUpdate and SessionStore: stores by threads, and servers beside Redis",
        source: OF_NVTREE,
        notes: &[
            "StatusUpdate reads the latest records and inserts 5 percent (workload D), \
            SessionStore reads and updates by halves (workload A)",
            "by Redis' protocol a record is a string of 1000 bytes under a key of 16, a connection \
            has a request at a time, and the slides do not say with how many clients NV-Store is \
            faster, and than which Redis",
            "redis:no keeps nothing, redis:always syncs a file where the pools are: on tmpfs \
            unless --pool says otherwise, where a reply promises as much as one of ours",
        ],
        measure: |options, drawing| {
            STORES.measure(options, drawing)?;
            OfYcsb { workloads: &[Workload::A], distributions: &[Distribution::Zipfian], ..STORES }
                .measure(options, drawing)?;
            served::nv_store(options, drawing)
        },
    },
];
