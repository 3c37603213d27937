//! Stores over a log on a disk whose power fails before each of its operations.

use everleaf::Engine;
use everleaf_testkit::{DiskCase, DiskReport};

#[test]
fn no_power_failure_of_a_disk_takes_back_what_was_acknowledged() {
    for engine in Engine::available() {
        let (mut report, begun) = (DiskReport::default(), std::time::Instant::now());
        for case in DiskCase::all(engine, None, 12, 1, 3) {
            case.explore(&mut report).unwrap_or_else(|violation| panic!("{violation}"));
        }
        println!("{engine}: {report:?} {:?}", begun.elapsed());
    }
}
