//! Growth on a disk that is nearly full. A limit on the size of files stands in for the disk: a
//! shell sets it for a second process of this test.

mod common;

use std::path::Path;
use std::process::Command;

use everleaf_pmem::{Cpu, Hardware, MapError, Media, PCell, PPtr, persistent};
use everleaf_pool::{
    AuditReport, Format, KeyType, OpenMode, Pool, PoolError, Record, create_file, open_file,
};

persistent! {
    struct Slots {
        records: [PCell<PPtr<Record>>; 512],
    }
}

/// Tells the second process where to make its pool.
const FOLDER: &str = "EVERLEAF_FULL_DISK";
/// Files of 4 or 8 MB, as the shell counts blocks. What goes beyond fails, and kills nobody.
const LIMITED: &str = "trap '' XFSZ; ulimit -f 8000 || exit 77; exec \"$@\"";
/// The least that the pool should grow by while there is more room than that.
const LEAST: u64 = 256 << 10;
const RECORD: &[u8] = &[7; 20_000];

#[test]
fn growth_on_a_nearly_full_disk_takes_what_is_left_in_few_steps() {
    let folder = tempfile::tempdir().unwrap();
    let mut limited = Command::new("sh");
    limited.args(["-c", LIMITED, "sh"]).arg(std::env::current_exe().unwrap());
    limited
        .args(["--exact", "--ignored", "--nocapture", "in_the_second_process"])
        .env(FOLDER, folder.path());
    match limited.output() {
        Ok(output) if output.status.code() != Some(77) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && said.contains("1 passed"),
                "{said}{}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(folder.path().join("full.pool").exists(), "it made its pool");
        }
        _ => println!(
            "skipped: this system does not let a test limit the size of files (`ulimit -f`)"
        ),
    }
}

#[test]
#[ignore = "the other test runs it, under a limit"]
fn in_the_second_process() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let path = Path::new(&folder).join("full.pool");
    let format = Format { engine: "test".into(), key_type: KeyType::Bytes, parameters: [0; 8] };
    let make = |region| Pool::create(hardware(region), &format);
    let pool = create_file(&path, 1 << 20, 1 << 30, make).unwrap();
    let sizes = fill(&pool);
    let (limit, last) = (file_size_limit(), *sizes.last().unwrap());
    assert!(
        last <= limit && last + LEAST > limit,
        "the last {LEAST} bytes may stay unused: {sizes:?} of {limit}"
    );
    assert!(
        sizes.windows(2).all(|pair| pair[1] - pair[0] >= LEAST),
        "a growth may take a place in the header: {sizes:?}"
    );
    let places = common::extents(&path).len();
    assert!(
        places <= 5,
        "steps are halved, and are no smaller than they must be: {places} places for {sizes:?}"
    );
    assert!(
        sizes.windows(3).any(|of| of[2] - of[1] < of[1] - of[0]),
        "the last steps were smaller ones: {sizes:?}"
    );
    let mut worker = pool.worker().unwrap();
    let cell = &pool.anchor::<Slots>().unwrap().records[0];
    worker.free_from(cell).unwrap();
    worker.alloc_record_into(cell, &[RECORD]).unwrap(); // What is freed serves again.
    drop(worker);
    assert_eq!(audit(&pool), AuditReport::default());
    pool.close().unwrap();
    drop(pool);
    let (pool, _) = Pool::open(hardware(open_file(&path, OpenMode::ReadWrite).unwrap())).unwrap();
    assert_eq!(audit(&pool), AuditReport::default());
    assert_eq!(
        pool.record(pool.media().load(&pool.anchor::<Slots>().unwrap().records[0])).unwrap(),
        RECORD
    );
}

/// Fills the pool until the disk is full; the sizes that it has had.
fn fill(pool: &std::sync::Arc<Pool<Hardware>>) -> Vec<u64> {
    let mut worker = pool.worker().unwrap();
    let mut sizes = vec![pool.space().unwrap().total_bytes];
    for cell in &pool.anchor::<Slots>().unwrap().records {
        match worker.alloc_record_into(cell, &[RECORD]) {
            Ok(_) => {}
            Err(PoolError::Map(MapError::DiskFull { .. })) => return sizes,
            Err(error) => panic!("{error}"),
        }
        let size = pool.space().unwrap().total_bytes;
        if *sizes.last().unwrap() != size {
            sizes.push(size);
        }
    }
    panic!("there was no end: {sizes:?}");
}

fn hardware(region: everleaf_pmem::Region) -> Hardware {
    Hardware::new(region, &Cpu::detect()).unwrap()
}

fn audit(pool: &Pool<Hardware>) -> AuditReport {
    common::audit(pool, &pool.anchor::<Slots>().unwrap().records)
}

/// Bytes that a file of this process may have.
fn file_size_limit() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file size")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
