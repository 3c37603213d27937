//! info and check: their JSON, and that they never write.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::common::{Bench, content, json};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

fn filled() -> Bench {
    let bench = Bench::with_pool();
    let lines: String = (0..2_000).map(|i| format!("key {i}\n")).collect();
    bench.run_with_input(["load", "p", "-"], lines.as_bytes()).ok();
    bench
}

#[test]
fn info_has_the_keys_of_the_contract_first() {
    let bench = filled();
    let before = content(&bench.path("p"));
    let info = json(&bench.ok(["info", "p", "--json"]));
    let contract = [
        "engine",
        "key_type",
        "keys",
        "pm_bytes",
        "dram_bytes",
        "used_bytes",
        "free_bytes",
        "durability",
        "shutdown",
        "recovery_ms",
    ];
    assert_eq!(info.keys().take(contract.len()).collect::<Vec<_>>(), contract);
    assert_eq!(
        (&info["engine"], &info["key_type"], &info["keys"]),
        (&"fptree-c".into(), &"bytes".into(), &2000.into())
    );
    assert!(["power-fail", "process-crash"].contains(&info["durability"].as_str().unwrap()));
    assert_eq!(info["shutdown"], "clean");
    assert_eq!((&info["inner_from"], &info["no_image"]), (&"image".into(), &().into()));
    assert_eq!(info["concurrency"], "version-locks", "the default");
    let auto = json(&bench.ok(["info", "p", "--json", "--rtm", "auto"]));
    assert!(["rtm", "version-locks"].contains(&auto["concurrency"].as_str().unwrap()));
    // Transactions of the processor are never left out without a word.
    let on = bench.run(["info", "p", "--json", "--rtm", "on"]);
    if on.code == Some(0) {
        assert_eq!(json(std::str::from_utf8(&on.stdout).unwrap())["concurrency"], "rtm");
    } else {
        assert!(on.code == Some(2) && on.stderr.contains("leave --rtm out"), "{}", on.stderr);
    }
    for (rtm, concurrency) in [("off", "version-locks"), ("simulated", "simulated-rtm")] {
        assert_eq!(
            json(&bench.ok(["info", "p", "--json", "--rtm", rtm]))["concurrency"],
            concurrency
        );
        assert!(bench.ok(["info", "p", "--rtm", rtm]).contains(if rtm == "off" {
            "version-locks"
        } else {
            "simulated"
        }));
    }
    for number in ["pm_bytes", "dram_bytes", "used_bytes", "free_bytes"] {
        assert!(info[number].is_u64(), "{number}");
    }
    assert!(
        info["pm_bytes"].as_u64() > Some(10_000)
            && info["used_bytes"].as_u64() >= info["pm_bytes"].as_u64()
    );
    let recovery_ms = info["recovery_ms"].as_f64().unwrap();
    assert!(recovery_ms >= 0.0);
    assert_eq!(format!("{recovery_ms:.3}").parse(), Ok(recovery_ms), "no digits of nothing");
    assert!(bench.ok(["info", "p"]).contains("2,000 (bytes)"));
    assert!(content(&bench.path("p")) == before, "info wrote to the pool");
    let empty = Bench::with_u64_pool();
    let info = json(&empty.ok(["info", "n", "--json"]));
    assert_eq!((&info["key_type"], &info["keys"]), (&"u64".into(), &0.into()));
}

#[test]
fn info_tells_the_index_from_the_values_and_counts_keys_by_tree() {
    let bench = Bench::with_pool();
    bench.write("long", vec![b'x'; 9_000_000]);
    bench.ok(["put", "p", "k", "--value-from", "long", "--tree", "pictures"]);
    bench.ok(["create", "n", "--size", "1MiB", "--keys", "u64"]);
    let info = json(&bench.ok(["info", "p", "--json"]));
    let bytes = |name: &str| info[name].as_u64().unwrap();
    assert!(bytes("used_bytes") > 9_000_000 && bytes("node_bytes") < 500_000, "{info:?}");
    assert_eq!(
        (&info["keys"], &info["own_keys"], &info["trees"]),
        (&1.into(), &0.into(), &1.into())
    );
    let tree = serde_json::json!([{"name": "pictures", "key_type": "bytes", "keys": 1}]);
    assert_eq!(info["named_trees"], tree);
    let text = bench.ok(["info", "p"]);
    let index = text.lines().find(|line| line.starts_with("index ")).unwrap();
    assert!(index.contains(" KiB in the pool"), "{text}");
    for part in [
        "keys        1 (bytes)\n",
        "; 1 named tree\n",
        "  the pool's own tree: 0 keys\n",
        "  pictures: 1 key (bytes)\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(bench.ok(["info", "n"]).contains("; 0 named trees\nindex "));
    for tree in 0..21 {
        bench.ok(["put", "p", "k", "v", "--tree", &format!("t{tree:02}")]);
    }
    let text = bench.ok(["info", "p"]);
    assert!(text.contains("  t18: ") && !text.contains("  t19: "), "{text}");
    assert!(text.contains("  more: 2; `everleaf trees` lists all\n"), "{text}");
}

#[test]
fn check_finds_a_sound_pool_sound_and_does_not_write() {
    let bench = filled();
    let before = content(&bench.path("p"));
    let check = json(&bench.ok(["check", "p", "--json"]));
    assert_eq!(
        check.keys().take(4).collect::<Vec<_>>(),
        ["ok", "keys", "violations", "leaked_blocks"]
    );
    assert_eq!(
        (&check["ok"], &check["keys"], &check["violations"], &check["leaked_blocks"]),
        (&true.into(), &2000.into(), &0.into(), &0.into())
    );
    assert!(bench.ok(["check", "p"]).contains("2,000 keys"));
    assert!(content(&bench.path("p")) == before, "check wrote to the pool");
}

#[test]
fn a_pool_left_by_a_crash_is_inspected_without_a_write() {
    let bench = filled();
    let mut child = bench.command(["load", "p", "-", "--acknowledge-every", "1"]);
    let mut child = child.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Standard input stays open, so the load waits in the middle of a line.
    child.stdin.as_mut().unwrap().write_all(b"another\nand").unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "acknowledged 1\n");
    assert!(bench.fails(["put", "p", "k", "v"]).contains("open in another process"));
    assert_eq!(bench.ok(["get", "p", "another"]), "1\n");
    child.kill().unwrap();
    child.wait().unwrap();
    let before = content(&bench.path("p"));
    assert_eq!(json(&bench.ok(["info", "p", "--json"]))["shutdown"], "crash");
    assert_eq!(json(&bench.ok(["check", "p", "--json"]))["ok"], true);
    assert_eq!(bench.ok(["get", "p", "another"]), "1\n");
    bench.fails(["get", "p", "and"]);
    assert!(content(&bench.path("p")) == before, "reading wrote to the pool");
    bench.ok(["put", "p", "k", "v"]);
    assert_eq!(json(&bench.ok(["info", "p", "--json"]))["shutdown"], "clean");
}

/// How commands report damage; that no damage does worse than an error is shown by the tests of the
/// store, thousands of times.
#[test]
fn damage_is_reported_and_never_panics() {
    let seed = 7;
    println!("seed {seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let bench = filled();
    let sound = content(&bench.path("p"));
    let mut found = 0;
    for round in 0..15 {
        let mut damaged = sound.clone();
        let place = random.random_range(0..damaged.len() as u64 / 2) as usize;
        let length = random.random_range(1..2000);
        for byte in damaged.iter_mut().skip(place).take(length) {
            *byte ^= random.random_range(1..=255u8);
        }
        bench.write("p", &damaged);
        let check = bench.run(["check", "p", "--json"]);
        let (code, stderr) = (check.code, check.stderr.clone());
        let report = json(std::str::from_utf8(&check.stdout).unwrap());
        assert_eq!(report["ok"] == true, code == Some(0), "round {round}");
        assert!(matches!(code, Some(0 | 1)), "round {round}: {code:?} {stderr}");
        if code == Some(1) {
            found += 1;
            assert!(stderr.starts_with("everleaf: "), "{stderr}");
            assert!(
                report["violations"].as_u64().unwrap() + report["leaked_blocks"].as_u64().unwrap()
                    > 0
            );
            assert!(content(&bench.path("p")) == damaged, "round {round}: check wrote to the pool");
        }
        for command in [
            &["scan", "p"][..],
            &["get", "p", "key 7"],
            &["info", "p"],
            &["put", "p", "key 7", "x"],
            &["del", "p", "key 9"],
        ] {
            assert!(
                matches!(bench.run(command).code, Some(0 | 1 | 3)),
                "round {round}: {command:?}"
            );
        }
    }
    assert!(found > 4, "only {found} damages were found");
}

#[test]
fn a_smashed_header_and_a_cut_file_are_damage() {
    let bench = filled();
    let sound = content(&bench.path("p"));
    for damaged in
        [vec![0; sound.len()], sound[..sound.len() / 2].to_vec(), sound[..100].to_vec(), Vec::new()]
    {
        bench.write("p", &damaged);
        let check = bench.run(["check", "p", "--json"]);
        assert_eq!(json(std::str::from_utf8(&check.stdout).unwrap())["ok"], false);
        check.failed();
        let check = bench.run(["check", "p"]);
        assert!(check.stdout.is_empty(), "the sentence on stderr says it");
        check.failed();
    }
}

#[test]
fn what_was_not_checked_has_no_report() {
    let bench = Bench::with_pool();
    let missing = bench.run(["check", "nosuch", "--json"]);
    assert!(missing.stdout.is_empty());
    assert!(missing.failed().contains("everleaf create"));
    bench.refused(["check"]);
}

#[test]
fn durability_is_chosen_by_create_and_told_by_info() {
    let bench = Bench::new();
    bench.ok(["create", "p", "--size", "1MiB", "--durability", "process"]);
    let info = json(&bench.ok(["info", "p", "--json"]));
    assert_eq!(info["durability_mode"], "process");
    assert_eq!(info["durability"], "process-crash");
    assert!(bench.ok(["info", "p"]).contains(", process: what is acknowledged"));
    bench.ok(["create", "d", "--size", "1MiB"]);
    let strongest = json(&bench.ok(["info", "d", "--json"]));
    let on_dax = strongest["durability"] == "power-fail";
    assert_eq!(strongest["durability_mode"], if on_dax { "immediate" } else { "process" });
    for mode in ["immediate", "buffered", "buffered=10"] {
        if strongest["medium"] == "page cache" {
            bench.ok(["create", mode, "--size", "1MiB", "--durability", mode]);
            bench.ok(["put", mode, "key", "value"]);
            let info = json(&bench.ok(["info", mode, "--json"]));
            assert_eq!((&info["durability"], &info["log"]), (&"power-fail".into(), &true.into()));
            assert!(bench.path(&format!("{mode}.log")).is_dir());
            assert_eq!(bench.ok(["get", mode, "key"]).trim(), "value");
        } else if !on_dax {
            let refused = bench.refused(["create", "new", "--size", "1MiB", "--durability", mode]);
            assert!(refused.contains("cannot be kept on") && !bench.path("new").exists());
        }
    }
    let masstree = ["create", "m", "--size", "1MiB", "--engine", "masstree"];
    for mode in ["immediate", "process"] {
        let refused = bench.refused(masstree.iter().chain(&["--durability", mode]));
        assert!(refused.contains("choose `buffered`") && !bench.path("m").exists(), "{refused}");
    }
    bench.ok(masstree);
    bench.ok(["put", "m", "key", "value"]);
    let info = json(&bench.ok(["info", "m", "--json"]));
    assert_eq!((&info["durability_mode"], &info["keys"]), (&"buffered=64".into(), &1.into()));
    assert!(bench.ok(["info", "m"]).contains("what was synced"));
    for mode in ["", "buffered=0", "buffered=x", "strict"] {
        let refused = bench.refused(["create", "new", "--size", "1MiB", "--durability", mode]);
        assert!(refused.contains("give immediate, buffered, buffered=MS"), "{refused}");
    }
}

#[test]
fn it_is_told_whether_inner_nodes_came_from_the_image() {
    let bench = Bench::new();
    for (engine, keys) in ["fptree", "fptree-c", "nvtree", "nvtree-c"]
        .into_iter()
        .flat_map(|engine| [(engine, "u64"), (engine, "bytes")])
    {
        let pool = format!("{engine}-{keys}");
        let pool = pool.as_str();
        bench.ok(["create", pool, "--engine", engine, "--keys", keys, "--size", "1MiB"]);
        bench.ok(["put", pool, "7", "seven"]);
        for _ in 0..2 {
            // Looking does not write: the image is there as before.
            let info = json(&bench.ok(["info", pool, "--json"]));
            assert_eq!((&info["inner_from"], &info["no_image"]), (&"image".into(), &().into()));
            assert!(bench.ok(["info", pool]).contains("inner nodes from the image"));
        }
        bench.ok(["check", pool]);
        assert_eq!(bench.ok(["get", pool, "7"]).trim_end(), "seven");
    }
}
