//! Which figures there are.

use super::axis::{Axis, DRAM_NS, Measure};
use super::entry::{Entry, SMALLER, SWEEP};
use super::sweep::Sweep;
use super::ycsb::{OfYcsb, Shown};
use super::{callgrind, claims, clfb, clfb_encodings, clfb_writes, database, nvtree, scaling};
use super::{served, single, sizes};
use crate::ycsb::{Distribution, Record, Workload};
use crate::{BenchError, BenchKeyType, Flush, Phase};

fn entries() -> impl Iterator<Item = &'static Entry> {
    OF_THE_FPTREE.iter().chain(nvtree::ENTRIES).chain(OTHERS)
}

/// The names of all figures, in the order of the papers.
pub fn figure_names() -> Vec<&'static str> {
    entries().map(|entry| entry.name).collect()
}

/// Names and titles of all figures.
pub fn figure_list() -> Vec<(&'static str, &'static str)> {
    entries().map(|entry| (entry.name, entry.title)).collect()
}

/// The figure of a name.
pub fn find(name: &str) -> Result<&'static Entry, BenchError> {
    let known = entries().find(|entry| entry.name == name);
    known.ok_or_else(|| BenchError::Unknown {
        what: "figure",
        name: name.into(),
        choices: figure_names().join(", "),
    })
}

const BOTH_KEYS: &[BenchKeyType] = &[BenchKeyType::U64, BenchKeyType::String16];
const INSERT_FIND: &[Phase] = &[Phase::Insert, Phase::Find];
const BOTH_DISTRIBUTIONS: &[Distribution] = &[Distribution::Uniform, Distribution::Zipfian];

const OF_FPTREE: &str = "Oukid et al., FPTree, SIGMOD 2016";
const OF_CLFBTREE: &str = "Kim et al., clfB-tree, ACM TOS 2018";
const OF_MASSTREE: &str = "Cohen et al., In-Cache-Line Logging, ASPLOS 2019";
const OF_CIRCTREE: &str = "Wang et al., Circ-Tree, 2020";

const EMULATED: &str = "latencies are busy waits after flushes and after reads that miss a \
    modelled cache of 16 MiB; nothing overlaps with them";
const IN_DRAM: &str =
    "stx, the paper's transient tree, and btreemap are in DRAM, whatever the latency";
const REBUILT: &str = "a full rebuild of stx inserts all keys in random order; from sorted entries \
    it is made level by level, which the paper does not do";

/// Operations of trees that threads share.
const SHARED: Sweep = Sweep {
    engines: &["fptree-c", "nvtree-c"],
    phases: &[Phase::Find, Phase::Insert, Phase::Update, Phase::Mixed, Phase::Delete],
    ..SWEEP
};
const BY_THREADS: Sweep = Sweep {
    axis: Axis::ThreadsUpTo(64),
    key_types: BOTH_KEYS,
    shown: &[
        (Phase::Find, Measure::Throughput),
        (Phase::Find, Measure::Speedup),
        (Phase::Insert, Measure::Throughput),
        (Phase::Insert, Measure::Speedup),
        (Phase::Update, Measure::Speedup),
        (Phase::Mixed, Measure::Speedup),
        (Phase::Delete, Measure::Speedup),
    ],
    ..SHARED
};
/// Sizes of values of Figure 14.
const BY_VALUE: Axis = Axis::ValueBytes(&[8, 16, 32, 48, 64, 80, 96, 112]);

/// Each operation timed, and what the latency costs it by count.
const TIMED_AND_MODELLED: &[(Phase, Measure)] = &[
    (Phase::Find, Measure::MeanNs),
    (Phase::Find, Measure::Modelled),
    (Phase::Insert, Measure::MeanNs),
    (Phase::Insert, Measure::Modelled),
    (Phase::Update, Measure::MeanNs),
    (Phase::Update, Measure::Modelled),
    (Phase::Delete, Measure::MeanNs),
    (Phase::Delete, Measure::Modelled),
];

const CIRC_ENGINES: &[&str] =
    &["nvtree", "fptree", "fastfair", "circtree-ls", "circtree", "volatile-std", "volatile-circ"];
/// Added after each clflushopt in that paper (section 6.1), which leaves the latency of reads as it
/// is.
const CIRC_FLUSH_NS: u64 = 300;
const CIRC: Sweep = Sweep {
    engines: CIRC_ENGINES,
    axis: Axis::NodeBytes(&[512, 1024, 2048, 4096]),
    phases: INSERT_FIND,
    shown: &[(Phase::Insert, Measure::GeomeanNs), (Phase::Find, Measure::GeomeanNs)],
    warmed: false,
    flush: Flush::ClflushOpt,
    added: [0, CIRC_FLUSH_NS],
    ..SWEEP
};

const CLFB_ENGINES: &[&str] = &[
    "clftree-encoded",
    "clftree-append",
    "clftree-inplace",
    "clftree-shadow",
    "wbtree-slot",
    "cdds",
    "fptree",
    "ptree",
];
const CLFB: Sweep = Sweep {
    engines: CLFB_ENGINES,
    axis: Axis::NodeBytes(&[64, 128, 256, 512, 1024, 2048, 4096]),
    phases: INSERT_FIND,
    shown: &[
        (Phase::Insert, Measure::Flushes),
        (Phase::Insert, Measure::MeanNs),
        (Phase::Find, Measure::MeanNs),
    ],
    warmed: false,
    flush: Flush::Clflush,
    key_bits: clfb::KEY_BITS,
    ..SWEEP
};
const CLFB_DEVIATIONS: &[u64] =
    &[1_000_000, 1_000_000_000, 1_000_000_000_000, 1_000_000_000_000_000];
/// The latency of reads on the paper's board.
const CLFB_READ_NS: u64 = 750;
const CLFB_BOARD: &str = "leaves of 512 bytes, as in the paper, whose board has lines of 32 bytes \
    and words of 4";
const BREAKDOWN: &str = "flushes are what flushes and fences add; a find is taken as the search of \
    every operation";
const CLFB_WBTREE: &str = "nodes of wbtree-slot have 7 entries at most, whatever the size of a \
    leaf: its slot array is one word";
const CLFB_ORDER: &str = "the clfB-trees flush as much as in the paper (--paper-order); keys have \
    31 bits";
/// Operations by latency, of the tree that the paper has on its board.
const CLFB_LATENCY: Sweep = Sweep {
    axis: Axis::Latency(&[90, 400, 800, 1200, 1600, 2000]),
    phases: &[Phase::Insert],
    shown: &[(Phase::Insert, Measure::Throughput), (Phase::Insert, Measure::Modelled)],
    node_bytes: &[512],
    ..CLFB
};

/// Leaves of 1 KB. What stands for them in the FPTree's kin is a leaf of 56 entries, which has 1 KB
/// with its head.
const CLFB_LEAF: &[u32] = &[1024, 896];
/// fptree-c is there to compare with until the paper's engines come.
const INCLL_ENGINES: &[&str] = &["masstree-transient", "masstree", "masstree-logging", "fptree-c"];
/// clwb and sfence are executed, and nothing is added, as in that paper.
pub(super) const INCLL: OfYcsb = OfYcsb {
    engines: INCLL_ENGINES,
    workloads: &[Workload::A],
    distributions: BOTH_DISTRIBUTIONS,
    record: Record::U64(8),
    axis: None,
    node_bytes: None,
    flush: Flush::Clwb,
    flush_ns: 0,
    shown: Shown::Throughput,
    claims: claims::none,
};
pub(super) const INCLL_BY_FENCE: OfYcsb =
    OfYcsb { axis: Some(Axis::FenceLatency(&[0, 100, 200, 500, 1000])), ..INCLL };
const INCLL_BY_KEYS: OfYcsb = OfYcsb { axis: Some(Axis::KeysOver(&[1000, 100, 10, 1])), ..INCLL };
const INCLL_BUFFERS: &str = "values of the Masstrees are buffers, as in the paper (--buffers)";
const FENCED: &str = "the delay is a busy wait after each sfence, as in the paper: flushes do not \
    wait, the fence does";
const YCSB_E: &str = "workload E scans 1 to 100 records and inserts 5 percent, as YCSB does; the \
    paper's scans 10 and inserts none";

const CIRC_THREADS: &str =
    "the paper has 1 to 8 threads; here they go up to the processors of this machine";
const CIRC_STORES: &[&str] =
    &["store:nvtree", "store:fastfair", "store:circtree-ls", "store:circtree"];
pub(super) const SESSION_STORE: OfYcsb = OfYcsb {
    engines: CIRC_STORES,
    workloads: &[Workload::A],
    distributions: &[Distribution::Zipfian],
    record: Record::Fields,
    axis: Some(Axis::ThreadsUpTo(8)),
    node_bytes: Some(2048),
    flush: Flush::ClflushOpt,
    flush_ns: CIRC_FLUSH_NS,
    shown: Shown::P99,
    claims: claims::circ_10,
};

const SESSION_NOTES: &[&str] = &[
    "300 ns are added to each clflushopt, as in the paper",
    "the numbers that the paper prints are those of loading, with two threads and with eight",
    CIRC_THREADS,
];

const OF_THE_FPTREE: &[Entry] = &[
    Entry {
        name: "fptree-4",
        title: "keys compared in a leaf by a find",
        source: OF_FPTREE,
        notes: &[
            "leaves filled by random keys are about 75 percent full where a find meets them, so \
            what is counted lies below the formulas for full ones; but for the paper's of the \
            FPTree, which lies below the exact one",
        ],
        measure: single::fptree_4,
    },
    Entry {
        name: "fptree-7",
        title: "operations and recovery by latency of persistent memory",
        source: OF_FPTREE,
        notes: &[EMULATED, SMALLER, IN_DRAM, REBUILT],
        measure: |options, drawing| {
            let engines = &["fptree", "ptree", "nvtree", "wbtree-bitmap", "stx", "btreemap"];
            let shown = TIMED_AND_MODELLED;
            Sweep { engines, key_types: BOTH_KEYS, shown, claims: claims::fptree_7, ..SWEEP }
                .measure(options, drawing)?;
            single::recovery(options, drawing)
        },
    },
    Entry {
        name: "fptree-8",
        title: "memory of the trees",
        source: OF_FPTREE,
        notes: &[
            "inner nodes of 4096 as in the paper where they are offered; gigabytes are taken as \
            10^9 bytes",
        ],
        measure: single::fptree_8,
    },
    Entry {
        name: "fptree-9",
        title: "threads on one socket",
        source: OF_FPTREE,
        notes: &[
            "the paper's numbers are those of 22 threads on 22 cores, 83 to 84 percent of ideal; \
            threads go up to the processors of this machine, whose speedup stands beside them",
            "nvtree-c has one writer at a time of byte-string keys",
        ],
        measure: |options, drawing| {
            Sweep { claims: claims::fptree_9, ..BY_THREADS }.measure(options, drawing)
        },
    },
    Entry {
        name: "fptree-10",
        title: "more threads than there are processors, by the cost model",
        source: OF_FPTREE,
        notes: &[
            "the model has a core for each thread, and one lock that changes of the inner nodes \
            take, each as long as the operation that one in a thousand exceeds; two hardware \
            threads of a core do at most twice the work of one, and what one computes while the \
            other waits: misses and flushes, counted, at 85 ns",
            "two threads to one, by the model and as measured, are in the panels of the figure",
        ],
        measure: scaling::fptree_10,
    },
    Entry {
        name: "fptree-11",
        title: "threads on one socket, with a latency of 145 ns in place of 85",
        source: OF_FPTREE,
        notes: &[
            EMULATED,
            "the paper has the memory of another socket; it prints no numbers: the trees scale as \
            in its Figure 9",
        ],
        measure: |options, drawing| {
            Sweep { added: [60, 60], ..BY_THREADS }.measure(options, drawing)
        },
    },
    Entry {
        name: "fptree-12",
        title: "queries and restart of a columnar database with dictionaries",
        source: OF_FPTREE,
        notes: &[
            "TATP's read-only queries by one client, on the database that was restarted, by one \
            thread; the paper has 8 clients, 50 million subscribers, and 8 cores that restart",
            "a subscriber has about 20 entries in dictionaries, so that --keys are those of all; \
            they share one tree, by the number of their column",
            "columns, and values by code, are in persistent memory whatever the tree; to restart \
            with stx is to make it again of these, with the others it is to open their pool",
            EMULATED,
        ],
        measure: database::fptree_12,
    },
    Entry {
        name: "fptree-13",
        title: "requests by memcached's protocol, engines beside memcached",
        source: OF_FPTREE,
        notes: &[
            "50 connections on the loopback, a request at a time each, values of 32 bytes; the \
            paper has mc-benchmark on another machine, and its network is the bottleneck",
            "the client takes processors too: compare the processor time of the servers",
            "SETs replace keys that are there; nothing is added to the latency of memory",
            "engines are behind our server, single-threaded ones by a lock; in the paper they are \
            in place of memcached's hash table",
        ],
        measure: served::fptree_13,
    },
    Entry {
        name: "fptree-14",
        title: "operations by size of the value, of one thread at 360 ns and of many",
        source: OF_FPTREE,
        notes: &[
            EMULATED,
            SMALLER,
            "the paper has 44 threads, here there are as many as processors, without an added \
            latency",
        ],
        measure: |options, drawing| {
            Sweep {
                engines: &["fptree", "ptree", "nvtree", "wbtree-bitmap"],
                axis: BY_VALUE,
                added: [270, 270],
                ..SWEEP
            }
            .measure(options, drawing)?;
            let shown = &[
                (Phase::Find, Measure::Throughput),
                (Phase::Insert, Measure::Throughput),
                (Phase::Update, Measure::Throughput),
                (Phase::Mixed, Measure::Throughput),
                (Phase::Delete, Measure::Throughput),
            ];
            Sweep { axis: BY_VALUE, threads: 44, shown, ..SHARED }.measure(options, drawing)
        },
    },
    Entry {
        name: "fptree-table-1",
        title: "sizes of nodes with which each tree is fastest",
        source: OF_FPTREE,
        notes: &[
            "one size is measured after the other, the other one being the paper's, or the \
            engine's own where that is not offered",
            "fastest is the least mean time of a find, an insertion, an update and a deletion; the \
            paper does not say what it took",
            SMALLER,
        ],
        measure: sizes::fptree_table_1,
    },
];

/// Those of the other papers.
const OTHERS: &[Entry] = &[
    Entry {
        name: "clfb-5",
        title: "bytes of differences in inner nodes by number of keys, leaves of 512 bytes",
        source: OF_CLFBTREE,
        notes: &[
            "keys have 31 bits; children are differences of bytes in the paper's order, and of \
            lines otherwise",
            "how far apart the children of a node are is decided by where nodes are allocated: the \
            paper's come from the heap Heapo, here each is the free one that is nearest",
            "in the buddy heap a model of the tree has the same keys",
            "a line without an encoding has four children",
        ],
        measure: clfb_encodings::by_number_of_keys,
    },
    Entry {
        name: "clfb-5c",
        title: "children of an inner node and memory of a key, by standard deviation of the keys",
        source: OF_CLFBTREE,
        notes: &[
            "the paper shows entries to slots without encoding, 200 to 500 percent, and prints no \
            deviations; leaves of 512 bytes and children in bytes, as there",
            "differences of keys are what the clfB-tree encodes; trees without such an encoding \
            take the same memory at every deviation",
        ],
        measure: |options, drawing| {
            Sweep {
                axis: Axis::KeyDeviation(CLFB_DEVIATIONS),
                phases: &[Phase::Insert],
                shown: &[(Phase::Insert, Measure::PmBytes)],
                key_bits: u64::BITS,
                ..CLFB
            }
            .measure(options, drawing)?;
            clfb_encodings::by_deviation(CLFB_DEVIATIONS, options, drawing)
        },
    },
    Entry {
        name: "clfb-writes",
        title: "ways to write a line durably",
        source: OF_CLFBTREE,
        notes: &[
            "256 lines in turns, as many writes as there are keys, each durable before the next; \
            8-byte stores alone may leave a torn line",
        ],
        measure: clfb_writes::ways,
    },
    Entry {
        name: "clfb-tables",
        title: "flushes of all insertions by what they are for and by size of a leaf",
        source: OF_CLFBTREE,
        notes: &[
            CLFB_ORDER,
            "exact counters of the tree, without the pool's; the paper's are of a million \
            insertions, and are multiplied where there are more or fewer",
            "the smaller number of inner nodes in table 2 is derived in docs/trees/clfbtree.md: \
            the paper's line has a byte less there",
            "of short-circuit shadowing (section 4.1) the paper has two flushes for a line, and no \
            count of the cascades",
        ],
        measure: clfb::tables,
    },
    Entry {
        name: "clfb-6",
        title: "flushes and times by size of a leaf",
        source: OF_CLFBTREE,
        notes: &[
            CLFB_ORDER,
            CLFB_WBTREE,
            "the paper's flushes are sums of its Tables 1 and 2 for each of a million insertions; \
            here the pool's are among them",
        ],
        measure: |options, drawing| {
            Sweep { claims: claims::clfb_6, ..CLFB }.measure(options, drawing)
        },
    },
    Entry {
        name: "clfb-7",
        title: "where the time of an operation goes",
        source: OF_CLFBTREE,
        notes: &[CLFB_ORDER, CLFB_WBTREE, BREAKDOWN],
        measure: |options, drawing| {
            clfb::Breakdown {
                engines: &[
                    "clftree-append",
                    "clftree-inplace",
                    "clftree-encoded",
                    "wbtree-slot",
                    "fptree",
                    "ptree",
                    "fptree-c",
                ],
                node_bytes: CLFB_LEAF,
                added: [0, 0],
                claims: &[("clftree-append", 31.0), ("clftree-inplace", 33.0)],
            }
            .measure(options, drawing)
        },
    },
    Entry {
        name: "clfb-8",
        title: "flushes and times by number of keys",
        source: OF_CLFBTREE,
        notes: &[
            CLFB_ORDER,
            CLFB_WBTREE,
            "the paper's time is that of the slot-only wBTree beyond that of the clfB-tree, over \
            all its numbers of keys",
        ],
        measure: |options, drawing| {
            let axis = Axis::KeysOver(&[100, 10, 1]);
            Sweep { axis, node_bytes: CLFB_LEAF, claims: claims::clfb_8, ..CLFB }
                .measure(options, drawing)
        },
    },
    Entry {
        name: "clfb-9a",
        title: "insertions by latency of writes, that of reads being 750 ns",
        source: OF_CLFBTREE,
        notes: &[CLFB_ORDER, CLFB_WBTREE, EMULATED, CLFB_BOARD],
        measure: |options, drawing| {
            let axis = Axis::WriteLatency(&[400, 700, 1000, 1300, 1600, 1900]);
            Sweep { axis, added: [CLFB_READ_NS - DRAM_NS, 0], ..CLFB_LATENCY }
                .measure(options, drawing)
        },
    },
    Entry {
        name: "clfb-9",
        title: "insertions by latency of persistent memory",
        source: OF_CLFBTREE,
        notes: &[
            CLFB_ORDER,
            CLFB_WBTREE,
            EMULATED,
            CLFB_BOARD,
            "the paper's board has 400 to 1900 ns",
        ],
        measure: |options, drawing| CLFB_LATENCY.measure(options, drawing),
    },
    Entry {
        name: "clfb-10",
        title: "where the time of an operation goes on a slow medium",
        source: OF_CLFBTREE,
        notes: &[
            CLFB_ORDER,
            CLFB_WBTREE,
            BREAKDOWN,
            EMULATED,
            CLFB_BOARD,
            "the paper says no latencies: reads take 750 ns here and writes 400, the least of its \
            board",
        ],
        measure: |options, drawing| {
            clfb::Breakdown {
                engines: &["clftree-inplace", "wbtree-slot", "cdds"],
                node_bytes: &[512],
                added: [CLFB_READ_NS - DRAM_NS, 400 - DRAM_NS],
                claims: &[],
            }
            .measure(options, drawing)
        },
    },
    Entry {
        name: "incll-2",
        title: "throughput of YCSB's workloads",
        source: OF_MASSTREE,
        notes: &[
            SMALLER,
            INCLL_BUFFERS,
            YCSB_E,
            "the paper loses 5.9 to 15.4 percent of the transient tree's throughput in all \
            workloads",
        ],
        measure: |options, drawing| {
            let workloads = &[Workload::A, Workload::B, Workload::C, Workload::E];
            OfYcsb { workloads, claims: claims::incll_2, ..INCLL }.measure(options, drawing)
        },
    },
    Entry {
        name: "incll-counters",
        title: "instructions and references of caches, of the durable tree to its transient twin",
        source: OF_MASSTREE,
        notes: &[
            "by valgrind's callgrind, of lookups, updates and scans alone, by one thread; it \
            simulates first caches of 32 KB, as the paper's processor has, and a last one of 16 \
            MiB, and no cache between them",
            "an epoch has the writes of 80,000 operations; what ends it is not counted, as the \
            kernel's wbinvd is not in the paper",
            INCLL_BUFFERS,
        ],
        measure: callgrind::incll_counters,
    },
    Entry {
        name: "incll-3",
        title: "throughput of workload A by what is added to a fence",
        source: OF_MASSTREE,
        notes: &[INCLL_BUFFERS, FENCED],
        measure: |options, drawing| {
            OfYcsb { claims: claims::incll_3, ..INCLL_BY_FENCE }.measure(options, drawing)
        },
    },
    Entry {
        name: "incll-4",
        title: "throughput of workload A by threads",
        source: OF_MASSTREE,
        notes: &[INCLL_BUFFERS, "threads go up to the processors of this machine"],
        measure: |options, drawing| {
            OfYcsb { axis: Some(Axis::ThreadsUpTo(64)), claims: claims::incll_4, ..INCLL }
                .measure(options, drawing)
        },
    },
    Entry {
        name: "incll-5",
        title: "throughput of workload A by number of keys",
        source: OF_MASSTREE,
        notes: &[INCLL_BUFFERS, "about 50 percent, says the paper of zipfian"],
        measure: |options, drawing| {
            OfYcsb { claims: claims::incll_5, ..INCLL_BY_KEYS }.measure(options, drawing)
        },
    },
    Entry {
        name: "incll-6",
        title: "what durability costs in workload A by number of keys",
        source: OF_MASSTREE,
        notes: &[
            INCLL_BUFFERS,
            "at most 27 percent of the transient tree's throughput, says the paper, in trees of 1 \
            to 3 million keys",
            "throughput of trees that are here by number of keys is incll-5",
        ],
        measure: |options, drawing| {
            OfYcsb { engines: &["masstree-transient", "masstree"], ..INCLL_BY_KEYS }
                .measure(options, drawing)
        },
    },
    Entry {
        name: "incll-7",
        title: "nodes logged by number of keys",
        source: OF_MASSTREE,
        notes: &[
            "only a tree with epochs logs nodes, so no other tree is shown",
            "an epoch has exactly 400000 updates, of uniform keys, after an epoch that loads them: \
            updates alone stand for workload A",
            "the paper draws curves and prints no number of them; those beside ours are what as \
            many updates come to in a tree of its layout",
            INCLL_BUFFERS,
            "give --keys 10000000 for all numbers of keys",
        ],
        measure: |options, drawing| {
            Sweep {
                engines: &["masstree", "masstree-logging"],
                axis: Axis::KeysUpTo(&claims::INCLL_7_KEYS),
                phases: &[Phase::Update],
                shown: &[(Phase::Update, Measure::NodesLogged)],
                operations: Some(400_000),
                claims: claims::incll_7,
                ..SWEEP
            }
            .measure(options, drawing)
        },
    },
    Entry {
        name: "incll-8",
        title: "throughput of workload A by what is added to a fence, with and without logs in \
            cache lines",
        source: OF_MASSTREE,
        notes: &[
            INCLL_BUFFERS,
            FENCED,
            "throughput of trees that are here by what is added to a fence is incll-3",
        ],
        measure: |options, drawing| {
            let engines = &["masstree", "masstree-logging"];
            OfYcsb { engines, claims: claims::incll_8, ..INCLL_BY_FENCE }.measure(options, drawing)
        },
    },
    Entry {
        name: "circ-7",
        title: "insertions and searches by size of a node",
        source: OF_CIRCTREE,
        notes: &[
            "means are geometric, as the paper's",
            "300 ns are added to each flush, as in the paper",
            "the 99th percentile stands for an insertion with a split, of which there is one in 22 \
            to 28 at 512 bytes",
        ],
        measure: |options, drawing| {
            Sweep {
                shown: &[
                    (Phase::Insert, Measure::GeomeanNs),
                    (Phase::Insert, Measure::P99Ns),
                    (Phase::Insert, Measure::Flushes),
                    (Phase::Insert, Measure::BytesFlushed),
                    (Phase::Find, Measure::GeomeanNs),
                ],
                claims: claims::circ_7,
                ..CIRC
            }
            .measure(options, drawing)
        },
    },
    Entry {
        name: "circ-inner",
        title: "inner nodes of keys that come in ascending order, by size of a node",
        source: OF_CIRCTREE,
        notes: &["the paper's are arithmetic about full nodes; here a tree is made"],
        measure: single::ascending_inner_nodes,
    },
    Entry {
        name: "circ-8",
        title: "insertions by number of keys, and by what is added to a flush",
        source: OF_CIRCTREE,
        notes: &[SMALLER, "nodes of 2048 bytes; engines that do not have them are left out"],
        measure: |options, drawing| {
            let by_keys =
                Sweep { axis: Axis::KeysOver(&[100, 10, 1]), node_bytes: &[2048], ..CIRC };
            Sweep { claims: claims::circ_8a, ..by_keys }.measure(options, drawing)?;
            let axis = Axis::FlushLatency(&[0, 200, 300, 600]);
            let phases = &[Phase::Insert];
            let shown = &[(Phase::Insert, Measure::GeomeanNs)];
            Sweep { axis, phases, shown, claims: claims::circ_8b, node_bytes: &[2048], ..CIRC }
                .measure(options, drawing)
        },
    },
    Entry {
        name: "circ-9",
        title: "insertions and searches by threads",
        source: OF_CIRCTREE,
        notes: &[
            "nodes of 2048 bytes; engines that do not have them are left out",
            CIRC_THREADS,
            "the paper prints the gap between the searches of FAST+FAIR and Circ-Tree without \
            saying which of them takes less; it is read as by how much less Circ-Tree takes",
        ],
        measure: |options, drawing| {
            let axis = Axis::ThreadsUpTo(8);
            Sweep { axis, node_bytes: &[2048], claims: claims::circ_9, ..CIRC }
                .measure(options, drawing)
        },
    },
    Entry {
        name: "circ-10",
        title: "99th percentiles of stores in YCSB's SessionStore, nodes of 2048 bytes",
        source: OF_CIRCTREE,
        notes: SESSION_NOTES,
        measure: |options, drawing| SESSION_STORE.measure(options, drawing),
    },
    Entry {
        name: "circ-11",
        title: "99th percentiles of stores in YCSB's SessionStore, nodes of 4096 bytes",
        source: OF_CIRCTREE,
        notes: SESSION_NOTES,
        measure: |options, drawing| {
            OfYcsb { node_bytes: Some(4096), claims: claims::circ_11, ..SESSION_STORE }
                .measure(options, drawing)
        },
    },
    Entry {
        name: "circ-table-1",
        title: "recovery after a crash by number of keys and size of a node",
        source: OF_CIRCTREE,
        notes: &[
            "the paper makes nodes inconsistent by hand and repairs all of them; here a tree is \
            left as a killed process leaves it, with few nodes or none to be repaired: opening \
            reads one word of every node of a Circ-Tree, and all keys of FAST+FAIR's, to count \
            keys and to find them",
        ],
        measure: single::recovery_by_node_bytes,
    },
];
