//! A pool with a log where files may not be longer than a segment of the log would be: nothing that
//! makes the pool no fuller is refused, whatever ends the process before.

use std::process::{Command, Stdio};

use crate::PROGRAM;
use crate::common::Bench;

/// Files of at most 700 KiB. What is printed has no dependence on how much a pool holds.
const SCRIPT: &str = r#"
value() { printf "$1%0900d" "$2"; }
i=0; while [ $i -lt 2000 ]; do printf 'k%d\t%s\n' $i "$(value a $i)"; i=$((i + 1)); done > ../rows
ulimit -f 1400 || exit 77
"$EVERLEAF" create p --size 256KiB --engine "$ENGINE" || exit 1
"$EVERLEAF" load p ../rows --format tsv 2> /dev/null; echo "load $?"
for round in b c d; do
    rm -f ../in && mkfifo ../in
    "$EVERLEAF" shell p < ../in > ../out 2> ../err & shell=$!
    exec 3> ../in
    i=0; while [ $i -lt 400 ]; do
        echo "put k$((i % 40)) $(value $round $i)"; i=$((i + 1))
        if [ $((i % 50)) = 0 ]; then
            echo begin; echo "put k1 $(value $round 1)"; echo "del k$((100 + i))"; echo commit
        fi
    done >&3
    echo count >&3
    if [ $round = d ]; then
        exec 3>&-; wait $shell
    else
        until grep -qE '^[0-9]+$' ../out || ! kill -0 $shell; do sleep 0.05; done
        [ "$ENGINE" != masstree ] || sleep 1
        kill -9 $shell; exec 3>&-; wait $shell
    fi
    grep -c . ../err
done 2> /dev/null
"$EVERLEAF" get p k39 | cut -c 1
"$EVERLEAF" del p k2 && "$EVERLEAF" put p k3 "$(value e 3)"; echo "change $?"
"$EVERLEAF" check p > /dev/null; echo "check $?"
"#;

fn is_kept_on_a_full_disk(engine: &str) {
    let bench = Bench::new();
    let folder = bench.path("small");
    std::fs::create_dir(&folder).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", SCRIPT]).current_dir(&folder).env("EVERLEAF", PROGRAM).env("ENGINE", engine);
    let ran = shell.stdin(Stdio::null()).output().unwrap();
    if ran.status.code() == Some(77) {
        println!("skipped: this system does not let a test limit the size of files (`ulimit -f`)");
        return;
    }
    let expected = "load 1\n0\n0\n0\nd\nchange 0\ncheck 0\n";
    let said = std::fs::read_to_string(bench.path("err")).unwrap_or_default();
    assert_eq!(str::from_utf8(&ran.stdout).unwrap(), expected, "{ran:?} {said}");
}

#[test]
fn a_pool_whose_files_may_not_grow_is_written_to_and_opened_again() {
    is_kept_on_a_full_disk("fptree-c");
}

#[test]
fn a_pool_of_epochs_whose_files_may_not_grow_is_written_to_and_opened_again() {
    is_kept_on_a_full_disk("masstree");
}
