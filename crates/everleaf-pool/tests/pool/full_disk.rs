//! Growth on a disk that is nearly full, and pools with holes on one that is full.
//!
//! A limit on the size of files stands in for the disk: a shell sets it for a second process of
//! this test. Or the second process has a small tmpfs of its own, in a mount namespace.

use std::path::Path;
use std::process::Command;

use everleaf_pmem::{Cpu, MapError, Mapped, Media, PCell, PPtr, persistent};
use everleaf_pool::{
    AuditReport, Format, KeyType, OpenMode, Pool, PoolError, Record, create_file,
    lock_damaged_file, open_file,
};

persistent! {
    struct Slots {
        records: [PCell<PPtr<Record>>; 512],
    }
}

/// Tells the second process where to make its pool.
const FOLDER: &str = "EVERLEAF_FULL_DISK";
/// Files of 4 or 8 MB, as the shell counts blocks. The system's signal for what goes beyond would
/// kill the process.
const LIMITED: &str = "ulimit -f 8000 || exit 77; exec \"$@\"";
/// The least that the pool should grow by while there is more room than that.
const LEAST: u64 = 256 << 10;
const RECORD: &[u8] = &[7; 20_000];

#[test]
fn growth_on_a_nearly_full_disk_takes_what_is_left_in_few_steps() {
    let folder = tempfile::tempdir().unwrap();
    let mut limited = Command::new("sh");
    limited.args(["-c", LIMITED, "sh"]).arg(std::env::current_exe().unwrap());
    limited
        .args(["--exact", "--ignored", "--nocapture", "full_disk::in_the_second_process"])
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
    let places = crate::common::extents(&path).len();
    assert!(
        places <= 5,
        "steps are halved, and are no smaller than they must be: {places} places for {sizes:?}"
    );
    assert!(
        sizes.windows(3).any(|of| of[2] - of[1] < of[1] - of[0]),
        "the last steps were smaller ones: {sizes:?}"
    );
    let mut worker = pool.worker().unwrap();
    let cell = &pool.index_root::<Slots>().unwrap().records[0];
    worker.free_from(cell).unwrap();
    worker.alloc_record_into(cell, &[RECORD]).unwrap(); // What is freed serves again.
    drop(worker);
    assert_eq!(audit(&pool), AuditReport::default());
    pool.close().unwrap();
    drop(pool);
    let (pool, _) = Pool::open(hardware(open_file(&path, OpenMode::ReadWrite).unwrap())).unwrap();
    assert_eq!(audit(&pool), AuditReport::default());
    assert_eq!(
        pool.pin()
            .record(pool.media().load(&pool.index_root::<Slots>().unwrap().records[0]))
            .unwrap(),
        RECORD
    );
}

/// Runs one of the ignored tests below in a process that alone has a tmpfs of 4 MiB at `folder`.
/// False, with a message, where this system does not let it.
fn ran_on_a_small_tmpfs(test: &str, folder: &Path) -> bool {
    const MOUNTED: &str = "mount -t tmpfs -o size=4m none \"$FOLDER\" || exit 77; exec \"$@\"";
    let namespaces: [&[&str]; 2] = [&["--mount"], &["--mount", "--user", "--map-root-user"]];
    for namespace in namespaces {
        let mut process = Command::new("unshare");
        process.args(namespace).args(["sh", "-c", MOUNTED, "sh"]);
        process.arg(std::env::current_exe().unwrap());
        process.args(["--exact", "--ignored", "--nocapture", &format!("full_disk::{test}")]);
        match process.env("FOLDER", folder).env(FOLDER, folder).output() {
            Ok(output) if String::from_utf8_lossy(&output.stdout).contains("running 1 test") => {
                let said = String::from_utf8_lossy(&output.stdout);
                let failure = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{}: {said}{failure}", output.status);
                return true;
            }
            _ => {}
        }
    }
    println!("skipped: this system does not let a test mount a tmpfs (`unshare --mount`)");
    false
}

#[test]
fn a_sparse_pool_on_a_full_disk_is_read_and_never_shortened() {
    let folder = tempfile::tempdir().unwrap();
    ran_on_a_small_tmpfs("sparse_on_a_full_tmpfs", folder.path());
}

/// A pool with data at its beginning, and all pages of zeros made holes, as `cp --sparse=always`
/// does; then the disk is filled up.
fn sparse_pool(path: &Path) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let format = Format { engine: "test".into(), key_type: KeyType::Bytes, parameters: [0; 8] };
    let make = |region| Pool::create(hardware(region), &format);
    let pool = create_file(path, 1 << 20, 1 << 30, make).unwrap();
    let record = &pool.index_root::<Slots>().unwrap().records[0];
    pool.worker().unwrap().alloc_record_into(record, &[RECORD]).unwrap();
    pool.close().unwrap();
    drop(pool);
    let bytes = std::fs::read(path).unwrap();
    std::fs::remove_file(path).unwrap();
    let copy = std::fs::File::create(path).unwrap();
    copy.set_len(bytes.len() as u64).unwrap();
    for (page, data) in bytes.chunks(4096).enumerate().filter(|(_, data)| **data != [0; 4096]) {
        copy.write_all_at(data, page as u64 * 4096).unwrap();
    }
    let ballast = std::fs::File::create(path.with_extension("ballast")).unwrap();
    let mut end = 0;
    while ballast.write_at(&[1; 4096], end).is_ok_and(|written| written > 0) {
        end += 4096;
    }
    bytes
}

#[test]
#[ignore = "the other test runs it, on a small tmpfs"]
fn sparse_on_a_full_tmpfs() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let path = Path::new(&folder).join("sparse.pool");
    let bytes = sparse_pool(&path);
    let unchanged = || assert!(std::fs::read(&path).unwrap() == bytes, "the file was changed");
    // To be written: one sentence, and the file stays as it is.
    let refused = open_file(&path, OpenMode::ReadWrite);
    assert!(matches!(refused, Err(PoolError::Map(MapError::Sparse { .. }))), "{refused:?}");
    unchanged();
    // To be read: every byte, and stores stay in this process.
    let damaged = lock_damaged_file(&path).unwrap().map(&path).unwrap();
    for region in [open_file(&path, OpenMode::ReadOnly).unwrap(), damaged] {
        let cells = region.cells(0, region.len() as usize / 8).unwrap();
        let media = hardware(region_of(&path));
        let same = |(cell, word): (&PCell, &[u8])| media.load(cell).to_le_bytes() == *word;
        assert!(cells.iter().zip(bytes.chunks(8)).all(same));
        cells.iter().step_by(512).for_each(|cell| media.store(cell, 1));
    }
    let (pool, _) = Pool::open(hardware(region_of(&path))).unwrap();
    let record = media_record(&pool);
    assert_eq!(pool.pin().record(record).unwrap(), RECORD);
    drop(pool);
    unchanged();
    // With room for the holes it is opened to be written, and grows no further than there is room.
    std::fs::remove_file(path.with_extension("ballast")).unwrap();
    let (pool, _) = Pool::open(hardware(open_file(&path, OpenMode::ReadWrite).unwrap())).unwrap();
    let mut worker = pool.worker().unwrap();
    for record in &pool.index_root::<Slots>().unwrap().records[1..] {
        let length = std::fs::metadata(&path).unwrap().len();
        match worker.alloc_record_into(record, &[RECORD]) {
            Ok(_) => {}
            Err(PoolError::Map(MapError::DiskFull { .. })) => {
                assert_eq!(std::fs::metadata(&path).unwrap().len(), length, "as it was");
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    drop(worker);
    assert_eq!(audit(&pool), AuditReport::default());
    pool.close().unwrap();
}

fn region_of(path: &Path) -> everleaf_pmem::Region {
    open_file(path, OpenMode::ReadOnly).unwrap()
}

fn media_record(pool: &Pool<Mapped>) -> PPtr<Record> {
    pool.media().load(&pool.index_root::<Slots>().unwrap().records[0])
}

/// Fills the pool until the disk is full; the sizes that it has had.
fn fill(pool: &std::sync::Arc<Pool<Mapped>>) -> Vec<u64> {
    let mut worker = pool.worker().unwrap();
    let mut sizes = vec![pool.space().unwrap().total_bytes];
    for cell in &pool.index_root::<Slots>().unwrap().records {
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

fn hardware(region: everleaf_pmem::Region) -> Mapped {
    Mapped::new(region, &Cpu::detect()).unwrap()
}

fn audit(pool: &Pool<Mapped>) -> AuditReport {
    crate::common::audit(pool, &pool.index_root::<Slots>().unwrap().records)
}

/// Bytes that a file of this process may have.
fn file_size_limit() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file size")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
