//! Some of the directed scenarios of an engine: those whose names have `PART` in them. `cargo run
//! -p everleaf-testkit --example scenarios -- ENGINE PART`
//!
//! Each is explored without mutants, and the first violation ends the program.

use std::process::ExitCode;

use everleaf::Engine;
use everleaf_engines::named;
use everleaf_testkit::directed_cases;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [engine, part] = &arguments[..] else {
        eprintln!("write `scenarios ENGINE PART`, where PART is a part of the scenarios' names");
        return ExitCode::from(2);
    };
    let explored = named(engine).and_then(|entry| explore(Engine::of(entry), part));
    match explored {
        Ok(count) if count > 0 => {
            println!("{count} scenarios");
            ExitCode::SUCCESS
        }
        Ok(_) => {
            eprintln!("no scenario of {engine} has `{part}` in its name");
            ExitCode::from(2)
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// How many there are, or what is wrong in one of them.
fn explore(engine: Engine, part: &str) -> Result<usize, String> {
    let mut count = 0;
    for case in directed_cases(engine).iter().filter(|case| case.name.contains(part)) {
        let name = &case.name;
        let report =
            case.explore(&case.options, &mut |_| {}).map_err(|e| format!("{name}: {e}"))?;
        if let Some(violation) = report.violations.first() {
            return Err(format!("{name}: {violation}"));
        }
        count += 1;
    }
    Ok(count)
}
