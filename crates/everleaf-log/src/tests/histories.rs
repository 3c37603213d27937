//! Each rule holds, and without it a history breaks it.

use everleaf_pmem::{Media, MediaError};

use super::*;

const SHORT: Extent = Extent { steps: 21, outcomes: 8, stride: 5 };

#[test]
fn no_power_failure_takes_back_what_was_acknowledged_or_served() {
    let seen = explore(None, SHORT, 1).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{seen:?}");
    assert!(seen.cuts > 50 && seen.states > 1000, "{seen:?}");
}

/// Explorations with more and more seeds, until one shows what the rule is for.
fn broken_without(rule: Weak) -> String {
    (1..=6)
        .find_map(|seed| explore(Some(rule), SHORT, seed).err())
        .unwrap_or_else(|| panic!("nothing breaks without it"))
}

#[test]
fn an_unacknowledged_group_that_is_lost_before_a_later_one_is_no_damage() {
    let violation = broken_without(Weak::TailIsDamage);
    assert!(violation.contains("not opened"), "{violation}");
}

#[test]
fn groups_of_a_session_before_are_not_replayed() {
    broken_without(Weak::SessionsAreOne);
}

#[test]
fn what_is_read_from_the_page_cache_is_made_durable_before_it_is_served() {
    broken_without(Weak::ServeTheCache);
}

#[test]
fn a_checkpoint_copies_only_what_was_captured() {
    broken_without(Weak::CopyUncaptured);
}

#[test]
fn pages_are_written_after_the_group_that_they_depend_on() {
    broken_without(Weak::WriteBeforeGroup);
}

#[test]
fn segments_stay_until_the_control_block_is_durable() {
    let violation = broken_without(Weak::RecycleEarly);
    assert!(violation.contains("not opened"), "{violation}");
}

#[test]
fn a_segment_is_written_after_its_name_is_durable() {
    broken_without(Weak::NameNotSynced);
}

#[test]
fn the_log_is_shortened_after_the_file_is_synced() {
    broken_without(Weak::BaseNotSynced);
}

#[test]
fn the_log_is_shortened_after_the_stamp_is_durable() {
    let violation = broken_without(Weak::StampNotSynced);
    assert!(violation.contains("does not match the pool"), "{violation}");
}

#[test]
fn a_group_that_is_there_in_part_is_not_replayed() {
    broken_without(Weak::NoChecksum);
}

#[test]
fn the_durable_number_is_published_after_the_sync() {
    broken_without(Weak::PublishEarly);
}

/// The process is killed in a checkpoint or an opening, and the power fails in the opening after.
fn kill_then_cut_the_opening(weak: Option<Weak>, seed: u64) -> Result<u64, String> {
    let (mut chance, mut states) = (Chance(seed), 0);
    for killed_after in 0..60 {
        let (disk, media) = created(weak);
        let mut program = Program::default();
        program.run(&media, 9);
        disk.cut_before(disk.operations() + killed_after);
        program.run(&media, 12);
        media.kill();
        let killed = disk.after_kill();
        for cut in 0.. {
            let again = killed.after_kill();
            again.cut_before(cut);
            let opened = open(&again, weak);
            let done = opened.is_ok();
            opened.into_iter().for_each(Logged::kill);
            for left in outcomes(&again, 6, &mut chance) {
                let at = |error| format!("killed after {killed_after}, cut {cut}: {error}");
                let media = open(&left, weak).map_err(at)?;
                program.judge(&media).map_err(at)?;
                media.kill();
                states += 1;
            }
            if done {
                break;
            }
        }
    }
    Ok(states)
}

#[test]
fn the_stamp_that_a_new_session_relies_on_is_durable() {
    let states =
        kill_then_cut_the_opening(None, 1).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{states} states");
    let broken =
        (1..=6).find_map(|seed| kill_then_cut_the_opening(Some(Weak::StampOfTheCache), seed).err());
    assert!(broken.is_some_and(|violation| violation.contains("does not match the pool")));
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_and_nothing_that_was_is_lost() {
    for successes in 0..12 {
        let (disk, media) = created(None);
        let mut program = Program::default();
        disk.fail_sync_after(successes);
        program.run(&media, 40);
        assert!(program.begun < 40, "the program has gone on after a failed sync");
        let refused = media.wait_durable(media.durable_point()).unwrap_err();
        assert!(matches!(refused, MediaError::FailedBefore { .. }), "{refused}");
        media.kill();
        // The next process reads from the page cache what the disk has not got.
        let killed = disk.after_kill();
        let media = open(&killed, None).unwrap();
        let served = program.judge(&media).unwrap();
        media.kill();
        let promised = Program { acknowledged: served, ..program };
        for left in outcomes(&killed, 16, &mut Chance(successes)) {
            let media = open(&left, None).unwrap();
            promised.judge(&media).unwrap();
            media.kill();
        }
    }
}

#[test]
fn a_full_disk_ends_acknowledgements_and_loses_nothing() {
    for room in (8..40).map(|blocks| blocks * 4096) {
        let (disk, media) = created(None);
        disk.limit_room(room, false);
        let mut program = Program::default();
        program.run(&media, 60);
        media.kill();
        let left = disk.after_power_failure(|_| 0);
        left.limit_room(1 << 30, false);
        let media = open(&left, None).unwrap();
        program.judge(&media).unwrap();
        media.kill();
    }
}

#[test]
fn a_closed_log_is_gone_on_with_and_holds_everything() {
    let (disk, media) = created(None);
    let mut program = Program::default();
    program.run(&media, 3);
    drop(media);
    for round in 1..12 {
        let closed = disk.after_power_failure(|_| 0);
        let copy = open(&closed, None).unwrap();
        assert_eq!(program.judge(&copy), Ok(program.begun), "round {round}");
        copy.kill();
        let media = open(&disk, None).unwrap();
        program.run(&media, round * 7);
        program.acknowledged = program.begun;
        drop(media);
    }
}
