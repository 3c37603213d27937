//! The image is the file's but for what was stored to.

use everleaf_pmem::Media;

use super::*;
use crate::base::stamp_in;
use crate::control::Stamp;
use crate::disk::DiskFile;

/// A page of the pool's file.
fn page(disk: &SimulatedDisk, page: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    disk.first_file().read(page * 4096, &mut bytes).unwrap();
    bytes
}

fn stamp_of_image(media: &Mapped) -> [u64; 3] {
    [0, 8, 16].map(|at| word(media, 232 + at))
}

/// The file gets stamps in a page that the program never stores to.
#[test]
fn the_image_has_no_stamp_whatever_is_written_to_the_file() {
    let shows = |weak| {
        let (disk, media) = created(weak);
        let mut found = vec![stamp_of_image(&media)];
        drop(media);
        let media = open(&disk, weak).unwrap();
        assert_ne!(stamp_in(&page(&disk, 0), 232), Stamp::default());
        found.push(stamp_of_image(&media));
        Program::default().run(&media, 7);
        media.checkpoint().unwrap();
        found.push(stamp_of_image(&media));
        found.iter().any(|stamp| *stamp != [0; 3])
    };
    assert!(!shows(None));
    assert!(shows(Some(Weak::FirstPageUntouched)));
}

#[test]
fn what_was_not_stored_to_is_the_files_and_is_not_written() {
    let (disk, media) = created(None);
    Program::default().run(&media, 7);
    drop(media);
    let media = open(&disk, None).unwrap();
    let (mut changed, before) = (page(&disk, 3), media.log_counts().unwrap().base_bytes);
    changed[8] ^= 1;
    let expected = word(&media, C + 8) ^ 1;
    disk.first_file().write(3 * 4096, &changed).unwrap();
    assert_eq!(word(&media, C + 8), expected, "the page is the file's");
    media.store(cell(&media, A), 70);
    media.flush(site!("test.image"), cell(&media, A));
    media.checkpoint().unwrap();
    // The first page twice: with the others, and with the stamp that lets the log begin later.
    assert_eq!(media.log_counts().unwrap().base_bytes - before, 3 * 4096);
    assert_eq!(page(&disk, 3), changed);
    media.store(cell(&media, C), 1);
    changed[8] ^= 1;
    disk.first_file().write(3 * 4096, &changed).unwrap();
    assert_eq!(word(&media, C + 8), expected, "the page is the image's from the first store on");
    media.kill();
}

#[test]
fn replay_stores_into_the_image_and_not_into_the_file() {
    let (disk, media) = created(None);
    let mut program = Program::default();
    program.run(&media, 4);
    media.sync().unwrap();
    program.acknowledged = program.begun;
    media.kill();
    let pages = |disk: &SimulatedDisk| [1, 2, 3].map(|at| page(disk, at));
    let before = pages(&disk);
    let media = open(&disk, None).unwrap();
    assert_eq!(program.judge(&media), Ok(4));
    assert_eq!(pages(&disk), before);
    assert_eq!(before, [const { [0; 4096] }; 3].map(Vec::from), "no checkpoint wrote them");
    drop(media);
    assert_ne!(pages(&disk), before);
}

#[test]
fn a_growth_shows_the_file() {
    let (disk, media) = created(None);
    media.grow(BYTES + 4096).unwrap();
    disk.first_file().write(BYTES, &[7; 4096]).unwrap();
    assert_eq!(word(&media, BYTES), u64::from_le_bytes([7; 8]));
    media.kill();
}

/// A checkpoint has written a page, and its sync has failed: the page cache has it and the disk has
/// not. The next process replays what is equal there, makes a checkpoint, and the power fails.
fn after_a_failed_sync(weak: Option<Weak>, steps: u64) -> Result<u64, String> {
    let (disk, media) = created(weak);
    let mut program = Program::default();
    program.run(&media, steps);
    media.sync().unwrap();
    program.acknowledged = program.begun;
    let mut syncs = 0;
    loop {
        let copy = disk.after_kill();
        let again = open(&copy, weak)?;
        copy.fail_sync_after(syncs);
        let checkpoint = again.checkpoint();
        again.kill();
        if checkpoint.is_ok() {
            break;
        }
        let killed = copy.after_kill();
        let next = open(&killed, weak)?;
        program.judge(&next)?;
        next.checkpoint().map_err(|error| error.to_string())?;
        next.kill();
        for left in [killed.after_power_failure(|_| 0), killed.after_power_failure(|ways| ways - 1)]
        {
            let media = open(&left, weak)?;
            program.judge(&media)?;
            media.kill();
        }
        syncs += 1;
    }
    media.kill();
    Ok(syncs)
}

#[test]
fn replay_stores_what_is_equal_already_too() {
    for (memory_bytes, steps) in [(u64::MAX, 1), (u64::MAX, 4), (2 * 4096, 1), (2 * 4096, 4)] {
        let syncs = with_memory(memory_bytes, || after_a_failed_sync(None, steps));
        let syncs = syncs.unwrap_or_else(|violation| panic!("{violation}"));
        println!("{syncs} syncs failed");
    }
    // Each line is in the log once: nothing is stored to.
    after_a_failed_sync(Some(Weak::EqualIsDone), 1).unwrap_err();
}

#[test]
fn an_image_that_is_read_whole_is_not_the_files() {
    let (disk, media) = created(None);
    Program::default().run(&media, 7);
    drop(media);
    let base = Base { read_whole: true, ..base(&disk) };
    let media = Log::open(&base, Arc::new(disk.clone()), options(None)).unwrap();
    let before = word(&media, C);
    disk.first_file().write(3 * 4096, &[9; 4096]).unwrap();
    assert_eq!(word(&media, C), before);
    media.kill();
}
