//! Commands of the laboratory's program, which is started in place of this one.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::failure::{Failure, Outcome};

/// The program that has the commands.
const PROGRAM: &str = "everleaf-lab";

/// Words for a command of the laboratory, `--help` among them.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Words {
    /// See `everleaf-lab COMMAND --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<OsString>,
}

/// Starts the program with these words where it lies beside this one, or on PATH.
pub fn run(command: &str, words: Words) -> Outcome {
    let beside = std::env::current_exe().map(|program| program.with_file_name(PROGRAM));
    for program in beside.into_iter().map(OsString::from).chain([OsString::from(PROGRAM)]) {
        // It returns only if the program can't be started; the next place may have another.
        let error = Command::new(program).arg(command).args(&words.words).exec();
        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) {
            return Err(Failure::failed(format!("{PROGRAM} cannot be started: {error}")));
        }
    }
    Err(Failure::failed(format!(
        "`{command}` is a command of the program {PROGRAM}, which lies neither beside this one nor \
         on PATH; `cargo build --release -p {PROGRAM}` in the sources puts it beside this one"
    )))
}
