//! `shell`: a pool, line by line.
//!
//! Map of the files: this one (reading lines) · `session` (what each line does) · `words` (which
//! commands there are) · `complete` (what TAB offers, and hints).

mod complete;
mod session;
mod words;

use std::io::{BufRead, BufReader, IsTerminal, Write, stdin};
use std::path::{Path, PathBuf};
use std::time::Instant;

use everleaf::{Error, PoolError, Store};
use rustyline::error::ReadlineError;
use rustyline::{CompletionType, Config, Editor};
use signal_hook::consts::SIGINT;

use self::complete::Completion;
pub use self::session::{After, Session};
use crate::failure::{Failure, Outcome, complain};
use crate::{input, open};

/// Put, get and scan interactively, with history and completion (TAB). Lines may also come from
/// standard input.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf shell words.pool
  printf 'put leaf \"a blade of a plant\"\\nget leaf\\n' | everleaf shell words.pool

`help` in the shell lists its commands. Words are separated by blanks; quote as in a POSIX shell, \
and write `--` before keys and values that begin with `-`. An error in a line is printed on \
stderr, and the shell goes on; Ctrl-C ends a command, not the shell; \
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

/// Files that read files, at most.
const DEPTH: usize = 16;

/// Reads and does lines until there are no more.
pub fn run(args: Args) -> Outcome {
    let store = opened(&args)?;
    let interactive = stdin().is_terminal();
    let mut session = Session::new(&store);
    let after = match interactive {
        true => talk(&store, &mut session, args.no_history)?,
        false => obey(&mut session, &mut stdin().lock(), 0)?,
    };
    session.end();
    store.close()?;
    let failed = after == After::Failed && !interactive;
    if failed { Err(Failure::failed("a line failed")) } else { Ok(()) }
}

/// Opens the pool. Where another process has it open and only reads, it says how to do the same.
fn opened(args: &Args) -> Result<Store, Failure> {
    if args.read_only {
        return Ok(Store::open_read_only(&args.pool)?);
    }
    open::to_write(&args.pool).map_err(|error| match error {
        Error::Pool(PoolError::Locked { .. }) if Store::open_read_only(&args.pool).is_ok() => {
            Failure::failed(format!("{error}, or read it here with --read-only"))
        }
        error => error.into(),
    })
}

/// Lines of a person at a terminal.
fn talk(store: &Store, session: &mut Session<'_>, no_history: bool) -> Result<After, Failure> {
    let unusable =
        |error: ReadlineError| Failure::failed(format!("the terminal cannot be used: {error}"));
    let config =
        Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
    let mut editor = Editor::with_config(config).map_err(unusable)?;
    editor.set_helper(Some(Completion::new(store)));
    let history =
        std::env::home_dir().filter(|_| !no_history).map(|home| home.join(".everleaf_history"));
    // A pipe there would be waited for.
    let history = history.filter(|path| path.metadata().map_or(true, |found| found.is_file()));
    if let Some(history) = &history {
        let _ = editor.load_history(history); // There is none the first time.
    }
    // Ctrl-C ends the command that runs, and not the shell.
    signal_hook::flag::register(SIGINT, session.interruption())
        .map_err(|error| Failure::failed(format!("signals cannot be caught: {error}")))?;
    loop {
        match editor.readline(&session.prompt()) {
            Ok(lines) if do_lines(session, &lines)? == After::Quit => break,
            Ok(_) | Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(unusable(error)),
        }
        if let Some(helper) = editor.helper_mut() {
            helper.stand_in(session.tree());
        }
    }
    if let Some(history) = &history {
        let _ = editor.save_history(history); // A line less to remember is no failure.
    }
    Ok(After::GoOn)
}

/// Lines of a terminal: one, or several that were pasted.
fn do_lines(session: &mut Session<'_>, lines: &str) -> Result<After, Failure> {
    for line in lines.split('\n') {
        if do_line(session, line, 0)? == After::Quit {
            return Ok(After::Quit);
        }
    }
    Ok(After::GoOn)
}

/// Lines of a file or pipe; whether one failed, or it was left.
fn obey(
    session: &mut Session<'_>,
    input: &mut dyn BufRead,
    depth: usize,
) -> Result<After, Failure> {
    let mut after = After::GoOn;
    for (number, line) in (1u64..).zip(input.split(b'\n')) {
        let line =
            line.map_err(|error| Failure::failed(format!("lines cannot be read: {error}")))?;
        let Ok(line) = str::from_utf8(line.strip_suffix(b"\r").unwrap_or(&line)) else {
            complain(&format!(
                "line {number} is not UTF-8; put such keys and values with `everleaf put --hex` or \
                `everleaf load`"
            ));
            after = After::Failed;
            continue;
        };
        match do_line(session, line, depth)? {
            After::Quit if depth > 0 => return Ok(After::Quit),
            After::Quit => break,
            After::Failed => after = After::Failed,
            After::GoOn | After::Read(_) => {}
        }
    }
    Ok(after)
}

/// Does a line and shows what comes of it.
fn do_line(session: &mut Session<'_>, line: &str, depth: usize) -> Result<After, Failure> {
    let mut output = Vec::new();
    let begun = Instant::now();
    let done = session.run(line, &mut output);
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(&output)
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output(&error))?;
    drop(stdout);
    let after = match done {
        Ok(After::Read(file)) => read(session, &file, depth + 1)?,
        Ok(after) => after,
        Err(sentence) => {
            complain(&sentence);
            After::Failed
        }
    };
    if session.timer {
        complain(&format!("{:.6} s", begun.elapsed().as_secs_f64()));
    }
    Ok(after)
}

/// Does the lines of a file.
fn read(session: &mut Session<'_>, file: &Path, depth: usize) -> Result<After, Failure> {
    let opened = match depth > DEPTH {
        true => {
            Err(Failure::failed("files read files too deeply; is there one that reads itself?"))
        }
        false => input::open(file),
    };
    match opened {
        Ok((opened, _)) => obey(session, &mut BufReader::new(opened), depth),
        Err(Failure::Failed(sentence)) => {
            complain(&sentence);
            Ok(After::Failed)
        }
        Err(other) => Err(other),
    }
}
