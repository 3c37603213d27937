//! `shell`: a pool, line by line.
//!
//! Map of the files: this one (reading lines) · `session` (what each line does) · `complete` (what
//! TAB offers).

mod complete;
mod session;

use std::io::{BufRead, Write};
use std::path::PathBuf;

use everleaf::Store;
use rustyline::error::ReadlineError;
use rustyline::{CompletionType, Config, Editor};

use self::complete::Completion;
use self::session::{After, Session};
use crate::failure::{Failure, Outcome, complain};

/// Put, get and scan interactively, with history and completion (TAB). Lines may also come from
/// standard input.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf shell words.pool
  printf 'put leaf \"a blade of a plant\"\\nget leaf\\n' | everleaf shell words.pool

`help` in the shell lists its commands. Words are separated by blanks; quote as in a POSIX shell. \
A line that fails says so, and the shell goes on; \
it exits 1 if the lines came from a file or pipe and one failed.")]
pub struct Args {
    /// The pool.
    pool: PathBuf,
    /// Do not write to it.
    #[arg(long)]
    read_only: bool,
    /// Do not remember lines in ~/.everleaf_history.
    #[arg(long)]
    no_history: bool,
}

/// Reads and does lines until there are no more.
pub fn run(args: Args) -> Outcome {
    let store =
        if args.read_only { Store::open_read_only(&args.pool)? } else { Store::open(&args.pool)? };
    let interactive = std::io::IsTerminal::is_terminal(&std::io::stdin());
    let failed = match interactive {
        true => talk(&store, args.no_history)?,
        false => obey(&store)?,
    };
    store.close()?;
    if failed && !interactive { Err(Failure::failed("a line failed")) } else { Ok(()) }
}

/// Lines of a person at a terminal.
fn talk(store: &Store, no_history: bool) -> Result<bool, Failure> {
    let unusable =
        |error: ReadlineError| Failure::failed(format!("the terminal cannot be used: {error}"));
    let config =
        Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
    let mut editor = Editor::with_config(config).map_err(unusable)?;
    editor.set_helper(Some(Completion::new(store)));
    let history =
        std::env::home_dir().filter(|_| !no_history).map(|home| home.join(".everleaf_history"));
    if let Some(history) = &history {
        let _ = editor.load_history(history); // There is none the first time.
    }
    let mut session = Session::new(store);
    let mut failed = false;
    loop {
        match editor.readline(&session.prompt()) {
            Ok(line) => match do_line(&mut session, &line)? {
                After::Quit => break,
                After::Failed => failed = true,
                After::GoOn => {}
            },
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(unusable(error)),
        }
        if let Some(helper) = editor.helper_mut() {
            helper.stand_in(session.tree());
        }
    }
    session.end();
    if let Some(history) = &history {
        let _ = editor.save_history(history); // A line less to remember is no failure.
    }
    Ok(failed)
}

/// Lines of a file or pipe.
fn obey(store: &Store) -> Result<bool, Failure> {
    let mut session = Session::new(store);
    let mut failed = false;
    for (number, line) in (1u64..).zip(std::io::stdin().lock().split(b'\n')) {
        let line = line
            .map_err(|error| Failure::failed(format!("standard input cannot be read: {error}")))?;
        let Ok(line) = str::from_utf8(line.strip_suffix(b"\r").unwrap_or(&line)) else {
            complain(&format!(
                "line {number} is not UTF-8; put such keys and values with `everleaf put` or \
                `everleaf load`"
            ));
            failed = true;
            continue;
        };
        match do_line(&mut session, line)? {
            After::Quit => break,
            After::Failed => failed = true,
            After::GoOn => {}
        }
    }
    session.end();
    Ok(failed)
}

/// Does a line and shows what comes of it.
fn do_line(session: &mut Session<'_>, line: &str) -> Result<After, Failure> {
    let mut output = Vec::new();
    let after = match session.run(line, &mut output) {
        Ok(after) => after,
        Err(sentence) => {
            complain(&sentence);
            After::Failed
        }
    };
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(&output)
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output(&error))?;
    Ok(after)
}
