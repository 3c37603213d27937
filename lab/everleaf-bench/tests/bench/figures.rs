//! Every figure, small: what can be measured is, and what cannot is named.

use everleaf_bench::Scratch;
use everleaf_bench::figure::{
    Evidence, Figure, FigureOptions, HAS_PLOTS, evidence, figure_names, figure_png, figure_svg,
    run_figure, run_figure_with_progress,
};
use everleaf_bench::page::{ReportOptions, run_report};
use everleaf_engines::all;

/// What the program includes.
const LIST: &str = include_str!("../../data/evidence.json");

fn options(name: &str) -> FigureOptions {
    let (name, pool, program) = (name.into(), Scratch::default(), None);
    FigureOptions { name, keys: 1000, rounds: 1, seed: 2, pool, program }
}

fn measured(name: &str) -> Figure {
    run_figure(&options(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every number of a paper stands in one entry of the list, and every derivation is about one.
fn assert_in_the_record(figure: &Figure) {
    let list = evidence(LIST);
    let of_figure: Vec<&Evidence> =
        list.iter().filter(|one| one.figure() == Some(&figure.name)).collect();
    for claim in &figure.claims {
        let takers = of_figure.iter().filter(|one| one.takes(claim)).count();
        let takes_the_rest = of_figure.iter().any(|one| one.claims.is_empty());
        assert!(takers == 1 || (takers == 0 && takes_the_rest), "{}: {claim:?}", figure.name);
    }
    for due in of_figure.iter().flat_map(|one| &one.due) {
        assert!(figure.claims.iter().any(|claim| due.is_about(claim)), "{}: {due:?}", figure.name);
    }
}

#[test]
fn every_figure_is_measured_or_says_why_not() {
    for name in figure_names() {
        let figure = measured(name);
        assert_eq!(figure.name, name);
        assert_in_the_record(&figure);
        assert!(!figure.panels.is_empty() || !figure.left_out.is_empty(), "{name}");
        for series in figure.panels.iter().flat_map(|panel| &panel.series) {
            assert!(
                series.points.iter().flatten().all(|value| value.is_finite() && *value >= 0.0),
                "{name}: {series:?}"
            );
        }
        assert!(
            figure
                .claims
                .iter()
                .all(|claim| claim.paper.is_finite() && claim.ours.is_none_or(f64::is_finite)),
            "{name}"
        );
        let table = figure.table();
        assert!(
            table.starts_with(name)
                && figure.left_out.iter().all(|out| table.contains(&out.engine)),
            "{table}"
        );
        if HAS_PLOTS {
            assert!(figure_svg(&figure).unwrap().contains("</svg>"));
        }
    }
}

#[test]
fn names_are_distinct_and_an_unknown_one_is_told_the_others() {
    let names = figure_names();
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
    let error = run_figure(&options("fptree-99")).err().unwrap();
    assert!(error.is_wrong_usage() && error.to_string().contains("fptree-4, fptree-7"), "{error}");
}

#[test]
fn probes_lie_near_the_formula_and_are_exact() {
    let figure = measured("fptree-4");
    let fptree = figure.panels[0].series.iter().find(|series| series.name == "fptree").unwrap();
    assert_eq!(
        fptree.points.iter().map(|point| point[0] as u32).collect::<Vec<_>>(),
        [4, 8, 16, 32, 48, 56]
    );
    assert!(fptree.points.iter().all(|point| (1.0..1.15).contains(&point[1])), "{fptree:?}");
    assert!(figure.claims[0].ours.is_some() && figure.claims[2].what.contains("NV-Tree"));
    assert_eq!(figure, measured("fptree-4"), "to the last digit");
    let by_formula: Vec<_> = figure.claims[3..].iter().filter_map(|claim| claim.ours).collect();
    assert_eq!(by_formula, [723.0, 6194.0]);
    assert_eq!(
        figure.command,
        "everleaf-lab bench figure fptree-4 --keys 1000 --rounds 1 --seed 2"
    );
}

#[test]
fn latency_costs_what_it_must() {
    let figure = measured("fptree-7");
    assert_eq!(
        figure.panels.len(),
        20,
        "four operations, timed and counted, and recovery at two latencies, of two kinds of keys"
    );
    let recovery = |at: &str| {
        let panel = figure.panels.iter().find(|panel| panel.title.ends_with(at)).unwrap();
        let points = |name: &str| {
            panel.series.iter().find(|series| series.name == name).unwrap().points.len()
        };
        let rebuilt = ["stx by insertions", "stx from sorted entries"].map(points);
        assert_eq!((rebuilt, panel.series.len()), ([3, 3], 6), "{}", panel.title);
        (
            points("fptree"),
            figure
                .claims
                .iter()
                .filter(|claim| claim.what.contains("recovery") && claim.what.contains(at))
                .filter(|claim| claim.ours.is_some_and(|ours| ours > 0.0))
                .count(),
        )
    };
    // To other trees where the paper says it, and to both ways to rebuild, of two kinds of keys.
    assert_eq!((recovery(" 90 ns"), recovery(" 650 ns")), ((3, 6), (3, 6)));
    let to_stx = figure
        .claims
        .iter()
        .filter(|claim| claim.what.contains("stx") && claim.what.contains("time"));
    assert_eq!(to_stx.filter(|claim| claim.ours.is_some()).count(), 8);
    let insert = figure.panels.iter().find(|panel| panel.title == "insert, 8-byte keys").unwrap();
    let fptree = insert.series.iter().find(|series| series.name == "fptree").unwrap();
    assert_eq!(fptree.points.len(), 5);
    // Two flushes of 560 ns more, whatever the machine does besides.
    assert!(fptree.points[4][1] > 1100.0, "{fptree:?}");
    let counted = figure
        .panels
        .iter()
        .find(|panel| panel.title.starts_with("update, 8-byte keys: cost"))
        .unwrap();
    let fptree = counted.series.iter().find(|series| series.name == "fptree").unwrap();
    assert_eq!(fptree.points[0][1], 0.0, "DRAM's own latency");
    let (at_250, at_650) = (fptree.points[2][1], fptree.points[4][1]);
    assert!(
        at_650 >= 560.0 && (at_650 / at_250 - 560.0 / 160.0).abs() < 1e-9,
        "one flush, and reads: {fptree:?}"
    );
    assert!(figure.claims.iter().any(|claim| claim.ours.is_some()));
}

#[test]
fn printed_values_stand_beside_ours() {
    let claim = |name: &str, words: &[&str]| {
        let figure = measured(name);
        let of_words = |claim: &&everleaf_bench::figure::Claim| {
            words.iter().all(|word| claim.what.contains(word))
        };
        figure
            .claims
            .iter()
            .find(of_words)
            .unwrap_or_else(|| panic!("{name}, {words:?}: {:?}", figure.claims))
            .clone()
    };
    let of_find = claim("fptree-9", &["find, speedup", "fptree-c", "22 threads"]);
    assert!(of_find.paper == 18.3 && of_find.ours.is_some(), "{of_find:?}");
    let flushes = claim("clfb-6", &["insert, flushes", "nodes of 64 bytes: clftree-inplace"]);
    assert!(flushes.paper_text() == "4.42" && flushes.ours.is_some(), "{flushes:?}");
    assert_eq!(claim("clfb-8", &["insert, time", "wbtree-slot"]).paper_text(), "28 to 33");
    assert_eq!(claim("incll-2", &["A, zipfian"]).paper_text(), "10.3 to 15.4");
    let load =
        claim("circ-10", &["99th percentile of loading", "2 threads: ", "below store:fastfair"]);
    assert_eq!(load.paper, 25.4);
    let two = std::thread::available_parallelism().is_ok_and(|n| n.get() >= 2);
    assert_eq!(load.ours.is_some(), two, "both are there, with two threads");
    let grown =
        claim("circ-8", &["insert, geometric mean", "is above circtree with", "100 million"]);
    assert!(grown.paper == 29.5 && grown.ours.is_some(), "{grown:?}");
    assert!(measured("circ-11").panels[0].title.starts_with("load"));
    let distinct: std::collections::BTreeSet<String> =
        measured("circ-7").claims.into_iter().map(|claim| claim.what).collect();
    assert_eq!(distinct.len(), 13, "labels tell measures apart: {distinct:?}");
}

#[test]
fn an_insertion_flushes_as_much_as_the_tables_of_the_paper_say() {
    let figure = run_figure(&FigureOptions { keys: 20_000, ..options("clfb-tables") }).unwrap();
    let of = |claim: &everleaf_bench::figure::Claim| claim.ours.unwrap() / claim.paper;
    assert_eq!((figure.panels.len(), figure.claims.len()), (4, 20));
    for claim in &figure.claims[..16] {
        // So few keys are up to 3 percent away from the steady state of a million.
        assert!((0.97..1.03).contains(&of(claim)), "{claim:?}");
    }
    let first = &figure.panels[0].series;
    assert_eq!((first[0].points[0], first[0].from_paper), ([64.0, 10_912.0], true));
    // An insertion that splits nothing flushes its entry and the live bit.
    let splits = figure.claims[1].ours.unwrap();
    assert_eq!(first[7].points[0], [64.0, 2.0 * (20_000.0 - splits)]);
    // A copy and a word an insertion, two leaves a split, and a copy more a cascade.
    let copies = &figure.panels[3].series;
    let cascades = copies[1..].iter().map(|series| series.points[0][1]).sum::<f64>();
    assert!(copies[0].points[0][1] > 40_000.0 + cascades && cascades > 2_000.0);
}

#[test]
fn ascending_keys_leave_nodes_one_entry_short() {
    let nodes_for =
        |entries: u64, slots: u64| entries.saturating_sub(slots).div_ceil(slots - 1) + 1;
    let figure = run_figure(&FigureOptions { keys: 50_000, ..options("circ-inner") }).unwrap();
    for (claim, slots) in figure.claims.iter().zip([32, 256]) {
        let (mut level, mut nodes) = (nodes_for(50_000, slots), 0);
        while level > 1 {
            level = nodes_for(level, slots);
            nodes += level;
        }
        // One may be split ahead of need.
        let more = claim.ours.unwrap() - nodes as f64;
        assert!((0.0..=1.0).contains(&more), "{claim:?}: {nodes}");
    }
}

#[test]
fn differences_take_the_bytes_that_they_must() {
    let figure = measured("clfb-5");
    for panel in &figure.panels[..3] {
        let percent = panel.series.iter().map(|series| series.points[0][1]).sum::<f64>();
        assert!((percent - 100.0).abs() < 1e-9, "{}: {percent}", panel.title);
    }
    // 1000 keys of 31 bits lie 2^21 from each other, and a leaf has some twenty.
    let claim = figure.claims.last().unwrap();
    assert_eq!((claim.paper, claim.ours), (4.0, Some(4.0)), "{claim:?}");
    assert_eq!(figure, measured("clfb-5"), "to the last digit");
    let by_deviation = measured("clfb-5c");
    let full = by_deviation.panels.last().unwrap().series.last().unwrap();
    assert!(full.points[0][1] > full.points[3][1], "near keys make room: {full:?}");
}

#[test]
fn every_inner_node_is_shown_once() {
    use everleaf::internal::{U64Keys, registry};
    use everleaf::{Engine, EngineParameters, KeyType};
    use everleaf_engines::inner_encodings;
    let region = everleaf_pmem::Region::anonymous(1 << 20, 1 << 26).unwrap();
    let media = everleaf_pmem::Mapped::new(region, &everleaf_pmem::Cpu::detect()).unwrap();
    let (engine, parameters) = (Engine::CLFTREE_APPEND, EngineParameters::default().leaf_slots(3));
    let format = registry::pool_format(engine, KeyType::U64, &parameters, 1).unwrap();
    let pool = everleaf_pool::Pool::create(media, &format).unwrap();
    let index = registry::create_index::<U64Keys, _>(all(), &pool, engine, &parameters, 1).unwrap();
    let shown = || {
        let mut shown = Vec::new();
        inner_encodings::<U64Keys, _>(&pool, &mut |node| shown.push(node)).unwrap();
        shown
    };
    assert!(shown().is_empty(), "a leaf alone");
    for key in 0..1000 {
        assert!(index.insert(key << 8, key).unwrap());
    }
    let (shown, statistics) = (shown(), index.statistics());
    let children = |level| -> u64 {
        let of_level = shown.iter().filter(|node| node.level == level);
        of_level.map(|node| node.children as u64).sum()
    };
    assert_eq!(shown.len() as u64, statistics.inner_nodes);
    assert_eq!(children(0), statistics.leaves);
    assert_eq!(shown[0].level + 2, statistics.height, "the topmost is the first");
    // Neighbours of a node of leaves lie up to 23 leaves of three keys from each other.
    assert!(shown.iter().filter(|node| node.level == 0).all(|node| node.key_bytes <= 2));
}

#[test]
fn each_way_to_write_a_line_is_timed_or_left_out() {
    let figure = measured("clfb-writes");
    let ways = figure.panels[0].places.as_ref().unwrap();
    assert!(ways.len() >= 3 && ways.len() + figure.left_out.len() == 5, "{:?}", figure.left_out);
    assert!(figure.panels[0].series.iter().all(|series| series.points.len() == ways.len()));
    let at_once = figure.notes.iter().filter(|note| note.contains("aborted")).count();
    assert_eq!(at_once, (ways.len() - 3) * figure.panels[0].series.len());
}

#[test]
fn figures_of_servers_leave_out_what_cannot_run_and_say_what_the_papers_say() {
    let figure = measured("fptree-13");
    let out: Vec<&str> = figure.left_out.iter().map(|out| &*out.engine).collect();
    let named = ["stx", "ours", "ours:wbtree-bitmap", "ours:nvtree-c"];
    assert!(named.iter().all(|one| out.contains(one)), "{out:?}");
    let papers: Vec<f64> = figure.claims.iter().map(|claim| claim.paper).take(4).collect();
    assert_eq!(papers, [11.45, 0.29, 40.37, 3.40]);
    let stores = measured("nvtree-stores").claims;
    assert_eq!(stores.iter().map(|claim| claim.paper).collect::<Vec<_>>(), [3.2, 3.2, 4.8, 4.8]);
}

#[test]
fn the_fastest_sizes_of_nodes_stand_beside_those_of_the_paper() {
    let figure = measured("fptree-table-1");
    let claim = |what: &str| {
        let what = format!("{what} with which it is fastest");
        figure.claims.iter().find(|claim| claim.what == what).unwrap()
    };
    let leaf = claim("fptree, 8-byte keys: entries of a leaf");
    let offered = [4.0, 8.0, 16.0, 32.0, 48.0, 56.0];
    assert!(leaf.paper == 56.0 && leaf.ours.is_some_and(|ours| offered.contains(&ours)));
    let inner = claim("stx, 16-byte string keys: keys of an inner node");
    assert!(inner.paper == 8.0 && inner.ours.is_some(), "{inner:?}");
    let without_64 = figure.left_out.iter().find(|out| out.engine == "fptree-c").unwrap();
    assert!(without_64.reason.contains("64 entries of a leaf"), "{without_64:?}");
}

#[test]
fn a_database_and_its_restart_are_set_against_those_with_the_tree_in_memory() {
    let claims = measured("fptree-12").claims;
    let of_fptree: Vec<_> = claims.iter().filter(|claim| claim.what.contains(" fptree")).collect();
    let papers: Vec<f64> = of_fptree.iter().map(|claim| claim.paper).collect();
    assert_eq!(papers, [8.74, 40.17, 12.80, 21.56]);
    assert!(of_fptree.iter().all(|claim| claim.ours.is_some()), "{of_fptree:?}");
}

#[test]
fn figures_lack_no_engine_and_have_the_papers_numbers() {
    for figure in ["clfb-8", "nvtree-flushes", "incll-8"].map(measured) {
        let is_lacking = |reason: &str| reason.contains("not in this release");
        assert!(!figure.left_out.iter().any(|out| is_lacking(&out.reason)), "{}", figure.table());
    }
    let printed: Vec<f64> = measured("incll-8").claims.iter().map(|claim| claim.paper).collect();
    assert_eq!(printed, [4.1, 5.7, 42.5, 28.5]);
}

#[test]
fn leaves_have_the_papers_size_or_a_note_says_which_they_have() {
    for name in ["clfb-7", "clfb-8"] {
        let notes = measured(name).notes;
        assert!(
            notes.iter().any(|note| note == "fptree has nodes of 896 bytes in place of 1024"),
            "{name}: {notes:?}"
        );
        assert_eq!(
            notes.iter().filter(|note| note.starts_with("fptree has")).count(),
            1,
            "{name}: {notes:?}"
        );
    }
    assert!(measured("clfb-9a").panels[0].x_label.contains("writes"));
    assert!(measured("clfb-9").notes.iter().any(|note| note.contains("512 bytes")));
}

#[test]
fn pictures_are_drawn_or_the_feature_that_draws_them_is_named() {
    // Nothing is measured of the second, and that is a picture too.
    for figure in [measured("clfb-7"), measured("incll-7")] {
        match figure_png(&figure) {
            Ok(png) => assert!(HAS_PLOTS && png.starts_with(b"\x89PNG")),
            Err(error) => {
                let sentence = "plots are not in this build: build with --features plots";
                assert!(!HAS_PLOTS && error.is_wrong_usage());
                assert_eq!(error.to_string(), sentence);
            }
        }
        assert_eq!(figure_svg(&figure).is_ok(), HAS_PLOTS);
    }
}

#[test]
fn what_is_wrong_is_said_before_any_work() {
    for (wrong, words) in [
        (options("fptree-99"), "choose among fptree-4"),
        (FigureOptions { keys: 10, ..options("fptree-4") }, "--keys 10"),
        (FigureOptions { rounds: 0, ..options("fptree-4") }, "--rounds 0"),
        (FigureOptions { keys: 1 << 39, ..options("fptree-7") }, "MiB"),
    ] {
        let error = run_figure(&wrong).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    // Their smaller sizes would fit into most machines, and their largest into none: no size may be
    // measured before all are looked at.
    for name in ["incll-5", "circ-table-1", "fptree-8", "fptree-7", "circ-8", "clfb-8"] {
        let large = FigureOptions { keys: 1 << 34, ..options(name) };
        let error =
            run_figure_with_progress(&large, &mut |at| panic!("{name}: {} has begun", at.doing))
                .unwrap_err();
        assert!(error.to_string().contains("MiB"), "{name}: {error}");
    }
    let (keys, pool) = (Some(1 << 39), Scratch::default());
    let huge = ReportOptions { quick: true, keys, seed: 1, pool, program: None };
    assert!(run_report(&huge).unwrap_err().to_string().contains("MiB"));
}

#[test]
fn nodes_that_an_epoch_logs_are_those_that_are_due() {
    let figure = run_figure(&FigureOptions { keys: 10_000, ..options("incll-7") }).unwrap();
    let ours: Vec<f64> = figure.claims.iter().filter_map(|claim| claim.ours).collect();
    assert_eq!((ours.len(), figure.claims.len()), (2, 10), "one number of keys of five");
    assert!(ours.iter().all(|ours| (ours / 1005.0 - 1.0).abs() < 0.05), "{ours:?}");
    let points: Vec<_> = figure.panels[0].series.iter().map(|of| of.points[0]).collect();
    assert_eq!(points, [[10_000.0, ours[0]], [10_000.0, ours[1]]]);
}
