//! The list of what the papers show: it is whole, and what it names exists.

use std::collections::BTreeSet;

use everleaf_bench::Subject;
use everleaf_bench::figure::{evidence, figure_names};

/// What the program includes.
const LIST: &str = include_str!("../../data/evidence.json");

/// The numbered tables and figures that have results, and what stands in text or on slides alone:
/// beginnings of places.
const RESULTS: &[(&str, &[&str])] = &[
    (
        "FPTree",
        &[
            "Table 1",
            "Figure 4",
            "Figure 7, 8-byte keys, 90 ns",
            "Figure 7, 8-byte keys, 650 ns",
            "Figure 7, slowdown at 250 ns",
            "Figure 7, slowdown at 650 ns",
            "Figure 7, 16-byte keys, 90 ns",
            "Figure 7, 16-byte keys, 650 ns",
            "Figure 7, to the STXTree",
            "Figure 7, recovery",
            "Figure 8",
            "Figure 9",
            "Figure 10",
            "Figure 11",
            "Figure 12a",
            "Figure 12b",
            "Figure 13",
            "Figure 14b to 14d",
            "Figure 14e to 14f",
            "Section 6.2, find at 650 ns",
        ],
    ),
    (
        "NV-Tree",
        &[
            "Motivation",
            "Insertion by size of a node",
            "Insertion by number of keys",
            "Overview, cache line flushes",
            "Update",
            "Delete",
            "Search",
            "Mixed Workloads",
            "CPU Cache Efficiency, LOADs",
            "CPU Cache Efficiency, L3 misses",
            "Rebuilding",
            "Recovery",
            "End-to-End Performance, StatusUpdate",
            "End-to-End Performance, SessionStore",
            "Additional Materials",
        ],
    ),
    (
        "clfB-tree",
        &[
            "Figure 5a",
            "Figure 5b",
            "Figure 5c",
            "Table 1",
            "Table 2",
            "Figure 6a",
            "Figure 6b",
            "Figure 6c",
            "Figure 7",
            "Figure 8a",
            "Figure 8b, 8c",
            "Figure 9a",
            "Figure 9b",
            "Figure 10",
        ],
    ),
    (
        "InCLL",
        &[
            "Figure 2",
            "Figure 3",
            "Figure 4",
            "Figure 5",
            "Figure 6",
            "Figure 7",
            "Figure 8",
            "Section 6, instructions",
            "Section 6, cache references",
            "Section 6.1",
            "Section 6.2",
            "Section 6.3",
        ],
    ),
    (
        "Circ-Tree",
        &[
            "Figure 7a",
            "Figure 7b",
            "Figure 7c",
            "Figure 7d",
            "Figure 8a",
            "Figure 8b",
            "Figure 9a",
            "Figure 9b",
            "Figure 10",
            "Figure 11",
            "Table 1",
            "Section 6.2, shifts",
            "Section 6.2, inner nodes",
        ],
    ),
];

/// Engines of the papers that are planned, of which a build may have some.
const PLANNED: &[&str] = &[
    "cdds",
    "clftree-append",
    "clftree-encoded",
    "clftree-encoded-shadow",
    "clftree-inplace",
    "clftree-shadow",
    "lcbtree",
    "masstree",
    "masstree-logging",
    "nvtree-c",
    "wbtree-bitmap",
    "wbtree-slot",
];

#[test]
fn every_result_of_every_paper_is_listed_once() {
    let list = evidence(LIST);
    for (paper, places) in RESULTS {
        for place in *places {
            let listed = list.iter().any(|one| one.paper == *paper && one.place.starts_with(place));
            assert!(listed, "{paper}, {place} is not in the list");
        }
    }
    let mut seen = BTreeSet::new();
    for one in &list {
        assert!(RESULTS.iter().any(|(paper, _)| *paper == one.paper), "{}: no paper", one.paper);
        assert!(seen.insert((&one.paper, &one.place)), "twice: {}, {}", one.paper, one.place);
    }
}

#[test]
fn every_result_has_a_command_or_a_reason_and_engines_that_are_known() {
    for one in evidence(LIST) {
        let name = format!("{}, {}", one.paper, one.place);
        assert!(one.command.is_some() || one.reason.is_some(), "{name}: neither");
        for words in [Some(&one.shows), one.published.as_ref(), one.command.as_ref()] {
            assert!(words.is_none_or(|words| !words.trim().is_empty()), "{name}: empty");
        }
        let is_sentence = |reason: &String| reason.ends_with('.') && !reason.contains(". ");
        assert!(one.reason.as_ref().is_none_or(is_sentence), "{name}: {:?}", one.reason);
        if let Some(published) = &one.published {
            let has_number = published.contains(|c: char| c.is_ascii_digit());
            assert!(has_number || published.contains("one") || published.contains("twice"));
        }
        for engine in &one.engines {
            let is_here = engine.parse::<Subject>().is_ok();
            assert!(is_here || PLANNED.contains(&engine.as_str()), "{name}: {engine}");
            assert_eq!(one.missing.contains(engine), !is_here, "{name}: {engine}");
        }
    }
}

#[test]
fn every_figure_is_named_and_every_named_figure_exists() {
    let list = evidence(LIST);
    let named: BTreeSet<&str> = list
        .iter()
        .filter_map(|one| one.command.as_deref()?.strip_prefix("everleaf-lab bench figure "))
        .map(|rest| rest.split(' ').next().unwrap_or(""))
        .collect();
    assert_eq!(named, figure_names().into_iter().collect::<BTreeSet<_>>());
}

#[test]
fn the_list_is_read_in_eighty_columns() {
    for one in evidence(LIST) {
        let text = one.text(80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.starts_with(&one.paper) && text.contains("\n  paper "), "{text}");
        assert_eq!(text.contains("\n  not shown "), one.command.is_none(), "{text}");
        assert_eq!(text.contains("\n  lacks "), !one.missing.is_empty(), "{text}");
    }
}
